"""The node's application on uvicorn: one process, one event loop, and a clean end.

The application's lifespan is entered here rather than by uvicorn, so that what keeps a node from starting is raised to the caller
as it is; and signals are handled here, so that a node that is told to stop ends with exit code 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from hanse.model.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator

    from starlette.types import ASGIApp

    from hanse.node.http.app import Application
    from hanse.node.settings import NodeSettings

BACKLOG: Final = 2048
GC_THRESHOLDS: Final = (100_000, 20, 50)  # a request makes many small values and leaves no cycles behind
GRACE_S: Final = 3  # how long requests that are under way may take when the node stops


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Not uvicorn's: it would raise the signal again at the end."""
        yield


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, before anything else is done: a port that is taken is the commonest mistake."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(f"cannot listen there ({reason}); choose another --port or --host", place=f"{host}:{port}") from error


async def serve_until_told(
    settings: NodeSettings, listener: socket.socket, seconds: float | None = None, ready: Callable[[int], None] = lambda _: None
) -> None:
    """Serve until SIGTERM, SIGINT or the end of the time; `ready` is called when requests are answered, with the
    port of the MQTT broker.
    """
    from hanse.node.http.app import create_app
    from hanse.node.http.protocol import BoundedProtocol
    from hanse.node.store import StoreError

    app = create_app(settings)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=BoundedProtocol,
        ws="websockets-sansio",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
        backlog=BACKLOG,
    )
    server = _Server(config, lambda: ready(app.node.devices.port if app.node.devices is not None else 0))
    stop = _stopper(server, app)
    loop = asyncio.get_running_loop()
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, stop)
    async with _lifespan(app, StoreError):
        gc.collect()
        gc.freeze()  # modules and tables stay: no need to look at them again and again
        gc.set_threshold(*GC_THRESHOLDS)
        if seconds is not None:
            loop.call_later(seconds, stop)
        await server.serve(sockets=[listener])


@contextlib.asynccontextmanager
async def _lifespan(app: ASGIApp, mendable: type[Exception]) -> AsyncIterator[None]:
    """ASGI's lifespan, with what is raised in it raised here; what the user can mend as InvalidInput."""
    told: asyncio.Queue[Any] = asyncio.Queue()
    heard: asyncio.Queue[Any] = asyncio.Queue()
    task = asyncio.ensure_future(app({"type": "lifespan", "asgi": {"version": "3.0"}}, told.get, heard.put))

    async def step(name: str) -> None:
        told.put_nowait({"type": f"lifespan.{name}"})
        answer = asyncio.create_task(heard.get())
        await asyncio.wait((task, answer), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done() or answer.result()["type"].endswith("failed"):
            answer.cancel()
            await task  # raises what went wrong

    try:
        await step("startup")
    except mendable as error:
        raise InvalidInput(str(error)) from error
    try:
        yield
    finally:
        await step("shutdown")
        await task


def _stopper(server: uvicorn.Server, app: Application) -> Callable[[], None]:
    def stop() -> None:
        """The second time, at once."""
        server.force_exit = server.should_exit
        server.should_exit = True
        for tenant in app.node.tenants.values():
            tenant.notifier.streams.close()  # they would go on for ever

    return stop
