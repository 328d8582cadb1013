"""Whatever becomes of entities, their past and the log are what a plain list of what happened says."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from hanse.ngsild import operations
from hanse.ngsild.entity import NGSI_LD, Change, Entity, Instance
from hanse.ngsild.errors import ResourceNotFound
from hanse.ngsild.query import EntityQuery
from hanse.ngsild.temporal import SCOPE
from hanse.ngsild.temporal_parsing import TemporalQuery, to_us
from hanse.node.store import SaveChange, Store
from hanse.node.store.history import Instances, Wanted, purge, read
from hanse.node.store.history_search import find
from hanse.node.store.history_writes import AddInstances, RemoveAttribute, RemoveEvolution, RemoveInstance

IDS = ("urn:1", "urn:2")
NAMES = (NGSI_LD + "a", NGSI_LD + "b")
DATASETS = (None, "urn:d")
LONG_AGO = "2020-01-01T00:00:00Z"
MANY = Instances(1_000, 1_000)

# --- the plain list -----------------------------------------------------------------------------------------------------


class Row(Struct, eq=False):
    name: str
    dataset: str | None
    value: Any
    us: int
    is_observed: bool = False
    is_deletion: bool = False
    is_removed: bool = False

    @property
    def series(self) -> tuple[str, str | None]:
        return self.name, self.dataset

    @property
    def said(self) -> tuple[str, str | None, Any]:
        return self.name, self.dataset, None if self.is_deletion else self.value


class Life(Struct):
    types: tuple[str, ...]
    rows: list[Row]

    def shown(self, *, deleted: bool = False) -> dict[tuple[str, str | None], list[Any]]:
        found: dict[tuple[str, str | None], list[Any]] = {}
        for row in sorted(self.rows, key=lambda row: row.us):
            if row.is_deletion is deleted and not row.is_removed:
                found.setdefault(row.series, []).append(row.value)
        return found

    def remove(self, rows: list[Row]) -> None:
        for row in rows:
            row.is_removed = True
        self.rows = [row for row in self.rows if not row.is_removed]


class Model(Struct):
    pasts: dict[str, Life] = {}
    unseen: dict[str, list[Row]] = {}  # of presents whose past was forgotten
    log: list[list[Row]] = []

    def change(self, change: Change) -> None:
        id_, before, after, us = change.entity.id, change.before, change.after, to_us(change.at) or 0
        if before is None:
            self.unseen.pop(id_, None)
        if after is not None and (before is None or (before.types, before.scopes) != (after.types, after.scopes)):
            self.begun(id_).types = after.types
        rows = self.pasts[id_].rows if id_ in self.pasts else self.unseen.setdefault(id_, [])
        old, new = before.scopes if before else (), after.scopes if after else ()
        if old != new:
            rows.append(Row(SCOPE, None, list(new), us, is_observed=bool(new), is_deletion=not new))
        self.log.append(_rows(change, us))
        rows += self.log[-1]
        if after is None:
            self.pasts.pop(id_, None)
            self.unseen.pop(id_, None)

    def begun(self, id_: str) -> Life:
        if id_ not in self.pasts:
            self.pasts[id_] = Life((), self.unseen.pop(id_, []))
        return self.pasts[id_]

    def add(self, write: AddInstances) -> None:
        life = self.begun(write.id)
        life.types = tuple(dict.fromkeys((*life.types, *write.types)))
        for name, instances in write.attributes.items():
            for one in instances:
                row = _row(name, one, to_us(write.at) or 0)
                life.remove(
                    [r for r in life.rows if (r.series, r.us) == (row.series, row.us) and r.is_observed and row.is_observed]
                )
                life.rows.append(row)


def _row(name: str, one: Instance, us: int) -> Row:
    observed_us = to_us(one.get("observedAt", ""))
    return Row(name, one.get("datasetId"), one["value"], us if observed_us is None else observed_us, observed_us is not None)


def _rows(change: Change, us: int) -> list[Row]:
    told = [(each.name, each.before, each.after) for each in change.attributes]
    if not told and change.kind != "updated":
        every = [(name, one) for name, instances in change.entity.attributes.items() for one in instances]
        told = [(name, one, None) if change.after is None else (name, None, one) for name, one in every]
    rows = []
    for name, before, after in told:
        if after is not None:
            rows.append(_row(name, after, us))
        elif before is not None:
            rows.append(Row(name, before.get("datasetId"), "urn:ngsi-ld:null", us, is_deletion=True))
    return rows


# --- what happens -------------------------------------------------------------------------------------------------------

instances = st.builds(
    lambda value, dataset, minute: (
        {"type": "Property", "value": value}
        | ({} if dataset is None else {"datasetId": dataset})
        | ({} if minute is None else {"observedAt": f"2026-01-01T00:{minute:02}:00Z"})
    ),
    st.integers(0, 9),
    st.sampled_from(DATASETS),
    st.none() | st.integers(0, 3),
)
attributes = st.dictionaries(
    st.sampled_from(NAMES), st.lists(instances, min_size=1, max_size=2, unique_by=lambda one: one.get("datasetId")), max_size=2
)
types = st.sampled_from([("T",), ("U",), ("T", "U")])
put = st.tuples(st.just("put"), types, st.sampled_from([(), (), ("/s",)]), attributes, st.booleans())
steps = st.lists(
    st.tuples(
        st.sampled_from(IDS),
        put
        | put
        | st.tuples(st.just("add"), types, attributes)
        | st.tuples(st.sampled_from(["delete", "delete", "forget", "drop", "remove", "purge", "start"])),
    ),
    max_size=14,
)


async def do(store: Store, model: Model, number: int, id_: str, step: tuple[Any, ...]) -> None:
    what, *more = step
    now = f"2026-02-01T{number:02}:00:00.000000Z"
    old = store.latest(id_, even_expired=True)
    if what == "put":
        types_, scopes, named, is_transient = more
        new = Entity(id=id_, types=types_, scopes=scopes, attributes=named, created_at=now, modified_at=now)
        if old is not None and old.expires_at is None:
            change = operations.replace(old, new, now)
        else:  # also of one that has expired, and that nobody has removed
            new.expires_at = LONG_AGO if is_transient else None
            change = Change("created", now, None, new)
        model.change(change)
        await store.submit(SaveChange(change, "test"))
    elif what == "delete" and old is not None:
        change = operations.delete(old, now)
        model.change(change)
        await store.submit(SaveChange(change, "test"))
    elif what == "add":
        types_, named = more
        write = AddInstances(id_, types_, named, now)
        assert await store.submit(write) is (id_ not in model.pasts)
        model.add(write)
    elif what == "forget":
        life = model.pasts.pop(id_, None)
        with suppress(ResourceNotFound):
            await store.submit(RemoveEvolution(id_))
            assert life is not None
        if life is not None:
            life.remove(life.rows)
    elif what == "drop" and (life := model.pasts.get(id_)) is not None and life.rows:
        name, dataset = life.rows[0].series
        life.remove([row for row in life.rows if row.series == (name, dataset)])
        await store.submit(RemoveAttribute(id_, name, dataset))
    elif what == "remove" and (life := model.pasts.get(id_)) is not None:
        ordered = sorted((row for row in life.rows if not row.is_deletion), key=lambda row: row.us)
        for row in ordered[:1]:
            evolution = (await store.read(lambda c: read(c, [id_], TemporalQuery(), Wanted(), MANY))).evolutions[0]
            (series,) = [each for each in evolution.series if (each.attribute, each.dataset) == row.series]
            life.remove([row])
            await store.submit(RemoveInstance(id_, row.name, series.instances[0]["instanceId"]))
    elif what == "purge":
        purge(store._writer, 1_000)
    elif what == "start":
        store._writer.remember()


async def check(store: Store, model: Model) -> None:
    for deleted in (False, True):
        query = TemporalQuery(timeproperty="deletedAt" if deleted else None)
        page = await store.read(lambda c: read(c, IDS, query, Wanted(), MANY))  # noqa: B023  it is awaited
        assert {one.id: one.types for one in page.evolutions} == {id_: life.types for id_, life in model.pasts.items()}
        for one in page.evolutions:
            shown = {(series.attribute, series.dataset): [each["value"] for each in series.instances] for series in one.series}
            assert shown == model.pasts[one.id].shown(deleted=deleted)
            assert [series.attribute for series in one.series] == sorted(series.attribute for series in one.series)
    found = await store.read(lambda c: find(c, EntityQuery(), TemporalQuery()))
    assert found.ids == sorted(id_ for id_, life in model.pasts.items() if any(name != SCOPE for name, _ in life.shown()))
    assert [[_said(one) for one in record.attributes] for record in store.read_log()] == [
        [row.said for row in rows if not row.is_removed] for rows in model.log
    ]


def _said(one: Any) -> tuple[str, str | None, Any]:
    return one.name, one.dataset, None if one.instance is None else one.instance["value"]


@settings(deadline=None, max_examples=200)
@given(steps)
def test_the_past_is_what_happened(happens: list[tuple[str, tuple[Any, ...]]]) -> None:
    async def run() -> None:
        store, model = Store.open(None), Model()
        try:
            for number, (id_, step) in enumerate(happens):
                await do(store, model, number, id_, step)
                await check(store, model)
            # what nobody finds any more goes when the log is done with it
            store._writer.execute("DELETE FROM log WHERE offset < (SELECT max(offset) FROM log)")
            purge(store._writer, 1_000)
            somebodys = [*(life.rows for life in model.pasts.values()), *model.unseen.values(), *model.log[-1:]]
            left = {id(row) for rows in somebodys for row in rows if not row.is_removed}
            assert store.reader.execute("SELECT count(*) FROM instances").fetchone() == (len(left),)
        finally:
            await store.close()

    asyncio.run(run())
