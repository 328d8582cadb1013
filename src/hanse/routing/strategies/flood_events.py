"""Every notification goes to every broker, which matches it for its own clients. Subscriptions stay at home."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.routing import messages as m
from hanse.routing.strategies.base import Strategy

if TYPE_CHECKING:
    from hanse.model import Notification, Subscription


class FloodEvents(Strategy):
    name = "flood-events"

    def subscription_targets(self, subscription: Subscription) -> tuple[str, ...]:  # noqa: ARG002
        return ()

    def published(self, notification: Notification) -> None:
        self.broker.deliver_here(notification, self.broker.id)
        self.broker.send(self.others, m.Event(notification, self.broker.id))

    def event(self, event: m.Event, _sender: str) -> None:
        self.broker.deliver_here(event.notification, event.home)
