"""The Python client against a real node."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from tests.serving import serving

import hanse
from hanse.client import NodeClient, Notifications, SyncNodeClient
from hanse.client.node import subscription
from hanse.client.session import base_of
from hanse.model import InvalidInput


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as found:
        yield found


def room(number: int, **more: Any) -> dict[str, Any]:
    return {"id": f"urn:ngsi-ld:Room:{number}", "type": "Room", "temperature": number, **more}


def test_an_entity_from_its_beginning_to_its_end(url: str) -> None:
    async def live() -> None:
        async with hanse.connect(url, tenant="life") as node:
            id_ = await node.create(room(1))
            with pytest.raises(hanse.NgsiLdClientError) as error:
                await node.create(room(1))
            assert (error.value.status, error.value.type) == (409, "AlreadyExists")
            assert (await node.get(id_))["temperature"] == {"type": "Property", "value": 1}
            await node.append(id_, {"name": {"value": "hall"}})
            outcome = await node.append(id_, {"name": {"value": "other"}, "more": {"value": 1}}, overwrite=False)
            assert [item["attributeName"].rpartition("/")[2] for item in outcome.not_updated] == ["name"]
            await node.update(id_, {"temperature": {"value": 30}})
            await node.update_attribute(id_, "temperature", {"unitCode": "CEL"})
            await node.merge(id_, {"open": True})
            found = await node.get(id_, format="simplified", omit=["more"])
            assert found == {"id": id_, "type": "Room", "temperature": 30, "name": "hall", "open": True}
            assert "createdAt" in await node.get(id_, sys_attrs=True)
            await node.delete_attribute(id_, "open")
            await node.replace(id_, room(1, name="new"))
            assert await node.get(id_, format="simplified", pick=["name"]) == {"name": "new"}
            history = await node.temporal(id_, attrs="temperature", values=True)
            assert len(history["temperature"]["values"]) >= 2
            await node.delete(id_)
            with pytest.raises(hanse.NgsiLdClientError) as error:
                await node.get(id_)
            assert error.value.status == 404

    asyncio.run(live())


def test_many_entities_come_page_by_page(url: str) -> None:
    async def live() -> None:
        async with hanse.connect(url, tenant="many") as node:
            result = await node.upsert(room(number) for number in range(25))
            assert len(result.success) == 25
            found = [entity["temperature"] async for entity in node.query(type="Room", format="simplified", page=10)]
            assert sorted(found) == list(range(25))
            assert [e["id"] async for e in node.query(type="Room", q="temperature>=24")] == ["urn:ngsi-ld:Room:24"]
            assert await node.count(type="Room", q="temperature<5") == 5
            assert (await node.types(), await node.attributes()) == (["Room"], ["temperature"])
            failed = await node.create_all([room(0), room(100)])
            assert (failed.success, len(failed.errors)) == (["urn:ngsi-ld:Room:100"], 1)
            assert (await node.update_all([room(100, temperature=3)])).errors == []
            histories = [
                entity
                async for entity in node.query_temporal(
                    type="Room",
                    id="urn:ngsi-ld:Room:100",
                    timerel="after",
                    time_at="2000-01-01T00:00:00Z",
                    timeproperty="modifiedAt",
                )
            ]
            assert len(histories) == 1
            assert len((await node.delete_all(f"urn:ngsi-ld:Room:{n}" for n in range(25))).success) == 25
            assert await node.upsert([]) == hanse.client.BatchResult([], [])

    asyncio.run(live())


def test_notifications_come_while_one_listens(url: str) -> None:
    async def live() -> None:
        async with hanse.connect(url, tenant="news") as node:
            await node.create(room(1))
            async with node.subscribe(type="Room", q="temperature>50", format="simplified") as notifications:
                for temperature in (10, 60, 20, 70):
                    await node.update("urn:ngsi-ld:Room:1", {"temperature": temperature})
                heard = [(await anext(notifications))["data"][0]["temperature"] for _ in range(2)]
                assert heard == [60, 70]
                assert [kept["id"] async for kept in node.subscriptions()] == [notifications.id]
            assert [kept async for kept in node.subscriptions()] == []
            assert notifications.gaps == 0

    asyncio.run(live())


def test_what_comes_between_subscribing_and_listening_is_heard(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    listen = Notifications._listen

    async def late(self: Notifications) -> None:
        await self._session.request("POST", "/ngsi-ld/v1/entities", json=room(1))
        await listen(self)

    async def live() -> None:
        async with hanse.connect(url, tenant="between") as node:
            monkeypatch.setattr(Notifications, "_listen", late)
            async with node.subscribe(type="Room") as notifications, asyncio.timeout(30):
                assert (await anext(notifications))["data"][0]["id"] == "urn:ngsi-ld:Room:1"
                assert notifications.gaps == 0

    asyncio.run(live())


def test_leaving_the_client_ends_what_it_follows(url: str) -> None:
    async def live() -> None:
        async with hanse.connect(url, tenant="news") as node:
            await node.subscribe(type="Room").open()
            assert len([kept async for kept in node.subscriptions()]) == 1
        async with hanse.connect(url, tenant="news") as node:
            assert [kept async for kept in node.subscriptions()] == []
            stream = node.subscribe(q="(")
            with pytest.raises(hanse.NgsiLdClientError) as error:
                await anext(stream)
            assert error.value.status == 400

    asyncio.run(live())


def test_the_synchronous_twin_does_the_same(url: str) -> None:
    with hanse.connect_sync(url, tenant="sync") as node:
        node.create(room(1))
        with node.subscribe(type="Room") as notifications:
            node.update("urn:ngsi-ld:Room:1", {"temperature": 9})
            assert next(notifications)["data"][0]["temperature"]["value"] == 9
        assert [entity["temperature"] for entity in node.query(type="Room", format="simplified")] == [9]
        id_ = node.create_subscription(
            {"type": "Subscription", "entities": [{"type": "Room"}], "notification": {"endpoint": {"uri": "http://127.0.0.1:9/"}}}
        )
        assert [kept["id"] for kept in node.subscriptions()] == [id_]
        node.delete_subscription(id_)
    with pytest.raises(RuntimeError, match="closed"):
        node.types()


def test_the_twin_has_every_method() -> None:
    public = {name for name, value in inspect.getmembers(NodeClient, callable) if not name.startswith("_")}
    assert public <= {name for name, value in inspect.getmembers(SyncNodeClient, callable) if not name.startswith("_")}


def test_nobody_there() -> None:
    with hanse.connect_sync("http://127.0.0.1:9") as node, pytest.raises(hanse.NgsiLdClientError) as error:
        node.types()
    assert error.value.status == 0
    assert "no node answers at http://127.0.0.1:9" in str(error.value)


@pytest.mark.parametrize(
    ("given", "base"),
    [
        ("http://h:1", "http://h:1"),
        ("http://h:1/", "http://h:1"),
        ("h:1", "http://h:1"),
        ("https://h/broker/ngsi-ld/v1/", "https://h/broker"),
    ],
)
def test_urls_with_and_without_the_path_of_the_api(given: str, base: str) -> None:
    assert base_of(given) == base


def test_what_is_no_url_is_refused() -> None:
    for given in ("", "ftp://h", "http://"):
        with pytest.raises(InvalidInput):
            base_of(given)


def test_the_subscription_of_a_wish() -> None:
    assert subscription("Room", "t>1", None, "t", "simplified", {"throttling": 5}) == {
        "type": "Subscription",
        "throttling": 5,
        "entities": [{"type": "Room"}],
        "q": "t>1",
        "watchedAttributes": ["t"],
        "notification": {"format": "simplified"},
    }
    assert subscription(None, None, None, None, "normalized", {})["entities"] == [{"type": "*"}]
