"""Subscriptions that reach other nodes: copies are made, follow, and end; what a source tells arrives at the subscriber."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Event, Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.node.distributed.test_distributed_nodes import CAR, REGISTRATION, Api, car
from tests.serving import serving, settings_with

WAIT_S = 60
SUBSCRIPTION = "urn:ngsi-ld:Subscription:mine"
BOTH = ["federationOps", "redirectionOps"]


class Server:
    """Something that answers: it keeps what came, and may pass it on to where it belongs."""

    def __init__(self, status: int = 201) -> None:
        self.came: Queue[tuple[str, str, Any]] = Queue()
        self.target = ""
        self.answers: dict[str, int] = {}  # other than usual, by method
        self.is_open = Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                code = outer.answers.get(self.command, status)
                if outer.target:
                    outer.is_open.wait(WAIT_S)
                    connection = HTTPConnection(urlsplit(outer.target).netloc, timeout=30)
                    connection.request(self.command, self.path, body, dict(self.headers.items()))
                    code = connection.getresponse().status
                    connection.close()
                outer.came.put((self.command, self.path, json.loads(body) if body else None))
                self.send_response(code)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.is_open.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def next(self) -> tuple[str, str, Any]:
        return self.came.get(timeout=WAIT_S)

    def until(self, *methods: str) -> Any:
        """The next subscription that is made or ended by it, once that is answered; with its method, if there are several."""
        while True:
            method, path, body = self.next()
            if method in methods and path.startswith("/ngsi-ld/v1/subscriptions"):
                return body if len(methods) == 1 else (method, body)


@contextmanager
def server() -> Iterator[Server]:
    made = Server()
    try:
        yield made
    finally:
        made.close()


@contextmanager
def node(name: str, data: Path | None = None, known: Server | None = None) -> Iterator[tuple[Api, Server]]:
    """A node that others reach by way of a server, which sees what comes; one that is known, if the node was there before."""
    with server() if known is None else nullcontext(known) as way:
        store = {"data": str(data)} if data is not None else {}
        with serving(settings_with(node={"id": name, "public_url": way.url}, store=store)) as url:
            way.target = url
            way.is_open.set()
            yield Api(url), way


def subscription(uri: str, **more: Any) -> dict[str, Any]:
    notification = {"endpoint": {"uri": uri}, "format": "keyValues"}
    return {"id": SUBSCRIPTION, "type": "Subscription", "entities": [{"type": "Vehicle"}], "notification": notification} | more


@pytest.fixture
def two() -> Iterator[tuple[Api, Api, Server]]:
    """Two nodes, and the way to the second."""
    with node("a") as (a, _), node("b") as (b, way):
        yield a, b, way


def test_what_happens_at_a_source_is_told_to_the_subscriber_here(two: tuple[Api, Api, Server]) -> None:
    a, b, way = two
    with server() as subscriber:
        a.registers("b", way.url, operations=BOTH)
        assert a("POST", "/subscriptions", subscription(subscriber.url, q="speed>20")).status == 201
        copy = way.until("POST")
        assert copy["id"] != SUBSCRIPTION
        assert subscriber.url not in copy["notification"]["endpoint"]["uri"]
        b.keeps(speed=10)
        b.keeps("urn:ngsi-ld:Vehicle:2", speed=30)
        _, _, told = subscriber.next()
        assert told["subscriptionId"] == SUBSCRIPTION
        assert told["data"] == [{"id": "urn:ngsi-ld:Vehicle:2", "type": "Vehicle", "speed": 30}]
        assert a("PATCH", f"/subscriptions/{SUBSCRIPTION}", {"q": "speed>5"}).status == 204
        assert {way.until("DELETE", "POST")[0], way.until("DELETE", "POST")[0]} == {"DELETE", "POST"}
        assert [found["q"] for found in b("GET", "/subscriptions").json()] == ["speed>5"]
        assert b("PATCH", f"/entities/{CAR}", {"speed": {"type": "Property", "value": 11}}).status == 204
        assert subscriber.next()[2]["data"] == [{"id": CAR, "type": "Vehicle", "speed": 11}]
        assert a("DELETE", f"/subscriptions/{SUBSCRIPTION}").status == 204
        way.until("DELETE")
        assert b("GET", "/subscriptions").json() == []


def test_copies_come_and_go_with_registrations(two: tuple[Api, Api, Server]) -> None:
    a, b, way = two
    assert a("POST", "/subscriptions", subscription("http://127.0.0.1:1/")).status == 201
    a.registers("b", way.url, operations=BOTH)
    way.until("POST")
    assert len(b("GET", "/subscriptions").json()) == 1
    assert a("DELETE", f"/csourceRegistrations/{REGISTRATION}b").status == 204
    way.until("DELETE")
    assert b("GET", "/subscriptions").json() == []


def test_nodes_that_name_each_other_copy_once(two: tuple[Api, Api, Server]) -> None:
    a, b, way = two
    a.registers("b", way.url, operations=BOTH)
    b.registers("a", a.url, operations=BOTH)
    with server() as subscriber:
        assert a("POST", "/subscriptions", subscription(subscriber.url)).status == 201
        way.until("POST")
        a.keeps(speed=1)
        b.keeps("urn:ngsi-ld:Vehicle:2", speed=2)
        told = [subscriber.next()[2]["data"][0]["id"] for _ in range(2)]
        assert sorted(told) == [CAR, "urn:ngsi-ld:Vehicle:2"]
        assert len(a("GET", "/subscriptions").json()) == 1
        assert len(b("GET", "/subscriptions").json()) == 1


def test_a_subscription_for_here_only_stays_here() -> None:
    with node("a") as (a, _), server() as source:
        a.registers("fake", source.url, operations=BOTH)
        assert a("POST", "/subscriptions", subscription("http://127.0.0.1:1/", localOnly=True)).status == 201
        other = subscription("http://127.0.0.1:1/") | {"id": SUBSCRIPTION + "2"}
        assert a("POST", "/subscriptions", other, headers={"Via": "1.1 b"}).status == 201
        third = subscription("http://127.0.0.1:1/") | {"id": SUBSCRIPTION + "3", "watchedAttributes": ["speed"]}
        assert a("POST", "/subscriptions", third).status == 201
        method, path, copy = source.next()
        assert (method, path, copy["watchedAttributes"], copy["localOnly"]) == (
            "POST",
            "/ngsi-ld/v1/subscriptions",
            ["speed"],
            True,
        )
        assert a("DELETE", f"/subscriptions/{SUBSCRIPTION}3").status == 204
        assert source.next()[:2] == ("DELETE", f"/ngsi-ld/v1/subscriptions/{copy['id']}")
        assert source.came.empty()


def test_copies_outlive_the_node(tmp_path: Path) -> None:
    with server() as source, server() as subscriber, server() as way:
        with node("a", tmp_path, way) as (a, _):
            a.registers("fake", source.url, operations=BOTH)
            assert a("POST", "/subscriptions", subscription(subscriber.url)).status == 201
            _, _, copy = source.next()
            told = {"type": "Notification", "subscriptionId": copy["id"], "data": [car(speed=5)]}
            connection = copy["notification"]["endpoint"]["uri"]
            assert urlsplit(connection).path == "/hanse/v1/remote-notifications"
            assert notify(connection, told) == 204
            assert subscriber.next()[2]["data"] == [{"id": CAR, "type": "Vehicle", "speed": 5}]
        with node("a", tmp_path, way) as (a, _):
            assert notify(connection, told) == 204
            assert subscriber.next()[2]["subscriptionId"] == SUBSCRIPTION
            assert a("DELETE", f"/subscriptions/{SUBSCRIPTION}").status == 204
            while source.next()[0] != "DELETE":
                pass
            assert notify(connection, told) == 404


def test_a_node_at_another_address_is_told_there_of_the_same_copy(tmp_path: Path) -> None:
    with server() as source, server() as subscriber:
        with node("a", tmp_path) as (a, _):
            a.registers("fake", source.url, operations=BOTH)
            assert a("POST", "/subscriptions", subscription(subscriber.url)).status == 201
            copy = source.until("POST")
        with node("a", tmp_path) as (a, way):
            method, path, change = source.next()
            assert (method, path) == ("PATCH", f"/ngsi-ld/v1/subscriptions/{copy['id']}")
            there = change["notification"]["endpoint"]["uri"]
            assert there == f"{way.url}/hanse/v1/remote-notifications"
            assert notify(there, {"type": "Notification", "subscriptionId": copy["id"], "data": [car(speed=5)]}) == 204
            assert subscriber.next()[2]["data"] == [{"id": CAR, "type": "Vehicle", "speed": 5}]


@pytest.mark.parametrize(("answer", "asked"), [(404, ["PATCH", "POST"]), (405, ["PATCH", "DELETE"])])
def test_a_source_that_changes_no_copy_gets_another(answer: int, asked: list[str], tmp_path: Path) -> None:
    with server() as source, server() as subscriber:
        with node("a", tmp_path) as (a, _):
            a.registers("fake", source.url, operations=BOTH)
            assert a("POST", "/subscriptions", subscription(subscriber.url)).status == 201
            copy = source.until("POST")
        source.answers = {"PATCH": answer}
        with node("a", tmp_path) as (_, way):
            assert [source.next()[0] for _ in asked] == asked
            if answer == 405:
                made = source.until("POST")
                assert made["id"] != copy["id"]
                assert made["notification"]["endpoint"]["uri"].startswith(way.url)


def test_a_source_tells_a_node_that_has_moved_once(tmp_path: Path) -> None:
    with node("b") as (b, at_b), server() as subscriber:
        with node("a", tmp_path) as (a, _):
            a.registers("b", at_b.url, operations=BOTH)
            assert a("POST", "/subscriptions", subscription(subscriber.url)).status == 201
            at_b.until("POST")
        with node("a", tmp_path):
            at_b.until("PATCH")
            assert b("POST", "/entities", car(speed=7)).status == 201
            assert subscriber.next()[2]["data"] == [{"id": CAR, "type": "Vehicle", "speed": 7}]
            assert b("POST", "/entities", car(speed=8) | {"id": CAR + "2"}).status == 201
            assert subscriber.next()[2]["data"] == [{"id": CAR + "2", "type": "Vehicle", "speed": 8}]


@pytest.mark.parametrize(
    "rubbish", [{}, [], {"subscriptionId": 7, "data": []}, {"data": [{}]}, {"subscriptionId": "urn:x:1", "data": [7]}]
)
def test_rubbish_is_refused(rubbish: Any) -> None:
    with node("a") as (_, way):
        assert notify(way.url + "/hanse/v1/remote-notifications", rubbish) in (400, 404)


def notify(url: str, body: Any) -> int:
    parts = urlsplit(url)
    connection = HTTPConnection(parts.netloc, timeout=30)
    connection.request("POST", parts.path, json.dumps(body), {"Content-Type": "application/json"})
    status = connection.getresponse().status
    connection.close()
    return status
