from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hanse.ngsild import operations
from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import DEFAULT_VOCAB, now_text
from hanse.ngsild.errors import AlreadyExists, BadRequestData, ResourceNotFound
from hanse.ngsild.parsing import parse_entity
from hanse.ngsild.query import EntityQuery, EntitySelector
from hanse.ngsild.representation import View
from hanse.ngsild.snapshots import Snapshot
from hanse.ngsild.temporal_parsing import TemporalQuery
from hanse.node.history import History
from hanse.node.notifier.notifier import decode_letter
from hanse.node.settings import MqttSection, NodeSettings, StoreSection
from hanse.node.store import Delivery
from hanse.node.tenant import Node, Tenant

SELECTORS = (EntitySelector(types=((DEFAULT_VOCAB + "Vehicle",),)),)
VEHICLES = {"type": "Query", "entities": [{"type": "Vehicle"}]}


def with_tenant(work: Callable[[Tenant], Awaitable[None]], directory: Path | None = None) -> None:
    async def run() -> None:
        node = Node(NodeSettings(store=StoreSection(data=str(directory) if directory else ""), mqtt=MqttSection(embedded=False)))
        await node.start()
        tenant = node.tenants[""]
        try:
            await work(tenant)
        finally:
            await tenant.snapshots.stop()
            await node.stop()

    asyncio.run(run())


async def put(tenant: Tenant, number: int, speed: int) -> None:
    now = now_text()
    body = {"id": f"urn:v:{number}", "type": "Vehicle", "speed": {"type": "Property", "value": speed}}
    entity = parse_entity(body, CORE, now)
    await tenant.change(
        entity.id, lambda old: operations.create(entity, now) if old is None else operations.replace(old, entity, now), "put"
    )


async def made(tenant: Tenant, **members: Any) -> Snapshot:
    """A snapshot, ready."""
    return await ready(tenant, await tenant.snapshots.create({"type": "Snapshot", "snapshotQueries": [VEHICLES]} | members, CORE))


async def ready(tenant: Tenant, snapshot: Snapshot) -> Snapshot:
    await tenant.snapshots.view(snapshot.id)
    return tenant.snapshots.get(snapshot.id)


async def speeds(tenant: Tenant, snapshot: Snapshot) -> dict[str, int]:
    view = await tenant.snapshots.view(snapshot.id)
    entities = (await view.store.query(EntityQuery())).entities
    return {entity.id: next(iter(entity.attributes.values()))[0]["value"] for entity in entities}


@pytest.mark.parametrize("durable", [False, True])
def test_a_snapshot_stays_as_it_was(tmp_path: Path, durable: bool) -> None:
    async def work(tenant: Tenant) -> None:
        await put(tenant, 1, 80)
        await put(tenant, 2, 30)
        snapshot = await made(tenant, snapshotQueries=[VEHICLES | {"q": "speed>50"}])
        assert (snapshot.status, snapshot.details) == ("success", [{"resultStatus": "success"}])
        await put(tenant, 1, 10)
        await put(tenant, 3, 90)
        assert await speeds(tenant, snapshot) == {"urn:v:1": 80}

    with_tenant(work, tmp_path if durable else None)


def test_a_snapshot_is_still_there_after_a_restart(tmp_path: Path) -> None:
    kept: list[Snapshot] = []

    async def make(tenant: Tenant) -> None:
        await put(tenant, 1, 80)
        kept.append(await made(tenant, id="urn:s:1"))

    async def look(tenant: Tenant) -> None:
        assert await speeds(tenant, kept[0]) == {"urn:v:1": 80}
        assert list((tmp_path / "snapshots").iterdir())
        await tenant.snapshots.delete("urn:s:1")
        assert not list((tmp_path / "snapshots").iterdir())
        with pytest.raises(ResourceNotFound):
            await tenant.snapshots.view("urn:s:1")

    with_tenant(make, tmp_path)
    with_tenant(look, tmp_path)


def test_a_clone_outlives_the_original() -> None:
    async def work(tenant: Tenant) -> None:
        await put(tenant, 1, 80)
        original = await made(tenant)
        clone = await ready(tenant, await tenant.snapshots.clone(original.id, {"type": "Snapshot", "snapshotPriority": 9}))
        await tenant.snapshots.purge("snapshotPriority<9")
        with pytest.raises(ResourceNotFound):
            tenant.snapshots.get(original.id)
        assert clone.status == "success"
        assert await speeds(tenant, clone) == {"urn:v:1": 80}

    with_tenant(work)


