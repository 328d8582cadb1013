"""One case, routed one way by the real brokers: what it costs, and whether what the oracle promises arrives."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import Struct

from hanse.model import TOP, Advertisement, Notification, Subscription
from hanse.routing import Settings
from hanse.routing import messages as m
from hanse.routing.oracle import World
from hanse.routing.strategies.mudebs import MuDebs, MuDebsEveryPath
from hanse.simulation.engine import Simulator
from hanse.simulation.workloads.mudebs import client_of, combinations_of
from hanse.studies.mudebs.cases import ANY, SUPERSCOPES, graphs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hanse.studies.mudebs.cases import Case

T = TypeVar("T")

WAYS: Final = {
    "upward": (MuDebs.name, "upward"),
    "up-down": (MuDebs.name, "updown"),
    "scoped": ("scoped", "updown"),
}
UPWARD, UPDOWN, OURS = WAYS
EVERY_PATH: Final = "upward, every path"
ROUTING: Final = {**WAYS, EVERY_PATH: (MuDebsEveryPath.name, "upward")}


class Alone(Struct):
    """What came of subscriptions tried one at a time; `near`: subscription and notification state a dimension in common."""

    promised: int = 0
    arrived: int = 0
    promised_near: int = 0
    arrived_near: int = 0
    unpromised: int = 0


class Outcome(Struct, frozen=True, kw_only=True):
    """What came of a case, routed one way; messages are means a call, entries means a broker."""

    calls: int
    subscribe_messages: float
    first_receptions: float
    area_messages: int
    notification_messages: float
    brokers_involved: float
    forwarding_entries: float
    visibility_entries: float
    promised: int
    arrived: int
    alone: Alone
    unpromised: int  # what arrived that should not have, or twice


class Calls:
    """The calls of the paper's client program: an advertisement, a subscription, a notification for each combination."""

    def __init__(self, case: Case) -> None:
        self.advertisements: list[tuple[str, Advertisement]] = []
        self.subscriptions: list[tuple[str, Subscription]] = []
        self.notifications: list[tuple[str, Notification]] = []
        unstated = dict.fromkeys(case.dimensions, ANY) if case.crossed else {}
        for node in case.federation.ids:
            client = client_of(node)
            for i, scopes in enumerate(combinations_of(case.known.get(node, {}), empty=case.empty)):
                name = f"{client}/{i}"
                self.advertisements.append((node, Advertisement(id=name, client=client, scopes=scopes)))
                self.subscriptions.append((node, Subscription(id=name, client=client, scopes=unstated | scopes)))
                notification = Notification(id=name, publisher=client, scopes=scopes, advertisement=name, published_at_ms=1)
                self.notifications.append((node, notification))


class Run:
    """One case, routed one way. Each phase has come to rest before the next begins; a message takes a millisecond a link."""

    def __init__(self, case: Case, way: str) -> None:
        strategy, admission = ROUTING[way]
        self.case = case
        self.scopes = graphs(case)
        self.calls = Calls(case)
        settings = Settings(strategy, case.federation, known_scopes=case.known, admission=admission)
        latencies = {node: dict.fromkeys(others, 1) for node, others in case.federation.neighbours.items()}
        self.simulator = Simulator(settings, self.scopes, latencies=latencies)
        self.do((node, m.Advertise(advertisement)) for node, advertisement in self.calls.advertisements)

    def do(self, requests: Iterable[tuple[str, m.Request]]) -> None:
        simulator = self.simulator
        at_ms = simulator.now_ms + 1
        for node, request in requests:
            simulator.request(at_ms, node, request)
        simulator.run()
        if simulator.other_effects:
            raise RuntimeError(f"{self.case.name}: {simulator.other_effects[0][2]}")

    def subscribe(self, some: Sequence[tuple[str, Subscription]]) -> None:
        self.do((node, m.Subscribe(subscription)) for node, subscription in some)

    def publish(self, some: Sequence[tuple[str, Notification]]) -> tuple[set[tuple[str, str]], int]:
        """What arrived, by subscription and notification; and how often something arrived again."""
        before = len(self.simulator.delivered)
        self.do((node, m.Publish(notification)) for node, notification in some)
        new = [(d.subscription, d.notification.id) for d in self.simulator.delivered[before:]]
        return set(new), len(new) - len(set(new))

    def promised(
        self, subscriptions: Sequence[tuple[str, Subscription]], some: Sequence[tuple[str, Notification]]
    ) -> set[tuple[str, str]]:
        """What the oracle says must arrive."""
        world = World(self.case.federation, self.scopes)
        world.homes = {client_of(node): node for node in self.case.federation.ids}
        world.advertisements = {(a.client, a.id): a for _, a in self.calls.advertisements}
        world.subscriptions = {subscription.id: subscription for _, subscription in subscriptions}
        return {(receiver, notification.id) for _, notification in some for receiver in world.receivers(notification)}


