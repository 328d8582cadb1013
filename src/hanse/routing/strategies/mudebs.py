"""The routing of the muDEBS paper as its text has it, to compare with: for studies, not for production (that is `scoped`).

Subscriptions flood over *all* links. A broker passes on the first copy that it gets and counts on nothing else, so that without
scopes a call costs 2E - (N - 1) messages, the second copies included. Which scopes a broker knows is fixed beforehand (a
projection: `Settings.known_scopes`). A subscription that states scopes carries with it, in each dimension that it states, the
scopes that it has come to, and enters a neighbour only if that one knows, in all these dimensions, where it may go next
(`Settings.admission`):
- `upward`: the scope where it is, or else a superscope of that. The reading that comes nearest to the paper's figure 4;
- `updown`: up and then down, over as many borders as the broker knows. What delivery to sibling scopes needs.
A scope that no broker at all knows stands for the paper's ⊤: to state it restricts nothing, and nobody climbs to it. The model
has no filter between a root and ⊤, the paper has; with such a scope above the roots, the filter stands there.

A notification goes back along the ways that the subscriptions came by: at every broker it is matched again, visibility included,
and leaves once for each neighbour that leads to a subscriber, except the one that it came from; a copy that comes later by
another way is a message, too, but ends there. `every_path` says what counts as a way: the first copy of a subscription alone, or
each of its copies, which makes more messages and brings no notification to anyone else.

Clients stay where they are, and links lose nothing: there is neither hand-over nor repair. Hence it is not among `STRATEGIES`,
only among what is `STUDIED`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import msgspec
from msgspec import field

from hanse.matching.meaning import lies_in
from hanse.model import WORLD, InvalidInput, World
from hanse.routing import messages as m
from hanse.routing.recent import remember
from hanse.routing.settings import EVENTS_SEEN_KEPT
from hanse.routing.strategies.base import Strategy, StrategyState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from hanse.model import Notification, Subscription
    from hanse.routing.broker import Broker
    from hanse.routing.state import Client, Held
    from hanse.scopes import ScopeGraph

Place: TypeAlias = tuple[str, bool]  # a scope, and whether the way there has gone down already
Standing: TypeAlias = dict[str, tuple[Place, ...]]  # by dimension: where a subscription has come to
Step: TypeAlias = "Callable[[ScopeGraph, Iterable[Place], Collection[str]], tuple[Place, ...]]"


class PutOnPath(m.PutSubscription, frozen=True, tag=True, gc=False):
    """A subscription on its way, with the scopes that it has come to."""

    standing: Standing = field(default_factory=dict)


class State(StrategyState):
    senders: dict[str, list[str]] = field(default_factory=dict)  # by subscription: who sent a copy, the first one first
    seen: dict[tuple[str, str], None] = field(default_factory=dict)


def upward(graph: ScopeGraph, places: Iterable[Place], known: Collection[str]) -> tuple[Place, ...]:
    """Where a subscription is at a broker that knows these scopes: where it was, else one border further up; else nowhere."""
    places = tuple(places)
    kept = tuple(place for place in places if place[0] in known)
    above = dict.fromkeys((parent, False) for scope, _ in places for parent in graph.parents(scope) if parent in known)
    return kept or tuple(above)


def up_then_down(graph: ScopeGraph, places: Iterable[Place], known: Collection[str]) -> tuple[Place, ...]:
    """The same, up and then down: one border to come in, and then all that this broker knows on both sides."""
    found: dict[Place, None] = {}
    waiting: list[Place] = []
    for scope, down in places:
        waiting += [(scope, down), *_next(graph, (scope, down))]
    while waiting:
        place = waiting.pop()
        if place[0] in known and place not in found:
            found[place] = None
            waiting += _next(graph, place)
    return tuple(sorted(found))


def _next(graph: ScopeGraph, place: Place) -> list[Place]:
    scope, down = place
    below = [(child, True) for child in graph.children(scope)]
    return below if down else [*below, *((parent, False) for parent in graph.parents(scope))]


ADMISSIONS: dict[str, Step] = {"upward": upward, "updown": up_then_down}


class MuDebs(Strategy):
    name = "mudebs-paper"
    every_path: ClassVar[bool] = False

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.state: State = State()
        self.neighbours = broker.federation.neighbours[broker.id]
        settings = broker.settings
        if settings.admission not in ADMISSIONS:
            raise InvalidInput(f"there is no admission {settings.admission!r}; take one of {', '.join(ADMISSIONS)}")
        self._step = ADMISSIONS[settings.admission]
        self._known = settings.known_scopes
        self._somewhere = {(d, scope) for node in self._known.values() for d, scopes in node.items() for scope in scopes}

    def handlers(self) -> dict[type, Callable[[Any, str], None]]:
        return {PutOnPath: self.receive}

    # --- which way ----------------------------------------------------------------------------------------------------

    def known(self, node: str, dimension: str) -> Collection[str]:
        if not self._known:
            return self.broker.scopes.graphs[dimension].scopes()
        return self._known.get(node, {}).get(dimension, ())

    def enter(self, node: str, standing: Standing) -> Standing | None:
        """Where a subscription stands once it is at a node; None if it may not enter."""
        entered: Standing = {}
        for dimension, places in standing.items():
            there = self._step(self.broker.scopes.graphs[dimension], places, self.known(node, dimension))
            if not there:
                return None
            entered[dimension] = there
        return entered

    def start(self, subscription: Subscription) -> Standing:
        """At its own broker, which counts as knowing the scopes that its clients state."""
        here: Standing = {}
        for dimension, scope in subscription.scopes.items():
            if not self._known or (dimension, scope) in self._somewhere:
                known = {scope, *self.known(self.broker.id, dimension)}
                here[dimension] = self._step(self.broker.scopes.graphs[dimension], [(scope, False)], known)
        return here

    def _flood(self, held: Held, standing: Standing, sender: str) -> None:
        for node in self.neighbours:
            if node != sender and (there := self.enter(node, standing)) is not None:
                self.broker.send((node,), PutOnPath(held.subscription, held.home, held.version, standing=there))

    # --- this broker's own clients ------------------------------------------------------------------------------------

    def subscribed(self, held: Held, old: Held | None) -> None:
        subscription = held.subscription
        if old is not None and old.subscription.scopes != subscription.scopes:
            self.broker.send(self.neighbours, m.DropSubscription(subscription.id, old.version))
        self._flood(held, self.start(subscription), "")

    def unsubscribed(self, subscription: Subscription, version: int) -> None:
        self.broker.send(self.neighbours, m.DropSubscription(subscription.id, version))

    def located(self, client: Client, place: m.ClientLocation) -> None:
        """Nobody else needs it: a subscriber's home compares its location with the geofence of a notification."""

    def published(self, notification: Notification) -> None:
        self._route(notification, self.broker.id, "")

    # --- what other brokers send --------------------------------------------------------------------------------------

    def receive(self, put: PutOnPath, sender: str) -> None:
        id_ = put.subscription.id
        held = self.broker.held.get(id_)
        if held is not None and held.version == put.version:
            if held.home != self.broker.id:
                self.state.senders[id_].append(sender)
            return
        if not self.hold(put):
            return
        self.state.senders[id_] = [sender]
        self._flood(self.broker.held[id_], put.standing, sender)

    def drop(self, drop: m.DropSubscription, sender: str) -> None:
        broker = self.broker
        held = broker.held.get(drop.id)
        if held is None:
            broker.forget(drop.id, drop.version)
        elif held.home != broker.id and held.version <= drop.version:
            self.state.senders.pop(drop.id, None)
            broker.forget(drop.id, drop.version)
            broker.send([node for node in self.neighbours if node != sender], drop)

    def event(self, event: m.Event, sender: str) -> None:
        if event.notification.key not in self.state.seen:
            self._route(event.notification, event.home, sender)

    def _route(self, notification: Notification, home: str, sender: str) -> None:
        broker = self.broker
        remember(self.state.seen, notification.key, None, EVENTS_SEEN_KEPT)
        anywhere = notification
        if not isinstance(notification.geofence, World):
            anywhere = msgspec.structs.replace(notification, geofence=WORLD)
        hops: dict[str, None] = {}
        for subscription in broker.match(anywhere):
            if broker.held[subscription.id].home == broker.id:
                if lies_in(broker.index.location(subscription.client), notification.geofence):
                    broker.deliver(subscription, notification, home)
            elif self.every_path:
                hops.update(dict.fromkeys(self.state.senders[subscription.id]))
            else:
                hops[self.state.senders[subscription.id][0]] = None
        hops.pop(sender, None)
        broker.send(tuple(hops), m.Event(notification, home))

    # --- repair: none ---------------------------------------------------------------------------------------------------

    def peers(self) -> Iterable[str]:
        return ()

    def told(self) -> dict[str, dict[str, tuple[str, m.BrokerMessage]]]:
        return {}


class MuDebsEveryPath(MuDebs):
    name = "mudebs-paper-every-path"
    every_path = True
