"""Whose part it is, in each strategy, to tell another broker of a subscription or a notification that no export rule restricts.

What a strategy does is in `strategies`; here is what of it others can check, from the description of the federation alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hanse.model import World

if TYPE_CHECKING:
    from hanse.model import Notification
    from hanse.routing import messages as m
    from hanse.routing.guard import Trip
    from hanse.routing.settings import Settings


class Speakers:
    """Unless said otherwise: homes place their subscriptions at other brokers, and nobody sends events."""

    obeys_export_rules: ClassVar[bool] = False
    matches_at_home: ClassVar[bool] = False  # where it is published, a notification is matched for all
    places: ClassVar[bool] = True  # subscriptions are held elsewhere than at home

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def put(self, put: m.PutSubscription, trip: Trip) -> str:
        if not self.places:
            return f"no subscription leaves its home in {self.settings.strategy}"
        if put.home != trip.speaker and not self.carries(put.home, trip):
            return f"{trip.speaker} places a subscription in the name of {put.home}"
        return ""

    def carries(self, home: str, trip: Trip) -> bool:  # noqa: ARG002
        """Whether the speaker passes subscriptions of another home on."""
        return False

    def drop(self, drop: m.DropSubscription, trip: Trip) -> str:  # noqa: ARG002
        return "" if self.places else f"no subscription leaves its home in {self.settings.strategy}"

    def event(self, event: m.Event, trip: Trip) -> str:
        speaker, goal = trip.speaker, trip.goal
        if event.seek or (event.forwarded and not isinstance(self, GeoSubscriber)):
            return f"events neither seek areas nor guests in {self.settings.strategy}"
        if goal in self.told(event, speaker):
            return ""
        return f"{speaker} is not the one who tells {goal} of an event of {event.home}"

    def told(self, event: m.Event, speaker: str) -> tuple[str, ...]:  # noqa: ARG002
        """Whom a broker may tell of an event."""
        return ()

    def delivery(self, delivery: m.Delivery, trip: Trip) -> str:
        if self.matches(delivery.notification, delivery.home, trip):
            return ""
        return f"{trip.speaker} does not match for {trip.goal} what is published at {delivery.home}"

    def matches(self, notification: Notification, home: str, trip: Trip) -> bool:  # noqa: ARG002
        """Whether the speaker is where a notification is matched for the goal's clients; most strategies match at homes."""
        return False


class FloodEvents(Speakers):
    places = False

    def told(self, event: m.Event, speaker: str) -> tuple[str, ...]:
        return self.settings.federation.others[speaker] if speaker == event.home else ()


class FloodSubscriptions(Speakers):
    matches_at_home = True

    def matches(self, notification: Notification, home: str, trip: Trip) -> bool:  # noqa: ARG002
        return trip.speaker == home


class Advertised(FloodSubscriptions):
    obeys_export_rules = True


class GeoSubscriber(Speakers):
    places = False

    def told(self, event: m.Event, speaker: str) -> tuple[str, ...]:
        geofence = event.notification.geofence
        touched = self.settings.areas.touched(geofence)
        if not event.forwarded:
            return tuple(touched) if speaker == event.home else ()
        if isinstance(geofence, World) or speaker not in {event.home, *touched}:
            return ()
        return self.settings.federation.others[speaker]


class GeoPublisher(Speakers):
    def _owner(self, notification: Notification, home: str) -> str:
        place = notification.location
        return home if place is None else self.settings.areas.owner(place.lat, place.lon)

    def told(self, event: m.Event, speaker: str) -> tuple[str, ...]:
        if self.settings.match_known_locations:
            return self.settings.federation.others[speaker]
        return (self._owner(event.notification, event.home),) if speaker == event.home else ()

    def matches(self, notification: Notification, home: str, trip: Trip) -> bool:
        return self.settings.match_known_locations or trip.speaker == self._owner(notification, home)


class Dht(Speakers):
    def _owners(self, notification: Notification, home: str) -> tuple[str, ...]:
        keys = notification.types if notification.topic is None else (notification.topic, *notification.types)
        return tuple(map(self.settings.hashed, keys)) or (home,)

    def told(self, event: m.Event, speaker: str) -> tuple[str, ...]:
        return self._owners(event.notification, event.home) if speaker == event.home else ()

    def matches(self, notification: Notification, home: str, trip: Trip) -> bool:
        return trip.speaker in self._owners(notification, home)


