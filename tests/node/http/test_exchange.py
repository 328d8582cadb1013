"""Bodies and answers in one piece go past ASGI's messages: nobody must be able to tell."""

from __future__ import annotations

import gc
import re
import socket
from urllib.parse import urlsplit

import pytest
from tests.serving import serving
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from hanse.node.http import call, dispatch

ENTITY = b'{"id": "urn:x:%d", "type": "T", "a": {"type": "Property", "value": "%s"}}'
LARGE = b"x" * 300_000  # more than is read from a socket at once


def request(method: bytes, path: bytes, body: bytes | None = None, *headers: bytes) -> bytes:
    lines = [method + b" /ngsi-ld/v1" + path + b" HTTP/1.1", b"Host: here", *headers]
    if body is not None:
        lines += [b"Content-Type: application/json", b"Content-Length: %d" % len(body)]
    return b"\r\n".join([*lines, b"", body or b""])


CREATE = request(b"POST", b"/entities", ENTITY % (1, b"small"))
CONVERSATIONS = {  # what is sent, and how many answers there are
    "created, changed, read and deleted": (
        [
            CREATE,
            request(b"PATCH", b"/entities/urn:x:1/attrs", b'{"a": {"type": "Property", "value": 2}}', b"NGSILD-Tenant: t"),
            request(b"PATCH", b"/entities/urn:x:1/attrs", b'{"a": {"type": "Property", "value": 2}}'),
            request(b"GET", b"/entities/urn:x:1"),
            request(b"GET", b"/entities?type=T&count=true"),
            request(b"DELETE", b"/entities/urn:x:1"),
        ],
        6,
    ),
    "refused": ([CREATE, CREATE, request(b"POST", b"/entities", b"{"), request(b"GET", b"/entities/urn:x:2")], 4),
    "without a body in the answer": ([CREATE, request(b"HEAD", b"/entities/urn:x:1"), request(b"OPTIONS", b"/entities")], 3),
    "large": ([request(b"POST", b"/entities", ENTITY % (1, LARGE)), request(b"GET", b"/entities/urn:x:1")], 2),
    "one after the other without waiting": ([CREATE + request(b"GET", b"/entities/urn:x:1") + CREATE], 3),
    "the end of the connection": ([CREATE, request(b"GET", b"/entities/urn:x:1", None, b"Connection: close")], 2),
    "asked to go on": ([request(b"POST", b"/entities", ENTITY % (1, b"small"), b"Expect: 100-continue")], 2),
}


class Heard:
    """What a server says on a connection, answer by answer."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""

    def _until(self, is_enough: re.Pattern[bytes] | int) -> bytes:
        while True:
            found = is_enough.search(self._rest) if isinstance(is_enough, re.Pattern) else None
            length = found.end() if found else is_enough if isinstance(is_enough, int) else None
            if length is not None and len(self._rest) >= length:
                taken, self._rest = self._rest[:length], self._rest[length:]
                return taken
            more = self._connection.recv(65_536)
            assert more, "the connection ended too soon"
            self._rest += more

    def answer(self, *, has_body: bool) -> bytes:
        head = self._until(re.compile(b"\r\n\r\n"))
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        return head + (self._until(int(length[1])) if has_body and length else b"")


def said(sent: list[bytes], answers: int) -> list[bytes]:
    """By a node of its own; without times."""
    heard = []
    with serving() as url, socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), timeout=20) as connection:
        hears = Heard(connection)
        per_message = answers - len(sent) + 1  # only the last one may have several
        for i, message in enumerate(sent):
            connection.sendall(message)
            for _ in range(per_message if i == len(sent) - 1 else 1):
                heard.append(hears.answer(has_body=not message.startswith(b"HEAD")))
        if b"Connection: close" in sent[-1]:
            assert connection.recv(1) == b""
    return [re.sub(rb"(?i)date: [^\r]*|\d{4}-\d\d-\d\dT[\d:.]*Z", b"", answer) for answer in heard]


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_answers_are_the_same_byte_by_byte(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent, answers = CONVERSATIONS[name]
    short = said(sent, answers)
    for module in (call, dispatch):
        monkeypatch.setattr(module, "exchange_of", lambda _scope: None)
    assert said(sent, answers) == short
    assert len(short) == answers


def test_a_request_that_is_answered_leaves_nothing_for_the_garbage_collector() -> None:
    sent = [CREATE, request(b"GET", b"/entities/urn:x:1"), request(b"HEAD", b"/entities/urn:x:1"), request(b"GET", b"/types")]
    with serving() as url, socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), timeout=20) as connection:
        hears = Heard(connection)
        gc.collect()
        gc.disable()
        try:
            for message in sent * 5:
                connection.sendall(message)
                hears.answer(has_body=not message.startswith(b"HEAD"))
            left = sum(isinstance(each, RequestResponseCycle) for each in gc.get_objects())
        finally:
            gc.enable()
    assert left <= 2  # the last one, and the one before it if its task has not quite ended
