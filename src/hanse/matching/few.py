"""A partition with few subscriptions: a plain dictionary, tested one by one.

Most partitions of most nodes are like this, and simulators have thousands of them, so nothing here allocates more than an entry.
The distance to a circle is `half_chord_squared` of the model, with the same operations in the same order, split into the part
that is known when a subscription comes, the part that is known when an event comes, and the rest.
"""

from __future__ import annotations

from math import radians, sin
from typing import TYPE_CHECKING

from hanse.matching.entry import Entry
from hanse.model import World

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hanse.matching.clients import Clients
    from hanse.matching.event import Event
    from hanse.model import Selector, Subscription


class Few:
    __slots__ = ("_clients", "_entries")

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._entries: dict[str, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> Iterable[Entry]:
        return self._entries.values()

    def add(self, subscription: Subscription, selectors: tuple[Selector, ...]) -> None:
        self._entries[subscription.id] = Entry(subscription, selectors)

    def remove(self, subscription_id: str) -> None:
        del self._entries[subscription_id]

    def match(self, event: Event) -> list[Subscription]:
        found: list[Subscription] = []
        notification, place = event.notification, event.place
        lat, lon, cos_lat = event.lat, event.lon, event.cos_lat
        fence = notification.geofence
        everywhere = fence.__class__ is World
        locations = self._clients.locations
        for entry in self._entries.values():
            if entry.geofence is not None:
                if place is None:
                    continue
                if entry.h_max >= 0.0:
                    s = sin(radians(lat - entry.lat) / 2)
                    t = sin(radians(lon - entry.lon) / 2)
                    if s * s + entry.cos_lat * cos_lat * t * t > entry.h_max:
                        continue
                elif not entry.geofence.contains(lat, lon):
                    continue
            subscription = entry.subscription
            if not everywhere:
                location = locations.get(subscription.client)
                if location is None or not fence.contains(location.lat, location.lon):
                    continue
            if entry.test is None or entry.test.passes(notification):
                found.append(subscription)
        return found
