"""What the streets should say, and what Bob should hear of it, in plain Python: the pipeline once more, with nothing of Spark's.

It is written from what the pipeline promises, not from its code: the weights of a fusion, how quality comes through, what is
below a guarantee or a requirement, which windows are closed at the end. Only the table of the index is the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from math import fsum
from typing import Final

from msgspec import Struct

from bordeaux.index import CO_HOURS, CO_HOURS_MIN, Index, air_quality_index, co_index, co_ppm, no2_index, no2_ppb
from bordeaux.measurements import HOUR, Row
from bordeaux.sensors import BOXES, SENSORS_A_STREET, Sensed, sensed
from bordeaux.streets import Report, Statement, Street, true_index

LEVEL: Final = "airQualityLevel"
PLACES: Final = 6  # decimals of what is published
# as pipeline.toml has them
FUSED_MIN: Final = {"accuracy": 60.0, "completeness": 60.0}
FUSED_LATE: Final = timedelta(minutes=10)
USED_MIN: Final = {"accuracy": 50.0}
INDEX_MIN: Final = {"accuracy": 60.0}
INDEX_LATE: Final = timedelta(hours=1)


class Fused(Struct, frozen=True):
    """One gas of a street in an hour."""

    value: float
    quality: dict[str, float]


def street_hours(rows: Mapping[datetime, Row], since: datetime, until: datetime) -> list[Report]:
    """What the streets say, by hour and street: of all windows that are closed once everything until then has come."""
    every = [one for box in BOXES for one in sensed(rows, box, since, until)]
    if not every:
        return []
    closed = max(one.hour for one in every) - FUSED_LATE
    fused: dict[Street, dict[datetime, dict[str, Fused]]] = {}
    for (street, hour), group in _by_street_and_hour(every).items():
        if hour + HOUR <= closed:
            gases = {gas: fuse(readings) for gas, readings in group.items()}
            if _is_enough(_worst(gases.values()), FUSED_MIN):
                used = {gas: one for gas, one in map(_published, gases.items()) if _is_enough(one.quality, USED_MIN)}
                if used:
                    fused.setdefault(street, {})[hour] = used
    closed = max((hour for hours in fused.values() for hour in hours), default=since) - INDEX_LATE
    found = []
    for street, hours in fused.items():
        for hour in hours:
            if hour + HOUR <= closed:
                said = inferred(street, hours, hour, true_index(rows, hour))
                if said is not None and _is_enough(said.quality[LEVEL], INDEX_MIN):
                    found.append(said)
    return sorted(found, key=lambda one: (one.statement.hour, one.street.slug))


def _by_street_and_hour(every: Iterable[Sensed]) -> dict[tuple[Street, datetime], dict[str, list[Sensed]]]:
    groups: defaultdict[tuple[Street, datetime], dict[str, list[Sensed]]] = defaultdict(dict)
    for one in every:
        groups[one.sensor.street, one.hour].setdefault(one.gas, []).append(one)
    return groups


def fuse(readings: Sequence[Sensed]) -> Fused:
    """Each with the weight of its accuracy; who does not know it counts only if nobody does, and then all count alike."""
    knowing = [one for one in readings if one.quality.get("accuracy", 0.0) > 0]
    used = knowing or list(readings)
    weights = [one.quality["accuracy"] if knowing else 1.0 for one in used]
    quality = {
        name: _mean([one.quality[name] for one in used], weights)
        for name in ("accuracy", "precision")
        if all(name in one.quality for one in used)
    }
    quality["completeness"] = min(one.quality["completeness"] for one in used) * len(used) / SENSORS_A_STREET
    return Fused(_mean([one.value for one in used], weights), quality)


def inferred(street: Street, hours: Mapping[datetime, Mapping[str, Fused]], hour: datetime, truth: Index | None) -> Report | None:
    """The index of an hour, by NO2 in it and CO in eight, with the quality of the gas that decides; None without NO2."""
    if "NO2" not in hours[hour]:
        return None
    no2 = hours[hour]["NO2"]
    eight = [hour - number * HOUR for number in range(CO_HOURS)]
    co = {one: hours[one]["CO"] for one in eight if one in hours and "CO" in hours[one]}
    index = air_quality_index(no2.value, [one.value for one in co.values()])
    assert index is not None
    counts, deciding = [no2], [no2]
    observed = hour
    if len(co) >= CO_HOURS_MIN:
        counts += co.values()
        observed = min(hour, *co)
        if co_index(co_ppm(_mean([one.value for one in co.values()]))) > no2_index(no2_ppb(no2.value)):
            deciding = list(co.values())
    quality = {name: value for name, value in _worst(deciding, is_known_by_all=True).items() if name != "completeness"}
    quality["completeness"] = min(one.quality["completeness"] for one in counts) * (1 + len(co)) / (1 + CO_HOURS)
    values = {gas: one.value for gas, one in hours[hour].items()}
    rounded = {name: round(value, PLACES) for name, value in quality.items()}
    return Report(street, Statement(hour, observed, values, index), {LEVEL: rounded}, truth)


def _mean(values: Sequence[float], weights: Sequence[float] = ()) -> float:
    weights = weights or [1.0] * len(values)
    return fsum(value * weight for value, weight in zip(values, weights, strict=True)) / fsum(weights)


def _worst(every: Iterable[Fused], *, is_known_by_all: bool = False) -> dict[str, float]:
    """Percentages only, which are all better when higher."""
    stated = [one.quality for one in every]
    names = set[str]().union(*stated)
    if is_known_by_all:
        names = {name for name in names if all(name in one for one in stated)}
    return {name: min(one[name] for one in stated if name in one) for name in names}


def _is_enough(quality: Mapping[str, float], least: Mapping[str, float]) -> bool:
    return all(name in quality and quality[name] >= value for name, value in least.items())


def _published(one: tuple[str, Fused]) -> tuple[str, Fused]:
    """As a node is told: with so many decimals."""
    gas, fused = one
    quality = {name: round(value, PLACES) for name, value in fused.quality.items()}
    return gas, Fused(round(fused.value, PLACES), quality)
