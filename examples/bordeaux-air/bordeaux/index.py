"""The air quality index of the US EPA, for the two of its gases that the station measures.

Break points, truncation and equation: EPA-454/B-24-002 (May 2024), table 6, and 40 CFR part 58, appendix G. CO counts by the mean
of eight hours, NO2 by that of one hour. The index is the highest of both.

The table is in parts per million (CO) and billion (NO2); the analyser gives masses per volume. European law (1999/30/EC when
these were measured, 2008/50/EC since) takes the volumes of gases at 293 K and 101.3 kPa, where a mole has 24.055 litres: 1 ppb of
NO2 is 1.9125 µg/m3.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, fsum
from typing import Final

from msgspec import Struct

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
