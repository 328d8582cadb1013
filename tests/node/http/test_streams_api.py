"""Server-Sent Events and WebSockets, by a real server and a real client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.asking import asking
from tests.serving import serving, settings_with

from hanse.node.http.streams import subscription_of

WAIT_S = 60.0
API = "/ngsi-ld/v1"


def run(test: Callable[[aiohttp.ClientSession], Coroutine[Any, Any, None]], **sections: dict[str, Any]) -> None:
    async def main(url: str) -> None:
        async with asking(url) as http, asyncio.timeout(WAIT_S):
            await test(http)

    with serving(settings_with(**sections)) as url:
        asyncio.run(main(url))


async def create(http: aiohttp.ClientSession, id_: str, **members: Any) -> None:
    answer = await http.post(f"{API}/entities", json={"id": id_, "type": "Building"} | members)
    assert answer.status == 201, await answer.text()


async def used(http: aiohttp.ClientSession, name: str) -> int:
    """How much of a bound is in use."""
    bounds = await (await http.get("/hanse/v1/bounds")).json()
    return sum(bound["used"] for bound in bounds if bound["name"] == name)


class Events:
    """What comes on a stream of events."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._lines = response.content

    async def next(self) -> dict[str, str]:
        """The next event, by its fields; comments are none, and neither is what has no data."""
        event: dict[str, str] = {}
        while True:
            line = (await self._lines.readline()).decode().rstrip("\n")
            if not line and "data" in event:
                return event
            name, colon, value = line.partition(": ")
            if colon and name:
                event[name] = value

    async def connected(self) -> None:
        assert (await self._lines.readline()).startswith(b": connected")


STORED = {
    "id": "urn:s:1",
    "type": "Subscription",
    "entities": [{"type": "Building"}],
    "notification": {"format": "keyValues", "endpoint": {"uri": "urn:hanse:stream"}},
}


def test_events_of_a_subscription_go_on_where_they_broke() -> None:
    async def test(http: aiohttp.ClientSession) -> None:
        await http.post(f"{API}/subscriptions", json=STORED)
        path = "/hanse/v1/notifications?subscription=urn:s:1"
        async with http.get(path) as response:
            assert response.headers["Content-Type"].startswith("text/event-stream")
            events = Events(response)
            await events.connected()
            await create(http, "urn:b:1", level=1)
            first = await events.next()
            assert first["event"] == "notification"
            assert msgspec.json.decode(first["data"])["data"][0]["level"] == 1
        await create(http, "urn:b:2", level=2)
        await create(http, "urn:b:3", level=3)
        async with http.get(path, headers={"Last-Event-ID": first["id"]}) as response:
            events = Events(response)
            await events.connected()
            missed = [msgspec.json.decode((await events.next())["data"])["data"][0]["id"] for _ in range(2)]
            assert missed == ["urn:b:2", "urn:b:3"]
        async with http.get(path + "&lastEventId=1") as response:
            assert (await Events(response).next())["event"] == "gap"

    run(test)


def test_a_stream_may_bring_its_own_subscription() -> None:
    async def test(http: aiohttp.ClientSession) -> None:
        async with http.get(
            "/hanse/v1/subscribe", params={"type": "Building", "q": "level>3", "format": "keyValues"}
        ) as response:
            events = Events(response)
            await events.connected()
            await create(http, "urn:b:1", level=1)
            await create(http, "urn:b:2", level=5)
            (entity,) = msgspec.json.decode((await events.next())["data"])["data"]
            assert entity == {"id": "urn:b:2", "type": "Building", "level": 5}
            assert await (await http.get(f"{API}/subscriptions")).json() == []
            assert await used(http, "subscriptions") == await used(http, "streams") == 1
        while await used(http, "subscriptions") or await used(http, "streams"):
            pass  # the node notices that the client has gone
        await create(http, "urn:b:3", level=6)

    run(test)


def test_a_stream_ends_with_its_subscription() -> None:
    async def test(http: aiohttp.ClientSession) -> None:
        await http.post(f"{API}/subscriptions", json=STORED)
        async with http.get("/hanse/v1/notifications?subscription=urn:s:1") as response:
            await Events(response).connected()
            await http.delete(f"{API}/subscriptions/urn:s:1")
            await response.content.read()

    run(test)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/hanse/v1/notifications", 404),
        ("/hanse/v1/notifications?subscription=urn:s:9", 404),
        ("/hanse/v1/notifications?subscription=urn:s:1&lastEventId=x", 400),
        ("/hanse/v1/notifications?odd=1", 400),
        ("/hanse/v1/notifications?subscription=urn:s:1&tenant=nobody", 404),
        ("/hanse/v1/subscribe?q=((", 400),
        ("/hanse/v1/subscribe?georel=near", 400),
        ("/hanse/v1/subscribe?throttling=x", 400),
        ("/hanse/v1/subscribe?format=odd", 400),
        ("/hanse/v1/subscribe?odd=1", 400),
        ("/hanse/v1/subscribe?type=A&context=http://127.0.0.1:9/c.jsonld", 504),
    ],
)
def test_a_stream_that_makes_no_sense_is_refused(path: str, status: int) -> None:
    async def test(http: aiohttp.ClientSession) -> None:
        await http.post(f"{API}/subscriptions", json=STORED)
        async with http.get(path) as response:
            assert response.status == status
            assert (await response.json())["type"].startswith("https://uri.etsi.org/ngsi-ld/errors/")

    run(test)


