"""As little HTTP as possible, so that a test can send anything."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable
from contextlib import suppress
from http.client import HTTPResponse
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

PATIENCE_S = 30  # a request that takes longer hangs


class Reply(Struct, frozen=True):
    status: int
    headers: dict[str, str]  # by names in small letters
    body: bytes

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "")

    @property
    def data(self) -> Any:
        return json.loads(self.body)


class RawClient:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.url = url
        self.address = (parts.hostname or "", parts.port or 0)

    def send(
        self, method: str, target: str | bytes, headers: Iterable[tuple[bytes, bytes]] = (), body: bytes = b""
    ) -> Reply | None:
        """None: the server hung up on what is no HTTP. Of an endless answer only the beginning is read."""
        path = target.encode() if isinstance(target, str) else target
        head = [b"%b %b HTTP/1.1" % (method.encode(), path), b"Host: test", b"Connection: close"]
        head += [b"%b: %b" % header for header in headers]
        with socket.create_connection(self.address, timeout=PATIENCE_S) as connection:
            with suppress(BrokenPipeError, ConnectionResetError):  # refused before all of it was read; the answer says why
                connection.sendall(b"\r\n".join(head) + b"\r\n\r\n" + body)
            answer = HTTPResponse(connection, method=method)
            try:
                answer.begin()
                found = {name.lower(): value for name, value in answer.headers.items()}
                is_endless = found.get("content-type", "").startswith("text/event-stream")
                return Reply(answer.status, found, b"" if is_endless else answer.read())
            except ConnectionResetError:
                return None

    def get(self, target: str) -> Reply:
        reply = self.send("GET", target)
        assert reply is not None
        return reply

    def json(self, method: str, target: str, body: Any, media_type: str = "application/json", **headers: str) -> Reply:
        """A request with a body: bytes as they are, anything else as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": media_type, "Content-Length": str(len(data))} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        reply = self.send(method, target, [(name.encode(), value.encode("latin-1")) for name, value in sent.items()], data)
        assert reply is not None
        return reply
