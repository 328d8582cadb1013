"""A subscription fires exactly when the same query would find the entity: one meaning for both, and for the plain one.

Random entities change in a real tenant that has random subscriptions. After each change three answers are compared: who was
told, whose query the store answers with the entity, and what `matches` says.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hanse.matching import MatchIndex
from hanse.ngsild import operations
from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import DEFAULT_VOCAB, Change, Entity, now_text
from hanse.ngsild.parsing import parse_entity, parse_fragment
from hanse.ngsild.query import matches
from hanse.ngsild.subscriptions import NgsiSubscription, is_triggered, parse_subscription
from hanse.node.settings import NodeSettings
from hanse.node.store import Delivery, Store
from hanse.node.tenant import Tenant

PHASES = (Phase.explicit, Phase.reuse, Phase.generate)  # to make an example smaller takes minutes here

IDS = ["urn:a:1", "urn:a:2", "urn:b:1"]
NAMES = ["a", "b", "c"]
ALL = ["entityCreated", "entityUpdated", "entityDeleted"]

# --- entities ---------------------------------------------------------------------------------------------------------

scalars = st.sampled_from([0, 1, -2, 0.5, 3, True, False, "x", "y", "open", "2020-01-01T00:00:00Z", "é"])
values = scalars | st.lists(scalars, min_size=1, max_size=3) | st.dictionaries(st.sampled_from(["d", "e"]), scalars, min_size=1)
lons = st.sampled_from([-180, -179.9, -179, -10, 0, 9.99, 10, 10.001, 11, 179, 179.9, 180]) | st.floats(-180, 180)
lats = st.sampled_from([-90, -89.9, -45, 0, 49.99, 50, 50.001, 51, 89, 89.9, 90]) | st.floats(-90, 90)
positions = st.tuples(lons, lats).map(list)
points = positions.map(lambda at: {"type": "Point", "coordinates": at})
lines = st.lists(positions, min_size=2, max_size=4).map(lambda line: {"type": "LineString", "coordinates": line})


def _ring(corners: list[list[float]]) -> list[list[float]]:
    return [*corners, corners[0]]


def _box(west: float, south: float, wide: float, high: float) -> list[list[float]]:
    east, north = min(180.0, west + wide), min(90.0, south + high)
    return _ring([[west, south], [east, south], [east, north], [west, north]])


sizes = st.sampled_from([0.001, 0.5, 2, 20, 200, 360])
rings = st.builds(_box, lons, lats, sizes, sizes) | st.lists(positions, min_size=3, max_size=5).map(_ring)
polygons = rings.map(lambda ring: {"type": "Polygon", "coordinates": [ring]})
multi_points = st.lists(positions, min_size=1, max_size=3).map(lambda some: {"type": "MultiPoint", "coordinates": some})
geometries = points | points | lines | polygons | multi_points


def _geo(value: Any) -> dict[str, Any]:
    return {"type": "GeoProperty", "value": value}


def _instances(some: list[dict[str, Any]]) -> Any:
    with_ids = [one | ({"datasetId": f"urn:d:{n}"} if n else {}) for n, one in enumerate(some)]
    return with_ids[0] if len(with_ids) == 1 else with_ids


def _measured(value: Any, precision: Any, age_s: int | None) -> dict[str, Any]:
    """With an age that is far from all that is asked for, however long a test takes."""
    found = {"type": "Property", "value": value, "precision": {"type": "Property", "value": precision}}
    if age_s is not None:
        found["observedAt"] = (datetime.now(UTC) - timedelta(seconds=age_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return found


kinds = st.one_of(
    values.map(lambda value: {"type": "Property", "value": value}),
    scalars.map(lambda value: {"type": "Property", "value": 1, "b": {"type": "Property", "value": value}}),
    st.builds(_measured, scalars, st.sampled_from([0, 30, 50, 100, "x"]), st.sampled_from([None, -50_000, 0, 20_000])),
    st.sampled_from(["urn:x:1", "urn:x:2"]).map(lambda id_: {"type": "Relationship", "object": id_}),
    st.sampled_from(["x", "y"]).map(lambda text: {"type": "LanguageProperty", "languageMap": {"en": text, "de": "z"}}),
    st.sampled_from(["Park", "Museum"]).map(lambda term: {"type": "VocabProperty", "vocab": term}),
    st.dictionaries(st.sampled_from(["d", "e"]), scalars).map(lambda value: {"type": "JsonProperty", "json": value}),
    st.lists(scalars, max_size=3).map(lambda some: {"type": "ListProperty", "valueList": some}),
    st.just({"type": "ListRelationship", "objectList": [{"object": "urn:x:1"}, {"object": "urn:x:2"}]}),
    geometries.map(_geo),
)
attributes = st.lists(kinds, min_size=1, max_size=2).map(_instances)
places = st.lists(geometries.map(_geo), min_size=1, max_size=2).map(_instances) | points.map(_geo) | points.map(_geo)
members = st.fixed_dictionaries(
    {"type": st.sampled_from(["A", "B", "C", ["A", "B"], ["B", "C"]])},
    optional={
        "a": attributes,
        "b": attributes,
        "c": attributes,
        "location": places,
        "operationSpace": places,
        "scope": st.sampled_from(["/X", "/X/Y", ["/X", "/Z"], "/Z/Y", ["/X/Y/W"]]),
    },
)
changes = st.tuples(
    st.sampled_from(IDS), st.sampled_from(["put", "put", "append", "append", "update", "take", "delete"]), members
)

# --- selections -------------------------------------------------------------------------------------------------------

paths = st.sampled_from(["a", "b", "c", "a.b", "a[d]", "b[e]", "c[en]", "id", "type", "scope", "modifiedAt", "unknown"])
constants = st.sampled_from(["0", "1", "-2", "0..2", "true", '"x"', '"z"', '"open"', '"urn:x:1"', "2020-01-01", '0,"x"', "0.5"])
bounds = st.sampled_from(["0", "1", "-1", '"a"', '"y"', "2019-12-31T23:59:59Z"])
terms = st.one_of(
    paths,
    st.builds("{}{}{}".format, paths, st.sampled_from(["==", "!="]), constants),
    st.builds("{}{}{}".format, paths, st.sampled_from([">", "<", ">=", "<="]), bounds),
    st.builds('{}{}"{}"'.format, paths, st.sampled_from(["~=", "!~="]), st.sampled_from(["x", "^o", "1$"])),
)
filters = st.recursive(terms, lambda inner: st.builds("({}{}{})".format, inner, st.sampled_from([";", "|"]), inner), max_leaves=5)
selectors = st.fixed_dictionaries(
    {"type": st.sampled_from(["*", "A", "B", "A;B", "A|C", "(A|B);C", "A;(B|C)", "Nothing"])},
    optional={
        "id": st.sampled_from(["urn:a:1", ["urn:a:2", "urn:b:1"], "urn:none:1"]),
        "idPattern": st.sampled_from(["^urn:a", "1$", "urn:(a|b):2", "."]),
    },
)
small = st.builds(_box, lons, lats, st.just(0.5), st.just(0.001)).map(lambda ring: {"type": "Polygon", "coordinates": [ring]})


def _geo_query(geometry: dict[str, Any], georel: str, geoproperty: str) -> dict[str, Any]:
    where = {"geometry": geometry["type"], "coordinates": geometry["coordinates"]}
    return where | {"georel": georel, "geoproperty": geoproperty}


geoproperties = st.sampled_from(["location", "location", "location", "operationSpace", "a"])
relations = st.sampled_from(["within", "contains", "intersects", "equals", "disjoint", "overlaps"])
distances = st.builds(
    "near;{}=={}".format,
    st.sampled_from(["maxDistance", "maxDistance", "minDistance"]),
    st.sampled_from([1, 150, 2_000, 120_000, 5_000_000, 19_000_000, 20_015_087, 30_000_000]),
)
geo_queries = st.one_of(
    st.builds(_geo_query, geometries, relations, geoproperties),
    st.builds(_geo_query, points | points | small, distances, geoproperties),
)
scope_queries = st.sampled_from(["/X", "/X/#", "/+/Y", "/X;/Z", "/X/Y,/Z/#", "(/X/Y|/Z);/X", "/#"])
requirements = st.sampled_from(
    ["a.precision>=40", "precision", "precision<medium", "freshness<=10000", "a.freshness>10000;b.precision", "precision!=50"]
)
triggers = st.lists(
    st.sampled_from([*ALL, "attributeCreated", "attributeUpdated", "attributeDeleted"]), min_size=1, max_size=3, unique=True
)
selections = st.fixed_dictionaries(
    {"entities": st.lists(selectors, min_size=1, max_size=2)},
    optional={"q": filters, "geoQ": geo_queries, "scopeQ": scope_queries, "qualityQ": requirements},
)
anything = st.just([{"type": "*"}])
simple_selections = st.one_of(  # those that ask for much are seldom satisfied
    st.fixed_dictionaries({"entities": anything, "geoQ": geo_queries}),
    st.fixed_dictionaries({"entities": anything, "scopeQ": scope_queries}),
    st.fixed_dictionaries({"entities": anything, "q": filters}),
    st.fixed_dictionaries({"entities": anything, "qualityQ": requirements}),
    st.fixed_dictionaries({"entities": anything}),
)
moments = st.one_of(
    st.just({"notificationTrigger": ALL}),
    st.just({"notificationTrigger": ALL}),
    triggers.map(lambda some: {"notificationTrigger": some[:1]}),
    st.fixed_dictionaries(
        {},
        optional={
            "notificationTrigger": triggers,
            "watchedAttributes": st.lists(st.sampled_from([*NAMES, "location", "unknown"]), min_size=1, max_size=2, unique=True),
        },
    ),
)
wanted_attrs = st.sampled_from([(), (), (), ("a",), ("b", "c")])


def subscription(number: int, selection: dict[str, Any], when: dict[str, Any], attrs: tuple[str, ...]) -> NgsiSubscription:
    body = {"id": f"urn:s:{number}", "type": "Subscription", "notification": {"endpoint": {"uri": "http://127.0.0.1:1/n"}}}
    made = parse_subscription(body | selection | when, CORE, now_text())
    query = msgspec.structs.replace(made.query, attrs=tuple(DEFAULT_VOCAB + name for name in attrs), limit=1000)
    return msgspec.structs.replace(made, query=query)


# --- the three answers ------------------------------------------------------------------------------------------------


def operated(old: Entity | None, id_: str, operation: str, body: dict[str, Any]) -> Change | operations.Outcome | None:
    now = now_text()
    if old is None:
        return operations.create(parse_entity({"id": id_} | body, CORE, now), now)
    if operation == "delete":
        return operations.delete(old, now)
    if operation == "put":
        return operations.replace(old, parse_entity({"id": id_} | body, CORE, now), now)
    if operation == "take":
        name = min(old.attributes, default=None)
        return None if name is None else operations.delete_attribute(old, name, None, delete_all=True, now=now)
    change = operations.append if operation == "append" else operations.update
    return change(old, parse_fragment(body, CORE, now), now)


async def check_change(node: Tenant, told: list[Delivery], id_: str, operation: str, body: dict[str, Any]) -> None:
    lives, _ = node.subscriptions.page(1000)
    subscriptions = [live.subscription for live in lives]
    before = {s.id: id_ in await node.store.ids(s.query) for s in subscriptions} if operation == "delete" else {}
    told.clear()
    made: list[Change] = []

    def keep(old: Entity | None) -> Change | operations.Outcome | None:
        result = operated(old, id_, operation, body)
        change = result.change if isinstance(result, operations.Outcome) else result
        made.extend([change] if change is not None else [])
        return result

    await node.change(id_, keep, operation)
    heard = sorted(delivery.subscription for delivery in told)
    if not made:
        assert not heard
        return
    change = made[0]
    found = {s.id: before[s.id] if change.kind == "deleted" else id_ in await node.store.ids(s.query) for s in subscriptions}
    for s in subscriptions:
        assert found[s.id] == matches(s.query, change.entity), (s.query, change.entity)
    assert heard == sorted(s.id for s in subscriptions if found[s.id] and is_triggered(s, change)), change


@pytest.mark.parametrize("few_max", [0, 32], ids=["columns", "one by one"])
@settings(max_examples=60, phases=PHASES, suppress_health_check=list(HealthCheck))
@given(
    wanted=st.lists(st.tuples(selections | simple_selections, moments, wanted_attrs), min_size=4, max_size=12),
    done=st.lists(changes, min_size=1, max_size=6),
)
def test_a_subscription_fires_exactly_when_the_same_query_finds(few_max: int, wanted: list[Any], done: list[Any]) -> None:
    async def run(patch: pytest.MonkeyPatch) -> None:
        node = Tenant("", Store.open(None), NodeSettings())
        node.broker.index = MatchIndex(few_max)
        told: list[Delivery] = []
        patch.setattr(node.notifier, "dispatch", told.extend)
        await node.start()
        try:
            for number, parts in enumerate(wanted):
                await node.subscriptions.add(subscription(number, *parts))
            for id_, operation, body in done:
                await check_change(node, told, id_, operation, body)
        finally:
            await node.stop()

    with pytest.MonkeyPatch.context() as patch:
        asyncio.run(run(patch))
