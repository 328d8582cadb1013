"""One line and its mapping give an entity's observations, or the reason why not. Pure.

`Mapper(mapping).checked(line, place, position, at_us) -> list[Checked]`: at most one that has observations, and one for each
thing that is wrong: a line that is none, no id, no time, a value of the wrong kind. What is right in a line is not lost because
of what is wrong.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from math import isfinite
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct

from hanse.model import InvalidInput
from hanse.pipeline.mapping import AttributeRule, Mapping, Quality, QualityRule, at_path, filled, placeholders
from hanse.pipeline.observations import LOCATION, criterion_names, of_record
from hanse.quality import Registry, computed, default_registry

UNREADABLE: Final = "unreadable"  # a line that is no record
NO_ENTITY: Final = "no entity"
NO_TIME: Final = "no time"
WRONG_TYPE: Final = "wrong type"  # of one value; the others are taken
EMPTY: Final = "empty"  # none of the mapped values is there
DUPLICATE: Final = "duplicate"
KINDS: Final = (UNREADABLE, NO_ENTITY, NO_TIME, WRONG_TYPE, EMPTY, DUPLICATE)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_NOT_ATTRIBUTES: Final = frozenset({"id", "type", "scope", "@context", "createdAt", "modifiedAt"})
_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class Value(Struct, frozen=True, array_like=True):
    """One observed value."""

    attribute: str
    value: float | None
    text: str | None
    unit: str | None
    observed_us: int | None
    quality: dict[str, float]
    dataset: str = ""


class Said(Struct, frozen=True, array_like=True):
    """What a line says of an entity."""

    type: str
    scopes: list[str]
    lat: float | None
    lon: float | None
    observed: list[Value]


class Checked(NamedTuple):
    """A line that is right (no kind, no reason), or what is wrong with it."""

    entity: str | None
    identity: str | None  # the same for lines that say the same of the same time
    kind: str | None
    reason: str | None
    said: Said | None


class _Wrong(Exception):
    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


class Mapper:
    def __init__(self, mapping: Mapping, registry: Registry | None = None) -> None:
        self.mapping = mapping
        self.registry = registry or default_registry()
        self._known = criterion_names(self.registry)
        self._missing_texts = {one.strip() for one in mapping.source.missing if isinstance(one, str)}
        self._missing_numbers = {float(one) for one in mapping.source.missing if not isinstance(one, str)}
        # what is the same for all values of a line is computed once
        of_values: Quality = {
            name: rule for name, rule in mapping.quality.items() if isinstance(rule, QualityRule) and rule.rule == "accuracy"
        }
        self._shared = {name: rule for name, rule in mapping.quality.items() if name not in of_values}
        self._own = {one.name: of_values | one.quality for one in mapping.attributes}
        self._zone = ZoneInfo(mapping.time.zone) if mapping.time else UTC
        self._read: Callable[[str, str, Sequence[str]], dict[str, Any]] = {
            "csv": self._csv,
            "mqtt": _mqtt,
        }.get(mapping.source.format, _json)

    def checked(self, line: str, place: str, position: str, at_us: int, header: Sequence[str] = ()) -> list[Checked]:
        """`header`: the names of the columns of CSV, which the mapping may say as well."""
        aside: list[_Wrong] = []
        entity: str | None = None
        good: list[Checked] = []
        try:
            record = self._read(line, place, self.mapping.source.columns or header)
            entity = self._id(record)
            said = self._said(record, at_us, aside)
            if said.observed:
                good.append(Checked(entity, _identity(entity, said, f"{place}/{position}"), None, None, said))
            elif not aside:
                raise _Wrong(EMPTY, "it has none of the mapped values")
        except _Wrong as wrong:
            aside.append(wrong)
        return [*good, *(Checked(entity, None, wrong.kind, wrong.reason, None) for wrong in aside)]

    def unnamed(self, header: Sequence[str]) -> str | None:
        """A column that no line can do without, and that is not among these."""
        templates = [
            self.mapping.entity.id,
            self.mapping.entity.type,
            *([self.mapping.time.template] if self.mapping.time else []),
        ]
        needed = [path for template in templates for path in placeholders(template)]
        return next((path for path in needed if path not in header), None)

    # --- records ----------------------------------------------------------------------------------------------------------

    def _csv(self, line: str, _place: str, header: Sequence[str]) -> dict[str, Any]:
        try:
            (row,) = csv.reader([line], delimiter=self.mapping.source.delimiter, strict=True)
        except (csv.Error, ValueError) as error:
            raise _Wrong(UNREADABLE, f"it is no line of CSV: {error}") from None
        if len(row) != len(header):
            raise _Wrong(UNREADABLE, f"it has {len(row)} values, and there are {len(header)} columns")
        return dict(zip(header, row, strict=True))

    def _id(self, record: dict[str, Any]) -> str:
        return self._filled(self.mapping.entity.id, record, NO_ENTITY, "its id")

    def _filled(self, template: str, record: dict[str, Any], kind: str, what: str) -> str:
        values: dict[str, str] = {}
        for path in placeholders(template):
            raw = at_path(record, path)
            if self._is_missing(raw) or not isinstance(raw, str | int | float):
                raise _Wrong(kind, f"{what} needs {path!r}, and that is {'missing' if self._is_missing(raw) else _shown(raw)}")
            values[path] = f"{raw}".strip()
        return filled(template, values)

    def _said(self, record: dict[str, Any], at_us: int, aside: list[_Wrong]) -> Said:
        rule = self.mapping.entity
        if self.mapping.source.format == "ngsi-ld" and not self.mapping.attributes:
            return self._as_it_is(record, at_us, aside)
        type_ = self._filled(rule.type, record, NO_ENTITY, "its type")
        observed_us = self._observed(record)
        lat, lon = self._place(record, aside)
        found = dict(self._values(record, aside))
        shared = self._quality(self._shared, record, _Facts(None, found, at_us, observed_us), aside)
        values = []
        for attribute in self.mapping.attributes:
            if attribute.name in found:
                value, text = found[attribute.name]
                quality = shared
                if own := self._own[attribute.name]:
                    stated = self._quality(own, record, _Facts(value, found, at_us, observed_us), aside)
                    quality = {name: one for name, one in shared.items() if name not in own} | stated
                values.append(Value(attribute.name, value, text, attribute.unit or None, observed_us, quality))
        return Said(type_, list(rule.scopes), lat, lon, values)

    def _as_it_is(self, record: dict[str, Any], at_us: int, aside: list[_Wrong]) -> Said:
        """An NGSI-LD entity."""
        types = record.get("type")
        type_ = min(types, default="") if isinstance(types, list) else types
        if not isinstance(type_, str) or not type_:
            raise _Wrong(NO_ENTITY, "it has no type")
        attributes = {}
        for name, said in record.items():
            if name in _NOT_ATTRIBUTES:
                continue
            if all(isinstance(one, dict) for one in (said if isinstance(said, list) else [said])):
                attributes[name] = said
            else:
                aside.append(_Wrong(WRONG_TYPE, f"{name} is {_shown(said)}, which is no attribute; ask for normalized entities"))
        scope = record.get("scope", [])
        place = attributes.get(LOCATION)
        lat, lon = _point(place.get("value") if isinstance(place, dict) else None)
        values = []
        for one in of_record(_encode(attributes).decode(), self.registry, self._known):
            facts = _Facts(one.value, dict.fromkeys(attributes), at_us, one.observed_us)
            quality = self._quality(self.mapping.quality, record, facts, aside) | one.quality
            values.append(Value(one.attribute, one.value, one.text, one.unit, one.observed_us, quality, one.dataset))
        return Said(type_, [scope] if isinstance(scope, str) else scope, lat, lon, values)

    # --- values -----------------------------------------------------------------------------------------------------------

    def _values(self, record: dict[str, Any], aside: list[_Wrong]) -> Iterator[tuple[str, tuple[float | None, str | None]]]:
        for attribute in self.mapping.attributes:
            raw = at_path(record, attribute.path)
            if self._is_missing(raw):
                continue
            try:
                yield attribute.name, self._value(attribute, raw)
            except _Wrong as wrong:
                aside.append(wrong)

    def _value(self, attribute: AttributeRule, raw: Any) -> tuple[float | None, str | None]:
        match attribute.kind:
            case "number":
                number = self._number(raw, attribute.path) * attribute.scale + attribute.offset
                if not isfinite(number):
                    raise _Wrong(WRONG_TYPE, f"{attribute.path} is {_shown(raw)}, which is too large")
                return number, None
            case "boolean":
                word = str(raw).strip().lower()
                if word not in _TRUE | _FALSE:
                    raise _Wrong(WRONG_TYPE, f"{attribute.path} is {_shown(raw)}, which is neither true nor false")
                return None, "true" if word in _TRUE else "false"
            case "text":
                if not isinstance(raw, str | int | float):
                    raise _Wrong(WRONG_TYPE, f"{attribute.path} is {_shown(raw)}, which is no text")
                return None, raw if isinstance(raw, str) else _encode(raw).decode()
            case _:
                return None, raw if isinstance(raw, str) else _encode(raw).decode()

    def _number(self, raw: Any, path: str) -> float:
        if isinstance(raw, str):
            text = raw.strip()
            if self.mapping.source.decimal == ",":
                text = "" if "." in text else text.replace(",", ".")  # a point in it would be a guess
            if _NUMBER.fullmatch(text):
                raw = float(text)
        if isinstance(raw, bool) or not isinstance(raw, int | float):
            raise _Wrong(WRONG_TYPE, f"{path} is {_shown(raw)}, which is no number")
        try:
            number = float(raw)
        except OverflowError:
            number = float("inf")
        if not isfinite(number):
            raise _Wrong(WRONG_TYPE, f"{path} is {_shown(raw)}, which is no number that can be measured")
        return number

    def _is_missing(self, raw: Any) -> bool:
        if raw is None:
            return True
        if isinstance(raw, str):
            if raw.strip() in self._missing_texts:
                return True
            if not self._missing_numbers:
                return False
        if isinstance(raw, bool) or not isinstance(raw, str | int | float):
            return False
        try:
            return self._number(raw, "") in self._missing_numbers
        except _Wrong:
            return False

    def _place(self, record: dict[str, Any], aside: list[_Wrong]) -> tuple[float | None, float | None]:
        found = []
        for bound, said in ((90.0, self.mapping.entity.lat), (180.0, self.mapping.entity.lon)):
            if said is None or (isinstance(said, str) and self._is_missing(at_path(record, said))):
                return None, None
            try:
                number = self._number(at_path(record, said), said) if isinstance(said, str) else said
            except _Wrong as wrong:
                aside.append(wrong)
                return None, None
            if abs(number) > bound:
                aside.append(_Wrong(WRONG_TYPE, f"{said} is {number:g}, which is no place on Earth"))
                return None, None
            found.append(number)
        return found[0], found[1]

    # --- times ------------------------------------------------------------------------------------------------------------

    def _observed(self, record: dict[str, Any]) -> int | None:
        """In microseconds since 1970; None if the mapping names no time."""
        rule = self.mapping.time
        if rule is None:
            return None
        text = self._filled(rule.template, record, NO_TIME, "its time")
        try:
            if rule.format in ("unix", "unix-ms"):
                seconds = float(text) / (1_000 if rule.format == "unix-ms" else 1)
                moment = _EPOCH + timedelta(seconds=seconds)
            elif rule.format == "iso":
                moment = datetime.fromisoformat(text)
            else:
                moment = datetime.strptime(text, rule.format)  # noqa: DTZ007  the zone is the mapping's
            moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=self._zone)
            return (moment.astimezone(UTC) - _EPOCH) // _MICROSECOND
        except (ValueError, OverflowError):
            raise _Wrong(NO_TIME, f"{_shown(text)} is no time of the form {rule.format}") from None

    # --- quality ----------------------------------------------------------------------------------------------------------

    def _quality(self, rules: Quality, record: dict[str, Any], facts: _Facts, aside: list[_Wrong]) -> dict[str, float]:
        stated: dict[str, float] = {}
        for name, rule in rules.items():
            try:
                value = self._by_rule(rule, record, facts) if isinstance(rule, QualityRule) else rule
            except _Wrong as wrong:
                aside.append(_Wrong(wrong.kind, f"{name}: {wrong.reason}"))
                continue
            except InvalidInput:  # it cannot be computed
                continue
            if value is not None and self.registry.by_name[name].definition.accepts(value):
                stated[name] = float(value)
        return stated

    def _by_rule(self, rule: QualityRule, record: dict[str, Any], facts: _Facts) -> float | None:
        def number(said: float | str | None) -> float:
            if isinstance(said, str):
                raw = at_path(record, said)
                if self._is_missing(raw):
                    raise InvalidInput(f"{said} is missing")
                return self._number(raw, said)
            assert said is not None  # the mapping was checked
            return said

        def age() -> float:
            if facts.observed_us is None:
                raise InvalidInput("nobody says when it was observed")
            return computed.freshness(facts.observed_us / 1e6, facts.at_us / 1e6)

        match rule.rule:
            case "":
                return number(rule.column)
            case "completeness":
                return computed.completeness(facts.found.keys(), [one.name for one in self.mapping.attributes])
            case "consistency":
                return computed.consistency(self._plausible(facts.found))
            case "freshness":
                return age()
            case "timeliness":
                return computed.timeliness(age(), number(rule.lifetime))
            case "accuracy":
                return None if facts.value is None else computed.accuracy(facts.value, number(rule.reference), number(rule.span))
            case "precision":
                return computed.precision([number(column) for column in rule.columns], number(rule.span))
            case "correctness":
                return computed.correctness(int(number(rule.right)), int(number(rule.checked)))
            case "trust":
                return computed.trust(int(number(rule.kept)), int(number(rule.broken)))
            case _:
                return computed.spatial_resolution(number(rule.area))

    def _plausible(self, found: dict[str, Any]) -> Iterator[bool]:
        for one in self.mapping.attributes:
            if one.name in found and (one.min is not None or one.max is not None):
                value = found[one.name][0]
                yield (one.min is None or value >= one.min) and (one.max is None or value <= one.max)


class _Facts(NamedTuple):
    """What rules go by."""

    value: float | None
    found: dict[str, Any]  # the attributes that the line has
    at_us: int
    observed_us: int | None


def _json(line: str, _place: str, _header: Sequence[str]) -> dict[str, Any]:
    try:
        record = _decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _Wrong(UNREADABLE, f"it is not JSON: {error}") from None
    if not isinstance(record, dict):
        raise _Wrong(UNREADABLE, f"it is {_shown(record)}, and no JSON object")
    return record


def _mqtt(line: str, place: str, _header: Sequence[str]) -> dict[str, Any]:
    topic = {"@topic": place, **{f"@topic[{number}]": part for number, part in enumerate(place.split("/"))}}
    try:
        payload = _decode(line)
    except (msgspec.DecodeError, RecursionError):
        payload = line  # a plain text
    return (payload if isinstance(payload, dict) else {"@payload": payload}) | topic


def _point(geometry: Any) -> tuple[float | None, float | None]:
    coordinates = geometry.get("coordinates") if isinstance(geometry, dict) and geometry.get("type") == "Point" else None
    if isinstance(coordinates, list) and len(coordinates) >= 2 and all(isinstance(one, int | float) for one in coordinates):
        return float(coordinates[1]), float(coordinates[0])
    return None, None


def _identity(entity: str, said: Said, here: str) -> str:
    """Of what is said; a line without a time of its own is like no other."""
    is_dated = any(value.observed_us is not None for value in said.observed)
    values = [(one.attribute, one.dataset, one.value, one.text, one.observed_us) for one in said.observed]
    content = (entity, values, "" if is_dated else here)
    return blake2b(_encode(content), digest_size=16).hexdigest()


def _shown(raw: Any) -> str:
    text = _encode(raw).decode() if not isinstance(raw, str) else repr(raw)
    return text if len(text) <= 60 else text[:59] + "…"
