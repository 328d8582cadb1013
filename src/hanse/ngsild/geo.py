"""The NGSI-LD geo-query language (clause 4.10): which entities lie where.

`near` measures on the sphere, in metres, between the closest points of the two geometries; so the date line and the poles are
places like any other. The other relations are those of the OGC, in the plane of longitude and latitude, where edges are straight
as in GeoJSON: a geometry that crosses the date line is to be cut in two there (RFC 7946). Rings that cross themselves are common
in practice; they are repaired, not refused. An entity without a geometry at the queried GeoProperty never matches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from math import asin, cos, degrees, isfinite, radians, sin, sqrt
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import msgspec
import numpy as np
import shapely
from msgspec import Struct
from shapely.geometry.base import BaseGeometry

from hanse.model.geofence import EARTH_RADIUS_KM, half_chord_squared
from hanse.ngsild.entity import LOCATION
from hanse.ngsild.errors import BadRequestData

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hanse.ngsild.contexts import Context
    from hanse.ngsild.entity import Attributes

Georel: TypeAlias = Literal["near", "within", "contains", "intersects", "equals", "disjoint", "overlaps"]
Box: TypeAlias = tuple[float, float, float, float]  # west, south, east, north
Position: TypeAlias = tuple[float, float]

EARTH_RADIUS_M: Final = EARTH_RADIUS_KM * 1000.0
MAX_VERTICES: Final = 20_000
MAX_PIECES: Final = 100_000  # that edges are cut into to be measured
PIECE_DEG: Final = 0.1  # within which a straight edge and the shortest way differ by about a metre
_SLACK_DEG: Final = 1e-4  # ten metres: more than those pieces bulge, and more than rounding
_CHUNK: Final = 1 << 19

_GEORELS: Final = frozenset(get_args(Georel))
_NEAR = re.compile(r"near\s*;\s*(maxDistance|minDistance)\s*==\s*((?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
_DEPTH: Final = {"Point": 0, "MultiPoint": 1, "LineString": 1, "MultiLineString": 2, "Polygon": 2, "MultiPolygon": 3}
_NESTING: Final = ("[lon, lat]", "[[lon, lat], ...]", "[[[lon, lat], ...], ...]", "[[[[lon, lat], ...], ...], ...]")


class GeoQuery(Struct, frozen=True, omit_defaults=True, dict=True):
    georel: Georel
    geometry: str  # a GeoJSON geometry type
    coordinates: Any
    geoproperty: str = LOCATION
    min_distance_m: float | None = None  # near only: exactly one of the two
    max_distance_m: float | None = None

    @cached_property
    def reference(self) -> Shape:
        """The geometry of the query, prepared when first asked for and kept as long as the query. Raises BadRequestData."""
        shape = Shape(self.geometry, self.coordinates)
        shapely.prepare(shape.plane)
        return shape


class Shape:
    """A geometry in the plane, and what measuring on the sphere needs of it."""

    def __init__(self, kind: Any, coordinates: Any) -> None:
        self.point: Position | None = None
        if kind == "Point":  # most are; they need no shapely to be measured
            self.point = _Coordinates(kind, 0).read(coordinates)
        else:
            self.plane = geometry_shape(kind, coordinates)

    @cached_property
    def plane(self) -> BaseGeometry:
        assert self.point is not None
        return shapely.Point(self.point)

    @cached_property
    def box(self) -> Box:
        if self.point is not None:
            return self.point + self.point
        west, south, east, north = self.plane.bounds
        return west, south, east, north

    @cached_property
    def arcs(self) -> Arcs:
        return _arcs(self.plane)


class Arcs(Struct, frozen=True):
    """The pieces that edges are cut into, as unit vectors; a point is a piece without length."""

    points: NDArray[np.float64]
    starts: NDArray[np.float64]
    ends: NDArray[np.float64]


def parse_geo_query(params: Mapping[str, Any], context: Context) -> GeoQuery:
    """From `georel`, `geometry`, `coordinates` and perhaps `geoproperty`: URL parameters, or the members of a geoQ."""
    georel, geometry, coordinates = params.get("georel"), params.get("geometry"), params.get("coordinates")
    missing = [name for name in ("georel", "geometry", "coordinates") if params.get(name) in (None, "")]
    if missing:
        raise BadRequestData(f"a geo-query needs georel, geometry and coordinates; {' and '.join(missing)} is missing")
    if not isinstance(georel, str):
        raise BadRequestData("georel is a text such as within or near;maxDistance==2000")
    relation, smallest, largest = _parse_georel(georel.strip())
    if not isinstance(geometry, str) or geometry not in _DEPTH:
        raise BadRequestData(f"geometry is one of {', '.join(_DEPTH)}, not {str(geometry)[:60]!r}")
    geoproperty = params.get("geoproperty") or ""
    if not isinstance(geoproperty, str):
        raise BadRequestData("geoproperty is the name of a GeoProperty, a text")
    query = GeoQuery(
        georel=relation,
        geometry=geometry,
        coordinates=_tuples(_parse_coordinates(coordinates), _DEPTH[geometry]),
        geoproperty=context.expand_term(geoproperty) if geoproperty else LOCATION,
        min_distance_m=smallest,
        max_distance_m=largest,
    )
    _ = query.reference  # refuses what is no geometry
    return query


def _parse_georel(text: str) -> tuple[Georel, float | None, float | None]:
    found = _NEAR.fullmatch(text)
    if found is not None:
        distance = float(found[2])
        if not (isfinite(distance) and distance > 0.0):
            raise BadRequestData(f"the distance {found[2][:40]} is not a positive number of metres")
        return ("near", None, distance) if found[1] == "maxDistance" else ("near", distance, None)
    if text.startswith("near"):
        raise BadRequestData(f"{text[:60]!r} is no relation; write near;maxDistance==METRES or near;minDistance==METRES")
    if text not in _GEORELS:
        raise BadRequestData(f"georel is one of {', '.join(sorted(_GEORELS))}, not {text[:60]!r}")
    return text, None, None  # type: ignore[return-value]


def _parse_coordinates(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise BadRequestData(f"coordinates {value[:60]!r} are not a JSON array of numbers") from None


def _tuples(value: Any, depth: int) -> Any:
    """The same as tuples, so that a query can be hashed; what is no array here is left for `geometry_shape` to refuse."""
    if not isinstance(value, list | tuple):
        return value
    return tuple(value) if depth == 0 else tuple(_tuples(item, depth - 1) for item in value)


def geometry_shape(kind: Any, coordinates: Any) -> BaseGeometry:
    """The geometry in the plane, valid: rings that cross themselves are repaired. Raises BadRequestData."""
    if kind == "GeometryCollection":
        return _collection(coordinates)
    depth = _DEPTH.get(kind) if isinstance(kind, str) else None
    if depth is None:
        raise BadRequestData(f"a geometry is one of {', '.join(_DEPTH)}, not {str(kind)[:60]!r}")
    checked = _Coordinates(kind, depth).read(coordinates)
    try:
        with np.errstate(all="ignore"):
            shape = _SHAPES[kind](checked)
            if not shape.is_valid:
                shape = shapely.make_valid(shape, method="structure", keep_collapsed=True)
    except (shapely.errors.GEOSException, ValueError) as error:
        raise BadRequestData(f"the coordinates make no {kind}: {str(error)[:80]}") from None
    if shape.is_empty:
        raise BadRequestData(f"the {kind} is empty; give at least one position")
    return shape


def _collection(parts: Any) -> BaseGeometry:
    """Stored ones only, and one level of it; a query names one geometry."""
    if not isinstance(parts, list | tuple) or not parts or not all(isinstance(part, dict) for part in parts):
        raise BadRequestData("a GeometryCollection has an array of geometries")
    if any(part.get("type") == "GeometryCollection" for part in parts):
        raise BadRequestData("a GeometryCollection within another cannot be searched; list its parts")
    return shapely.GeometryCollection([geometry_shape(part.get("type"), part.get("coordinates")) for part in parts])


class _Coordinates:
    """Reads nested arrays of positions; counts them, so that no geometry is larger than allowed."""

    def __init__(self, kind: str, depth: int) -> None:
        self.kind = kind
        self.depth = depth
        self.count = 0

    def read(self, value: Any) -> Any:
        return self._nested(value, self.depth)

    def _nested(self, value: Any, depth: int) -> Any:
        if not isinstance(value, list | tuple) or not value:
            raise self._refusal()
        if depth == 0:
            return self._position(value)
        items = [self._nested(item, depth - 1) for item in value]
        if depth == 1 and self.kind in ("LineString", "MultiLineString") and len(items) < 2:
            raise BadRequestData("a LineString needs at least two positions")
        if depth == 1 and self.kind in ("Polygon", "MultiPolygon") and (len(items) < 4 or items[0] != items[-1]):
            raise BadRequestData("a ring of a polygon needs at least four positions, the last equal to the first; close it")
        return items

    def _position(self, value: Any) -> Position:
        self.count += 1
        if self.count > MAX_VERTICES:
            raise BadRequestData(f"the {self.kind} has more than {MAX_VERTICES} positions; simplify it")
        if not 2 <= len(value) <= 4:
            raise self._refusal()
        for number in value:
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise self._refusal()
        lon, lat = value[0], value[1]
        if not (-180.0 <= lon <= 180.0 and -90.0 <= lat <= 90.0):
            raise BadRequestData(
                f"the position [{lon}, {lat}] is not on Earth; write longitude (-180 to 180), then latitude (-90 to 90)"
            )
        return float(lon), float(lat)

    def _refusal(self) -> BadRequestData:
        return BadRequestData(f"the coordinates of a {self.kind} are numbers nested like {_NESTING[self.depth]}")


_SHAPES: Final[dict[str, Callable[[Any], BaseGeometry]]] = {
    "Point": shapely.Point,
    "MultiPoint": shapely.MultiPoint,
    "LineString": shapely.LineString,
    "MultiLineString": shapely.MultiLineString,
    "Polygon": lambda rings: shapely.Polygon(rings[0], rings[1:]),
    "MultiPolygon": lambda polygons: shapely.MultiPolygon([(rings[0], rings[1:]) for rings in polygons]),
}


def value_shape(value: Any) -> Shape | None:
    """The shape of a GeoProperty's value; None if it is no geometry."""
    if not isinstance(value, dict):
        return None
    try:
        if value.get("type") == "GeometryCollection":
            return Shape("GeometryCollection", value.get("geometries"))
        return Shape(value.get("type"), value.get("coordinates"))
    except BadRequestData:
        return None


