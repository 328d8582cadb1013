"""A database of an older version is brought up to date when it is opened, and nothing that it says is lost.

`version3` holds a database that a Hanse of version 3 has written, and what it then read from it: entities with points, areas,
datasets and scopes, one that was deleted, one that came back, and one that has only a past.
"""

from __future__ import annotations

import asyncio
import gzip
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.node.older import VERSION_6

from hanse.ngsild.entity import LOCATION, Attributes, Change, Entity, decode_entity
from hanse.ngsild.geo import GeoQuery
from hanse.ngsild.query import EntityQuery
from hanse.ngsild.temporal_parsing import TemporalQuery
from hanse.node.store import SaveChange, Store
from hanse.node.store.history import Instances, Wanted, read
from hanse.node.store.log import Wanted as Records
from hanse.node.store.log import read_page
from hanse.node.store.schema import VERSION

OLD = Path(__file__).parent / "version3"
SAID: dict[str, Any] = msgspec.json.decode((OLD / "said.json").read_bytes())
IDS = [evolution["id"] for evolution in SAID["past"]]
_INDEXES = (
    """SELECT e.id, a.name, f.key % 8, iif(f.key % 8 = 7 AND length(f.value) = 8, NULL, f.value), t.types, f.shape
    FROM (SELECT * FROM facts UNION ALL SELECT * FROM facts_new) AS f
    JOIN entities AS e ON e.n = f.entity JOIN names AS a ON a.id = f.key / 8
    JOIN type_sets AS t ON t.id = f.type_set""",
    "SELECT e.id, p.west, p.east, p.south, p.north FROM places AS p JOIN entities AS e ON e.n = p.entity",
    "SELECT e.id, s.scope FROM scopes AS s JOIN entities AS e ON e.n = s.entity",
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "default.sqlite").write_bytes(gzip.decompress((OLD / "database.sqlite.gz").read_bytes()))
    return tmp_path


def _plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _entities() -> list[Entity]:
    return [decode_entity(msgspec.json.encode(document)) for document in SAID["entities"].values()]


def test_what_was_there_is_there(directory: Path) -> None:
    async def run() -> None:
        store = Store.open(directory)
        try:
            assert sorted((await store.query(EntityQuery())).entities, key=lambda entity: entity.id) == _entities()
            for query, name in ((TemporalQuery(), "past"), (TemporalQuery(last_n=2), "last")):
                page = await store.read(lambda connection, query=query: read(connection, IDS, query, Wanted(), Instances()))  # type: ignore[misc]
                assert _plain(page.evolutions) == SAID[name]
            records = await store.read(lambda connection: read_page(connection, 0, None, 1000, Records(places=True, past=True)))
            assert _plain(records) == SAID["log"]
        finally:
            await store.close()

    asyncio.run(run())
    with sqlite3.connect(directory / "default.sqlite") as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_its_indexes_are_as_if_they_had_been_made_today(directory: Path) -> None:
    def rows(store: Store) -> list[list[Any]]:
        return [sorted(store.reader.execute(statement), key=repr) for statement in _INDEXES]

    async def run() -> None:
        old, new = Store.open(directory), Store.open(None)
        try:
            for entity in _entities():
                await new.submit(SaveChange(Change("created", entity.created_at, None, entity), "create"))
            assert rows(old) == rows(new)
        finally:
            await old.close()
            await new.close()

    asyncio.run(run())


def _polygon(west: float, south: float, east: float, north: float) -> Any:
    return (((west, south), (east, south), (east, north), (west, north), (west, south)),)


@pytest.mark.parametrize(
    ("geo", "found"),
    [
        (GeoQuery("near", "Point", (13.4, 52.5), LOCATION, None, 1_000), {"urn:x:berlin", "urn:x:twice"}),
        (GeoQuery("near", "Point", (10.0, 53.5), LOCATION, None, 20_000), {"urn:x:hamburg", "urn:x:area"}),
        (GeoQuery("intersects", "Polygon", _polygon(-180, -90, -170, -80), LOCATION), {"urn:x:twice"}),
        (GeoQuery("within", "Polygon", _polygon(8, 52.9, 12, 56), LOCATION), {"urn:x:hamburg", "urn:x:area"}),
        (GeoQuery("intersects", "Polygon", _polygon(0, 40, 5, 50), LOCATION), {"urn:x:back"}),
    ],
)
def test_its_places_are_found(directory: Path, geo: GeoQuery, found: set[str]) -> None:
    async def run() -> None:
        store = Store.open(directory)
        try:
            assert set(await store.ids(EntityQuery(geo=geo))) == found
        finally:
            await store.close()

    asyncio.run(run())


def test_facts_that_wait_in_version_5_are_filed(tmp_path: Path) -> None:
    async def run() -> None:
        store = Store.open(tmp_path)
        place = [{"type": "GeoProperty", "value": {"type": "Point", "coordinates": [1, 2]}}]
        for number in range(3):
            attributes: Attributes = {"urn:n": [{"type": "Property", "value": number}], "urn:p": place}
            entity = Entity(id=f"urn:x:{number}", types=("T",), attributes=attributes, created_at="2020", modified_at="2020")
            await store.submit(SaveChange(Change("created", "2020-01-01T00:00:00Z", None, entity), "create"))
        await store.close()
        with closing(sqlite3.connect(store.path)) as older:  # of new entities points were there at once, and all else later
            older.executescript(
                VERSION_6
                + """INSERT INTO facts SELECT * FROM facts_new; DROP TABLE facts_new; DROP TABLE facts_changed;
                INSERT INTO facts_by_value SELECT key, value, entity FROM facts WHERE entity = 1 OR typeof(value) = 'blob';
                UPDATE facts_filed SET upto = 1; PRAGMA user_version=5;"""
            )
        store = Store.open(tmp_path)
        try:
            select = store.reader.execute
            rows = [set(select(f"SELECT key, value, entity FROM {table}")) for table in ("facts", "facts_by_value")]
            assert rows[0] == rows[1]
            assert len(rows[0]) == 6
            assert select("SELECT upto FROM facts_filed").fetchone() == (3,)
            assert await store.ids(EntityQuery(q="urn:n>=1")) == ["urn:x:1", "urn:x:2"]
        finally:
            await store.close()

    asyncio.run(run())
