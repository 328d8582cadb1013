"""Who is where, wants what and says what in the smart port: random, seeded, and told to the oracle as well.

A `Workload` makes the requests, as a client would send them, and tells the oracle's `World` the same. `live` sends them.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from hanse.model import WORLD, Advertisement, Location, Notification, Selector, Subscription, geofence_from_geojson
from hanse.model.ports import free_ports
from hanse.ngsild import operations
from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import DEFAULT_VOCAB, Change, Entity, now_text
from hanse.ngsild.geofences import event_geofence, place
from hanse.ngsild.parsing import parse_entity, parse_fragment
from hanse.ngsild.subscriptions import NgsiSubscription, core_subscription, fires, parse_subscription, subscriber_location
from hanse.node.federation.description import Description, read_file
from hanse.node.federation.knowledge import Knowledge
from hanse.routing.oracle import World
from tests.telling import notification_of

SMART_PORT: Final = Path("examples/smart-port/federation.toml")
TYPES: Final = ("Person", "Camera", "Driver", "Building", "Alert", "Vehicle", "Ferry")
SCOPES: Final = ("heraklion", "harbour", "town", "quay", "gate")
CLOUD: Final = "fire"  # of broadcast groups, where nobody may be a client
GROUPS: Final = [["port", "port-a", "port-b"], ["bus", "bus-buildings", "bus-transport"]]
CHARACTERISATION: Final = """
title = "A port and its town"
[[viewpoints]]
name = "geography"
[[viewpoints.dimensions]]
name = "area"
scales = ["region", "district", "place"]
scopes = [
    { name = "heraklion", scale = "region" },
    { name = "harbour", scale = "district", parents = [{ name = "heraklion", out = "level>=3" }] },
    { name = "town", scale = "district", parents = ["heraklion"] },
    { name = "quay", scale = "place", parents = ["harbour"] },
    { name = "gate", scale = "place", parents = ["harbour", { name = "town", into = "level<7" }] },
]
"""
QS: Final = ("", "", "", "level>4", "level<=6", "level==2..7", 'name=="a"', "!name", "level!=3")
_WEST, _EAST, _SOUTH, _NORTH = 25.125, 25.155, 35.330, 35.350


def describe(folder: Path, strategy: str, protocol: str = "tcp") -> tuple[Path, dict[tuple[str, str], tuple[int, int]]]:
    """The smart port at free ports, each link through a proxy; for each link the port of the proxy, and of the node behind it."""
    described = tomllib.loads((Path(__file__).parents[2] / SMART_PORT).read_text())
    terms = described["federation"] | {"strategy": strategy, "characterisation": "scopes.toml"}
    if strategy == "broadcast-groups":
        terms |= {"cloud": CLOUD, "groups": GROUPS}
    nodes, links = described["nodes"], described["links"]
    ports = free_ports(2 * len(nodes) + len(links))
    at: dict[str, int] = {}
    for node in nodes:
        node["http"] = f"127.0.0.1:{ports.pop()}"
        at[node["id"]] = ports.pop()
        node["listen"] = f"{protocol}/127.0.0.1:{at[node['id']]}"
    proxies: dict[tuple[str, str], tuple[int, int]] = {}
    for link in links:
        a, b = link["between"]
        proxies[a, b] = ports.pop(), at[b]
        link["via"] = f"{protocol}/127.0.0.1:{proxies[a, b][0]}"
    file = folder / "federation.toml"
    sections = {"federation": terms, "nodes": nodes, "links": links}
    file.write_text("\n".join(f"{name} = {_toml(value)}" for name, value in sections.items()))
    (folder / "scopes.toml").write_text(CHARACTERISATION)
    return file, proxies


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(inner)}" for name, inner in value.items()) + "}"
    return f"[{', '.join(map(_toml, value))}]" if isinstance(value, list) else msgspec.json.encode(value).decode()


def world_of(file: Path) -> World:
    """The oracle of a described federation, before anyone has said anything."""
    described = read_file(file)
    description = Description(described, described.nodes[0].id, file.parent)
    knowledge = Knowledge(described.nodes[0].id, description.terms, None)
    for record in description.records():
        knowledge.describe(record)
    world = World(knowledge.federation(), description.scopes())
    for node in described.nodes:
        world.homes[_publisher(node.id)] = node.id
    return world


class Request(Struct, frozen=True):
    """One call of a node's HTTP interface."""

    node: str
    method: str
    path: str
    body: Any = None


