"""Everything mixed, for property tests: types, topics, ids, filters, quality, geofences of all kinds, scopes, clients that
move, change their node, leave and come back, subscriptions that are updated, taken back or expire.

One thing is done at a time, `gap_ms` apart, so that a federation can settle in between; expiry falls in the middle of a gap.
What must be done in one go (coming to a node and saying where one is now) has the same time. Names are few, so that things
meet.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Final

from hanse.model import (
    WORLD,
    Advertisement,
    Circle,
    Geofence,
    InvalidInput,
    Location,
    Notification,
    Polygon,
    Selector,
    Subscription,
)
from hanse.routing.messages import Advertise, Attach, Detach, Locate, Publish, Request, Subscribe, Unadvertise, Unsubscribe
from hanse.simulation.actions import Action
from hanse.simulation.workloads.base import Load, Workload, client_names
from hanse.simulation.workloads.positions import FIELD_DEG, Areas

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hanse.routing.federation import Federation

TYPES: Final = ("Room", "Vehicle", "Ship")
TOPICS: Final = ("temperature", "traffic")
ENTITIES_PER_TYPE = 4
NAMES_PER_CLIENT = 4  # of subscriptions, and of advertisements
QUERIES: Final = (
    "temperature>20",
    "temperature>=10;temperature<25",
    "open==true",
    'name=="a"|name=="b"',
    "speed",
    "speed<50;temperature>0",
)
QUALITIES: Final = ("accuracy>=0.5", "freshness<=60", "accuracy>=0.3;freshness<=90")
DEEDS: Final = {
    "publish": 44,
    "subscribe": 22,
    "locate": 11,
    "unsubscribe": 6,
    "advertise": 4,
    "unadvertise": 2,
    "hand over": 7,
    "detach": 4,
}


def mixed(
    load: Load,
    *,
    gap_ms: int = 1000,
    known: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
    hand_overs: bool = True,
    field_deg: float = FIELD_DEG,
) -> Workload:
    """As many actions as gaps fit into the duration, after all clients have come. `known`: the scopes that each node knows, by
    dimension; without it, no scopes are stated. `hand_overs`: whether clients change from one node to another.
    """
    if gap_ms < 2:
        raise InvalidInput(f"the gap between actions is 2 ms or more, not {gap_ms}")
    if unknown := next((node for node in known or {} if node not in load.federation.by_id), None):
        raise InvalidInput(f"the known scopes name {unknown!r}, which is no node")
    maker = _Maker(load.federation, known or {}, gap_ms, field_deg, Random(load.seed))
    for node, client in client_names(load.federation, load.clients):
        maker.come(client, node)
    deeds = [deed for deed in DEEDS if hand_overs or deed != "hand over"]
    weights = [DEEDS[deed] for deed in deeds]
    for deed in maker.random.choices(deeds, weights, k=load.duration_ms // gap_ms):
        maker.do(deed)
    return Workload("random", load.federation, maker.actions, "everything mixed, one action at a time")


class _Maker:
    def __init__(
        self,
        federation: Federation,
        known: Mapping[str, Mapping[str, Sequence[str]]],
        gap_ms: int,
        field_deg: float,
        random: Random,
    ) -> None:
        self.federation = federation
        self.known = known
        self.gap_ms = gap_ms
        self.areas = Areas(federation, field_deg=field_deg)
        self.random = random
        self.actions: list[Action] = []
        self.now_ms = 0
        self.published = 0
        self.clients: list[str] = []
        self.node_of: dict[str, str | None] = {}
        self.home_of: dict[str, str] = {}
        self.place_of: dict[str, Location | None] = {}
        self.subscriptions: dict[str, set[str]] = {}
        self.advertisements: dict[str, dict[str, Advertisement]] = {}

    def come(self, client: str, node: str) -> None:
        """A new client, or one that comes back, with nothing but one advertisement of everything."""
        if client not in self.home_of:
            self.clients.append(client)
            self.home_of[client] = node
        self.node_of[client] = node
        self.place_of[client] = None
        self.subscriptions[client] = set()
        self.advertisements[client] = {}
        self._add(client, Attach(client))
        if self.random.random() < 0.8:  # the others say later where they are, or never
            self._locate(client)
        advertisement = Advertisement(id=f"{client}/all", client=client, scopes=self._scopes(node))
        self.advertisements[client][advertisement.id] = advertisement
        self._add(client, Advertise(advertisement))
        self.now_ms += self.gap_ms

    def do(self, deed: str) -> None:
        client = self.random.choice(self.clients)
        node = self.node_of[client]
        if node is None:
            self.come(client, self.home_of[client])
            return
        if deed == "publish":
            self._publish(client)
        elif deed == "subscribe":
            self._subscribe(client, node)
        elif deed == "locate":
            self._locate(client)
        elif deed == "unsubscribe" and self.subscriptions[client]:
            id_ = self.random.choice(sorted(self.subscriptions[client]))
            self.subscriptions[client].discard(id_)
            self._add(client, Unsubscribe(client, id_))
        elif deed == "advertise":
            self._advertise(client, node)
        elif deed == "unadvertise" and self.advertisements[client]:
            id_ = self.random.choice(sorted(self.advertisements[client]))
            del self.advertisements[client][id_]
            self._add(client, Unadvertise(client, id_))
        elif deed == "hand over" and len(self.federation.ids) > 1:
            self.node_of[client] = self.random.choice(self.federation.others[node])
            self._add(client, Attach(client, previous=node))
            if self.place_of[client] is not None:
                self._locate(client)
        elif deed == "detach":
            self._add(client, Detach(client))
            self.node_of[client] = None
        else:
            self._publish(client)
        self.now_ms += self.gap_ms

    def _add(self, client: str, do: Request) -> None:
        node = self.node_of[client]
        assert node is not None
        self.actions.append(Action(self.now_ms, node, client, do))

    def _locate(self, client: str) -> None:
        node = self.node_of[client]
        assert node is not None
        location = self.areas.draw(node, self.random)
        self.place_of[client] = location
        self._add(client, Locate(client, location))

    def _advertise(self, client: str, node: str) -> None:
        random = self.random
        advertisement = Advertisement(
            id=f"{client}/a{random.randrange(NAMES_PER_CLIENT)}",
            client=client,
            selectors=self._selectors(),
            q=random.choice(QUERIES) if random.random() < 0.2 else "",
            quality=random.choice(QUALITIES) if random.random() < 0.2 else "",
            scopes=self._scopes(node),
        )
        self.advertisements[client][advertisement.id] = advertisement
        self._add(client, Advertise(advertisement))

    def _subscribe(self, client: str, node: str) -> None:
        random = self.random
        subscription = Subscription(
            id=f"{client}/s{random.randrange(NAMES_PER_CLIENT)}",
            client=client,
            selectors=self._selectors(),
            attributes=("temperature",) if random.random() < 0.1 else (),
            q=random.choice(QUERIES) if random.random() < 0.3 else "",
            quality=random.choice(QUALITIES) if random.random() < 0.2 else "",
            geofence=self._geofence(self.place_of[client]),
            scopes=self._scopes(node),
            expires_at_ms=self.now_ms + random.randrange(1, 30) * self.gap_ms + self.gap_ms // 2
            if random.random() < 0.15
            else None,
        )
        self.subscriptions[client].add(subscription.id)
        self._add(client, Subscribe(subscription))

    def _publish(self, client: str) -> None:
        random = self.random
        own = self.advertisements[client]
        advertisement = own[random.choice(sorted(own))] if own and random.random() < 0.9 else None
        type_ = random.choice(TYPES)
        about = random.random()
        attributes: dict[str, Any] = {"temperature": random.randrange(-5, 36)}
        if random.random() < 0.5:
            attributes |= {"open": random.random() < 0.5, "name": random.choice("abc")}
        if random.random() < 0.3:
            attributes["speed"] = random.randrange(120)
        place = self.place_of[client]
        self.published += 1
        notification = Notification(
            id=f"{client}#{self.published}",
            publisher=client,
            topic=random.choice(TOPICS) if about < 0.4 else None,
            types=(type_,) if about > 0.3 else (),
            entity=f"{type_}:{random.randrange(ENTITIES_PER_TYPE)}" if about > 0.3 else None,
            attributes=attributes,
            quality={"accuracy": round(random.random(), 2), "freshness": float(random.randrange(120))}
            if random.random() < 0.6
            else {},
            location=place,
            geofence=self._geofence(place),
            scopes=advertisement.scopes if advertisement is not None else {},
            advertisement=advertisement.id if advertisement is not None else None,
            published_at_ms=self.now_ms,
        )
        self._add(client, Publish(notification))

    def _selectors(self) -> tuple[Selector, ...]:
        random = self.random
        kind, type_ = random.random(), random.choice(TYPES)
        if kind < 0.35:
            return ()
        if kind < 0.65:
            return (Selector(type=type_),)
        if kind < 0.75:
            return (Selector(topic=random.choice(TOPICS)),)
        if kind < 0.85:
            return (Selector(id=f"{type_}:{random.randrange(ENTITIES_PER_TYPE)}"),)
        if kind < 0.92:
            return (Selector(type=type_, id_pattern="[02]$"),)
        return (Selector(type=type_), Selector(topic=random.choice(TOPICS)))

    def _scopes(self, node: str) -> dict[str, str]:
        """At most one scope in each dimension, of those that the node knows."""
        random = self.random
        return {d: random.choice(scopes) for d, scopes in self.known.get(node, {}).items() if scopes and random.random() < 0.7}

    def _geofence(self, place: Location | None) -> Geofence:
        random = self.random
        kind = random.random()
        if kind < 0.45:
            return WORLD
        if place is None or random.random() < 0.4:
            place = self.areas.draw(random.choice(self.federation.ids), random)
        if kind < 0.8:
            return Circle(place.lat, place.lon, random.choice((0.5, 3.0, 10.0, 40.0, 120.0)))
        return _box(place, random.choice((1.0, 5.0, 20.0, 50.0)))


def _box(place: Location, half_deg: float) -> Polygon:
    """A box in latitude and longitude around the place, also across the date line; cut off at the poles."""
    south, north = max(-90.0, place.lat - half_deg), min(90.0, place.lat + half_deg)
    west, east = ((lon + 180.0) % 360.0 - 180.0 for lon in (place.lon - half_deg, place.lon + half_deg))
    return Polygon(((((west, south), (east, south), (east, north), (west, north), (west, south)),),))
