"""The mapping file of MQTT devices: which topic and which part of a JSON payload is which attribute of which entity.

Pure: topics and payloads in, entities out, and back. A template is a text with placeholders in braces; in a topic each stands
for a whole level.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct, field

from hanse.agents.forms import link, point, prop, read_time
from hanse.model.errors import InvalidInput

PAYLOAD_BYTES_MAX: Final = 1 << 18
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_GEOMETRIES: Final = frozenset({"Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon"})
_MISSING: Final = object()


class AttributeRule(Struct, frozen=True, forbid_unknown_fields=True):
    """`path` to a value; or `longitude` and `latitude` to a place. `unit` is a code of UN/CEFACT, like CEL."""

    path: str | None = None
    unit: str = ""
    longitude: str = ""
    latitude: str = ""


class CommandRule(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a change of the attribute at the node goes: a topic, and the place of the value in a JSON payload (bare without)."""

    topic: str
    path: str = ""


class DeviceRule(Struct, frozen=True, forbid_unknown_fields=True):
    topic: str
    type: str
    id: str
    observed_at: str = ""
    attributes: dict[str, str | AttributeRule] = field(default_factory=dict)
    relationships: dict[str, str] = field(default_factory=dict)
    commands: dict[str, CommandRule] = field(default_factory=dict)


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    devices: list[DeviceRule]
    client_id: str = ""


class Device:
    """A rule, checked and ready."""

    def __init__(self, rule: DeviceRule) -> None:
        self.rule = rule
        levels = rule.topic.split("/")
        names = _placeholders(rule.topic, "topic")
        for level in levels:
            if level in ("+", "#") or (_PLACEHOLDER.search(level) and not _PLACEHOLDER.fullmatch(level)):
                raise InvalidInput(f"topic: a placeholder like {{room}} stands for a whole level, and for + and #, not {level!r}")
        if not rule.topic or "\0" in rule.topic or len(rule.topic) > 1000:
            raise InvalidInput("topic: give one, of at most 1000 characters")
        self.filter = "/".join("+" if _PLACEHOLDER.fullmatch(level) else level for level in levels)
        self._topic = re.compile(_pattern(rule.topic, "[^/]+"), re.DOTALL)
        if not rule.attributes and not rule.relationships:
            raise InvalidInput("attributes: name at least one")
        self.attributes = {
            name: given if isinstance(given, AttributeRule) else AttributeRule(path=given)
            for name, given in rule.attributes.items()
        }
        for name, attribute in self.attributes.items():
            if (attribute.path is None) == (not attribute.longitude) or bool(attribute.longitude) != bool(attribute.latitude):
                raise InvalidInput(f"attributes.{name}: give either path, or longitude and latitude")
        templates = {"id": rule.id, "type": rule.type} | {
            f"relationships.{name}": text for name, text in rule.relationships.items()
        }
        for place, text in templates.items():
            for name in _placeholders(text, place) - names:
                raise InvalidInput(f"{place}: {{{name}}} is not in the topic {rule.topic!r}")
        if ":" not in _PLACEHOLDER.sub("", rule.id):
            raise InvalidInput(f"id: {rule.id[:100]!r} makes no URI; write it like urn:ngsi-ld:Room:{{room}}")
        self._id = re.compile(_pattern(rule.id, "[^:/]+"))
        if rule.commands and _placeholders(rule.type, "type"):
            raise InvalidInput("commands: the type must be without placeholders")
        for name, command in rule.commands.items():
            for missing in _placeholders(command.topic, f"commands.{name}.topic") - _placeholders(rule.id, "id"):
                raise InvalidInput(f"commands.{name}.topic: {{{missing}}} is not in the id, by which the device is found")
            if not command.topic or any(sign in command.topic for sign in "+#\0"):
                raise InvalidInput(f"commands.{name}.topic: {command.topic!r} is no topic to publish to")

    def read(self, topic: str, payload: Any, at: str) -> dict[str, Any] | None:
        """The entity that a message is about; None if it is for another device. Raises InvalidInput."""
        found = self._topic.fullmatch(topic)
        if found is None:
            return None
        names = {name: quote(value, safe="") for name, value in found.groupdict().items()}
        if self.rule.observed_at:
            time = value_at(payload, self.rule.observed_at)
            if time is _MISSING or time is None:
                raise InvalidInput(f"there is no {self.rule.observed_at} (observed_at) in the payload")
            at = read_time(time)
        entity: dict[str, Any] = {"id": _filled(self.rule.id, names), "type": _filled(self.rule.type, names)}
        for name, rule in self.attributes.items():
            attribute = self._attribute(rule, payload, at)
            if attribute is not None:
                entity[name] = attribute
        if len(entity) == 2 and self.attributes:
            raise InvalidInput(f"none of {', '.join(self.attributes)} is in the payload")
        return entity | {name: link(_filled(text, names)) for name, text in self.rule.relationships.items()}

    def _attribute(self, rule: AttributeRule, payload: Any, at: str) -> dict[str, Any] | None:
        if rule.path is None:
            numbers = [value_at(payload, path) for path in (rule.longitude, rule.latitude)]
            if any(number is _MISSING or number is None for number in numbers):
                return None
            if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
                raise InvalidInput(f"{rule.longitude} and {rule.latitude} are not both numbers")
            return point(float(numbers[0]), float(numbers[1]), at=at)
        value = value_at(payload, rule.path)
        if value is _MISSING or value is None:
            return None
        if isinstance(value, dict) and value.get("type") in _GEOMETRIES and "coordinates" in value:
            return {"type": "GeoProperty", "value": value, "observedAt": at}
        return prop(value, unit=rule.unit, at=at)

    def command(self, name: str, id_: str, value: Any) -> tuple[str, bytes] | None:
        """The topic and payload for a new value of an attribute; None if this device has no such command."""
        rule, found = self.rule.commands.get(name), self._id.fullmatch(id_)
        if rule is None or found is None:
            return None
        for step in reversed(rule.path.split(".") if rule.path else []):
            value = {step: value}
        levels = {placeholder: unquote(text) for placeholder, text in found.groupdict().items()}
        for placeholder, level in levels.items():
            if any(sign in level for sign in "/+#\0"):
                raise InvalidInput(f"{id_}: {{{placeholder}}} would be {level!r}, which is no level of a topic")
        return _filled(rule.topic, levels), msgspec.json.encode(value)


