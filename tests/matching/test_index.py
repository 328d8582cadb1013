"""The index gives what `satisfies` gives, whatever came before, and however the subscriptions are held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.xml_examples import LISTING_1, OBSERVATION, constraints, documents

from hanse.matching import MatchIndex, ladder, satisfies
from hanse.matching.many import Many
from hanse.model import WORLD, Circle, InvalidInput, Location, Notification, Polygon, Selector, Subscription

if TYPE_CHECKING:
    from collections.abc import Iterator

ONE_BY_ONE = 10**9
HELD_AS = {"columns": 0, "mixed": 3, "default": 32, "one by one": ONE_BY_ONE}


def square(west: float, south: float, east: float, north: float) -> tuple[tuple[float, float], ...]:
    return ((west, south), (east, south), (east, north), (west, north), (west, south))


POLYGONS = (
    Polygon(((square(-1, -1, 3, 3),),)),
    Polygon(((square(-10, -10, 10, 10), square(-5, -5, 5, 5)),)),  # with a hole
    Polygon(((square(179, -1, -179, 1),),)),  # across the date line
    Polygon(((square(170, 0, 180, 10),), (square(-180, 0, -170, 10),))),
    Polygon(((((-180, 80), (0, 80), (180, 80), (180, 90), (0, 90), (-180, 90), (-180, 80)),),)),  # a polar cap
    Polygon(((square(-90, -60, 90, 60),),)),
)
coordinates = st.sampled_from([-180.0, -179.5, -90.0, -5.0, -1.0, 0.0, 0.5, 1.0, 2.0, 5.0, 45.0, 90.0, 179.5, 180.0])
locations = st.builds(
    Location, st.sampled_from([-90.0, -89.5, -45.0, -1.0, 0.0, 0.5, 1.0, 2.0, 5.0, 60.0, 89.5, 90.0]), coordinates
) | st.builds(Location, st.floats(-90, 90), st.floats(-180, 180))
radii = st.sampled_from([0.0, 1e-9, 0.5, 1.0, 2.0, 10.0, 90.0, 179.0, 180.0]) | st.floats(0, 180)
geofences = st.just(WORLD) | st.builds(lambda at, r: Circle(at.lat, at.lon, r), locations, radii) | st.sampled_from(POLYGONS)

numbers = st.sampled_from([-3.0, 0, 1, 1.5, 2, 4, 7, 10, 1e300])
texts = st.sampled_from(["open", "shut", "ajar"])
scalars = numbers | texts | st.booleans() | st.none()
values = scalars | st.lists(scalars, max_size=3) | st.builds(lambda v: {"type": "Property", "value": v}, scalars)
names = st.sampled_from(["a", "b", "state"])
attributes = st.dictionaries(names, values, max_size=3)

terms = st.one_of(
    st.builds("{}{}{}".format, names, st.sampled_from(["==", ">", "<", ">=", "<=", "!="]), numbers),
    st.builds("{}=={}..{}".format, names, st.sampled_from([-4, 0, 1]), st.sampled_from([2, 5, 1000])),
    st.builds('{}=="{}"'.format, names, texts),
    st.builds('{}~="{}"'.format, names, st.sampled_from(["^o", "j"])),
    st.builds("({}>1|{}<0)".format, names, names),
    names,
)
queries = st.lists(terms, max_size=6).map(";".join)
indicators = st.sampled_from(["freshness", "a.precision"])
requirements = st.lists(
    st.builds("{}{}{}".format, indicators, st.sampled_from([">=", "<=", "=="]), st.sampled_from([0, 1, 2])), max_size=2
).map(";".join)


def optional(*choices: str) -> st.SearchStrategy[str | None]:
    return st.sampled_from([None, None, *choices])


selectors = st.builds(
    Selector, type=optional("A", "B"), id=optional("x:1", "x:2"), id_pattern=optional("1$", "^x"), topic=optional("t", "u")
)
clients = st.sampled_from(["c1", "c2", "c3", "c4"])
subscriptions = st.builds(
    Subscription,
    id=st.sampled_from([f"s{i}" for i in range(12)]),
    client=clients,
    selectors=st.lists(selectors, max_size=3).map(tuple),
    attributes=st.lists(names, max_size=2).map(tuple),
    news=st.lists(names, max_size=2).map(tuple),
    q=st.just("") | queries,
    quality=st.just("") | requirements,
    xpath=st.just(()) | st.lists(constraints, max_size=5).map(tuple),
    geofence=geofences,
)
no_payload: dict[str, str] = {}
payloads = st.just(no_payload) | documents.map(lambda payload: {"payload": payload, "media_type": "application/xml"})
notifications = st.builds(
    lambda payload, **members: Notification(**members, **payload),
    payloads,
    id=st.just("n"),
    publisher=st.just("p"),
    topic=st.sampled_from([None, "t", "u"]),
    types=st.sampled_from([(), ("A",), ("A", "B")]),
    entity=st.sampled_from([None, "x:1", "x:2"]),
    attributes=attributes,
    news=st.lists(names, max_size=3, unique=True).map(tuple),
    quality=st.dictionaries(indicators, st.sampled_from([0.0, 1.0, 1.5, 2.0]), max_size=2),
    geofence=geofences,
)


@pytest.fixture(autouse=True, scope="module")
def ladders_sort_at_once() -> Iterator[None]:
    """A few subscriptions would otherwise all wait, and sorting would not be tested."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ladder, "_WAITING_MAX", 2)
        patch.setattr(ladder, "_SHORT_MIN", 4)
        patch.setattr(ladder, "_DEAD_MIN", 2)
        yield


