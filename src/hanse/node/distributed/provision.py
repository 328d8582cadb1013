"""Operations that change an entity, taken apart: what is for this node is done here, by the same endpoint as ever, on a request
with the rest left out; what is for others is sent there. The answer says what failed, and where.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import quote

import msgspec
from msgspec import Struct

from hanse.ngsild.contexts import Context
from hanse.ngsild.distributed import AUXILIARY, BadGateway, GatewayTimeout, LoopDetected, Share, divide
from hanse.ngsild.distributed_wire import attribute_names, part_of, renamed, renamed_attribute, rest_of, types_of
from hanse.ngsild.errors import ERRORS, BadRequestData, Conflict, InvalidRequest, NgsiLdError, ResourceNotFound, TooManyPending
from hanse.ngsild.query import EntitySelector
from hanse.ngsild.registrations import Sought
from hanse.ngsild.uris import check_uri
from hanse.node.distributed.forward import NoReply, Outgoing, Reply, Trigger
from hanse.node.http.answers import Answer, json_answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import ASGIApp

    from hanse.node.distributed.sources import Provider
    from hanse.node.http.call import Call

Handler: TypeAlias = "Callable[[Call], Awaitable[ASGIApp]]"

# where an operation says what it is about: an entity in the body; its id in the path and a part of it in the body; an attribute
# in the path, and its value in the body or nowhere; or the id alone
About: TypeAlias = Literal["entity", "part", "attribute", "id"]

PASSED_ON: Final = ("options", "format", "type", "datasetId", "deleteAll", "observedAt", "lang")  # URL parameters
_CANNOT: Final = "a context source has this for itself, and cannot do that with it"


class Operation(Struct, frozen=True):
    name: str  # as registrations call it (4.20)
    about: About
    tells: Literal["entities", "attributes"]  # what the answer lists, if some of it fails


CREATE: Final = Operation("createEntity", "entity", "entities")
REPLACE: Final = Operation("replaceEntity", "part", "entities")
MERGE: Final = Operation("mergeEntity", "part", "attributes")
DELETE: Final = Operation("deleteEntity", "id", "entities")
APPEND: Final = Operation("appendAttrs", "part", "attributes")
UPDATE: Final = Operation("updateEntity", "part", "attributes")
PARTIAL_UPDATE: Final = Operation("updateAttrs", "attribute", "attributes")
REPLACE_ATTRIBUTE: Final = Operation("replaceAttrs", "attribute", "attributes")
DELETE_ATTRIBUTE: Final = Operation("deleteAttrs", "attribute", "attributes")


class Failure(Struct, frozen=True):
    """What could not be done of a request, and where."""

    problem: dict[str, Any]
    status: int
    names: frozenset[str] | None = None  # attributes; None: of the entity as a whole
    registration: str | None = None  # None: here
    entity: str | None = None


def provided(handler: Handler, operation: Operation) -> Handler:
    """The endpoint, as it is if there is no source that could have a part in it."""

    @wraps(handler)
    def answer(call: Call) -> Awaitable[ASGIApp]:
        return _provide(call, handler, operation) if call.tenant.distributed.is_any else handler(call)

    return answer


async def _provide(call: Call, handler: Handler, operation: Operation) -> ASGIApp:
    if call.flag("local"):
        return await handler(call)
    subject = await _subject(call, operation)
    if subject is None:
        return await handler(call)
    division = divide([p.registration for p in subject.providers], subject.selector, subject.names, operation.name)
    if not division.shares and not division.refused:
        return await handler(call)
    call.tenant.may_forward(subject.selector.types, subject.id, subject.names)
    failures: list[Failure] = []
    done: set[str] = set()
    parts = len(division.shares) + len(division.refused) + division.is_local
    if division.is_local:
        if division.taken and isinstance(subject.body, dict) and operation.about != "attribute":
            call.replace_body(rest_of(subject.body, subject.context, division.taken))
        failed, updated = await _locally(call, handler, subject.names and subject.names - division.taken)
        failures += failed
        done |= updated
    failures += (_refused(share) for share in division.refused)
    by_id = {provider.registration.id: provider for provider in subject.providers}
    trigger = Trigger(call.headers, subject.context)
    asked: list[tuple[Provider, Share, Outgoing]] = []
    for share in division.shares:
        provider = by_id[share.registration.id]
        if call.tenant.distributed.is_loop(provider, trigger):
            if provider.registration.mode == "inclusive":
                parts -= 1
            else:
                failures.append(looped(share))
        else:
            asked.append((provider, share, await _outgoing(call, operation, subject, share, provider)))
    answers = await call.tenant.distributed.ask_all(((provider, outgoing) for provider, _, outgoing in asked), trigger)
    for (_, share, _), reply in zip(asked, answers, strict=True):
        found = failures_of(reply, share.names)
        failures += found
        if not found:
            done |= share.names or frozenset()
    if failures:
        return _told(operation, subject.id, failures, done, parts)
    return call.created(f"/entities/{subject.id}") if operation is CREATE else call.no_content()


class _Subject(Struct):
    """What an operation is about, and who may have a part in it."""

    id: str
    selector: EntitySelector
    names: frozenset[str] | None
    body: Any
    context: Context
    providers: list[Provider]


async def _subject(call: Call, operation: Operation) -> _Subject | None:
    """None: the endpoint knows better what is wrong with the request."""
    body: Any = None
    raw: Any = None
    names: frozenset[str] | None = None
    if operation.about == "id" or operation is DELETE_ATTRIBUTE:
        context = await call.context()
    else:
        raw = await call.raw_json()
        body = raw.copy() if isinstance(raw, dict) else raw
        context = await call.resolve(call.taken_context(body))
    if operation.about in ("entity", "part"):
        if not isinstance(body, dict):
            return None
        names = frozenset(attribute_names(body, context).values())
    elif operation.about == "attribute":
        names = frozenset({context.expand_term(call.path["attribute"])})
    id_ = body.get("id") if operation.about == "entity" else call.path["id"]
    if not isinstance(id_, str):
        return None
    check_uri(id_, "the id of an entity")
    said = body if operation.about in ("entity", "part") else None
    selector = EntitySelector(known_types(call, id_, said, context), (id_,))
    providers = [
        provider for provider in call.tenant.providers(Sought(selectors=(selector,))) if provider.registration.mode != AUXILIARY
    ]
    return _Subject(id_, selector, names, raw, context, providers) if providers else None


def known_types(call: Call, id_: str, body: Any, context: Context) -> tuple[tuple[str, ...], ...]:
    """The types of an entity, any of which a source may be registered with; none if nobody says."""
    types: tuple[str, ...] = ()
    if isinstance(body, dict):
        types = types_of(body, context)
    if not types and call.params.get("type"):
        types = tuple(context.expand_type(name.strip()) for name in call.params["type"].split(","))
    if not types and (kept := call.tenant.store.latest(id_)) is not None:
        types = kept.types
    return tuple((name,) for name in types)


async def _outgoing(call: Call, operation: Operation, subject: _Subject, share: Share, provider: Provider) -> Outgoing:
    try:
        wire = await call.tenant.distributed.wire(provider, subject.context)
    except NgsiLdError:  # asking will say so
        wire = subject.context
    path = "/entities"
    body = subject.body
    if operation.about != "entity":
        path += f"/{quote(subject.id, safe=':')}"
    if operation in (APPEND, UPDATE):
        path += "/attrs"
    if operation.about == "attribute":
        name = wire.compact_iri(subject.context.expand_term(call.path["attribute"]))
        path += f"/attrs/{quote(name, safe=':')}"
        if isinstance(body, dict):
            body = renamed_attribute({key: value for key, value in body.items() if key != "@context"}, subject.context, wire)
    elif isinstance(body, dict):
        registered = None if share.names == subject.names else share.names
        body = renamed(part_of(body, subject.context, registered), subject.context, wire)
    return Outgoing(call.method, path, passed_on(call, subject.context, wire), body)


def passed_on(call: Call, context: Context, wire: Context) -> dict[str, str]:
    """The parameters that a source is to have, too."""
    params = {name: call.params[name] for name in PASSED_ON if call.params.get(name)}
    if "type" in params and context is not wire:
        params["type"] = ",".join(wire.compact_type(context.expand_type(name.strip())) for name in params["type"].split(","))
    return params


async def _locally(call: Call, handler: Handler, names: frozenset[str] | None) -> tuple[list[Failure], set[str]]:
    """What failed here, and which attributes did not. What makes no sense at all goes nowhere else either."""
    try:
        answer = await handler(call)
    except (BadRequestData, InvalidRequest, TooManyPending):
        raise
    except NgsiLdError as error:
        return [Failure(error.problem(), error.status, names)], set()
    result = msgspec.json.decode(answer.body) if isinstance(answer, Answer) and answer.status == 207 else {}
    refused = result.get("notUpdated", ())
    failures = [Failure(_problem(400, item["reason"]), 400, frozenset({item["attributeName"]})) for item in refused]
    return failures, set(result.get("updated") or names or ()) - {item["attributeName"] for item in refused}


# --- what failed --------------------------------------------------------------------------------------------------------


def _refused(share: Share) -> Failure:
    error = Conflict(_CANNOT)
    return Failure(error.problem(), error.status, share.names, share.registration.id)


def looped(share: Share) -> Failure:
    error = LoopDetected("the request has been here before; a registration leads back")
    return Failure(error.problem(), error.status, share.names, share.registration.id)


def failures_of(reply: Reply | NoReply, names: frozenset[str] | None) -> list[Failure]:
    """What a source could not do; nothing if all went well."""
    registration = reply.provider.registration.id
    if isinstance(reply, NoReply):
        error = (GatewayTimeout if reply.status == 504 else BadGateway)(reply.text)
        return [Failure(error.problem() | {"status": reply.status}, reply.status, names, registration)]
    if reply.is_success and reply.status != 207:
        return []
    if reply.status != 207:
        return [Failure(_problem_of(reply), reply.status, names, registration)]
    data = reply.data if isinstance(reply.data, dict) else {}
    found: list[Failure] = []
    for item in _objects(data.get("notUpdated")):
        name = item.get("attributeName")
        expanded = reply.context.expand_term(name) if isinstance(name, str) and name else None
        problem = _problem(400, str(item.get("reason", ""))[:500])
        found.append(Failure(problem, 400, names if expanded is None else frozenset({expanded}), registration))
    for item in _objects(data.get("errors")):
        given = item.get("error")
        problem = given if isinstance(given, dict) else _problem(502, "")
        status = problem.get("status")
        entity = item.get("entityId")
        found.append(
            Failure(
                problem,
                status if isinstance(status, int) else 502,
                names,
                registration,
                entity if isinstance(entity, str) else None,
            )
        )
    return found or [Failure(_problem(207, "the source has done some of it, and does not say what"), 207, names, registration)]


def _objects(value: Any) -> Sequence[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _problem_of(reply: Reply) -> dict[str, Any]:
    if isinstance(reply.data, dict) and isinstance(reply.data.get("title"), str):
        kept = {
            name: value for name, value in reply.data.items() if name in ("type", "title", "detail") and isinstance(value, str)
        }
        return kept | {"status": reply.status}
    return _problem(reply.status, f"the context source answers {reply.status}")


def _problem(status: int, detail: str) -> dict[str, Any]:
    kinds = {400: "BadRequestData", 404: "ResourceNotFound", 409: "Conflict"}
    titles = {400: "Bad request data", 404: ResourceNotFound.title, 409: Conflict.title}
    problem = {"type": ERRORS + kinds.get(status, "InternalError"), "title": titles.get(status, "A context source failed")}
    return problem | {"status": status} | ({"detail": detail} if detail else {})


def _told(operation: Operation, id_: str, failures: list[Failure], done: set[str], parts: int) -> Answer:
    """207 with what failed where; the one failure itself, if there was only one part to do."""
    if parts == 1 and len(failures) == 1 and failures[0].status != 207:
        return alone(failures[0])
    if operation.tells == "entities":
        return json_answer({"success": [], "errors": [entity_error(failure, id_) for failure in failures]}, 207)
    refused = [
        {"attributeName": name, "reason": _reason(failure)} | _where(failure)
        for failure in failures
        for name in sorted(failure.names or [""])
    ]
    failed = {name for failure in failures for name in failure.names or ()}
    return json_answer({"updated": sorted(done - failed), "notUpdated": refused}, 207)


def alone(failure: Failure) -> Answer:
    """A failure that is all there is to say. What is wrong inside of a source is no error of this node."""
    status = failure.status if failure.status < 500 or failure.registration is None or failure.status in (503, 504, 508) else 502
    return json_answer(failure.problem | {"status": status}, status)


def entity_error(failure: Failure, id_: str | None) -> dict[str, Any]:
    """An element of the errors of a BatchOperationResult (5.2.17)."""
    entity = failure.entity or id_
    return ({"entityId": entity} if entity else {}) | _where(failure) | {"error": failure.problem}


def _where(failure: Failure) -> dict[str, str]:
    return {"registrationId": failure.registration} if failure.registration else {}


def _reason(failure: Failure) -> str:
    return str(failure.problem.get("detail") or failure.problem.get("title") or failure.status)
