"""Areas drawn exactly: polygons that nodes are given, and for the rest of the earth the cell of points nearest to a node.

`Areas` divides the earth into fields of degrees, as the DisGB authors do; the nodes of one city would all share a field.
Here every point belongs to one node, however close they are. What a geofence touches may be told too generously, never too
narrowly.
"""

from __future__ import annotations

from functools import lru_cache
from math import cos, radians
from typing import TYPE_CHECKING, Any, Final

import shapely
import shapely.affinity

from hanse.model import Circle, Geofence, Polygon, World

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hanse.routing.federation import Federation

KEPT: Final = 65_536
_EARTH: Final = shapely.box(-180.0, -90.0, 180.0, 90.0)
_MARGIN_DEG: Final = 1e-9
_DIGITS: Final = 7  # of the degrees of a place, a centimetre: cells of places that are closer cannot be drawn


class Territories:
    def __init__(self, federation: Federation, polygons: Mapping[str, Polygon]) -> None:
        self._nodes = federation.ids
        given = shapely.unary_union([_on_earth(polygon.shape) for polygon in polygons.values()])
        cells = _cells({node.id: (node.location.lon, node.location.lat) for node in federation.nodes})
        taken: Any = shapely.Polygon()
        shapes = []
        for node in self._nodes:
            own = _on_earth(polygons[node].shape) if node in polygons else shapely.Polygon()
            own = shapely.difference(own, taken)
            taken = shapely.union(taken, own)
            shapes.append(shapely.union(own, shapely.difference(cells[node], given)))
        self._tree = shapely.STRtree(shapes)
        self._touched = lru_cache(maxsize=KEPT)(self._touches)

    def owner(self, lat: float, lon: float) -> str:
        found = self._tree.query(shapely.Point(lon, lat), predicate="intersects")
        # between two of them there may be a gap as thin as rounding
        return self._nodes[int(found.min()) if len(found) else int(self._tree.nearest(shapely.Point(lon, lat)))]

    def touched(self, geofence: Geofence) -> tuple[str, ...]:
        """The nodes whose territory the geofence touches, in the order of the federation."""
        return self._nodes if isinstance(geofence, World) else self._touched(geofence)

    def _touches(self, geofence: Circle | Polygon) -> tuple[str, ...]:
        shape = _around(geofence) if isinstance(geofence, Circle) else geofence.shape
        found = self._tree.query(shapely.buffer(_on_earth(shape), _MARGIN_DEG), predicate="intersects")
        return tuple(self._nodes[i] for i in sorted(int(i) for i in found))


def _cells(places: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    """The points nearest to each node, in the plane of degrees; of several nodes at one place, the first has them all."""
    first: dict[tuple[float, float], str] = {}
    for node, (lon, lat) in places.items():
        first.setdefault((round(lon, _DIGITS), round(lat, _DIGITS)), node)
    cells: dict[str, Any] = {node: shapely.Polygon() for node in places}
    if len(first) == 1:
        cells[next(iter(first.values()))] = _EARTH
        return cells
    points = [shapely.Point(place) for place in first]
    tree = shapely.STRtree(points)
    nodes = list(first.values())
    for cell in shapely.get_parts(shapely.voronoi_polygons(shapely.MultiPoint(points), extend_to=_EARTH)):
        inside = tree.query(cell, predicate="contains")
        nearest = int(inside[0]) if len(inside) else int(tree.nearest(cell.centroid))
        cells[nodes[nearest]] = shapely.intersection(shapely.make_valid(cell), _EARTH)
    return cells


def _around(circle: Circle) -> Any:
    """A box that the circle lies in."""
    south, north = circle.lat - circle.radius_deg, circle.lat + circle.radius_deg
    if south <= -90.0 or north >= 90.0:
        return shapely.box(-180.0, max(south, -90.0), 180.0, min(north, 90.0))
    # meridians come together towards the poles
    width = circle.radius_deg / max(1e-9, cos(radians(max(abs(south), abs(north)))))
    if width >= 180.0:
        return shapely.box(-180.0, south, 180.0, north)
    return shapely.box(circle.lon - width, south, circle.lon + width, north)


def _on_earth(shape: Any) -> Any:
    """What reaches beyond the date line comes in again at the other side."""
    west, _, east, _ = shape.bounds
    parts = [shapely.intersection(shape, _EARTH)]
    if east > 180.0:
        parts.append(shapely.intersection(shapely.affinity.translate(shape, -360.0), _EARTH))
    if west < -180.0:
        parts.append(shapely.intersection(shapely.affinity.translate(shape, 360.0), _EARTH))
    return shapely.unary_union(parts)