class GridQuorum(Speakers):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        rows = settings.grid_rows
        self.row = {node: row for row in rows for node in row}
        self.column = {
            node: tuple(other[i] for other in rows if i < len(other)) for row in rows for i, node in enumerate(row)
        }  # each with the node itself

    def told(self, event: m.Event, speaker: str) -> tuple[str, ...]:
        return (*self.row[speaker], *self.column[speaker]) if speaker == event.home else ()

    def matches(self, notification: Notification, home: str, trip: Trip) -> bool:  # noqa: ARG002
        speaker = trip.speaker
        if speaker == home or (home not in self.row[speaker] and home not in self.column[speaker]):
            return False
        return trip.goal in (self.column[speaker] if home in self.row[speaker] else self.row[speaker])


class BroadcastGroups(Speakers):
    def carries(self, home: str, trip: Trip) -> bool:
        return trip.goal == self.settings.cloud and self.settings.leader_of.get(home) == trip.speaker

    def told(self, event: m.Event, speaker: str) -> tuple[str, ...]:
        settings = self.settings
        leader_of, cloud, home = settings.leader_of, settings.cloud, event.home
        if speaker == cloud:
            return tuple(leader for leader in leader_of.values() if leader != leader_of.get(home))
        group = settings.group_of[speaker]
        if speaker == home:
            return (*group.members, cloud if group.leader == speaker else group.leader)
        if group.leader != speaker:
            return ()
        return (cloud,) if leader_of.get(home) == speaker else group.members


class Scoped(Speakers):
    """Hop by hop along the trees of areas. A subscription comes from where its home is in the tree."""

    def _above(self, node: str, region: str) -> str | None:
        anchor = self.settings.anchor(region)
        return None if node == anchor else self.settings.federation.next_hop(node, anchor)

    def _joined(self, a: str, b: str, region: str) -> bool:
        return self._above(a, region) == b or self._above(b, region) == a

    def _towards(self, here: str, home: str, region: str) -> str | None:
        """The next node from here to a home, within the tree."""
        node, before = home, None
        while node != here:
            above = self._above(node, region)
            if above is None:  # the home is not below this node
                return self._above(here, region)
            before, node = node, above
        return before

    def put(self, put: m.PutSubscription, trip: Trip) -> str:
        if not trip.is_next_door or self._towards(trip.here, put.home, put.region) != trip.sender:
            return f"a subscription of {put.home} does not come to {trip.here} from {trip.sender} in the area {put.region!r}"
        return ""

    def drop(self, drop: m.DropSubscription, trip: Trip) -> str:
        if not trip.is_next_door or not self._joined(trip.sender, trip.here, drop.region):
            return f"{trip.sender} and {trip.here} are not next to each other in the area {drop.region!r}"
        return ""

    def event(self, event: m.Event, trip: Trip) -> str:
        if not trip.is_next_door or event.forwarded:
            return "events go from neighbour to neighbour where areas are"
        if any(self._above(trip.sender, region) != trip.here for region in event.seek):
            return f"{trip.here} is not on the way from {trip.sender} to the areas that an event seeks"
        return ""


class Anyone(Speakers):
    """A paper's own routing, for studies: nobody is held to anything."""

    def carries(self, home: str, trip: Trip) -> bool:  # noqa: ARG002
        return True

    def event(self, event: m.Event, trip: Trip) -> str:  # noqa: ARG002
        return ""


SPEAKERS: dict[str, type[Speakers]] = {
    "flood-events": FloodEvents,
    "flood-subscriptions": FloodSubscriptions,
    "geo-subscriber": GeoSubscriber,
    "geo-publisher": GeoPublisher,
    "dht": Dht,
    "grid-quorum": GridQuorum,
    "broadcast-groups": BroadcastGroups,
    "scoped": Scoped,
    "advertised": Advertised,
    "mudebs-paper": Anyone,
    "mudebs-paper-every-path": Anyone,
}
