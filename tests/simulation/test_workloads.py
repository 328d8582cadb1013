"""Workloads do what their papers' clients did, in order of time, and are the same for a seed."""

from __future__ import annotations

from collections import Counter
from math import asin, degrees, sqrt
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.filters import compile_q, compile_quality
from hanse.model import (
    WORLD,
    Advertisement,
    Circle,
    InvalidInput,
    Location,
    Notification,
    Polygon,
    Subscription,
    World,
    half_chord_squared,
)
from hanse.routing.messages import Advertise, Attach, Detach, Locate, Publish, Subscribe, Unadvertise, Unsubscribe
from hanse.simulation.actions import Action
from hanse.simulation.topologies import hybrid, mesh, topology, transit_stub
from hanse.simulation.workloads import (
    EXPERIMENT_CIRCLES,
    TABLE_II,
    WORKLOADS,
    Fields,
    Workload,
    experiment_federation,
    workload,
)
from hanse.simulation.workloads.mudebs import combinations_of

if TYPE_CHECKING:
    from hanse.routing.federation import Federation

KNOWN = {"b1": {"place": ["port", "quay"], "role": ["crew"]}, "b4": {"role": ["crew", "guest"]}}
OPTIONS: dict[str, dict[str, Any]] = {"mudebs": {"known": KNOWN}, "random": {"known": KNOWN}}
DISGB = ("environmental", "hiking", "context")


def made(name: str, federation: Federation | None = None, **asked: Any) -> Workload:
    return workload(
        name, federation or hybrid(), **{"clients": 30, "duration_s": 120, "seed": 7, **OPTIONS.get(name, {}), **asked}
    )


def attachments(load: Workload) -> list[Attach]:
    return [action.do for action in load.actions if isinstance(action.do, Attach)]


def advertisements(load: Workload) -> list[Advertisement]:
    return [action.do.advertisement for action in load.actions if isinstance(action.do, Advertise)]


def subscriptions(load: Workload) -> list[Subscription]:
    return [action.do.subscription for action in load.actions if isinstance(action.do, Subscribe)]


def notifications(load: Workload) -> list[Notification]:
    return [action.do.notification for action in load.actions if isinstance(action.do, Publish)]


def nodes_of(load: Workload, kind: type) -> Counter[str]:
    return Counter(action.node for action in load.actions if isinstance(action.do, kind))


def experiment(name: str, **options: Any) -> Workload:
    if name == "hiking":
        options["preset"] = "experiment"
    return workload(name, experiment_federation(), clients=3600, duration_s=900, seed=11, **options)


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_the_same_seed_gives_the_same_actions_and_another_does_not(name: str) -> None:
    assert made(name).actions == made(name).actions
    assert made(name).actions != made(name, seed=8).actions or name == "mudebs"


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_actions_are_in_order_of_time_and_at_known_nodes(name: str) -> None:
    load = made(name)
    assert load.actions
    times = [action.at_ms for action in load.actions]
    assert times == sorted(times)
    assert times[0] >= 0
    assert {action.node for action in load.actions} <= set(load.federation.ids)


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_a_client_is_attached_where_it_acts(name: str) -> None:
    at: dict[str, str] = {}
    for action in made(name).actions:
        if isinstance(action.do, Attach):
            assert at.get(action.client) == action.do.previous
            at[action.client] = action.node
        assert at[action.client] == action.node
        if isinstance(action.do, Detach):
            del at[action.client]


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_everything_is_valid_and_belongs_to_the_client_that_does_it(name: str) -> None:
    load = made(name)
    ids = [action.do.notification.id for action in load.actions if isinstance(action.do, Publish)]
    assert len(set(ids)) == len(ids) > 0
    for action in load.actions:
        assert msgspec.json.decode(msgspec.json.encode(action), type=Action) == action
        if isinstance(action.do, Publish):
            assert action.do.notification.publisher == action.client
            assert action.do.notification.published_at_ms == action.at_ms
        elif isinstance(action.do, Subscribe):
            assert action.do.subscription.client == action.client
            compile_q(action.do.subscription.q)
            compile_quality(action.do.subscription.quality)
        elif isinstance(action.do, Advertise):
            assert action.do.advertisement.client == action.client


