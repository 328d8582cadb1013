"""Every subscription is held by every broker; a notification is matched at home and goes where it has subscribers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.routing.strategies.base import Strategy

if TYPE_CHECKING:
    from hanse.model import Notification, Subscription
    from hanse.routing import messages as m


class FloodSubscriptions(Strategy):
    name = "flood-subscriptions"
    matches_at_home = True

    def subscription_targets(self, subscription: Subscription) -> tuple[str, ...]:  # noqa: ARG002
        return self.others

    def published(self, notification: Notification) -> None:
        self.broker.deliver_everywhere(notification, self.broker.id)

    def event(self, event: m.Event, _sender: str) -> None:
        """None is ever sent: notifications are matched where they are published."""
