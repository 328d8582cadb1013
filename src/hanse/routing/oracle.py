"""The meaning of delivery, by brute force: who gets a notification, whatever the strategy.

A world is what clients have said so far, seen from above: no brokers, no messages, no time but `now_ms`. Every strategy, the
index and the live federation are held to `receivers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from hanse.filters import compile_quality
from hanse.matching.meaning import passes_q, passes_xpath, satisfies, selects
from hanse.scopes import Scopes

if TYPE_CHECKING:
    from hanse.model import Advertisement, Location, Notification, Subscription
    from hanse.routing.federation import Federation
    from hanse.routing.policy import Policy


class World(Struct):
    federation: Federation
    scopes: Scopes = field(default_factory=Scopes)
    now_ms: int = 0
    homes: dict[str, str] = field(default_factory=dict)  # client -> node
    locations: dict[str, Location] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    advertisements: dict[tuple[str, str], Advertisement] = field(default_factory=dict)  # client, id
    require_advertisements: bool = False
    policies: dict[str, Policy] = field(default_factory=dict)  # of nodes, each over what is published at it

    def copy(self) -> World:
        """As it is now, whatever comes."""
        dicts = {name: dict(getattr(self, name)) for name in ("homes", "locations", "subscriptions", "advertisements")}
        return msgspec.structs.replace(self, scopes=Scopes.from_struct(self.scopes.to_struct()), **dicts)

    def receivers(self, notification: Notification) -> set[str]:
        """The subscriptions that get a notification published now."""
        published = self.published(notification)
        if published is None:
            return set()
        return {s.id for s in self.subscriptions.values() if self.reaches(published, s)}

    def published(self, notification: Notification) -> Notification | None:
        """As its node accepts it, with its publisher's place and the scopes of its advertisement; None: it is refused."""
        scopes = notification.scopes
        if notification.advertisement is not None or self.require_advertisements:
            advertisement = self.advertisements.get((notification.publisher, notification.advertisement or ""))
            if advertisement is None or not self.allows(advertisement, notification):
                return None
            scopes = advertisement.scopes
        where = notification.location or self.locations.get(notification.publisher)
        return msgspec.structs.replace(notification, location=where, scopes=scopes)

    def allows(self, advertisement: Advertisement, notification: Notification) -> bool:
        """Advertised: active, of these entities, with this content, in these scopes, and of the guaranteed quality."""
        return (
            (advertisement.expires_at_ms is None or advertisement.expires_at_ms > self.now_ms)
            and selects(advertisement.selectors, notification)
            and passes_q(advertisement.q, notification)
            and notification.scopes in ({}, advertisement.scopes)
            and compile_quality(advertisement.quality).matches(notification.quality)
            and passes_xpath(advertisement.xpath, notification)
        )

    def reaches(self, published: Notification, subscription: Subscription) -> bool:
        """Policy; content, quality and both geo checks of what that leaves; visibility in every dimension; and not expired."""
        view = self.view(published, subscription)
        return (
            view is not None
            and (subscription.expires_at_ms is None or subscription.expires_at_ms > self.now_ms)
            and satisfies(subscription, view, view.location, self.locations.get(subscription.client))
            and self.scopes.visible(view.scopes, subscription.scopes, view.attributes)
        )

    def view(self, published: Notification, subscription: Subscription) -> Notification | None:
        """What is left of it where the subscriber is: all that it gets, and all that filters go by."""
        return self.seen_at(self.homes[published.publisher], self.homes[subscription.client], published)

    def seen_at(self, source: str, target: str, published: Notification) -> Notification | None:
        """What a node may see of what is published at another: first by the policy there, then by export rules on the way."""
        allowed = self.allowed(source, target, published)
        return None if allowed is None else self.federation.exported(source, target, allowed)

    def allowed(self, source: str, target: str, published: Notification) -> Notification | None:
        """What the policy of the publisher's node leaves of it for another node."""
        policy = self.policies.get(source) if source != target else None
        return published if policy is None else policy.view(target, published)
