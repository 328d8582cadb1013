"""The air quality index of the streets: that of the capsule `hanse.pipeline.capsules.air_quality`, which has the table."""

from __future__ import annotations

from hanse.pipeline.capsules.air_quality import (
    CO_HOURS,
    CO_HOURS_MIN,
    LEVELS,
    UNHEALTHY,
    Index,
    air_quality_index,
    co_index,
    co_ppm,
    level_of,
    no2_index,
    no2_ppb,
)

__all__ = [
    "CO_HOURS",
    "CO_HOURS_MIN",
    "LEVELS",
    "UNHEALTHY",
    "Index",
    "air_quality_index",
    "co_index",
    "co_ppm",
    "level_of",
    "no2_index",
    "no2_ppb",
]
