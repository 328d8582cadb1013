from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hanse.ngsild.entity import Change, Entity, now_text
from hanse.ngsild.errors import BadRequestData, ResourceNotFound, TooManyResults
from hanse.ngsild.query import EntityQuery, EntitySelector
from hanse.node import entity_maps
from hanse.node.entity_maps import EntityMaps
from hanse.node.store import SaveChange, Store

VEHICLES = EntityQuery(selectors=(EntitySelector(types=(("Vehicle",),)),))


def entity(number: int, speed: int = 50) -> Entity:
    now = now_text()
    speeds = {"speed": [{"type": "Property", "value": speed, "createdAt": now, "modifiedAt": now}]}
    return Entity(id=f"urn:v:{number}", types=("Vehicle",), attributes=speeds, created_at=now, modified_at=now)


def with_maps(work: Callable[[EntityMaps, Store], Awaitable[None]], directory: Path | None = None) -> None:
    async def run() -> None:
        store = Store.open(directory)
        tenant: Any = SimpleNamespace(store=store)
        maps = EntityMaps(tenant)
        await maps.start()
        try:
            await work(maps, store)
        finally:
            await store.close()

    asyncio.run(run())


async def save(store: Store, *entities: Entity) -> None:
    await store.submit(*(SaveChange(Change("created", now_text(), None, entity), "create") for entity in entities))


async def remove(store: Store, number: int) -> None:
    await store.submit(SaveChange(Change("deleted", now_text(), store.entity(f"urn:v:{number}"), None), "delete"))


def asked(limit: int, offset: int = 0, *, count: bool = False, q: str = "") -> EntityQuery:
    return EntityQuery(selectors=VEHICLES.selectors, limit=limit, offset=offset, count=count, q=q)


def test_pages_of_a_map_fit_together_while_the_data_changes() -> None:
    async def work(maps: EntityMaps, store: Store) -> None:
        await save(store, *(entity(number) for number in range(5)))
        frozen = await maps.create(asked(2))
        assert frozen.ids == [f"urn:v:{number}" for number in range(5)]
        await save(store, entity(9))
        first = await maps.page(frozen, asked(2))
        assert [found.id for found in first.entities] == ["urn:v:0", "urn:v:1"]
        await remove(store, 2)
        second = await maps.page(maps.get(frozen.id), asked(2, 2))
        assert [found.id for found in second.entities] == ["urn:v:3", "urn:v:4"]
        assert maps.get(frozen.id).ids == ["urn:v:0", "urn:v:1", "urn:v:3", "urn:v:4"]

    with_maps(work)


def test_count_walks_the_whole_map() -> None:
    async def work(maps: EntityMaps, store: Store) -> None:
        await save(store, *(entity(number, speed=number) for number in range(5)))
        frozen = await maps.create(VEHICLES)
        page = await maps.page(frozen, asked(1, 1, count=True, q="speed>=2"))
        assert (page.count, [found.id for found in page.entities]) == (3, ["urn:v:2"])

    with_maps(work)


def test_maps_survive_a_restart_and_end(tmp_path: Path) -> None:
    ids: list[str] = []

    async def make(maps: EntityMaps, store: Store) -> None:
        await save(store, entity(1))
        ids.extend([(await maps.create(VEHICLES)).id, (await maps.create(VEHICLES)).id])

    async def end(maps: EntityMaps, _store: Store) -> None:
        kept, ended = ids
        assert maps.get(kept).ids == ["urn:v:1"]
        assert maps.find(f"/ngsi-ld/v1/entityMaps/{kept}") is not None
        await maps.patch(ended, {"expiresAt": "2000-01-01T00:00:00Z"})
        with pytest.raises(ResourceNotFound):
            maps.get(ended)
        with pytest.raises(BadRequestData):
            await maps.patch(kept, {"expiresAt": "soon"})
        await maps.delete(kept)
        with pytest.raises(ResourceNotFound):
            await maps.delete(kept)

    async def look(maps: EntityMaps, store: Store) -> None:
        assert maps.bounds()["entity_maps"][0] == 0
        assert store.documents("entity-map") == []

    for work in (make, end, look):
        with_maps(work, tmp_path)


def test_what_has_ended_is_swept_away() -> None:
    async def work(maps: EntityMaps, store: Store) -> None:
        await maps.create(VEHICLES)
        await maps.sweep(now_text())
        assert len(store.documents("entity-map")) == 1
        await maps.sweep("2999-01-01T00:00:00.000000Z")
        assert store.documents("entity-map") == []

    with_maps(work)


def test_maps_have_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entity_maps, "MAPS_MAX", 2)
    monkeypatch.setattr(entity_maps, "IDS_MAX", 3)

    async def work(maps: EntityMaps, _store: Store) -> None:
        short, *_ = [await maps.freeze(["urn:v:1"], seconds) for seconds in (60, 3000, 3000)]
        assert maps.find(short.id) is None
        assert maps.bounds()["entity_maps"] == (2, 2)
        monkeypatch.setattr(entity_maps, "ALL_IDS_MAX", 4)
        large = await maps.freeze(["urn:v:1", "urn:v:2", "urn:v:3"], 3500)
        assert maps.bounds() == {"entity_maps": (2, 2), "entity_map_ids": (4, 4)}
        assert maps.find(large.id) is not None
        with pytest.raises(TooManyResults):
            await maps.freeze([f"urn:v:{number}" for number in range(4)])

    with_maps(work)


def request(params: dict[str, str], reference: str = "") -> Any:
    return SimpleNamespace(
        params=params,
        headers={"ngsild-entitymap": reference} if reference else {},
        flag=lambda name: params.get(name) == "true",
    )


def test_what_a_query_has_to_do_with_a_map() -> None:
    async def work(maps: EntityMaps, store: Store) -> None:
        await save(store, entity(1))
        assert await maps.query(request({}), asked(10)) is None
        made = await maps.query(request({"entityMap": "true", "entityMapLifetime": "PT1M"}), asked(10))
        assert made is not None
        assert (made.status, len(made.entities)) == (201, 1)
        await save(store, entity(2))
        again = await maps.query(request({}, made.headers["NGSILD-EntityMap"]), asked(10))
        assert again is not None
        assert (again.status, again.headers, len(again.entities)) == (200, made.headers, 1)
        anew = await maps.query(request({}, "urn:ngsi-ld:EntityMap:gone"), asked(10))
        assert anew is not None
        assert (anew.status, len(anew.entities)) == (201, 2)
        assert await maps.headers(request({}), ["urn:v:1"]) == {}
        assert await maps.headers(request({}, made.headers["NGSILD-EntityMap"]), ["urn:v:1"]) == made.headers
        one = await maps.headers(request({"entityMap": "true"}), ["urn:v:1"])
        found = maps.find(one["NGSILD-EntityMap"])
        assert found is not None
        assert found.ids == ["urn:v:1"]

    with_maps(work)