class Indexing(RuleBasedStateMachine):
    """Several indexes, differing only in how many subscriptions they test one by one, against a dictionary."""

    @initialize()
    def begin(self) -> None:
        self.subscriptions: dict[str, Subscription] = {}
        self.locations: dict[str, Location] = {}
        self.indexes = {held: MatchIndex(few_max) for held, few_max in HELD_AS.items()}

    @rule(subscriptions=st.lists(subscriptions, min_size=1, max_size=6))
    def add(self, subscriptions: list[Subscription]) -> None:
        for subscription in subscriptions:
            self.subscriptions[subscription.id] = subscription
            for index in self.indexes.values():
                index.add(subscription)

    @rule(subscription=subscriptions, fence=geofences)
    def move_geofence(self, subscription: Subscription, fence: Any) -> None:
        old = self.subscriptions.get(subscription.id, subscription)
        self.add([Subscription(**{f: getattr(old, f) for f in old.__struct_fields__ if f != "geofence"}, geofence=fence)])

    @rule(subscription_id=st.sampled_from([f"s{i}" for i in range(12)]))
    def remove(self, subscription_id: str) -> None:
        expected = self.subscriptions.pop(subscription_id, None)
        for index in self.indexes.values():
            assert index.remove(subscription_id) == expected

    @rule(client=clients, location=st.none() | locations)
    def move(self, client: str, location: Location | None) -> None:
        if location is None:
            self.locations.pop(client, None)
        else:
            self.locations[client] = location
        for index in self.indexes.values():
            index.move(client, location)
            assert index.location(client) == location

    @rule(notification=notifications, place=st.none() | locations)
    def match(self, notification: Notification, place: Location | None) -> None:
        expected = sorted(
            s.id for s in self.subscriptions.values() if satisfies(s, notification, place, self.locations.get(s.client))
        )
        for held, index in self.indexes.items():
            assert sorted(s.id for s in index.match(notification, place)) == expected, held

    @invariant()
    def holds_what_was_added(self) -> None:
        for index in getattr(self, "indexes", {}).values():
            assert len(index) == len(self.subscriptions)
            assert {s.id: s for s in index} == self.subscriptions

    def teardown(self) -> None:
        """An emptied index keeps nothing."""
        for index in getattr(self, "indexes", {}).values():
            for subscription_id in list(self.subscriptions):
                index.remove(subscription_id)
            assert not any(index._members.values())
            assert len(index._vocabulary.lanes._codes) == len(index._vocabulary.tests._codes) == 1
            assert not index._vocabulary.texts._codes
            assert not index._vocabulary.readers
            assert not index._vocabulary.xml_shapes
            assert not index._clients._codes._codes
            assert not index._clients._moved


