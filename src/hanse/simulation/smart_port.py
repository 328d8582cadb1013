"""A generator of smart-building entities, as the ComDeX authors had one: communities, buildings, floors, rooms, windows, doors
and devices, as NGSI-LD entities that say what they are contained in.

One sub-broker of the paper is there to the number (Port Area B); the paper says of all together only that there are about 15,000
entities and 1,700 devices, so how the others share the rest is ours. Ours, too, is what devices say and how often: the paper
takes it from traces (Kumar and others, 2022) that it does not print. Same seed, same port.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, Final

from msgspec import Struct

from hanse.model import InvalidInput
from hanse.simulation.topologies import shares

COMMUNITY, BUILDING, FLOOR, ROOM, WINDOW, DOOR, DEVICE = (
    "Community",
    "Building",
    "BuildingFloor",
    "Room",
    "Window",
    "Door",
    "Device",
)
PORT_AREA_B: Final = {BUILDING: 82, FLOOR: 212, ROOM: 1_199, WINDOW: 1_796, DOOR: 1_781, DEVICE: 588}
ENTITIES: Final = 15_000
DEVICES: Final = 1_700

# who is in which community, the top of it first: figure 6 of the paper, by the names of examples/smart-port
COMMUNITIES: Final[dict[str, tuple[str, ...]]] = {
    "port-authority": ("port", "port-a", "port-b"),
    "intercity-bus": ("bus", "bus-buildings", "bus-transport"),
    "fire-brigade": ("fire",),
}
AREA_B: Final = "port-b"
REST: Final = {"port-a": 45, "bus-buildings": 30, "bus-transport": 10, "fire": 15}  # % of what Port Area B has not
CONTAINED_IN: Final = {FLOOR: BUILDING, ROOM: FLOOR, WINDOW: ROOM, DOOR: ROOM}
DEVICE_PLACES: Final = {ROOM: 60, WINDOW: 20, DOOR: 20}  # % of the devices


class Kind(Struct, frozen=True):
    """A kind of device: how long a message of it is, and how often it says something."""

    name: str
    message_bytes: int
    period_s: float
    share: int  # % of all devices


KINDS: Final = (
    Kind("thermometer", 90, 30.0, 25),
    Kind("motion sensor", 80, 15.0, 20),
    Kind("smoke detector", 110, 60.0, 15),
    Kind("light", 120, 45.0, 15),
    Kind("power meter", 200, 10.0, 15),
    Kind("camera", 700, 5.0, 10),
)


class Made(Struct, frozen=True):
    node: str
    entity: dict[str, Any]


class Device(Struct, frozen=True):
    id: str
    node: str
    kind: Kind


class Message(Struct, frozen=True):
    """What a device says: the attributes that it changes."""

    at_ms: int
    device: Device
    attributes: dict[str, Any]


class Port(Struct, frozen=True):
    entities: list[Made]
    devices: list[Device]

    def messages(self, seconds: float, seed: int = 1) -> list[Message]:
        """All that the devices say in that time, in order: each at its own pace, at chance moments."""
        random = Random(f"{seed} messages")
        said = [message for device in self.devices for message in _said(device, seconds, random)]
        return sorted(said, key=lambda message: message.at_ms)


def smart_port(*, seed: int = 1, scale: float = 1.0) -> Port:
    """`scale`: all counts times this; at least one of everything at every node that has something."""
    if not 0 < scale <= 10:
        raise InvalidInput(f"a port is 0 to 10 times as large as the paper's, not {scale}")
    random = Random(seed)
    entities: list[Made] = []
    devices: list[Device] = []
    community_of = {node: community for community, nodes in COMMUNITIES.items() for node in nodes}
    for community, nodes in COMMUNITIES.items():
        name = {"type": "Property", "value": community}
        entities.append(Made(nodes[0], {"id": _urn(COMMUNITY, community), "type": COMMUNITY, "name": name}))
    for node, counts in counts_by_node().items():
        scaled = {type_: max(1, round(count * scale)) for type_, count in counts.items()}
        made, own = _entities_at(node, community_of[node], scaled, random)
        entities += made
        devices += own
    return Port(entities, devices)


def counts_by_node() -> dict[str, dict[str, int]]:
    """How many of each type a node has, in full size: with Port Area B and all together as in the paper."""
    structure = [type_ for type_ in PORT_AREA_B if type_ != DEVICE]
    have = sum(PORT_AREA_B[type_] for type_ in structure)
    left = dict(zip(structure, shares([PORT_AREA_B[t] for t in structure], ENTITIES - DEVICES - have), strict=True))
    left[DEVICE] = DEVICES - PORT_AREA_B[DEVICE]
    parts = {type_: shares(list(REST.values()), count) for type_, count in left.items()}
    found = {AREA_B: dict(PORT_AREA_B)}
    for i, node in enumerate(REST):
        found[node] = {type_: parts[type_][i] for type_ in PORT_AREA_B}
    return found


def _entities_at(node: str, community: str, counts: Mapping[str, int], random: Random) -> tuple[list[Made], list[Device]]:
    made: dict[str, list[str]] = {}
    entities: list[Made] = []
    devices: list[Device] = []
    for type_, count in counts.items():
        made[type_] = [_urn(type_, f"{node}:{i}") for i in range(count)]
        for i, id_ in enumerate(made[type_]):
            entity: dict[str, Any] = {"id": id_, "type": type_}
            if type_ == DEVICE:
                place = made[random.choices(list(DEVICE_PLACES), list(DEVICE_PLACES.values()))[0]]
                kind = random.choices(KINDS, [kind.share for kind in KINDS])[0]
                devices.append(Device(id_, node, kind))
                entity |= {"category": _property(kind.name), "containedIn": _relationship(random.choice(place))}
                entity |= _attributes(kind, random)
            elif type_ in CONTAINED_IN:
                parents = made[CONTAINED_IN[type_]]
                parent = parents[i] if i < len(parents) else random.choice(parents)  # none is left empty, if there is enough
                entity |= _static(type_, random) | {"containedIn": _relationship(parent)}
            else:
                entity |= _static(type_, random) | {"containedIn": _relationship(_urn(COMMUNITY, community))}
            entities.append(Made(node, entity))
    return entities, devices


def _static(type_: str, random: Random) -> dict[str, Any]:
    match type_:
        case "Building":
            return {"category": _property(random.choice(("office", "warehouse", "terminal", "workshop")))}
        case "BuildingFloor":
            return {"level": _property(random.randrange(5))}
        case "Room":
            return {"capacity": _property(random.choice((2, 10, 50, 200))), "occupancy": _property(0)}
        case "Window":
            return {"open": _property(random.random() < 0.2)}
        case _:
            return {"locked": _property(random.random() < 0.5)}


def _said(device: Device, seconds: float, random: Random) -> Iterator[Message]:
    at_ms = random.expovariate(1 / device.kind.period_s) * 1000
    while at_ms < seconds * 1000:
        yield Message(int(at_ms), device, _attributes(device.kind, random))
        at_ms += random.expovariate(1 / device.kind.period_s) * 1000


def _attributes(kind: Kind, random: Random) -> dict[str, Any]:
    """A value, and what else a device of this kind sends along, so that the values together are as long as its messages are."""
    value = round(random.gauss(20.0, 5.0), 2)
    return {"value": _property(value), "report": _property("x" * max(0, kind.message_bytes - len(str(value))))}


def _property(value: Any) -> dict[str, Any]:
    return {"type": "Property", "value": value}


def _relationship(target: str) -> dict[str, Any]:
    return {"type": "Relationship", "object": target}


def _urn(type_: str, name: str) -> str:
    return f"urn:ngsi-ld:{type_}:{name}"
