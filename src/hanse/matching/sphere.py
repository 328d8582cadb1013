"""Geofences in the two forms that an index needs: a cap on the unit sphere, and cells of a grid.

A **cap** is the part around a point of the unit sphere that a geofence lies in, with two limits on the cosine of the angle to
that point, which is a product of unit vectors. From `sure` on a point is inside, below `may` it is outside; the ring between them
is as thin as rounding for a circle, and everything for a polygon, and there the geofence itself is asked. So the vectorised test
and `contains` always agree.

The **grid** is a hierarchy of rectangles in latitude and longitude. A level says how often each of the two has been halved. A
geofence is filed at the finest level whose cells are neither lower nor narrower than its bounding box: at most four cells, often
fewer. A point looks at one cell of each level in use. Columns wrap around the date line; a box that holds a pole spans all
longitudes, and so is filed in a ring.
"""

from __future__ import annotations

from math import asin, cos, degrees, floor, frexp, inf, radians, sin, sqrt
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import shapely

from hanse.model import Circle, Polygon

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from hanse.model import Geofence, Location

Vector: TypeAlias = tuple[float, float, float]
Cap: TypeAlias = tuple[float, float, float, float, float]  # x, y, z, sure, may
Box: TypeAlias = tuple[float, float, float, float]  # west, south, east, north; east may exceed 180, west fall below -180

EVERYWHERE: Cap = (0.0, 0.0, 0.0, -inf, -inf)
CORNERS_MAX = 64  # a polygon with more is taken by its box, or asked itself
FINEST = 24  # halvings: cells of two metres
_SLACK_DEG = 1e-9  # a tenth of a millimetre: more than the rounding of a bounding box
_SLACK_CHORD = 1e-13  # more than the rounding of a chord
_SLACK_COSINE = 1e-14  # more than the rounding of a product of unit vectors


def unit_vector(lat: float, lon: float) -> Vector:
    phi, theta = radians(lat), radians(lon)
    c = cos(phi)
    return c * cos(theta), c * sin(theta), sin(phi)


def unit_vectors(locations: Sequence[Location | None]) -> NDArray[np.float64]:
    """One row a location; an unknown one is NaN, which lies in no cap."""
    nowhere = (np.nan, np.nan)
    degrees_ = np.array([nowhere if place is None else (place.lat, place.lon) for place in locations], dtype=np.float64)
    phi, theta = np.radians(degrees_.reshape(-1, 2)).T
    c = np.cos(phi)
    return np.stack((c * np.cos(theta), c * np.sin(theta), np.sin(phi)), axis=1)


def cap_of(geofence: Geofence) -> Cap:
    if isinstance(geofence, Circle):
        half = sin(radians(geofence.radius_deg) / 2)
        limit, slack = _limit(half * half)
        return (*unit_vector(geofence.lat, geofence.lon), limit + slack, limit - slack)
    if isinstance(geofence, Polygon):
        west, south, east, north = box_of(geofence)
        lat, lon = (south + north) / 2, (west + east) / 2
        limit, slack = _limit(min(1.0, _reach(geofence, lat, lon, (west, south, east, north))))
        return (*unit_vector(lat, lon), inf, limit - slack)
    return EVERYWHERE


def _reach(polygon: Polygon, lat: float, lon: float, box: Box) -> float:
    """At least the haversine from the middle of its box to any point of the polygon.

    With the cosine of the latitude at its largest the haversine grows with both offsets. It is also convex as long as they are
    at most 90 degrees, so that no point has more than the corner that has most; else the corner of the box has.
    """
    west, south, east, north = box
    widest = 1.0 if south <= 0.0 <= north else max(cos(radians(south)), cos(radians(north)))
    factor = cos(radians(lat)) * widest
    if east - west > 180.0 or len(polygon.polygons) > 1 or len(polygon.polygons[0][0]) > CORNERS_MAX:
        s, t = sin(radians(north - south) / 4), sin(radians(min(east - west, 360.0)) / 4)
        return s * s + factor * t * t
    reach = 0.0
    for corner_lon, corner_lat in polygon.outlines()[0][0]:
        s, t = sin(radians(corner_lat - lat) / 2), sin(radians(corner_lon - lon) / 2)
        reach = max(reach, s * s + factor * t * t)
    return reach


def _limit(haversine: float) -> tuple[float, float]:
    """Of the cosine, and what rounding can do to it."""
    return 1.0 - 2.0 * haversine, _SLACK_CHORD * sqrt(haversine) + _SLACK_COSINE


def box_of(geofence: Circle | Polygon) -> Box:
    if isinstance(geofence, Polygon):
        west, south, east, north = geofence.bounds
        return west - _SLACK_DEG, max(-90.0, south - _SLACK_DEG), east + _SLACK_DEG, min(90.0, north + _SLACK_DEG)
    lat, lon, radius = geofence.lat, geofence.lon, geofence.radius_deg + _SLACK_DEG
    south, north = max(-90.0, lat - radius), min(90.0, lat + radius)
    if south <= -90.0 or north >= 90.0:
        return -180.0, south, 180.0, north
    width = degrees(asin(min(1.0, sin(radians(radius)) / cos(radians(lat))))) * (1.0 + _SLACK_DEG) + _SLACK_DEG
    return lon - width, south, lon + width, north


def grid_cells(box: Box) -> list[int]:
    """The cells that a box is filed under, all of one level."""
    west, south, east, north = box
    across, down = _halvings(east - west), _halvings(north - south)
    x, y = (1 << across) / 360.0, (1 << down) / 360.0
    columns = range(floor((west + 180.0) * x), floor((east + 180.0) * x) + 1)
    rows = range(floor((south + 90.0) * y), floor((north + 90.0) * y) + 1)
    if len(columns) > 1 << across:
        columns = range(1 << across)
    level = across << 5 | down
    return [_cell(level, column & (1 << across) - 1, row) for column in columns for row in rows]


def _halvings(size_deg: float) -> int:
    """How often 360 degrees can be halved and still be as large as this."""
    return min(FINEST, max(0, frexp(360.0 / size_deg)[1] - 1))


def cells_at(lat: float, lon: float, levels: Iterable[int]) -> list[int]:
    """The cell that a point lies in, at each of these levels."""
    x, y = (lon + 180.0) / 360.0, (lat + 90.0) / 360.0
    cells = []
    for level in levels:
        across, down = 1 << (level >> 5), 1 << (level & 31)
        cells.append(_cell(level, floor(x * across) & across - 1, floor(y * down)))
    return cells


def _cell(level: int, column: int, row: int) -> int:
    return (level << FINEST | column) << FINEST | row


def level_of(cell: int) -> int:
    return cell >> 2 * FINEST


def inside_polygon(polygon: Polygon, places: Sequence[Location]) -> list[bool]:
    """`polygon.contains` of each place, in bulk."""
    if polygon.crosses_date_line:
        return [polygon.contains(place.lat, place.lon) for place in places]
    inside: list[bool] = shapely.intersects_xy(polygon.shape, [(place.lon, place.lat) for place in places]).tolist()
    for i, place in enumerate(places):
        if abs(place.lon) == 180.0:
            inside[i] = polygon.contains(place.lat, place.lon)
    return inside
