"""Polygons as an index keeps them: their corners packed, so that one pass over arrays asks many of them about one point.

A point is inside if a ray from it to the east crosses an odd number of edges. Which side of an edge it lies on is the sign of a
determinant, and as long as that is larger than its rounding can be, the answer is that of `Polygon.contains`. For a point so
close to an edge, or to the line through it, that the sign is not certain there is no answer, and the polygon itself is asked.

Corners are pairs of doubles, longitude first; a pair of NaN ends each ring, so that no edge runs from one ring to the next.
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from math import nan
from typing import TYPE_CHECKING

import numpy as np

from hanse.matching.sphere import CORNERS_MAX
from hanse.model import Polygon

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hanse.model import Geofence, Location

_CORNER_BYTES = 16
_ROUNDING = 4e-15  # of a determinant, relative to either of its two products: several times what it can be


UNKNOWN = array("d", (0.0, 0.0, 0.0, 0.0, nan, nan)).tobytes()  # an edge without length has no sides, so it gives no answer


def outline(geofence: Geofence) -> bytes:
    """Of a polygon, unless it is large or crosses the date line, where a point has two longitudes; else an unknown one."""
    if not isinstance(geofence, Polygon) or sum(len(ring) for rings in geofence.polygons for ring in rings) > CORNERS_MAX:
        return UNKNOWN
    corners = array("d")
    for rings in geofence.outlines():
        for ring in rings:
            for corner in ring:
                if corner[0] > 180.0:
                    return UNKNOWN
                corners.extend(corner)
            corners.extend((nan, nan))
    return corners.tobytes()


def outlines_hold(outlines: Sequence[bytes], place: Location) -> tuple[NDArray[np.bool_], list[int]]:
    """Whether the place lies in each, and the positions of those that cannot tell."""
    starts = [0, *accumulate([len(packed) // _CORNER_BYTES for packed in outlines])]
    del starts[-1]
    corners = np.frombuffer(b"".join(outlines))
    east, north = corners[0::2] - place.lon, corners[1::2] - place.lat
    # an edge from each corner to the next; every comparison with the NaN between rings fails
    left = east[:-1] * north[1:]
    side = left - east[1:] * north[:-1]
    above = north > 0.0
    rises = above[1:]
    crossed = (np.where(rises, side, -side) > 0.0) & (above[:-1] != rises)
    inside: NDArray[np.bool_] = np.logical_xor.reduceat(crossed, starts)
    if abs(place.lon) == 180.0:
        return inside, list(range(len(outlines)))
    uncertain = np.abs(side) <= _ROUNDING * np.abs(left)
    if not np.count_nonzero(uncertain):
        return inside, []
    return inside, np.flatnonzero(np.logical_or.reduceat(uncertain, starts)).tolist()
