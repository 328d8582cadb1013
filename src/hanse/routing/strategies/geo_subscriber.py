"""DisGB E: a notification is matched near its subscribers, by every broker whose area its geofence touches.

A subscriber is normally in the area of its home. One that is elsewhere is made known as a guest to the owner of the place
where it is, which passes on what the guest might want and its home would not get otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from hanse.model import Location, World
from hanse.routing import messages as m
from hanse.routing.strategies.base import Strategy, StrategyState

if TYPE_CHECKING:
    from collections.abc import Callable

    from hanse.model import Notification, Subscription
    from hanse.routing.broker import Broker
    from hanse.routing.state import Client


class Visitor(Struct, frozen=True):
    home: str
    location: Location


class State(StrategyState):
    guests: dict[str, Visitor] = field(default_factory=dict)  # in this area, at home elsewhere
    announced: dict[str, str] = field(default_factory=dict)  # own clients that are elsewhere, and whose guests they are


class GeoSubscriber(Strategy):
    name = "geo-subscriber"

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.state: State = State()
        self.areas = broker.settings.areas

    def handlers(self) -> dict[type, Callable[[Any, str], None]]:
        return {m.Guest: self.guest}

    def subscription_targets(self, subscription: Subscription) -> tuple[str, ...]:  # noqa: ARG002
        return ()

    def located(self, client: Client, place: m.ClientLocation) -> None:  # noqa: ARG002
        name, location = place.client, place.location
        host = self.areas.owner(location.lat, location.lon) if location is not None else self.broker.id
        before = self.state.announced.get(name)
        if before is not None and before != host:
            self.left(name)
        if host != self.broker.id:
            self.state.announced[name] = host
            self.broker.send((host,), m.Guest(name, self.broker.id, location))

    def left(self, name: str) -> None:
        host = self.state.announced.pop(name, None)
        if host is not None:
            self.broker.send((host,), m.Guest(name, self.broker.id, None))

    def guest(self, guest: m.Guest, _sender: str) -> None:
        guests = self.state.guests
        if guest.location is not None:
            guests[guest.client] = Visitor(guest.home, guest.location)
        elif guest.client in guests and guests[guest.client].home == guest.home:
            del guests[guest.client]

    def published(self, notification: Notification) -> None:
        broker = self.broker
        broker.deliver_here(notification, broker.id)
        touched = self.areas.touched(notification.geofence)
        broker.send([node for node in touched if node != broker.id], m.Event(notification, broker.id))
        if self.state.guests:
            self._tell_hosts_of_guests(notification, broker.id)

    def event(self, event: m.Event, _sender: str) -> None:
        self.broker.deliver_here(event.notification, event.home)
        if self.state.guests and not event.forwarded:
            self._tell_hosts_of_guests(event.notification, event.home)

    def _tell_hosts_of_guests(self, notification: Notification, home: str) -> None:
        geofence = notification.geofence
        if isinstance(geofence, World):
            return  # everyone gets it anyway
        reached = {home, self.broker.id, *self.areas.touched(geofence)}
        homes = dict.fromkeys(
            guest.home
            for guest in self.state.guests.values()
            if guest.home not in reached and geofence.contains(guest.location.lat, guest.location.lon)
        )
        self.broker.send(tuple(homes), m.Event(notification, home, forwarded=True))

    def told(self) -> dict[str, dict[str, tuple[str, m.BrokerMessage]]]:
        told: dict[str, dict[str, tuple[str, m.BrokerMessage]]] = {}
        for name, host in self.state.announced.items():
            location = self.broker.index.location(name)
            told.setdefault(host, {})[name] = (str(location), m.Guest(name, self.broker.id, location))
        return told

    def heard(self, source: str) -> dict[str, str]:
        return {name: str(guest.location) for name, guest in self.state.guests.items() if guest.home == source}

    def untell(self, other: str, key: str, version: str) -> None:  # noqa: ARG002
        self.broker.send((other,), m.Guest(key, self.broker.id, None))
