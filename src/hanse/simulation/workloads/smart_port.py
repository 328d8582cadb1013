"""The smart port of ComDeX: communities with buildings and what is in them, vehicles and ships; devices that tell what they
measure, and applications in every community that want to hear of some of it.

In full size one sub-broker has the 82 buildings, 212 floors, 1,199 rooms, 1,796 windows, 1,781 doors and 588 devices that the
authors' generator gave for theirs; with what the others have, there are 1,700 devices. The number of clients is the number of
devices, and everything else keeps its proportion to it. As with ComDeX, devices do not speak to the broker for themselves: the
gateway of their node does, advertises what they are, and publishes what they tell.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from hanse.model import Advertisement, InvalidInput, Location, Notification, Selector, Subscription
from hanse.routing.messages import Advertise, Publish, Subscribe
from hanse.simulation.actions import Action
from hanse.simulation.topologies import shares
from hanse.simulation.workloads.base import Diary, Load, Workload, in_time_order
from hanse.simulation.workloads.positions import destination

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hanse.routing.federation import Federation, Node

SUB_BROKER: Final = {
    "Building": 82,
    "Floor": 212,
    "Room": 1199,
    "Window": 1796,
    "Door": 1781,
    "Device": 588,
    "Vehicle": 30,
    "Ship": 12,
}
DEVICES_IN_ALL: Final = 1700
PARENTS: Final = {"Floor": "Building", "Room": "Floor", "Window": "Room", "Door": "Room", "Device": "Room"}
FEATURES: Final[dict[str, tuple[str, tuple[Any, ...]]]] = {
    "Building": ("category", ("office", "warehouse", "terminal", "station")),
    "Floor": ("level", (0, 1, 2, 3)),
    "Room": ("capacity", (2, 10, 50, 200)),
    "Window": ("open", (True, False)),
    "Door": ("locked", (True, False)),
    "Device": ("kind", ("thermometer", "counter", "smoke detector")),
    "Vehicle": ("kind", ("bus", "truck", "fire engine")),
    "Ship": ("kind", ("ferry", "freighter")),
}
SPEED_KMH: Final = {"Vehicle": 50.0, "Ship": 20.0}
INTERESTS: Final = (
    ("Device", 'kind=="smoke detector";smoke==true'),
    ("Device", "temperature>28"),
    ("Device", "occupancy>=40"),
    ("Vehicle", 'kind=="bus"'),
    ("Vehicle", "speed>40"),
    ("Ship", ""),
    ("Door", "locked==false"),
    ("Building", 'category=="terminal"'),
)
MEAN_GAPS_MS: Final = (5_000, 10_000, 30_000, 60_000)  # between two messages of a device; each device has one of these
PORT_RADIUS_KM = 2.0
SETTLED_MS = 1_000  # before: advertisements, subscriptions; after: publications


class Entity(Struct, frozen=True):
    id: str
    type: str
    node: str
    attributes: dict[str, Any]
    location: Location


def smart_port(
    load: Load,
    *,
    advertise_by: Literal["type", "id"] = "type",
    applications_per_node: int = 2,
    interests_per_application: int = 3,
    publish_entities: bool = True,
) -> Workload:
    """`advertise_by`: one advertisement for each type at a node, or one for each entity. `publish_entities`: whether every one is
    published when it is made, or only what devices, vehicles and ships tell later on.
    """
    if advertise_by not in ("type", "id"):
        raise InvalidInput(f"entities are advertised by type or by id, not by {advertise_by!r}")
    if applications_per_node < 0 or not 0 <= interests_per_application <= len(INTERESTS):
        raise InvalidInput(f"a node has 0 or more applications, each with 0 to {len(INTERESTS)} interests")
    random = Random(load.seed)
    actions: list[Action] = []
    gateways = {node: Diary(actions, node, f"{node}-gateway", 0) for node in load.federation.ids}
    entities = list(entities_of(load.federation, load.clients, random))
    _advertise(gateways, entities, advertise_by)
    for node in load.federation.ids:
        for i in range(applications_per_node):
            _subscribe(Diary(actions, node, f"{node}-application{i}", 0), interests_per_application, random)
    for entity in entities:
        advertisement = advertisement_id(entity, advertise_by)
        if publish_entities:
            _publish(
                gateways[entity.node],
                SETTLED_MS,
                entity,
                attributes=entity.attributes,
                location=entity.location,
                advertisement=advertisement,
            )
        if entity.type == "Device" or entity.type in SPEED_KMH:
            _tell(gateways[entity.node], load.duration_ms, entity, advertisement, random)
    return Workload(
        "smart-port", load.federation, in_time_order(actions), "buildings, devices, vehicles and ships of ComDeX's smart port"
    )


def entities_of(federation: Federation, devices: int, random: Random) -> Iterable[Entity]:
    """Everything at every node that has something: sub-brokers, and tops that have none."""
    nodes = owners(federation)
    rest = (DEVICES_IN_ALL - SUB_BROKER["Device"]) // max(1, len(nodes) - 1)
    parts = shares([SUB_BROKER["Device"], *[rest] * (len(nodes) - 1)], devices)
    for node, part in zip(nodes, parts, strict=True):
        yield from _entities_at(node, part, random)


def owners(federation: Federation) -> list[Node]:
    """The nodes that have entities: all but the first one of a community of several."""
    members: dict[str, list[Node]] = {}
    for node in federation.nodes:
        members.setdefault(node.community or f"node {node.id}", []).append(node)
    return [node for nodes in members.values() for node in (nodes[1:] or nodes)]


def _entities_at(node: Node, devices: int, random: Random) -> Iterable[Entity]:
    made: dict[str, list[Entity]] = {}
    for type_, full in SUB_BROKER.items():
        count = round(full * devices / SUB_BROKER["Device"])
        parents = made.get(PARENTS.get(type_, ""), [])
        feature, values = FEATURES[type_]
        made[type_] = []
        for i in range(count):
            attributes = {feature: random.choice(values)}
            if parents:
                parent = parents[i * len(parents) // count]
                attributes["isPartOf"] = parent.id
                location = parent.location
            else:
                location = Location(
                    *destination(
                        node.location.lat, node.location.lon, PORT_RADIUS_KM * random.random() ** 0.5, 360.0 * random.random()
                    )
                )
            made[type_].append(Entity(f"urn:ngsi-ld:{type_}:{node.id}:{i}", type_, node.id, attributes, location))
        yield from made[type_]


def advertisement_id(entity: Entity, advertise_by: str) -> str:
    return f"{entity.node}/{entity.type}" if advertise_by == "type" else f"{entity.node}/{entity.id}"


def _advertise(gateways: dict[str, Diary], entities: Iterable[Entity], advertise_by: str) -> None:
    done: set[str] = set()
    for entity in entities:
        id_ = advertisement_id(entity, advertise_by)
        if id_ not in done:
            done.add(id_)
            gateway = gateways[entity.node]
            selector = Selector(type=entity.type, id=entity.id if advertise_by == "id" else None)
            gateway.add(0, Advertise(Advertisement(id=id_, client=gateway.client, selectors=(selector,))))


def _subscribe(diary: Diary, count: int, random: Random) -> None:
    for i, (type_, q) in enumerate(random.sample(INTERESTS, count)):
        diary.add(
            SETTLED_MS // 2,
            Subscribe(Subscription(id=f"{diary.client}/{i}", client=diary.client, selectors=(Selector(type=type_),), q=q)),
        )


def _tell(gateway: Diary, end_ms: int, entity: Entity, advertisement: str, random: Random) -> None:
    mean_ms = random.choice(MEAN_GAPS_MS)
    here, heading_deg, kind = entity.location, random.uniform(0.0, 360.0), entity.attributes["kind"]
    now_ms = SETTLED_MS
    while True:
        gap_ms = 1 + int(random.expovariate(1.0 / mean_ms))
        now_ms += gap_ms
        if now_ms > end_ms:
            return
        attributes: dict[str, Any] = {"kind": kind}
        if top_speed := SPEED_KMH.get(entity.type):
            speed = round(random.uniform(0.0, top_speed), 1)
            here = Location(*destination(here.lat, here.lon, speed * gap_ms / 3_600_000, heading_deg))
            attributes |= {"speed": speed, "occupancy": random.randrange(60)}
        elif kind == "thermometer":
            attributes["temperature"] = round(random.gauss(22.0, 4.0), 1)
        elif kind == "counter":
            attributes["occupancy"] = random.randrange(60)
        else:
            attributes["smoke"] = random.random() < 0.01
        _publish(gateway, now_ms, entity, attributes=attributes, location=here, advertisement=advertisement)


def _publish(
    gateway: Diary, at_ms: int, entity: Entity, *, attributes: dict[str, Any], location: Location, advertisement: str
) -> None:
    notification = Notification(
        id=f"{entity.id}@{at_ms}",
        publisher=gateway.client,
        types=(entity.type,),
        entity=entity.id,
        attributes=attributes,
        location=location,
        advertisement=advertisement,
        published_at_ms=at_ms,
    )
    gateway.add(at_ms, Publish(notification))
