"""The air quality index of the US EPA from NO2 and CO: the table, the equation, and the capsule.

Break points, truncation and equation: EPA-454/B-24-002 (May 2024), table 6, and 40 CFR part 58, appendix G. CO counts by the
mean of eight hours, NO2 by that of one hour. The index is the highest of both.

The table is in parts per million (CO) and billion (NO2); analysers give masses per volume. European law (1999/30/EC,
2008/50/EC since) takes the volumes of gases at 293 K and 101.3 kPa, where a mole has 24.055 litres: 1 ppb of NO2 is 1.9125
µg/m3.

**Quality of what the capsule makes**: the worst over the readings of the gas that decides (its index is the highest), because
the index is that gas's alone. `completeness`: hours that have readings, of nine: one of NO2 and eight of CO. Freshness: the
oldest reading of the hours that count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import floor, fsum
from typing import ClassVar, Final

from msgspec import Struct

from hanse.pipeline.capsules.gathering import Gathering, position_of
from hanse.pipeline.capsules.places import Place, Windows
from hanse.pipeline.capsules.propagation import completeness_of, worst_of
from hanse.pipeline.capsules.values import Inferred, Reading, Span, Value

LEVELS: Final = ("good", "moderate", "unhealthyForSensitiveGroups", "unhealthy", "veryUnhealthy", "hazardous")
UNHEALTHY: Final = LEVELS[2:]  # for someone who has asthma: from here on
INDEX_RANGES: Final = ((0, 50), (51, 100), (101, 150), (151, 200), (201, 300), (301, 500))
CO_PPM: Final = ((0.0, 4.4), (4.5, 9.4), (9.5, 12.4), (12.5, 15.4), (15.5, 30.4), (30.5, 50.4))
NO2_PPB: Final = ((0, 53), (54, 100), (101, 360), (361, 649), (650, 1249), (1250, 2049))

MOLAR_VOLUME_L: Final = 24.055  # 0.082057 l atm / (mol K) at 293.15 K and 1 atm
CO_G_MOL: Final = 28.010
NO2_G_MOL: Final = 46.0055
CO_HOURS: Final = 8
CO_HOURS_MIN: Final = 6  # three quarters of them, as the EPA has it for means

HOUR_S: Final = 3600
INDEX: Final = "airQualityIndex"
LEVEL: Final = "airQualityLevel"
MICROGRAMS: Final = "GQ"  # per cubic metre
MILLIGRAMS: Final = "GP"
PPM: Final = "59"
PPB: Final = "61"
_TO_PPB: Final = {PPB: 1.0, PPM: 1000.0}
_TO_MICROGRAMS: Final = {MICROGRAMS: 1.0, MILLIGRAMS: 1000.0}


class Index(Struct, frozen=True):
    value: int
    level: str


def co_ppm(mg_m3: float) -> float:
    return mg_m3 * MOLAR_VOLUME_L / CO_G_MOL


def no2_ppb(ug_m3: float) -> float:
    return ug_m3 * MOLAR_VOLUME_L / NO2_G_MOL


def air_quality_index(no2: float | None, co: Sequence[float]) -> Index | None:
    """Of NO2 in µg/m3 in this hour and of CO in mg/m3 in up to eight, this hour's among them. None without NO2."""
    if no2 is None:
        return None
    value = no2_index(no2_ppb(no2))
    if len(co) >= CO_HOURS_MIN:
        value = max(value, co_index(co_ppm(fsum(co) / len(co))))
    return Index(value, level_of(value))


def co_index(ppm: float) -> int:
    """By the mean of eight hours, which is cut to one decimal."""
    return _index(floor(ppm * 10 + 1e-9) / 10, CO_PPM)


def no2_index(ppb: float) -> int:
    """By the mean of one hour, which is cut to a whole number."""
    return _index(float(floor(ppb + 1e-9)), NO2_PPB)


def level_of(index: int) -> str:
    return next((level for level, (_, high) in zip(LEVELS, INDEX_RANGES, strict=True) if index <= high), LEVELS[-1])


def _index(concentration: float, table: Sequence[tuple[float, float]]) -> int:
    """A straight line between the break points; above the table the last one goes on."""
    last = len(table) - 1
    row = next((number for number, (_, high) in enumerate(table) if concentration <= high), last)
    (low, high), (index_low, index_high) = table[row], INDEX_RANGES[row]
    return floor((index_high - index_low) / (high - low) * (concentration - low) + index_low + 0.5)


class AirQuality(Gathering, frozen=True, kw_only=True):
    """Every hour, of the hour for NO2 and of the eight hours up to its end for CO. Units by their codes; none is µg/m3, mg/m3."""

    category: ClassVar[str] = "inference"
    is_of_numbers: ClassVar[bool] = True

    windows: Windows = Windows(CO_HOURS * HOUR_S, HOUR_S, HOUR_S)
    where: Place = Place("entity")
    no2: str = "no2"
    co: str = "co"

    def infer(self, readings: Sequence[Reading], span: Span) -> Iterator[Inferred]:
        no2 = [one for one in readings if one.attribute == self.no2 and one.observed_at >= span.end - HOUR_S and _is_gas(one)]
        co = [one for one in readings if one.attribute == self.co and _is_gas(one)]
        if not no2:
            return
        of_no2 = no2_index(fsum(_no2_ppb(one) for one in no2) / len(no2))
        by_hour: dict[int, list[float]] = {}
        for one in co:
            by_hour.setdefault(int((one.observed_at - span.start) // HOUR_S), []).append(_co_ppm(one))
        value, deciding, counted = of_no2, no2, no2
        if len(by_hour) >= CO_HOURS_MIN:
            of_co = co_index(fsum(fsum(hour) / len(hour) for hour in by_hour.values()) / len(by_hour))
            value, deciding, counted = (of_co, co, no2 + co) if of_co > of_no2 else (of_no2, no2, no2 + co)
        quality = worst_of(deciding) | completeness_of(counted, 1 + len(by_hour), 1 + CO_HOURS)
        lat, lon = position_of(counted)
        values = (Value(INDEX, float(value), "", quality), Value(LEVEL, level_of(value), "", quality))
        yield Inferred(values, min(one.observed_at for one in counted), lat, lon)


def _is_gas(reading: Reading) -> bool:
    return reading.value is not None and reading.value >= 0 and (reading.unit or "") in ("", *_TO_PPB, *_TO_MICROGRAMS)


def _no2_ppb(reading: Reading) -> float:
    unit, value = reading.unit or MICROGRAMS, reading.value or 0.0
    return value * _TO_PPB[unit] if unit in _TO_PPB else no2_ppb(value * _TO_MICROGRAMS[unit])


def _co_ppm(reading: Reading) -> float:
    unit, value = reading.unit or MILLIGRAMS, reading.value or 0.0
    return value * _TO_PPB[unit] / 1000 if unit in _TO_PPB else co_ppm(value * _TO_MICROGRAMS[unit] / 1000)