def test_there_are_only_so_many_streams() -> None:
    async def test(http: aiohttp.ClientSession) -> None:
        async with http.get("/hanse/v1/subscribe?type=Building") as response:
            await Events(response).connected()
            assert (await http.get("/hanse/v1/subscribe?type=Building")).status == 503

    run(test, limits={"streams_max": 1})


def test_a_socket_carries_many_subscriptions() -> None:
    async def test(http: aiohttp.ClientSession) -> None:
        await http.post(f"{API}/subscriptions", json=STORED)
        async with http.ws_connect("/hanse/v1/stream") as socket:

            async def ask(**message: Any) -> Any:
                await socket.send_json(message)
                return await socket.receive_json()

            wanted = {"entities": [{"type": "Building"}], "q": "level>3", "notification": {"format": "keyValues"}}
            made = await ask(op="subscribe", id="high", subscription=wanted)
            assert (made["op"], made["id"]) == ("subscribed", "high")
            assert (await ask(op="listen", id="all", subscriptionId="urn:s:1"))["op"] == "subscribed"
            await create(http, "urn:b:1", level=5)
            got = [await socket.receive_json(), await socket.receive_json()]
            assert {message["id"] for message in got} == {"high", "all"}
            assert all(message["notification"]["data"][0]["level"] == 5 for message in got)
            await create(http, "urn:b:2", level=1)
            last = await socket.receive_json()
            assert (last["op"], last["id"], last["notification"]["data"][0]["id"]) == ("notification", "all", "urn:b:2")
            assert (await ask(op="unsubscribe", id="all")) == {"op": "unsubscribed", "id": "all"}
            await create(http, "urn:b:3", level=9)
            assert (await socket.receive_json())["id"] == "high"
            assert await ask(op="ping") == {"op": "pong"}
            for wrong in (
                {"op": "dance"},
                {"op": "subscribe"},
                {"op": "subscribe", "id": "high", "subscription": wanted},
                {"op": "subscribe", "id": "x", "subscription": {"q": "(("}},
                {"op": "subscribe", "id": "x", "subscription": 5},
                {"op": "listen", "id": "x", "subscriptionId": "urn:s:9"},
                {"op": "listen", "id": "x", "subscriptionId": 5},
                {"op": "unsubscribe", "id": "x"},
            ):
                assert (await ask(**wrong))["op"] == "error"
            for odd in ("{", "5", "[]"):
                await socket.send_str(odd)
                assert (await socket.receive_json())["op"] == "error"
            await socket.send_bytes(b"\xff")
            assert (await socket.receive_json())["op"] == "error"
        assert len(await (await http.get(f"{API}/subscriptions")).json()) == 1
        while await used(http, "subscriptions") > 1 or await used(http, "streams"):
            pass

    run(test)


def test_a_socket_outlives_one_of_its_subscriptions() -> None:
    async def test(http: aiohttp.ClientSession) -> None:
        for id_ in ("urn:s:1", "urn:s:2"):
            await http.post(f"{API}/subscriptions", json=STORED | {"id": id_})
        async with http.ws_connect("/hanse/v1/stream") as socket:
            for id_ in ("urn:s:1", "urn:s:2"):
                await socket.send_json({"op": "listen", "id": id_, "subscriptionId": id_})
                assert (await socket.receive_json())["op"] == "subscribed"
            assert (await http.delete(f"{API}/subscriptions/urn:s:1")).status == 204
            assert await socket.receive_json() == {"op": "unsubscribed", "id": "urn:s:1"}
            await create(http, "urn:b:1", level=5)
            assert (await socket.receive_json())["id"] == "urn:s:2"

    run(test)


def test_parameters_become_a_subscription() -> None:
    params = {
        "type": "A|B",
        "id": "urn:a:1,urn:a:2",
        "attrs": "x,y",
        "options": "keyValues,sysAttrs",
        "watched": "x",
        "trigger": "entityCreated",
        "georel": "within",
        "throttling": "1.5",
    }
    assert subscription_of(params) == {
        "type": "Subscription",
        "entities": [{"type": "A|B", "id": ["urn:a:1", "urn:a:2"]}],
        "watchedAttributes": ["x"],
        "notificationTrigger": ["entityCreated"],
        "throttling": 1.5,
        "geoQ": {"georel": "within"},
        "notification": {"sysAttrs": True, "showChanges": False, "attributes": ["x", "y"], "format": "keyValues"},
    }
