"""Whose area a geofence touches."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.model import WORLD, Circle, InvalidInput, Location, geofence_from_wkt
from hanse.routing import Areas, Federation, Node
from hanse.simulation.replay import read_recording

RECORDED = Path(__file__).parents[1] / "data" / "disgb-1k"
CITIES = Federation(
    (Node("paris", Location(48.9, 2.4)), Node("tokyo", Location(35.7, 139.7)), Node("quito", Location(-0.2, -78.5)))
)


def test_the_authors_find_the_same_brokers() -> None:
    recording = read_recording(RECORDED)
    areas = recording.simulator("geo-subscriber").settings.areas
    ids = [node.id for node in recording.nodes]
    with gzip.open(RECORDED / "workload.csv.gz", "rt") as file:
        rows = {row["row"]: row for row in csv.DictReader(file)}
    with gzip.open(RECORDED / "affected_brokers.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            fence = rows[row["row"]]
            circle = Circle(float(fence["lat"]), float(fence["lon"]), float(fence["radius_deg"]))
            assert set(areas.touched(circle)) == {ids[int(i)] for i in row["affected_broker_indices"].split()}


def test_fields_belong_to_the_nearest_node() -> None:
    areas = Areas.nearest(CITIES)
    assert areas.owner(48.0, 2.0) == "paris"
    assert areas.owner(90.0, 180.0) in CITIES.ids
    assert areas.owner(-90.0, -180.0) in CITIES.ids
    assert areas.touched(WORLD) == CITIES.ids


@settings(max_examples=200, deadline=None)
@given(st.floats(-90, 90), st.floats(-180, 180), st.floats(0, 179), st.floats(-90, 90), st.floats(-180, 180))
def test_whoever_owns_a_place_in_a_circle_is_touched(lat: float, lon: float, radius: float, lat2: float, lon2: float) -> None:
    areas = Areas.nearest(CITIES, 30.0)
    circle = Circle(lat, lon, radius)
    assert areas.owner(lat, lon) in areas.touched(circle)
    if circle.contains(lat2, lon2):
        assert areas.owner(lat2, lon2) in areas.touched(circle)


@settings(max_examples=100, deadline=None)
@given(st.floats(-80, 70), st.floats(-180, 179), st.floats(0.1, 9.0), st.floats(0, 1), st.floats(0, 1))
def test_whoever_owns_a_place_in_a_polygon_is_touched(south: float, west: float, size: float, x: float, y: float) -> None:
    areas = Areas.nearest(CITIES, 6.0)
    east = west + size if west + size <= 180 else west + size - 360
    fence = geofence_from_wkt(
        f"POLYGON (({west} {south}, {east} {south}, {east} {south + size}, {west} {south + size}, {west} {south}))"
    )
    lon = west + x * size
    assert areas.owner(south + y * size, lon if lon <= 180 else lon - 360) in areas.touched(fence)


def test_a_wrong_number_of_fields_is_refused() -> None:
    with pytest.raises(InvalidInput, match="do not make up the earth"):
        Areas(("a",), np.zeros(7, dtype=np.int64))
