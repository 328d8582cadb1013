"""HTTP/1.1 for notifications: connections that are kept, closed, stale; answers of every kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.ngsild.notifications import Letter
from hanse.node.notifier import wire
from hanse.node.notifier.http import HttpSender
from hanse.node.notifier.queue import SendingFailed
from hanse.node.notifier.wire import ANSWER_BYTES_MAX, Pool, target

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Answers with bytes as they are, one after the other."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.requests: list[bytes] = []
        self.connections = 0
        self.writers: list[asyncio.StreamWriter] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                answer = self.answers.pop(0) if self.answers else OK
                writer.write(answer)
                if not answer or b"Connection: close" in answer or b"Content-Length" not in answer:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    made = Server()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/n?a=b"
    async with server:
        yield made
        for writer in made.writers:
            writer.close()


@asynccontextmanager
async def sending() -> AsyncIterator[Callable[..., Coroutine[Any, Any, None]]]:
    sender = HttpSender(2.0)

    async def send(uri: str, body: bytes = b"{}", **more: Any) -> None:
        await sender.send(Letter(uri, body, (("Content-Type", "application/json"), ("X-Key", "ü")), **more))

    try:
        yield send
    finally:
        await sender.close()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def test_a_request_is_what_http_wants_and_the_connection_is_kept() -> None:
    async def test() -> None:
        async with serving() as server, sending() as send:
            for n in range(5):
                await send(server.url, b"%d" % n)
            host = server.url.split("/")[2]
            expected = (
                f"POST /n?a=b HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nX-Key: ü\r\nContent-Length: 1\r\n\r\n"
            )
            assert server.requests == [expected.encode() + b"%d" % n for n in range(5)]
            assert server.connections == 1

    run(test)


def test_letters_at_once_have_connections_of_their_own() -> None:
    async def test() -> None:
        async with serving() as server, sending() as send:
            await asyncio.gather(*(send(server.url, b"%d" % n) for n in range(10)))
            assert server.connections == 10
            await asyncio.gather(*(send(server.url, b"%d" % n) for n in range(10)))
            assert server.connections == 10

    run(test)


@pytest.mark.parametrize(
    "answer",
    [
        OK,
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 202 Accepted\r\nConnection: close\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200_000,
    ],
)
def test_every_kind_of_success(answer: bytes) -> None:
    async def test() -> None:
        async with serving() as server, sending() as send:
            server.answers = [answer, answer]
            for _ in range(3):
                await send(server.url)
            assert len(server.requests) == 3

    run(test)


@pytest.mark.parametrize(
    ("answer", "reason", "is_final"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "answers 404", True),
        (b"HTTP/1.1 429 Slowly\r\nContent-Length: 0\r\n\r\n", "answers 429", False),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", "answers 500", False),
        (b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n", "'http://elsewhere/'", True),
        (b"", "closes the connection", False),
        (b"SSH-2.0-OpenSSH_9\r\nConnection: close\r\n", "does not speak HTTP", False),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: close\r\n\r\n", "HTTP|closes", False),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * ANSWER_BYTES_MAX * 2, "more than it should", False),
    ],
)
def test_every_kind_of_failure(answer: bytes, reason: str, is_final: bool) -> None:
    async def test() -> None:
        async with serving() as server, sending() as send:
            server.answers = [answer]
            with pytest.raises(SendingFailed, match=reason) as failed:
                await send(server.url, timeout_s=0.5)
            assert failed.value.is_final == is_final
            await send(server.url)  # and the next one goes well

    run(test)


def test_a_connection_that_went_stale_is_replaced_without_a_failure() -> None:
    async def test() -> None:
        async with serving() as server, sending() as send:
            await send(server.url)
            server.answers = [b""]  # taken on the kept connection, which then closes without a word
            await send(server.url)
            assert server.connections == 2
            for writer in server.writers:
                writer.close()
            await send(server.url)
            assert server.connections == 3

    run(test)


def test_a_late_answer_is_not_taken_for_another() -> None:
    async def test() -> None:
        held = asyncio.Event()
        connections = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal connections
            connections += 1
            mine = connections
            await reader.readuntil(b"{}")
            if mine == 1:
                await held.wait()
                writer.write(b"HTTP/1.1 500 Late\r\nContent-Length: 0\r\n\r\n")
            else:
                writer.write(OK)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        async with server, sending() as send:
            with pytest.raises(SendingFailed, match=r"no answer within 0\.05 s"):
                await send(url, timeout_s=0.05)
            held.set()
            await send(url)
            assert connections == 2

    run(test)


@pytest.mark.parametrize(
    ("uri", "host", "port", "line"),
    [
        ("http://a.example", "a.example", 80, b"POST / HTTP/1.1\r\nHost: a.example\r\n"),
        ("http://a.example?x", "a.example", 80, b"POST /?x HTTP/1.1\r\nHost: a.example\r\n"),
        ("http://[::1]:8080/a%20b?c=d", "::1", 8080, b"POST /a%20b?c=d HTTP/1.1\r\nHost: [::1]:8080\r\n"),
    ],
)
def test_plain_addresses(uri: str, host: str, port: int, line: bytes) -> None:
    found = target(uri, ())
    assert found is not None
    assert found[:2] == (host, port)
    assert found.head == line + b"Content-Length: "


@pytest.mark.parametrize(
    "uri",
    [
        "https://a/",
        "http://user:pw@a/",
        "http://ä/",
        "http://a/ü",
        "http://a/#b",
        "http://a:0/",
        "http://a:99999/",
        "http://a/\r\nX: y",
    ],
)
def test_other_addresses_are_for_the_general_client(uri: str) -> None:
    assert target(uri, ()) is None


@given(st.text(max_size=40))
def test_no_address_breaks_a_request(text: str) -> None:
    found = target(f"http://{text}", ())
    assert found is None or found.head.count(b"\r\n") == 2


def test_connections_are_bounded_whatever_endpoints_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither many endpoints nor answers that never end cost more connections than there may be."""
    monkeypatch.setattr(wire, "CONNECTIONS_MAX", 4)
    monkeypatch.setattr(wire, "IDLE_S", 0.05)

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await reader.read()
        writer.close()

    async def test() -> None:
        server = await asyncio.start_server(endless, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        pool = Pool()
        async with server:
            for n in range(20):
                to = target(f"http://127.0.0.1:{port}/{n}", ())
                assert to is not None
                assert (await pool.post(to, Letter("", b"{}", ()), 2.0))[0] == 200
                assert len(pool._all) <= 5  # one may be about to close
            assert pool._all
            pool._emptied = asyncio.Event()  # set when the last one is closed
            await asyncio.wait_for(pool._emptied.wait(), 10)
            assert not pool._idle
            await pool.close()

    run(test)
