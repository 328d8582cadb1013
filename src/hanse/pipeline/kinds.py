"""Capsules as a TOML file has them: one table each, whose `kind` says which keys it has beside those that all have.

All: `name`, `kind`, `output`, `guarantee`, `description`, `newest_only`; what is read: `types`, `attributes`, `area`,
`scopes`, `quality`. All but `filtering` and `learned`: `place` ("entity", "scope", "everywhere", "cell 500"), `window`,
`every`, `late`.

| kind | its own keys |
| --- | --- |
| aggregation | statistics, expected |
| filtering | |
| fusion | by, expected, unknown, tolerance |
| air-quality | no2, co |
| arrival | stops (id, lat, lon), detour, slow, near, expected |
| occupancy | devices_per_person, capacity, medium, high, calibrated, expected |
| outliers | limit, expected, all_windows |
| learned | model, limit |
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

from msgspec import Struct

from hanse.model import InvalidInput
from hanse.pipeline.capsules import (
    Aggregation,
    AirQuality,
    Arrival,
    Filtering,
    Fusion,
    Learned,
    Occupancy,
    Outliers,
    Place,
    Stop,
    Transform,
    Windows,
)

_PATH: Final = re.compile(r" - at `\$([^`]*)`$")
_INDEX: Final = re.compile(r"^\.capsules\[(\d+)\]")


class _Any(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    name: str
    output: str
    types: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    area: str = ""
    scopes: tuple[str, ...] = ()
    quality: str = ""
    guarantee: str = ""
    newest_only: bool = False
    description: str = ""


class _InWindows(_Any, frozen=True, kw_only=True):
    place: str = "entity"
    window: str | float = "10 minutes"
    every: str | float | None = None
    late: str | float = "1 minute"

    @property
    def when(self) -> Windows:
        return Windows.of(self.window, self.every, self.late)

    @property
    def where(self) -> Place:
        return Place.of(self.place)


class AggregationSection(_InWindows, frozen=True, kw_only=True, tag="aggregation"):
    statistics: tuple[str, ...] = ("mean",)
    expected: int | None = None

    def transform(self) -> Transform:
        return Aggregation(self.where, self.when, self.attributes, self.statistics, self.expected)


class FilteringSection(_Any, frozen=True, kw_only=True, tag="filtering"):
    def transform(self) -> Transform:
        return Filtering()


class FusionSection(_InWindows, frozen=True, kw_only=True, tag="fusion"):
    by: str = "accuracy"
    expected: int | None = None
    unknown: float = 0.0
    tolerance: float | None = None

    def transform(self) -> Transform:
        return Fusion(self.where, self.when, by=self.by, expected=self.expected, unknown=self.unknown, tolerance=self.tolerance)


class AirQualitySection(_InWindows, frozen=True, kw_only=True, tag="air-quality"):
    window: str | float = "8 hours"
    every: str | float | None = "1 hour"
    late: str | float = "1 hour"
    no2: str = "no2"
    co: str = "co"

    def transform(self) -> Transform:
        return AirQuality(where=self.where, windows=self.when, no2=self.no2, co=self.co)


class ArrivalSection(_InWindows, frozen=True, kw_only=True, tag="arrival"):
    stops: tuple[Stop, ...]
    detour: float = 1.3
    slow: float = 0.5
    near: float = 30.0
    expected: int | None = None

    def transform(self) -> Transform:
        return Arrival(
            self.where,
            self.when,
            stops=self.stops,
            detour=self.detour,
            slow=self.slow,
            near=self.near,
            expected=self.expected,
        )


class OccupancySection(_InWindows, frozen=True, kw_only=True, tag="occupancy"):
    devices_per_person: float = 1.0
    capacity: float | None = None
    medium: float = 40.0
    high: float = 75.0
    calibrated: float = 80.0
    expected: int | None = None

    def transform(self) -> Transform:
        return Occupancy(
            self.where,
            self.when,
            devices_per_person=self.devices_per_person,
            capacity=self.capacity,
            medium=self.medium,
            high=self.high,
            calibrated=self.calibrated,
            expected=self.expected,
        )


class OutliersSection(_InWindows, frozen=True, kw_only=True, tag="outliers"):
    limit: float = 3.5
    expected: int | None = None
    all_windows: bool = False

    def transform(self) -> Transform:
        return Outliers(self.where, self.when, limit=self.limit, expected=self.expected, is_anomalies_only=not self.all_windows)


class LearnedSection(_Any, frozen=True, kw_only=True, tag="learned"):
    model: str
    limit: float = 3.0

    def transform(self) -> Transform:
        if len(self.attributes) != 1:
            raise InvalidInput('a learned capsule is of one attribute: attributes = ["no2"]')
        return Learned(self.attributes[0], self.model, self.limit)


Section: TypeAlias = (
    AggregationSection
    | FilteringSection
    | FusionSection
    | AirQualitySection
    | ArrivalSection
    | OccupancySection
    | OutliersSection
    | LearnedSection
)
KINDS: Final = ("aggregation", "filtering", "fusion", "air-quality", "arrival", "occupancy", "outliers", "learned")


def place_in_words(message: str, raw: dict[str, Any]) -> str:
    """What msgspec says of a file, with the capsule by its name."""
    found = _PATH.search(message)
    path = found[1] if found else ""
    said = (
        _PATH.sub("", message)
        .replace("Object contains unknown field", "there is no key")
        .replace("Object missing", "there is no")
    )
    if said.startswith("Invalid value") and path.endswith(".kind"):
        said = f"{said.lower()}; a kind is one of {', '.join(KINDS)}"
    index = _INDEX.match(path)
    if index is None:
        return f"{said} in {path.lstrip('.')}" if path else said
    capsules = raw.get("capsules", [])
    name = capsules[int(index[1])].get("name") if int(index[1]) < len(capsules) else None
    rest = path[index.end() :].lstrip(".")
    return f"{said} in capsule {name or int(index[1]) + 1}" + (f", {rest}" if rest else "")