class DeviceMapping(Struct, frozen=True):
    devices: list[Device]
    client_id: str


def load_mapping(path: Path | str) -> DeviceMapping:
    """Raises InvalidInput with the place that is wrong."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InvalidInput(f"it cannot be read: {getattr(error, 'strerror', None) or error}", place=str(path)) from error
    return parse_mapping(text, str(path))


def parse_mapping(text: str, place: str) -> DeviceMapping:
    try:
        given = msgspec.convert(tomllib.loads(text), _File)
    except (ValueError, msgspec.ValidationError, RecursionError) as error:
        raise InvalidInput(str(error) or "it is nested too deep", place=place) from error
    if not given.devices:
        raise InvalidInput("it names no [[devices]]", place=place)
    devices = []
    for number, rule in enumerate(given.devices, 1):
        try:
            devices.append(Device(rule))
        except InvalidInput as error:
            raise error.at(f"{place}: [[devices]] number {number}") from error
    return DeviceMapping(devices, given.client_id)


def decode_payload(payload: bytes) -> Any:
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise InvalidInput(f"the payload has more than {PAYLOAD_BYTES_MAX:,} bytes")
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"the payload is not JSON: {error}") from error


def value_at(payload: Any, path: str) -> Any:
    """What stands at a dotted path (`readings.0.value`; an empty one is the whole); `_MISSING` if nothing does."""
    for step in path.split(".") if path else ():
        if isinstance(payload, dict) and step in payload:
            payload = payload[step]
        elif isinstance(payload, list) and step.isascii() and step.isdigit() and len(step) < 10 and int(step) < len(payload):
            payload = payload[int(step)]
        else:
            return _MISSING
    return payload


def _placeholders(text: str, place: str) -> set[str]:
    names: list[str] = _PLACEHOLDER.findall(text)
    rest = _PLACEHOLDER.sub("", text)
    if "{" in rest or "}" in rest or not all(_NAME.fullmatch(name) for name in names):
        raise InvalidInput(f"{place}: {text[:100]!r} has a placeholder that is none; write it like {{room}}")
    if len(names) != len(set(names)) or "}{" in text:
        raise InvalidInput(f"{place}: {text[:100]!r} has a placeholder twice, or two without anything in between")
    return set(names)


def _pattern(template: str, level: str) -> str:
    parts = _PLACEHOLDER.split(template)  # text, name, text, name, ..., text
    return "".join(f"(?P<{part}>{level})" if number % 2 else re.escape(part) for number, part in enumerate(parts))


def _filled(template: str, names: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: names[found[1]], template)


def commands_of(mapping: DeviceMapping) -> Iterator[tuple[str, str]]:
    """Type and attribute of every command."""
    seen = {(device.rule.type, name): None for device in mapping.devices for name in device.rule.commands}
    yield from seen