TestIndexing = Indexing.TestCase
TestIndexing.settings = settings(max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck))


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(subscriptions, min_size=20, max_size=60),
    st.lists(st.tuples(notifications, st.none() | locations), min_size=1, max_size=4),
    st.dictionaries(clients, locations),
)
def test_many_subscriptions_under_one_key(wanted: list[Subscription], events: list[Any], where: dict[str, Location]) -> None:
    wanted = [
        msgspec.structs.replace(s, id=f"s{i}", selectors=(Selector(type="A"),), attributes=(), news=s.news if i % 3 else ())
        for i, s in enumerate(wanted)
    ]
    index = MatchIndex()
    for subscription in wanted:
        index.add(subscription)
    for client, location in where.items():
        index.move(client, location)
    for event, place in events:
        notification = msgspec.structs.replace(event, topic=None, types=("A",), entity=None)
        expected = [s.id for s in wanted if satisfies(s, notification, place, where.get(s.client))]
        assert sorted(s.id for s in index.match(notification, place)) == sorted(expected)


@pytest.fixture(params=list(HELD_AS.values()), ids=list(HELD_AS))
def index(request: pytest.FixtureRequest) -> MatchIndex:
    return MatchIndex(request.param)


def notification(**members: Any) -> Notification:
    return Notification(id="n", publisher="p", **members)


def found(index: MatchIndex, event: Notification, place: Location | None = None) -> list[str]:
    return sorted(s.id for s in index.match(event, place))


@settings(max_examples=300, deadline=None)
@given(locations, locations, st.integers(-3, 3))
def test_points_on_the_radius_are_decided_by_the_circle_itself(centre: Location, place: Location, ulps: int) -> None:
    from math import asin, degrees, inf, nextafter, sqrt

    from hanse.model import half_chord_squared

    radius = degrees(2 * asin(min(1.0, sqrt(half_chord_squared(centre.lat, centre.lon, place.lat, place.lon)))))
    for _ in range(abs(ulps)):
        radius = nextafter(radius, inf if ulps > 0 else -inf)
    circle = Circle(centre.lat, centre.lon, min(180.0, max(0.0, radius)))
    inside = circle.contains(place.lat, place.lon)
    for few_max in (0, ONE_BY_ONE):
        index = MatchIndex(few_max)
        index.add(Subscription(id="s", client="c", geofence=circle))
        index.add(Subscription(id="everywhere", client="c"))
        index.move("c", place)
        assert ("s" in found(index, notification(), place)) == inside
        assert bool(found(index, notification(geofence=circle))) == inside


@pytest.mark.parametrize("polygon", POLYGONS, ids=range(len(POLYGONS)))
def test_polygons_hold_what_they_contain(index: MatchIndex, polygon: Polygon) -> None:
    for i in range(6):
        index.add(Subscription(id=f"s{i}", client="c", geofence=polygon))
    for lat in (-90.0, -60.0, -5.0, 0.0, 1.0, 5.0, 7.5, 10.0, 60.0, 85.0, 90.0):
        for lon in (-180.0, -179.5, -170.0, -90.0, -5.0, 0.0, 3.0, 7.5, 90.0, 179.5, 180.0):
            inside = polygon.contains(lat, lon)
            index.move("c", Location(lat, lon))
            assert len(found(index, notification(), Location(lat, lon))) == 6 * inside
            index.add(Subscription(id="t", client="c", selectors=(Selector(topic="t"),)))
            assert ("t" in found(index, notification(topic="t", geofence=polygon))) == inside


