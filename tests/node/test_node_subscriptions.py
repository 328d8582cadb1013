"""Subscriptions at work in a tenant: kept, fired, throttled, in time, ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.subscribing import WAIT_S, append, create, delete, inbox, levels, run, subscribe, tenant

from hanse.ngsild.contexts import CORE
from hanse.ngsild.errors import AlreadyExists, BadRequestData, ResourceNotFound
from hanse.ngsild.query import EntityQuery
from hanse.ngsild.subscription_members import STREAM_URI
from hanse.node.notifier.streams import Listener
from hanse.node.settings import NodeSettings, NotificationSection


def test_a_change_is_told_to_those_whose_query_matches() -> None:
    async def test() -> None:
        async with inbox() as there, inbox() as other, tenant() as node:
            await subscribe(node, there.url, q="level>3")
            await subscribe(node, other.url, "urn:s:2", q="level<=3")
            await create(node, level=5)
            await append(node, level=2)
            await append(node, level=7)
            await create(node, "urn:t:1", type="Tower", level=9)
            await append(node, level=8)
            assert [levels(await there.next()) for _ in range(3)] == [[5], [7], [8]]
            assert levels(await other.next()) == [2]
            found = await node.store.query(node.subscriptions.get("urn:s:1").subscription.query)
            assert [entity.id for entity in found.entities] == ["urn:b:1"]

    run(test)


def test_a_deletion_is_told() -> None:
    async def test() -> None:
        async with inbox() as there, tenant() as node:
            await create(node, level=5)
            await subscribe(node, there.url, notificationTrigger=["entityDeleted"])
            await delete(node)
            (gone,) = (await there.next())["data"]
            assert set(gone) == {"id", "type", "deletedAt"}

    run(test)


def test_add_get_page_update_delete() -> None:
    async def test() -> None:
        async with inbox() as there, inbox() as elsewhere, tenant() as node:
            for n in range(3):
                await subscribe(node, there.url, f"urn:s:{n}", q=f"level>{n * 10}")
            with pytest.raises(AlreadyExists):
                await subscribe(node, there.url, "urn:s:1")
            page, count = node.subscriptions.page(2, 1)
            assert ([live.subscription.id for live in page], count) == (["urn:s:1", "urn:s:2"], 3)
            endpoint = {"notification": {"format": "keyValues", "endpoint": {"uri": elsewhere.url}}}
            await node.subscriptions.update("urn:s:2", endpoint, CORE)
            await node.subscriptions.delete("urn:s:1")
            await create(node, level=25)
            assert (await there.next())["subscriptionId"] == "urn:s:0"
            assert (await elsewhere.next())["subscriptionId"] == "urn:s:2"
            for gone in (node.subscriptions.update("urn:s:1", {}, CORE), node.subscriptions.delete("urn:s:1")):
                with pytest.raises(ResourceNotFound):
                    await gone
            with pytest.raises(ResourceNotFound):
                node.subscriptions.get("urn:s:1")

    run(test)


def test_a_paused_subscription_is_silent_until_it_is_resumed() -> None:
    async def test() -> None:
        async with inbox() as there, tenant() as node:
            await subscribe(node, there.url, isActive=False)
            await create(node, level=1)
            await node.subscriptions.update("urn:s:1", {"isActive": True}, CORE)
            await append(node, level=2)
            assert levels(await there.next()) == [2]
            await node.subscriptions.update("urn:s:1", {"isActive": False}, CORE)
            await append(node, level=3)
            await node.subscriptions.update("urn:s:1", {"isActive": True}, CORE)
            await append(node, level=4)
            assert levels(await there.next()) == [4]

    run(test)


def test_what_the_broker_refuses_leaves_everything_as_it_was() -> None:
    async def test() -> None:
        async with inbox() as there, tenant() as node:
            with pytest.raises(BadRequestData, match="no scope"):
                await subscribe(node, there.url, scopes={"place": "hamburg"})
            assert len(node.subscriptions) == 0
            await subscribe(node, there.url)
            with pytest.raises(BadRequestData, match="no scope"):
                await node.subscriptions.update("urn:s:1", {"scopes": {"place": "hamburg"}}, CORE)
            await create(node, level=1)
            assert levels(await there.next()) == [1]

    run(test)


def test_subscriptions_and_counters_outlive_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        async with inbox() as there:
            async with tenant(tmp_path) as node:
                geo = {"georel": "near;maxDistance==2000", "geometry": "Point", "coordinates": [10, 53.5]}
                await subscribe(node, there.url, q="level>3")
                await subscribe(node, there.url, "urn:s:2", geoQ=geo)
                await create(node, level=5)
                await there.next()
                before = node.subscriptions.get("urn:s:2").subscription
            async with tenant(tmp_path) as node:
                live = node.subscriptions.get("urn:s:1")
                assert (live.counters.times_sent, live.counters.failed) == (1, False)
                assert node.subscriptions.get("urn:s:2").subscription == before
                await append(
                    node, level=6, location={"type": "GeoProperty", "value": {"type": "Point", "coordinates": [10, 53.5]}}
                )
                assert {(await there.next())["subscriptionId"] for _ in range(2)} == {"urn:s:1", "urn:s:2"}

    run(test)


def test_counters_tell_of_failure() -> None:
    async def test() -> None:
        async with inbox() as there, tenant() as node:
            there.status = 400
            await subscribe(node, there.url)
            told = asyncio.Event()
            node.notifier.register("urn:s:1", node.subscriptions.get("urn:s:1").counters, lambda _: told.set())
            await create(node, level=1)
            await there.next()
            await asyncio.wait_for(told.wait(), WAIT_S)
            shown = node.subscriptions.shown(node.subscriptions.get("urn:s:1"), CORE)["notification"]
            assert (shown["status"], shown["timesSent"], shown["timesFailed"]) == ("failed", 1, 1)
            assert "lastFailure" in shown
            assert "lastSuccess" not in shown

    run(test)


def test_a_subscription_in_time_gets_what_matches_by_then() -> None:
    async def test() -> None:
        async with inbox() as there, tenant() as node:
            await subscribe(node, there.url, timeInterval=0.05, q="level>3")
            await create(node, "urn:b:1", level=5)
            await create(node, "urn:b:2", level=1)
            assert levels(await there.next()) == [5]
            await append(node, "urn:b:2", level=6)
            async with asyncio.timeout(WAIT_S):
                while sorted(levels(await there.next())) != [5, 6]:
                    pass
            await node.subscriptions.delete("urn:s:1")

    run(test)


def test_a_subscription_in_time_gets_all_of_it_however_much_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr("hanse.node.subscriptions.PERIODIC_ENTITIES_MAX", 2)
        async with inbox() as there, tenant() as node:
            for number in range(1, 6):
                await create(node, f"urn:b:{number}", level=number)
            await subscribe(node, there.url, timeInterval=3600)
            live = node.subscriptions.get("urn:s:1")
            await node.subscriptions._tell_all(live, msgspec.structs.replace(live.subscription.query, limit=2))
            heard = [levels(await there.next()) for _ in range(3)]
            assert sorted(heard) == [[1, 2], [3, 4], [5]]

    run(test)


def test_what_ends_delivers_no_more() -> None:
    async def test() -> None:
        slow = NodeSettings(notifications=NotificationSection(backoff_s=3600, backoff_max_s=3600))
        async with inbox() as there, tenant(settings=slow) as node:
            there.status = 500
            await subscribe(node, there.url)
            await create(node, level=1)
            await there.next()
            await append(node, level=2)
            await node.subscriptions.delete("urn:s:1")
            assert node.store.pending_deliveries() == []
            there.status = 200
            await subscribe(node, there.url, "urn:s:2")
            await append(node, level=3)
            assert levels(await there.next()) == [3]

    run(test)


def test_a_notification_that_cannot_be_written_stops_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with inbox() as there, tenant() as node:
            await subscribe(node, there.url)
            await subscribe(node, there.url, "urn:s:2")
            live = node.subscriptions.get("urn:s:1")
            live.writer = None
            await create(node, level=1)
            assert (await there.next())["subscriptionId"] == "urn:s:2"

            def broken(*_: Any) -> bytes:
                raise RuntimeError("out of ink")

            monkeypatch.setattr("hanse.ngsild.notifications.Writer.body", broken)
            await append(node, level=2)
            entity = node.store.entity("urn:b:1")
            assert entity is not None
            assert [instance["value"] for instance in entity.attributes[CORE.expand_term("level")]] == [2]

    run(test)


def test_streams_get_a_copy_after_the_commit() -> None:
    async def test() -> None:
        async with tenant() as node:
            await subscribe(node, STREAM_URI)
            streams = node.notifier.streams
            await create(node, level=1)
            listener = Listener()
            assert streams.listen("urn:s:1", listener)
            await append(node, level=2)
            event = await asyncio.wait_for(listener.get(), WAIT_S)
            assert event is not None
            assert b'"level":2' in event.body
            assert node.store.pending_deliveries() == []
            again = Listener()
            assert not streams.listen("urn:s:1", again, after=1)
            first = await again.get()
            assert first is not None
            assert b'"level":1' in first.body
            later = Listener()
            assert streams.listen("urn:s:1", later, after=first.id)
            assert await later.get() == event
            await node.subscriptions.delete("urn:s:1")
            assert await later.get() is None

    run(test)


def test_a_subscription_with_a_location_hears_what_is_said_for_there() -> None:
    async def test() -> None:
        async with inbox() as there, inbox() as far, tenant() as node:
            await subscribe(node, there.url, subscriberLocation={"type": "Point", "coordinates": [10, 53.5]})
            await subscribe(node, far.url, "urn:s:2", subscriberLocation={"type": "Point", "coordinates": [2.3, 48.9]})
            square = [[[9.0, 53.0], [11.0, 53.0], [11.0, 54.0], [9.0, 54.0], [9.0, 53.0]]]
            fence = {"type": "GeoProperty", "value": {"type": "Polygon", "coordinates": square}}
            await create(node, "urn:b:1", level=1, eventGeofence=fence)
            await create(node, "urn:b:2", level=2)
            assert levels(await there.next()) == [1]
            assert levels(await far.next()) == [2]

    run(test)


def test_without_a_match_nothing_is_kept_for_later() -> None:
    async def test() -> None:
        async with inbox() as there, tenant() as node:
            await subscribe(node, there.url, q="level>3")
            await create(node, level=1)
            assert node.store.pending_deliveries() == []
            assert (await node.store.query(EntityQuery())).entities

    run(test)


QUERIES: list[dict[str, Any]] = [
    {},
    {"q": "level>3"},
    {"q": "level!=3"},
    {"q": 'name~="^Rat"|level==1..2'},
    {"q": "level;tax"},
    {"q": "tax.rate>1"},
    {"q": 'address[city]=="Hamburg"'},
    {"q": 'id=="urn:b:1"'},
    {"q": "createdAt>2020-01-01T00:00:00Z"},
    {"scopeQ": "/Hamburg/#"},
    {"scopeQ": "/Hamburg;/Port"},
    {"entities": [{"type": "Tower"}]},
    {"entities": [{"type": "Building;Tower"}]},
    {"entities": [{"type": "*", "idPattern": "[13]$"}]},
    {"entities": [{"type": "Building", "id": ["urn:b:2", "urn:b:3"]}, {"type": "Tower"}]},
    {"geoQ": {"georel": "near;maxDistance==2000", "geometry": "Point", "coordinates": [10, 53.5]}},
    {"geoQ": {"georel": "within", "geometry": "Polygon", "coordinates": [[[9, 53], [11, 53], [11, 54], [9, 54], [9, 53]]]}},
    {"geoQ": {"georel": "disjoint", "geometry": "Point", "coordinates": [0, 0]}},
]


def _place(kind: str, coordinates: Any) -> dict[str, Any]:
    return {"type": "GeoProperty", "value": {"type": kind, "coordinates": coordinates}}


def _entities(draw: Callable[[Any], Any]) -> list[dict[str, Any]]:
    some: dict[str, Any] = {
        "type": st.sampled_from(["Building", "Tower", ["Building", "Tower"], "Ship"]),
        "level": st.sampled_from([0, 1.5, 3, 4, "4", [1, 5], True]),
        "name": st.sampled_from(["Rathaus", "Hafen", {"type": "LanguageProperty", "languageMap": {"de": "Ratsherr"}}]),
        "tax": st.sampled_from([1, {"type": "Property", "value": 1, "rate": {"type": "Property", "value": 2}}]),
        "address": st.sampled_from([{"type": "Property", "value": {"city": "Hamburg"}}, "Hamburg"]),
        "scope": st.sampled_from(["/Hamburg", ["/Hamburg/Altona", "/Port"], "/Port"]),
        "location": st.sampled_from(
            [_place("Point", [10, 53.5]), _place("Point", [0, 0]), _place("LineString", [[8, 52], [10, 53.5]])]
        ),
    }
    found = []
    for n in range(4):
        members = {name: draw(values) for name, values in some.items() if name == "type" or draw(st.booleans())}
        found.append({"id": f"urn:b:{n}"} | members)
    return found


@settings(max_examples=25)
@given(st.data())
def test_a_subscription_fires_exactly_when_the_same_query_finds(data: st.DataObject) -> None:
    entities = _entities(data.draw)

    async def test() -> None:
        async with tenant() as node:
            listener = Listener()
            for n, members in enumerate(QUERIES):
                await subscribe(node, STREAM_URI, f"urn:s:{n}", notificationTrigger=["entityCreated"], **members)
                node.notifier.streams.listen(f"urn:s:{n}", listener)
            for entity in entities:
                await create(node, entity["id"], **entity)
            told: dict[str, set[str]] = {f"urn:s:{n}": set() for n in range(len(QUERIES))}
            listener.close()
            while (event := await listener.get()) is not None:
                told[event.subscription] |= {item["id"] for item in msgspec.json.decode(event.body)["data"]}
            for id_, heard in told.items():
                query = node.subscriptions.get(id_).subscription.query
                assert heard == set(await node.store.ids(query)), query

    run(test)
