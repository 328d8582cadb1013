"""The index: subscriptions in, and for each notification those that it satisfies.

Subscriptions are parted by exact keys: the topic of a selector, else its id, else its type, else none; one with several
selectors is filed under several keys. So most events touch a few small partitions, or none. A partition with few subscriptions
tests them one by one (`few`). One that outgrows `few_max` becomes columns (`many`): there each subscription is found by the
most telling thing it asks (`access`), and the candidates are tested all at once. Both mean `satisfies`, exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.matching.clients import Clients
from hanse.matching.entry import ANY, Key, check, keys_of
from hanse.matching.event import Event, Vocabulary
from hanse.matching.few import Few
from hanse.matching.many import Many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hanse.model import Location, Notification, Subscription

FEW_MAX = 32


class MatchIndex:
    """Not for several threads at once."""

    def __init__(self, few_max: int = FEW_MAX) -> None:
        self._few_max = few_max
        self._subscriptions: dict[str, Subscription] = {}
        self._clients = Clients()
        self._vocabulary = Vocabulary()
        self._topics: dict[str, Few | Many] = {}
        self._ids: dict[str, Few | Many] = {}
        self._types: dict[str, Few | Many] = {}
        self._any: dict[str, Few | Many] = {}
        self._members = {"topic": self._topics, "id": self._ids, "type": self._types, ANY[0]: self._any}

    def __len__(self) -> int:
        return len(self._subscriptions)

    def __iter__(self) -> Iterator[Subscription]:
        return iter(self._subscriptions.values())

    def get(self, subscription_id: str) -> Subscription | None:
        return self._subscriptions.get(subscription_id)

    def add(self, subscription: Subscription) -> None:
        """File it, in place of one with the same id. A wrong filter or pattern raises InvalidInput and changes nothing."""
        check(subscription)
        old = self._subscriptions.get(subscription.id)
        if old is not None and old.selectors != subscription.selectors:
            self.remove(old.id)
        self._subscriptions[subscription.id] = subscription
        for (member, value), rest in keys_of(subscription).items():
            partitions = self._members[member]
            partition = partitions.get(value)
            if partition is None:
                partition = partitions[value] = Few(self._clients)
            partition.add(subscription, rest)
            if partition.__class__ is Few and len(partition) > self._few_max:
                partitions[value] = self._to_many(partition)

    def remove(self, subscription_id: str) -> Subscription | None:
        subscription = self._subscriptions.pop(subscription_id, None)
        if subscription is None:
            return None
        for member, value in keys_of(subscription):
            partitions = self._members[member]
            partition = partitions[value]
            partition.remove(subscription_id)
            if not len(partition):
                del partitions[value]
            elif isinstance(partition, Many) and len(partition) < self._few_max // 2:
                partitions[value] = self._to_few((member, value), partition)
        return subscription

    def _to_many(self, few: Few) -> Many:
        many = Many(self._vocabulary, self._clients)
        for entry in few.entries():
            many.add(entry.subscription, entry.selectors)
        return many

    def _to_few(self, key: Key, many: Many) -> Few:
        few = Few(self._clients)
        for subscription in many.subscriptions():
            few.add(subscription, keys_of(subscription)[key])
            many.remove(subscription.id)
        return few

    def move(self, client: str, location: Location | None) -> None:
        """Say where a subscriber is; None: nobody knows. It need not have subscriptions, now or ever."""
        self._clients.move(client, location)

    def location(self, client: str) -> Location | None:
        return self._clients.locations.get(client)

    def match(self, notification: Notification, publisher_location: Location | None) -> list[Subscription]:
        """The subscriptions it satisfies, each once; the order depends on nothing but the calls made before."""
        partitions: list[Few | Many] = []
        if notification.topic in self._topics:
            partitions.append(self._topics[notification.topic])
        if notification.entity in self._ids:
            partitions.append(self._ids[notification.entity])
        for kind in notification.types:
            if kind in self._types:
                partitions.append(self._types[kind])
        if self._any:
            partitions.append(self._any[ANY[1]])
        if not partitions:
            return []
        event = Event(notification, publisher_location)
        if len(partitions) == 1:
            return partitions[0].match(event)
        found = {subscription.id: subscription for partition in partitions for subscription in partition.match(event)}
        return list(found.values())