class Publication(Struct):
    """Something that was said, and who has to hear of it: the keys of subscriptions."""

    key: str
    request: Request
    receivers: frozenset[str]
    after: Entity | None = None  # of an entity: as it is then
    acknowledged: bool = False
    stored: bool | None = None  # None: nobody can tell


class Entities(Struct):
    """What one writer has made at its node, as far as it knows."""

    node: str
    there: dict[str, Entity] = field(default_factory=dict)
    made: int = 0


class Workload:
    def __init__(self, file: Path, strategy: str, seed: int, endpoint: str) -> None:
        self.world = world_of(file)
        self.dice = Random(f"{seed}/{strategy}")
        self._endpoint = endpoint
        self.nodes = [node.id for node in read_file(file).nodes if strategy != "broadcast-groups" or node.id != CLOUD]
        self.writers = [Entities(node) for node in self.nodes]
        self.clients: list[str] = []
        self._ngsi: dict[str, tuple[str, NgsiSubscription]] = {}  # by key: its node
        self._count = 0

    # --- what is put in place before a round ---------------------------------------------------------------------------

    def arrive(self) -> list[Request]:
        """Two clients at each node, one of them with a place."""
        requests = []
        for node in self.nodes:
            for i in range(2):
                name = f"{node}.{i}"
                self.world.homes[name] = node
                self.clients.append(name)
                body: dict[str, Any] = {"endpoint": f"{self._endpoint}/native/{name}"}
                if i:
                    body["location"] = self._place(name)
                requests.append(Request(node, "PUT", f"/hanse/v1/clients/{name}", body))
        return requests

    def settle(self, subscriptions: int) -> list[Request]:
        """Some go away, more come, some say anew where they are, and some move to another node with all that they have."""
        dice = self.dice
        requests = [self._withdraw(key) for key in list(self.world.subscriptions) if dice.random() < 0.2]
        requests += [self._ngsi_subscribe() if dice.random() < 0.4 else self._subscribe() for _ in range(subscriptions)]
        for name in dice.sample(self.clients, 3):
            body = self._place(name)
            requests.append(Request(self.world.homes[name], "PUT", f"/hanse/v1/clients/{name}/location", body))
        requests += [self._advertise(name) for name in dice.sample(self.clients, 2)]
        return requests + [self._move(name) for name in dice.sample(self.clients, 2)]

    def _move(self, client: str) -> Request:
        previous = self.world.homes[client]
        node = self.dice.choice([node for node in self.nodes if node != previous])
        self.world.homes[client] = node
        body: dict[str, Any] = {"endpoint": f"{self._endpoint}/native/{client}", "previous": previous}
        if self.dice.random() < 0.5:
            body["location"] = self._place(client)
        return Request(node, "PUT", f"/hanse/v1/clients/{client}", body)

    def _place(self, client: str) -> dict[str, float]:
        where = self._location()
        self.world.locations[client] = where
        return {"lat": where.lat, "lon": where.lon}

    def _location(self) -> Location:
        return Location(round(self.dice.uniform(_SOUTH, _NORTH), 5), round(self.dice.uniform(_WEST, _EAST), 5))

    def _geofence(self) -> dict[str, Any]:
        if self.dice.random() < 0.4:
            where = self._location()
            return {"type": "Point", "coordinates": [where.lon, where.lat], "radius": self.dice.choice((300, 900, 2000))}
        (west, east), (south, north) = sorted(self._span(_WEST, _EAST)), sorted(self._span(_SOUTH, _NORTH))
        return {"type": "Polygon", "coordinates": [[[west, south], [east, south], [east, north], [west, north], [west, south]]]}

    def _span(self, low: float, high: float) -> tuple[float, float]:
        middle = round(self.dice.uniform(low, high), 5)
        return round(middle - self.dice.uniform(0.001, 0.02), 5), round(middle + self.dice.uniform(0.001, 0.02), 5)

    def _number(self) -> int:
        self._count += 1
        return self._count

    def _subscribe(self) -> Request:
        dice = self.dice
        client, id_ = dice.choice(self.clients), f"s{self._number()}"
        types = dice.sample(TYPES, dice.randint(0, 3))
        types = [DEFAULT_VOCAB + name if dice.random() < 0.5 else name for name in types]
        body: dict[str, Any] = {"selectors": [{"type": name} for name in types], "q": _by_uri(dice, dice.choice(QS))}
        fence = self._geofence() if dice.random() < 0.35 else None
        if fence is not None:
            body["geofence"] = fence
        if dice.random() < 0.3:
            body["scopes"] = {"area": dice.choice(SCOPES)}
        if dice.random() < 0.15:
            body["quality"] = "precision>=4"
        self.world.subscriptions[id_] = Subscription(
            id=id_,
            client=client,
            selectors=tuple(Selector(type=name) for name in types),
            q=body["q"],
            quality=body.get("quality", ""),
            geofence=WORLD if fence is None else geofence_from_geojson(fence),
            scopes=body.get("scopes", {}),
        )
        return Request(self.world.homes[client], "PUT", f"/hanse/v1/clients/{client}/subscriptions/{id_}", body)

    def _ngsi_subscribe(self) -> Request:
        dice = self.dice
        node, id_ = dice.choice(self.nodes), f"urn:ngsi-ld:Subscription:{self._number()}"
        types = dice.sample(TYPES, dice.randint(1, 3))
        uri = f"{self._endpoint}/ngsi-ld/{id_}"
        body: dict[str, Any] = {
            "id": id_,
            "type": "Subscription",
            "entities": [{"type": name} for name in types],
            "notification": {"format": "keyValues", "endpoint": {"uri": uri, "accept": "application/json"}},
        }
        if dice.random() < 0.5:
            body["notificationTrigger"] = ["entityCreated", "entityUpdated", "entityDeleted"]
        if q := dice.choice(QS):
            body["q"] = q
        if dice.random() < 0.3:
            body["geoQ"] = {"georel": "within", "geometry": "Polygon", "coordinates": self._polygon()["coordinates"]}
        if dice.random() < 0.5:
            where = self._location()
            body["subscriberLocation"] = {"type": "Point", "coordinates": [where.lon, where.lat]}
        parsed = parse_subscription(body, CORE, now_text())
        core = core_subscription(parsed)
        self.world.subscriptions[id_] = core
        self.world.homes[core.client] = node
        if (place_ := subscriber_location(parsed)) is not None:
            self.world.locations[core.client] = place_
        self._ngsi[id_] = node, parsed
        return Request(node, "POST", "/ngsi-ld/v1/subscriptions", body)

    def _withdraw(self, key: str) -> Request:
        gone = self.world.subscriptions.pop(key)
        node = self.world.homes[gone.client]
        if key in self._ngsi:
            del self._ngsi[key]
            return Request(node, "DELETE", f"/ngsi-ld/v1/subscriptions/{key}")
        return Request(node, "DELETE", f"/hanse/v1/clients/{gone.client}/subscriptions/{key}")

    def _advertise(self, client: str) -> Request:
        dice, id_ = self.dice, "all"
        types = dice.sample(TYPES, 2)
        scopes = {"area": dice.choice(SCOPES)} if dice.random() < 0.5 else {}
        selectors = tuple(Selector(type=name) for name in types)
        self.world.advertisements[client, id_] = Advertisement(id=id_, client=client, selectors=selectors, scopes=scopes)
        body = {"selectors": [{"type": name} for name in types], "scopes": scopes}
        return Request(self.world.homes[client], "PUT", f"/hanse/v1/clients/{client}/advertisements/{id_}", body)

    # --- what is said during a round -------------------------------------------------------------------------------------

    def publish(self, client: str) -> Publication:
        dice, id_ = self.dice, f"n{self._number()}"
        body: dict[str, Any] = {"id": id_, "attributes": {"level": dice.randint(0, 9)}}
        if dice.random() < 0.3:
            body["attributes"]["name"] = dice.choice("ab")
        advertised = self.world.advertisements.get((client, "all"))
        if advertised is not None and dice.random() < 0.5:
            body |= {"advertisement": "all", "types": [dice.choice(advertised.selectors).type]}
        else:
            body["types"] = dice.sample(TYPES, 2 if dice.random() < 0.1 else 1)
            if dice.random() < 0.3:
                body["scopes"] = {"area": dice.choice(SCOPES)}
        where = self._location() if dice.random() < 0.5 else None
        if where is not None:
            body["location"] = {"lat": where.lat, "lon": where.lon}
        fence = self._geofence() if dice.random() < 0.25 else None
        if fence is not None:
            body["geofence"] = fence
        if dice.random() < 0.5:
            body["quality"] = {"precision": float(dice.randint(0, 8))}
        notification = Notification(
            id=id_,
            publisher=client,
            types=tuple(body["types"]),
            attributes=body["attributes"],
            quality=body.get("quality", {}),
            location=where,
            geofence=WORLD if fence is None else geofence_from_geojson(fence),
            scopes=body.get("scopes", {}),
            advertisement=body.get("advertisement"),
        )
        receivers = self.world.receivers(notification) - set(self._ngsi)  # which hear of entities only
        request = Request(self.world.homes[client], "POST", f"/hanse/v1/clients/{client}/notifications", body)
        return Publication(f"{client} {id_}", request, frozenset(receivers))

    def write(self, writer: Entities) -> Publication:
        """An entity is made, changed or deleted; `confirm` has to say what became of it."""
        dice, now, serial = self.dice, now_text(), self._number()
        attributes: dict[str, Any] = {"level": _property(dice.randint(0, 9)), "serial": _property(serial)}
        if not writer.there or dice.random() < 0.4:
            writer.made += 1
            id_ = f"urn:ngsi-ld:{writer.node}:{writer.made}"
            where = self._location()
            body = {"id": id_, "type": dice.choice(TYPES), **attributes}
            if dice.random() < 0.7:
                body["location"] = {"type": "GeoProperty", "value": {"type": "Point", "coordinates": [where.lon, where.lat]}}
            if dice.random() < 0.2:
                body["eventGeofence"] = {"type": "GeoProperty", "value": self._polygon()}
            change = operations.create(parse_entity(body, CORE, now), now)
            request = Request(writer.node, "POST", "/ngsi-ld/v1/entities", body)
        else:
            id_ = dice.choice(sorted(writer.there))
            entity = writer.there[id_]
            if dice.random() < 0.2:
                change = operations.delete(entity, now)
                request = Request(writer.node, "DELETE", f"/ngsi-ld/v1/entities/{id_}")
            else:
                changed = operations.update(entity, parse_fragment(attributes, CORE, now), now).change
                assert changed is not None
                change = changed
                request = Request(writer.node, "PATCH", f"/ngsi-ld/v1/entities/{id_}/attrs", attributes)
        what = "deleted" if change.kind == "deleted" else str(serial)
        return Publication(f"{id_} {what}", request, self._hearers(change, writer.node), change.after)

    def _polygon(self) -> dict[str, Any]:
        while (fence := self._geofence())["type"] != "Polygon":
            pass
        return fence

    def _hearers(self, change: Change, node: str) -> frozenset[str]:
        attributes = change.entity.attributes
        notification = notification_of(
            change, id_="1", publisher=_publisher(node), location=place(attributes), geofence=event_geofence(attributes)
        )
        reached = self.world.receivers(notification)
        return frozenset(key for key in reached if key not in self._ngsi or fires(self._ngsi[key][1], change, 0))


