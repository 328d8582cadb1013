"""The NGSI-LD geo-query language: which entities lie where. Distances on the sphere, other relations by shapely."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from hanse.ngsild.entity import LOCATION

Georel: TypeAlias = Literal["near", "within", "contains", "intersects", "equals", "disjoint", "overlaps"]


class GeoQuery(Struct, frozen=True, omit_defaults=True):
    georel: Georel
    geometry: str  # a GeoJSON geometry type
    coordinates: Any
    geoproperty: str = LOCATION
    min_distance_m: float | None = None  # near only: exactly one of the two
    max_distance_m: float | None = None
