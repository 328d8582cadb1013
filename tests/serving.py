"""A real node for tests: uvicorn on a free loopback port, in a thread of this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import uvicorn

from hanse.node.http.app import create_app
from hanse.node.http.protocol import BoundedProtocol
from hanse.node.settings import NodeSettings


def settings_with(**sections: dict[str, Any]) -> NodeSettings:
    """Settings for a test: memory only, no MQTT, unless the sections say otherwise."""
    given: dict[str, dict[str, Any]] = {"mqtt": {"embedded": False}}
    for name, values in sections.items():
        given[name] = given.get(name, {}) | values
    return msgspec.convert(given, NodeSettings)


@contextmanager
def serving(settings: NodeSettings | None = None) -> Iterator[str]:
    """The URL of a running node, http://127.0.0.1:PORT, which stops with the block."""
    app = create_app(settings if settings is not None else settings_with())
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=0,
        log_level="error",
        access_log=False,
        http=BoundedProtocol,
        ws="websockets-sansio",
        timeout_keep_alive=600,  # a connection that ends was ended by an answer, not by a pause
    )
    server = uvicorn.Server(config)
    started = threading.Event()
    failed: list[BaseException] = []

    async def main_loop() -> None:
        started.set()
        await type(server).main_loop(server)

    server.main_loop = main_loop  # type: ignore[method-assign]

    def run() -> None:
        try:
            server.run()
        except BaseException as error:  # noqa: BLE001
            failed.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    started.wait(30)
    if failed or not server.started:
        raise RuntimeError("the node did not start") from (failed[0] if failed else None)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
