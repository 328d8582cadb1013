"""Operations that read: every source that may have some of it is asked, and what they say is put together with what is here.

A source that is down, slow or talks nonsense costs its part of the answer and no more; the header NGSILD-Warning says so.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote

import msgspec

from hanse.model import InvalidInput
from hanse.ngsild.distributed import AUXILIARY, CLAIMING, EXCLUSIVE, Share, asked_of, claimed_names, may_have, narrowed, without
from hanse.ngsild.distributed_merge import merged, read_entity
from hanse.ngsild.distributed_wire import (
    compacted,
    filter_members,
    filter_params,
    selector_bodies,
    selector_params,
)
from hanse.ngsild.entity import now_text
from hanse.ngsild.errors import BadRequestData, NgsiLdError
from hanse.ngsild.quality import quality_matches
from hanse.ngsild.query import EntityQuery, EntitySelector, matches
from hanse.ngsild.registrations import Sought, parse_csf
from hanse.node.distributed.forward import INVALID, REFUSED, NoReply, Outgoing, Reply, Trigger, warning
from hanse.node.http.answers import Answer, problem_answer
from hanse.node.store import Found

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from starlette.types import ASGIApp

    from hanse.ngsild.contexts import Context
    from hanse.ngsild.entity import Entity
    from hanse.ngsild.registrations import Registration, TimeQuery
    from hanse.node.distributed.provision import Handler
    from hanse.node.distributed.sources import Provider
    from hanse.node.http.call import Call

RETRIEVE: Final = ("retrieveEntity", "queryEntity", "queryBatch")  # the ways to ask, the best one first
QUERY: Final = ("queryEntity", "queryBatch")
QUERY_BY_POST: Final = ("queryBatch", "queryEntity")
WARNING: Final = "NGSILD-Warning"
COUNT: Final = "ngsild-results-count"

T = TypeVar("T")


def consumed(handler: Handler) -> Handler:
    """The endpoint, as it is if there is no source to be asked; else with `call.reading` to ask them by."""

    @wraps(handler)
    def answer(call: Call) -> Awaitable[ASGIApp]:
        return _consume(call, handler) if call.tenant.distributed.is_any else handler(call)

    return answer


async def _consume(call: Call, handler: Handler) -> ASGIApp:
    if call.flag("local"):
        return await handler(call)
    call.reading = reading = Reading(call)
    try:
        answer = await handler(call)
    except NgsiLdError as error:  # it may be because of a source, so it is told with the warnings
        answer = problem_answer(error)
    except InvalidInput as error:
        answer = problem_answer(BadRequestData(str(error)))
    if isinstance(answer, Answer):
        for failure in reading.failures:
            answer.add(WARNING, warning(failure))
    return answer


class Reading:
    """What sources have to say to one request."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.tenant = call.tenant
        self.failures: list[NoReply] = []
        self.counts: list[int] = []  # how many entities each source says to have, if it was asked

    # --- who is asked -----------------------------------------------------------------------------------------------

    def providers(
        self, selectors: tuple[EntitySelector, ...], context: Context, time: TimeQuery | None = None
    ) -> dict[str, Provider]:
        """Those that may have what is selected, by registration; of a certain time, if that is asked for."""
        csf = self.call.params.get("csf")
        sought = Sought(selectors=selectors, csf=parse_csf(csf, context) if csf else "", time=time)
        trigger = Trigger(self.call.headers, context)
        distributed = self.tenant.distributed
        return {p.registration.id: p for p in self.tenant.providers(sought) if not distributed.is_loop(p, trigger)}

    # --- one entity -------------------------------------------------------------------------------------------------

    async def entity(self, id_: str, context: Context, attrs: tuple[str, ...], local: Entity | None) -> Entity | None:
        """An entity as everybody knows it together."""
        types = self.call.params.get("type")
        selector = EntitySelector(
            tuple((context.expand_type(name.strip()),) for name in types.split(",")) if types else (), (id_,)
        )
        providers = self.providers((selector,), context)
        if not providers:
            return local
        shares = asked_of([p.registration for p in providers.values()], (selector,), frozenset(attrs), frozenset(RETRIEVE))
        said = await self._ask(shares, providers, (selector,), EntityQuery(limit=1), context, RETRIEVE, split=False)
        found = [(share, [entity for entity in entities if entity.id == id_]) for share, entities in said]
        together = self._together(found, [] if local is None else [local], [p.registration for p in providers.values()])
        return together.get(id_)

    # --- many -------------------------------------------------------------------------------------------------------

    async def found(self, asked: EntityQuery, context: Context) -> Found | None:
        """The page that a query asks for; None: nobody else is concerned."""
        providers = self.providers(asked.selectors, context)
        registrations = [p.registration for p in providers.values() if may_have(p.registration, asked)]
        shares = asked_of(registrations, asked.selectors, frozenset(asked.attrs), frozenset(QUERY))
        if not shares:
            return None
        if asked.order_by:
            raise BadRequestData("what several sources answer has no order but that of ids; leave orderBy out, or say local=true")
        # who sees only a part of things is answered by what he sees of the whole
        split = self.call.flag("splitEntities") or self.tenant.sees_part
        limits = self.call.node.settings.limits
        needed = min(limits.page_max, asked.offset + asked.limit) if not split else limits.page_max
        if asked.offset + asked.limit > limits.page_max:
            raise BadRequestData(f"of what several sources have, the first {limits.page_max} can be paged through")
        ways = QUERY_BY_POST if self.call.method == "POST" else QUERY
        first = msgspec.structs.replace(asked, limit=needed, offset=0)
        here = _unfiltered(first) if split else first
        said = await self._ask(shares, providers, asked.selectors, here, context, ways, split=split)
        local = await self.call.entities(here)
        together = self._together(said, local.entities, registrations)
        entities = [together[id_] for id_ in sorted(together)]
        if split:
            quality_of = self.tenant.measure.of_entity(now_text())
            entities = [entity for entity in entities if matches(asked, entity, quality_of)]
        count = len(entities) if asked.count else None
        if asked.count and not split:  # those that several have count once, as far as is to be seen
            twice = len(local.entities) + sum(len(found) for _, found in said) - len(entities)
            count = max(len(entities), (local.count or 0) + sum(self.counts) - twice)
        return Found(entities[asked.offset : asked.offset + asked.limit], count)

    # --- asking -----------------------------------------------------------------------------------------------------

    async def _ask(
        self,
        shares: Iterable[Share],
        providers: dict[str, Provider],
        selectors: tuple[EntitySelector, ...],
        query: EntityQuery,
        context: Context,
        ways: tuple[str, ...],
        *,
        split: bool,
    ) -> list[tuple[Share, list[Entity]]]:
        distributed = self.tenant.distributed
        asked: list[tuple[Share, Provider, Outgoing]] = []
        for share in shares:
            provider = providers[share.registration.id]
            try:
                wire = await distributed.wire(provider, context)
            except NgsiLdError as error:
                self.failures.append(NoReply(provider, INVALID, str(error)))
                continue
            way = next(way for way in ways if way in share.registration.operations)
            names = None if split else share.names  # attrs selects entities, too; only what is put together can be selected
            asked += ((share, provider, outgoing) for outgoing in _outgoing(way, share, names, selectors, query, wire))
        replies = await distributed.ask_all(
            ((provider, outgoing) for _, provider, outgoing in asked), Trigger(self.call.headers, context)
        )
        said: list[tuple[Share, list[Entity]]] = []
        quality_of = self.tenant.measure.of_entity(now_text())
        for (share, _, _), reply in zip(asked, replies, strict=True):
            found = self.understood(reply, read_entity)
            if query.quality and share.names is None:  # a source that does not know the parameter may have ignored it
                found = [entity for entity in found if quality_matches(query.quality, quality_of(entity))]
            told = reply.headers.get(COUNT, "") if isinstance(reply, Reply) else ""
            self.counts.append(max(int(told), len(found)) if told.isascii() and told.isdigit() and len(told) < 16 else len(found))
            said.append((share, found))
        return said

    def understood(self, reply: Reply | NoReply, read: Callable[[Any, Context], T]) -> list[T]:
        """What a source has answered; what it could not is remembered, for a warning."""
        if isinstance(reply, NoReply):
            self.failures.append(reply)
            return []
        provider = reply.provider
        if reply.status == 404:
            return []
        if not reply.is_success:
            self.failures.append(NoReply(provider, REFUSED, f"the source answers {reply.status}"))
            return []
        found: list[T] = []
        for body in reply.data if isinstance(reply.data, list) else [reply.data]:
            try:
                seen = self.tenant.looked_at(read(body, reply.context))
                if seen is not None:
                    found.append(seen)
            except (NgsiLdError, InvalidInput) as error:
                self.failures.append(NoReply(provider, INVALID, f"the source answers what is no entity: {error}"[:300]))
                break
        return found

    # --- putting together -------------------------------------------------------------------------------------------

    def _together(
        self, said: list[tuple[Share, list[Entity]]], local: list[Entity], registrations: list[Registration]
    ) -> dict[str, Entity]:
        """Entities by id. What a source has for itself counts only as that source says it."""
        exclusive = [r for r in registrations if r.mode == EXCLUSIVE]
        claiming = [r for r in registrations if r.mode in CLAIMING]
        primary: dict[str, list[Entity]] = {}
        auxiliary: dict[str, list[Entity]] = {}
        for entity in local:
            _put(primary, entity, claimed_names(claiming, entity))
        for share, entities in said:
            mode = share.registration.mode
            for entity in entities:
                if share.names is not None:
                    entity = without(entity, frozenset(entity.attributes) - share.names)  # noqa: PLW2901
                if mode == EXCLUSIVE:
                    _put(primary, entity, frozenset())
                else:
                    claims = claimed_names(exclusive if mode == "redirect" else claiming, entity)
                    _put(auxiliary if mode == AUXILIARY else primary, entity, claims)
        found: dict[str, Entity] = {}
        for id_ in {**primary, **auxiliary}:
            entity_ = merged(primary.get(id_, ()), auxiliary.get(id_, ()))
            if entity_ is not None:
                found[id_] = entity_
        return found


