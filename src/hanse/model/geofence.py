"""Places: a location, and the three kinds of geofence.

Distances are on the sphere, in degrees of arc; the edge of a geofence counts as inside. Circles are tested by distance,
never by a polygon that approximates them. The edges of a polygon are straight in latitude and longitude, as in GeoJSON; a
ring whose longitude jumps by more than 180 degrees crosses the date line there.
"""

from __future__ import annotations

from collections import OrderedDict
from math import cos, isfinite, radians, sin
from typing import Any, TypeAlias

import msgspec
import shapely
from msgspec import Struct
from shapely.geometry.base import BaseGeometry

from hanse.model.errors import InvalidInput

EARTH_RADIUS_KM = 6371.0087714
MAX_VERTICES = 100_000
SHAPES_KEPT = 4096  # prepared for tests; a shape takes as much memory as its polygon, or more

Position: TypeAlias = tuple[float, float]  # longitude, latitude: the order of GeoJSON
Ring: TypeAlias = tuple[Position, ...]


class Location(Struct, frozen=True, array_like=True):
    lat: float
    lon: float

    def __post_init__(self) -> None:
        if not -90.0 <= self.lat <= 90.0:
            raise InvalidInput(f"latitude {self.lat} is not between -90 and 90 degrees")
        if not -180.0 <= self.lon <= 180.0:
            raise InvalidInput(f"longitude {self.lon} is not between -180 and 180 degrees")