def geometry_box(value: Any) -> Box | None:
    """What an index files a GeoProperty's value under; None if it is no geometry."""
    shape = value_shape(value)
    return None if shape is None else shape.box


def geo_matches(geo: GeoQuery, attributes: Attributes) -> bool:
    """Whether some instance of the queried GeoProperty lies as the query says."""
    for instance in attributes.get(geo.geoproperty, ()):
        if instance.get("type") == "GeoProperty" and value_matches(geo, instance.get("value")):
            return True
    return False


def value_matches(geo: GeoQuery, value: Any) -> bool:
    target = value_shape(value)
    if target is None:
        return False
    if geo.georel != "near":
        try:
            with np.errstate(all="ignore"):  # coordinates as small as numbers can be make GEOS divide by zero, to no harm
                return bool(_RELATIONS[geo.georel](target.plane, geo.reference.plane))
        except shapely.errors.GEOSException:
            return False
    distance_m = shape_distance_m(geo.reference, target)
    if geo.max_distance_m is not None and distance_m > geo.max_distance_m:
        return False
    return geo.min_distance_m is None or distance_m >= geo.min_distance_m


# the prepared geometry, that of the query, comes first wherever shapely can make use of it
_RELATIONS: Final[dict[str, Callable[[BaseGeometry, BaseGeometry], Any]]] = {
    "within": lambda target, reference: shapely.contains(reference, target),
    "contains": lambda target, reference: shapely.within(reference, target),
    "intersects": lambda target, reference: shapely.intersects(reference, target),
    "disjoint": lambda target, reference: shapely.disjoint(reference, target),
    "overlaps": lambda target, reference: shapely.overlaps(reference, target),
    "equals": lambda target, reference: shapely.equals(reference, target),
}


