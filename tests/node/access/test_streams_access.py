"""Streams tell what the listener sees, and only to whose they are."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import aiohttp
from tests.node.access.town import ADMIN, TOWN, Town, token, town

WAIT_S = 60


async def next_event(lines: Any) -> dict[str, Any]:
    async with asyncio.timeout(WAIT_S):
        async for line in lines:
            if line.startswith(b"data: "):
                found: dict[str, Any] = json.loads(line[6:])
                return found
    raise AssertionError("the stream has ended")


def test_server_sent_events(tmp_path: Path) -> None:
    async def scene(node: Town) -> None:
        bearer = {"Authorization": f"Bearer {TOWN}"}
        async with aiohttp.ClientSession(node.url) as session:
            async with session.get("/hanse/v1/subscribe?type=Room") as refused:
                assert refused.status == 403
            async with session.get("/hanse/v1/subscribe?type=Car", headers=bearer) as refused:
                assert refused.status == 403
            async with session.get(f"/hanse/v1/subscribe?type=Room&access_token={TOWN}") as stream:
                assert stream.status == 200
                await stream.content.readline()
                await asyncio.to_thread(node.put, "urn:room:1", temperature=17.0, occupancy=5)
                told = await next_event(stream.content)
                assert told["data"][0]["temperature"]["value"] == 20.0
                assert "occupancy" not in told["data"][0]

    with town(tmp_path) as node:
        asyncio.run(scene(node))


def test_web_sockets(tmp_path: Path) -> None:
    async def scene(node: Town) -> None:
        made = await asyncio.to_thread(
            node.ask,
            "POST",
            "/ngsi-ld/v1/subscriptions",
            TOWN,
            {
                "type": "Subscription",
                "entities": [{"type": "Room"}],
                "notification": {"endpoint": {"uri": "http://127.0.0.1:9/"}},
            },
        )
        id_ = made.headers["location"].rpartition("/")[2]
        other = token("otto", "town")
        async with aiohttp.ClientSession(node.url) as session:
            async with session.ws_connect(f"/hanse/v1/stream?access_token={other}") as socket:
                await socket.send_json({"op": "listen", "id": "a", "subscriptionId": id_})
                answer = await socket.receive_json(timeout=WAIT_S)
                assert answer["op"] == "error"
                assert answer["problem"]["status"] == 404
                await socket.send_json({"op": "subscribe", "id": "b", "subscription": {"entities": [{"type": "Car"}]}})
                assert (await socket.receive_json(timeout=WAIT_S))["problem"]["status"] == 403
                await socket.send_json({"op": "subscribe", "id": "c", "subscription": {"entities": [{"type": "Room"}]}})
                assert (await socket.receive_json(timeout=WAIT_S))["op"] == "subscribed"
                await asyncio.to_thread(node.put, "urn:room:1", temperature=17.0, occupancy=5)
                told = await socket.receive_json(timeout=WAIT_S)
                assert told["notification"]["data"][0]["temperature"]["value"] == 20.0
                assert "occupancy" not in json.dumps(told)
            async with session.ws_connect("/hanse/v1/stream?access_token=rubbish") as socket:
                assert json.loads((await socket.receive(timeout=WAIT_S)).data)["problem"]["status"] == 401

    with town(tmp_path) as node:
        asyncio.run(scene(node))


def test_subscriptions_in_time_and_throttled_ones_tell_what_is_seen_when_it_is_told(tmp_path: Path) -> None:
    async def scene(node: Town) -> None:
        async with aiohttp.ClientSession(node.url) as session:
            params = f"type=Room&throttling=1&access_token={TOWN}"
            async with session.get(f"/hanse/v1/subscribe?{params}") as stream:
                await stream.content.readline()
                await asyncio.to_thread(node.put, "urn:room:1", temperature=17.0, occupancy=5)
                assert (await next_event(stream.content))["data"][0]["temperature"]["value"] == 20.0
                await asyncio.to_thread(node.put, "urn:room:1", temperature=34.0, occupancy=5)
                held = await next_event(stream.content)
                assert held["data"][0]["temperature"]["value"] == 30.0
                assert "occupancy" not in json.dumps(held)

    with town(tmp_path) as node:
        node.put("urn:room:2", temperature=1.0)
        asyncio.run(scene(node))
        from tests.receiving import receiver

        with receiver() as (url, got):
            wanted = {
                "type": "Subscription",
                "entities": [{"type": "Room"}],
                "timeInterval": 1,
                "q": "!occupancy",
                "notification": {"endpoint": {"uri": url}},
            }
            assert node.ask("POST", "/ngsi-ld/v1/subscriptions", TOWN, wanted).status == 201
            told = got.get(timeout=WAIT_S)
            assert {entity["id"] for entity in told["data"]} == {"urn:room:1", "urn:room:2"}
            assert "occupancy" not in json.dumps(told)


def test_what_a_subscription_tells_follows_the_policies(tmp_path: Path) -> None:
    """An override makes more to be seen; when it ends, a subscription tells less again."""
    from tests.receiving import receiver

    with town(tmp_path) as node, receiver() as (url, got):
        wanted = {
            "type": "Subscription",
            "entities": [{"type": "Room"}],
            "q": "occupancy>5",
            "notification": {"endpoint": {"uri": url}},
        }
        assert node.ask("POST", "/ngsi-ld/v1/subscriptions", TOWN, wanted).status == 201
        node.put("urn:room:1", temperature=10.0, occupancy=7)
        more = {
            "name": "alarm",
            "policies": 'permit (principal in Community::"town", action == Action::"read", resource);',
            "minutes": 5,
            "reason": "a fire",
        }
        assert node.ask("POST", "/hanse/v1/policies/overrides", ADMIN, more).status == 201
        node.put("urn:room:1", temperature=17.0, occupancy=8)
        told = got.get(timeout=WAIT_S)
        assert told["data"][0]["occupancy"]["value"] == 8
        assert told["data"][0]["temperature"]["value"] == 17.0
        assert node.ask("DELETE", "/hanse/v1/policies/overrides/alarm", ADMIN).status == 204
        node.put("urn:room:1", temperature=18.0, occupancy=9)
        wanted["q"] = "temperature==20"
        assert node.ask("POST", "/ngsi-ld/v1/subscriptions", TOWN, wanted).status == 201
        node.put("urn:room:2", temperature=18.0, occupancy=9)
        assert got.get(timeout=WAIT_S)["data"][0]["id"] == "urn:room:2"
        assert got.empty()


def test_a_stream_ends_when_its_token_does(tmp_path: Path) -> None:
    def short() -> str:
        return token("tina", "town", exp=int(time.time()) + 3)

    async def scene(node: Town) -> None:
        attached = await asyncio.to_thread(node.ask, "PUT", "/hanse/v1/clients/tina", TOWN, {})
        assert attached.status in (201, 204), attached.data
        async with aiohttp.ClientSession(node.url) as session:
            for path in (f"/hanse/v1/subscribe?type=Room&access_token={short()}", "/hanse/v1/clients/tina/stream"):
                bearer = {} if "access_token" in path else {"Authorization": f"Bearer {short()}"}
                async with session.get(path, headers=bearer) as stream, asyncio.timeout(WAIT_S):
                    assert stream.status == 200
                    assert b"event: end" in await stream.read()  # to its end, which comes
            async with session.ws_connect(f"/hanse/v1/stream?access_token={short()}") as socket:
                await socket.send_json({"op": "subscribe", "id": "c", "subscription": {"entities": [{"type": "Room"}]}})
                assert (await socket.receive_json(timeout=WAIT_S))["op"] == "subscribed"
                assert (await socket.receive(timeout=WAIT_S)).type is aiohttp.WSMsgType.CLOSE
                assert socket.close_code == 1008

    with town(tmp_path, access={"leeway_s": 0}) as node:
        asyncio.run(scene(node))