def test_what_is_changed_in_a_snapshot_is_changed_there_only() -> None:
    async def work(tenant: Tenant) -> None:
        await put(tenant, 1, 80)
        snapshot = await made(tenant)
        await put(await tenant.snapshots.view(snapshot.id), 1, 5)
        assert await speeds(tenant, snapshot) == {"urn:v:1": 5}
        entity = tenant.store.entity("urn:v:1")
        assert entity is not None
        assert next(iter(entity.attributes.values()))[0]["value"] == 80

    with_tenant(work)


def test_the_past_can_be_frozen_and_cloned() -> None:
    async def evolution(tenant: Tenant, snapshot: Snapshot) -> list[int]:
        history = History((await tenant.snapshots.view(snapshot.id)).store)
        page, _ = await history.query(EntityQuery(selectors=SELECTORS), TemporalQuery(), View())
        return [instance["value"] for found in page.evolutions for series in found.series for instance in series.instances]

    async def work(tenant: Tenant) -> None:
        for speed in (80, 70, 60):
            await put(tenant, 1, speed)
        ever = {"temporalQ": {"timerel": "after", "timeAt": "2000-01-01T00:00:00Z", "timeproperty": "modifiedAt"}}
        never = {"temporalQ": {"timerel": "before", "timeAt": "2000-01-01T00:00:00Z", "timeproperty": "modifiedAt"}}
        queries = [VEHICLES | ever, VEHICLES | ever, VEHICLES | never]
        snapshot = await made(tenant, snapshotTemporalQueries=queries)
        assert [detail["resultStatus"] for detail in snapshot.temporal_details] == ["success", "success", "empty"]
        await put(tenant, 1, 50)
        assert await evolution(tenant, snapshot) == [80, 70, 60]
        clone = await ready(tenant, await tenant.snapshots.clone(snapshot.id, {"type": "Snapshot"}))
        assert await evolution(tenant, clone) == [80, 70, 60]

    with_tenant(work)


def test_an_endpoint_is_told_when_it_is_ready_and_when_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(tenant: Tenant) -> None:
        sent: list[Delivery] = []
        monkeypatch.setattr(tenant.notifier, "dispatch", sent.extend)
        snapshot = await made(tenant, endpoint="http://client.example", receiverInfo=[{"key": "X-Token", "value": "abc"}])
        await tenant.snapshots.patch(snapshot.id, {"snapshotPriority": 1})
        letters = [decode_letter(delivery.payload) for delivery in sent]
        assert [msgspec.json.decode(letter.body)["snapshotStatus"] for letter in letters] == ["empty", "empty"]
        assert ("X-Token", "abc") in letters[0].headers

    with_tenant(work)


def test_a_query_that_makes_no_sense_is_refused_at_once() -> None:
    async def work(tenant: Tenant) -> None:
        for query in (VEHICLES | {"q": "speed>"}, {"type": "Query", "entities": "all"}):
            with pytest.raises(BadRequestData):
                await made(tenant, snapshotQueries=[query])
        await made(tenant, id="urn:s:1")
        with pytest.raises(AlreadyExists):
            await made(tenant, id="urn:s:1")

    with_tenant(work)


def test_what_has_ended_cannot_be_used() -> None:
    async def work(tenant: Tenant) -> None:
        snapshot = await made(tenant)
        await tenant.snapshots.patch(snapshot.id, {"snapshotLifetime": "PT0S"})
        with pytest.raises(ResourceNotFound):
            await tenant.snapshots.view(snapshot.id)

    with_tenant(work)


def test_who_waits_for_a_snapshot_that_is_deleted_is_told() -> None:
    async def work(tenant: Tenant) -> None:
        await put(tenant, 1, 80)
        snapshot = await tenant.snapshots.create({"type": "Snapshot", "snapshotQueries": [VEHICLES]}, CORE)
        copy = await tenant.snapshots.clone(snapshot.id, {"type": "Snapshot"})
        waiting = asyncio.create_task(tenant.snapshots.view(snapshot.id))
        await asyncio.sleep(0)
        await tenant.snapshots.delete(snapshot.id)
        with pytest.raises(ResourceNotFound):
            await waiting
        assert (await ready(tenant, copy)).status != "preparing"

    with_tenant(work)