@pytest.mark.parametrize("name", DISGB)
def test_the_experiment_of_disgb_has_the_counts_of_table_ii(name: str) -> None:
    paper, load = TABLE_II[name], experiment(name)
    kinds = Counter(type(action.do) for action in load.actions)
    assert kinds[Locate] == pytest.approx(paper.location_updates, rel=0.03)
    assert kinds[Subscribe] == pytest.approx(paper.subscription_updates, rel=0.03)
    assert kinds[Publish] == pytest.approx(paper.events, rel=0.03)


@pytest.mark.parametrize("name", DISGB)
def test_geofences_overlap_the_circles_of_other_brokers_about_as_often_as_in_table_ii(name: str) -> None:
    # few clients are near the border and each is counted many times: the numbers of two seeds differ by a third
    paper, load = TABLE_II[name], experiment(name, field_deg=None)
    if paper.subscription_overlaps is not None:
        found = sum(other_circles(a.do.subscription.geofence, a.node) for a in load.actions if isinstance(a.do, Subscribe))
        assert found == pytest.approx(paper.subscription_overlaps, rel=0.6)
    if paper.event_overlaps is not None:
        found = sum(other_circles(a.do.notification.geofence, a.node) for a in load.actions if isinstance(a.do, Publish))
        assert found == pytest.approx(paper.event_overlaps, rel=0.6)


def other_circles(geofence: object, node: str) -> int:
    assert isinstance(geofence, Circle)
    others = [circle for other, circle in EXPERIMENT_CIRCLES.items() if other != node]
    return sum(distance_deg(geofence, circle) <= circle.radius_deg + geofence.radius_deg for circle in others)


def distance_deg(a: Circle, b: Circle) -> float:
    return 2 * degrees(asin(sqrt(half_chord_squared(a.lat, a.lon, b.lat, b.lon))))


def test_hiking_does_as_much_as_in_the_simulator_of_disgb() -> None:
    # the authors' own run: 989 clients, 2,476 locations, 7,435 subscriptions, 5,597 events
    clients = 2000
    load = made("hiking", topology("cities", nodes=25, seed=1), clients=clients, duration_s=900)
    kinds = Counter(type(action.do) for action in load.actions)
    assert kinds[Locate] / clients == pytest.approx(2476 / 989, rel=0.03)
    assert kinds[Subscribe] / clients == pytest.approx(7435 / 989, rel=0.03)
    assert kinds[Publish] / clients == pytest.approx(5597 / 989, rel=0.03)


def test_hikers_have_five_topics_and_geofences_around_themselves() -> None:
    load = made("hiking", mesh(5), duration_s=900)
    topics: dict[str, set[str | None]] = {}
    for subscription in subscriptions(load):
        topics.setdefault(subscription.client, set()).add(subscription.selectors[0].topic)
        assert isinstance(subscription.geofence, Circle)
        assert subscription.geofence.radius_deg == 10.0
    assert {len(each) for each in topics.values()} == {5}
    for event in notifications(load):
        assert event.topic in topics[event.publisher]
        assert event.location is not None
        assert event.geofence == Circle(event.location.lat, event.location.lon, 5.0)


def test_environmental_data_have_no_event_geofence_and_context_data_no_subscription_geofence() -> None:
    assert {event.geofence for event in notifications(made("environmental"))} == {WORLD}
    assert {subscription.geofence for subscription in subscriptions(made("context"))} == {WORLD}


