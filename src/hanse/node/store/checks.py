"""What SQL cannot decide, decided on documents: only the members of a document that matter are decoded."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import asin, sqrt
from typing import Any, Final, TypeAlias

import msgspec
import shapely
from msgspec import Struct

from hanse.filters import compile_q
from hanse.model.geofence import half_chord_squared
from hanse.ngsild.entity import Attributes, decode_entity
from hanse.ngsild.geo import EARTH_RADIUS_M, Box, GeoQuery, Shape, geo_matches
from hanse.ngsild.quality import Measure, quality_attributes, quality_matches
from hanse.ngsild.query import ENTITY_MEMBERS, q_predicate
from hanse.ngsild.scope_query import scope_matches
from hanse.node.store.indexing import place_point

Check: TypeAlias = Callable[[bytes], bool]

_CORE_PARTS: Final = (1.0, 0.7, 0.4)  # of the box around a geometry, tried for the box within it


class Scoped(Struct):
    scopes: tuple[str, ...] = ()


def document_check(q: str, scope_q: str, quality: Check | None = None) -> Check | None:
    """Whether a document satisfies those that are given; None: none is."""
    checks: list[Check] = []
    if scope_q:
        checks.append(lambda document: scope_matches(scope_q, _scoped(document).scopes))
    if q:
        checks.append(_q_check(q))
    if quality is not None:
        checks.append(quality)
    if len(checks) <= 1:
        return checks[0] if checks else None
    return lambda document: all(check(document) for check in checks)


def _q_check(q: str) -> Check:
    filter_ = compile_q(q)
    names = frozenset(path.names[0] for path in filter_.paths)
    if names & ENTITY_MEMBERS:
        of_entity = q_predicate(q)
        return lambda document: of_entity(decode_entity(document))
    decode, matches = _partial_decoder(names), filter_.matches
    return lambda document: matches(decode(document))


def quality_check(quality: str, measure: Measure, at: str) -> Check:
    """Whether the quality of an entity at a moment is what is asked for."""
    names = quality_attributes(quality)
    if names is None:
        of_entity = measure.of_entity(at)
        return lambda document: quality_matches(quality, of_entity(decode_entity(document)))
    decode = _partial_decoder(names)
    return lambda document: quality_matches(quality, measure.of(decode(document), at=at))


class GeoCheck:
    """A geo-query, asked of places and, where these do not say enough, of documents."""

    def __init__(self, geo: GeoQuery) -> None:
        self._geo = geo
        self._of_point = _point_check(geo)
        self._decode = _partial_decoder(frozenset({geo.geoproperty}))

    def place(self, value: bytes) -> bool | None:
        """None: ask the document."""
        position = None if self._of_point is None else place_point(value)
        return self._of_point(*position) if position is not None and self._of_point is not None else None

    def document(self, document: bytes) -> bool:
        return geo_matches(self._geo, self._decode(document))


_scoped = msgspec.json.Decoder(Scoped).decode


@lru_cache(maxsize=256)
def _partial_decoder(names: frozenset[str]) -> Callable[[bytes], Attributes]:
    """Reads these attributes only; the rest of the document is skipped, which costs a fraction of decoding it."""
    fields = {f"a{number}": name for number, name in enumerate(sorted(names))}
    some = msgspec.defstruct("Some", [(field, list[dict[str, Any]] | None, None) for field in fields], rename=fields, gc=False)
    outer = msgspec.defstruct("Document", [("attributes", some | None, None)], gc=False)
    decode = msgspec.json.Decoder(outer).decode
    pairs = tuple(fields.items())

    def attributes(document: bytes) -> Attributes:
        found: Any = decode(document).attributes  # type: ignore[attr-defined]
        if found is None:
            return {}
        return {name: value for field, name in pairs if (value := getattr(found, field)) is not None}

    return attributes


def _point_check(geo: GeoQuery) -> Callable[[float, float], bool] | None:
    reference = geo.reference
    if geo.georel == "near" and reference.point is not None:
        lon0, lat0 = reference.point
        least = geo.min_distance_m or 0.0
        most = geo.max_distance_m

        def is_near(lon: float, lat: float) -> bool:
            distance_m = 2.0 * EARTH_RADIUS_M * asin(min(1.0, sqrt(half_chord_squared(lat0, lon0, lat, lon))))
            return distance_m >= least and (most is None or distance_m <= most)

        return is_near
    if geo.georel == "within":
        return _inside(reference, shapely.contains_xy)
    if geo.georel in ("intersects", "disjoint"):
        meets = _inside(reference, shapely.intersects_xy)
        return meets if geo.georel == "intersects" else lambda lon, lat: not meets(lon, lat)
    return None


def _inside(reference: Shape, test: Callable[[Any, float, float], Any]) -> Callable[[float, float], bool]:
    """Most points are decided by two boxes: the one around the geometry, and one that lies within it."""
    plane = reference.plane
    west, south, east, north = reference.box
    core_west, core_south, core_east, core_north = _core(reference)

    def check(lon: float, lat: float) -> bool:
        if not (west <= lon <= east and south <= lat <= north):
            return False
        if core_west < lon < core_east and core_south < lat < core_north:
            return True
        return bool(test(plane, lon, lat))

    return check


def _core(reference: Shape) -> Box:
    """A box within the geometry, around the middle of the one around it; an empty one if none is found."""
    west, south, east, north = reference.box
    for part in _CORE_PARTS:
        dx, dy = (east - west) * (1.0 - part) / 2.0, (north - south) * (1.0 - part) / 2.0
        if dx * 2 < east - west and dy * 2 < north - south:
            core = west + dx, south + dy, east - dx, north - dy
            if bool(shapely.contains(reference.plane, shapely.box(*core))):
                return core
    return 0.0, 0.0, 0.0, 0.0
