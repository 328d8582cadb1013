"""A load generator small enough not to be what is measured: raw HTTP/1.1 over asyncio protocols, requests made beforehand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from statistics import median
from typing import cast

from msgspec import Struct

from hanse.client.errors import NgsiLdClientError


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
        """Itself, if every answer had one of these statuses; what was refused is no measurement."""
        for status, number in self.statuses.items():
            if status not in expected:
                said = self.last_body[:300].decode("utf-8", "replace")
                raise NgsiLdClientError(status, {"title": f"{number} of {self.requests} requests were refused", "detail": said})
        return self


class _Client(asyncio.Protocol):
    """One connection: sends a request, waits for its answer, sends the next."""

    def __init__(self, requests: Iterator[bytes], result: Result, done: asyncio.Future[None]) -> None:
        self.requests, self.result, self.done = requests, result, done
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def next(self) -> None:
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
        self.next()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("the server closed the connection"))


async def run_load(
    port: int, requests: Iterator[bytes], clients: int, *, host: str = "127.0.0.1", tls: bool | None = None
) -> Result:
    """Send all of `requests`, each client its next one as soon as it has an answer; the clock starts when all are connected."""
    loop = asyncio.get_running_loop()
    result = Result(0, 0.0, [], {}, b"")
    done = [loop.create_future() for _ in range(clients)]
    everybody = [
        await loop.create_connection(
            lambda future=future: _Client(requests, result, future),
            host,
            port,
            ssl=tls or None,
        )
        for future in done
    ]
    started = time.perf_counter()
    for _, client in everybody:
        client.next()
    await asyncio.gather(*done)
    result.seconds = time.perf_counter() - started
    return result