@pytest.mark.parametrize("name", DISGB)
def test_publishers_advertise_if_asked_to(name: str) -> None:
    assert not advertisements(made(name))
    load = made(name, advertise=True, duration_s=300)
    topics = {
        advertisement.client: {selector.topic for selector in advertisement.selectors} for advertisement in advertisements(load)
    }
    assert all(event.topic in topics[event.publisher] for event in notifications(load))


@pytest.mark.parametrize("name", [*DISGB, "random"])
@pytest.mark.parametrize(
    "federation",
    [mesh(9), topology("cities", nodes=25, seed=3), experiment_federation()],
    ids=["mesh", "cities", "experiment"],
)
def test_clients_stay_in_the_area_of_their_node(name: str, federation: Federation) -> None:
    load = made(name, federation, clients=60, duration_s=600, **({"known": {}} if name == "random" else {}))
    fields = Fields(federation)
    places = 0
    for action in load.actions:
        where: Location | None = None
        if isinstance(action.do, Locate):
            where = action.do.location
        elif isinstance(action.do, Publish):
            where = action.do.notification.location
        if where is not None:
            places += 1
            assert fields.owner(where.lat, where.lon) == action.node
    assert places


def test_a_field_belongs_to_the_node_nearest_to_its_centre() -> None:
    federation = topology("cities", nodes=12, seed=5)
    fields = Fields(federation)
    for lat in range(-87, 90, 6):
        for lon in range(-177, 180, 6):
            nearest = min(federation.nodes, key=lambda n: half_chord_squared(lat, lon, n.location.lat, n.location.lon))
            assert {fields.owner(lat + d, lon + e) for d in (-2.9, 2.9) for e in (-2.9, 2.9)} == {nearest.id}


def test_clients_are_shared_out_by_population() -> None:
    federation = topology("cities", nodes=5, seed=1)
    clients = nodes_of(made("hiking", federation, clients=1000), Attach)
    people = sum(node.population for node in federation.nodes)
    for node in federation.nodes:
        assert abs(clients[node.id] - 1000 * node.population / people) < 1


def test_the_clients_of_mudebs_go_through_all_combinations() -> None:
    known = {"a": {"x": ["s1", "s2"], "y": ["t1"]}, "d1": {"x": ["s1"]}}
    load = made("mudebs", transit_stub(16), known=known)
    per_node = nodes_of(load, Publish)
    assert per_node["a"] == 3 * 2
    assert per_node["d1"] == 2
    assert sum(per_node.values()) == 6 + 2 + 14
    kinds = [type(action.do) for action in load.actions]
    assert kinds == [Attach] * 16 + [Advertise] * 22 + [Subscribe] * 22 + [Publish] * 22
    assert len(notifications(made("mudebs", transit_stub(16), known=known, empty=False))) == 5 + 1


@given(st.dictionaries(st.sampled_from("xyz"), st.lists(st.sampled_from("abc"), unique=True, max_size=3)))
def test_combinations_take_at_most_one_scope_a_dimension(known: dict[str, list[str]]) -> None:
    found = combinations_of(known, empty=True)
    expected = 1
    for scopes in known.values():
        expected *= len(scopes) + 1
    assert len(found) == expected == len({tuple(sorted(each.items())) for each in found})
    assert found[0] == {}
    assert combinations_of(known, empty=False) == found[1:]


def test_the_smart_port_has_the_entities_of_comdex() -> None:
    load = made("smart-port", clients=1700, duration_s=2)
    entities = {(a.node, a.do.notification.types[0], a.do.notification.entity) for a in load.actions if isinstance(a.do, Publish)}
    in_all = Counter(type_ for _, type_, _ in entities)
    at_first = Counter(type_ for node, type_, _ in entities if node == "b2")
    expected = {"Building": 82, "Floor": 212, "Room": 1199, "Window": 1796, "Door": 1781, "Device": 588}
    assert {type_: at_first[type_] for type_ in expected} == expected
    assert in_all["Device"] == 1700
    assert {"Vehicle", "Ship"} <= in_all.keys()
    assert {node for node, _, _ in entities} == {"b2", "b3", "b5", "b6", "b7"}


