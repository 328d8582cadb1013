"""Packed outlines answer as the polygon does, wherever they are certain, and they are nearly always."""

from __future__ import annotations

import random
from math import cos, pi, sin

import shapely
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hanse.matching.outline import outline, outlines_hold
from hanse.model import WORLD, Circle, InvalidInput, Location, Polygon

coordinates = st.integers(-3, 3).map(float) | st.floats(-3, 3, allow_subnormal=False)
corners = st.lists(st.tuples(coordinates, coordinates), min_size=3, max_size=9, unique=True)


def closed(ring: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    return (*ring, ring[0])


def star(rng: random.Random, count: int = 7) -> Polygon:
    lat, lon = rng.uniform(-60, 60), rng.uniform(-170, 170)
    radii = [rng.uniform(0.5, 2) for _ in range(count)]
    outer = [(lon + r * cos(2 * pi * k / count), lat + r * sin(2 * pi * k / count)) for k, r in enumerate(radii)]
    hole = [(lon + (x - lon) / 3, lat + (y - lat) / 3) for x, y in outer]
    return Polygon(((closed(outer), closed(hole)),))


@settings(max_examples=500)
@given(corners, st.lists(st.tuples(coordinates, coordinates), min_size=1, max_size=5), st.sampled_from([1.0, 1e-7, 20.0]))
def test_any_polygon(ring: list[tuple[float, float]], points: list[tuple[float, float]], scale: float) -> None:
    shape = shapely.Polygon(ring).buffer(0)
    assume(isinstance(shape, shapely.Polygon) and not shape.is_empty)
    try:
        polygon = Polygon(
            (tuple(closed([(x * scale, y * scale) for x, y in r.coords[:-1]]) for r in (shape.exterior, *shape.interiors)),)
        )
    except InvalidInput:
        assume(False)
    for x, y in [*points, *ring]:
        place = Location(y * scale, x * scale)
        inside, untold = outlines_hold([outline(polygon)], place)
        assert untold or inside[0] == polygon.contains(place.lat, place.lon)


def test_many_at_once_with_holes() -> None:
    rng = random.Random(5)
    polygons = [star(rng) for _ in range(50)]
    packed = [outline(polygon) for polygon in polygons]
    held = 0
    for target in polygons:
        west, south, east, north = target.bounds
        place = Location(rng.uniform(south, north), rng.uniform(west, east))
        inside, untold = outlines_hold(packed, place)
        assert not untold
        assert inside.tolist() == [polygon.contains(place.lat, place.lon) for polygon in polygons]
        held += inside.sum()
    assert held > 10


def test_edges_and_corners_are_left_to_the_polygon() -> None:
    square = outline(Polygon(((closed([(0, 0), (2, 0), (2, 2), (0, 2)]),),)))
    for lat, lon in ((0, 0), (0, 1), (1, 2), (2, 2)):
        assert outlines_hold([square], Location(lat, lon))[1] == [0]


def test_what_has_no_outline_has_no_answer() -> None:
    across = Polygon(((closed([(179, 0), (-179, 0), (-179, 1), (179, 1)]),),))
    large = Polygon(((closed([(cos(pi * k / 32), sin(pi * k / 32)) for k in range(64)]),),))
    for geofence in (across, large, Circle(0, 0, 1), WORLD):
        assert outlines_hold([outline(geofence)], Location(0.5, 0.5))[1] == [0]
    square = outline(Polygon(((closed([(178, 0), (180, 0), (180, 1), (178, 1)]),),)))
    assert outlines_hold([square], Location(0.5, -180.0))[1] == [0]
    assert outlines_hold([square], Location(0.5, 179.0))[1] == []
