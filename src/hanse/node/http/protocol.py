"""uvicorn's HTTP, with bounds for what comes before a body: how long it may be, and how long it may take.

What is no HTTP at all is answered with ProblemDetails, as everything else that is refused.

Nearly always a body is there as a whole when the application looks, and so is the answer when it is sent. For these an `Exchange`
is shorter than ASGI's messages, which cost as much as all the rest of a small request; what it cannot do is left to them.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from weakref import ref

from uvicorn.protocols.http.httptools_impl import HEADER_VALUE_RE, STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from hanse.ngsild.errors import InvalidRequest, NgsiLdError, RequestHeadTooLarge, RequestTimeout
from hanse.node.http.answers import encode_json

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from starlette.types import Scope

HEAD_BYTES_MAX: Final = 131_072  # first line and headers; what comes with them in one piece is not counted
HEAD_S_MAX: Final = 30.0  # from the first byte of an incomplete one


_EXCHANGE: Final = "hanse.exchange"  # where it is in a scope


class Exchange:
    """A request and its answer, each in one piece.

    It is in the scope of its cycle, which it therefore must not keep: nearly all of a node's garbage would be such rings, which
    only the collector finds, and everything else would stand still for it.
    """

    __slots__ = ("_cycle",)

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = ref(cycle)

    def body(self) -> bytes | None:
        """The body, if all of it is there; it can be asked for once."""
        cycle = self._cycle()
        if cycle is None or cycle.more_body or cycle.disconnected or cycle.waiting_for_100_continue:
            return None
        body, cycle.body = bytes(cycle.body), bytearray()
        cycle.message_event.clear()
        cycle.flow.resume_reading()
        return body

    def answer(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bool:
        """Write a whole answer, `headers` with its length. False: nothing was written, ASGI has to do it."""
        cycle = self._cycle()
        if cycle is None or cycle.disconnected or not cycle.keep_alive:
            return False
        if cycle.flow.write_paused or cycle.scope["method"] == "HEAD":
            return False
        parts = [STATUS_LINE[status]]
        for some in (cycle.default_headers, headers):
            for name, value in some:
                if HEADER_VALUE_RE.search(value):
                    return False
                parts += (name, b": ", value, b"\r\n")
        parts += (b"\r\n", body)
        cycle.response_started = cycle.response_complete = True
        cycle.transport.write(b"".join(parts))
        cycle.message_event.set()
        cycle.on_response()
        return True


def exchange_of(scope: Scope) -> Exchange | None:
    """None if another server is below, or another protocol."""
    return scope.get(_EXCHANGE)


class BoundedProtocol(HttpToolsProtocol):
    _head_bytes = 0
    _is_head = False  # a request has begun, and its headers are not complete
    _patience: asyncio.TimerHandle | None = None
    _idle_since: float | None = None  # None: a request is on its way, or none has come yet

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._is_head or self.transport.is_closing():
            return
        self._head_bytes += len(data)
        if self._head_bytes > HEAD_BYTES_MAX:
            self._refuse(RequestHeadTooLarge(f"the headers of a request may have {HEAD_BYTES_MAX} bytes"))
        elif self._patience is None:
            self._patience = self.loop.call_later(HEAD_S_MAX, self._too_late)

    def on_message_begin(self) -> None:
        self._is_head = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._is_head = False
        self._lose_patience()
        super().on_headers_complete()
        cycle = self.cycle
        if cycle is not None and cycle.scope is self.scope:  # a web socket has none
            self.scope[_EXCHANGE] = Exchange(cycle)  # type: ignore[typeddict-unknown-key]

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose_patience()
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None
        super().connection_lost(exc)

    # Idle connections end as with uvicorn, but with one timer that looks again, instead of a new one for every request.

    def _unset_keepalive_if_required(self) -> None:
        self._idle_since = None

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        self.timeout_keep_alive_task = None
        if self._idle_since is None:  # the next answer sets it again
            return
        left_s = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left_s > 0:
            self.timeout_keep_alive_task = self.loop.call_later(left_s, self.timeout_keep_alive_handler)
        else:
            super().timeout_keep_alive_handler()

    def send_400_response(self, msg: str) -> None:
        self._refuse(InvalidRequest(msg))

    def _too_late(self) -> None:
        if self._is_head and not self.transport.is_closing():
            self._refuse(RequestTimeout(f"the headers did not come within {HEAD_S_MAX:g} s"))

    def _lose_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _refuse(self, error: NgsiLdError) -> None:
        self._lose_patience()
        body = encode_json(error.problem())
        head = f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\nContent-Type: application/json\r\n"
        self.transport.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        self.transport.close()