def half_chord_squared(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    """The haversine of the angle between two points: grows with their distance, from 0 to 1."""
    s = sin(radians(lat2 - lat1) / 2)
    t = sin(radians(lon2 - lon1) / 2)
    return s * s + cos(radians(lat1)) * cos(radians(lat2)) * t * t


class World(Struct, frozen=True, tag="world"):
    """No restriction at all: also what an absent geofence means, and the only one that an unknown location lies in."""

    def contains(self, lat: float, lon: float) -> bool:  # noqa: ARG002
        return True


class Circle(Struct, frozen=True, tag="circle"):
    lat: float
    lon: float
    radius_deg: float

    def __post_init__(self) -> None:
        Location(self.lat, self.lon)
        if not (isfinite(self.radius_deg) and 0.0 <= self.radius_deg <= 180.0):
            raise InvalidInput(f"radius {self.radius_deg} is not between 0 and 180 degrees")

    @classmethod
    def of_km(cls, lat: float, lon: float, radius_km: float) -> Circle:
        if not (isfinite(radius_km) and radius_km >= 0):
            raise InvalidInput(f"radius {radius_km} km is not a distance")
        return cls(lat, lon, min(180.0, radius_km / radians(1.0) / EARTH_RADIUS_KM))

    def contains(self, lat: float, lon: float) -> bool:
        s = sin(radians(self.radius_deg) / 2)
        return half_chord_squared(self.lat, self.lon, lat, lon) <= s * s


class Polygon(Struct, frozen=True, tag="polygon"):
    """One or more polygons, each an outer ring and its holes."""

    polygons: tuple[tuple[Ring, ...], ...]

    def __post_init__(self) -> None:
        if not self.polygons or any(not rings for rings in self.polygons):
            raise InvalidInput("a polygon needs at least one ring")
        if sum(len(ring) for rings in self.polygons for ring in rings) > MAX_VERTICES:
            raise InvalidInput(f"the polygon has more than {MAX_VERTICES} vertices; simplify it")
        for rings in self.polygons:
            for ring in rings:
                if len(ring) < 4 or ring[0] != ring[-1]:
                    raise InvalidInput("a ring needs at least four positions, the last equal to the first")
                for lon, lat in ring:
                    Location(lat, lon)
        shape = self._plane_shape()
        if not shape.is_valid:
            raise InvalidInput(f"the polygon is not valid: {shapely.is_valid_reason(shape)}")

    def outlines(self) -> list[list[list[Position]]]:
        """The rings in the plane, east of the date line continued beyond 180 degrees where a ring crosses it."""
        return [[_unwrap(rings[0]), *(_unwrap_near(hole, rings[0]) for hole in rings[1:])] for rings in self.polygons]

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """In the plane: west, south, east, north."""
        lons, lats = zip(*(position for rings in self.outlines() for position in rings[0]), strict=True)
        return min(lons), min(lats), max(lons), max(lats)

    @property
    def shape(self) -> BaseGeometry:
        """The polygons in the plane, prepared for many questions."""
        return self._prepared()[0]

    def _prepared(self) -> tuple[BaseGeometry, bool]:
        """The shape, and whether it crosses the date line. Those asked last are kept."""
        kept = _prepared.get(id(self))
        if kept is not None:
            _prepared.move_to_end(id(self))
            return kept[1:]
        shape = self._plane_shape()
        shapely.prepare(shape)
        crosses_date_line = float(shape.bounds[2]) > 180.0
        _prepared[id(self)] = self, shape, crosses_date_line
        if len(_prepared) > SHAPES_KEPT:
            _prepared.popitem(last=False)
        return shape, crosses_date_line

    def _plane_shape(self) -> BaseGeometry:
        parts = [shapely.Polygon(outer, holes) for outer, *holes in self.outlines()]
        return parts[0] if len(parts) == 1 else shapely.MultiPolygon(parts)

    @property
    def crosses_date_line(self) -> bool:
        return self._prepared()[1]

    def contains(self, lat: float, lon: float) -> bool:
        shape, crosses_date_line = self._prepared()
        if bool(shapely.intersects_xy(shape, lon, lat)):
            return True
        # the same meridian has a second name where a shape reaches beyond 180 degrees, or touches either end
        if crosses_date_line and bool(shapely.intersects_xy(shape, lon + 360.0, lat)):
            return True
        return abs(lon) == 180.0 and bool(shapely.intersects_xy(shape, -lon, lat))


# by identity, which is quicker to look up than a thousand vertices; the polygon is kept too, so that it keeps its identity
_prepared: OrderedDict[int, tuple[Polygon, BaseGeometry, bool]] = OrderedDict()

Geofence: TypeAlias = World | Circle | Polygon
WORLD = World()


def _unwrap(ring: Ring) -> list[Position]:
    """The ring with every step at most 180 degrees, begun in the eastern name of a longitude if it crosses the date line."""
    lons = [lon for lon, _ in ring]
    if max(lons) - min(lons) <= 180.0:  # nearly always
        return list(ring)
    out: list[Position] = []
    shift = 0.0
    for i, (lon, lat) in enumerate(ring):
        if i:
            step = lon - ring[i - 1][0]
            if step > 180.0:
                shift -= 360.0
            elif step < -180.0:
                shift += 360.0
        out.append((lon + shift, lat))
    low = min(lon for lon, _ in out)
    return [(lon + 360.0, lat) for lon, lat in out] if low < -180.0 else out


def _unwrap_near(hole: Ring, outer: Ring) -> list[Position]:
    ring = _unwrap(hole)
    east = max(lon for lon, _ in _unwrap(outer))
    if east > 180.0 and max(lon for lon, _ in ring) <= east - 360.0:
        return [(lon + 360.0, lat) for lon, lat in ring]
    return ring


def geofence_from_wkt(text: str) -> Geofence:
    """POLYGON or MULTIPOLYGON, longitude first; WORLD for no restriction; CIRCLE (lon lat, degrees) for a circle."""
    stripped = text.strip()
    if stripped.upper() == "WORLD":
        return WORLD
    if stripped.upper().startswith("CIRCLE"):
        return _circle_from_wkt(stripped)
    try:
        shape = shapely.from_wkt(stripped)
    except shapely.errors.GEOSException as error:
        raise InvalidInput(
            f"{stripped[:60]!r} is not a geofence in WKT; write POLYGON ((lon lat, ...)), CIRCLE (lon lat, degrees) or WORLD"
        ) from error
    return _from_shape(shape)


def geofence_from_geojson(value: Any) -> Geofence:
    """A GeoJSON Polygon or MultiPolygon geometry (or Feature of one); a Point with a `radius` in metres is a circle."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except msgspec.DecodeError as error:
            raise InvalidInput(f"the geofence is not JSON: {error}") from error
    if isinstance(value, dict) and value.get("type") == "Feature":
        value = value.get("geometry")
    if not isinstance(value, dict):
        raise InvalidInput("a geofence in GeoJSON is an object with type and coordinates")
    kind = value.get("type")
    coordinates: Any = value.get("coordinates")
    try:
        if kind == "Point":
            lon, lat = (float(v) for v in coordinates[:2])
            return Circle.of_km(lat, lon, float(value.get("radius", 0.0)) / 1000.0)
        if kind == "Polygon":
            return Polygon((_rings(coordinates),))
        if kind == "MultiPolygon":
            return Polygon(tuple(_rings(rings) for rings in coordinates))
    except InvalidInput:
        raise
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise InvalidInput(f"the coordinates of this {kind} are not nested lists of numbers, longitude first") from error
    raise InvalidInput(f"a geofence is a Polygon, a MultiPolygon or a Point with a radius in metres, not {kind!r}")


def _rings(rings: Any) -> tuple[Ring, ...]:
    return tuple(tuple((float(p[0]), float(p[1])) for p in ring) for ring in rings)


def _from_shape(shape: BaseGeometry) -> Polygon:
    if isinstance(shape, shapely.Polygon) and not shape.is_empty:
        parts = [shape]
    elif isinstance(shape, shapely.MultiPolygon) and not shape.is_empty:
        parts = list(shape.geoms)
    else:
        raise InvalidInput(f"a geofence is a POLYGON or MULTIPOLYGON that is not empty, not a {shape.geom_type}")
    return Polygon(tuple((_ring(part.exterior.coords), *(_ring(hole.coords) for hole in part.interiors)) for part in parts))


def _ring(coords: Any) -> Ring:
    return tuple((float(c[0]), float(c[1])) for c in coords)


def _circle_from_wkt(text: str) -> Circle:
    try:
        position, radius = text[len("CIRCLE") :].strip().removeprefix("(").removesuffix(")").split(",")
        lon, lat = position.split()
        return Circle(float(lat), float(lon), float(radius))
    except InvalidInput:
        raise
    except ValueError as error:
        raise InvalidInput(f"{text[:60]!r} is not a circle; write CIRCLE (lon lat, degrees)") from error
