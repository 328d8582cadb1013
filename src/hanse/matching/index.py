"""An index of subscriptions: which of them does a notification satisfy?"""

from __future__ import annotations

from collections.abc import Iterator

from hanse.matching.meaning import satisfies
from hanse.model import Location, Notification, Selector, Subscription


class MatchIndex:
    def __init__(self) -> None:
        self._subscriptions: dict[str, Subscription] = {}
        self._locations: dict[str, Location] = {}
        self._partitions: dict[tuple[str, str], dict[str, Subscription]] = {}

    def __len__(self) -> int:
        return len(self._subscriptions)

    def __iter__(self) -> Iterator[Subscription]:
        return iter(self._subscriptions.values())

    def get(self, subscription_id: str) -> Subscription | None:
        return self._subscriptions.get(subscription_id)

    def add(self, subscription: Subscription) -> None:
        self.remove(subscription.id)
        self._subscriptions[subscription.id] = subscription
        for key in _keys(subscription):
            self._partitions.setdefault(key, {})[subscription.id] = subscription

    def remove(self, subscription_id: str) -> Subscription | None:
        subscription = self._subscriptions.pop(subscription_id, None)
        if subscription is not None:
            for key in _keys(subscription):
                partition = self._partitions[key]
                del partition[subscription_id]
                if not partition:
                    del self._partitions[key]
        return subscription

    def move(self, client: str, location: Location | None) -> None:
        if location is None:
            self._locations.pop(client, None)
        else:
            self._locations[client] = location

    def location(self, client: str) -> Location | None:
        return self._locations.get(client)

    def match(self, notification: Notification, publisher_location: Location | None) -> list[Subscription]:
        keys = [("", ""), ("topic", notification.topic or ""), ("id", notification.entity or "")]
        keys += [("type", kind) for kind in notification.types]
        found: dict[str, Subscription] = {}
        for key in keys:
            for subscription in self._partitions.get(key, {}).values():
                if satisfies(subscription, notification, publisher_location, self._locations.get(subscription.client)):
                    found[subscription.id] = subscription
        return list(found.values())


def _keys(subscription: Subscription) -> set[tuple[str, str]]:
    return {_key(selector) for selector in subscription.selectors} or {("", "")}


def _key(selector: Selector) -> tuple[str, str]:
    for kind, value in (("topic", selector.topic), ("id", selector.id), ("type", selector.type)):
        if value is not None:
            return kind, value
    return "", ""
