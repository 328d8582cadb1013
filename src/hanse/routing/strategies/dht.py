"""Consistent hashing: the topic or type of a notification names the one broker where it is matched.

A subscription is held by the brokers that its topics or types are hashed to; one that names none by all brokers. A
notification with several names is matched at several brokers, and what two of them find is delivered once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.routing import messages as m
from hanse.routing.strategies.base import Strategy

if TYPE_CHECKING:
    from hanse.model import Notification, Subscription


class Dht(Strategy):
    name = "dht"

    def subscription_targets(self, subscription: Subscription) -> tuple[str, ...]:
        hashed, here = self.broker.settings.hashed, self.broker.id
        targets: dict[str, None] = {}
        for selector in subscription.selectors:
            key = selector.topic or selector.type
            if key is None:
                return self.others
            targets[hashed(key)] = None
        if not targets:
            return self.others
        targets.pop(here, None)
        return tuple(targets)

    def published(self, notification: Notification) -> None:
        broker = self.broker
        keys = notification.types if notification.topic is None else (notification.topic, *notification.types)
        targets = dict.fromkeys(map(broker.settings.hashed, keys)) if keys else {broker.id: None}
        if broker.id in targets:
            del targets[broker.id]
            broker.deliver_everywhere(notification, broker.id)
        broker.send(tuple(targets), m.Event(notification, broker.id))

    def event(self, event: m.Event, _sender: str) -> None:
        self.broker.deliver_everywhere(event.notification, event.home)
