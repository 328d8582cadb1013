"""What is drawn of a geofence: all of it, or roughly the same where it has very many corners."""

from __future__ import annotations

from math import cos, radians, sin
from typing import Any

import pytest
import shapely

from hanse.model import WORLD, Circle, Polygon
from hanse.node.outlines import POINTS_MAX, outline


def drawn(geofence: Polygon) -> tuple[dict[str, Any], Any]:
    found = outline(geofence)
    assert found is not None
    return found, shapely.union_all([shapely.Polygon(rings[0], rings[1:]) for rings in found["polygons"]])


def ring(corners: int, jag: float = 0.0) -> tuple[tuple[float, float], ...]:
    """Around a place; with `jag`, every other corner is that much nearer to it."""
    far = [1.0 - jag * (i % 2) for i in range(corners)]
    points = [(25 + r * cos(radians(360 * i / corners)), 35 + r * sin(radians(360 * i / corners))) for i, r in enumerate(far)]
    return (*points, points[0])


def test_the_world_has_no_outline_and_a_circle_is_its_own() -> None:
    assert outline(WORLD) is None
    assert outline(Circle(35.0, 25.0, 0.5)) == {"type": "circle", "lat": 35.0, "lon": 25.0, "radius_deg": 0.5}


def test_a_polygon_is_drawn_with_its_holes() -> None:
    hole = ((24.9, 34.9), (25.1, 34.9), (25.1, 35.1), (24.9, 34.9))
    found, shape = drawn(Polygon(((ring(8), hole),)))
    assert "coarse" not in found
    assert found["polygons"] == [[list(ring(8)), list(hole)]]
    assert not shape.contains(shapely.Point(25.05, 34.95))


def test_what_crosses_the_date_line_goes_on_beyond_it() -> None:
    across = ((170.0, 0.0), (-170.0, 0.0), (-170.0, 10.0), (170.0, 10.0), (170.0, 0.0))
    found, _ = drawn(Polygon(((across,),)))
    assert {lon for lon, _ in found["polygons"][0][0]} == {170.0, 190.0}


@pytest.mark.parametrize("jag", [0.0, 0.01, 0.9])
def test_many_corners_become_few_at_about_the_same_place(jag: float) -> None:
    whole = Polygon(((ring(5_000, jag),),))
    found, shape = drawn(whole)
    assert found["coarse"] is True
    assert shapely.get_num_coordinates(shape) <= POINTS_MAX
    reach = shapely.buffer(shape, 0.06)
    assert reach.contains(whole.shape)
