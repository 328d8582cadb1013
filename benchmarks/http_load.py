"""A load generator small enough not to be what is measured: raw HTTP/1.1 over asyncio protocols, requests made beforehand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import cast

from msgspec import Struct


def request(method: str, path: str, body: bytes = b"", content_type: str = "application/json", headers: str = "") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: bench\r\n{headers}"
    if body or method in ("POST", "PATCH", "PUT"):
        head += f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


class Result(Struct):
    requests: int
    seconds: float
    latencies_s: list[float]
    statuses: dict[int, int]
    last_body: bytes

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    @property
    def median_ms(self) -> float:
        return median(self.latencies_s) * 1000

    def quantile_ms(self, share: float) -> float:
        return sorted(self.latencies_s)[int(share * (len(self.latencies_s) - 1))] * 1000

    def check(self, *expected: int) -> Result:
        wrong = {status: n for status, n in self.statuses.items() if status not in expected}
        if wrong:
            raise SystemExit(f"the server answered {wrong} where {expected} was expected: {self.last_body[:300]!r}")
        return self


class _Client(asyncio.Protocol):
    """One connection: sends a request, waits for its answer, sends the next."""

    def __init__(self, requests: Iterator[bytes], result: Result, done: asyncio.Future[None]) -> None:
        self.requests, self.result, self.done = requests, result, done
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._next()

    def _next(self) -> None:
        data = next(self.requests, None)
        if data is None:
            self.transport.close()
            if not self.done.done():
                self.done.set_result(None)
            return
        self.sent = time.perf_counter()
        self.transport.write(data)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        status = int(head[9:12])
        lower = head.lower()
        at = lower.find(b"content-length:")
        length = int(lower[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(rest) < length:
            return
        self.buffer = rest[length:]
        result = self.result
        result.latencies_s.append(time.perf_counter() - self.sent)
        result.statuses[status] = result.statuses.get(status, 0) + 1
        result.requests += 1
        result.last_body = rest[:length]
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("the server closed the connection"))


async def run_load(port: int, requests: Iterator[bytes], clients: int) -> Result:
    """Send all of `requests`, each client its next one as soon as it has an answer."""
    loop = asyncio.get_running_loop()
    result = Result(0, 0.0, [], {}, b"")
    done = [loop.create_future() for _ in range(clients)]
    started = time.perf_counter()
    for future in done:
        await loop.create_connection(lambda future=future: _Client(requests, result, future), "127.0.0.1", port)  # type: ignore[misc]
    await asyncio.gather(*done)
    result.seconds = time.perf_counter() - started
    return result


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
