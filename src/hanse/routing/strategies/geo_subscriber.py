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
    location: Location | None  # None: gone, and remembered for a while against what was said earlier and comes later
    version: int


class State(StrategyState):
    guests: dict[str, Visitor] = field(default_factory=dict)  # in this area, at home elsewhere
    announced: dict[str, tuple[str, int]] = field(
        default_factory=dict
    )  # own clients elsewhere: whose guests, since which version


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
        if before is not None and before[0] != host:
            self.left(name)
        if host != self.broker.id:
            self.state.announced[name] = (host, place.version)
            self.broker.send((host,), m.Guest(name, self.broker.id, location, place.version))

    def settle(self) -> None:
        for name, client in self.broker.clients.items():
            place = self.broker.state.locations.get(name)
            if place is not None and place.home == self.broker.id and place.location is not None:
                host = self.areas.owner(place.location.lat, place.location.lon)
                if host != self.state.announced.get(name, (self.broker.id, 0))[0]:
                    self.located(client, place)

    def left(self, name: str) -> None:
        announced = self.state.announced.pop(name, None)
        if announced is not None:
            host, version = announced
            self.broker.send((host,), m.Guest(name, self.broker.id, None, version))

    def guest(self, guest: m.Guest, _sender: str) -> None:
        known = self.state.guests.get(guest.client)
        if known is None or known.version <= guest.version:
            self.state.guests[guest.client] = Visitor(guest.home, guest.location, guest.version)

    def tick(self) -> None:
        long_ago = self.broker.now_ms - self.broker.settings.handover_grace_ms  # versions follow the time
        for name, guest in list(self.state.guests.items()):
            if guest.location is None and guest.version < long_ago:
                del self.state.guests[name]

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
            if guest.location is not None
            and guest.home not in reached
            and geofence.contains(guest.location.lat, guest.location.lon)
        )
        self.broker.send(tuple(homes), m.Event(notification, home, forwarded=True))

    def told(self) -> dict[str, dict[str, tuple[str, m.BrokerMessage]]]:
        told = super().told()
        for name, (host, version) in self.state.announced.items():
            guest = m.Guest(name, self.broker.id, self.broker.index.location(name), version)
            told.setdefault(host, {})[f"\nguest {name}"] = (str(version), guest)
        return told

    def heard(self, source: str) -> dict[str, str]:
        guests = self.state.guests.items()
        mine = {f"\nguest {name}": str(g.version) for name, g in guests if g.home == source and g.location is not None}
        return super().heard(source) | mine

    def untell(self, other: str, key: str, version: str) -> None:
        if key.startswith("\nguest "):
            self.broker.send((other,), m.Guest(key[len("\nguest ") :], self.broker.id, None, int(version)))
        else:
            super().untell(other, key, version)