def test_unknown_locations_lie_only_in_the_world(index: MatchIndex) -> None:
    index.add(Subscription(id="everywhere", client="c"))
    index.add(Subscription(id="whole circle", client="c", geofence=Circle(0, 0, 180)))
    assert found(index, notification()) == ["everywhere"]
    assert found(index, notification(geofence=Circle(0, 0, 180)), Location(0, 0)) == []
    index.move("c", Location(1, 1))
    assert found(index, notification(geofence=Circle(0, 0, 180)), Location(0, 0)) == ["everywhere", "whole circle"]
    index.move("c", None)
    assert found(index, notification(geofence=Circle(0, 0, 180)), Location(0, 0)) == []


def test_a_client_may_move_before_it_subscribes(index: MatchIndex) -> None:
    index.move("c", Location(0, 0))
    index.add(Subscription(id="s", client="c"))
    assert found(index, notification(geofence=Circle(0, 0, 1))) == ["s"]
    index.add(Subscription(id="s", client="elsewhere"))
    assert found(index, notification(geofence=Circle(0, 0, 1))) == []


def test_the_elements_of_a_list_may_satisfy_the_terms_of_a_query_in_turn(index: MatchIndex) -> None:
    index.add(Subscription(id="between", client="c", q="a>20;a<25"))
    index.add(Subscription(id="apart", client="c", q="a>25;a<20"))
    index.add(Subscription(id="range", client="c", q="a==20..25"))
    assert found(index, notification(attributes={"a": 22})) == ["between", "range"]
    assert found(index, notification(attributes={"a": [10, 30]})) == ["apart", "between"]
    assert found(index, notification(attributes={"a": [-1e300, 1e300]})) == ["apart", "between"]


def test_values_far_apart_span_the_narrowest_interval(index: MatchIndex) -> None:
    index.add(Subscription(id="narrow", client="c", q="a>1;a<1.000000001"))
    assert found(index, notification(attributes={"a": [-1e300, 1e300]})) == ["narrow"]
    assert found(index, notification(attributes={"a": 1e300})) == []


@pytest.mark.parametrize(("value", "expected"), [([5, 50], ["high", "low"]), (5, ["low"]), (50, ["high"]), ([], []), (20, [])])
def test_some_element_of_a_list_passes_a_threshold(index: MatchIndex, value: Any, expected: list[str]) -> None:
    for i in range(5):
        index.add(Subscription(id=f"never{i}", client="c", q=f"a<{-i}"))
    index.add(Subscription(id="low", client="c", q="a<10"))
    index.add(Subscription(id="high", client="c", q="a>40"))
    assert found(index, notification(attributes={"a": value})) == expected


def test_polygons_and_circles_together(index: MatchIndex) -> None:
    square = Polygon(((((9.0, 53.0), (11.0, 53.0), (11.0, 54.0), (9.0, 54.0), (9.0, 53.0)),),))
    index.add(Subscription(id="polygon", client="c", q="a>5", geofence=square))
    index.add(Subscription(id="circle", client="c", q="a>1", geofence=Circle(53.5, 10.0, 1.0)))
    assert found(index, notification(attributes={"a": 3}), Location(53.5, 10.0)) == ["circle"]
    assert found(index, notification(attributes={"a": 6}), Location(53.5, 10.0)) == ["circle", "polygon"]
    assert found(index, notification(attributes={"a": 6}), Location(53.99, 9.01)) == ["circle", "polygon"]
    assert found(index, notification(attributes={"a": 6}), Location(54.01, 10.0)) == ["circle"]
    assert found(index, notification(attributes={"a": 6}), Location(54.0, 10.0)) == ["circle", "polygon"]  # the edge


def test_every_indicator_that_is_asked_for_must_be_present(index: MatchIndex) -> None:
    index.add(Subscription(id="s", client="c", quality="freshness<=60;precision>=2"))
    assert found(index, notification(quality={"freshness": 30})) == []
    assert found(index, notification(quality={"freshness": 30, "precision": 2})) == ["s"]
    assert found(index, notification(attributes={"freshness": 30, "precision": 2})) == []


