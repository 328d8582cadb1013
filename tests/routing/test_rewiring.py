"""A federation that changes under its brokers: whoever is within reach gets what it asked for, before, meanwhile and after."""

from __future__ import annotations

import msgspec
import pytest

from hanse.model import Location, Notification, Selector, Subscription
from hanse.routing import Broker, ExportRule, Federation, Link, Node, Settings
from hanse.routing import messages as m
from hanse.routing.federation import both_ways
from hanse.routing.rewiring import forget_strangers
from hanse.routing.strategies import STRATEGIES

PLACES = {"a": Location(0, 0), "b": Location(0, 60), "c": Location(0, 120)}
CHANGING = sorted(STRATEGIES.keys() - {"broadcast-groups"})  # whose groups are part of what nodes agree on


def federation(nodes: str, *links: str, rule: ExportRule | None = None) -> Federation:
    """`rule`: what the first end of each link lets go to the second."""
    pairs = both_ways([(link[0], link[1]) for link in links])
    ruled = [Link(link.source, link.target, rule) if rule and link.source < link.target else link for link in pairs]
    return Federation(tuple(Node(name, PLACES[name]) for name in nodes), tuple(ruled))


class Net:
    """Brokers whose messages arrive at once."""

    def __init__(self, strategy: str, whole: Federation) -> None:
        self.strategy = strategy
        self.brokers = {node: Broker(node, Settings(strategy, whole)) for node in whole.ids}
        self.got: set[tuple[str, str]] = set()

    def tell(self, node: str, message: m.Message) -> None:
        waiting: list[tuple[str, str, m.Message]] = [("", node, message)]
        while waiting:
            sender, here, one = waiting.pop(0)
            for effect in self.brokers[here].handle(one, sender, 1_000):
                if isinstance(effect, m.Send):
                    waiting += [(here, there, effect.message) for there in effect.to]
                elif isinstance(effect, m.Deliver):
                    self.got.add((effect.client, effect.notification.id))

    def rewire(self, **parts: Federation) -> None:
        """Each node comes to know the part of the federation that it is in."""
        for node, part in parts.items():
            dumped = self.brokers[node].dump()
            self.brokers[node] = Broker.restore(node, Settings(self.strategy, part), dumped)
            forget_strangers(self.brokers[node])
        for node in parts:
            self.tell(node, m.Resync())

    def publish(self, node: str, id_: str) -> set[str]:
        self.tell(node, m.Publish(Notification(id=id_, publisher=f"p{node}", types=("T",), location=PLACES[node])))
        return {client for client, got in self.got if got == id_}


def peopled(strategy: str, whole: Federation) -> Net:
    net = Net(strategy, whole)
    for node in whole.ids:
        for client in (f"s{node}", f"p{node}"):
            net.tell(node, m.Attach(client, PLACES[node]))
            net.tell(node, m.Locate(client, PLACES[node]))
        net.tell(node, m.Subscribe(Subscription(id="1", client=f"s{node}", selectors=(Selector(type="T"),))))
    return net


@pytest.mark.parametrize("strategy", CHANGING)
def test_a_node_goes_and_comes_back(strategy: str) -> None:
    whole = federation("abc", "ab", "bc")
    net = peopled(strategy, whole)
    assert net.publish("a", "1") == {"sa", "sb", "sc"}
    assert net.publish("c", "2") == {"sa", "sb", "sc"}
    left = federation("ab", "ab")
    net.rewire(a=left, b=left, c=federation("c"))
    assert net.publish("a", "3") == {"sa", "sb"}
    assert net.publish("c", "4") == {"sc"}
    for node in "ab":
        net.tell(node, m.Tick())
    net.rewire(a=whole, b=whole, c=whole)
    for i, node in enumerate("abc"):
        assert net.publish(node, f"5{i}") == {"sa", "sb", "sc"}


@pytest.mark.parametrize("strategy", CHANGING)
def test_nobody_remembers_a_node_that_is_gone(strategy: str) -> None:
    whole = federation("abc", "ab", "bc", "ac")
    net = peopled(strategy, whole)
    for i, node in enumerate("abc"):
        net.publish(node, str(i))
    left = federation("ab", "ab")
    net.rewire(a=left, b=left)
    for node in "ab":
        broker = net.brokers[node]
        told = [*broker.strategy.told(), *(other for targets in broker.placed.values() for other in targets)]
        assert "c" not in told
        assert "c" not in {held.home for held in broker.held.values()}
        assert msgspec.msgpack.encode("c") not in msgspec.msgpack.encode(broker.strategy.state)


@pytest.mark.parametrize("strategy", CHANGING)
def test_a_rule_is_changed(strategy: str) -> None:
    whole = federation("ab", "ab")
    net = peopled(strategy, whole)
    assert net.publish("a", "1") == {"sa", "sb"}
    closed = federation("ab", "ab", rule=ExportRule(deny_types=("T",)))
    net.rewire(a=closed, b=closed)
    assert net.publish("a", "2") == {"sa"}
    assert net.publish("b", "3") == {"sa", "sb"}
    net.rewire(a=whole, b=whole)
    assert net.publish("a", "4") == {"sa", "sb"}


def test_an_offer_that_a_rule_hides_now_is_forgotten() -> None:
    net = peopled("advertised", federation("ab", "ab"))
    net.publish("a", "1")
    assert "a" in net.brokers["b"].strategy.state.known
    closed = federation("ab", "ab", rule=ExportRule(deny_types=("T",)))
    net.rewire(a=closed, b=closed)
    assert net.brokers["b"].strategy.state.known == {}
