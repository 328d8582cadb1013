"""/healthz, /readyz, /metrics and /hanse/v1/bounds: whether the node lives, whether it can work, and how full it is."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from hanse.node.metrics import CONTENT_TYPE, METRICS, Bound, Total
from hanse.routing import settings as broker_bounds
from hanse.routing.recent import room

if TYPE_CHECKING:
    from starlette.requests import Request

    from hanse.node.tenant import Node, Tenant

FULL: Final = 0.95  # a store whose queue of writes is this full is about to refuse: send requests elsewhere


@runtime_checkable
class Bounded(Protocol):
    """A part that knows its bounds: name -> how much is used, and the most that there may be."""

    def bounds(self) -> dict[str, tuple[int, int | None]]: ...


def bounds(node: Node) -> Iterator[Bound]:
    """Every bound of the node and what is used of it now."""
    yield Bound("", "tenants", len(node.tenants), node.settings.tenants.max)
    yield from (Bound("", name, used, most) for name, (used, most) in _of(node))
    for name, tenant in list(node.tenants.items()):
        yield from (Bound(name, what, used, most) for what, (used, most) in _of_tenant(tenant))


def _of(part: object) -> Iterator[tuple[str, tuple[int, int | None]]]:
    if isinstance(part, Bounded):
        yield from part.bounds().items()


def _of_tenant(tenant: Tenant) -> Iterator[tuple[str, tuple[int, int | None]]]:
    for part in list(vars(tenant).values()):
        yield from _of(part)
    state = tenant.broker.state
    yield "broker_clients", (len(state.clients), None)
    yield "broker_subscriptions", (len(state.held), None)
    yield "broker_delivered_kept", (len(state.delivered), room(broker_bounds.DELIVERED_KEPT))
    yield "broker_tombstones", (len(state.tombstones), room(broker_bounds.TOMBSTONES_KEPT))
    yield "broker_queries", (len(state.queries), broker_bounds.OPEN_QUERIES_MAX)
    fullest = max((len(client.waiting) for client in state.clients.values()), default=0)
    yield "broker_waiting_of_one_client", (fullest, broker_bounds.WAITING_MAX)


async def healthz(request: Request) -> Response:
    """The process lives and its event loop turns."""
    node: Node = request.app.state.node
    return _json({"status": "up", "node": node.settings.node.id, "version": _version(), "since": node.started_at})


async def readyz(request: Request) -> Response:
    """The node takes requests: its store is open, and its queues have room."""
    node: Node = request.app.state.node
    reasons = [] if node.tenants else ["it is starting or stopping"]
    for bound in bounds(node):
        if bound.name == "pending_writes" and bound.max and bound.used >= FULL * bound.max:
            reasons.append(f"{bound.used} of {bound.max} writes wait for the disk")
    return _json({"status": "not ready" if reasons else "ready", "reasons": reasons}, 503 if reasons else 200)


async def metrics(request: Request) -> Response:
    """Numbers for Prometheus."""
    node: Node = request.app.state.node
    return Response(METRICS.text(bounds(node), _totals(node)), media_type=CONTENT_TYPE)


def _totals(node: Node) -> Iterator[Total]:
    for name, tenant in list(node.tenants.items()):
        notifier = tenant.notifier
        yield Total(name, "notifications_sent", notifier.sent_total)
        yield Total(name, "notifications_failed", notifier.failed_total)
        yield Total(name, "notifications_dead", notifier.died_total)
        yield Total(name, "log_offset", tenant.store.log_end())


async def bounds_page(request: Request) -> Response:
    """Every bound of the node and how much of it is in use."""
    return _json(list(bounds(request.app.state.node)))


def _json(data: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(data), status, media_type="application/json", headers={"Cache-Control": "no-store"})


def _version() -> str:
    try:
        return version("hanse")
    except PackageNotFoundError:
        return "unknown"


routes: list[Route] = [
    Route("/healthz", healthz),
    Route("/readyz", readyz),
    Route("/metrics", metrics),
    Route("/hanse/v1/bounds", bounds_page),
]
