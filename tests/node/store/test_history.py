"""The past in the store: what SQL selects is what a plain filter over all instances would."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hanse.filters import compile_q
from hanse.ngsild.aggregation import Aggregation, Duration
from hanse.ngsild.entity import NGSI_LD, AttributeChange, Change, Entity, Instance
from hanse.ngsild.errors import ResourceNotFound
from hanse.ngsild.geo import GeoQuery
from hanse.ngsild.query import EntityQuery, EntitySelector, Order
from hanse.ngsild.temporal import SCOPE, Page
from hanse.ngsild.temporal_parsing import TemporalQuery, to_text, to_us
from hanse.node.access.seen_search import SeeingSearcher, SeeingWholeSearcher
from hanse.node.store import SaveChange, Store, Write
from hanse.node.store.beside import WholeSearcher
from hanse.node.store.connection import open_reader
from hanse.node.store.history import BY_DEFAULT, Instances, Wanted, ensure, is_known, purge, read
from hanse.node.store.history_search import FoundIds, find
from hanse.node.store.history_writes import (
    AddInstances,
    ChangeInstance,
    EndAttribute,
    RemoveAttribute,
    RemoveEvolution,
    RemoveInstance,
)
from hanse.node.store.log import Wanted as Records
from hanse.node.store.log import _statement
from hanse.node.store.search import Searcher

T = TypeVar("T")
SPEED, FUEL, PLACE = NGSI_LD + "speed", NGSI_LD + "fuel", NGSI_LD + "location"
VEHICLE, BUS = NGSI_LD + "Vehicle", NGSI_LD + "Bus"
NOW = "2026-01-01T00:00:00.000000Z"
MANY = 1000


@pytest.fixture
def store() -> Iterator[Store]:
    opened = Store.open(None)
    ensure(opened._writer)
    yield opened
    opened.close_now()


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return asyncio.run(work())


def write(store: Store, *writes: Write) -> list[Any]:
    async def submitted() -> list[Any]:
        return [await store.submit(one) for one in writes]

    return asyncio.run(submitted())


def look(store: Store, work: Callable[[sqlite3.Connection], T]) -> T:
    async def reading() -> T:
        return await store.read(work)

    return asyncio.run(reading())


def at(minute: int) -> str:
    return f"2020-08-01T{12 + minute // 60:02}:{minute % 60:02}:00Z"


def us(minute: int) -> int:
    moment = to_us(at(minute))
    assert moment is not None
    return moment


def instance(value: Any, minute: int | None = None, dataset: str | None = None, kind: str = "Property") -> Instance:
    made: Instance = {"type": kind, "value": value}
    if minute is not None:
        made["observedAt"] = at(minute)
    if dataset is not None:
        made["datasetId"] = dataset
    return made


def evolution(store: Store, id_: str, query: TemporalQuery | None = None, wanted: Wanted | None = None, most: int = MANY) -> Page:
    return look(
        store, lambda connection: read(connection, [id_], query or TemporalQuery(), wanted or Wanted(), Instances(most, most))
    )


def values(page: Page, attribute: str = SPEED, dataset: str | None = None) -> list[Any]:
    for series in page.evolutions[0].series:
        if (series.attribute, series.dataset) == (attribute, dataset):
            return [one["value"] for one in series.instances]
    return []


# --- provision ----------------------------------------------------------------------------------------------------------


def test_instances_are_added_and_those_of_the_same_moment_replaced(store: Store) -> None:
    first = AddInstances("urn:a", (VEHICLE,), {SPEED: [instance(120, 3), instance(80, 5), instance(1, 5, "urn:d")]}, NOW)
    second = AddInstances("urn:a", (VEHICLE, BUS), {SPEED: [instance(121, 3), instance(100, 7)]}, NOW)
    assert write(store, first, second) == [True, False]
    page = evolution(store, "urn:a")
    assert values(page) == [121, 80, 100]
    assert values(page, dataset="urn:d") == [1]
    assert page.evolutions[0].types == (VEHICLE, BUS)


def test_instances_that_were_never_observed_are_all_kept(store: Store) -> None:
    write(store, AddInstances("urn:a", (VEHICLE,), {SPEED: [instance(1), instance(1), instance(2)]}, NOW))
    assert values(evolution(store, "urn:a")) == [1, 1, 2]
    assert values(evolution(store, "urn:a", TemporalQuery(timeproperty="observedAt"))) == []
    assert values(evolution(store, "urn:a", TemporalQuery(timeproperty="modifiedAt"))) == [1, 1, 2]


def test_attributes_are_added_to_a_known_entity_only(store: Store) -> None:
    with pytest.raises(ResourceNotFound):
        write(store, AddInstances("urn:a", (), {SPEED: [instance(1, 1)]}, NOW, may_create=False))
    assert not look(store, lambda connection: is_known(connection, "urn:a"))


def test_one_instance_is_changed_and_keeps_its_id(store: Store) -> None:
    write(store, AddInstances("urn:a", (VEHICLE,), {SPEED: [instance(120, 3) | {"unitCode": "KMH"}, instance(80, 5)]}, NOW))
    first, second = evolution(store, "urn:a").evolutions[0].series[0].instances
    later = "2026-02-01T00:00:00.000000Z"
    write(store, ChangeInstance("urn:a", SPEED, first["instanceId"], {"value": 129, "observedAt": at(4)}, later))
    changed, same = evolution(store, "urn:a").evolutions[0].series[0].instances
    assert same == second
    assert (changed["value"], changed["unitCode"], changed["observedAt"]) == (129, "KMH", at(4))
    assert changed["instanceId"] == first["instanceId"]
    assert (changed["createdAt"], changed["modifiedAt"]) == (to_text(to_us(NOW) or 0), to_text(to_us(later) or 0))


def test_one_instance_is_removed(store: Store) -> None:
    write(store, AddInstances("urn:a", (VEHICLE,), {SPEED: [instance(120, 3), instance(80, 5)]}, NOW))
    first = evolution(store, "urn:a").evolutions[0].series[0].instances[0]["instanceId"]
    for wrong in (
        RemoveInstance("urn:b", SPEED, first),
        RemoveInstance("urn:a", FUEL, first),
        RemoveInstance("urn:a", SPEED, "urn:ngsi-ld:Instance:99"),
        RemoveInstance("urn:a", SPEED, "urn:other"),
        RemoveInstance("urn:a", SPEED, first.rpartition(":")[2]),
    ):
        with pytest.raises(ResourceNotFound):
            write(store, wrong)
    write(store, RemoveInstance("urn:a", SPEED, first))
    assert values(evolution(store, "urn:a")) == [80]


def test_series_and_attributes_are_removed(store: Store) -> None:
    rows = {SPEED: [instance(1, 1), instance(2, 2, "urn:d")], FUEL: [instance(3, 1)]}
    write(store, AddInstances("urn:a", (VEHICLE,), rows, NOW), RemoveAttribute("urn:a", SPEED))
    page = evolution(store, "urn:a")
    assert (values(page), values(page, dataset="urn:d"), values(page, FUEL)) == ([], [2], [3])
    write(store, AddInstances("urn:a", (VEHICLE,), rows, NOW), RemoveAttribute("urn:a", SPEED, every=True))
    assert [series.attribute for series in evolution(store, "urn:a").evolutions[0].series] == [FUEL]
    with pytest.raises(ResourceNotFound):
        write(store, RemoveAttribute("urn:a", SPEED, "urn:none"))


def test_an_evolution_is_removed_whole(store: Store) -> None:
    write(store, AddInstances("urn:a", (VEHICLE,), {SPEED: [instance(1, 1)]}, NOW), RemoveEvolution("urn:a"))
    assert evolution(store, "urn:a").evolutions == []
    with pytest.raises(ResourceNotFound):
        write(store, RemoveEvolution("urn:a"))
    write(store, AddInstances("urn:a", (VEHICLE,), {SPEED: [instance(2, 1)]}, NOW))
    assert values(evolution(store, "urn:a")) == [2]


def test_an_attribute_ends_with_a_null_that_shows_by_the_time_of_deletion_only(store: Store) -> None:
    named = {"type": "LanguageProperty", "languageMap": {"en": "x"}, "observedAt": at(1)}
    write(store, AddInstances("urn:a", (VEHICLE,), {SPEED: [instance(1, 1)], FUEL: [named]}, NOW))
    write(store, EndAttribute("urn:a", SPEED, NOW), EndAttribute("urn:a", FUEL, NOW, every=True))
    assert values(evolution(store, "urn:a")) == [1]
    speed, fuel = sorted(
        evolution(store, "urn:a", TemporalQuery(timeproperty="deletedAt")).evolutions[0].series, key=lambda s: s.attribute == FUEL
    )
    assert speed.instances == [{"type": "Property", "value": "urn:ngsi-ld:null"} | _ids(speed.instances[0])]
    assert fuel.instances[0]["languageMap"] == {"@none": "urn:ngsi-ld:null"}
    with pytest.raises(ResourceNotFound):  # it is over already
        write(store, EndAttribute("urn:a", SPEED, NOW))


def _ids(one: Instance) -> Instance:
    return {"instanceId": one["instanceId"], "deletedAt": one["deletedAt"]}


# --- the present makes the past -----------------------------------------------------------------------------------------


def saved(before: Entity | None, after: Entity | None, moment: str) -> SaveChange:
    """What an operation would have made of it, for entities whose only attribute is a default instance."""
    old, new = (before.attributes if before else {}), (after.attributes if after else {})
    changes = tuple(
        AttributeChange(
            name,
            "deleted" if name not in new else "updated" if name in old else "created",
            old[name][0] if name in old else None,
            new[name][0] if name in new else None,
        )
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    )
    kind = "created" if before is None else "deleted" if after is None else "updated"
    return SaveChange(Change(kind, moment, before, after, changes), "test")  # type: ignore[arg-type]


def entity(value: Any, moment: str, scopes: tuple[str, ...] = ()) -> Entity:
    one = {"type": "Property", "value": value, "createdAt": moment, "modifiedAt": moment}
    return Entity(id="urn:a", types=(VEHICLE,), scopes=scopes, attributes={SPEED: [one]}, created_at=moment, modified_at=moment)


TIMES = [f"2026-03-0{day}T00:00:00.000000Z" for day in range(1, 6)]


def test_every_change_of_the_present_is_an_instance(store: Store) -> None:
    one, two = entity(1, TIMES[0]), entity(2, TIMES[1])
    none = Entity(id="urn:a", types=(VEHICLE,), created_at=TIMES[0], modified_at=TIMES[2])
    write(store, saved(None, one, TIMES[0]), saved(one, two, TIMES[1]), saved(two, none, TIMES[2]))
    assert values(evolution(store, "urn:a")) == [1, 2]
    window = TemporalQuery(timeproperty="modifiedAt", from_us=to_us(TIMES[1]))
    assert values(evolution(store, "urn:a", window)) == [2]
    assert values(evolution(store, "urn:a", TemporalQuery(timeproperty="deletedAt"))) == ["urn:ngsi-ld:null"]


def test_the_past_ends_with_the_entity_and_another_of_its_id_has_another(store: Store) -> None:
    one, again = entity(1, TIMES[0]), entity(2, TIMES[2])
    write(store, saved(None, one, TIMES[0]), saved(one, None, TIMES[1]))
    assert evolution(store, "urn:a").evolutions == []
    with pytest.raises(ResourceNotFound):
        write(store, RemoveEvolution("urn:a"))
    write(store, saved(None, again, TIMES[2]))
    assert values(evolution(store, "urn:a")) == [2]
    # the log still tells what happened
    assert [record.attributes[0].instance is not None for record in store.read_log()] == [True, False, True]


def test_what_has_ended_is_purged_when_the_log_is_done_with_it(store: Store) -> None:
    one = entity(1, TIMES[0])
    write(store, saved(None, one, TIMES[0]), saved(one, None, TIMES[1]))
    count = "SELECT (SELECT count(*) FROM history), (SELECT count(*) FROM temporal_entities)"
    purge(store._writer, 100)
    assert store._writer.execute(count).fetchone() == (2, 1)
    store._writer.execute("DELETE FROM log")
    purge(store._writer, 100)
    assert store._writer.execute(count).fetchone() == (0, 0)


def test_scopes_evolve(store: Store) -> None:
    one, two = entity(1, TIMES[0], ("/A",)), entity(1, TIMES[1], ("/B", "/C"))
    none = entity(1, TIMES[2])
    for before, after, moment in ((None, one, TIMES[0]), (one, two, TIMES[1]), (two, none, TIMES[2])):
        change = saved(before, after, moment)
        write(store, change)
    assert values(evolution(store, "urn:a"), SCOPE) == [["/A"], ["/B", "/C"]]
    assert values(evolution(store, "urn:a", TemporalQuery(timeproperty="deletedAt")), SCOPE) == [[]]
    for scope_q, since, until, expected in (
        ("/A", 0, 1, True),
        ("/A", 1, 2, False),
        ("/B", 0, 1, False),
        ("/B;/C", 1, 2, True),
        ("/A", 0, 4, True),
        ("/B", 2, 3, False),
    ):
        window = TemporalQuery(timeproperty="modifiedAt", from_us=to_us(TIMES[since]), until_us=to_us(TIMES[until]))
        assert (found(store, EntityQuery(scope_q=scope_q), window).ids == ["urn:a"]) is expected


def found(store: Store, query: EntityQuery, temporal: TemporalQuery) -> FoundIds:
    return look(store, lambda connection: find(connection, query, temporal))


# --- selection against a plain filter -----------------------------------------------------------------------------------

minutes = st.none() | st.integers(0, 20)
scalars = st.integers(-3, 3) | st.sampled_from(["a", "b", "2020-08-01T12:00:00Z"]) | st.booleans() | st.just(1.5)
stored_instances = st.builds(
    instance, scalars | st.lists(scalars, max_size=2), minutes, st.sampled_from([None, None, "urn:d", "urn:e"])
)
stored_entities = st.dictionaries(
    st.sampled_from(["urn:v:1", "urn:v:2", "urn:b:1"]),
    st.dictionaries(st.sampled_from([SPEED, FUEL]), st.lists(stored_instances, min_size=1, max_size=6), min_size=1),
    max_size=3,
)
bounds = st.none() | st.integers(0, 20)


@st.composite
def temporal_queries(draw: st.DrawFn) -> TemporalQuery:
    low, high = draw(bounds), draw(bounds)
    return TemporalQuery(
        timeproperty=draw(st.sampled_from([None, "observedAt"])),
        from_us=None if low is None else us(low),
        until_us=None if high is None else us(high),
        last_n=draw(st.none() | st.integers(1, 4)),
    )


def kept(instances: list[Instance]) -> list[Instance]:
    """What is left after every instance has replaced the one of the same dataset and moment."""
    found: dict[Any, Instance] = {}
    for number, one in enumerate(instances):
        key = (one.get("datasetId"), one["observedAt"]) if "observedAt" in one else number
        found.pop(key, None)
        found[key] = one
    return list(found.values())


def moment_of(one: Instance) -> int:
    moment = to_us(one.get("observedAt", NOW))
    assert moment is not None
    return moment


def plainly(instances: list[Instance], query: TemporalQuery, dataset: str | None) -> list[Instance]:
    """The instances of a series in the window, in order, the last n of them."""
    found = [
        one
        for one in kept(instances)
        if one.get("datasetId") == dataset
        and (query.timeproperty is None or "observedAt" in one)
        and (query.from_us is None or moment_of(one) >= query.from_us)
        and (query.until_us is None or moment_of(one) < query.until_us)
    ]
    found.sort(key=moment_of)
    return found if query.last_n is None else found[-query.last_n :]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(stored_entities, temporal_queries())
def test_series_are_what_a_plain_filter_finds(
    store: Store, stored: dict[str, dict[str, list[Instance]]], query: TemporalQuery
) -> None:
    fill(store, stored)
    for id_, named in stored.items():
        page = evolution(store, id_, query)
        for name, instances in named.items():
            for dataset in (None, "urn:d", "urn:e"):
                assert values(page, name, dataset) == [one["value"] for one in plainly(instances, query, dataset)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(stored_entities, temporal_queries(), st.integers(1, 5))
def test_pages_in_a_row_show_everything_once(
    store: Store, stored: dict[str, dict[str, list[Instance]]], query: TemporalQuery, most: int
) -> None:
    """Forwards by timeAt, from just after where the page before ended; no instance is missing, none comes twice."""
    fill(store, stored)
    start = TemporalQuery(timeproperty="observedAt", from_us=query.from_us, until_us=query.until_us)
    for id_ in stored:
        whole = evolution(store, id_, start)
        seen: dict[tuple[str, str | None], list[Any]] = {}
        asked = start
        for _ in range(100):
            page = evolution(store, id_, asked, most=most)
            for series in page.evolutions[0].series:
                seen.setdefault((series.attribute, series.dataset), []).extend(one["instanceId"] for one in series.instances)
            if not page.is_partial:
                break
            span = page.span
            assert span is not None
            asked = TemporalQuery(timeproperty="observedAt", from_us=span[1] + 1, until_us=start.until_us)
        expected = {
            (series.attribute, series.dataset): [one["instanceId"] for one in series.instances]
            for series in whole.evolutions[0].series
        }
        assert {key: ids for key, ids in seen.items() if ids} == expected


queries = st.builds(
    EntityQuery,
    selectors=st.sampled_from(
        [(), (EntitySelector(((VEHICLE,),)),), (EntitySelector((), ("urn:v:1",)), EntitySelector(((BUS,),), (), "b:1$"))]
    ),
    attrs=st.sampled_from([(), (SPEED,), (FUEL, SPEED)]),
    q=st.sampled_from(
        ["", *(text.replace("speed", SPEED).replace("fuel", FUEL) for text in (
            "speed>1", "speed==1", "speed!=1", 'speed=="a"', "speed", "speed>=0;fuel<2", "speed>2|fuel", 'speed~="a"',
            "speed==true",             'speed=="2020-08-01T12:00:00Z"', "speed==1..2", "speed==1,2", "type", 'id~="v"', "speed.x",
        ))]
    ),
    dataset_ids=st.sampled_from([(), ("@none",), ("urn:d", "@none"), ("urn:e",)]),
    order_by=st.sampled_from([(), (Order("id", descending=True),)]),
    limit=st.integers(0, 3),
    offset=st.integers(0, 2),
    count=st.booleans(),
)  # fmt: skip


def type_of(id_: str) -> str:
    return BUS if ":b:" in id_ else VEHICLE


def fill(store: Store, stored: dict[str, dict[str, list[Instance]]]) -> None:
    store._writer.execute("DELETE FROM instances")
    store._writer.execute("DELETE FROM temporal_entities")
    write(store, *(AddInstances(id_, (type_of(id_),), named, NOW) for id_, named in stored.items()))


def matches(id_: str, named: dict[str, list[Instance]], query: EntityQuery, temporal: TemporalQuery) -> bool:
    window = TemporalQuery(timeproperty=temporal.timeproperty, from_us=temporal.from_us, until_us=temporal.until_us)
    shown = {
        name: [one for dataset in (None, "urn:d", "urn:e") for one in plainly(instances, window, dataset)]
        for name, instances in named.items()
    }
    shown = {name: instances for name, instances in shown.items() if instances}
    asked = [
        one
        for name, instances in shown.items()
        for one in instances
        if (not query.attrs or name in query.attrs)
        and (not query.dataset_ids or one.get("datasetId", "@none") in query.dataset_ids)
    ]
    if not asked:
        return False
    selected = not query.selectors or any(
        (not s.types or (type_of(id_),) in s.types)
        and (not s.ids or id_ in s.ids)
        and (s.id_pattern is None or id_.endswith(s.id_pattern[:-1]))
        for s in query.selectors
    )
    return selected and compile_q(query.q).matches(shown | {"type": [type_of(id_)], "id": id_})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300)
@given(stored_entities, queries, temporal_queries())
def test_entities_are_found_as_a_plain_filter_finds_them(
    store: Store, stored: dict[str, dict[str, list[Instance]]], query: EntityQuery, temporal: TemporalQuery
) -> None:
    fill(store, stored)
    expected = sorted(id_ for id_, named in stored.items() if matches(id_, named, query, temporal))
    if query.order_by:
        expected.reverse()
    result = found(store, query, temporal)
    assert result.ids == expected[query.offset : query.offset + query.limit]
    assert result.count == (len(expected) if query.count else None)


def test_places_are_asked_within_the_window(store: Store) -> None:
    here, there = ({"type": "Point", "coordinates": place} for place in ([2.0, 48.0], [10.0, 50.0]))
    rows = {PLACE: [instance(here, 1, kind="GeoProperty"), instance(there, 10, kind="GeoProperty")]}
    write(store, AddInstances("urn:a", (VEHICLE,), rows, NOW))
    query = EntityQuery(geo=GeoQuery("near", "Point", [2.0, 48.0], PLACE, max_distance_m=1000.0))
    for until, expected in ((5, ["urn:a"]), (20, ["urn:a"])):
        window = TemporalQuery(timeproperty="observedAt", until_us=us(until))
        assert found(store, query, window).ids == expected
    window = TemporalQuery(timeproperty="observedAt", from_us=us(5))
    assert found(store, query, window).ids == []


# --- pages and aggregates -----------------------------------------------------------------------------------------------


def test_a_page_is_cut_for_all_attributes_where_the_first_one_ends(store: Store) -> None:
    rows = {SPEED: [instance(n, n) for n in range(10)], FUEL: [instance(n, n) for n in range(20, 30)]}
    write(store, AddInstances("urn:a", (VEHICLE,), rows, NOW))
    page = evolution(store, "urn:a", most=5)
    assert page.is_partial
    assert (values(page), values(page, FUEL)) == ([0, 1, 2, 3, 4], [])
    assert {series.attribute for series in page.evolutions[0].series} == {SPEED, FUEL}
    page = evolution(store, "urn:a", TemporalQuery(last_n=7), most=5)
    assert (values(page), values(page, FUEL)) == ([], [25, 26, 27, 28, 29])
    assert not evolution(store, "urn:a", TemporalQuery(last_n=4), most=5).is_partial


def test_all_instances_of_one_moment_are_on_one_page(store: Store) -> None:
    write(store, AddInstances("urn:a", (VEHICLE,), {SPEED: [instance(n) for n in range(6)]}, NOW))
    page = evolution(store, "urn:a", most=2)
    assert page.is_partial
    assert values(page) == [0, 1, 2, 3, 4, 5]


def test_aggregates(store: Store) -> None:
    rows = {
        SPEED: [instance(v, m) for v, m in ((120, 3), (80, 5), (100, 7))],
        FUEL: [instance(v, m) for v, m in ((67, 3), (53, 65))],
    }
    write(store, AddInstances("urn:a", (VEHICLE,), rows, NOW))
    hourly = TemporalQuery(aggregation=Aggregation(("avg", "max"), Duration(0, 3_600_000_000)), format="aggregatedValues")
    page = evolution(store, "urn:a", hourly, most=2)
    assert not page.is_partial
    found = {series.attribute: series.aggregates for series in page.evolutions[0].series}
    assert [(value, period.start_us) for value, period in (found[SPEED] or {})["avg"]] == [(100.0, us(3))]
    assert [(value, period.start_us) for value, period in (found[FUEL] or {})["max"]] == [(67.0, us(3)), (53.0, us(63))]
    whole = TemporalQuery(aggregation=Aggregation(("totalCount",)), until_us=us(60), last_n=2, timeproperty="observedAt")
    (speed, fuel) = sorted(evolution(store, "urn:a", whole).evolutions[0].series, key=lambda s: s.attribute == FUEL)
    assert [(value, period.end_us) for value, period in (speed.aggregates or {})["totalCount"]] == [(2, us(60))]
    assert [value for value, _ in (fuel.aggregates or {})["totalCount"]] == [1]


SERIES = f"""SELECT {{}} FROM history WHERE entity = 'a' AND attribute = 'b' AND dataset IS NULL
    AND observed_us IS NOT NULL AND deleted_us IS NULL AND {BY_DEFAULT} >= 5 ORDER BY {BY_DEFAULT} DESC, seq DESC LIMIT 3"""


def plan(connection: sqlite3.Connection, statement: str, values: Sequence[Any] = ()) -> list[str]:
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]


@pytest.mark.parametrize("made", [None, WholeSearcher, SeeingSearcher, SeeingWholeSearcher])
def test_reading_a_series_uses_the_index_in_order_of_time(store: Store, made: type[Searcher] | None) -> None:
    connection = open_reader(store.path)
    if made is not None:
        connection = made(connection, 1_000).connection
    is_whole = made in (WholeSearcher, SeeingWholeSearcher)  # what lies beside is few, and is sorted among the others
    steps = plan(connection, SERIES.format("seq, instance_id, instance"))
    assert any("instances_by_time (life=? AND name=? AND dataset=? AND <expr>>?)" in step for step in steps)
    assert is_whole or not any("TEMP B-TREE" in step for step in steps)
    for statement in (
        "SELECT 1 FROM temporal_entities AS e WHERE EXISTS (SELECT 1 FROM history WHERE entity = e.id AND attribute = 'b')",
        "SELECT 1 FROM temporal_entities AS e WHERE EXISTS (SELECT 1 FROM history WHERE entity = e.id AND attribute <> 'b')",
        "SELECT instance FROM history WHERE entity = 'a' AND attribute = 'b' AND instance_id = 'c'",
        "SELECT dataset FROM history WHERE entity = 'a' AND attribute = 'b' AND dataset > '' ORDER BY dataset LIMIT 1",
    ):
        steps = plan(connection, statement)
        assert any("instances_by_time (life=?" in step for step in steps)
        assert not any("TEMP B-TREE" in step or "AUTOMATIC" in step or step.startswith("SCAN i") for step in steps)
    connection.close()


def test_reading_the_log_does_not_look_for_the_entities_of_rows(store: Store) -> None:
    for wanted in (Records(), Records(past=True), Records(attributes=(SPEED, FUEL), places=True)):
        steps = plan(store.reader, *_statement(0, 10, 10, wanted, {}))
        assert any(step.startswith("SEARCH i USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)") for step in steps)
        assert not any(step.startswith(("SEARCH e", "SCAN")) and "subquery" not in step for step in steps)


def test_an_answer_shows_as_many_instances_as_were_asked_for() -> None:
    few = Instances(20, 1_000)
    assert [few.shown(last_n) for last_n in (None, 5, 20, 50, 5_000)] == [20, 20, 20, 50, 1_000]