def _put(found: dict[str, list[Entity]], entity: Entity, claims: frozenset[str] | None) -> None:
    if claims is not None:
        found.setdefault(entity.id, []).append(without(entity, claims))


def _unfiltered(query: EntityQuery) -> EntityQuery:
    return EntityQuery(selectors=query.selectors, dataset_ids=query.dataset_ids, limit=query.limit)


def _outgoing(
    way: str,
    share: Share,
    names: frozenset[str] | None,
    selectors: tuple[EntitySelector, ...],
    query: EntityQuery,
    wire: Context,
) -> list[Outgoing]:
    """How to ask a source: by id, by URL parameters (once for each selector), or by a Query. It is to say its times as well."""
    attrs = {"attrs": compacted(names, wire)} if names else {}
    params = {"options": "sysAttrs"}
    if way == "retrieveEntity":
        return [Outgoing("GET", f"/entities/{quote(selectors[0].ids[0], safe=':')}", attrs | params)]
    params |= {"limit": str(query.limit)} | ({"count": "true"} if query.count else {})
    kept = [narrowed(share.registration, selector) for selector in selectors or (EntitySelector(),)]
    if way == "queryEntity":
        filters = filter_params(query, wire)
        return [Outgoing("GET", "/entities", selector_params(selector, wire) | attrs | filters | params) for selector in kept]
    body: dict[str, Any] = {"type": "Query"}
    if any(selector != EntitySelector() for selector in kept):
        body["entities"] = [selected for selector in kept for selected in selector_bodies(selector, wire)]
    if names:
        body["attrs"] = sorted(map(wire.compact_iri, names))
    return [Outgoing("POST", "/entityOperations/query", params, body | filter_members(query, wire))]
