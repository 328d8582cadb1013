"""What a strategy is: the same hooks in the same order for all of them, so that one can read across.

A strategy answers where things go. `subscribed`, `unsubscribed`, `located` and `published` are about this broker's own clients;
`put`, `drop` and `event` are about what other brokers send. The default is the simplest pattern: a subscription is also held at
`subscription_targets`, and the locations of its client go there too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from hanse.routing import messages as m
from hanse.routing.state import Held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hanse.model import Advertisement, Notification, Subscription
    from hanse.routing.broker import Broker
    from hanse.routing.state import Client


class StrategyState(Struct):
    """What a strategy must remember over a restart; most remember nothing of their own."""


class Strategy:
    name: ClassVar[str]
    obeys_export_rules: ClassVar[bool] = False  # keeps to the rules by its own way of routing
    matches_at_home: ClassVar[bool] = False  # where it is published a notification is matched for all, in the form each may see

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.others = broker.federation.others[broker.id]
        self.state: Any = StrategyState()

    def handlers(self) -> dict[type, Callable[[Any, str], None]]:
        """Messages that only this strategy knows."""
        return {}

    # --- this broker's own clients ----------------------------------------------------------------------------------

    def subscription_targets(self, subscription: Subscription) -> tuple[str, ...]:
        """The other brokers where a subscription is matched."""
        raise NotImplementedError

    def subscribed(self, held: Held, old: Held | None) -> None:  # noqa: ARG002
        broker = self.broker
        subscription = held.subscription
        targets = self.subscription_targets(subscription)
        before = broker.placed.get(subscription.id, ())
        former = [node for node in before if node not in targets] if before else ()
        if targets:
            broker.placed[subscription.id] = targets
            broker.send(targets, self.put_message(held))
        elif before:
            del broker.placed[subscription.id]
        if former:
            self.withdraw(former, held)

    def put_message(self, held: Held) -> m.PutSubscription:
        """One of this broker's own, for others to hold; with its client's place, unless everyone has that already."""
        place = None if self.broker.settings.flood_locations else self.broker.place_of(held.subscription.client)
        return m.PutSubscription(held.subscription, held.home, held.version, place, "", held.since_ms)

    def withdraw(self, former: Iterable[str], held: Held) -> None:
        """Take an earlier version of a subscription away from brokers that need not hold it any more."""
        self.broker.send(tuple(former), m.DropSubscription(held.subscription.id, held.version, ended=False))

    def unsubscribed(self, subscription: Subscription, version: int) -> None:
        self.broker.send(self.broker.placed.get(subscription.id, ()), m.DropSubscription(subscription.id, version))

    def released(self, subscription: Subscription) -> None:
        """A subscription that went with its client is not needed here any more."""

    def located(self, client: Client, place: m.ClientLocation) -> None:
        if self.broker.settings.flood_locations:
            return  # everyone has it already
        placed = self.broker.placed
        targets = dict.fromkeys(node for id_ in client.subscriptions for node in placed.get(id_, ()))
        self.broker.send(tuple(targets), place)

    def left(self, name: str) -> None:
        """A client is not here any more."""

    def advertised(self, advertisement: Advertisement) -> None:
        pass

    def unadvertised(self, advertisement: Advertisement) -> None:
        pass

    def published(self, notification: Notification) -> None:
        raise NotImplementedError

    def providers(self, query: m.Query) -> tuple[str, ...]:  # noqa: ARG002
        """Who to ask: everyone, where nobody says what they have."""
        return self.others

    # --- what other brokers send ------------------------------------------------------------------------------------

    def put(self, put: m.PutSubscription, _sender: str) -> None:
        self.hold(put)

    def hold(self, put: m.PutSubscription) -> bool:
        """Hold a copy of a subscription, unless a newer one was here; whether it is held now."""
        broker = self.broker
        id_ = put.subscription.id
        broker.heard_version(put.version)
        held = broker.held.get(id_)
        if held is not None:
            if held.version > put.version or (held.version == put.version and held.home == broker.id):
                return False
        elif (ended := broker.state.tombstones.get(id_)) is not None and ended >= put.version:
            broker.send((put.home,), m.Outdated(id_, ended))
            return False
        broker.index.add(put.subscription)
        broker.hold(Held(put.subscription, put.home, put.version, put.since_ms))
        if put.place is not None:
            broker.place(put.place)
        return True

    def drop(self, drop: m.DropSubscription, _sender: str) -> None:
        broker = self.broker
        held = broker.held.get(drop.id)
        if held is None or (held.version <= drop.version and held.home != broker.id):
            if drop.ended:
                broker.forget(drop.id, drop.version)
            else:
                broker.let_go(drop.id)

    def event(self, event: m.Event, sender: str) -> None:
        raise NotImplementedError

    def settle(self) -> None:
        """The federation may have changed: own subscriptions are to be held where they belong now; digests see to it."""
        broker = self.broker
        if type(self).subscription_targets is Strategy.subscription_targets:
            return
        for id_, held in broker.held.items():
            if held.home == broker.id and held.subscription.client in broker.clients:  # and not what one that went on left here
                targets = self.subscription_targets(held.subscription)
                if targets:
                    broker.placed[id_] = targets
                else:
                    broker.placed.pop(id_, None)

    # --- operators, time, repair ------------------------------------------------------------------------------------

    def joined(self, dimension: str, scope: str) -> None:
        """An operator keeps this node in a scope area; only scoped routing has areas."""

    def left_scope(self, dimension: str, scope: str) -> None:
        pass

    def borders_change(self) -> None:
        """A visibility filter is about to change."""

    def tick(self) -> None:
        pass

    def peers(self) -> Iterable[str]:
        """Those to compare digests with."""
        return self.others

    def told(self) -> dict[str, dict[str, tuple[str, m.BrokerMessage]]]:
        """For each broker what it should hold of ours: key, version, and the message that would say so again."""
        broker = self.broker
        told: dict[str, dict[str, tuple[str, m.BrokerMessage]]] = {}
        for id_, targets in broker.placed.items():
            held = broker.held[id_]
            put = self.put_message(held)
            place = put.place
            for target in targets:
                told.setdefault(target, {})[id_] = (f"{held.version} {place.version if place else 0}", put)
        if broker.settings.flood_locations:
            for name in broker.clients:
                if (place := broker.state.locations.get(name)) is not None and place.home == broker.id:
                    for target in self.others:
                        told.setdefault(target, {})[_at(name)] = (str(place.version), place)
        return told

    def heard(self, source: str) -> dict[str, str]:
        """What is held here of that broker's, in the same form."""
        broker = self.broker
        heard = {
            id_: f"{held.version} {place.version if (place := broker.state.locations.get(held.subscription.client)) else 0}"
            for id_, held in broker.held.items()
            if held.home == source
        }
        if broker.settings.flood_locations:
            heard |= {_at(name): str(place.version) for name, place in broker.state.locations.items() if place.home == source}
        return heard

    def untell(self, other: str, key: str, version: str) -> None:
        """Another broker holds something of ours that is not true any more."""
        if key.startswith("\n"):
            return  # a client that has gone elsewhere; its new home says where it is
        self.broker.send((other,), m.DropSubscription(key, int(version.split(maxsplit=1)[0]), ended=False))


def _at(client: str) -> str:
    """A client's place among the keys of a digest; a new line in front, which no subscription's id has."""
    return f"\nat {client}"
