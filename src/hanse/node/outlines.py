"""Geofences and areas for whoever draws them: the place itself, or where that has very many corners, roughly."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import msgspec
import shapely

from hanse.model import Circle, Geofence, Polygon, World

POINTS_MAX: Final = 200  # of one outline
KEPT: Final = 256  # outlines that are remembered: whoever draws asks every second
_STEPS: Final = (500, 100, 20)  # how fine, in parts of its size, a place with too many corners is drawn


def outline(geofence: Geofence) -> dict[str, Any] | None:
    """A circle as it is, a polygon by its rings, beyond 180 degrees where it crosses the date line. None: all the world.

    A polygon of more than POINTS_MAX positions is drawn with fewer, and marked `coarse`.
    """
    if isinstance(geofence, World):
        return None
    return msgspec.to_builtins(geofence) if isinstance(geofence, Circle) else _of_polygon(geofence)


@lru_cache(maxsize=KEPT)
def _of_polygon(polygon: Polygon) -> dict[str, Any]:
    if sum(len(ring) for rings in polygon.polygons for ring in rings) <= POINTS_MAX:
        return {"type": "polygon", "polygons": polygon.outlines()}
    shape = polygon.shape
    west, south, east, north = shape.bounds
    coarser = (shapely.simplify(shape, max(east - west, north - south) / step) for step in _STEPS)
    fitting = (one for one in coarser if not one.is_empty and shapely.get_num_coordinates(one) <= POINTS_MAX)
    drawn = next(fitting, shapely.envelope(shape))
    return {"type": "polygon", "polygons": [_rings(part) for part in shapely.get_parts(drawn)], "coarse": True}


def _rings(part: Any) -> list[list[tuple[float, float]]]:
    return [[(float(lon), float(lat)) for lon, lat in ring.coords] for ring in (part.exterior, *part.interiors)]