def run(case: Case, way: str, *, seed: int, publications: int | None = None, alone: tuple[int, int] = (0, 0)) -> Outcome:
    """All together: every client subscribes, then (a sample of them) publishes. And alone: one subscription at a time."""
    dice = Random(f"{seed} {case.name}")  # the same samples whatever the way
    together = Run(case, way)
    calls, simulator = together.calls, together.simulator
    published = _sample(dice, calls.notifications, publications)
    together.subscribe(calls.subscriptions)
    held = sum(len(broker.held) for broker in simulator.brokers.values())
    simulator.watch_brokers = True
    arrived, again = together.publish(published)
    promised = together.promised(calls.subscriptions, published)
    messages = simulator.messages
    count, brokers = len(calls.subscriptions), len(simulator.brokers)
    tried = _alone(case, way, dice, alone)
    return Outcome(
        calls=count,
        subscribe_messages=(messages["PutOnPath"] + messages["PutSubscription"]) / count,
        first_receptions=(held - count) / count,
        area_messages=messages["JoinArea"] + messages["AreaReady"],
        notification_messages=messages["Event"] / len(published),
        brokers_involved=sum(len(nodes) for nodes in simulator.involved.values()) / len(published),
        forwarding_entries=held / brokers,
        visibility_entries=_visibility_entries(case, way) / brokers,
        promised=len(promised),
        arrived=len(promised & arrived),
        alone=tried,
        unpromised=len(arrived - promised) + again + tried.unpromised,
    )


def _alone(case: Case, way: str, dice: Random, sizes: tuple[int, int]) -> Alone:
    """No other subscription draws notifications near: what is promised to a client must not hang on what others want."""
    total = Alone()
    each = Run(case, way)
    for number, (node, subscription) in enumerate(_sample(dice, each.calls.subscriptions, sizes[0])):
        sample = [
            (where, Notification(id=f"{n.id}#{number}", publisher=n.publisher, scopes=n.scopes, advertisement=n.advertisement))
            for where, n in _sample(dice, each.calls.notifications, sizes[1])
        ]
        each.subscribe([(node, subscription)])
        found, again = each.publish(sample)
        must = each.promised([(node, subscription)], sample)
        each.do([(node, m.Unsubscribe(subscription.client, subscription.id))])
        stated = {dimension for dimension, scope in subscription.scopes.items() if scope != ANY}
        near = {(subscription.id, n.id) for _, n in sample if stated & n.scopes.keys()}
        total.promised += len(must)
        total.arrived += len(must & found)
        total.promised_near += len(must & near)
        total.arrived_near += len(must & near & found)
        total.unpromised += len(found - must) + again
    return total


def _sample(dice: Random, items: Sequence[T], most: int | None) -> Sequence[T]:
    return items if most is None or len(items) <= most else dice.sample(items, most)


def _visibility_entries(case: Case, way: str) -> int:
    """Two filters for each border whose sides a broker knows (⊤ needs no knowing); with `scoped` every broker has all of them."""
    borders = [(sub, super_) for sub, super_ in SUPERSCOPES.items() if super_ != TOP or case.crossed]
    if way == OURS:
        return 2 * len(borders) * len(case.dimensions) * len(case.federation.ids)
    return sum(
        2
        for knows in case.known.values()
        for scopes in knows.values()
        for sub, super_ in borders
        if sub in scopes and (super_ == TOP or super_ in scopes)
    )
