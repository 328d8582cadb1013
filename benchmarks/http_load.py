"""The load of `hanse bench`, and a server for the notifications that it causes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import cast

from hanse.cli.bench_load import Result, request, run_load

__all__ = ["Receiver", "Result", "load", "request", "run_load"]


def load(port: int, requests: Iterator[bytes], clients: int = 50) -> Result:
    import uvloop

    return uvloop.run(run_load(port, requests, clients))


class Receiver(asyncio.Protocol):
    """A server for notifications that answers 204 at once and hands on the bodies."""

    def __init__(self, heard: Callable[[bytes], None]) -> None:
        self.heard = heard
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while True:
            head, found, rest = self.buffer.partition(b"\r\n\r\n")
            if not found:
                return
            lower = head.lower()
            at = lower.find(b"content-length:")
            length = int(lower[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(rest) < length:
                return
            self.heard(rest[:length])
            self.buffer = rest[length:]
            self.transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")
