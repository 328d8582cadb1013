"""Operations that change many entities: batches, of which each source gets its part in one request, and purging."""

from __future__ import annotations

import asyncio
from functools import wraps
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from hanse.ngsild.distributed import AUXILIARY, Share, divide, names_for, narrowed
from hanse.ngsild.distributed_wire import (
    attribute_names,
    compacted,
    filter_params,
    linkable,
    part_of,
    renamed,
    rest_of,
    selector_params,
)
from hanse.ngsild.errors import Conflict, NgsiLdError
from hanse.ngsild.parameters import parse_query
from hanse.ngsild.query import EntitySelector
from hanse.ngsild.registrations import Sought
from hanse.ngsild.uris import is_uri
from hanse.node.distributed.forward import NoReply, Outgoing, Reply, Trigger
from hanse.node.distributed.provision import (
    Failure,
    entity_error,
    failures_of,
    known_types,
    looped,
    passed_on,
)
from hanse.node.http.answers import Answer, json_answer

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from starlette.types import ASGIApp

    from hanse.ngsild.contexts import Context
    from hanse.node.distributed.provision import Handler
    from hanse.node.distributed.sources import Provider
    from hanse.node.http.call import Call

TURN: Final = 100  # documents that are looked at before others have their turn
DELETES: Final = "deleteBatch"
CREATES: Final = ("createBatch", "upsertBatch")
SINGLE: Final = {  # what a source without an operation for batches can do with each of its documents
    "createBatch": "createEntity",
    "upsertBatch": "createEntity",  # and, if it is there already, one that changes it
    "updateBatch": "appendAttrs",
    "mergeBatch": "mergeEntity",
    "deleteBatch": "deleteEntity",
}
SINGLE_AT_ONCE: Final = 16


class _Document(Struct):
    """One element of a batch: an entity, a part of one, or the id of one that is to go."""

    given: Any
    id: str = ""
    context: Context | None = None


def batched(handler: Handler, operation: str) -> Handler:
    """The endpoint of a batch, as it is if there is no source that could have a part in it."""

    @wraps(handler)
    def answer(call: Call) -> Awaitable[ASGIApp]:
        return _batch(call, handler, operation) if call.tenant.distributed.is_any else handler(call)

    return answer


class _Parts:
    """Who gets what of a batch."""

    def __init__(self) -> None:
        self.local: list[Any] = []
        self.for_source: dict[str, tuple[Provider, list[tuple[_Document, frozenset[str] | None]]]] = {}
        self.failures: list[Failure] = []
        self.ids: dict[str, None] = {}
        self.parts: dict[str, int] = {}  # how many have something to do with an entity

    def give(self, provider: Provider, document: _Document, names: frozenset[str] | None) -> None:
        self.for_source.setdefault(provider.registration.id, (provider, []))[1].append((document, names))


async def _batch(call: Call, handler: Handler, operation: str) -> ASGIApp:
    if call.flag("local"):
        return await handler(call)
    providers = [p for p in call.tenant.providers(Sought()) if p.registration.mode != AUXILIARY]
    given = await call.raw_json()
    if not providers or not isinstance(given, list) or len(given) > call.node.settings.limits.batch_max:
        return await handler(call)
    context = await call.context()
    trigger = Trigger(call.headers, context)
    parts = _Parts()
    for position, item in enumerate(given):
        if position % TURN == TURN - 1:
            await asyncio.sleep(0)
        await _distribute(call, await _document(call, item, context), operation, providers, trigger, parts)
    if not parts.for_source and not parts.failures:
        return await handler(call)
    created: list[str] = []
    if parts.local:
        call.replace_body(parts.local)
        created = _local_result(await handler(call), parts)
    common = _common(parts, context)
    trigger = Trigger(call.headers, common)
    results = await asyncio.gather(
        *(_sent(call, operation, provider, documents, trigger) for provider, documents in parts.for_source.values())
    )
    for ids, reply in (result for replies in results for result in replies):
        created += _source_result(reply, ids, parts)
    return _told(call, operation, parts, list(dict.fromkeys(created)))


