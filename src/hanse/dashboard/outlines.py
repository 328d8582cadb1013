"""Areas and geofences as rings of longitude and latitude that a map can draw, each of a bounded number of positions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from math import asin, atan2, cos, degrees, isfinite, radians, sin
from typing import Any, Final, TypeAlias

import msgspec
import shapely

POINTS_MAX: Final = 400  # of one outline
POLYGONS_MAX: Final = 50  # of one outline
CIRCLE_POINTS: Final = 48
METRES_PER_DEGREE: Final = 111_195.0
MARGIN: Final = 0.08  # around what a node holds, as a part of its extent
MARGIN_MIN_DEG: Final = 0.0004  # some forty metres: one thing alone has an outline, too
DIGITS: Final = 6  # of a degree: ten centimetres

Rings: TypeAlias = list[list[list[float]]]


def of_outline(said: Any) -> Rings:
    """Of what a node tells of an area or a geofence; nothing if it is not understood."""
    with suppress(KeyError, TypeError, ValueError, IndexError):
        if said["type"] == "circle":
            return [circle(float(said["lon"]), float(said["lat"]), float(said["radius_deg"]))]
        return bounded(said["polygons"])
    return []


def of_geo_query(asked: Any) -> Rings:
    """Of the geoQ of an NGSI-LD subscription: what it is within, intersects or overlaps, or a circle that it is near to."""
    with suppress(KeyError, TypeError, ValueError, IndexError):
        kind, corners = asked["geometry"], asked["coordinates"]
        corners = msgspec.json.decode(corners) if isinstance(corners, str) else corners
        relation = str(asked.get("georel", ""))
        if relation.startswith("disjoint"):
            return []
        if kind == "Point":
            _, _, metres = relation.replace(" ", "").partition("maxDistance==")
            return [circle(float(corners[0]), float(corners[1]), float(metres) / METRES_PER_DEGREE)]
        if kind in ("Polygon", "MultiPolygon"):
            return bounded([corners] if kind == "Polygon" else corners)
    return []


def circle(lon: float, lat: float, radius_deg: float) -> list[list[float]]:
    """On the sphere: nearer to a pole it is wider in degrees."""
    if not (isfinite(lon) and isfinite(lat) and 0 < radius_deg < 90):
        raise ValueError("no circle")
    middle, reach = radians(lat), radians(radius_deg)
    ring = []
    for step in range(CIRCLE_POINTS + 1):
        turn = radians(360.0 * step / CIRCLE_POINTS)
        there = asin(sin(middle) * cos(reach) + cos(middle) * sin(reach) * cos(turn))
        aside = atan2(sin(turn) * sin(reach) * cos(middle), cos(reach) - sin(middle) * sin(there))
        ring.append(_position(lon + degrees(aside), degrees(there)))
    return ring


def bounded(polygons: Sequence[Any]) -> Rings:
    """The rings of polygons; if these have too many positions, what lies around all of them."""
    rings = [
        [_position(float(point[0]), float(point[1])) for point in ring] for rings in polygons[:POLYGONS_MAX] for ring in rings
    ]
    if not all(isfinite(number) for ring in rings for point in ring for number in point):
        raise ValueError("no place")
    if sum(map(len, rings)) <= POINTS_MAX:
        return rings
    points = [point for ring in rings for point in ring]
    hull = _ring(shapely.convex_hull(shapely.MultiPoint(points)))
    return [hull if len(hull) <= POINTS_MAX else _ring(shapely.envelope(shapely.MultiPoint(points)))]


def around(places: Iterable[tuple[float, float]]) -> Rings:
    """A convex outline with some room, of all that is somewhere; nothing if there is nothing."""
    points = shapely.MultiPoint(sorted(set(places)))
    if points.is_empty:
        return []
    west, south, east, north = points.bounds
    margin = max(MARGIN_MIN_DEG, MARGIN * max(east - west, north - south))
    return [_ring(shapely.buffer(shapely.convex_hull(points), margin, quad_segs=4))]


def extent(rings: Rings) -> float:
    """How large it is, to draw what is small above what is large."""
    lons, lats = ([point[axis] for ring in rings for point in ring] for axis in (0, 1))
    return (max(lons) - min(lons)) * (max(lats) - min(lats)) if lons else 0.0


def together(fences: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Fences at the very same place and of the same colour become one that says all that each of them says."""
    found: dict[str, dict[str, Any]] = {}
    for fence in fences:
        known = found.setdefault(f"{fence['color']}{fence['rings']}", dict(fence))
        if known["id"] != fence["id"] and str(fence["text"]) not in str(known["text"]):
            known["text"] = f"{known['text']}\n{fence['text']}"
    return list(found.values())


def _ring(shape: Any) -> list[list[float]]:
    return [_position(lon, lat) for lon, lat in shapely.get_coordinates(shape)]


def _position(lon: float, lat: float) -> list[float]:
    return [round(lon, DIGITS), round(lat, DIGITS)]
