"""Mapping files: how lines of a foreign form become entities, with their quality. Pure; `hanse.pipeline.collectors` runs them.

    [source]                              # the collector
    name = "uci-air"
    format = "csv"                        # csv, jsonl, parquet, mqtt, ngsi-ld or gtfs-rt
    delimiter = ","                       # of CSV; `columns` are its names if the files have no first line with them
    decimal = "."
    missing = ["", -200]                  # what means that there is no value
    [entity]
    id = "urn:ngsi-ld:Device:{station}"   # {a column}, or {a.path[0].in.JSON}
    type = "AirQualityObserved"
    scopes = ["/town/bordeaux"]
    lat = 44.83                           # or a column: lat = "latitude"
    lon = -0.57
    [time]                                # left out: when it was collected
    column = "{Date} {Time}"              # a column, or a text with several
    format = "%d/%m/%Y %H:%M:%S"          # of strptime; or iso, unix, unix-ms
    zone = "Europe/Rome"                  # of times that do not say theirs
    [[attributes]]
    name = "NO2"
    column = "NO2_GT"
    unit = "GQ"                           # UN/CEFACT
    kind = "number"                       # or text, boolean, json
    scale = 1.0                           # times this, plus `offset`
    min = 0.0                             # what is plausible, for consistency
    quality = { precision = 90.0, accuracy = { rule = "accuracy", reference = "REF", span = 300.0 } }
    [quality]                             # of every attribute
    trust = { column = "confidence" }
    completeness = { rule = "completeness" }

Quality is a number, a column, or one of the `RULES`, which are functions of `hanse.quality.computed`: completeness (the share of
the mapped attributes that a line has), consistency (the share of plausible ranges that hold), freshness, timeliness (`lifetime`
in seconds), accuracy (`reference`, `span`), precision (`columns` of repeated measurements, `span`), correctness (`right`,
`checked`), trust (`kept`, `broken`), spatialResolution (`area`). Where one cannot be computed the criterion is not stated.

In MQTT the columns of a JSON object are its members; `@topic` is the topic, `@topic[1]` its second part, and `@payload` a payload
that is no object. With format "ngsi-ld" and without [[attributes]] entities are taken as they are.

`load_mapping(path or text) -> Mapping`.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta, Struct

from hanse.model import InvalidInput
from hanse.quality import Registry, default_registry

MAX_FILE_BYTES: Final = 1 << 20
FORMATS: Final = ("csv", "jsonl", "parquet", "mqtt", "ngsi-ld", "gtfs-rt")
RULES: Final = (
    "completeness",
    "consistency",
    "freshness",
    "timeliness",
    "accuracy",
    "precision",
    "correctness",
    "trust",
    "spatialResolution",
)
_NEEDS: Final = {
    "timeliness": ("lifetime",),
    "accuracy": ("reference", "span"),
    "precision": ("columns", "span"),
    "correctness": ("right", "checked"),
    "trust": ("kept", "broken"),
    "spatialResolution": ("area",),
}
_PLACEHOLDER: Final = re.compile(r"\{([^{}]+)\}")
_STEP: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]")

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=2_048)]
NumberOrColumn: TypeAlias = float | str


class QualityRule(Struct, frozen=True, forbid_unknown_fields=True):
    """From a column, or by a rule and what that needs: numbers, or columns that have them."""

    column: str = ""
    rule: str = ""
    lifetime: NumberOrColumn | None = None
    reference: NumberOrColumn | None = None
    span: NumberOrColumn | None = None
    columns: tuple[str, ...] = ()
    right: NumberOrColumn | None = None
    checked: NumberOrColumn | None = None
    kept: NumberOrColumn | None = None
    broken: NumberOrColumn | None = None
    area: NumberOrColumn | None = None


Quality: TypeAlias = dict[str, float | QualityRule]


class SourceRule(Struct, frozen=True, forbid_unknown_fields=True):
    name: Name
    format: Literal["csv", "jsonl", "parquet", "mqtt", "ngsi-ld", "gtfs-rt"]
    delimiter: Annotated[str, Meta(min_length=1, max_length=1)] = ","
    decimal: Literal[".", ","] = "."
    encoding: str = "utf-8"
    missing: tuple[str | float, ...] = ("",)
    columns: tuple[Name, ...] = ()


class EntityRule(Struct, frozen=True, forbid_unknown_fields=True):
    id: Name
    type: Name
    scopes: tuple[Name, ...] = ()
    lat: NumberOrColumn | None = None
    lon: NumberOrColumn | None = None


class TimeRule(Struct, frozen=True, forbid_unknown_fields=True):
    column: Name
    format: Name = "iso"
    zone: Name = "UTC"

    @property
    def template(self) -> str:
        return self.column if "{" in self.column else f"{{{self.column}}}"


class AttributeRule(Struct, frozen=True, forbid_unknown_fields=True):
    name: Name
    column: str = ""  # its name, if nothing else is said
    unit: str = ""
    kind: Literal["number", "text", "boolean", "json"] = "number"
    scale: float = 1.0
    offset: float = 0.0
    min: float | None = None
    max: float | None = None
    quality: Quality = {}

    @property
    def path(self) -> str:
        return self.column or self.name


class Mapping(Struct, frozen=True, forbid_unknown_fields=True):
    source: SourceRule
    entity: EntityRule = EntityRule("{id}", "{type}")
    time: TimeRule | None = None
    attributes: tuple[AttributeRule, ...] = ()
    quality: Quality = {}


def load_mapping(source: Path | str, registry: Registry | None = None) -> Mapping:
    """Of a TOML file (a Path) or text (a str). Raises InvalidInput."""
    registry = registry or default_registry()
    if isinstance(source, str):
        return _parsed(source, registry)
    try:
        content = source.read_bytes()
        if len(content) > MAX_FILE_BYTES:
            raise InvalidInput(f"it is larger than {MAX_FILE_BYTES} bytes; a mapping is short")
        return _parsed(content.decode(), registry)
    except OSError as error:
        message = f"it cannot be read ({error.strerror}); give the path of a mapping file"
        raise InvalidInput(message, place=str(source)) from error
    except UnicodeDecodeError as error:
        raise InvalidInput("it is not UTF-8 text; save it as UTF-8", place=str(source)) from error
    except InvalidInput as error:
        raise error.at(str(source)) from error


def _parsed(text: str, registry: Registry) -> Mapping:
    try:
        mapping = msgspec.convert(_toml(text), Mapping)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$")
        raise InvalidInput(what.replace("`", "'"), place=place.strip(".`") or "the mapping") from error
    _check(mapping, registry)
    return mapping


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"it is not TOML: {error}; mend that line") from error
    except ValueError as error:
        raise InvalidInput("it has a number with thousands of digits; shorten it") from error
    except RecursionError as error:
        raise InvalidInput("it is nested too deeply; a mapping has [source], [entity], [time] and [[attributes]]") from error


def _check(mapping: Mapping, registry: Registry) -> None:
    """What the types cannot say. Raises InvalidInput."""
    if not mapping.attributes and mapping.source.format != "ngsi-ld":
        raise InvalidInput("it maps no attribute; add [[attributes]] with a name and a column")
    names = [one.name for one in mapping.attributes]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InvalidInput("it is mapped twice; keep one of them", place=f"attribute {twice!r}")
    if (mapping.entity.lat is None) != (mapping.entity.lon is None):
        raise InvalidInput("it has one of lat and lon; give both, or none", place="entity")
    try:
        "".encode(mapping.source.encoding)
    except LookupError:
        message = f"there is no encoding {mapping.source.encoding!r}; write utf-8, latin-1 or windows-1252"
        raise InvalidInput(message, place="source") from None
    if mapping.time is not None:
        try:
            ZoneInfo(mapping.time.zone)
        except (OSError, ValueError, KeyError):  # not there, or no name of one
            message = f"there is no time zone {mapping.time.zone!r}; write it like Europe/Paris, or UTC"
            raise InvalidInput(message, place="time") from None
        if mapping.time.format not in ("iso", "unix", "unix-ms") and "%" not in mapping.time.format:
            message = f"{mapping.time.format!r} is no format; write iso, unix, unix-ms, or one like %d/%m/%Y %H:%M"
            raise InvalidInput(message, place="time")
    _check_quality(mapping.quality, "quality", registry)
    for attribute in mapping.attributes:
        _check_quality(attribute.quality, f"attribute {attribute.name!r}", registry)
        if attribute.kind != "number" and (attribute.min, attribute.max, attribute.scale, attribute.offset) != (None, None, 1, 0):
            raise InvalidInput("min, max, scale and offset are for numbers", place=f"attribute {attribute.name!r}")


def _check_quality(quality: Quality, place: str, registry: Registry) -> None:
    for name, rule in quality.items():
        here = f"{place}, {name}"
        try:
            definition = registry.criterion(name).definition
        except InvalidInput as error:
            raise error.at(place) from None
        if not isinstance(rule, QualityRule):
            if not definition.accepts(rule):
                raise InvalidInput(f"{rule:g} is no value of it; give one {definition.range_words}", place=here)
            continue
        if bool(rule.column) == bool(rule.rule):
            raise InvalidInput("give a number, a column, or a rule", place=here)
        if rule.rule and rule.rule not in RULES:
            raise InvalidInput(f"there is no rule {rule.rule!r}; choose one of {', '.join(RULES)}", place=here)
        for need in _NEEDS.get(rule.rule, ()):
            if getattr(rule, need) in (None, ()):
                raise InvalidInput(f"the rule {rule.rule} needs {need}", place=here)


# --- columns and paths --------------------------------------------------------------------------------------------------


def at_path(record: dict[str, Any], path: str) -> Any:
    """What a record has there: a column of that very name, or `a.b[0].c` inside JSON; None if nothing."""
    if path in record:
        return record[path]
    found: Any = record
    for name, index in _STEP.findall(path):
        if index:
            found = found[int(index)] if isinstance(found, list) and int(index) < len(found) else None
        else:
            found = found.get(name) if isinstance(found, dict) else None
        if found is None:
            return None
    return found


def placeholders(template: str) -> list[str]:
    """The paths in a template."""
    return _PLACEHOLDER.findall(template)


def filled(template: str, values: dict[str, str]) -> str:
    """The template with the texts of its placeholders."""
    return _PLACEHOLDER.sub(lambda found: values[found[1]], template)