async def _sent(
    call: Call, operation: str, provider: Provider, documents: list[tuple[_Document, frozenset[str] | None]], trigger: Trigger
) -> list[tuple[list[str], Reply | NoReply]]:
    """What a source answers: to a batch, or to one request for each of its documents if it takes no batches."""
    distributed = call.tenant.distributed
    batch = await _outgoing(call, operation, provider, documents, trigger.context)
    if operation in provider.registration.operations:
        return [([document.id for document, _ in documents], await distributed.ask(provider, batch, trigger))]
    replies: list[tuple[list[str], Reply | NoReply]] = []
    every = [(document.id, body) for (document, _), body in zip(documents, batch.body, strict=True)]
    for start in range(0, len(every), SINGLE_AT_ONCE):
        some = every[start : start + SINGLE_AT_ONCE]
        answers = await asyncio.gather(*(_one(call, operation, provider, id_, body, trigger) for id_, body in some))
        replies += [([id_], answer) for (id_, _), answer in zip(some, answers, strict=True)]
        away = next((answer for answer in answers if isinstance(answer, NoReply)), None)
        if away is not None:  # and will not come back for the rest
            replies.append(([id_ for id_, _ in every[start + SINGLE_AT_ONCE :]], away))
            break
    return replies


async def _one(call: Call, operation: str, provider: Provider, id_: str, body: Any, trigger: Trigger) -> Reply | NoReply:
    ask = call.tenant.distributed.ask
    path = f"/entities/{quote(id_, safe=':')}"
    options = {"options": call.params["options"]} if "options" in call.params else {}
    if operation == DELETES:
        return await ask(provider, Outgoing("DELETE", path), trigger)
    if operation == "updateBatch":
        return await ask(provider, Outgoing("POST", path + "/attrs", options, body), trigger)
    if operation == "mergeBatch":
        return await ask(provider, Outgoing("PATCH", path, {}, body), trigger)
    made = await ask(provider, Outgoing("POST", "/entities", {}, body), trigger)
    if operation != "upsertBatch" or isinstance(made, NoReply) or made.status != 409:
        return made
    changing = Outgoing("POST", path + "/attrs", {}, body) if "update" in call.options else Outgoing("PUT", path, {}, body)
    return await ask(provider, changing, trigger)


async def _document(call: Call, item: Any, context: Context) -> _Document:
    """What cannot be read here is for the endpoint to refuse."""
    if isinstance(item, str):
        return _Document(item, item if is_uri(item) else "", context)
    id_ = item.get("id") if isinstance(item, dict) else None
    if not isinstance(id_, str) or not is_uri(id_):
        return _Document(item)
    try:
        own = await call.resolve(call.taken_context(item.copy()))
    except NgsiLdError:
        return _Document(item)
    return _Document(item, id_, own)


async def _distribute(
    call: Call, document: _Document, operation: str, providers: list[Provider], trigger: Trigger, parts: _Parts
) -> None:
    context = document.context
    if not document.id or context is None or (operation == DELETES) is not isinstance(document.given, str):
        parts.local.append(document.given)
        return
    body = document.given if isinstance(document.given, dict) else None
    names = frozenset(attribute_names(body, context).values()) if body is not None else None
    selector = EntitySelector(known_types(call, document.id, body, context), (document.id,))
    division = divide([p.registration for p in providers], selector, names, operation, SINGLE[operation])
    parts.ids[document.id] = None
    try:
        if division.shares:
            call.tenant.may_forward(selector.types, document.id, names)
    except NgsiLdError as refused:
        parts.failures.append(Failure(refused.problem(), refused.status, names, None, document.id))
        return
    by_id = {provider.registration.id: provider for provider in providers}
    if division.is_local:
        parts.local.append(rest_of(body, context, division.taken) if body is not None else document.given)
    for share in division.refused:
        error = Conflict("a context source has this for itself, and cannot do that with it")
        parts.failures.append(Failure(error.problem(), error.status, share.names, share.registration.id, document.id))
    for share in division.shares:
        provider = by_id[share.registration.id]
        if not call.tenant.distributed.is_loop(provider, trigger):
            parts.give(provider, document, None if share.names == names else share.names)
        elif share.registration.mode != "inclusive":
            parts.failures.append(msgspec.structs.replace(looped(share), entity=document.id))


def _common(parts: _Parts, context: Context) -> Context:
    """The context that a batch travels in: that of its documents, if they have one in common that has a URL."""
    found = {
        document.context
        for _, documents in parts.for_source.values()
        for document, _ in documents
        if document.context is not None
    }
    return linkable(next(iter(found))) if len(found) == 1 else context


async def _outgoing(
    call: Call, operation: str, provider: Provider, documents: list[tuple[_Document, frozenset[str] | None]], common: Context
) -> Outgoing:
    try:
        wire = await call.tenant.distributed.wire(provider, common)
    except NgsiLdError:  # asking will say so
        wire = common
    bodies = [
        renamed(part_of(document.given, document.context, names), document.context, wire)
        if isinstance(document.given, dict) and document.context is not None
        else document.given
        for document, names in documents
    ]
    path = "/entityOperations/" + operation.removesuffix("Batch")
    return Outgoing("POST", path, passed_on(call, common, wire), bodies)


