"""What may be the value of an attribute: JSON within limits, times in UTC, geometries that are ones."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Final

from hanse.ngsild.entity import NULL
from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.limits import ARRAY_LENGTH_MAX, NUMBER_MAX, STRING_LENGTH_MAX, VALUE_DEPTH_MAX

# all of RFC 7946 but GeometryCollection, as the specification has it
GEOMETRIES: Final = frozenset({"Point", "MultiPoint", "LineString", "MultiLineString", "Polygon", "MultiPolygon"})
_DATE_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?Z", re.ASCII)
_LANGUAGE: Final = re.compile(r"[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*")
_LEVEL: Final = r"[^\W\d_]\w*"
_SCOPE: Final = re.compile(rf"/?{_LEVEL}(?:/{_LEVEL})*")


def check_date_time(value: Any, what: str) -> str:
    """As given, but for a decimal comma."""
    time = utc_time(value)
    if time is None:
        raise BadRequestData(f"{what} is not a time in UTC: {shown(value)}; write it like 2026-01-31T12:00:00Z")
    return time


def utc_time(value: Any) -> str | None:
    """As given, but for a decimal comma; None: it is no time in UTC."""
    if type(value) is not str or not _DATE_TIME.fullmatch(value):
        return None
    try:
        datetime.fromisoformat(value[:19])
    except ValueError:
        return None
    return value.replace(",", ".")


def check_scope(value: Any) -> str:
    if type(value) is not str or not _SCOPE.fullmatch(value):
        raise BadRequestData(
            f"{shown(value)} is not a scope; write it like /Madrid/Gardens: letters, digits and _, a letter first"
        )
    return value if value[0] == "/" else "/" + value


def check_number(value: float, what: str) -> None:
    if not -NUMBER_MAX <= value <= NUMBER_MAX:  # not a number fails as well
        raise BadRequestData(f"{what}: a number is beyond what a double holds; send it as a text")


def check_json(value: Any, what: str, *, null: bool = False, ngsi_null: bool = False, depth: int = VALUE_DEPTH_MAX) -> None:
    """`null`: JSON's null may be in it; `ngsi_null`: NGSI-LD's may."""
    kind = type(value)
    if kind is str:
        if len(value) > STRING_LENGTH_MAX:
            raise BadRequestData(f"{what}: a text is longer than {STRING_LENGTH_MAX} characters")
        if value == NULL and not ngsi_null:
            raise BadRequestData(f"{what}: {NULL!r} deletes, and there is nothing to be deleted here; leave it out")
    elif kind is bool:
        return
    elif kind is int or kind is float:
        check_number(value, what)
    elif value is None:
        if not null:
            raise BadRequestData(f"{what}: null is no value in NGSI-LD; leave it out, or say {NULL!r} in a patch to delete")
    elif depth <= 0:
        raise BadRequestData(f"{what} is nested more than {VALUE_DEPTH_MAX} deep")
    elif kind is list:
        if len(value) > ARRAY_LENGTH_MAX:
            raise BadRequestData(f"{what}: an array has more than {ARRAY_LENGTH_MAX} elements")
        for item in value:
            check_json(item, what, null=null, ngsi_null=ngsi_null and null, depth=depth - 1)  # a patch replaces arrays as a whole
    elif kind is dict:
        for item in value.values():
            check_json(item, what, null=null, ngsi_null=ngsi_null, depth=depth - 1)
        if value.get("@type") == "DateTime" and "@value" in value:
            check_date_time(value["@value"], what)
    else:
        raise BadRequestData(f"{what}: {shown(value)} is not JSON")


def check_language_map(value: Any, what: str) -> None:
    if type(value) is not dict or not value:
        raise BadRequestData(f'{what}: a languageMap is an object like {{"en": "Bridge", "nl": "Brug"}}')
    for language, text in value.items():
        if language != "@none" and not _LANGUAGE.fullmatch(language):
            raise BadRequestData(f"{what}: {language[:40]!r} is not a language tag; write it like en or pt-BR, or @none")
        for item in text if type(text) is list else (text,):
            if type(item) is not str:
                raise BadRequestData(f"{what}: the text in language {language!r} must be a string or an array of strings")
            check_json(item, what, ngsi_null=True)


def looks_like_geometry(value: Any) -> bool:
    if type(value) is not dict:
        return False
    kind = value.get("type")
    return type(kind) is str and kind in GEOMETRIES and "coordinates" in value


def check_geometry(value: Any, what: str) -> None:
    """A GeoJSON geometry (RFC 7946): positions of two to four finite numbers, rings closed."""
    kind = value.get("type") if type(value) is dict else None
    if type(kind) is not str or kind not in GEOMETRIES:
        raise BadRequestData(f"{what} is not a GeoJSON geometry: its type must be one of {', '.join(sorted(GEOMETRIES))}")
    coordinates = value.get("coordinates")
    match kind:
        case "Point":
            _position(coordinates, what)
        case "MultiPoint":
            _each(coordinates, what, kind, 1, _position)
        case "LineString":
            _line(coordinates, what)
        case "MultiLineString":
            _each(coordinates, what, kind, 1, _line)
        case "Polygon":
            _polygon(coordinates, what)
        case _:
            _each(coordinates, what, kind, 1, _polygon)


def _position(value: Any, what: str) -> None:
    if type(value) is not list or not 2 <= len(value) <= 4:
        raise BadRequestData(f"{what}: {shown(value)} is not a position; write it like [longitude, latitude]")
    for number in value:
        kind = type(number)
        if kind is not float and kind is not int:
            raise BadRequestData(f"{what}: {shown(number)} in a position is not a number")
    if not (-180 <= value[0] <= 180 and -90 <= value[1] <= 90):
        raise BadRequestData(
            f"{what}: {shown(value)} is not on Earth; longitude is first and within 180, latitude within 90 degrees"
        )
    for number in value[2:]:
        check_number(number, what)


def _line(value: Any, what: str) -> None:
    _each(value, what, "LineString", 2, _position)


def _ring(value: Any, what: str) -> None:
    _each(value, what, "ring of a Polygon", 4, _position)
    if value[0] != value[-1]:
        raise BadRequestData(f"{what}: a ring of a Polygon must end where it starts")


def _polygon(value: Any, what: str) -> None:
    _each(value, what, "Polygon", 1, _ring)


def _each(value: Any, what: str, kind: str, least: int, check: Any) -> None:
    if type(value) is not list or not least <= len(value) <= ARRAY_LENGTH_MAX:
        raise BadRequestData(f"{what}: a {kind} needs an array of at least {least} and at most {ARRAY_LENGTH_MAX} elements")
    for item in value:
        check(item, what)


def shown(value: Any) -> str:
    """A value in an error message: one line, not too long."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array" if any(isinstance(item, (dict, list)) for item in value) else f"[{', '.join(map(shown, value[:5]))}]"
    if isinstance(value, int) and abs(value) > 10**18:
        return "a huge number"
    text = "null" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
