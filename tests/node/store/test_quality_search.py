"""Entities that a query finds by their quality, now and in the past, are those of the plain meaning."""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.ngsild.entity import DEFAULT_VOCAB, Attributes, Change, Entity, Instance
from hanse.ngsild.quality import Measure, quality_matches
from hanse.ngsild.query import EntityQuery, EntitySelector, Order, matches
from hanse.ngsild.temporal_parsing import TemporalQuery, to_us
from hanse.node.store import SaveChange, Store, plan
from hanse.node.store.history_search import FoundIds, find
from hanse.node.store.history_writes import AddInstances

A, B, C = (DEFAULT_VOCAB + name for name in "abc")
PRECISION, TRUST = DEFAULT_VOCAB + "precision", "urn:hanse:quality:trust"
ROOM, HALL = DEFAULT_VOCAB + "Room", DEFAULT_VOCAB + "Hall"
EXPECTED = {ROOM: (A, B), HALL: (C,)}
MEASURE = Measure(expected=lambda type_: EXPECTED.get(type_, ()))
START = datetime.now(UTC)


def ago(seconds: int) -> str:
    return (START - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _property(value: Any) -> dict[str, Any]:
    return {"type": "Property", "value": value}


# ages and the bounds that they are compared with lie far apart, so that it does not matter how long a test takes
ages = st.sampled_from([{}, {}, {"observedAt": ago(0)}, {"observedAt": ago(20_000)}, {"observedAt": ago(-50_000)}])
values = st.sampled_from([0, 30, 40, 70.5, 100, 200, "x"])
stated = st.dictionaries(st.sampled_from([PRECISION, TRUST, C]), values.map(lambda value: [_property(value)]), max_size=2)
instances = st.builds(lambda value, when, said: _property(value) | when | said, values, ages, stated)
attributes = st.lists(instances, min_size=1, max_size=2).map(
    lambda found: [instance | ({"datasetId": f"urn:d:{n}"} if n else {}) for n, instance in enumerate(found)]
)
all_attributes = st.dictionaries(st.sampled_from([A, B, C, TRUST]), attributes, max_size=4)
entities = st.lists(st.tuples(st.sampled_from([(ROOM,), (HALL,), (ROOM, HALL), ("urn:none",)]), all_attributes), max_size=8).map(
    lambda found: [
        Entity(id=f"urn:e:{n}", types=types, attributes=attributes, created_at=ago(0), modified_at=ago(0))
        for n, (types, attributes) in enumerate(found)
    ]
)
terms = st.one_of(
    st.builds(
        "{}{}{}".format,
        st.sampled_from([f"{A}.precision", f"{B}.trust", f"{A}.trust", "precision", "trust", "completeness", f"{C}.precision"]),
        st.sampled_from([">=", "<", "==", "!="]),
        st.sampled_from(["40", "0", "50", "70.5"]),
    ),
    st.builds(
        "{}{}{}".format,
        st.sampled_from([f"{A}.freshness", "freshness", f"{B}.freshness"]),
        st.sampled_from(["<=", ">"]),
        st.sampled_from(["10000", "40000"]),
    ),
    st.sampled_from(["precision", f"{A}.freshness", f"{B}.trust", "completeness", f"{DEFAULT_VOCAB}never.trust"]),
)
requirements = st.lists(terms, min_size=1, max_size=3).map(";".join)
queries = st.builds(
    EntityQuery,
    selectors=st.sampled_from([(), (), (EntitySelector(((ROOM,),)),), (EntitySelector((), ("urn:e:0", "urn:e:3")),)]),
    attrs=st.sampled_from([(), (), (A,)]),
    q=st.sampled_from(["", "", f"{A}>30", f"{A}.{C}", f"{A}.{PRECISION}>30|{B}"]),
    quality=requirements,
    order_by=st.sampled_from([(), (), (Order("id", descending=True),)]),
    limit=st.sampled_from([1, 3, 100]),
    offset=st.sampled_from([0, 0, 1]),
    count=st.just(True),
)


@pytest.mark.parametrize("few", [2_000, 0])
@settings(max_examples=60, deadline=None)
@given(found=entities, asked=st.lists(queries, min_size=1, max_size=8))
def test_a_query_finds_what_is_of_the_quality(few: int, found: list[Entity], asked: list[EntityQuery]) -> None:
    async def run() -> None:
        store = Store.open(None)
        store.measure = MEASURE
        try:
            for entity in found:
                await store.submit(SaveChange(Change("created", entity.created_at, None, entity), "create"))
            for query in asked:
                wanted = [entity for entity in found if matches(query, entity, MEASURE.of_entity(ago(0)))]
                if query.order_by:
                    wanted.reverse()
                answer = await store.query(query)
                assert answer.entities == wanted[query.offset : query.offset + query.limit], query
                assert answer.count == len(wanted)
                assert sorted(await store.ids(query)) == sorted(entity.id for entity in wanted)
        finally:
            await store.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "FEW", few)
        patch.setattr(plan, "VERY_FEW", few and 2)
        patch.setattr(plan, "TYPE_LEADS_MAX", few)
        asyncio.run(run())


