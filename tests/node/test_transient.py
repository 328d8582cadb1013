"""Attributes that end: removed when their time has come, also after a restart, and not before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.serving import settings_with

from hanse.ngsild import operations
from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import Change, Entity, now_text
from hanse.ngsild.errors import TooManyPending
from hanse.ngsild.parsing import parse_attribute, parse_entity
from hanse.node import tenant as module
from hanse.node.tenant import Node, Tenant
from hanse.node.transient import KIND

ID = "urn:ngsi-ld:Room:1"
PAST, FUTURE = "2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z"


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXPIRY_S", 0.001)


async def create(tenant: Tenant, **attributes: Any) -> None:
    now = now_text()
    entity = parse_entity({"id": ID, "type": "Room"} | attributes, CORE, now)
    await tenant.change(ID, lambda _: operations.create(entity, now), "create")


async def gone(tenant: Tenant) -> Change:
    """The next change by the passing of time."""
    happened: asyncio.Future[Change] = asyncio.get_running_loop().create_future()
    tenant.on_change.append(lambda change: None if happened.done() else happened.set_result(change))
    return await asyncio.wait_for(happened, 10)


def names(entity: Entity | None) -> list[str]:
    assert entity is not None
    return sorted(name.rpartition("/")[2] for name in entity.attributes)


def test_what_has_ended_goes_and_the_rest_stays() -> None:
    async def run() -> None:
        node = Node(settings_with())
        await node.start()
        try:
            tenant = node.tenants[""]
            both = [{"value": 1, "expiresAt": FUTURE}, {"value": 2, "datasetId": "urn:d:1", "expiresAt": PAST}]
            await create(tenant, a={"value": 1, "expiresAt": PAST}, b={"value": 1}, c={"value": 1, "expiresAt": FUTURE}, d=both)
            change = await gone(tenant)
            assert sorted((one.name.rpartition("/")[2], one.dataset) for one in change.attributes) == [
                ("a", None),
                ("d", "urn:d:1"),
            ]
            assert names(tenant.store.entity(ID)) == ["b", "c", "d"]
            assert [id_ for id_, _ in tenant.store.documents(KIND)] == [ID]  # c and d are still to end
            now = now_text()
            await tenant.change(ID, lambda old: operations.delete(old, now) if old else None, "delete")
            assert tenant.store.documents(KIND) == []
            assert tenant.transient.due(FUTURE) == []
        finally:
            await node.stop()

    asyncio.run(run())


def test_an_attribute_that_is_replaced_by_a_lasting_one_stays() -> None:
    async def run() -> None:
        node = Node(settings_with())
        await node.start()
        try:
            tenant = node.tenants[""]
            await create(tenant, a={"value": 1, "expiresAt": FUTURE})
            now = now_text()
            lasting = parse_attribute("a", {"value": 2}, CORE, now)
            name = CORE.expand_term("a")
            await tenant.change(ID, lambda old: operations.replace_attribute(old, name, lasting, now) if old else None, "replace")
            assert tenant.transient.due(FUTURE) == []
            assert tenant.store.documents(KIND) == []
        finally:
            await node.stop()

    asyncio.run(run())


def test_a_restart_forgets_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def first() -> None:
        node = Node(settings_with(store={"data": str(tmp_path)}))
        await node.start()
        await create(node.tenants[""], a={"value": 1, "expiresAt": PAST}, b={"value": 1})
        await node.stop()

    async def second() -> None:
        node = Node(settings_with(store={"data": str(tmp_path)}))
        await node.start()
        try:
            tenant = node.tenants[""]
            assert names(tenant.store.entity(ID)) == ["a", "b"]
            await gone(tenant)
            assert names(tenant.store.entity(ID)) == ["b"]
        finally:
            await node.stop()

    monkeypatch.setattr(module, "EXPIRY_S", 3600)
    asyncio.run(first())
    monkeypatch.setattr(module, "EXPIRY_S", 0.001)
    asyncio.run(second())


def test_a_change_that_was_refused_leaves_no_end_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_writes: Any) -> Any:
        raise TooManyPending("full")

    async def run() -> None:
        node = Node(settings_with())
        await node.start()
        try:
            tenant = node.tenants[""]
            with monkeypatch.context() as patch:
                patch.setattr(tenant.store, "submit", full)
                with pytest.raises(TooManyPending):
                    await create(tenant, a={"value": 1, "expiresAt": FUTURE})
            assert tenant.transient.due("3000-01-01T00:00:00Z") == []
            await create(tenant, a={"value": 1, "expiresAt": FUTURE})
            assert [id_ for id_, _ in tenant.store.documents(KIND)] == [ID]
            with monkeypatch.context() as patch:
                patch.setattr(tenant.store, "submit", full)
                with pytest.raises(TooManyPending):
                    await tenant.change(ID, lambda old: operations.delete(old, now_text()) if old else None, "delete")
            assert tenant.transient.due("3000-01-01T00:00:00Z") == [ID]
        finally:
            await node.stop()

    asyncio.run(run())