def confirm(writer: Entities, publication: Publication) -> None:
    """What was written is stored, or it is not: the writer goes on from there."""
    id_ = publication.key.partition(" ")[0]
    if publication.stored:
        if publication.after is None:
            del writer.there[id_]
        else:
            writer.there[id_] = publication.after


def _publisher(node: str) -> str:
    return f"urn:hanse:node:{node}"


def _property(value: int) -> dict[str, Any]:
    return {"type": "Property", "value": value}


def _by_uri(dice: Random, q: str) -> str:
    """Of what a native client subscribes to, attributes of entities have long names: some ask for these."""
    return q.replace("level", f"{DEFAULT_VOCAB}level") if dice.random() < 0.3 else q


# --- what arrived -------------------------------------------------------------------------------------------------------


def heard(path: str, body: bytes) -> tuple[str, str, str]:
    """From a letter: the subscription that it is for, what it tells of, and its own id, if it has one."""
    letter = msgspec.json.decode(body)
    if path.startswith("/ngsi-ld/"):
        (entity,) = letter["data"]
        what = "deleted" if "deletedAt" in entity else str(entity["serial"])
        return letter["subscriptionId"], f"{entity['id']} {what}", letter["id"]
    key = f"{letter['publisher']} {letter['id']}"
    if "entity" in letter:
        (serial,) = letter["attributes"][DEFAULT_VOCAB + "serial"]
        what = "deleted" if "entityDeleted" in letter["news"] else str(serial["value"])
        key = f"{letter['entity']} {what}"
    return letter["subscription"], key, ""