def test_the_smart_port_advertises_by_type_or_by_id_and_publishes_only_what_it_advertises() -> None:
    for by in ("type", "id"):
        load = made("smart-port", clients=50, advertise_by=by)
        advertised = {advertisement.id: advertisement for advertisement in advertisements(load)}
        for notification in notifications(load):
            assert notification.advertisement is not None
            selector = advertised[notification.advertisement].selectors[0]
            assert selector.type in notification.types
            assert selector.id == (notification.entity if by == "id" else None)


def test_random_mixes_everything() -> None:
    load = made("random", clients=20, duration_s=1500)
    kinds = {type(action.do) for action in load.actions}
    assert kinds == {Attach, Detach, Locate, Subscribe, Unsubscribe, Advertise, Unadvertise, Publish}
    assert any(attach.previous for attach in attachments(load))
    assert {type(s.geofence) for s in subscriptions(load)} == {World, Circle, Polygon}
    for member in ("selectors", "attributes", "q", "quality", "scopes", "expires_at_ms"):
        assert {bool(getattr(s, member)) for s in subscriptions(load)} == {True, False}
    assert {type(n.geofence) for n in notifications(load)} == {World, Circle, Polygon}
    for member in ("topic", "types", "entity", "quality", "scopes", "location", "advertisement"):
        assert {bool(getattr(n, member)) for n in notifications(load)} == {True, False}
    assert not any(attach.previous for attach in attachments(made("random", duration_s=1500, hand_overs=False)))


@given(nodes=st.integers(1, 12), clients=st.integers(1, 12), gap_ms=st.integers(2, 500), seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_random_leaves_a_gap_between_times_and_expires_in_gaps(nodes: int, clients: int, gap_ms: int, seed: int) -> None:
    load = workload("random", topology("star", nodes=nodes), clients=clients, duration_s=10, seed=seed, gap_ms=gap_ms)
    for action in load.actions:
        assert action.at_ms % gap_ms == 0
        if isinstance(action.do, Subscribe) and (expires := action.do.subscription.expires_at_ms):
            assert expires > action.at_ms
            assert expires % gap_ms == gap_ms // 2


@given(name=st.sampled_from(sorted(WORKLOADS)), clients=st.integers(1, 40), duration_s=st.integers(1, 30))
@settings(max_examples=60, deadline=None)
def test_any_size_will_do(name: str, clients: int, duration_s: int) -> None:
    load = made(name, clients=clients, duration_s=duration_s)
    assert load.name == name
    assert load.actions


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("skiing", {}, "no workload 'skiing'; take one of hiking"),
        ("hiking", {"colour": "red"}, "workload hiking has no option 'colour'; it has preset"),
        ("hiking", {"preset": "alpine"}, "no preset 'alpine'"),
        ("hiking", {"topics": 3}, "5 of 3 topics"),
        ("hiking", {"field_deg": 7.0}, "do not divide the globe"),
        ("hiking", {"field_deg": 0.0}, "do not divide the globe"),
        ("environmental", {"field_deg": None}, "neither fields nor a circle"),
        ("mudebs", {"known": {"z": {}}}, "'z', which is no node"),
        ("smart-port", {"advertise_by": "colour"}, "by type or by id"),
        ("random", {"gap_ms": 0}, "2 ms or more"),
        ("context", {"clients": 0}, "clients are too few"),
        ("context", {"duration_s": 0}, "1 second or more"),
    ],
)
def test_what_cannot_be_made_is_told_in_one_line(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as error:
        made(name, **options)
    assert "\n" not in str(error.value)


def test_mudebs_needs_the_known_scopes() -> None:
    with pytest.raises(InvalidInput, match="workload mudebs needs the option known"):
        workload("mudebs", hybrid(), clients=1, duration_s=1)
