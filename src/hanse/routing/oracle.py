"""The meaning of delivery, by brute force: who gets a notification, whatever the strategy.

A world is what clients have said so far, seen from above: no brokers, no messages, no time but `now_ms`. Every strategy, the
index and the live federation are held to `receivers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from hanse.filters import compile_quality
from hanse.matching.meaning import passes_q, satisfies, selects
from hanse.scopes import Scopes

if TYPE_CHECKING:
    from hanse.model import Advertisement, Location, Notification, Subscription
    from hanse.routing.federation import Federation


class World(Struct):
    federation: Federation
    scopes: Scopes = field(default_factory=Scopes)
    now_ms: int = 0
    homes: dict[str, str] = field(default_factory=dict)  # client -> node
    locations: dict[str, Location] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    advertisements: dict[tuple[str, str], Advertisement] = field(default_factory=dict)  # client, id
    require_advertisements: bool = False

    def copy(self) -> World:
        """As it is now, whatever comes."""
        dicts = {name: dict(getattr(self, name)) for name in ("homes", "locations", "subscriptions", "advertisements")}
        return msgspec.structs.replace(self, scopes=Scopes.from_struct(self.scopes.to_struct()), **dicts)

    def receivers(self, notification: Notification) -> set[str]:
        """The subscriptions that get a notification published now."""
        scopes = dict(notification.scopes)
        if notification.advertisement is not None or self.require_advertisements:
            advertisement = self.advertisements.get((notification.publisher, notification.advertisement or ""))
            if advertisement is None or not self.allows(advertisement, notification):
                return set()
            scopes = advertisement.scopes
        return {s.id for s in self.subscriptions.values() if self.reaches(notification, scopes, s)}

    def allows(self, advertisement: Advertisement, notification: Notification) -> bool:
        """Advertised: active, of these entities, with this content, in these scopes, and of the guaranteed quality."""
        return (
            (advertisement.expires_at_ms is None or advertisement.expires_at_ms > self.now_ms)
            and selects(advertisement.selectors, notification)
            and passes_q(advertisement.q, notification)
            and notification.scopes in ({}, advertisement.scopes)
            and compile_quality(advertisement.quality).matches(notification.quality)
        )

    def reaches(self, notification: Notification, scopes: dict[str, str], subscription: Subscription) -> bool:
        """Content, quality and both geo checks; visibility in every dimension; policy; and not expired."""
        publisher, subscriber = notification.publisher, subscription.client
        where = notification.location or self.locations.get(publisher)
        return (
            (subscription.expires_at_ms is None or subscription.expires_at_ms > self.now_ms)
            and satisfies(subscription, notification, where, self.locations.get(subscriber))
            and self.scopes.visible(scopes, subscription.scopes, notification.attributes)
            and self.federation.may_hear(self.homes[publisher], self.homes[subscriber], notification)
        )
