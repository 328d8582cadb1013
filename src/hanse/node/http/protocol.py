"""uvicorn's HTTP, with bounds for what comes before a body: how long it may be, and how long it may take.

What is no HTTP at all is answered with ProblemDetails, as everything else that is refused.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hanse.ngsild.errors import InvalidRequest, NgsiLdError, RequestHeadTooLarge, RequestTimeout
from hanse.node.http.answers import encode_json

if TYPE_CHECKING:
    import asyncio

HEAD_BYTES_MAX: Final = 131_072  # first line and headers; what comes with them in one piece is not counted
HEAD_S_MAX: Final = 30.0  # from the first byte of an incomplete one


class BoundedProtocol(HttpToolsProtocol):
    _head_bytes = 0
    _is_head = False  # a request has begun, and its headers are not complete
    _patience: asyncio.TimerHandle | None = None

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

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose_patience()
        super().connection_lost(exc)

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
