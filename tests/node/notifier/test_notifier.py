"""Letters on their way out: real endpoints on loopback that take them, refuse them, or are not there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from hanse.ngsild.errors import ResourceNotFound, TooManyPending
from hanse.ngsild.notifications import Letter
from hanse.ngsild.subscriptions import Counters
from hanse.node.notifier import Notifier
from hanse.node.notifier import notifier as notifier_module
from hanse.node.notifier.notifier import decode_letter, encode_letter
from hanse.node.settings import NodeSettings, NotificationSection
from hanse.node.store import Delivery, PutDelivery, Store, Write

WAIT_S = 60.0
QUICK = NotificationSection(timeout_s=2.0, attempts_max=3, backoff_s=0.01, backoff_max_s=0.02, breaker_s=0.05)


class Endpoint:
    """Remembers what comes, and answers what it is told to."""

    def __init__(self) -> None:
        self.got: asyncio.Queue[tuple[bytes, dict[str, str]]] = asyncio.Queue()
        self.statuses: list[int] = []
        self.answer: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None
        self.url = ""

    async def take(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if self.answer is not None:
            return await self.answer(request)
        status = self.statuses.pop(0) if self.statuses else 200
        self.got.put_nowait((body, dict(request.headers)))
        return web.Response(status=status, headers={"Location": "/elsewhere"} if 300 <= status < 400 else {})

    async def body(self) -> str:
        return (await asyncio.wait_for(self.got.get(), WAIT_S))[0].decode()


@asynccontextmanager
async def endpoint(port: int = 0) -> AsyncIterator[Endpoint]:
    made = Endpoint()
    app = web.Application()
    app.router.add_post("/{name}", made.take)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    host, port = runner.addresses[0][:2]
    made.url = f"http://{host}:{port}/n"
    try:
        yield made
    finally:
        await runner.cleanup()


class Host:
    """As much of a tenant as a notifier needs."""

    def __init__(self, store: Store, settings: NotificationSection = QUICK) -> None:
        self.store = store
        self.notifier = Notifier(
            SimpleNamespace(store=store, settings=NodeSettings(notifications=settings))  # type: ignore[arg-type]
        )
        self.counters = Counters()
        self.counted = asyncio.Event()
        self.notifier.register("urn:s:1", self.counters, lambda _: self.counted.set())
        submit = store.submit

        def observed(*writes: Write) -> asyncio.Future[None]:
            written = submit(*writes)
            written.add_done_callback(lambda _: self.counted.set())
            return written

        store.submit = observed  # type: ignore[method-assign]

    def delivery(self, uri: str, body: str = "{}", subscription: str = "urn:s:1", **more: Any) -> Delivery:
        letter = Letter(uri, body.encode(), (("Content-Type", "application/json"),), **({"order": body} | more))
        return Delivery(
            id=self.store.next_delivery_id(), subscription=subscription, endpoint=uri, payload=encode_letter(letter), created_ms=1
        )

    async def send(self, *deliveries: Delivery) -> None:
        """As a tenant does: dispatched when it is durable."""
        await self.store.submit(*map(PutDelivery, deliveries))
        self.notifier.dispatch(deliveries)

    async def until(self, is_true: Callable[[], bool]) -> None:
        """Wait, counter by counter and commit by commit, for something that the notifier brings about."""
        async with asyncio.timeout(WAIT_S):
            while not is_true():
                self.counted.clear()
                await self.counted.wait()

    async def empty(self) -> None:
        """Until the outbox is."""
        await self.until(lambda: not self.store.pending_deliveries())


@asynccontextmanager
async def host(directory: Path | None = None, settings: NotificationSection = QUICK) -> AsyncIterator[Host]:
    store = Store.open(directory)
    made = Host(store, settings)
    await made.notifier.start()
    try:
        yield made
    finally:
        await made.notifier.stop()
        await store.close()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def test_a_letter_arrives_and_leaves_the_outbox() -> None:
    async def test() -> None:
        async with endpoint() as there, host() as node:
            await node.send(node.delivery(there.url, '{"a":1}'))
            body, headers = await there.got.get()
            assert body == b'{"a":1}'
            assert headers["Content-Type"] == "application/json"
            await node.until(lambda: node.counters.last_success is not None)
            assert (node.counters.times_sent, node.counters.times_failed, node.counters.failed) == (1, 0, False)
            await node.empty()

    run(test)


def test_what_fails_is_tried_again_in_order() -> None:
    async def test() -> None:
        async with endpoint() as there, host() as node:
            there.statuses = [500, 503]
            await node.send(*(node.delivery(there.url, body, order="same") for body in "abc"))
            assert [await there.body() for _ in range(5)] == ["a", "a", "a", "b", "c"]
            await node.until(lambda: node.counters.times_sent == 3 and not node.counters.failed)
            assert node.counters.times_failed == 1  # three notifications, one of which failed at first: retries are not counted
            await node.empty()

    run(test)


def test_letters_of_one_order_never_overtake_each_other() -> None:
    async def test() -> None:
        flying: set[str] = set()
        most = 0
        together = asyncio.Event()

        async def slow(request: web.Request) -> web.Response:
            nonlocal most
            order = (await request.text())[0]
            assert order not in flying
            flying.add(order)
            most = max(most, len(flying))
            if most > 1:
                together.set()
            await together.wait()
            flying.remove(order)
            there.got.put_nowait((await request.read(), {}))
            return web.Response()

        async with endpoint() as there, host() as node:
            there.answer = slow
            await node.send(*(node.delivery(there.url, f"{order}{n}", order=order) for n in range(10) for order in "abcdef"))
            got = [await there.body() for _ in range(60)]
            for order in "abcdef":
                assert [body for body in got if body[0] == order] == [f"{order}{n}" for n in range(10)]
            assert most > 1

    run(test)


@pytest.mark.parametrize(("status", "reason"), [(404, "answers 404"), (307, "redirects are not followed"), (410, "answers 410")])
def test_a_last_word_makes_a_dead_letter_at_once(status: int, reason: str) -> None:
    async def test() -> None:
        async with endpoint() as there, host() as node:
            there.statuses = [status]
            await node.send(node.delivery(there.url, "a", order="same"), node.delivery(there.url, "b", order="same"))
            assert [await there.body(), await there.body()] == ["a", "b"]
            await node.empty()
            (dead,) = node.notifier.dead_letters()
            assert reason in dead["reason"]
            assert dead["attempts"] == 1
            assert dead["subscriptionId"] == "urn:s:1"

    run(test)


def test_a_dead_letter_can_be_read_resent_and_removed() -> None:
    async def test() -> None:
        async with endpoint() as there, host() as node:
            there.statuses = [500] * QUICK.attempts_max
            await node.send(node.delivery(there.url, '{"a":1}'))
            for _ in range(QUICK.attempts_max):
                await there.body()
            await node.empty()
            (dead,) = node.notifier.dead_letters()
            assert dead["attempts"] == QUICK.attempts_max
            whole = msgspec.json.decode(msgspec.json.encode(node.notifier.dead_letter(dead["id"])))
            assert whole["body"] == {"a": 1}
            await node.notifier.resend(dead["id"])
            assert await there.body() == '{"a":1}'
            assert node.notifier.dead_letters() == []
            there.statuses = [404]
            await node.send(node.delivery(there.url, "x"))
            await there.body()
            await node.empty()
            (dead,) = node.notifier.dead_letters()
            await node.notifier.remove(dead["id"])
            with pytest.raises(ResourceNotFound):
                node.notifier.dead_letter(dead["id"])
            with pytest.raises(ResourceNotFound):
                await node.notifier.resend(dead["id"])

    run(test)


def test_a_dead_endpoint_delays_no_other() -> None:
    patient = NotificationSection(timeout_s=30.0, backoff_s=30.0)

    async def test() -> None:
        hanging = asyncio.Event()

        async def hang(_: web.Request) -> web.Response:
            await hanging.wait()
            return web.Response()

        async with endpoint() as dead, endpoint() as there, host(settings=patient) as node:
            dead.answer = hang
            for n in range(50):
                await node.send(
                    node.delivery(dead.url, f"dead{n}"),
                    node.delivery("http://127.0.0.1:9/n", f"x{n}"),
                    node.delivery(there.url, f"{n}"),
                )
                assert await there.body() == f"{n}"
            waiting = node.notifier.endpoints()
            assert waiting[dead.url]["waiting"] == waiting["http://127.0.0.1:9/n"]["waiting"] == 50
            hanging.set()

    run(test)


def test_an_endpoint_that_comes_back_gets_what_waited() -> None:
    async def test() -> None:
        async with endpoint() as there:
            url = there.url
        many = NotificationSection(timeout_s=2.0, attempts_max=10_000, backoff_s=0.01, backoff_max_s=0.01, breaker_s=0.01)
        async with host(settings=many) as node:
            await node.send(*(node.delivery(url, body, order="same") for body in "abc"))
            await node.until(lambda: node.notifier.failed_total >= 6)
            assert node.notifier.endpoints()[url]["open"]
            async with endpoint(int(url.split(":")[2].split("/")[0])) as there:
                assert [await there.body() for _ in range(3)] == ["a", "b", "c"]
                await node.empty()
                assert node.notifier.endpoints() == {}

    run(test)


def test_a_new_subscription_wakes_its_endpoint() -> None:
    asleep = NotificationSection(timeout_s=2.0, backoff_s=3600.0, backoff_max_s=3600.0)

    async def test() -> None:
        async with endpoint() as there, host(settings=asleep) as node:
            there.statuses = [500]
            await node.send(node.delivery(there.url, "a"))
            await there.body()
            await node.until(lambda: node.counters.failed)
            node.notifier.welcome(there.url)
            assert await there.body() == "a"

    run(test)


def test_what_ends_is_discarded() -> None:
    asleep = NotificationSection(timeout_s=2.0, backoff_s=3600.0, backoff_max_s=3600.0)

    async def test() -> None:
        async with endpoint() as there, host(settings=asleep) as node:
            there.statuses = [500]
            await node.send(node.delivery(there.url, "a"), node.delivery(there.url, "b", "urn:s:2"))
            assert {await there.body(), await there.body()} == {"a", "b"} or node.counters.failed
            await node.until(lambda: node.counters.times_sent >= 1)
            await node.store.submit(*node.notifier.discard("urn:s:1"), *node.notifier.discard("urn:s:2"))
            await node.empty()
            assert node.notifier.endpoints() == {}

    run(test)


def test_a_full_queue_makes_dead_letters() -> None:
    small = NotificationSection(timeout_s=30.0, queue_max=3)

    async def test() -> None:
        hanging = asyncio.Event()

        async def hang(_: web.Request) -> web.Response:
            await hanging.wait()
            return web.Response()

        async with endpoint() as there, host(settings=small) as node:
            there.answer = hang
            await node.send(*(node.delivery(there.url, f"{n}", order="same") for n in range(6)))
            hanging.set()
            await node.empty()
            assert ["wait for the endpoint already" in dead["reason"] for dead in node.notifier.dead_letters()] == [True, True]

    run(test)


def test_pending_letters_go_on_after_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        async with endpoint() as there:
            async with host(tmp_path, NotificationSection(backoff_s=3600.0, backoff_max_s=3600.0)) as node:
                there.statuses = [500, 500]
                await node.send(node.delivery(there.url, "a", order="x"), node.delivery(there.url, "b", order="x"))
                await there.body()
                await node.until(lambda: node.counters.failed)
            async with host(tmp_path) as node:
                (first, _) = node.store.pending_deliveries()
                assert (first.attempts, first.error) == (1, "the endpoint answers 500")
                assert [await there.body() for _ in range(3)] == ["a", "a", "b"]
                await node.empty()
            async with host(tmp_path) as node:
                assert node.store.pending_deliveries() == []

    run(test)


def test_the_timeout_of_a_letter_counts() -> None:
    async def test() -> None:
        hanging = asyncio.Event()

        async def hang(_: web.Request) -> web.Response:
            await hanging.wait()
            return web.Response()

        async with endpoint() as there, host(settings=NotificationSection(timeout_s=3600.0, attempts_max=1)) as node:
            there.answer = hang
            await node.send(node.delivery(there.url, "a", timeout_s=0.02))
            await node.until(lambda: node.counters.failed)
            await node.empty()
            assert node.notifier.dead_letters()[0]["reason"] == "no answer within 0.02 s"
            hanging.set()

    run(test)


GARBAGE = [
    b"",
    b"HTTP/1.1 200 OK\r\n",
    b"\x00\xff\xfe" * 1000,
    b"HTTP/1.1 999 Odd\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nx",
    b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
    b"HTTP/1.1 100 Continue\r\n\r\n" * 50,
    b"HTTP/1.1 301 Moved\r\nLocation: http://[\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 100_000,
]


@pytest.mark.parametrize("answer", GARBAGE, ids=range(len(GARBAGE)))
def test_nothing_that_an_endpoint_does_breaks_the_others(answer: bytes) -> None:
    async def test() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, endpoint() as there, host() as node:
            await node.send(node.delivery(f"http://127.0.0.1:{port}/n", "a"), node.delivery(there.url, "b", "urn:s:2"))
            assert await there.body() == "b"
            await node.until(lambda: node.counters.last_success is not None or node.counters.failed)
            await node.empty()

    run(test)


@given(st.binary(max_size=200))
def test_a_letter_reads_back(body: bytes) -> None:
    letter = Letter("http://x/y", body, (("A", "b"),), "o", 1.5, 0.5, "5", 2)
    assert decode_letter(encode_letter(letter)) == letter


def test_what_the_outbox_has_in_another_form_is_a_dead_letter() -> None:
    async def test() -> None:
        async with host() as node:
            odd = Delivery(id=node.store.next_delivery_id(), subscription="urn:s:1", endpoint="http://x/y", payload=b"\xc1")
            await node.send(odd)
            await node.empty()
            (dead,) = node.notifier.dead_letters()
            assert "cannot read" in dead["reason"]
            assert node.notifier.dead_letter(dead["id"])["body"] is None

    run(test)


def test_a_queue_that_was_given_up_does_not_end_the_one_in_its_place() -> None:
    async def test() -> None:
        slow = msgspec.structs.replace(QUICK, backoff_s=0.2, backoff_max_s=0.2)
        async with endpoint() as there, host(settings=slow) as node:
            there.statuses = [500]
            await node.send(node.delivery(there.url, "a"))
            await node.until(lambda: node.counters.times_failed == 1)
            old = node.notifier._queues[there.url]
            await node.store.submit(*node.notifier.discard("urn:s:1"))
            there.statuses = [500] * 3
            await node.send(node.delivery(there.url, "b", subscription="urn:s:2"))
            new = node.notifier._queues[there.url]
            assert new is not old
            old._resume()
            assert node.notifier._queues[there.url] is new
            assert node.notifier.discard("urn:s:2")

    run(test)


def test_a_dead_letter_is_sent_again_once() -> None:
    async def test() -> None:
        async with endpoint() as there, host() as node:
            there.statuses = [400]
            await node.send(node.delivery(there.url, "a"))
            await node.until(lambda: bool(node.notifier.dead_letters()))
            (dead,) = node.notifier.dead_letters()
            resent = await asyncio.gather(*(node.notifier.resend(dead["id"]) for _ in range(3)), return_exceptions=True)
            assert sorted(type(one).__name__ for one in resent) == ["NoneType", "ResourceNotFound", "ResourceNotFound"]
            assert [await there.body(), await there.body()] == ["a", "a"]
            await node.empty()
            assert there.got.empty()

    run(test)


def test_what_has_arrived_leaves_the_outbox_even_if_the_store_was_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier_module, "WRITE_AGAIN_S", 0.0)

    async def test() -> None:
        async with endpoint() as there, host() as node:
            submit = node.store.submit
            refused: list[tuple[Write, ...]] = []

            def full(*writes: Write) -> asyncio.Future[None]:
                if len(refused) < 3 and not isinstance(writes[0], PutDelivery):
                    refused.append(writes)
                    raise TooManyPending("full")
                return submit(*writes)

            monkeypatch.setattr(node.store, "submit", full)
            await node.send(node.delivery(there.url, "a"))
            assert await there.body() == "a"
            await node.empty()
            assert len(refused) == 3

    run(test)
