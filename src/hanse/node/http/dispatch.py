"""From a path and a method to its endpoint, and from whatever is raised to ProblemDetails.

Paths are found by a dictionary on their length and one segment, not by trying regular expressions one after the other: this runs
for every request.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import itemgetter
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import structlog

from hanse.model import InvalidInput
from hanse.ngsild import errors
from hanse.node.access.routes import Rule, rule_of
from hanse.node.http.answers import Answer, problem_answer
from hanse.node.http.call import Call, Endpoint, Path, path_segments, request_headers
from hanse.node.http.protocol import exchange_of
from hanse.node.metrics import METRICS
from hanse.policies.principals import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from hanse.node.tenant import Node

_ECHOED: Final = {"ngsild-tenant": "NGSILD-Tenant", "ngsild-snapshot": "NGSILD-Snapshot"}  # come back with the answer
_IN_SNAPSHOTS: Final = frozenset(
    {"entities", "entityOperations", "temporal", "entityMaps", "types", "attributes", "jsonldContexts"}
)
_TENANT = re.compile(r"[A-Za-z0-9_.-]{1,50}")
# how to get the fixed segments, and what they are; where the named ones are; what answers, and who may ask
_Pattern: TypeAlias = tuple[
    Callable[[list[str]], Any], tuple[str, ...], tuple[tuple[int, str], ...], dict[str, Endpoint], dict[str, Rule]
]

log = structlog.get_logger("hanse.http")


class Dispatcher:
    """An ASGI application over a table of paths."""

    def __init__(self, node: Node, paths: Iterable[Path]) -> None:
        self.node = node
        self._table: dict[tuple[int, str], list[_Pattern]] = {}
        for path in paths:
            parts = path.template.strip("/").split("/")
            rules = {method: rule_of(method, path.template) for method in path.endpoints}
            fixed = [i for i, part in enumerate(parts) if not part.startswith("{")]
            named = tuple((i, part[1:-1]) for i, part in enumerate(parts) if part.startswith("{"))
            key = (len(parts), parts[2] if len(parts) > 2 else "")
            # fixed segments win over named ones
            get_fixed = itemgetter(*fixed)
            self._table.setdefault(key, []).append((get_fixed, get_fixed(parts), named, path.endpoints, rules))
            self._table[key].sort(key=lambda pattern: -len(pattern[1]))

    def _find(self, segments: list[str]) -> tuple[dict[str, Endpoint], dict[str, str], dict[str, Rule]]:
        key = (len(segments), segments[2] if len(segments) > 2 else "")
        for get_fixed, fixed, named, endpoints, rules in self._table.get(key, ()):
            if get_fixed(segments) == fixed:
                return endpoints, {name: segments[i] for i, name in named}, rules
        raise errors.ResourceNotFound(f"there is no path /{'/'.join(segments)[:200]}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = perf_counter()
        headers = request_headers(scope)
        try:
            answer = await self._answer(scope, receive, headers)
        except errors.NgsiLdError as error:
            answer = problem_answer(error)
            if error.status == 405:
                answer.add("Allow", getattr(error, "allow", ""))
            elif error.status == 401:
                answer.add("WWW-Authenticate", "Bearer")
            elif error.status == 408:
                # the rest of the body may still come; in small letters, for the server below has to see it and hang up
                answer.headers.append((b"connection", b"close"))
        except InvalidInput as error:
            answer = problem_answer(errors.BadRequestData(str(error)))
        except Exception:
            log.exception("a request failed", method=scope["method"], path=scope["path"])
            answer = problem_answer(errors.NgsiLdError("this is our fault; the node's log says more"))
        if isinstance(answer, Answer):
            for name, written in _ECHOED.items():
                if name in headers:
                    answer.add(written, headers[name])
            METRICS.request(scope["method"], answer.status, perf_counter() - started)
            exchange = exchange_of(scope)
            if exchange is not None and answer.status < 400 and exchange.answer(answer.status, answer.all_headers(), answer.body):
                return
        await answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, headers: dict[str, str]) -> ASGIApp:
        raw_path = scope.get("raw_path") or scope["path"].encode()
        if len(raw_path) + len(scope["query_string"]) > self.node.settings.limits.url_bytes_max:
            raise errors.InvalidRequest("the URL is too long; use POST /entityOperations/query for a long query")
        segments = path_segments(raw_path.decode("latin-1"))
        endpoints, path, rules = self._find(segments)
        method = scope["method"]
        endpoint = endpoints.get(method)
        if endpoint is None:
            if method == "OPTIONS":
                return _allow(endpoints)
            if method == "HEAD" and "GET" in endpoints:
                endpoint, method = endpoints["GET"], "GET"
            else:
                refused = errors.MethodNotAllowed(f"{method[:20]} is not possible here; use {', '.join(sorted(endpoints))}")
                refused.allow = ", ".join(sorted(endpoints))  # type: ignore[attr-defined]
                raise refused
        name = headers.get("ngsild-tenant", "")
        if name and not _TENANT.fullmatch(name):
            raise errors.BadRequestData("a tenant's name has 1 to 50 letters, digits, and _ . -")
        access = self.node.access
        principal = ANONYMOUS if access is None else await access.principal(headers)
        if access is not None and rules[method] == "admin":
            access.check_admin(principal)
        tenant = self.node.tenants.get(name) or await self.node.tenant(name, create=endpoint.makes_tenant)
        tenant.calls += 1
        try:
            place = tenant
            if "ngsild-snapshot" in headers:
                if segments[0] != "ngsi-ld" or segments[2] not in _IN_SNAPSHOTS:
                    raise errors.BadRequestData("a snapshot has entities and their past; leave out the header NGSILD-Snapshot")
                seen = tenant if access is None else access.seen(tenant, principal)
                place = await seen.snapshots.view(headers["ngsild-snapshot"])
            if access is not None and rules[method] != "admin":
                place = access.seen(place, principal)
            return await endpoint.handler(Call(self.node, place, endpoint, scope, receive, path, headers, principal))
        except (errors.NgsiLdError, InvalidInput):
            if tenant.calls == 1 and tenant.is_made_by_call:
                await self.node.refused(tenant)
            raise


def _allow(endpoints: dict[str, Endpoint]) -> Answer:
    answer = Answer(204)
    answer.add("Allow", ", ".join(sorted({*endpoints, "OPTIONS"})))
    if "PATCH" in endpoints:
        answer.add("Accept-Patch", "application/json, application/ld+json, application/merge-patch+json")
    return answer
