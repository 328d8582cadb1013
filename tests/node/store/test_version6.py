"""The past of a database of version 6, where it was in names, is the same in numbers.

`version6/said.json` is what a Hanse of version 6 has answered about the rows below: an entity with a past, also of a dataset; one
that was deleted; one that was deleted and came back; two that have a past only; one whose past was forgotten and has begun again;
and what is left of the past of one that is no more. Some ids of instances were given by others.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from tests.node.older import VERSION_6

from hanse.ngsild.entity import LOCATION, NGSI_LD, Change, Entity
from hanse.ngsild.query import EntityQuery
from hanse.ngsild.temporal import SCOPE
from hanse.ngsild.temporal_parsing import TemporalQuery
from hanse.node.store import SaveChange, Store
from hanse.node.store.history import Instances, Wanted, purge, read
from hanse.node.store.history_search import find
from hanse.node.store.history_writes import AddInstances, RemoveInstance
from hanse.node.store.log import Wanted as Records
from hanse.node.store.log import read_page

SAID: Final = Path(__file__).parent / "version6" / "said.json"
A, B, C = NGSI_LD + "a", NGSI_LD + "b", NGSI_LD + "c"
OWN = "urn:ngsi-ld:Instance:" + "0123456789abcdef0123456"  # and one digit
UPPER = "urn:ngsi-ld:Instance:0123456789ABCDEF01234567"  # which is not one of ours
MINUTE = 60_000_000
IDS = [f"urn:x:{name}" for name in ("there", "deleted", "back", "past", "empty", "forgotten", "orphan")]
NOW = "2026-01-01T00:00:00.000000Z"

_ENTITIES = [(1, "urn:x:there"), (2, "urn:x:forgotten"), (5, "urn:x:back")]
_PASTS = [
    ("urn:x:there", '["T"]', '["/s"]', 0, 0, None),
    ("urn:x:deleted", '["T"]', "[]", 0, 0, 6 * MINUTE),
    ("urn:x:back", '["T"]', "[]", 9 * MINUTE, 9 * MINUTE, None),
    ("urn:x:past", '["U"]', "[]", 10 * MINUTE, 10 * MINUTE, None),
    ("urn:x:empty", '["U"]', "[]", 10 * MINUTE, 10 * MINUTE, None),
]
# entity, attribute, dataset, id, when it was observed, deleted, value; each is a minute after the one before
_INSTANCES: list[tuple[str, str, str | None, str, int | None, bool, Any]] = [
    ("urn:x:there", A, None, OWN + "1", 3, False, 1),
    ("urn:x:there", A, "urn:d", OWN + "2", None, False, 2),
    ("urn:x:there", B, None, "urn:other:1", 1, False, 3),
    ("urn:x:there", SCOPE, None, OWN + "3", 4, False, ["/s"]),
    ("urn:x:deleted", A, None, OWN + "4", None, False, 4),
    ("urn:x:deleted", A, None, OWN + "5", None, True, "urn:ngsi-ld:null"),
    ("ended urn:x:back", A, None, OWN + "6", None, False, 6),
    ("ended urn:x:back", A, None, OWN + "7", None, True, "urn:ngsi-ld:null"),
    ("urn:x:back", A, None, OWN + "8", None, False, 8),
    ("urn:x:past", C, None, UPPER, 2, False, 9),
    ("urn:x:past", C, "urn:d", OWN + "A", 1, False, 10),
    ("urn:x:forgotten", LOCATION, None, OWN + "9", None, False, {"type": "Point", "coordinates": [2, 48]}),
    ("urn:x:forgotten", A, None, OWN + "a", None, False, 12),
    ("urn:x:orphan", A, None, OWN + "b", None, False, 13),
    ("urn:x:there", A, None, OWN + "c", 2, False, 14),
    ("urn:x:there", B, None, OWN + "d", None, True, "urn:ngsi-ld:null"),
]
# kind, entity, number of its first row, rows
_LOG = [
    ("created", "urn:x:there", 1, 4),
    ("created", "urn:x:deleted", 5, 1),
    ("deleted", "urn:x:deleted", 6, 1),
    ("created", "urn:x:back", 7, 1),
    ("deleted", "urn:x:back", 8, 1),
    ("created", "urn:x:back", 9, 1),
    ("updated", "urn:x:forgotten", 12, 1),
    ("updated", "urn:x:forgotten", 13, 1),
    ("created", "urn:x:orphan", 14, 1),
    ("updated", "urn:x:there", 15, 2),
]


def fill(database: sqlite3.Connection) -> None:
    """A database of version 6 without anything."""
    database.execute("INSERT INTO names VALUES (1, 'T'), (2, ?)", (A,))
    database.execute("INSERT INTO type_sets VALUES (1, '[\"T\"]')")
    database.execute("INSERT INTO type_set_members VALUES (1, 1)")
    for n, id_ in _ENTITIES:
        document = msgspec.json.encode({"id": id_, "types": ["T"], "attributes": {}, "created_at": NOW, "modified_at": NOW})
        database.execute("INSERT INTO entities VALUES (?, ?, 1, ?, ?, NULL, ?)", (n, id_, NOW, NOW, document))
    database.executemany("INSERT INTO temporal_entities VALUES (?, ?, ?, ?, ?, ?)", _PASTS)
    for seq, (entity, attribute, dataset, instance_id, observed, is_deleted, value) in enumerate(_INSTANCES, 1):
        at_us = seq * MINUTE
        instance = {"type": "GeoProperty" if attribute == LOCATION else "Property", "value": value}
        observed_us = None if observed is None else observed * MINUTE
        times = (observed_us, at_us, at_us, at_us if is_deleted else None)
        row = (seq, entity, attribute, dataset, instance_id, *times, msgspec.json.encode(instance))
        database.execute("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    for offset, (kind, entity, first_seq, rows) in enumerate(_LOG, 1):
        record = (offset, first_seq * MINUTE, kind, "test", entity, first_seq, rows)
        database.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?, 1, NULL, ?, ?)", record)
    database.commit()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    store = Store.open(tmp_path)
    store.close_now()
    with closing(sqlite3.connect(store.path)) as database:
        database.executescript(VERSION_6)
        fill(database)
    return tmp_path


def answers(connection: sqlite3.Connection) -> Any:
    """What is said of the past and of the log."""
    said: dict[str, Any] = {}
    for name, query in (
        ("past", TemporalQuery()),
        ("last", TemporalQuery(last_n=1)),
        ("deleted", TemporalQuery(timeproperty="deletedAt")),
        ("window", TemporalQuery(timeproperty="observedAt", from_us=2 * MINUTE, until_us=4 * MINUTE)),
    ):
        said[name] = read(connection, IDS, query, Wanted(), Instances()).evolutions
        said[f"{name} found"] = find(connection, EntityQuery(), query).ids
        said[f"{name} of {C}"] = find(connection, EntityQuery(attrs=(C,), q=f"{C}>=9"), query).ids
    for records in (Records(past=True), Records(places=True), Records(attributes=(B, C), places=True)):
        page = read_page(connection, 0, None, 1_000, records)
        said[f"log, {records.past}, {records.places}, {records.attributes}"] = [page.records(), page.places]
    return msgspec.json.decode(msgspec.json.encode(said))


def test_the_same_is_said_of_it(directory: Path) -> None:
    async def run() -> None:
        store = Store.open(directory)
        try:
            assert await store.read(answers) == msgspec.json.decode(SAID.read_bytes())
            lives = store.reader.execute("SELECT id, n FROM temporal_entities").fetchall()
            assert dict(lives).keys() == {id_ for id_, *_ in _PASTS}
            assert [dict(lives)[id_] for id_ in ("urn:x:there", "urn:x:back")] == [1, 5]
            assert store.reader.execute("SELECT count(*), min(n) > 5 FROM past_ended").fetchone() == (2, 1)
            kept = store.reader.execute("SELECT typeof(instance_id), length(instance_id) FROM instances ORDER BY seq").fetchall()
            assert [kept[seq - 1] for seq in (1, 3, 10, 11, 16)] == [
                ("blob", 12),
                ("text", 11),
                ("text", 45),
                ("text", 45),
                ("blob", 12),
            ]
        finally:
            await store.close()

    asyncio.run(run())


def test_its_lives_go_on_and_begin(directory: Path) -> None:
    def values(connection: sqlite3.Connection) -> dict[str, list[Any]]:
        evolutions = read(connection, IDS, TemporalQuery(), Wanted(lambda name: name != SCOPE), Instances()).evolutions
        return {one.id[6:]: [each["value"] for series in one.series for each in series.instances] for one in evolutions}

    def made(id_: str, types: tuple[str, ...] = ("T",)) -> Entity:
        attributes: Any = {A: [{"type": "Property", "value": 0}]}
        return Entity(id=id_, types=types, attributes=attributes, created_at=NOW, modified_at=NOW)

    async def run() -> None:
        store = Store.open(directory)
        try:
            forgotten = store.entity("urn:x:forgotten")
            assert forgotten is not None
            for change in (
                Change("created", NOW, None, made("urn:x:deleted")),
                Change("created", NOW, None, made("urn:x:past")),
                Change("created", NOW, None, made("urn:x:orphan")),
                Change("updated", NOW, forgotten, made("urn:x:forgotten", ("U",)), ()),
            ):
                await store.submit(SaveChange(change, "test"))
            await store.submit(AddInstances("urn:x:empty", (), {B: [{"type": "Property", "value": 0}]}, NOW))
            await store.submit(RemoveInstance("urn:x:there", A, OWN + "1"))
            await store.submit(RemoveInstance("urn:x:past", C, UPPER))
            with_past = {"there": [14, 2, 3], "deleted": [0], "back": [8], "past": [0, 10], "empty": [0]}
            assert await store.read(values) == with_past | {
                "forgotten": [12, {"type": "Point", "coordinates": [2, 48]}],
                "orphan": [0],
            }
            numbers = store.reader.execute("SELECT n FROM temporal_entities UNION ALL SELECT n FROM past_ended").fetchall()
            assert len(set(numbers)) == len(numbers) == 7 + 3
            store._writer.execute("DELETE FROM log")
            purge(store._writer, 100)
            left = store.reader.execute("SELECT seq FROM instances WHERE seq <= ? ORDER BY seq", (len(_INSTANCES),)).fetchall()
            assert [seq for (seq,) in left] == [2, 3, 4, 9, 11, 12, 13, 15, 16]
            assert store.reader.execute("SELECT count(*) FROM past_ended").fetchone() == (0,)
        finally:
            await store.close()

    asyncio.run(run())
