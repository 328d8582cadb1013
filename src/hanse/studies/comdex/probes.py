"""Clients of the nodes that are measured, small enough not to be what is measured: HTTP over plain streams."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Self, cast
from urllib.parse import urlsplit

import msgspec

ANSWER_S_MAX: Final = 60.0
ENTITIES: Final = "/ngsi-ld/v1/entities"
SUBSCRIPTIONS: Final = "/ngsi-ld/v1/subscriptions"
_encode = msgspec.json.Encoder().encode


class ProbeError(RuntimeError):
    """A node has not done what the measurement needs."""

    code = "H0306"


class Line:
    """One connection to a node, which stays open; one request at a time."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self._host, self._port = place.hostname or "127.0.0.1", place.port or 80
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        await self._connect()
        return self

    async def _connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port, limit=1 << 26)

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def send(self, method: str, path: str, body: Any = None, *, expected: tuple[int, ...] = (200, 201, 204)) -> bytes:
        content = b"" if body is None else _encode(body)
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: study\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        if self._reader.at_eof():  # a node ends connections on which nothing comes for a while
            self._writer.close()
            await self._connect()
        self._writer.write(head.encode() + content)
        async with asyncio.timeout(ANSWER_S_MAX):
            answer = await self._reader.readuntil(b"\r\n\r\n")
            found = answer.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0]
            answered = await self._reader.readexactly(int(found)) if found else b""
        status = int(answer[9:12])
        if status not in expected:
            raise ProbeError(f"{method} {path} was answered with {status}: {answered[:300].decode(errors='replace')}")
        return answered


class Listener(asyncio.Protocol):
    """Takes notifications, and answers at once."""

    def __init__(self, heard: Callable[[bytes], None], open_: set[asyncio.Transport]) -> None:
        self._heard = heard
        self._open = open_
        self._buffer = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._open.add(self._transport)

    def connection_lost(self, _: Exception | None) -> None:
        self._open.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while True:
            head, found, rest = self._buffer.partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0] or 0) if found else 0
            if not found or len(rest) < length:
                return
            self._heard(rest[:length])
            self._buffer = rest[length:]
            self._transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")


class Inbox:
    """An endpoint for notifications: the entities that came, each with the time (ns) at which it did."""

    def __init__(self) -> None:
        self.came: list[tuple[int, dict[str, Any]]] = []
        self._server: asyncio.Server
        self._open: set[asyncio.Transport] = set()
        self._event = asyncio.Event()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/notify"

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Listener(self._heard, self._open), "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for transport in list(self._open):
            transport.close()
        await asyncio.sleep(0)  # they end in the next round of the loop

    def _heard(self, body: bytes) -> None:
        now = time.perf_counter_ns()
        self.came += [(now, entity) for entity in msgspec.json.decode(body)["data"]]
        self._event.set()

    async def until(self, count: int, limit_s: float = 30.0) -> None:
        """Until so many have come."""
        try:
            async with asyncio.timeout(limit_s):
                while len(self.came) < count:
                    self._event.clear()
                    await self._event.wait()
        except TimeoutError:
            raise ProbeError(f"only {len(self.came)} of {count} notifications came within {limit_s:g} s") from None

    def subscription(self, type_: str, *, triggers: list[str] | None = None, watched: list[str] | None = None) -> dict[str, Any]:
        notification = {"format": "keyValues", "endpoint": {"uri": self.uri, "accept": "application/json"}}
        body: dict[str, Any] = {"type": "Subscription", "entities": [{"type": type_}], "notification": notification}
        if triggers:
            body["notificationTrigger"] = triggers
        if watched:
            body["watchedAttributes"] = watched
        return body
