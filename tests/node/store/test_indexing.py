"""However an entity came to be what it is, the indexes say the same about it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from hanse.ngsild.entity import Change, Entity
from hanse.ngsild.query import EntityQuery
from hanse.node.store import SaveChange, Store, Writer, discovery, filing
from hanse.node.store.connection import open_writer
from hanse.node.store.filing import CALM_CHANGED_MAX, CALM_NEW_MAX, unfiled
from hanse.node.store.history import purge
from hanse.node.store.indexing import BOOLEAN, INSTANT, NUMBER, OTHER, TEXT, TEXT_MAX, facts, moment_key

values = st.one_of(
    st.integers(-2, 2),
    st.booleans(),
    st.sampled_from(["a", "2020-01-01", 1.5, {"x": 1}, []]),
    st.lists(st.integers(0, 3), max_size=3),
)
positions = st.tuples(st.integers(-180, 180), st.integers(-90, 90)).map(list)
points = positions.map(lambda position: {"type": "Point", "coordinates": position})
lines = st.lists(positions, min_size=2, max_size=2).map(lambda both: {"type": "LineString", "coordinates": both})


def _instance(value: Any, unit: str, dataset: int) -> dict[str, Any]:
    kind = "GeoProperty" if isinstance(value, dict) and "coordinates" in value else "Property"
    return {"type": kind, "value": value, "unitCode": unit} | ({"datasetId": f"urn:d:{dataset}"} if dataset else {})


attributes = st.dictionaries(
    st.sampled_from(["urn:a", "urn:b", "urn:c"]),
    st.lists(st.tuples(st.one_of(values, points, lines), st.sampled_from("ab")), min_size=1, max_size=3).map(
        lambda found: [_instance(*of, number) for number, of in enumerate(found)]
    ),
)
states = st.one_of(
    st.none(),
    st.builds(
        Entity,
        id=st.just(""),
        types=st.sampled_from([("T",), ("T", "U"), ("U", "T")]),
        scopes=st.sampled_from([(), ("/A",), ("/A", "/B")]),
        attributes=attributes,
    ),
)
steps = st.lists(st.tuples(st.sampled_from(["urn:x:1", "urn:x:2"]), states), max_size=12)


def _index_rows(store: Store) -> list[Any]:
    read = store._reader.execute
    return [
        sorted(
            read(
                """SELECT e.id, a.name, f.key % 8, iif(f.key % 8 = 7 AND length(f.value) = 8, NULL, f.value), t.types, f.shape,
                typeof(f.value)
                FROM (SELECT * FROM facts UNION ALL SELECT * FROM facts_new) AS f
                JOIN entities AS e ON e.n = f.entity JOIN names AS a ON a.id = f.key / 8
                JOIN type_sets AS t ON t.id = f.type_set"""
            ).fetchall(),
            key=repr,
        ),
        read("SELECT e.id, s.scope FROM scopes AS s JOIN entities AS e ON e.n = s.entity ORDER BY 1, 2").fetchall(),
        read(
            """SELECT e.id, a.name, p.west, p.east, p.south, p.north FROM places AS p JOIN entities AS e ON e.n = p.entity
            JOIN names AS a ON a.id = p.name
            JOIN (SELECT * FROM facts UNION ALL SELECT * FROM facts_new) AS f ON f.key = p.name * 8 + 7 AND f.entity = p.entity
            AND hex(substr(f.value, 1, 8)) = printf('%016X', p.id)
            ORDER BY 1, 2, 3, 4, 5, 6"""
        ).fetchall(),
        read(
            """SELECT (SELECT count(*) FROM facts) + (SELECT count(*) FROM facts_new), (SELECT count(*) FROM scopes),
            (SELECT count(*) FROM places)"""
        ).fetchone(),
    ]


def _assert_filed(store: Store) -> None:
    """By value are just those facts that are filed, but for what has changed since."""
    read = store.reader.execute
    by_value = set(read("SELECT key, value, entity FROM facts_by_value"))
    for key, value, entity, is_there in read("SELECT key, value, entity, is_there FROM facts_changed ORDER BY rowid"):
        (by_value.add if is_there else by_value.discard)((key, value, entity))
    assert by_value == set(read("SELECT key, value, entity FROM facts"))
    upto, *_ = unfiled(store.reader)
    assert read("SELECT count(*) FROM facts WHERE entity > ?", (upto,)).fetchone() == (0,)
    assert read("SELECT count(*) FROM facts_new WHERE entity <= ?", (upto,)).fetchone() == (0,)


@pytest.fixture(params=[(1, 1), (11, 5), (11, CALM_CHANGED_MAX), (CALM_NEW_MAX, CALM_CHANGED_MAX)], ids="unfiled_max={}".format)
def unfiled_max(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """How many facts of new entities, and how many that changed, may wait to be filed."""
    new, changed = request.param
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filing, "CALM_NEW_MAX", new)
        patch.setattr(filing, "CALM_CHANGED_MAX", changed)
        yield new, changed


@pytest.mark.usefixtures("unfiled_max")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_indexes_follow_every_change(changes: list[tuple[str, Entity | None]]) -> None:
    async def run() -> None:
        changed, fresh = Store.open(None), Store.open(None)
        final: dict[str, Entity] = {}
        try:
            for number, (id_, state) in enumerate(changes):
                before = final.pop(id_, None)
                at = f"2020-01-01T00:00:{number:02}.000000Z"
                after = None
                if state is not None:
                    # unchanged attributes are the very same objects, as operations leave them
                    old = before.attributes if before is not None else {}
                    kept = {name: old[name] if old.get(name) == found else found for name, found in state.attributes.items()}
                    after = Entity(id=id_, types=state.types, scopes=state.scopes, attributes=kept, created_at=at, modified_at=at)
                    final[id_] = after
                if before is None and after is None:
                    continue
                kind = "created" if before is None else "deleted" if after is None else "updated"
                await changed.submit(SaveChange(Change(kind, at, before, after), kind))  # type: ignore[arg-type]
            for entity in final.values():
                await fresh.submit(SaveChange(Change("created", entity.created_at, None, entity), "create"))
            assert _index_rows(changed) == _index_rows(fresh)
            _assert_filed(changed)
        finally:
            await changed.close()
            await fresh.close()

    asyncio.run(run())


def test_facts_are_what_filters_see() -> None:
    def of(*values: Any) -> set[tuple[int, Any]]:
        return set(facts([{"type": "Property", "value": value} for value in values]))

    assert of(1, 1.0) == {(NUMBER, 1.0)}
    assert of(True) == {(BOOLEAN, 1)}
    assert of("x" * 500) == {(TEXT, "x" * (TEXT_MAX + 1))}
    assert of({"a": 1}, []) == {(OTHER, 0)}
    assert of(["a", [2]]) == {(TEXT, "a"), (NUMBER, 2.0)}
    early, late = (next(value for kind, value in of(text) if kind == INSTANT) for text in ("0001-01-01", "9999-12-31T23:59:60Z"))
    assert early < moment_key(1 << 62) < late


def test_values_are_found_whether_they_are_filed_or_not(unfiled_max: tuple[int, int]) -> None:
    def made(number: int, value: int) -> Entity:
        values = {"urn:n": value, "urn:t": f"t{value}", "urn:m": f"2020-01-{value + 1:02}"}
        attributes = {name: [{"type": "Property", "value": one}] for name, one in values.items()}
        return Entity(id=f"urn:x:{number}", types=("T",), attributes=attributes, created_at="2020", modified_at=f"2020-{value}")

    waits = {(1, 1): (False, False), (11, CALM_CHANGED_MAX): (True, True), (CALM_NEW_MAX, CALM_CHANGED_MAX): (True, False)}

    async def run() -> None:
        store = Store.open(None)
        try:
            now = {number: made(number, number % 5) for number in range(7)}
            for entity in now.values():
                await store.submit(SaveChange(Change("created", "2020-01-01T00:00:00Z", None, entity), "create"))
            for number in (0, 3, 6):  # of the old ones and of the new
                before, now[number] = now[number], made(number, 8)
                await store.submit(SaveChange(Change("updated", "2020-01-02T00:00:00Z", before, now[number]), "update"))
            for number in (1, 5):
                await store.submit(SaveChange(Change("deleted", "2020-01-03T00:00:00Z", now.pop(number), None), "delete"))
            waiting = unfiled(store.reader)
            assert unfiled_max not in waits or (waiting.new > 0, waiting.changed > 0) == waits[unfiled_max]
            _assert_filed(store)
            for value in range(10):
                expected = [entity.id for entity in now.values() if entity.attributes["urn:n"][0]["value"] == value]
                for q in (f"urn:n=={value}", f'urn:t=="t{value}"', f"urn:m==2020-01-{value + 1:02}"):
                    assert await store.ids(EntityQuery(q=q)) == expected, q
        finally:
            await store.close()

    asyncio.run(run())


def test_facts_are_filed_when_nobody_writes() -> None:
    async def run() -> None:
        store = Store.open(None)
        try:
            made = [
                Entity(id=f"urn:x:{n}", types=("T",), attributes={"urn:n": [{"type": "Property", "value": n}]})
                for n in range(300)
            ]
            await asyncio.gather(
                *(store.submit(SaveChange(Change("created", "2020-01-01T00:00:00Z", None, entity), "create")) for entity in made)
            )
            assert unfiled(store.reader).new == len(made)
            async with asyncio.timeout(30):
                while unfiled(store.reader).new:  # noqa: ASYNC110  nobody tells
                    await asyncio.sleep(0.05)
            assert store.reader.execute("SELECT count(*) FROM facts_new").fetchone() == (0,)
            assert await store.ids(EntityQuery(q="urn:n>=298")) == ["urn:x:298", "urn:x:299"]
        finally:
            await store.close()

    asyncio.run(run())


def _numbered(number: int) -> SaveChange:
    entity = Entity(id=f"urn:x:{number}", types=("T",), attributes={"urn:n": [{"type": "Property", "value": number}]})
    return SaveChange(Change("created", "2020-01-01T00:00:00Z", None, entity), "create")


def test_an_entity_that_comes_after_all_trace_of_a_filed_one_is_gone_is_found_by_what_it_is_now(tmp_path: Path) -> None:
    async def run() -> None:
        store = Store.open(tmp_path)
        one, two = _numbered(1), _numbered(2)
        await store.submit(one, two)
        await store.submit(filing.FileFacts())
        await store.submit(SaveChange(Change("deleted", "2020-01-02T00:00:00Z", two.after, None), "delete"))
        await store.submit(_EmptyLog())
        await store.close()
        store = Store.open(tmp_path)
        try:
            new = _numbered(5)
            await store.submit(new)
            state = new.after
            for value in (6, 5, 7):
                assert state is not None
                attributes = {"urn:n": [{"type": "Property", "value": value}]}
                after = Entity(id=state.id, types=("T",), attributes=attributes, modified_at=str(value))
                await store.submit(SaveChange(Change("updated", "2020-01-02T00:00:00Z", state, after), "update"))
                found = {number: await store.ids(EntityQuery(q=f"urn:n=={number}")) for number in range(8)}
                assert {number: ids for number, ids in found.items() if ids} == {1: ["urn:x:1"], value: ["urn:x:5"]}
                state = after
            await store.submit(filing.FileFacts())
            await store.submit(SaveChange(Change("deleted", "2020-01-03T00:00:00Z", state, None), "delete"))
            assert await store.ids(EntityQuery(q="urn:n>1")) == []
        finally:
            await store.close()

    asyncio.run(run())


class _EmptyLog(Struct, frozen=True):
    """What is left of the past when the log has been trimmed."""

    def apply(self, connection: Writer, /) -> None:
        connection.flush()
        connection.execute("DELETE FROM log WHERE offset < (SELECT max(offset) FROM log)")
        connection.execute("UPDATE log SET first_seq = 1000000")
        purge(connection, 1_000)
        assert connection.execute("SELECT max(n) FROM temporal_entities").fetchone() == (1,)


def test_a_store_that_is_closed_when_its_loop_is_gone_writes_everything(tmp_path: Path) -> None:
    store = Store.open(tmp_path)

    async def submit() -> None:
        for number in range(2_500):
            store.submit(_numbered(number)).add_done_callback(lambda _: None)

    asyncio.run(submit())
    store.close_now()
    with closing(sqlite3.connect(store.path)) as connection:
        assert connection.execute("SELECT count(*) FROM entities").fetchone() == (2_500,)


def test_facts_are_filed_on_another_loop_when_the_first_one_is_gone() -> None:
    store = Store.open(None)

    async def write(first: int) -> None:
        await asyncio.gather(*(store.submit(_numbered(number)) for number in range(first, first + 300)))

    async def write_and_wait() -> None:
        await write(300)
        async with asyncio.timeout(60):
            while unfiled(store.reader).new:  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0.05)

    try:
        asyncio.run(write(0))
        asyncio.run(write_and_wait())
    finally:
        store.close_now()


def test_what_there_is_can_be_asked_first_of_all(tmp_path: Path) -> None:
    """Before any query was: and it is one state of everything, however long it takes."""

    async def fill() -> None:
        store = Store.open(tmp_path)
        await asyncio.gather(*(store.submit(_numbered(number)) for number in range(6_000)))
        await store.close()

    async def ask() -> None:
        store = Store.open(tmp_path)
        try:
            assert [(info.name, info.entities) for info in await store.attributes()] == [("urn:n", 6_000)]
            assert [(info.name, info.entities) for info in await store.types()] == [("T", 6_000)]
        finally:
            await store.close()

    asyncio.run(fill())
    asyncio.run(ask())


def test_filing_while_attributes_are_counted_hides_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts go from one table to the other between two looks: both have to be at the same state."""
    count = discovery._counts_in

    def counted(connection: sqlite3.Connection, table: str) -> list[tuple[int, int]]:
        found = count(connection, table)
        if table == "facts":
            with closing(open_writer(tmp_path / "default.sqlite", durable=False)) as other:
                other.remember()
                other.execute("BEGIN IMMEDIATE")
                filing.file_facts(other)
                other.execute("COMMIT")
        return found

    async def run() -> None:
        store = Store.open(tmp_path)
        try:
            await asyncio.gather(*(store.submit(_numbered(number)) for number in range(50)))
            monkeypatch.setattr(discovery, "_counts_in", counted)
            assert [(info.name, info.entities) for info in await store.attributes()] == [("urn:n", 50)]
            assert unfiled(store.reader).new == 0
        finally:
            await store.close()

    asyncio.run(run())
