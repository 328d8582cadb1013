"""How attributes of entities map to MQTT topics, and values to payloads. Pure.

    {area}/entities/{context}/{type}/{id}/{attribute}      one attribute
    {area}/entities/{context}/{type}/{id}                  a whole entity
    {area}/errors/{context}/{type}/{id}[/{attribute}]      what was wrong with a publication to the same place (ProblemDetails)

Each name is one level of the topic. In it `%`, `/`, `+`, `#` and control characters are written as in a URL (`%25`, `%2F`,
`%2B`, `%23`), in UTF-8; everything else stands for itself. `context` is the URL of a JSON-LD context, `-` the core context:

    port/entities/-/Crane/urn:ngsi-ld:Crane:7/load
    port/entities/https:%2F%2Fport.example%2Fcontext.jsonld/Crane/urn:ngsi-ld:Crane:7/load

`type` and `attribute` are names in that context. An entity of several types is published by the first in the alphabet.

A payload is JSON in UTF-8. For an attribute:
- a bare value, `30`, `"open"`, `[1, 2]`, `{"left": 3}`: a Property; a GeoJSON geometry: a GeoProperty;
- a concise or normalized attribute, `{"value": 30, "unitCode": "CEL"}`, `{"type": "Relationship", "object": "urn:..."}`, or a
  list of them that differ in their `datasetId`.
For an entity: an object of such attributes; `id` and `type` can be left out, for the topic says them.
Nothing at all (no bytes) takes the attribute, or the entity, away: that is how MQTT itself says that a retained value is gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from hanse.ngsild.contexts import Context
from hanse.ngsild.entity import VALUE_MEMBER, Attributes, Entity, Instance, default_instance
from hanse.ngsild.errors import BadRequestData, InvalidRequest, PayloadTooLarge

Form: TypeAlias = Literal["concise", "simplified"]

CORE: Final = "-"
PAYLOAD_BYTES_MAX: Final = 1_048_576
TOPIC_CHARACTERS_MAX: Final = 4_096

_GEOMETRIES: Final = frozenset(
    {"Point", "MultiPoint", "LineString", "MultiLineString", "Polygon", "MultiPolygon", "GeometryCollection"}
)
_VALUE_MEMBERS: Final = frozenset(VALUE_MEMBER.values())
_ENTITY_MEMBERS: Final = frozenset(
    {"id", "type", "@id", "@type", "scope", "expiresAt", "createdAt", "modifiedAt", "deletedAt", "@context"}
)
_HIDDEN: Final = frozenset({"createdAt", "modifiedAt", "deletedAt", "instanceId"})  # the node's own book-keeping
_RESERVED: Final = re.compile(r"[%/+#\x00-\x1f\x7f]")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Place(Struct, frozen=True):
    """What a topic names, as it names it: type and attribute are not expanded."""

    context: str  # a URL; empty: only the core context
    type: str
    id: str
    attribute: str | None = None  # None: the whole entity


class Sought(Struct, frozen=True):
    """What a pattern of topics asks for; None: any."""

    context: str | None
    type: str | None
    id: str | None


def escape(name: str) -> str:
    return _RESERVED.sub(lambda found: f"%{ord(found[0]):02X}", name)


def unescape(level: str) -> str:
    if "%" not in level:
        return level
    if _BAD_ESCAPE.search(level):
        raise BadRequestData(f"{level!r} in the topic: '%' begins two hexadecimal digits; write %25 for the sign itself")
    try:
        return unquote(level, errors="strict")
    except UnicodeDecodeError as error:
        raise BadRequestData(f"{level!r} in the topic is not UTF-8 after its escapes are read") from error


class Topics:
    """The topics of one area."""

    def __init__(self, area: str) -> None:
        self.entities = f"{area}/entities/"
        self.errors = f"{area}/errors/"
        self.everything = self.entities + "#"

    def parse(self, topic: str) -> Place:
        """What a device has published to. BadRequestData if that is not a place in this area."""
        if not topic.startswith(self.entities):
            raise BadRequestData(f"the topic does not begin with {self.entities}")
        if len(topic) > TOPIC_CHARACTERS_MAX:
            raise BadRequestData(f"the topic has {len(topic)} characters; at most {TOPIC_CHARACTERS_MAX} are taken")
        levels = [unescape(level) for level in topic[len(self.entities) :].split("/")]
        if len(levels) not in {3, 4} or not all(levels):
            raise BadRequestData(
                f"after {self.entities} a topic has three or four levels, none empty: context, type, id, attribute;"
                f" write {CORE} for the core context, and %2F for a slash inside of one"
            )
        context, type_, id_, *attribute = levels
        return Place("" if context == CORE else context, type_, id_, attribute[0] if attribute else None)

    def of(self, place: Place) -> str:
        levels = (place.context or CORE, place.type, place.id)
        topic = self.entities + "/".join(map(escape, levels))
        return topic if place.attribute is None else f"{topic}/{escape(place.attribute)}"

    def sought(self, pattern: str) -> Sought | None:
        """Which entities a subscription to `pattern` can be about; None: none of this area."""
        own, wanted = self.entities.split("/")[:-1], pattern.split("/")
        for index, level in enumerate(wanted):
            if level == "#":
                wanted = wanted[:index]
                break
        else:
            if len(wanted) != len(own) + 4:
                return None
        if any(level not in {"+", here} for level, here in zip(wanted, own, strict=False)):
            return None
        names = [None if level == "+" else unescape(level) for level in wanted[len(own) : len(own) + 3]]
        context, type_, id_ = [*names, None, None, None][:3]
        return Sought("" if context == CORE else context, type_, id_)

    def error(self, topic: str) -> str:
        """Where it is told what was wrong with a publication."""
        return self.errors + topic.removeprefix(self.entities)

    def of_attribute(self, entity: Entity, name: str, context: Context, url: str) -> str:
        """The topic of an attribute (expanded name) in a context, whose URL is given: empty for the core context."""
        return self.of(Place(url, context.compact_type(min(entity.types)), entity.id, context.compact_iri(name)))


# --- payloads of devices -------------------------------------------------------------------------------------------------


def decode_payload(payload: bytes) -> Any:
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise PayloadTooLarge(f"the payload has {len(payload)} bytes; at most {PAYLOAD_BYTES_MAX} are taken")
    try:
        return _decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f'the payload is not JSON: {error}; a text is written with quotes: "open"') from error


def entity_body(place: Place, payload: Any) -> dict[str, Any]:
    """What a publication says, as an entity; `parse_entity` checks it."""
    if place.attribute is not None:
        if place.attribute in _ENTITY_MEMBERS:
            raise BadRequestData(f"{place.attribute!r} is not an attribute: publish it with the entity, one level up")
        return {"id": place.id, "type": place.type, place.attribute: attribute_body(payload)}
    if not isinstance(payload, dict):
        raise BadRequestData("an entity is a JSON object of attributes; to publish one attribute, add its name to the topic")
    for name in ("id", "@id"):
        if payload.get(name, place.id) != place.id:
            raise BadRequestData(
                f"the payload's id is {str(payload[name])[:200]!r}, the topic's {place.id!r}: they must be the same"
            )
    body = {name: value if name in _ENTITY_MEMBERS else attribute_body(value) for name, value in payload.items()}
    return {"id": place.id} | body if "@type" in body else {"id": place.id, "type": place.type} | body


def attribute_body(payload: Any) -> Any:
    """An attribute as an NGSI-LD request would say it."""
    if isinstance(payload, dict):
        if _is_geometry(payload):
            return {"type": "GeoProperty", "value": payload}
        if _is_attribute(payload):
            return payload
    elif isinstance(payload, list) and payload and all(isinstance(item, dict) and _is_attribute(item) for item in payload):
        return payload
    return {"type": "Property", "value": payload}


def _is_geometry(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    return isinstance(kind, str) and kind in _GEOMETRIES and ("coordinates" in value or "geometries" in value)


def _is_attribute(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    return (isinstance(kind, str) and kind in VALUE_MEMBER) or not _VALUE_MEMBERS.isdisjoint(value)


# --- payloads of the node ------------------------------------------------------------------------------------------------


def attribute_payload(instances: list[Instance], context: Context, form: Form = "concise") -> bytes:
    """The last value of an attribute: a bare value where that says everything, else a concise attribute; see above."""
    if form == "simplified":
        default = default_instance(instances) or instances[0]
        return _encode(default.get(VALUE_MEMBER[default["type"]]))
    shown = [_show(instance, context) for instance in instances]
    if len(shown) > 1 or "datasetId" in shown[0]:
        return _encode(shown)
    said, kind = shown[0], instances[0]["type"]
    if len(said) == 1 and "value" in said and attribute_body(said["value"]) == {"type": kind} | said:
        return _encode(said["value"])
    return _encode(said)


def _show(instance: Instance, context: Context) -> dict[str, Any]:
    """An instance in concise form: a reader knows its kind by the member that holds the value, and GeoJSON by its looks."""
    said: dict[str, Any] = {}
    for name, value in instance.items():
        if name == "type":
            if value == "Property" and isinstance(instance.get("value"), dict) and _is_geometry(instance["value"]):
                said["type"] = value  # its looks mislead
        elif _is_sub_attribute(name):
            subs = [_show(sub, context) for sub in value]
            said[context.compact_iri(name)] = subs[0] if len(subs) == 1 else subs
        elif name not in _HIDDEN:
            said[name] = value
    return said


def _is_sub_attribute(name: str) -> bool:
    return ":" in name  # sub-attributes have expanded names; the members that NGSI-LD itself names are short


def changed_attributes(before: Attributes, after: Attributes) -> Iterator[tuple[str, list[Instance] | None]]:
    """What differs between two states; None: it is gone."""
    for name, instances in after.items():
        if before.get(name) != instances:
            yield name, instances
    for name in before:
        if name not in after:
            yield name, None


def encode_problem(problem: dict[str, Any], topic: str) -> bytes:
    return _encode(problem | {"instance": topic})


def topic_matches(pattern: str, topic: str) -> bool:
    """Whether a subscription to `pattern` hears of `topic`."""
    if pattern == topic:
        return True
    levels = topic.split("/")
    wanted = pattern.split("/")
    if topic.startswith("$") and wanted[0] in {"+", "#"}:
        return False
    for index, level in enumerate(wanted):
        if level == "#":
            return True  # the level above too: a/# hears of a
        if index >= len(levels) or level not in {"+", levels[index]}:
            return False
    return len(wanted) == len(levels)