def geo_bounds(geo: GeoQuery) -> list[Box] | None:
    """Boxes of which a geometry that matches touches at least one; None: an index cannot help."""
    if geo.georel == "disjoint":
        return None
    if geo.georel != "near":
        return [geo.reference.box]
    if geo.max_distance_m is None:
        return None
    return _boxes_around(geo.reference.box, degrees(geo.max_distance_m / EARTH_RADIUS_M) + _SLACK_DEG)


def _boxes_around(box: Box, reach_deg: float) -> list[Box]:
    west, south, east, north = box
    low, high = south - reach_deg, north + reach_deg
    if low <= -90.0 or high >= 90.0:  # it holds a pole, and so every longitude
        return [(-180.0, max(-90.0, low), 180.0, min(90.0, high))]
    # a circle reaches farthest east and west where the parallels are shortest
    widest = sin(radians(reach_deg)) / cos(radians(max(abs(south), abs(north))))
    reach_lon = degrees(asin(min(1.0, widest))) + _SLACK_DEG
    west, east = west - reach_lon, east + reach_lon
    if east - west >= 360.0:
        return [(-180.0, low, 180.0, high)]
    boxes = [(max(-180.0, west), low, min(180.0, east), high)]
    if west < -180.0:
        boxes.append((west + 360.0, low, 180.0, high))
    if east > 180.0:
        boxes.append((-180.0, low, east - 360.0, high))
    return boxes


