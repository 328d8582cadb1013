"""The ASGI application of a node: NGSI-LD and Hanse's own API by table, the rest (streams, pages) by starlette."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from hanse.ngsild import errors
from hanse.node.access.routes import rule_of
from hanse.node.http import (
    attributes,
    batch,
    contexts,
    contracts,
    discovery,
    entities,
    entity_maps,
    federation,
    health,
    live,
    models,
    native,
    openapi,
    policies,
    registration_subscriptions,
    registrations,
    snapshots,
    source_identity,
    streams,
    subscriptions,
    temporal,
)
from hanse.node.http.answers import problem_answer
from hanse.node.http.call import request_headers
from hanse.node.http.dispatch import Dispatcher
from hanse.node.tenant import Node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from hanse.node.settings import NodeSettings

log = structlog.get_logger("hanse.http")

SWITCH_INTERVAL_S = 0.0005  # the thread that commits gets the interpreter back soon, even while requests pour in
PATHS = [
    path
    for module in (
        entities,
        attributes,
        batch,
        discovery,
        subscriptions,
        temporal,
        contexts,
        registrations,
        registration_subscriptions,
        entity_maps,
        snapshots,
        source_identity,
        models,
        policies,
        native,
        contracts,
        federation,
    )
    for path in module.paths
]


class Application:
    """One node as an ASGI application. `lifespan` starts and stops the node with the server."""

    def __init__(self, settings: NodeSettings) -> None:
        self.node = Node(settings)
        self._dispatch = Dispatcher(self.node, PATHS)
        routes = [*streams.routes, *health.routes, *openapi.routes, *live.routes]
        handlers: dict[Any, Any] = {HTTPException: _refused, Exception: _failed}
        self._rest = Starlette(routes=routes, lifespan=self._lifespan, exception_handlers=handlers)
        self._rest.state.node = self.node
        self._others = frozenset(
            path for path in (getattr(route, "path", "") for route in routes) if path.startswith("/hanse/v1/")
        )

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        await self.node.start()
        try:
            yield
        finally:
            await self.node.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path: str = scope["path"]
            if path.startswith("/ngsi-ld/v1/") or (path.startswith("/hanse/v1/") and path not in self._others):
                await self._dispatch(scope, receive, send)
                return
            if self.node.access is not None and rule_of(scope["method"], path.rstrip("/") or "/") == "admin":
                try:
                    self.node.access.check_admin(await self.node.access.principal(request_headers(scope)))
                except errors.NgsiLdError as error:
                    await problem_answer(error)(scope, receive, send)
                    return
        await self._rest(scope, receive, send)


async def _refused(request: Request, error: HTTPException) -> ASGIApp:
    """What starlette itself refuses, in the words of the rest."""
    path = request.url.path[:200]
    if error.status_code != 405:
        return problem_answer(errors.ResourceNotFound(f"there is no path {path}; /docs shows those that there are"))
    allow = (error.headers or {}).get("Allow", "GET")
    answer = problem_answer(errors.MethodNotAllowed(f"{request.method[:20]} is not possible here; use {allow}"))
    answer.add("Allow", allow)
    return answer


async def _failed(request: Request, error: Exception) -> ASGIApp:
    log.error("a request failed", method=request.method, path=request.url.path, exc_info=error)
    return problem_answer(errors.NgsiLdError("this is our fault; the node's log says more"))


def create_app(settings: NodeSettings) -> Application:
    return Application(settings)
