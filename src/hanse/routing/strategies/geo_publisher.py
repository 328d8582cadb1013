"""DisGB S: a notification is matched near its publisher, by the broker whose area the publisher is in.

A subscription is held by every broker whose area its geofence touches. One whose geofence has moved on is also told to the
brokers that it leaves, which then forget it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.model import World
from hanse.routing import messages as m
from hanse.routing.strategies.base import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hanse.model import Notification, Subscription
    from hanse.routing.broker import Broker
    from hanse.routing.state import Held


class GeoPublisher(Strategy):
    name = "geo-publisher"

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.areas = broker.settings.areas

    def subscription_targets(self, subscription: Subscription) -> tuple[str, ...]:
        if isinstance(subscription.geofence, World):
            return self.others
        return tuple(node for node in self.areas.touched(subscription.geofence) if node != self.broker.id)

    def withdraw(self, former: Iterable[str], held: Held) -> None:
        self.broker.send(tuple(former), self.put_message(held))

    def put(self, put: m.PutSubscription, _sender: str) -> None:
        geofence = put.subscription.geofence
        if isinstance(geofence, World) or self.broker.id in self.areas.touched(geofence):
            self.hold(put)
        else:
            self.drop(m.DropSubscription(put.subscription.id, put.version, ended=False), "")

    def published(self, notification: Notification) -> None:
        broker = self.broker
        location = broker.publisher_location(notification)
        owner = broker.id if location is None else self.areas.owner(location.lat, location.lon)
        if owner == broker.id:
            broker.deliver_everywhere(notification, broker.id)
        else:
            broker.send((owner,), m.Event(notification, broker.id))

    def event(self, event: m.Event, _sender: str) -> None:
        self.broker.deliver_everywhere(event.notification, event.home)
