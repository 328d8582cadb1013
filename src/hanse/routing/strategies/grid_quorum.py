"""Grid quorum (GQPS): brokers stand in a grid; subscriptions and notifications go to the own row and column.

A row and a column always meet, so that some broker sees both. It tells the subscriber's home if that one stands in its
column and the notification came along its row, or the other way round; the home of a subscriber in the publisher's own row
or column has the notification itself. Usually two brokers see both, and the second copy is dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.routing import messages as m
from hanse.routing.strategies.base import Strategy

if TYPE_CHECKING:
    from hanse.model import Notification, Subscription
    from hanse.routing.broker import Broker


class GridQuorum(Strategy):
    name = "grid-quorum"

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        rows = broker.settings.grid_rows
        here = next(row for row in rows if broker.id in row)
        column = here.index(broker.id)
        self.row = tuple(node for node in here if node != broker.id)
        self.column = tuple(row[column] for row in rows if column < len(row) and row[column] != broker.id)
        self.quorum = (*self.row, *self.column)

    def subscription_targets(self, subscription: Subscription) -> tuple[str, ...]:  # noqa: ARG002
        return self.quorum

    def published(self, notification: Notification) -> None:
        self.broker.deliver_here(notification, self.broker.id)
        self.broker.send(self.quorum, m.Event(notification, self.broker.id))

    def event(self, event: m.Event, _sender: str) -> None:
        across = self.column if event.home in self.row else self.row
        self.broker.deliver_everywhere(event.notification, event.home, only=across)