def shape_distance_m(one: Shape, other: Shape) -> float:
    """Between their closest points, on the sphere."""
    if one.point is not None and other.point is not None:
        haversine = half_chord_squared(one.point[1], one.point[0], other.point[1], other.point[0])
        return 2.0 * EARTH_RADIUS_M * asin(min(1.0, sqrt(haversine)))
    try:
        with np.errstate(all="ignore"):
            if bool(shapely.intersects(one.plane, other.plane)):
                return 0.0
    except shapely.errors.GEOSException:
        pass
    # two lines that do not cross are closest at an end of one of them
    return EARTH_RADIUS_M * min(_smallest_angle(one.arcs.points, other.arcs), _smallest_angle(other.arcs.points, one.arcs))


def _arcs(plane: BaseGeometry) -> Arcs:
    points, starts, ends = [], [], []
    for chain in _chains(plane):
        vectors = _unit_vectors(_cut(chain) if len(chain) > 1 else chain)
        points.append(vectors)
        starts.append(vectors[:-1] if len(vectors) > 1 else vectors)
        ends.append(vectors[1:] if len(vectors) > 1 else vectors)
    return Arcs(np.concatenate(points), np.concatenate(starts), np.concatenate(ends))


def _chains(plane: BaseGeometry) -> list[NDArray[np.float64]]:
    """The lines, rings and points that it is made of."""
    chains: list[NDArray[np.float64]] = []
    for part in shapely.get_parts(plane):
        if isinstance(part, shapely.Polygon):
            chains += [shapely.get_coordinates(ring) for ring in (part.exterior, *part.interiors)]
        elif shapely.get_type_id(part) >= 4:  # a collection, as a repair may make one
            chains += _chains(part)
        else:
            chains.append(shapely.get_coordinates(part))
    return chains


def _cut(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same line with more points, such that each piece is as good as an arc of a great circle."""
    steps = np.abs(np.diff(points, axis=0))
    piece = max(PIECE_DEG, float(steps[:, 0].sum()) / MAX_PIECES)
    counts = np.maximum(1, np.maximum(np.ceil(steps[:, 0] / piece), np.ceil(steps[:, 1] / 45.0))).astype(np.int64)
    if int(counts.max()) == 1:
        return points
    starts = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(len(starts)) - np.repeat(np.cumsum(counts) - counts, counts)
    fraction = (within / counts[starts])[:, None]
    inner = points[starts] + (points[starts + 1] - points[starts]) * fraction
    return np.concatenate((inner, points[-1:]))


def _unit_vectors(points: NDArray[np.float64]) -> NDArray[np.float64]:
    theta, phi = np.radians(points).T
    c = np.cos(phi)
    return np.stack((c * np.cos(theta), c * np.sin(theta), np.sin(phi)), axis=1)


def _smallest_angle(points: NDArray[np.float64], arcs: Arcs) -> float:
    """From any of the points to any point of the arcs."""
    a, b = arcs.starts, arcs.ends
    normal = np.cross(a, b)
    length = np.linalg.norm(normal, axis=1)
    is_line = length > 1e-12
    normal = normal / np.where(is_line, length, 1.0)[:, None]
    after_a, before_b = np.cross(normal, a), np.cross(b, normal)
    rows = max(1, _CHUNK // len(a))
    smallest = np.inf
    for first in range(0, len(points), rows):
        chunk = points[first : first + rows]
        beside = (chunk @ after_a.T >= 0.0) & (chunk @ before_b.T >= 0.0) & is_line
        across = np.arcsin(np.minimum(1.0, np.abs(chunk @ normal.T)))
        chord = np.linalg.norm(chunk[:, None, :] - a[None, :, :], axis=2)
        chord = np.minimum(chord, np.linalg.norm(chunk[:, None, :] - b[None, :, :], axis=2))
        to_end = 2.0 * np.arcsin(np.minimum(1.0, chord / 2.0))
        smallest = min(smallest, float(np.where(beside, across, to_end).min()))
    return smallest


def distance_m(geo: GeoQuery, value: Any) -> float | None:
    """From the geometry of a query to the value of a GeoProperty; None if it is no geometry."""
    shape = value_shape(value)
    return None if shape is None else shape_distance_m(geo.reference, shape)
