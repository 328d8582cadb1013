"""Queries answered by the store are those that their plain meaning answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hanse.ngsild.entity import DEFAULT_VOCAB, LOCATION, Change, Entity
from hanse.ngsild.errors import TooComplexQuery
from hanse.ngsild.geo import GeoQuery
from hanse.ngsild.ordering import order_entities
from hanse.ngsild.query import EntityQuery, EntitySelector, Order, matches
from hanse.node.store import SaveChange, Store, filing, plan
from hanse.node.store.filing import CALM_CHANGED_MAX, CALM_NEW_MAX
from hanse.node.store.patterns import literal_prefix

A, B, C, PLACE = DEFAULT_VOCAB + "a", DEFAULT_VOCAB + "b", DEFAULT_VOCAB + "c", DEFAULT_VOCAB + "place"
TYPES = [DEFAULT_VOCAB + name for name in ("Room", "House", "Tower")]
LONG = "x" * 250

scalars = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([0.5, -0.5, 1e300, 2**60, 10**400, -(10**400)]),
    st.booleans(),
    st.sampled_from(["", "a", "b", "A", "true", "é", LONG, LONG + "y", "1"]),
    st.sampled_from(["2020-01-01", "2020-01-01T00:00:00Z", "2020-01-01T01:00:00+01:00", "0001-01-01", "9999-12-31", "12:00:00Z"]),
)
values = st.one_of(scalars, st.lists(scalars, max_size=3), st.dictionaries(st.sampled_from(["d", "e"]), scalars, max_size=2))


def _property(value: Any) -> dict[str, Any]:
    return {"type": "Property", "value": value}


instances = st.one_of(
    values.map(_property),
    scalars.map(lambda value: _property(5) | {B: [_property(value)]}),
    st.sampled_from(["a", "b"]).map(lambda text: {"type": "LanguageProperty", "languageMap": {"en": text, "de": "c"}}),
    st.sampled_from(["urn:x:1", "urn:x:2"]).map(lambda id_: {"type": "Relationship", "object": id_}),
)
attributes = st.lists(instances, min_size=1, max_size=2).map(
    lambda found: [instance | ({"datasetId": f"urn:d:{n}"} if n else {}) for n, instance in enumerate(found)]
)
lon, lat = st.integers(-180, 180), st.integers(-90, 90)
points = st.tuples(lon, lat).map(lambda p: {"type": "Point", "coordinates": list(p)})
near_points = st.tuples(st.floats(9, 11), st.floats(49, 51)).map(lambda p: {"type": "Point", "coordinates": list(p)})
boxes = st.tuples(st.integers(-170, 160), st.integers(-80, 70), st.integers(1, 19), st.integers(1, 19)).map(
    lambda b: [[[b[0], b[1]], [b[0] + b[2], b[1]], [b[0] + b[2], b[1] + b[3]], [b[0], b[1] + b[3]], [b[0], b[1]]]]
)
geometries = st.one_of(
    points, near_points, boxes.map(lambda rings: {"type": "Polygon", "coordinates": rings}), st.just({"type": "Point"})
)
scopes = st.lists(st.sampled_from(["/A", "/A/B", "/A/B/C", "/D", "/D/B"]), max_size=2, unique=True).map(tuple)


@st.composite
def entities(draw: st.DrawFn) -> list[Entity]:
    found = []
    for number in range(draw(st.integers(0, 8))):
        attrs = {name: draw(attributes) for name in draw(st.lists(st.sampled_from([A, B, C]), unique=True))}
        for name in draw(st.lists(st.sampled_from([LOCATION, PLACE]), unique=True)):
            attrs[name] = [{"type": "GeoProperty", "value": draw(geometries)}]
        found.append(
            Entity(
                id=f"urn:{draw(st.sampled_from(['a', 'b', 'a.b']))}:{number}",
                types=tuple(draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=2, unique=True))),
                scopes=draw(scopes),
                attributes=attrs,
                created_at=f"2020-01-0{number + 1}T00:00:00.000000Z",
                modified_at=f"2020-01-0{draw(st.integers(1, 3))}T00:00:00.000000Z",
            )
        )
    return found


NUMBERS = ["0", "1", "-2", "0.5", "1e300", "0..2", "true", "false"]
TEXTS = ['"a"', '"b"', '""', '"é"', '"a".."b"', '"urn:x:1"', f'"{LONG}"', f'"{LONG}z"']
MOMENTS = ["2020-01-01", "12:00:00Z"]
constants = st.sampled_from([*NUMBERS, *TEXTS, *MOMENTS, '0,1,"a"', "true,2020-01-01"])
ordered = st.sampled_from(["0", "1", "-2", '"a"', '"A"', f'"{LONG}"', "2020-01-01", "2019-12-31T23:59:59Z", "12:00:00Z"])
paths = st.sampled_from([A, B, C, f"{A}.{B}", f"{A}[d]", f"{B}[en]", "id", "modifiedAt", "scope", DEFAULT_VOCAB + "unknown"])
terms = st.one_of(
    paths,
    st.builds("!{}".format, paths),
    st.builds("{}{}{}".format, paths, st.sampled_from(["==", "!="]), constants),
    st.builds("{}{}{}".format, paths, st.sampled_from([">", "<", ">=", "<="]), ordered),
    st.builds('{}{}"{}"'.format, paths, st.sampled_from(["~=", "!~="]), st.sampled_from(["a", "^x", "c$"])),
)
filters = st.recursive(terms, lambda inner: st.builds("({}{}{})".format, inner, st.sampled_from([";", "|"]), inner), max_leaves=4)
selectors = st.builds(
    EntitySelector,
    types=st.sampled_from([(), (), ((TYPES[0],),), ((TYPES[0], TYPES[1]),), ((TYPES[0],), (TYPES[2],)), (("urn:none",),)]),
    ids=st.sampled_from([(), (), (), ("urn:a:0", "urn:b:1"), ("urn:a.b:2",)]),
    id_pattern=st.sampled_from(
        [None, None, "^urn:a", "^urn:a\\.b:[0-4]", "1$", "^urn:ab?", "^(urn:b)", "urn:a|urn:b", "^urn:a|2$"]
    ),
)
geo_queries = st.one_of(
    st.builds(
        GeoQuery,
        georel=st.sampled_from(["within", "contains", "intersects", "equals", "disjoint", "overlaps"]),
        geometry=st.just("Polygon"),
        coordinates=boxes,
        geoproperty=st.sampled_from([LOCATION, PLACE]),
    ),
    st.builds(
        GeoQuery,
        georel=st.just("near"),
        geometry=st.just("Point"),
        coordinates=st.one_of(st.tuples(lon, lat).map(list), st.just([10.0, 50.0])),
        max_distance_m=st.sampled_from([1.0, 50_000.0, 2_000_000.0, 30_000_000.0]),
    ),
    st.builds(
        GeoQuery,
        georel=st.just("near"),
        geometry=st.just("Polygon"),
        coordinates=boxes,
        min_distance_m=st.sampled_from([1.0, 1_000_000.0]),
    ),
)
queries = st.builds(
    EntityQuery,
    selectors=st.lists(selectors, max_size=2).map(tuple),
    attrs=st.sampled_from([(), (), (A,), (B, LOCATION), ("urn:none",)]),
    q=st.one_of(st.just(""), filters, filters),
    geo=st.one_of(st.none(), st.none(), geo_queries),
    scope_q=st.sampled_from(["", "", "", "/A", "/A/#", "/+/B", "/A;/D", "/A/B,/D/#", "(/A/B|/D);/A"]),
    limit=st.sampled_from([1, 3, 100]),
    offset=st.sampled_from([0, 0, 2]),
    count=st.just(True),
)


async def _filled(store: Store, found: list[Entity]) -> None:
    """All are created; every other one is at first as the one before it, and some changes come when others were long ago."""
    changes = []
    for number, entity in enumerate(found):
        first = entity
        if number % 2:
            first = replace(entity, attributes=found[number - 1].attributes, modified_at=entity.created_at)
            changes.append(Change("updated", entity.created_at, first, entity))
        await store.submit(SaveChange(Change("created", entity.created_at, None, first), "create"))
    for change in changes:
        await store.submit(SaveChange(change, "update"))


@pytest.mark.parametrize("few", [2_000, 0])
@pytest.mark.parametrize("unfiled", [(1, 1), (5, CALM_CHANGED_MAX), (CALM_NEW_MAX, CALM_CHANGED_MAX)], ids=str)
@settings(max_examples=60, deadline=None)
@given(found=entities(), asked=st.lists(queries, min_size=1, max_size=8))
def test_answers_are_those_of_the_plain_meaning(
    few: int, unfiled: tuple[int, int], found: list[Entity], asked: list[EntityQuery]
) -> None:
    async def run() -> None:
        store = Store.open(None)
        try:
            await _filled(store, found)
            for query in asked:
                wanted = [entity for entity in found if matches(query, entity)]
                answer = await store.query(query)
                assert answer.entities == wanted[query.offset : query.offset + query.limit], query
                assert answer.count == len(wanted)
                assert await store.ids(query) == [entity.id for entity in wanted]
        finally:
            await store.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filing, "CALM_NEW_MAX", unfiled[0])
        patch.setattr(filing, "CALM_CHANGED_MAX", unfiled[1])
        patch.setattr(plan, "FEW", few)
        patch.setattr(plan, "VERY_FEW", few and 2)
        patch.setattr(plan, "TYPE_LEADS_MAX", few)
        asyncio.run(run())


orders = st.builds(
    Order,
    path=st.sampled_from([A, B, "id", "modifiedAt", "type", f"{A}.{B}", DEFAULT_VOCAB + "unknown"]),
    descending=st.booleans(),
    collation=st.sampled_from([None, None, "de"]),
)


@settings(max_examples=40, deadline=None)
@given(found=entities(), asked=st.lists(st.lists(orders, min_size=1, max_size=2), min_size=1, max_size=5))
def test_orders_are_those_of_the_plain_meaning(found: list[Entity], asked: list[list[Order]]) -> None:
    def is_small(entity: Entity) -> bool:  # doubles hold it, and the index the whole text
        return not any(text in str(entity.attributes) for text in ("x" * 200, "0000000", "1152921504606846976"))

    kept = [entity for entity in found if is_small(entity)]

    async def run() -> None:
        store = Store.open(None)
        try:
            await _filled(store, kept)
            for by in asked:
                answer = await store.query(EntityQuery(order_by=tuple(by), limit=3, offset=1))
                assert answer.entities == order_entities(kept, tuple(by))[1:4]
        finally:
            await store.close()

    asyncio.run(run())


def test_a_query_that_takes_too_long_is_refused_and_the_store_goes_on() -> None:
    async def run() -> None:
        store = Store.open(None, query_ms_max=0)
        await _filled(store, [Entity(id=f"urn:x:{n}", types=("T",), attributes={A: [_property("a")]}) for n in range(20)])
        with pytest.raises(TooComplexQuery):
            await store.query(EntityQuery(q=f'{A}[x]~="b"'))
        assert (await store.query(EntityQuery(selectors=(EntitySelector(ids=("urn:x:1",)),)))).entities[0].id == "urn:x:1"
        await store.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [
        ("^urn:ngsi-ld:Room:.*", "urn:ngsi-ld:Room:"),
        ("^a\\.b", "a.b"),
        ("^ab*", "a"),
        ("^ab+", "ab"),
        ("^ab{2}", "a"),
        ("urn", ""),
        ("^a|b", ""),
        ("^(?i)a", ""),
        ("^a\\d", "a"),
        ("^ab$", "ab"),
    ],
)
def test_what_a_pattern_begins_with(pattern: str, prefix: str) -> None:
    assert literal_prefix(pattern) == prefix