# --- the past -------------------------------------------------------------------------------------------------------------

ACCEPTED = "2026-01-01T12:00:00.000000Z"


def past_instance(value: Any, minute: int, said: dict[str, Any]) -> Instance:
    moments = {"observedAt": f"2026-01-01T11:{minute:02}:00Z", "createdAt": ACCEPTED, "modifiedAt": ACCEPTED}
    return _property(value) | moments | said


past = st.dictionaries(
    st.sampled_from([A, B, C]),
    st.dictionaries(st.integers(0, 30), st.tuples(values, stated), min_size=1, max_size=4).map(
        lambda placed: [past_instance(value, minute, said) for minute, (value, said) in placed.items()]
    ),
    min_size=1,
)
ages_then = st.builds("{}{}{}".format, st.sampled_from([f"{A}.freshness", "freshness"]), st.sampled_from(["<=", ">"]),
                      st.sampled_from(["2400", "3000", "1800"]))  # fmt: skip


def plainly(stored: Attributes, query: EntityQuery, low: str, high: str) -> bool:
    """As the entity that has all the instances of the window."""
    inside = {
        name: [instance for instance in several if low <= instance["observedAt"] < high] for name, several in stored.items()
    }
    inside = {name: several for name, several in inside.items() if several}
    return bool(inside) and quality_matches(query.quality, MEASURE.of(inside, (ROOM,)))


@settings(max_examples=60, deadline=None)
@given(
    stored=st.lists(past, min_size=1, max_size=4),
    asked=st.lists(terms.filter(lambda term: "freshness<" not in term and "freshness>" not in term) | ages_then, max_size=3),
    window=st.tuples(st.integers(0, 15), st.integers(16, 31)),
)
def test_the_past_is_as_good_as_its_worst_instance_in_the_window(
    stored: list[Attributes], asked: list[str], window: tuple[int, int]
) -> None:
    low, high = (f"2026-01-01T11:{minute:02}:00Z" for minute in window)
    query = EntityQuery(quality=";".join(asked), limit=100, count=True)
    temporal = TemporalQuery(timeproperty="observedAt", timerel="between", from_us=to_us(low), until_us=to_us(high))

    def work(connection: sqlite3.Connection) -> FoundIds:
        return find(connection, query, temporal, measure=MEASURE)

    async def run() -> FoundIds:
        store = Store.open(None)
        try:
            for number, attributes_ in enumerate(stored):
                await store.submit(AddInstances(f"urn:e:{number}", (ROOM,), attributes_, ACCEPTED))
            return await store.read(work)
        finally:
            await store.close()

    answer = asyncio.run(run())
    wanted = [f"urn:e:{number}" for number, one in enumerate(stored) if plainly(one, query, low, high)]
    assert answer.ids == wanted
    assert answer.count == len(wanted)
