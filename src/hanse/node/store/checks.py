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
from hanse.ngsild.geo import EARTH_RADIUS_M, Box, GeoQuery, Shape, value_matches
from hanse.ngsild.query import ENTITY_MEMBERS, q_predicate
from hanse.ngsild.scope_query import scope_matches
from hanse.node.store.indexing import point

Check: TypeAlias = Callable[[bytes], bool]

_CORE_PARTS: Final = (1.0, 0.7, 0.4)  # of the box around a geometry, tried for the box within it


class Scoped(Struct):
    scopes: tuple[str, ...] = ()


def document_check(q: str, geo: GeoQuery | None, scope_q: str) -> Check | None:
    """Whether a document satisfies those of the three that are given; None: none is."""
    checks: list[Callable[[Attributes], bool]] = []
    names: set[str] = set()
    whole: list[Check] = []
    if scope_q:
        whole.append(lambda document: scope_matches(scope_q, _scoped(document).scopes))
    if q:
        filter_ = compile_q(q)
        firsts = {path.names[0] for path in filter_.paths}
        if firsts & ENTITY_MEMBERS:
            of_entity = q_predicate(q)
            whole.append(lambda document: of_entity(decode_entity(document)))
        else:
            names |= firsts
            checks.append(filter_.matches)
    if geo is not None:
        names.add(geo.geoproperty)
        checks.append(_geo_check(geo))
    if checks:
        decode = _partial_decoder(frozenset(names))
        if len(checks) == 1:
            (only,) = checks
            whole.append(lambda document: only(decode(document)))
        else:
            first, second = checks
            whole.append(lambda document: first(attributes := decode(document)) and second(attributes))
    if len(whole) <= 1:
        return whole[0] if whole else None
    return lambda document: all(check(document) for check in whole)


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


def _geo_check(geo: GeoQuery) -> Callable[[Attributes], bool]:
    """`geo_matches`, with a short way for points, which nearly all geometries are."""
    of_point = _point_check(geo)
    name = geo.geoproperty

    def check(attributes: Attributes) -> bool:
        for instance in attributes.get(name, ()):
            if instance.get("type") == "GeoProperty":
                value = instance.get("value")
                position = None if of_point is None else point(value)
                if of_point(*position) if position is not None and of_point is not None else value_matches(geo, value):
                    return True
        return False

    return check


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
