"""One meaning: a node whose history was cut, with a lake, answers as one that has kept all of it."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.node.access.test_seen_meaning import POLICIES
from tests.node.access.town import KEY
from tests.node.laking import Writes, cut, land, records
from tests.node.older import VERSION_6
from tests.serving import serving, settings_with

import hanse
from hanse.model import InvalidInput
from hanse.ngsild import operations
from hanse.ngsild.contexts import CORE
from hanse.ngsild.errors import NgsiLdError, ResourceNotFound, TooComplexQuery, TooManyPending
from hanse.ngsild.geo import parse_geo_query
from hanse.ngsild.parameters import expand_q
from hanse.ngsild.parsing import parse_entity, parse_fragment
from hanse.ngsild.query import EntityQuery, EntitySelector
from hanse.ngsild.representation import View
from hanse.ngsild.temporal import SCOPE, Page
from hanse.ngsild.temporal_parsing import TemporalQuery, parse_temporal, to_us
from hanse.node.access.access import Access
from hanse.node.access.errors import Forbidden
from hanse.node.history import History
from hanse.node.lake import Lake, catalogue
from hanse.node.lake.lake import QUESTIONS_MAX
from hanse.node.settings import NodeSettings
from hanse.node.store import SaveChange, Store
from hanse.node.store.history import Instances
from hanse.node.store.removed import floor
from hanse.node.store.times import now_us
from hanse.node.store.upkeep import Upkeep
from hanse.node.tenant import Tenant
from hanse.pipeline.lake_files import Table
from hanse.policies import Principal

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
IDS = ("urn:1", "urn:2", "urn:3")
NAMES = ("a", "b")
DATASETS = (None, "urn:d")
A, B, PLACE = CORE.expand_term("a"), CORE.expand_term("b"), "https://uri.etsi.org/ngsi-ld/location"
NEAR = parse_geo_query({"georel": "near;maxDistance==900", "geometry": "Point", "coordinates": "[2.35,48.85]"}, CORE)
FEW = Instances(3, 5)
STEP_H = 3


def at(step: float) -> str:
    return (BEGIN + timedelta(hours=STEP_H * step)).isoformat(timespec="microseconds")[:-6] + "Z"


def us(step: float) -> int:
    moment = to_us(at(step))
    assert moment is not None
    return moment


# --- what happens to a node ---------------------------------------------------------------------------------------------


steps = st.one_of(
    st.tuples(
        st.just("put"), st.sampled_from(IDS), st.sampled_from(NAMES), st.sampled_from(DATASETS), st.integers(0, 9),
        st.sampled_from([None, 0, -2, -7, 30]),
    ),
    st.tuples(st.just("place"), st.sampled_from(IDS), st.sampled_from([[2.35, 48.85], [2.5, 48.9]])),
    st.tuples(st.just("drop"), st.sampled_from(IDS), st.sampled_from(NAMES), st.sampled_from(DATASETS), st.booleans()),
    st.tuples(st.just("delete"), st.sampled_from(IDS)),
    st.tuples(st.just("retype"), st.sampled_from(IDS)),
    st.tuples(st.just("scope"), st.sampled_from(IDS), st.sampled_from([[], ["/x"], ["/x/y", "/z"]])),
)  # fmt: skip


async def do(store: Store, number: int, step: tuple[Any, ...]) -> None:
    now, (what, id_, *more) = at(number), step
    old = store.latest(id_)
    said: dict[str, Any] = {}
    if what == "put":
        name, dataset, value, ago = more
        said[name] = {"type": "Property", "value": value, "precision": {"type": "Property", "value": 10 * value}}
        said[name] |= {} if dataset is None else {"datasetId": dataset}
        said[name] |= {} if ago is None else {"observedAt": at(number + ago)}
    elif what == "place":
        said["location"] = {"type": "GeoProperty", "value": {"type": "Point", "coordinates": more[0]}}
    elif what == "scope":
        said["scope"] = more[0]
    if old is None:
        if what in ("put", "place"):
            entity = parse_entity({"id": id_, "type": "Car" if id_ == "urn:3" else "Room"} | said, CORE, now)
            await store.submit(SaveChange(operations.create(entity, now), "create"))
        return
    change = None
    if what == "delete":
        change = operations.delete(old, now)
    elif what == "drop":
        name, dataset, every = more
        if CORE.expand_term(name) in old.attributes:
            try:
                change = operations.delete_attribute(old, CORE.expand_term(name), dataset, every, now).change
            except ResourceNotFound:
                return
    else:
        said |= {"type": "Hall"} if what == "retype" else {}
        if what == "scope" and not more[0]:
            change = operations.delete_attribute(old, SCOPE, None, True, now).change if old.scopes else None
        else:
            change = operations.append(old, parse_fragment(said, CORE, now), now).change
    if change is not None:
        await store.submit(SaveChange(change, "update"))


# --- what is asked ------------------------------------------------------------------------------------------------------

moments = st.integers(-2, 45)
windows: st.SearchStrategy[dict[str, str]] = st.one_of(
    st.just({}),
    st.builds(lambda step: {"timerel": "before", "timeAt": at(step)}, moments),
    st.builds(lambda step: {"timerel": "after", "timeAt": at(step)}, moments),
    st.builds(
        lambda step, more: {"timerel": "between", "timeAt": at(step), "endTimeAt": at(step + more)}, moments, st.integers(1, 20)
    ),
)
properties = st.sampled_from([None, "observedAt", "createdAt", "modifiedAt", "deletedAt"])
forms = st.sampled_from(
    [
        {},
        {"options": "sysAttrs"},
        {"options": "aggregatedValues", "aggrMethods": "totalCount,distinctCount,sum,avg,min,max,stddev,sumsq"},
        {"options": "aggregatedValues", "aggrMethods": "max,avg", "aggrPeriodDuration": "PT10H"},
    ]
)


@st.composite
def temporals(draw: st.DrawFn) -> TemporalQuery:
    params = draw(windows) | draw(forms)
    if "timerel" in params and (named := draw(properties)) is not None:
        params = params | {"timeproperty": named}
    if (last := draw(st.sampled_from([None, 1, 2, 4, 50]))) is not None:
        params = params | {"lastN": str(last)}
    return parse_temporal(params)


queries = st.builds(
    EntityQuery,
    selectors=st.sampled_from(
        [
            (),
            (EntitySelector(types=((CORE.expand_type("Room"),),)),),
            (EntitySelector(types=((CORE.expand_type("Hall"),),)), EntitySelector(ids=("urn:3",))),
            (EntitySelector(id_pattern="[12]$"),),
        ]
    ),
    attrs=st.sampled_from([(), (A,), (PLACE, B)]),
    q=st.sampled_from([expand_q(q, CORE) for q in ("", "", "a>4", "!a", "a==2|b<3", "a.precision>=50")]),
    geo=st.sampled_from([None, None, NEAR]),
    scope_q=st.sampled_from(["", "", "/x", "/x/#"]),
    quality=st.sampled_from(["", "", "", f"{A}.precision>=50", "precision>=30", f"{B}.freshness<=30000"]),
    dataset_ids=st.sampled_from([(), ("@none",), ("urn:d",)]),
    limit=st.sampled_from([1, 20]),
    offset=st.sampled_from([0, 1]),
    count=st.booleans(),
)
views = st.sampled_from([View(), View(attrs=(A,)), View(dataset_ids=("urn:d",)), View(omit=(B, "scope"))])


async def answers(store: Store, asked: list[tuple[EntityQuery, TemporalQuery, View]]) -> list[Any]:
    history, found = History(store, FEW), list[Any]()
    for query, temporal, view in asked:
        for id_ in IDS:
            try:
                found.append(await history.retrieve(id_, temporal, view))
            except NgsiLdError as error:
                found.append(type(error))
        try:
            found.append(await history.query(query, temporal, view))
            found.append(await history.ids(query, temporal))
        except NgsiLdError as error:
            found.append(type(error))
    return found


class Case(msgspec.Struct):
    """A store that has everything, one that was cut, and the lake."""

    folder: Path
    whole: Store
    part: Store
    lake: Lake

    async def close(self) -> None:
        self.lake.close()
        await self.whole.close()
        await self.part.close()


async def case(
    folder: Path,
    happened: list[tuple[Any, ...]],
    cut_at: float,
    landed_at: list[int],
    rows: int = 1_000_000,
    *,
    lags: bool = False,
) -> Case:
    """`lags`: the lake does not have what the node has itself."""
    whole = Store.open(folder / "whole")
    landed = 0
    for number, step in enumerate(happened):
        await do(whole, number, step)
        if number in landed_at:
            land(folder / "lake", records(whole, landed), number)
            landed = whole.log_end() - 1  # the last one comes again
    if not (lags and any(cut_at < number < len(happened) for number in landed_at)):
        land(folder / "lake", records(whole, landed), len(happened))
    return await beside(folder, whole, cut_at, rows)


async def beside(folder: Path, whole: Store, cut_at: float, rows: int = 1_000_000) -> Case:
    (folder / "part").mkdir()
    await whole.backup(folder / "part" / whole.path.name)
    part = Store.open(folder / "part")
    await cut(part, us(cut_at), rows)
    lake = Lake(settings_with(lake={"path": str(folder / "lake")}))
    await lake.start()
    await lake.serve(part, "")
    return Case(folder, whole, part, lake)


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(
    happened=st.lists(steps, min_size=1, max_size=40),
    cut_at=st.floats(0, 42),
    landed_at=st.lists(st.integers(0, 39), max_size=3),
    rows=st.sampled_from([1_000_000, 5]),
    is_compact=st.booleans(),
    lags=st.booleans(),
    asked=st.lists(st.tuples(queries, temporals(), views), min_size=4, max_size=8),
)
def test_a_history_that_was_cut_answers_as_the_whole_one(
    happened: list[tuple[Any, ...]],
    cut_at: float,
    landed_at: list[int],
    rows: int,
    is_compact: bool,
    lags: bool,
    asked: list[tuple[EntityQuery, TemporalQuery, View]],
) -> None:
    async def run() -> None:
        folder = Path(tempfile.mkdtemp())
        made = await case(folder, happened, cut_at, landed_at, rows, lags=lags)
        try:
            if is_compact and (folder / "lake").exists():
                Table(folder / "lake" / "raw").compact()
            assert await answers(made.part, asked) == await answers(made.whole, asked)
        finally:
            await made.close()
            shutil.rmtree(folder)

    asyncio.run(run())


# --- policies -----------------------------------------------------------------------------------------------------------


def with_policies(folder: Path, policies: str, store: Store) -> Store:
    """The store as somebody sees it."""
    (folder / "p.cedar").write_text(policies, encoding="utf-8")
    access = {"policies": str(folder / "p.cedar"), "key": KEY, "areas": {"centre": "CIRCLE (2.35 48.85, 0.01)"}}
    wanted = msgspec.convert({"access": access, "mqtt": {"embedded": False}}, NodeSettings)
    tenant = Tenant("", store, wanted, access=Access(wanted))
    assert tenant.access is not None
    return tenant.access.seen(tenant, Principal("someone")).store


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(
    policies=st.sampled_from(POLICIES),
    happened=st.lists(steps, min_size=5, max_size=30),
    cut_at=st.floats(0, 32),
    asked=st.lists(st.tuples(queries, temporals(), views), min_size=4, max_size=8),
)
def test_who_sees_a_part_sees_the_same_part_of_what_is_in_the_lake(
    policies: str, happened: list[tuple[Any, ...]], cut_at: float, asked: list[tuple[EntityQuery, TemporalQuery, View]]
) -> None:
    async def run() -> None:
        folder = Path(tempfile.mkdtemp())
        made = await case(folder, happened, cut_at, [])
        try:
            part, whole = (with_policies(folder, policies, store) for store in (made.part, made.whole))
            assert await answers(part, asked) == await answers(whole, asked)
        finally:
            await made.close()
            shutil.rmtree(folder)

    asyncio.run(run())


def test_who_may_not_publish_what_only_the_lake_has_does_not_remove_it(tmp_path: Path) -> None:
    async def run() -> None:
        made = await case(tmp_path, [put("urn:1", 1), put("urn:1", 2), put("urn:1", 3, None, "b")], 1.5, [])
        seen = with_policies(tmp_path, POLICIES[2], made.part)  # everything but a
        with pytest.raises(Forbidden, match="/a of urn:1"):
            await History(seen).remove("urn:1")
        await made.close()

    asyncio.run(run())


# --- one by one ---------------------------------------------------------------------------------------------------------


def put(id_: str, value: int, ago: int | None = None, name: str = "a", dataset: str | None = None) -> tuple[Any, ...]:
    return "put", id_, name, dataset, value, ago


def values(page: Page, attribute: str = A) -> list[Any]:
    return [one["value"] for series in page.evolutions[0].series if series.attribute == attribute for one in series.instances]


EVER = TemporalQuery()


def test_what_the_history_has_lost_is_in_the_answer_again(tmp_path: Path) -> None:
    async def run() -> None:
        made = await case(tmp_path, [put("urn:1", value, 0) for value in range(10)], 5, [3])
        history = History(made.part)
        assert values(await history.retrieve("urn:1", EVER, View())) == list(range(10))
        made.part.lake = None
        assert values(await history.retrieve("urn:1", EVER, View())) == [5, 6, 7, 8, 9]
        await made.close()

    asyncio.run(run())


def test_what_was_removed_or_changed_on_purpose_does_not_come_back(tmp_path: Path) -> None:
    async def run() -> None:
        whole = Store.open(tmp_path / "whole")
        for number in range(8):
            await do(whole, number, put("urn:1", number, 0))
            await do(whole, number, put("urn:1", number, 0, "b", "urn:d"))
            await do(whole, number, put("urn:2", number, 0))
        land(tmp_path / "lake", records(whole), 0)
        history = History(whole)
        first, second, *_ = (await history.retrieve("urn:1", EVER, View())).evolutions[0].series[0].instances
        now = at(100)
        await history.remove_instance("urn:1", A, first["instanceId"])
        await history.change_instance("urn:1", A, second["instanceId"], {"value": 77}, now)
        await history.add_attributes("urn:1", (), {A: [{"type": "Property", "value": 99, "observedAt": at(2)}]}, now)
        await history.remove_attribute("urn:1", B, every=True)
        await do(whole, 8, put("urn:1", 8, 0, "b", "urn:d"))
        await history.remove("urn:2")
        await history.add("urn:2", (CORE.expand_type("Room"),), {A: [{"type": "Property", "value": 1}]}, now)
        made = await beside(tmp_path, whole, 6)
        for store in (made.whole, made.part):
            page = await History(store).retrieve("urn:1", EVER, View())
            assert values(page) == [77, 99, 3, 4, 5, 6, 7]
            assert values(page, B) == [8]
            assert values(await History(store).retrieve("urn:2", EVER, View())) == [1]
        await made.close()

    asyncio.run(run())


def test_an_entity_that_began_anew_has_nothing_of_the_one_before(tmp_path: Path) -> None:
    async def run() -> None:
        whole = Store.open(tmp_path / "whole")
        for number, step in [
            (0, put("urn:1", 0)), (1, put("urn:1", 1)), (2, put("urn:1", 2)), (2, ("delete", "urn:1")),
            (2, put("urn:1", 3)), (2, put("urn:1", 4)), (3, put("urn:1", 5)), (5, put("urn:1", 6)),
        ]:  # fmt: skip
            await do(whole, number, step)  # a life ends and another begins in the same microsecond
        land(tmp_path / "lake", records(whole), 0)
        made = await beside(tmp_path, whole, 4)
        for store in (made.whole, made.part):
            assert values(await History(store).retrieve("urn:1", EVER, View())) == [3, 4, 5, 6]
        await made.close()

    asyncio.run(run())


def test_a_question_reads_the_files_that_may_have_something_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        happened = [put(id_, 1, 0) for _ in range(30) for id_ in ("urn:1", "urn:3")]
        made = await case(tmp_path, happened, 59, [])
        read: list[str] = []
        records_of = made.lake._catalogue.records

        def noted(groups: Any, *more: Any) -> Any:
            assert threading.current_thread().name.startswith("hanse-lake")  # nobody else waits for it
            read.extend(str(Path(group.path).parent.relative_to(tmp_path / "lake" / "raw" / "incoming")) for group in groups)
            return records_of(groups, *more)

        monkeypatch.setattr(made.lake._catalogue, "records", noted)
        day = {"timerel": "between", "timeAt": "2026-03-03T00:00:00Z", "endTimeAt": "2026-03-04T00:00:00Z"}
        await History(made.part).retrieve("urn:3", parse_temporal(day), View())
        assert read == ["date=2026-03-03/type=Car"]
        read.clear()
        rooms = EntityQuery(selectors=(EntitySelector(types=((CORE.expand_type("Room"),),)),))
        await History(made.part).query(rooms, parse_temporal(day | {"timeproperty": "modifiedAt"}), View())
        assert read == ["date=2026-03-03/type=Room"]
        read.clear()
        await History(made.part).query(rooms, parse_temporal({"timerel": "after", "timeAt": at(59.5)}), View())
        assert read == []  # the node has it itself
        await made.close()

    asyncio.run(run())


@pytest.mark.parametrize("bound", ["records_max", "instances_max"])
def test_what_one_question_may_read_is_bounded(tmp_path: Path, bound: str) -> None:
    async def run() -> None:
        made = await case(tmp_path, [put("urn:1", value, 0) for value in range(30)], 25, [])
        made.lake._settings = msgspec.structs.replace(made.lake._settings, **{bound: 10})
        history, view = History(made.part), View()
        every = parse_temporal({"options": "aggregatedValues", "aggrMethods": "max"})
        with pytest.raises(TooComplexQuery, match="ask for less time"):
            await history.retrieve("urn:1", every, view)
        day = parse_temporal({"timerel": "between", "timeAt": at(3), "endTimeAt": at(6)})
        assert values(await history.retrieve("urn:1", day, view)) == [3, 4, 5]
        made.lake._questions = QUESTIONS_MAX
        with pytest.raises(TooManyPending, match="ask for less time"):
            await history.retrieve("urn:1", day, view)
        await made.close()

    asyncio.run(run())


# --- lakes that are not as they should be ------------------------------------------------------------------------------------


async def started(folder: Path, store: Store, **more: Any) -> Lake:
    lake = Lake(settings_with(lake={"path": str(folder)} | more))
    await lake.start()
    await lake.serve(store, "")
    return lake


def test_a_lake_that_comes_later_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        monkeypatch.setattr(catalogue, "LOOK_AGAIN_S", 0.0)
        store = Store.open(tmp_path / "node")
        for number in range(6):
            await do(store, number, put("urn:1", number, 0))
        lake = await started(tmp_path / "lake", store)
        table = records(store)
        await cut(store, us(3))
        history = History(store)
        assert values(await history.retrieve("urn:1", EVER, View())) == [3, 4, 5]
        land(tmp_path / "lake", table.slice(0, 2), 0)
        assert values(await history.retrieve("urn:1", EVER, View())) == [0, 1, 3, 4, 5]
        land(tmp_path / "lake", table.slice(1), 1)
        assert values(await history.retrieve("urn:1", EVER, View())) == [0, 1, 2, 3, 4, 5]
        lake.close()
        await store.close()

    asyncio.run(run())


def test_a_file_that_is_damaged_costs_what_was_in_it(tmp_path: Path) -> None:
    async def run() -> None:
        happened = [put("urn:1", value, 0) for value in range(24)]
        whole = await case(tmp_path, happened, 20, [])
        await whole.close()
        days = sorted((tmp_path / "lake" / "raw" / "incoming").glob("date=*/*/*.parquet"))
        days[0].write_bytes(b"no Parquet")
        data = days[1].read_bytes()
        days[1].write_bytes(data[:4] + bytes(1000) + data[1004:])  # its footer is as it was
        store = Store.open(tmp_path / "part")
        lake = await started(tmp_path / "lake", store)
        wanted = parse_temporal({"timerel": "after", "timeAt": at(16)})
        assert values(await History(store).retrieve("urn:1", wanted, View())) == list(range(16, 24))
        assert values(await History(store).retrieve("urn:1", EVER, View())) == [20, 21, 22, 23]
        lake.close()
        await store.close()

    asyncio.run(run())


def test_a_lake_of_others_is_refused_or_left_alone(tmp_path: Path) -> None:
    async def run() -> None:
        store, other = Store.open(tmp_path / "node"), Store.open(None)
        for number in range(6):
            await do(store, number, put("urn:1", number, 0))
            await do(other, number, put("urn:2", number + 5, 0))
        land(tmp_path / "lake", records(other), 0)
        with pytest.raises(InvalidInput, match=r"record 6 of 'hanse' in .* is not this node's"):
            await started(tmp_path / "lake", store)
        with pytest.raises(InvalidInput, match="is not this node's"):
            await started(tmp_path / "lake", Store.open(None))
        land(tmp_path / "another", records(other, node="other"), 0)
        land(tmp_path / "another", records(other, tenant="b"), 1)
        lake = await started(tmp_path / "another", store)
        await cut(store, us(3))
        assert values(await History(store).retrieve("urn:1", EVER, View())) == [3, 4, 5]
        (tmp_path / "file").write_text("")
        with pytest.raises(InvalidInput, match=r"\[lake\] path: .* is no folder"):
            await started(tmp_path / "file", store)
        lake.close()
        await store.close()
        await other.close()

    asyncio.run(run())


def test_tenants_are_kept_apart(tmp_path: Path) -> None:
    async def run() -> None:
        stores = {name: Store.open(tmp_path / "node", name) for name in ("", "b")}
        lake = Lake(settings_with(lake={"path": str(tmp_path / "lake")}))
        for batch, (name, store) in enumerate(stores.items()):
            for number in range(6):
                await do(store, number, put("urn:1", number + 10 * batch, 0))
            land(tmp_path / "lake", records(store, tenant=name), batch)
            await cut(store, us(3))
        await lake.start()
        for batch, (name, store) in enumerate(stores.items()):
            await lake.serve(store, name)
            page = await History(store).retrieve("urn:1", EVER, View())
            assert values(page) == [number + 10 * batch for number in range(6)]
        other = Store.open(None)
        await lake.serve(other, "b")  # which it is not
        assert other.lake is None
        await other.close()
        lake.close()
        for store in stores.values():
            await store.close()

    asyncio.run(run())


def test_the_retention_leaves_scopes_and_goes_past_them(tmp_path: Path) -> None:
    async def run() -> None:
        store = Store.open(tmp_path / "node")
        for number in range(20):
            await do(store, number, ("scope", "urn:1", [f"/x{number}"]) if number % 2 else put("urn:1", number))
        upkeep = Upkeep(store._settings)
        upkeep._history_us = now_us() - us(30)
        for _ in range(20):
            await store.submit(Writes(lambda writer: upkeep._trim_history(writer, 2)))
        left = store.reader.execute("SELECT attribute, count(*) FROM history GROUP BY attribute").fetchall()
        assert left == [(SCOPE, 10)]
        found = floor(store.reader)
        assert found is not None
        assert found.latest_us == us(18)
        await store.close()

    asyncio.run(run())


def test_a_store_of_an_older_hanse_takes_what_it_lacks_for_removed(tmp_path: Path) -> None:
    async def run() -> None:
        store = Store.open(tmp_path)
        for number in range(3):
            await do(store, number, put("urn:1", number))
        await store.close()
        with closing(sqlite3.connect(store.path)) as older:
            older.executescript(
                VERSION_6
                + """DROP TABLE past_floor; DROP TABLE past_names; DROP TABLE past_removed; DROP TRIGGER temporal_entity_returns;
                DROP TABLE facts_by_value; DROP TABLE facts_filed; INSERT INTO facts SELECT * FROM facts_new;
                DROP TABLE facts_new; DROP TABLE facts_changed;
                CREATE INDEX facts_by_value ON facts(key, value, entity, type_set);
                PRAGMA user_version=2; DELETE FROM history WHERE seq = 1;"""
            )
        store = Store.open(tmp_path)
        found = floor(store.reader)
        assert found is not None
        assert us(3) < found.modified_us <= now_us()
        await do(store, 4, ("delete", "urn:1"))
        await do(store, 5, put("urn:1", 5))
        assert values(await History(store).retrieve("urn:1", EVER, View())) == [5]
        await store.close()

    asyncio.run(run())


# --- over HTTP ----------------------------------------------------------------------------------------------------------


def test_a_node_answers_from_its_lake(tmp_path: Path) -> None:
    async def fill() -> None:
        store = Store.open(tmp_path / "node")
        for number in range(12):
            await do(store, number, put("urn:1", number, 0))
        land(tmp_path / "lake", records(store, node="port"), 0)
        await cut(store, us(8))
        await store.close()

    asyncio.run(fill())
    given = {"store": {"data": str(tmp_path / "node")}, "lake": {"path": str(tmp_path / "lake"), "node": "port"}}
    with serving(settings_with(**given)) as url, hanse.connect_sync(url) as node:
        asked = "/ngsi-ld/v1/temporal/entities"
        span = {"timerel": "between", "timeAt": at(2), "endTimeAt": at(11)}
        answer = node.request("GET", f"{asked}/urn:1", params=span | {"options": "temporalValues"})
        assert [value for value, _ in answer.data["a"]["values"]] == list(range(2, 11))
        summed = {"options": "aggregatedValues", "aggrMethods": "sum", "type": "Room"}
        answer = node.request("GET", asked, params=span | summed)
        assert answer.data[0]["a"]["sum"][0][0] == sum(range(2, 11))
        body = {"type": "Query", "entities": [{"type": "Room"}], "temporalQ": {name: span[name] for name in span}}
        answer = node.request("POST", "/ngsi-ld/v1/temporal/entityOperations/query", json=body, params={"count": "true"})
        assert [one["value"] for one in answer.data[0]["a"]] == list(range(2, 11))
        assert "lake_questions" in str(node.request("GET", "/hanse/v1/bounds").data)
        logged = node.request("GET", "/hanse/v1/log", params={"past": "true", "after": "11"}).data
        assert logged[0]["attributes"][0]["id"].startswith("urn:ngsi-ld:Instance:")
