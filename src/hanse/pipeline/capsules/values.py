"""What goes into a capsule and comes out of it, as plain values, and the document that a node is sent. Nothing here needs Spark.

- `Reading`: one observation in a window; `Span`: the window;
- `Value`: one attribute of what a capsule makes, with its quality; `Inferred`: all of them, where, and of when;
- `publication(...)`: the NGSI-LD entity as JSON, or why it is not to be published.

**Time.** `observedAt` of what is made is when the *oldest* of the observations was made that it rests on. So the node's own
freshness, which is the age of `observedAt`, is that of the oldest contribution, now and later. Where a guarantee speaks of
freshness, it is the age at the end of the window, which is the same however often Spark computes it.

**Names.** What a capsule makes of one place and window has always the same id, `urn:ngsi-ld:<type>:<capsule>:<place>:<start>`:
what is computed again overwrites.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from hanse.quality import default_registry
from hanse.quality.contracts import shortfall
from hanse.quality.keys import whole

FRESHNESS: Final = "freshness"
FROM: Final = "dateObservedFrom"  # the window, by the names of the Smart Data Models
TO: Final = "dateObservedTo"
_URN: Final = "urn:ngsi-ld:"
_encode = msgspec.json.Encoder().encode


class Reading(NamedTuple):
    """In the order of time, then of names: the same whenever a window is computed again."""

    observed_at: float  # seconds since 1970
    entity: str
    attribute: str
    value: float | None
    text: str | None = None
    unit: str | None = None
    lat: float | None = None
    lon: float | None = None
    quality: Mapping[str, float] = {}


class Span(NamedTuple):
    """A window of time, in seconds since 1970; its end is not in it."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


class Value(NamedTuple):
    """An attribute that a capsule makes: a number or a text."""

    attribute: str
    value: float | str | bool
    unit: str = ""
    quality: Mapping[str, float] = {}


class Inferred(NamedTuple):
    values: tuple[Value, ...]
    observed_at: float  # of the oldest observation that it rests on
    lat: float | None = None
    lon: float | None = None
    about: str = ""  # what it is about, where a place has several: is put behind the place in the id


class Publication(NamedTuple):
    id: str
    observed_at: float
    entity: str  # JSON
    problem: str | None  # why it is set aside
    quality: dict[str, float]


def publication(
    capsule: str,
    type_: str,
    guarantee: str,
    place: str,
    span: Span | None,
    made: Inferred,
    scopes: Sequence[str] | None = None,
    is_newest_only: bool = False,
) -> Publication:
    """`is_newest_only`: one entity for each place, which changes, and not one for each window."""
    id_ = f"{_URN}{quote(type_)}:{capsule}:{quote(place.removeprefix(_URN), safe=':/')}"
    if made.about:
        id_ += f":{quote(made.about, safe='')}"
    if span is not None and not is_newest_only:
        id_ += f":{_moment(span.start):%Y%m%dT%H%M%SZ}"
    at = _text(made.observed_at)
    entity: dict[str, Any] = {"id": id_, "type": type_}
    if scopes:
        entity["scope"] = list(scopes)
    if made.lat is not None and made.lon is not None:
        position = [round(made.lon, 7), round(made.lat, 7)]  # a centimetre
        entity["location"] = {"type": "GeoProperty", "value": {"type": "Point", "coordinates": position}}
    if span is not None:
        for name, moment in ((FROM, span.start), (TO, span.end)):
            entity[name] = {"type": "Property", "value": {"@type": "DateTime", "@value": _text(moment)}}
    entity["source"] = {"type": "Property", "value": f"capsule {capsule}"}
    for one in made.values:
        entity[one.attribute] = _attribute(one, at)
    age = {FRESHNESS: max(0.0, span.end - made.observed_at)} if span is not None else {}
    quality = whole({one.attribute: {**age, **_known(one.quality)} for one in made.values}, {}, default_registry())
    problem = _problem(made, guarantee, quality)
    return Publication(id_, made.observed_at, _encode(entity).decode(), problem, quality)


def _problem(made: Inferred, guarantee: str, quality: Mapping[str, float]) -> str | None:
    strange = [one.attribute for one in made.values if isinstance(one.value, float) and not isfinite(one.value)]
    if strange:
        return f"{', '.join(strange)} is not a number that can be published"
    missing = shortfall(guarantee, quality) if guarantee else ()
    return f"below the guarantee: {'; '.join(missing)}" if missing else None


def _attribute(one: Value, at: str) -> dict[str, Any]:
    is_number = isinstance(one.value, float) and isfinite(one.value)
    value = round(one.value, 6) if is_number and isinstance(one.value, float) else one.value
    attribute: dict[str, Any] = {"type": "Property", "value": value, "observedAt": at}
    if one.unit:
        attribute["unitCode"] = one.unit
    for name, number in sorted(_known(one.quality).items()):
        if name != FRESHNESS:  # a number that would stay while the value gets old
            attribute[name] = {"type": "Property", "value": round(number, 6)}
    return attribute


def _known(quality: Mapping[str, float]) -> dict[str, float]:
    return {name: number for name, number in quality.items() if number is not None}


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _text(seconds: float) -> str:
    return _moment(seconds).isoformat(timespec="microseconds").replace("+00:00", "Z")
