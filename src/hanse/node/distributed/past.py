"""Reading the past over several sources. What is aggregated is computed here, of what is here: sums of sums would be wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from hanse.ngsild.distributed import asked_of, may_have, narrowed
from hanse.ngsild.distributed_past import merged_pages, read_evolution
from hanse.ngsild.distributed_wire import compacted, filter_members, filter_params, selector_bodies, selector_params
from hanse.ngsild.errors import BadRequestData, NgsiLdError, ResourceNotFound
from hanse.ngsild.query import EntityQuery, EntitySelector
from hanse.ngsild.registrations import TimeQuery, parse_time_query
from hanse.ngsild.temporal import Page
from hanse.node.distributed.forward import INVALID, NoReply, Outgoing, Reply, Trigger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hanse.ngsild.contexts import Context
    from hanse.ngsild.distributed import Share
    from hanse.ngsild.temporal_parsing import TemporalQuery
    from hanse.node.distributed.consumption import Reading
    from hanse.node.distributed.sources import Provider

RETRIEVE: Final = ("retrieveTemporal", "queryTemporal")  # the ways to ask, the best one first
QUERY: Final = ("queryTemporal", "queryBatchTemporal")
ALWAYS: Final = TimeQuery("after", datetime.min.replace(tzinfo=UTC))
_PARTIAL: Final = 206
_TEMPORAL: Final = ("timerel", "timeAt", "endTimeAt", "timeproperty", "lastN")


async def evolution(
    reading: Reading,
    here: Callable[[], Awaitable[Page]],
    id_: str,
    asked: TemporalQuery,
    attrs: tuple[str, ...],
    context: Context,
) -> Page:
    """The past of one entity. Raises ResourceNotFound if nobody knows it."""
    missing: ResourceNotFound | None = None
    page = Page([])
    try:
        page = await here()
    except ResourceNotFound as error:
        missing = error
    selector = EntitySelector((), (id_,))
    others = await _pages(reading, EntityQuery(selectors=(selector,), attrs=attrs, limit=1), asked, context, RETRIEVE)
    if others:
        page = merged_pages([page, *others], asked)
        page.evolutions = [found for found in page.evolutions if found.id == id_]
    if not page.evolutions:
        raise missing or ResourceNotFound(f"nothing is known of the past of {id_!r}")
    return page


async def evolutions(
    reading: Reading,
    here: Callable[[EntityQuery], Awaitable[tuple[Page, int | None]]],
    found: EntityQuery,
    asked: TemporalQuery,
    context: Context,
) -> tuple[Page, int | None]:
    """The past of what a query finds, and how many there are if that is asked for."""
    most = reading.call.node.settings.limits.page_max
    end = found.offset + found.limit
    first = msgspec.structs.replace(found, offset=0, limit=min(end, most))
    others = await _pages(reading, first, asked, context, QUERY)
    if not others:
        return await here(found)
    if end > most:
        raise BadRequestData(f"of what several sources have, the first {most} can be paged through")
    page, count = await here(first)
    together = merged_pages([page, *others], asked)
    if count is not None:
        count = max(count, len(together.evolutions))
    together.evolutions = together.evolutions[found.offset : end]
    return together, count


async def _pages(
    reading: Reading, query: EntityQuery, asked: TemporalQuery, context: Context, ways: tuple[str, ...]
) -> list[Page]:
    """What sources answer."""
    if asked.aggregation is not None:
        return []
    if reading.tenant.sees_part and (query.q or query.geo or query.scope_q or query.quality):
        return []  # sources would answer by what they have, and so tell more than may be seen
    temporal = await _temporal(reading)
    providers = reading.providers(query.selectors, context)  # of those, too, that do not say of which time they are
    providers |= reading.providers(query.selectors, context, parse_time_query(temporal) if "timerel" in temporal else ALWAYS)
    registrations = [p.registration for p in providers.values() if may_have(p.registration, query)]
    requests: list[tuple[Provider, Outgoing]] = []
    for share in asked_of(registrations, query.selectors, frozenset(query.attrs), frozenset(ways)):
        provider = providers[share.registration.id]
        try:
            wire = await reading.tenant.distributed.wire(provider, context)
        except NgsiLdError as error:
            reading.failures.append(NoReply(provider, INVALID, str(error)))
            continue
        way = next(way for way in ways if way in share.registration.operations)
        requests += ((provider, request) for request in _outgoing(way, share, query, temporal, wire))
    replies = await reading.tenant.distributed.ask_all(requests, Trigger(reading.call.headers, context))
    pages: list[Page] = []
    for reply in replies:
        found = reading.understood(reply, partial(read_evolution, asked=asked))
        if found:
            pages.append(Page(found, is_partial=isinstance(reply, Reply) and reply.status == _PARTIAL))
    return pages


async def _temporal(reading: Reading) -> dict[str, Any]:
    """What the request says of time, as it says it."""
    said: Any = reading.call.params
    if reading.call.method == "POST":
        said = (await reading.call.raw_json()).get("temporalQ", {})
    return {name: said[name] for name in _TEMPORAL if name in said}


def _outgoing(way: str, share: Share, query: EntityQuery, temporal: dict[str, Any], wire: Context) -> list[Outgoing]:
    params = {"options": "sysAttrs"}
    if share.names and way != "queryBatchTemporal":
        params["attrs"] = compacted(share.names, wire)
    in_url = {name: str(value) for name, value in temporal.items()}
    if way == "retrieveTemporal":
        return [Outgoing("GET", f"/temporal/entities/{quote(query.selectors[0].ids[0], safe=':')}", params | in_url)]
    params["limit"] = str(query.limit)
    kept = [narrowed(share.registration, selector) for selector in query.selectors or (EntitySelector(),)]
    if way == "queryTemporal":
        if "timerel" not in in_url:  # which a query needs
            in_url |= {"timerel": "after", "timeAt": "0001-01-01T00:00:00Z"}
        filters = filter_params(query, wire)
        return [Outgoing("GET", "/temporal/entities", selector_params(s, wire) | filters | params | in_url) for s in kept]
    body: dict[str, Any] = {"type": "Query", "temporalQ": temporal} | filter_members(query, wire)
    if any(selector != EntitySelector() for selector in kept):
        body["entities"] = [selected for selector in kept for selected in selector_bodies(selector, wire)]
    if share.names:
        body["attrs"] = sorted(map(wire.compact_iri, share.names))
    return [Outgoing("POST", "/temporal/entityOperations/query", params, body)]
