"""/hanse/v1/federation: to see and steer the federation: nodes, links and their export rules, visibility, what came which way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import quote

import msgspec
from msgspec import Struct

from hanse.model import InvalidInput, Notification
from hanse.ngsild.errors import BadRequestData, InvalidRequest, ResourceNotFound
from hanse.node import federation_view as view
from hanse.node.http.answers import JSON, Answer
from hanse.node.http.call import Call, Endpoint, Path, is_deeper, native
from hanse.routing import messages as m
from hanse.scopes.visibility import ALWAYS

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from hanse.node.federation.host import Host
    from hanse.routing import ExportRule

TRACES: Final = 50
TRACES_MAX: Final = 1_000
TIME_DIGITS_MAX: Final = 15
T = TypeVar("T")


class _Join(Struct, frozen=True, forbid_unknown_fields=True):
    to: str = ""
    node: str = ""
    export: dict[str, Any] = {}


class _Rule(Struct, frozen=True, forbid_unknown_fields=True):
    export: dict[str, Any]


class _Visibility(Struct, frozen=True, forbid_unknown_fields=True):
    dimension: str
    scope: str
    superscope: str = ""  # without one, all that it has
    out: str | None = None
    into: str | None = None


class _Explain(Struct, frozen=True, forbid_unknown_fields=True):
    notification: dict[str, Any]
    subscription: str
    home: str = ""


# --- the federation ---------------------------------------------------------------------------------------------------


async def overview(call: Call) -> ASGIApp:
    if call.tenant.router.is_federated:
        return call.answer(await view.overview(_host(call)))
    return call.answer(await view.alone(call.tenant))


async def topology(call: Call) -> ASGIApp:
    return call.answer(view.topology(_host(call)))


# --- links ------------------------------------------------------------------------------------------------------------


async def join(call: Call) -> ASGIApp:
    given = await _read(call, _Join)
    if not given.to and not given.node:
        raise BadRequestData('say where to: {"to": "tls/host:port"}, or who will call: {"node": "b"}')
    if given.node == _host(call).node:
        raise BadRequestData("a node has no link to itself")
    await _host(call).join(given.to, given.node, _rule(given.export))
    answer = Answer(201)
    if given.node:
        answer.add("Location", f"/hanse/v1/federation/links/{quote(given.node, safe='')}")
    return answer


async def change_rule(call: Call) -> ASGIApp:
    given = await _read(call, _Rule)
    rule = _rule(given.export)
    await _host(call).change_rule(_linked(call), rule)
    return call.no_content()


async def leave(call: Call) -> ASGIApp:
    await _host(call).leave(_linked(call))
    return call.no_content()


def _linked(call: Call) -> str:
    host, node = _host(call), call.path["node"]
    known = host.knowledge.get(host.node)
    if known is None or node not in known.record.links:
        raise ResourceNotFound(f"this node has no link to {node[:100]!r}")
    return node


def _rule(given: dict[str, Any]) -> ExportRule:
    if is_deeper(given, 16):
        raise BadRequestData("an export rule is not nested that deeply")
    from hanse.node.federation.description import rule_of

    return rule_of(given, "export")


# --- visibility -------------------------------------------------------------------------------------------------------


async def visibility(call: Call) -> ASGIApp:
    """The filters that are in force, in all dimensions."""
    graphs = call.tenant.broker.scopes.graphs
    found = [
        {"dimension": name, "scope": edge.sub, "superscope": edge.super_, "out": edge.out, "into": edge.into}
        for name, graph in sorted(graphs.items())
        for edge in graph.edges()
        if edge.out or edge.into
    ]
    return call.answer(found)


async def set_visibility(call: Call) -> ASGIApp:
    given = await _read(call, _Visibility)
    if given.out is None and given.into is None:
        raise BadRequestData('say what may cross the border: "out", "into" or both; "false" for nothing, "" for everything')
    wishes = [
        m.SetVisibility(given.dimension, given.scope, above, given.out, given.into)
        for above in _above(call, given.dimension, given.scope, given.superscope)
    ]
    await _tell(call, wishes)
    return call.no_content()


async def reset_visibility(call: Call) -> ASGIApp:
    """As the characterisation of the federation has it."""
    dimension, scope = _needed(call, "dimension"), _needed(call, "scope")
    original = _host(call).description.scopes().graphs.get(dimension)
    wishes = []
    for above in _above(call, dimension, scope, call.params.get("superscope", "")):
        edge = original.edge(scope, above) if original is not None else None
        out, into = (edge.out, edge.into) if edge is not None else (ALWAYS, ALWAYS)
        wishes.append(m.SetVisibility(dimension, scope, above, out, into))
    await _tell(call, wishes)
    return call.no_content()


def _above(call: Call, dimension: str, scope: str, superscope: str) -> tuple[str, ...]:
    _host(call)
    graph = call.tenant.broker.scopes.graphs.get(dimension)
    if graph is None or scope not in graph:
        raise ResourceNotFound(f"there is no scope {scope[:100]!r} in dimension {dimension[:100]!r}")
    above = graph.parents(scope)
    if not above:
        raise BadRequestData(f"the scope {scope!r} is at the top of its dimension: it has no border")
    if superscope and superscope not in above:
        raise ResourceNotFound(f"the scope {scope!r} is not below {superscope[:100]!r}, but below {', '.join(above)}")
    return (superscope,) if superscope else above


async def _tell(call: Call, wishes: list[m.SetVisibility]) -> None:
    """To all of the federation; on the disk when it is answered."""
    router = call.tenant.router
    for wish in wishes:
        for effect in router.handle(wish):
            if isinstance(effect, m.Reject):
                raise BadRequestData(effect.reason)
    await call.tenant.keep()


# --- one notification -------------------------------------------------------------------------------------------------


async def trace(call: Call) -> ASGIApp:
    host, reader = _host(call), call.params.get("reader")
    if reader is not None and reader not in host.federation.by_id:
        raise ResourceNotFound(f"there is no node {reader[:100]!r} within reach of this one")
    return call.answer(view.trace(host, _needed(call, "publisher"), _needed(call, "id"), reader))


async def traces(call: Call) -> ASGIApp:
    limit = call.params.get("limit", str(TRACES))
    if not (limit.isascii() and limit.isdigit() and 0 < int(limit[:9]) <= TRACES_MAX):
        raise BadRequestData(f"limit is a number from 1 to {TRACES_MAX}, not {limit[:40]!r}")
    after = call.params.get("after", "0")
    if not (after.isascii() and after.isdigit() and len(after) <= TIME_DIGITS_MAX):
        raise BadRequestData(f"after is a time in milliseconds since 1970, not {after[:40]!r}")
    return call.answer(view.recent(_host(call), int(limit), int(after)))


async def explain(call: Call) -> ASGIApp:
    host = _host(call)
    publisher, id_ = _needed(call, "publisher"), _needed(call, "id")
    notification = host.traces.notification((publisher, id_))
    if notification is None:
        raise ResourceNotFound(
            f"{id_[:100]!r} of {publisher[:100]!r} is not known here; POST it, as its trace at the node of its publisher has it"
        )
    return call.answer(view.explanation(host, notification, _needed(call, "subscription"), call.params.get("home")))


async def explain_given(call: Call) -> ASGIApp:
    """Of a notification that never came here."""
    host = _host(call)
    given = await _read(call, _Explain)
    if is_deeper(given.notification, call.node.settings.limits.depth_max):
        raise BadRequestData("the notification is nested too deeply")
    try:
        notification = msgspec.convert(given.notification, Notification)
    except (msgspec.ValidationError, InvalidInput) as error:
        raise BadRequestData(f"that is no notification: {error}") from None
    return call.answer(view.explanation(host, notification, given.subscription, given.home))


# --- reading ----------------------------------------------------------------------------------------------------------


def _host(call: Call) -> Host:
    if not call.tenant.router.is_federated:
        raise BadRequestData("this node is alone; [federation] in its configuration makes it part of one")
    return cast("Host", call.tenant.router)


def _needed(call: Call, name: str) -> str:
    value = call.params.get(name)
    if not value:
        raise BadRequestData(f"the parameter {name} is missing")
    return value


async def _read(call: Call, kind: type[T]) -> T:
    call.check_content_type()
    body = await call.body()
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise BadRequestData(str(error)) from None
    except RecursionError:
        raise InvalidRequest("the body is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"the body is not valid JSON: {error}") from None


_ONE: Final = (JSON,)
_BODY: Final = (JSON,)

paths: list[Path] = [
    native("/federation", GET=Endpoint(overview, offers=_ONE)),
    native("/federation/topology", GET=Endpoint(topology, offers=_ONE)),
    native("/federation/links", POST=Endpoint(join, offers=_ONE, media_types=_BODY)),
    native(
        "/federation/links/{node}",
        PATCH=Endpoint(change_rule, offers=_ONE, media_types=_BODY),
        DELETE=Endpoint(leave, offers=_ONE),
    ),
    native("/federation/trace", GET=Endpoint(trace, ("publisher", "id", "reader"), offers=_ONE)),
    native("/federation/traces", GET=Endpoint(traces, ("limit", "after"), offers=_ONE)),
    native(
        "/federation/explain",
        GET=Endpoint(explain, ("publisher", "id", "subscription", "home"), offers=_ONE),
        POST=Endpoint(explain_given, offers=_ONE, media_types=_BODY),
    ),
    native(
        "/scopes/visibility",
        GET=Endpoint(visibility, offers=_ONE),
        POST=Endpoint(set_visibility, offers=_ONE, media_types=_BODY),
        DELETE=Endpoint(reset_visibility, ("dimension", "scope", "superscope"), offers=_ONE),
    ),
]
