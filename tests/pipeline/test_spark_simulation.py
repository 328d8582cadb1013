"""The simulation on Spark says what the exact one says, count by count: of the authors' run, and where messages race."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.model import Circle, InvalidInput, Location, Notification, Selector, Subscription
from hanse.pipeline.simulation import (
    STRATEGIES,
    FieldMap,
    SparkSimulation,
    hiking_tables,
    tables_of_actions,
    tables_of_recording,
)
from hanse.pipeline.simulation.hikers import CLIENTS_A_BLOCK, LOCATION, PUBLICATION, SUBSCRIPTION, Hike
from hanse.routing import Federation, Node, Settings
from hanse.routing import messages as m
from hanse.routing.federation import both_ways
from hanse.simulation.actions import Action
from hanse.simulation.engine import Simulator
from hanse.simulation.replay import AUTHORS_NAMES, Recording, read_recording
from hanse.simulation.run import Distribution, Result, result_of, run, settings_for
from hanse.simulation.topologies import topology
from hanse.simulation.workloads import Fields, Workload, workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDED = Path(__file__).parents[1] / "data" / "disgb-1k"
EXPECTED: dict[str, Any] = json.loads((RECORDED / "expected.json").read_text())["strategies"]
CLASSES = {
    "Locate": "CLocationUpdate",
    "Subscribe": "CSubscriptionUpdate",
    "Publish": "CEventMatching",
    "ClientLocation": "BLocationUpdate",
    "PutSubscription": "BSubscriptionUpdate",
    "Event": "BEventMatching",
    "Delivery": "BEventDelivery",
}


def alike(ours: Result, exact: Result) -> None:
    """Equal in all; standard deviations to twelve digits, since they are summed up in another order."""
    for name in exact.__struct_fields__:
        mine, theirs = getattr(ours, name), getattr(exact, name)
        if isinstance(theirs, Distribution):
            assert mine.sd == (None if theirs.sd is None else pytest.approx(theirs.sd, rel=1e-11)), name
            mine, theirs = (msgspec.structs.replace(each, sd=None) for each in (mine, theirs))
        assert mine == theirs, name


# --- the authors' run -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recording() -> Recording:
    return read_recording(RECORDED)


@pytest.fixture(scope="module")
def replayed(spark: SparkSession, recording: Recording) -> Iterator[SparkSimulation]:
    with SparkSimulation(spark, tables_of_recording(spark, recording)) as simulation:
        yield simulation


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_it_is_the_authors_run(replayed: SparkSimulation, recording: Recording, strategy: str) -> None:
    simulator = recording.simulator(strategy)
    result = replayed.run(simulator.settings, simulator.latencies)
    theirs = EXPECTED[AUTHORS_NAMES[strategy]]
    counts = {CLASSES[name]: count for name, count in (result.requests | result.messages).items()}
    assert counts | {"CEventDelivery": result.deliveries} == theirs["message_counts"]
    assert result.between_brokers == theirs["broker_to_broker_messages"]
    latency, delay = theirs["event_delivery_latency_ms"], theirs["subscription_update_delay_ms"]
    assert result.latency_ms.mean == pytest.approx(latency["mean"], rel=1e-12)
    assert result.latency_ms.sd == pytest.approx(latency["sd"], rel=1e-9)
    assert result.latency_ms.max == latency["max"]
    if delay["mean"] is not None:
        assert result.subscription_delay_ms.mean == pytest.approx(delay["mean_corrected"], rel=1e-12)
    assert result.ended_at_ms == theirs["last_processed_tick_ms"]


def test_deliveries_take_as_long_as_the_authors_one_by_one(replayed: SparkSimulation, recording: Recording) -> None:
    for strategy in ("dht", "grid-quorum"):
        simulator = recording.simulator(strategy)
        result = replayed.run(simulator.settings, simulator.latencies)
        with gzip.open(RECORDED / f"deliveries_{AUTHORS_NAMES[strategy]}.csv.gz", "rt", newline="") as file:
            times = sorted(int(row["delivery_tick_ms"]) - int(row["event_tick_ms"]) for row in csv.DictReader(file))
        n = len(times)
        told = (result.latency_ms.p50, result.latency_ms.p95, result.latency_ms.p99)
        assert told == tuple(times[int(part * n)] for part in (0.5, 0.95, 0.99))


# --- races: everything happens within seconds, so that messages overtake each other everywhere ---------------------------


NODES = 10  # a grid with a shorter last row
RADII = (2.0, 10.0, 40.0)


def racing(seed: int, federation: Federation, *, clients: int = 150, actions_each: int = 16, within_ms: int = 4_000) -> Workload:
    random = Random(seed)
    fields = Fields(federation)
    actions: list[Action] = []
    for i in range(clients):
        node, client = random.choice(federation.ids), f"c{i}"
        times = sorted(random.sample(range(1, within_ms), actions_each))
        times[3] = times[2]  # two in the same millisecond
        published: set[int] = set()
        for at in times:
            place = fields.draw(node, random)
            circle = Circle(place.lat, place.lon, random.choice(RADII))
            topic = random.choice(("road", "text"))
            what = random.random()
            if what < 0.3:
                actions.append(Action(at, node, client, m.Locate(client, place)))
            elif what < 0.7 or at in published:
                asked = Subscription(id=topic, client=client, selectors=(Selector(topic=topic),), geofence=circle)
                actions.append(Action(at, node, client, m.Subscribe(asked)))
            else:
                published.add(at)
                said = Notification(
                    id=f"{client}@{at}", publisher=client, topic=topic, location=place, geofence=circle, published_at_ms=at
                )
                actions.append(Action(at, node, client, m.Publish(said)))
    actions.sort(key=lambda action: action.at_ms)
    return Workload("racing", federation, actions)


@pytest.mark.long
def test_it_agrees_with_the_exact_simulator_where_messages_race(spark: SparkSession) -> None:
    work = racing(3, topology("cities", nodes=NODES, seed=3))
    with SparkSimulation(spark, tables_of_actions(spark, work.federation, work.actions)) as simulation:
        delivered = set()
        for strategy in STRATEGIES:
            exact = run(work, strategy)
            settings = settings_for(strategy, work.federation)
            alike(simulation.run(settings, Simulator(settings).latencies), exact)
            delivered.add(exact.deliveries)
        assert min(delivered) > 500
        assert len(delivered) > 3, "the strategies race to different ends"


def test_it_agrees_where_brokers_match_with_the_publishers_place_that_they_know(spark: SparkSession) -> None:
    # each in a group of its own, and the cloud much further away than they are from each other
    places = {"Perth": Location(-31.95, 115.86), "Auckland": Location(-36.85, 174.76), "Suva": Location(-18.14, 178.44)}
    nodes = tuple(Node(name, place, clients=1) for name, place in places.items())
    work = racing(4, Federation(nodes, both_ways(list(combinations(places, 2)))), clients=60)
    requests = [(action.at_ms, action.node, action.do) for action in work.actions]
    tables = tables_of_recording(spark, Recording(work.federation.nodes, {}, {}, (), None, requests))
    with SparkSimulation(spark, tables) as simulation:
        for strategy in ("grid-quorum", "broadcast-groups"):
            settings = settings_for(strategy, work.federation, flood_locations=True, match_known_locations=True)
            exact = Simulator(settings)
            exact.watch_brokers = True
            for at_ms, node, request in requests:
                exact.request(at_ms, node, request)
            exact.run()
            alike(simulation.run(settings, exact.latencies), result_of(exact))


# --- the parts --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cities() -> Settings:
    return Settings("geo-publisher", topology("cities", nodes=25, seed=1, clients=3_000))


@given(
    st.lists(
        st.tuples(st.floats(-90, 90), st.floats(-180, 180), st.one_of(st.floats(0, 30), st.sampled_from((0.0, 90.0, 180.0)))),
        min_size=1,
        max_size=20,
    )
)
def test_circles_touch_the_areas_that_routing_says(cities: Settings, circles: list[tuple[float, float, float]]) -> None:
    fields = FieldMap.of(cities)
    lat, lon, radius = (np.array(each) for each in zip(*circles, strict=True))
    ids = cities.federation.ids
    found = [tuple(ids[i] for i in brokers) for brokers in fields.touched(lat, lon, radius)]
    assert found == [cities.areas.touched(Circle(*circle)) for circle in circles]
    assert [ids[i] for i in fields.owners(lat, lon)] == [cities.areas.owner(*circle[:2]) for circle in circles]


def test_many_hikers_do_what_the_exact_hikers_do(cities: Settings) -> None:
    federation, clients = cities.federation, 3_000
    fields = FieldMap.of(cities)
    counts = tuple(node.clients for node in federation.nodes)
    hike = Hike(fields, counts, 900_000, seed=5)
    rows = [row for batch in hike.block(0) for row in batch.to_pylist()]
    assert rows == [row for batch in hike.block(0) for row in batch.to_pylist()]
    exact = workload("hiking", federation, clients=clients, duration_s=900, seed=5)
    kinds = Counter(row["kind"] for row in rows)
    wanted = Counter(type(action.do) for action in exact.actions)
    for kind, request in ((LOCATION, m.Locate), (SUBSCRIPTION, m.Subscribe), (PUBLICATION, m.Publish)):
        assert kinds[kind] == pytest.approx(wanted[request], rel=0.03)
    assert [Counter(row["home"] for row in rows if row["seq"] == 0)[i] for i in range(25)] == list(counts)
    places = np.array([(row["lat"], row["lon"]) for row in rows])
    assert (fields.owners(places[:, 0], places[:, 1]) == [row["home"] for row in rows]).all()
    times = [row["at"] for row in rows if row["kind"] == PUBLICATION]
    exact_times = [action.at_ms for action in exact.actions if isinstance(action.do, m.Publish)]
    for part in (10, 25, 50, 75, 90):
        assert np.percentile(times, part) == pytest.approx(np.percentile(exact_times, part), rel=0.04)
    asked: dict[int, set[int]] = {}
    for row in rows:
        if row["kind"] == SUBSCRIPTION:
            asked.setdefault(row["client"], set()).add(row["topic"])
        if row["kind"] == PUBLICATION:
            assert row["topic"] in asked[row["client"]]
    assert {len(topics) for topics in asked.values()} == {5}


def test_hikers_are_the_same_however_many_blocks_there_are(cities: Settings) -> None:
    fields = FieldMap.of(cities)
    few = Hike(fields, (CLIENTS_A_BLOCK, 0), 20_000, seed=1)
    many = Hike(fields, (CLIENTS_A_BLOCK, 50), 20_000, seed=1)
    assert (few.blocks, many.blocks) == (1, 2)
    assert next(few.block(0)).equals(next(many.block(0)))
    assert not next(few.block(0)).slice(0, 50).equals(next(many.block(1)))


def test_hikers_as_tables_agree_with_the_exact_simulator(spark: SparkSession, cities: Settings, tmp_path: Path) -> None:
    """The tables of many hikers, told to real brokers as requests."""
    federation = topology("cities", nodes=5, seed=2, clients=400)
    settings = Settings("geo-publisher", federation, flood_locations=True)
    tables = hiking_tables(spark, federation, FieldMap.of(settings), clients=400, duration_s=300, seed=2, folder=tmp_path)
    ids = federation.ids
    actions = [Action(0, ids[home], f"c{client}", m.Attach(f"c{client}")) for client, home in _clients(tables.locations)]
    for row in tables.locations.collect():
        client = f"c{row.client}"
        actions.append(Action(row.at, ids[row.home], client, m.Locate(client, Location(row.lat, row.lon))))
    for row in tables.subscriptions.collect():
        client, topic = f"c{row.client}", tables.topics[row.topic]
        circle = Circle(row.lat, row.lon, row.radius)
        asked = Subscription(id=topic, client=client, selectors=(Selector(topic=topic),), geofence=circle)
        actions.append(Action(row.at, ids[row.home], client, m.Subscribe(asked)))
    for row in tables.publications.collect():
        client = f"c{row.client}"
        said = Notification(
            id=f"e{row.id}",
            publisher=client,
            topic=tables.topics[row.topic],
            location=Location(row.here_lat, row.here_lon),
            geofence=Circle(row.lat, row.lon, row.radius),
            published_at_ms=row.at,
        )
        actions.append(Action(row.at, ids[row.home], client, m.Publish(said)))
    actions.sort(key=lambda action: action.at_ms)
    exact = run(Workload("hiking", federation, actions), "geo-publisher", flood_locations=True)
    with SparkSimulation(spark, tables) as simulation:
        alike(simulation.run(settings, Simulator(settings).latencies), exact)


def _clients(locations: Any) -> list[tuple[int, int]]:
    return [(row.client, row.home) for row in locations.select("client", "home").distinct().collect()]


# --- what it cannot do, in one line -----------------------------------------------------------------------------------


def test_what_it_cannot_compute_is_refused(spark: SparkSession, replayed: SparkSimulation, recording: Recording) -> None:
    settings = recording.simulator("flood-events").settings
    with pytest.raises(InvalidInput, match="needs flooded locations"):
        replayed.run(msgspec.structs.replace(settings, flood_locations=False), recording.latencies)
    ring = Settings("flood-events", topology("ring", nodes=5), flood_locations=True)
    with pytest.raises(InvalidInput, match="take topology cities or mesh"):
        replayed.run(ring, {})
    with pytest.raises(InvalidInput, match="no strategy 'scoped'"):
        replayed.run(msgspec.structs.replace(settings, strategy="scoped"), recording.latencies)
    port = workload("environmental", topology("mesh", nodes=3, clients=20), clients=20, duration_s=20)
    with pytest.raises(InvalidInput, match="take workload hiking"):
        tables_of_actions(spark, port.federation, port.actions)