def _local_result(answer: ASGIApp, parts: _Parts) -> list[str]:
    """The entities that have been made here; failures are noted."""
    if not isinstance(answer, Answer) or not answer.body:
        return []
    data = msgspec.json.decode(answer.body)
    if answer.status == 201:
        return list(data)
    for item in data.get("errors", ()):
        status = item["error"].get("status", 400)
        parts.failures.append(Failure(item["error"], status, None, None, item.get("entityId")))
    return []


def _source_result(reply: Reply | NoReply, ids: list[str], parts: _Parts) -> list[str]:
    failures = failures_of(reply, None)
    for failure in failures:
        entities = [failure.entity] if failure.entity else ids
        parts.failures += (msgspec.structs.replace(failure, entity=id_) for id_ in entities)
    if failures or not isinstance(reply, Reply) or reply.status != 201:
        return []
    data = reply.data if isinstance(reply.data, list) else ids
    return [id_ for id_ in data if id_ in ids]


def _told(call: Call, operation: str, parts: _Parts, created: list[str]) -> ASGIApp:
    if parts.failures:
        failed = {failure.entity for failure in parts.failures}
        errors = [entity_error(failure, None) for failure in parts.failures]
        return call.answer({"success": [id_ for id_ in parts.ids if id_ not in failed], "errors": errors}, status=207)
    if operation in CREATES and created:
        return call.answer(created, status=201)
    return call.answer(list(parts.ids), status=201) if operation == "createBatch" else call.no_content()


# --- purging ------------------------------------------------------------------------------------------------------------


def purged(handler: Handler) -> Handler:
    """The endpoint that deletes what a query finds, as it is if there is no source that could have a part in it."""

    @wraps(handler)
    def answer(call: Call) -> Awaitable[ASGIApp]:
        return _purge(call, handler) if call.tenant.distributed.is_any else handler(call)

    return answer


async def _purge(call: Call, handler: Handler) -> ASGIApp:
    answer = await handler(call)
    if call.flag("local") or call.tenant.sees_part:  # what a source would purge, nobody could look at before
        return answer
    context = await call.context()
    asked = parse_query(call.params, context, call.node.settings.limits, call.criteria)
    distributed = call.tenant.distributed
    trigger = Trigger(call.headers, context)
    failures: list[Failure] = []
    outgoing: list[tuple[Provider, Outgoing]] = []
    for provider in call.tenant.providers(Sought(selectors=asked.selectors, attrs=asked.attrs)):
        registration = provider.registration
        is_claim = registration.mode in ("exclusive", "redirect")
        share = Share(registration, names_for(registration, asked.selectors))
        if registration.mode == AUXILIARY or (not is_claim and "purgeEntity" not in registration.operations):
            continue
        if "purgeEntity" not in registration.operations:
            error = Conflict("a context source has some of this for itself, and cannot purge it")
            failures.append(Failure(error.problem(), error.status, None, registration.id))
        elif distributed.is_loop(provider, trigger):
            failures += [looped(share)] if is_claim else []
        else:
            outgoing += ((provider, request) for request in await _purges(call, provider, share, context))
    for reply in await distributed.ask_all(outgoing, trigger):
        failures += failures_of(reply, None)
    if not failures:
        return answer
    return json_answer({"success": [], "errors": [entity_error(failure, None) for failure in failures]}, 207)


async def _purges(call: Call, provider: Provider, share: Share, context: Context) -> list[Outgoing]:
    """A purge is kept to what a source is registered with: its entities, and of these its attributes."""
    try:
        wire = await call.tenant.distributed.wire(provider, context)
    except NgsiLdError:
        wire = context
    asked = parse_query(call.params, context, call.node.settings.limits, call.criteria)
    keep, drop = (
        frozenset(context.expand_term(name.strip()) for name in call.params[param].split(",")) if param in call.params else None
        for param in ("keep", "drop")
    )
    params = filter_params(asked, wire)
    if asked.attrs:
        params["attrs"] = compacted(asked.attrs, wire)
    if share.names is not None:
        left = share.names - keep if keep is not None else share.names & drop if drop is not None else share.names
        if not left:
            return []
        params["drop"] = compacted(left, wire)
    elif drop is not None:
        params["drop"] = compacted(drop, wire)
    elif keep is not None:
        params["keep"] = compacted(keep, wire)
    selectors = [narrowed(share.registration, selector) for selector in asked.selectors or (EntitySelector(),)]
    return [Outgoing("DELETE", "/entities", selector_params(selector, wire) | params) for selector in selectors]