def test_every_constraint_on_an_xml_payload_must_hold(index: MatchIndex) -> None:
    index.add(Subscription(id="all", client="c", xpath=LISTING_1))
    index.add(Subscription(id="some", client="c", xpath=LISTING_1[:2]))
    index.add(Subscription(id="sharp", client="c", xpath=(LISTING_1[2].replace("40", "46"),)))
    observed = {"payload": OBSERVATION, "media_type": "application/xml"}
    assert found(index, notification(**observed)) == ["all", "some"]
    assert found(index, notification(payload=OBSERVATION.replace('"45"', '"39"'), media_type="application/xml")) == ["some"]
    assert found(index, notification(payload='"text"')) == []
    assert found(index, notification(payload="<a>", media_type="application/xml")) == []
    assert found(index, notification()) == []


def test_one_of_the_named_attributes_is_enough_and_is_reported_once(index: MatchIndex) -> None:
    index.add(Subscription(id="s", client="c", attributes=("a", "b"), selectors=(Selector(type="A"), Selector(topic="t"))))
    assert found(index, notification(types=("A",), topic="t", attributes={"a": 1, "b": 2})) == ["s"]
    assert found(index, notification(types=("A",), topic="t", attributes={"b": None})) == ["s"]
    assert found(index, notification(types=("A",), topic="t", attributes={"c": 1})) == []


@pytest.mark.parametrize(
    "wrong", [{"q": "a=="}, {"quality": "a~=1"}, {"xpath": ("//a[",)}, {"selectors": (Selector(id_pattern="("),)}]
)
def test_a_wrong_filter_changes_nothing(index: MatchIndex, wrong: dict[str, Any]) -> None:
    index.add(Subscription(id="s", client="c"))
    with pytest.raises(InvalidInput):
        index.add(Subscription(id="s", client="c", **wrong))
    assert found(index, notification()) == ["s"]


def test_a_lane_that_nobody_asks_for_any_more_is_forgotten() -> None:
    index = MatchIndex(0)
    index.add(Subscription(id="stays", client="c", q="a>1"))
    for n in range(20):
        index.add(Subscription(id=f"s{n}", client="c", quality=f"x{n}.precision>=4"))
    for n in range(20):
        index.remove(f"s{n}")
    (partition,) = index._any.values()
    assert isinstance(partition, Many)
    assert len(partition._access._ladders) == len(partition._access._ladders_on) == 1
    assert found(index, notification(attributes={"a": 2})) == ["stays"]


def test_thresholds_come_and_go() -> None:
    """Enough of them that sorted ones, waiting ones and removed ones are all there."""
    index = MatchIndex()
    wanted = {f"s{i}": i % 97 for i in range(1000)}
    for name, threshold in wanted.items():
        index.add(Subscription(id=name, client="c", q=f"a>{threshold}" if threshold % 2 else f"a<={threshold}"))
    for turn in range(1000):
        name = f"s{turn * 7919 % 1000}"
        if turn % 3:
            index.remove(name)
            wanted.pop(name, None)
        else:
            wanted[name] = turn % 89
            index.add(Subscription(id=name, client="c", q=f"a>{wanted[name]}" if wanted[name] % 2 else f"a<={wanted[name]}"))
        if turn % 20 == 0:
            value = turn % 101
            expected = {n for n, t in wanted.items() if (value > t if t % 2 else value <= t)}
            assert set(found(index, notification(attributes={"a": value}))) == expected


def test_one_of_the_news_that_are_waited_for_is_enough(index: MatchIndex) -> None:
    for i in range(5):
        index.add(Subscription(id=f"other{i}", client="c", news=(f"n{i}",)))
    index.add(Subscription(id="s", client="c", news=("moved", "ended"), attributes=("a",)))
    index.add(Subscription(id="any", client="c"))
    assert found(index, notification(attributes={"a": 1}, news=("ended", "moved"))) == ["any", "s"]
    assert found(index, notification(attributes={"a": 1, "moved": 1}, news=("begun", "n2"))) == ["any", "other2"]
    assert found(index, notification(attributes={"moved": 1, "a": 1})) == ["any"]
