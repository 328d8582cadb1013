"""The paper's own routing: what floods where, and what comes back."""

from __future__ import annotations

import pytest

from hanse.model import InvalidInput, Notification, Subscription
from hanse.routing import Broker, Federation, Node, Settings, both_ways
from hanse.routing import messages as m
from hanse.routing.state import given_id
from hanse.routing.strategies.mudebs import MuDebs, MuDebsEveryPath
from hanse.scopes import NEVER, Scopes
from hanse.simulation.engine import Simulator
from hanse.simulation.topologies import NET_SIZES, transit_stub

Known = dict[str, tuple[str, ...]]  # by broker, or by dimension


def family() -> Scopes:
    """s1 above s2 and s3; s4 below s2, s5 below s3."""
    scopes = Scopes()
    for scope, superscope in (("s2", "s1"), ("s3", "s1"), ("s4", "s2"), ("s5", "s3")):
        graph = scopes.graph("D")
        if "s1" not in graph:
            graph.add("s1")
        graph.add(scope, superscope)
    return scopes


def simulator(
    federation: Federation,
    known: Known | None = None,
    admission: str = "updown",
    strategy: str = MuDebs.name,
    scopes: Scopes | None = None,
) -> Simulator:
    known_scopes = {node: {"D": (known or {}).get(node, ())} for node in federation.ids} if known is not None else {}
    settings = Settings(strategy, federation, known_scopes=known_scopes, admission=admission)
    latencies = {node: dict.fromkeys(others, 1) for node, others in federation.neighbours.items()}
    return Simulator(settings, scopes or family(), latencies=latencies)


def overlay(*pairs: tuple[str, str]) -> Federation:
    names = sorted({name for pair in pairs for name in pair})
    return Federation(tuple(Node(name) for name in names), both_ways(list(pairs)))


def subscribe(sim: Simulator, node: str, scope: str | None, id_: str = "s") -> None:
    scopes = {"D": scope} if scope is not None else {}
    sim.request(sim.now_ms, node, m.Subscribe(Subscription(id=id_, client=f"client of {node}", scopes=scopes)))
    sim.run()


def publish(sim: Simulator, node: str, scope: str | None, id_: str = "n") -> set[str]:
    """The subscriptions that get it."""
    scopes = {"D": scope} if scope is not None else {}
    before = len(sim.delivered)
    sim.request(sim.now_ms, node, m.Publish(Notification(id=id_, publisher=f"client of {node}", scopes=scopes)))
    sim.run()
    return {delivered.subscription for delivered in sim.delivered[before:]}


def holders(sim: Simulator, id_: str = "s") -> str:
    return "".join(node for node, broker in sim.brokers.items() if id_ in map(given_id, broker.held))


@pytest.mark.parametrize(("nodes", "flooding"), [*zip(NET_SIZES, (17, 77, 125), strict=True)])
def test_without_scopes_a_call_costs_every_link_twice_less_one_for_each_other_broker(nodes: int, flooding: int) -> None:
    federation = transit_stub(nodes)
    for node in (federation.ids[0], federation.ids[-1]):
        sim = simulator(federation, known={})
        subscribe(sim, node, None)
        assert sim.messages["PutOnPath"] == flooding
        assert all("s" in map(given_id, broker.held) for broker in sim.brokers.values())


CHAIN = overlay(*zip("abcd", "bcde", strict=True))  # a - b - c - d - e
UP_AND_DOWN: Known = {"a": ("s4",), "b": ("s2",), "c": ("s1",), "d": ("s3",), "e": ("s5",)}


@pytest.mark.parametrize(("admission", "reached"), [("upward", "abc"), ("updown", "abcde")])
def test_upward_a_subscription_stops_at_the_root_and_updown_it_comes_to_the_siblings(admission: str, reached: str) -> None:
    sim = simulator(CHAIN, UP_AND_DOWN, admission)
    subscribe(sim, "a", "s4")
    assert holders(sim) == reached


def test_what_only_climbs_misses_the_notifications_of_siblings() -> None:
    for admission, received in (("upward", set[str]()), ("updown", {"s"})):
        sim = simulator(CHAIN, UP_AND_DOWN, admission)
        subscribe(sim, "a", "s4")
        assert publish(sim, "e", "s5", "from the sibling") == received
        assert publish(sim, "c", "s1", "from the root") == {"s"}


def test_no_subscription_climbs_again_after_it_has_descended() -> None:
    sim = simulator(overlay(("a", "b"), ("b", "c")), {"a": ("s1",), "b": ("s4", "s2"), "c": ("s1",)})
    subscribe(sim, "a", "s1")
    assert holders(sim) == "ab"


