"""HTTP/1.1 for notifications, and nothing else: POST to a plain http address on a connection that is kept.

A notification is a small body to a known address, thousands of times; a general client spends most of its time on what never
happens here (redirects, cookies, proxies, compression). The address and headers become bytes once. A letter counts as taken when
the status line and headers of the answer are there; what follows them is read past, and only then is the connection used again.
"""

from __future__ import annotations

import asyncio
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import httptools

from hanse.node.notifier.queue import SendingFailed

if TYPE_CHECKING:
    from hanse.ngsild.notifications import Letter

CONNECTIONS_MAX: Final = 512  # of one tenant, to all endpoints; those longest unused make room
IDLE_S: Final = 20.0  # how long an unused connection is kept, or one whose answer does not end
ANSWER_BYTES_MAX: Final = 65_536  # of an answer, headers included; more costs the endpoint its connection

# what this module speaks to; anything else (TLS, names in other scripts, passwords in the address) is for the general client
_PLAIN = re.compile(r"http://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?(/[!-\"$-~]*|\?[!-\"$-~]*)?")


class Target(NamedTuple):
    host: str
    port: int
    head: bytes  # of the request, up to the length of the body


@lru_cache(maxsize=4096)
def target(uri: str, headers: tuple[tuple[str, str], ...]) -> Target | None:
    """Where a letter goes and how it begins; None: not by this module."""
    found = _PLAIN.fullmatch(uri)
    if found is None:
        return None
    host, port, path = found[1], int(found[2] or 80), found[3] or "/"
    if not 0 < port < 65_536:
        return None
    path = path if path.startswith("/") else f"/{path}"
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}" if port == 80 else f"Host: {host}:{port}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return Target(host.strip("[]"), port, ("\r\n".join(lines) + "\r\nContent-Length: ").encode())


class Wire(asyncio.Protocol):
    """One connection. One letter at a time."""

    def __init__(self, pool: Pool, place: tuple[str, int]) -> None:
        self.idle_since: float | None = 0.0  # since when nobody waits for it; None: someone does
        self._pool = pool
        self._place = place
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[tuple[int, str]] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._is_busy = False
        self._has_begun = False
        self._received = 0
        self._location = ""

    # --- the connection -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.lost(self, self._place)
        self._fail(exc or ConnectionResetError("the endpoint closes the connection"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    @property
    def is_closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def post(self, head: bytes, body: bytes) -> asyncio.Future[tuple[int, str]]:
        """The status of the answer, and the place that a redirect names."""
        assert self._transport is not None
        self.idle_since = None
        self._is_busy, self._has_begun, self._received, self._location = True, False, 0, ""
        answer = self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(b"".join((head, str(len(body)).encode(), b"\r\n\r\n", body)))
        return answer

    @property
    def has_begun(self) -> bool:
        """Whether anything of the answer has come."""
        return self._has_begun

    def data_received(self, data: bytes) -> None:
        self._has_begun = True
        self._received += len(data)
        try:
            if not self._is_busy:
                raise ValueError("the endpoint answers what nobody asked")
            self._parser.feed_data(data)
            if self._is_busy and self._received > ANSWER_BYTES_MAX:
                raise ValueError("the endpoint answers more than it should")
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(ValueError(f"the endpoint does not speak HTTP: {error}"))
            self.close()
        except ValueError as error:  # if the status has come already, that is all that counts
            self._fail(error)
            self.close()

    # --- what the parser tells ----------------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"location":
            self._location = value.decode("latin-1")[:200]

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200 and self._answer is not None and not self._answer.done():
            self._answer.set_result((status, self._location))
            self._pool.answered(self)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() < 200:  # the answer is yet to come
            return
        self._is_busy = False
        if self._parser.should_keep_alive() and not self.is_closing:
            self._pool.put(self, self._place)
        else:
            self.close()

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
            self._answer.exception()  # whoever waited may have gone


class Pool:
    """The connections of a notifier, by host and port."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, int], list[Wire]] = {}
        self._all: set[Wire] = set()
        self._connecting = 0
        self._room = asyncio.Semaphore(CONNECTIONS_MAX)
        self._sweep: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Event | None = None

    async def post(self, to: Target, letter: Letter, timeout_s: float) -> tuple[int, str]:
        """The status of the answer, and where a redirect leads. Raises SendingFailed."""
        try:
            async with self._room, asyncio.timeout(timeout_s):
                return await self._post(to, letter.body)
        except TimeoutError:
            raise SendingFailed(f"no answer within {timeout_s:g} s") from None
        except (OSError, ValueError) as error:
            raise SendingFailed(f"{type(error).__name__}: {error}") from None

    async def _post(self, to: Target, body: bytes) -> tuple[int, str]:
        place = (to.host, to.port)
        wire = self._take(place)
        if wire is not None:
            try:
                return await self._ask(wire, to.head, body)
            except OSError:
                if wire.has_begun:
                    raise
                # it was closed while nobody looked; a fresh connection says whether the endpoint is there
        self._make_room()
        self._connecting += 1
        try:
            _, wire = await asyncio.get_running_loop().create_connection(lambda: Wire(self, place), to.host, to.port)
        finally:
            self._connecting -= 1
        self._all.add(wire)
        return await self._ask(wire, to.head, body)

    async def _ask(self, wire: Wire, head: bytes, body: bytes) -> tuple[int, str]:
        try:
            return await wire.post(head, body)
        except BaseException:  # cancelled, or out of time: an answer that comes yet must not be taken for another's
            wire.close()
            raise

    def _take(self, place: tuple[str, int]) -> Wire | None:
        while idle := self._idle.get(place):
            wire = idle.pop()
            if not idle:
                del self._idle[place]
            if not wire.is_closing:
                return wire
        return None

    def _make_room(self) -> None:
        """Close the one longest unused if there are too many; those that someone waits for are bounded by `_room`."""
        if len(self._all) + self._connecting < CONNECTIONS_MAX:
            return
        unused = [wire for wire in self._all if wire.idle_since is not None and not wire.is_closing]
        if unused:
            min(unused, key=lambda wire: wire.idle_since or 0.0).close()

    def answered(self, wire: Wire) -> None:
        """Nobody waits for it any more, even if more of the answer is to come."""
        loop = asyncio.get_running_loop()
        wire.idle_since = loop.time()
        if self._sweep is None:
            self._sweep = loop.call_later(IDLE_S, self._close_idle)

    def put(self, wire: Wire, place: tuple[str, int]) -> None:
        """It can be used again."""
        self._idle.setdefault(place, []).append(wire)

    def lost(self, wire: Wire, place: tuple[str, int]) -> None:
        self._all.discard(wire)
        if self._emptied is not None and not self._all:
            self._emptied.set()
        idle = self._idle.get(place)
        if idle is not None and wire in idle:
            idle.remove(wire)
            if not idle:
                del self._idle[place]

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweep = loop.call_later(IDLE_S, self._close_idle) if self._all else None
        for wire in list(self._all):
            if wire.idle_since is not None and wire.idle_since + IDLE_S <= loop.time():
                wire.close()

    async def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for wire in list(self._all):
            wire.close()
        if self._all:  # the loop tells each of them in its next round
            self._emptied = asyncio.Event()
            await self._emptied.wait()
