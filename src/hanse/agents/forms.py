"""NGSI-LD attributes, normalized, and names, as agents write them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from hanse.model.errors import InvalidInput

MILLISECONDS_FROM = 100_000_000_000  # as seconds this would be the year 5138: devices mean milliseconds


def urn(type_: str, *parts: str) -> str:
    """The id of an entity: what a URI cannot hold is written with percent signs, and so is `:`."""
    return ":".join(["urn:ngsi-ld", type_, *(quote(part, safe="") for part in parts)])


def prop(value: Any, *, unit: str = "", at: str = "") -> dict[str, Any]:
    return _with({"type": "Property", "value": value} | ({"unitCode": unit} if unit else {}), at)


def date_time(text: str, *, at: str = "") -> dict[str, Any]:
    return prop({"@type": "DateTime", "@value": text}, at=at)


def point(longitude: float, latitude: float, *, at: str = "") -> dict[str, Any]:
    """Raises InvalidInput for what is nowhere on the earth."""
    if not (math.isfinite(longitude) and math.isfinite(latitude) and abs(longitude) <= 180 and abs(latitude) <= 90):
        raise InvalidInput(f"longitude {longitude:g}, latitude {latitude:g} is no place on the earth")
    place = {"type": "Point", "coordinates": [round(longitude, 6), round(latitude, 6)]}
    return _with({"type": "GeoProperty", "value": place}, at)


def link(target: str | Iterable[str], *, at: str = "") -> dict[str, Any]:
    return _with({"type": "Relationship", "object": target if isinstance(target, str) else list(target)}, at)


def _with(attribute: dict[str, Any], at: str) -> dict[str, Any]:
    return attribute | {"observedAt": at} if at else attribute


def now_text() -> str:
    return _text(datetime.now(UTC))


def time_text(seconds: float) -> str:
    """The time so many seconds after 1970 began. Raises InvalidInput for what is no time of this era."""
    try:
        return _text(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInput(f"{seconds!r} is no time in seconds since 1970") from error


def read_time(value: Any) -> str:
    """A time that a device writes: ISO 8601 (without a zone: UTC), or seconds or milliseconds since 1970."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return time_text(value / 1000 if abs(value) >= MILLISECONDS_FROM else value)
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value)
            return _text(found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC))
        except (ValueError, OverflowError):
            pass
    raise InvalidInput(f"{str(value)[:60]!r} is no time; give ISO 8601 like 2026-05-01T12:00:00Z, or seconds since 1970")


def _text(moment: datetime) -> str:
    if moment.year < 1000:
        raise InvalidInput(f"the year {moment.year} is no time of a device")
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