@pytest.mark.parametrize("admission", ["upward", "updown"])
def test_a_border_is_crossed_one_at_a_time(admission: str) -> None:
    sim = simulator(overlay(("a", "b"), ("a", "c")), {"a": ("s4",), "b": ("s1",), "c": ("s2",)}, admission)
    subscribe(sim, "a", "s4")
    assert holders(sim) == "ac"


def test_every_dimension_that_is_stated_must_let_a_subscription_in() -> None:
    federation = overlay(("a", "b"), ("a", "c"), ("a", "d"))
    scopes = family()
    scopes.graph("E").add("t1")
    both: Known = {"D": ("s1",), "E": ("t1",)}
    known: dict[str, Known] = {"a": both, "b": {"D": ("s1",)}, "c": {"E": ("t1",)}, "d": both}
    sim = Simulator(Settings(MuDebs.name, federation, known_scopes=known), scopes)
    sim.request(0, "a", m.Subscribe(Subscription(id="s", client="x", scopes={"D": "s1", "E": "t1"})))
    sim.run()
    assert holders(sim) == "ad"


def test_a_scope_that_nobody_knows_stands_for_top() -> None:
    scopes = Scopes()
    scopes.graph("D").add("any")
    scopes.graph("D").add("s1", "any", out=NEVER)
    sim = simulator(CHAIN, {"a": ("s1",), "b": ("s1",)}, "upward", scopes=scopes)
    subscribe(sim, "e", "any", "everything")
    subscribe(sim, "a", "s1")
    assert holders(sim, "everything") == "abcde"
    assert holders(sim) == "ab"
    assert publish(sim, "b", "s1", "inside") == {"s"}
    assert publish(sim, "b", None, "unscoped") == {"s", "everything"}


def test_where_no_projection_is_given_all_brokers_know_all_scopes() -> None:
    sim = simulator(CHAIN)
    subscribe(sim, "a", "s4")
    assert holders(sim) == "abcde"


def test_a_visibility_filter_stops_a_notification_on_the_way() -> None:
    scopes = family()
    scopes.graphs["D"].set_filter("s3", "s1", out=NEVER)
    sim = simulator(CHAIN, UP_AND_DOWN, scopes=scopes)
    subscribe(sim, "a", "s4")
    assert publish(sim, "e", "s5") == set()
    assert sim.messages["Event"] == 0
    assert publish(sim, "c", "s1", "above the border") == {"s"}


RING = overlay(("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"))


@pytest.mark.parametrize(("strategy", "messages"), [(MuDebs.name, 2), (MuDebsEveryPath.name, 4)])
def test_every_copy_of_a_subscription_opens_a_way_back_if_so_wanted(strategy: str, messages: int) -> None:
    sim = simulator(RING, {}, strategy=strategy)
    subscribe(sim, "a", None)
    assert sim.messages["PutOnPath"] == 5
    assert publish(sim, "c", None) == {"s"}
    assert len(sim.delivered) == 1
    assert sim.messages["Event"] == messages


def test_a_notification_that_comes_twice_is_a_message_and_nothing_else() -> None:
    sim = simulator(RING, {})
    for node in "abcd":
        subscribe(sim, node, None, id_=node)
    assert publish(sim, "a", None) == set("abcd")
    assert len(sim.delivered) == 4
    assert sim.messages["Event"] == 2 * 4 - 3


def test_an_unsubscription_ends_a_subscription_everywhere() -> None:
    sim = simulator(RING, {})
    subscribe(sim, "a", None)
    sim.request(sim.now_ms, "a", m.Unsubscribe("client of a", "s"))
    sim.run()
    assert holders(sim) == ""
    assert publish(sim, "c", None) == set()
    subscribe(sim, "a", None)
    assert publish(sim, "c", None, "later") == {"s"}


def test_a_subscription_with_other_scopes_takes_the_place_of_the_first() -> None:
    sim = simulator(CHAIN, UP_AND_DOWN, "upward")
    subscribe(sim, "a", "s4")
    assert holders(sim) == "abc"
    subscribe(sim, "a", "s1")
    assert holders(sim) == "a"


def test_an_unknown_admission_is_refused() -> None:
    settings = Settings(MuDebs.name, CHAIN, admission="sideways")
    with pytest.raises(InvalidInput, match="no admission 'sideways'; take one of upward, updown"):
        Broker("a", settings)


def test_a_broker_comes_back_as_it_was() -> None:
    sim = simulator(CHAIN, UP_AND_DOWN)
    subscribe(sim, "a", "s4")
    for node, broker in sim.brokers.items():
        sim.brokers[node] = Broker.restore(node, sim.settings, broker.dump())
    assert publish(sim, "e", "s5") == {"s"}
