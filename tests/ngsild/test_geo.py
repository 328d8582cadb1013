"""Geo-queries: the relations in the plane, distances on the sphere, and boxes that miss nothing."""

from __future__ import annotations

import itertools
import json
from math import acos, cos, radians, sin
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import DEFAULT_VOCAB, LOCATION
from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.geo import (
    EARTH_RADIUS_M,
    GeoQuery,
    Shape,
    distance_m,
    geo_bounds,
    geo_matches,
    geometry_box,
    parse_geo_query,
    shape_distance_m,
)

SQUARE = [[[0, 0], [10, 0], [10, 10], [0, 10], [0, 0]]]
HOLED = [*SQUARE, [[4, 4], [6, 4], [6, 6], [4, 6], [4, 4]]]


def geo(georel: str, geometry: str, coordinates: Any, **more: Any) -> GeoQuery:
    return parse_geo_query({"georel": georel, "geometry": geometry, "coordinates": coordinates, **more}, CORE)


def at(kind: str, coordinates: Any, name: str = LOCATION) -> dict[str, list[dict[str, Any]]]:
    return {name: [{"type": "GeoProperty", "value": {"type": kind, "coordinates": coordinates}}]}


@pytest.mark.parametrize(
    ("query", "target", "expected"),
    [
        (("within", "Polygon", SQUARE), ("Point", [5, 5]), True),
        (("within", "Polygon", HOLED), ("Point", [5, 5]), False),
        (("within", "Polygon", HOLED), ("Point", [2, 2]), True),
        (("within", "Polygon", SQUARE), ("Point", [0, 5]), False),  # the boundary is not inside
        (("intersects", "Polygon", SQUARE), ("Point", [0, 5]), True),
        (("disjoint", "Polygon", SQUARE), ("Point", [0, 5]), False),
        (("disjoint", "Polygon", SQUARE), ("Point", [-1, 5]), True),
        (("contains", "Point", [5, 5]), ("Polygon", SQUARE), True),
        (("contains", "Point", [5, 5]), ("Polygon", HOLED), False),
        (("contains", "Point", [5, 5]), ("Point", [5, 5]), True),
        (("equals", "Point", [5, 5]), ("Point", [5.0, 5.0, 20.0]), True),
        (("equals", "Polygon", SQUARE), ("Polygon", [SQUARE[0][::-1]]), True),
        (("overlaps", "Polygon", SQUARE), ("Polygon", [[[5, 5], [15, 5], [15, 15], [5, 5]]]), True),
        (("overlaps", "Polygon", SQUARE), ("Polygon", [[[1, 1], [2, 1], [2, 2], [1, 1]]]), False),
        (("intersects", "LineString", [[-5, 5], [15, 5]]), ("MultiPoint", [[50, 50], [5, 5]]), True),
        (("intersects", "MultiPolygon", [SQUARE]), ("MultiLineString", [[[20, 20], [21, 21]], [[1, 1], [2, 2]]]), True),
        (("near;maxDistance==2000", "Point", [13.0, 52.0]), ("Point", [13.01, 52.01]), True),
        (("near;maxDistance==1000", "Point", [13.0, 52.0]), ("Point", [13.01, 52.01]), False),
        (("near;minDistance==1000", "Point", [13.0, 52.0]), ("Point", [13.01, 52.01]), True),
        (("near;minDistance==2000", "Point", [13.0, 52.0]), ("Point", [13.01, 52.01]), False),
        (("near;maxDistance==3000", "Point", [179.99, 0]), ("Point", [-179.99, 0]), True),  # across the date line
        (("near;maxDistance==2000", "LineString", [[0, 60], [10, 60]]), ("Point", [10, 60.009]), True),
        (("near;maxDistance==2000", "LineString", [[0, 60], [10, 60]]), ("Point", [5, 60.009]), True),  # the edge is straight
        (("near;maxDistance==2000", "LineString", [[0, 61], [10, 61]]), ("Point", [10, 60.009]), False),
        (("near;maxDistance==20000", "Point", [0, 85]), ("LineString", [[1, 85], [0, 85.6]]), True),
        (("near;maxDistance==5000", "Point", [0, 85]), ("LineString", [[1, 85], [0, 85.6]]), False),
        (("near;maxDistance==1", "Polygon", SQUARE), ("Point", [5, 5]), True),
        (("near;maxDistance==120000", "MultiLineString", [[[0, 0], [1, 0]], [[30, 0], [31, 0]]]), ("Point", [32, 0]), True),
    ],
)
def test_relations(query: tuple[str, str, Any], target: tuple[str, Any], expected: bool) -> None:
    assert geo_matches(geo(*query), at(*target)) is expected


def test_a_ring_that_crosses_itself_is_repaired() -> None:
    bow = [[[0, 0], [10, 10], [10, 0], [0, 10], [0, 0]]]
    assert geo_matches(geo("within", "Polygon", bow), at("Point", [1, 5])) is True
    assert geo_matches(geo("equals", "Polygon", bow), at("Polygon", bow)) is True


def test_only_a_geoproperty_of_that_name_counts() -> None:
    query = geo("near;maxDistance==1000", "Point", [8, 40], geoproperty="parking")
    assert query.geoproperty == DEFAULT_VOCAB + "parking"
    assert not geo_matches(query, at("Point", [8, 40]))
    assert geo_matches(query, at("Point", [8, 40], DEFAULT_VOCAB + "parking"))
    assert not geo_matches(geo("disjoint", "Point", [8, 40]), {})
    value = {"type": "Point", "coordinates": [8, 40]}
    assert not geo_matches(geo("equals", "Point", [8, 40]), {LOCATION: [{"type": "Property", "value": value}]})
    assert not geo_matches(geo("disjoint", "Point", [8, 40]), {LOCATION: [{"type": "GeoProperty", "value": "POINT (1 2)"}]})


def test_some_instance_is_enough() -> None:
    there, here = (at("Point", c)[LOCATION][0] for c in ([1, 1], [8, 40]))
    assert geo_matches(geo("equals", "Point", [8, 40]), {LOCATION: [there, here | {"datasetId": "urn:x:1"}]})


@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({"georel": "within", "geometry": "Point"}, "coordinates"),
        ({"geometry": "Point", "coordinates": [1, 2]}, "georel"),
        ({"georel": "touches", "geometry": "Point", "coordinates": [1, 2]}, "touches"),
        ({"georel": "near", "geometry": "Point", "coordinates": [1, 2]}, "maxDistance"),
        ({"georel": "near;maxDistance==0", "geometry": "Point", "coordinates": [1, 2]}, "positive"),
        ({"georel": "near;maxDistance==-1", "geometry": "Point", "coordinates": [1, 2]}, "METRES"),
        ({"georel": "near;maxDistance==inf", "geometry": "Point", "coordinates": [1, 2]}, "METRES"),
        ({"georel": "near;maxDistance==1e400", "geometry": "Point", "coordinates": [1, 2]}, "positive"),
        ({"georel": "near;maxDistance==5;minDistance==1", "geometry": "Point", "coordinates": [1, 2]}, "METRES"),
        ({"georel": "within", "geometry": "Circle", "coordinates": [1, 2]}, "Circle"),
        ({"georel": "within", "geometry": ["Point"], "coordinates": [1, 2]}, "geometry"),
        ({"georel": "within", "geometry": "Point", "coordinates": "[1, 2"}, "JSON"),
        ({"georel": "within", "geometry": "Point", "coordinates": "[" * 100_000}, "JSON"),
        ({"georel": "within", "geometry": "Point", "coordinates": [[1, 2]]}, "nested"),
        ({"georel": "within", "geometry": "Point", "coordinates": [200, 2]}, "Earth"),
        ({"georel": "within", "geometry": "Point", "coordinates": [float("nan"), 2]}, "Earth"),
        ({"georel": "within", "geometry": "Point", "coordinates": [10**400, 2]}, "Earth"),
        ({"georel": "within", "geometry": "Point", "coordinates": [True, 2]}, "nested"),
        ({"georel": "within", "geometry": "LineString", "coordinates": [[1, 2]]}, "two positions"),
        ({"georel": "within", "geometry": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1]]]}, "close"),
        ({"georel": "within", "geometry": "MultiPoint", "coordinates": [[1, 2]] * 20_001}, "simplify"),
        ({"georel": 5, "geometry": "Point", "coordinates": [1, 2]}, "georel"),
        ({"georel": "within", "geometry": "Point", "coordinates": [1, 2], "geoproperty": 5}, "geoproperty"),
    ],
)
def test_refusals(params: dict[str, Any], word: str) -> None:
    with pytest.raises(BadRequestData, match=word):
        parse_geo_query(params, CORE)


def test_coordinates_come_as_text_or_as_json() -> None:
    query = geo("within", "Polygon", json.dumps(SQUARE))
    assert query == geo("within", "Polygon", SQUARE)
    assert hash(query) == hash(geo("within", "Polygon", SQUARE))


grid = st.integers(-18, 18).map(lambda i: i * 10.0)
fine = st.floats(-180, 180)
lats = st.integers(-9, 9).map(lambda i: i * 10.0) | st.floats(-90, 90)
positions = st.tuples(grid | fine, lats).map(list)


@st.composite
def geometries(draw: st.DrawFn) -> tuple[str, Any]:
    kind = draw(st.sampled_from(["Point", "Point", "MultiPoint", "LineString", "Polygon"]))
    if kind == "Point":
        return kind, draw(positions)
    points = draw(st.lists(positions, min_size=3, max_size=5))
    return kind, [[*points, points[0]]] if kind == "Polygon" else points


def touches(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] <= other[2] and other[0] <= one[2] and one[1] <= other[3] and other[1] <= one[3]


@given(
    st.sampled_from(["within", "contains", "intersects", "equals", "overlaps"])
    | st.floats(1, 2.1e7).map(lambda d: f"near;maxDistance=={d:.3f}"),
    geometries(),
    geometries(),
)
def test_the_boxes_miss_nothing(georel: str, reference: tuple[str, Any], target: tuple[str, Any]) -> None:
    try:
        query = geo(georel, *reference)
    except BadRequestData:
        assume(False)
    attributes = at(*target)
    boxes = geo_bounds(query)
    assert boxes is not None
    assert all(-180.0 <= west <= east <= 180.0 and -90.0 <= south <= north <= 90.0 for west, south, east, north in boxes)
    if geo_matches(query, attributes):
        box = geometry_box(attributes[LOCATION][0]["value"])
        assert box is not None
        assert any(touches(box, wanted) for wanted in boxes)


def test_no_box_helps_with_what_is_far() -> None:
    assert geo_bounds(geo("disjoint", "Point", [1, 2])) is None
    assert geo_bounds(geo("near;minDistance==5", "Point", [1, 2])) is None


@given(positions, positions)
def test_distances_between_points(one: list[float], other: list[float]) -> None:
    (lon1, lat1), (lon2, lat2) = one, other
    cosine = sin(radians(lat1)) * sin(radians(lat2)) + cos(radians(lat1)) * cos(radians(lat2)) * cos(radians(lon1 - lon2))
    expected = EARTH_RADIUS_M * acos(max(-1.0, min(1.0, cosine)))
    found = distance_m(geo("near;maxDistance==1", "Point", one), {"type": "Point", "coordinates": other})
    assert found == pytest.approx(expected, abs=0.5, rel=1e-7)


@given(st.lists(positions, min_size=2, max_size=4), positions)
def test_a_line_is_as_near_as_its_nearest_point(line: list[list[float]], point: list[float]) -> None:
    found = shape_distance_m(Shape("LineString", line), Shape("Point", point))
    samples = [
        [a[0] + (b[0] - a[0]) * i / 200, a[1] + (b[1] - a[1]) * i / 200] for a, b in itertools.pairwise(line) for i in range(201)
    ]
    nearest = min(shape_distance_m(Shape("Point", sample), Shape("Point", point)) for sample in samples)
    assert found <= nearest + 5.0
    step = max(abs(b[i] - a[i]) for a, b in itertools.pairwise(line) for i in (0, 1)) / 200
    assert found >= nearest - radians(step) * EARTH_RADIUS_M - 5.0


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


@given(
    st.dictionaries(
        st.sampled_from(["georel", "geometry", "coordinates", "geoproperty"]),
        st.sampled_from(["near;maxDistance==5", "within", "Point", "Polygon", "[1,2]", "[[[0,0],[1,0],[1,1],[0,0]]]"])
        | json_values,
    )
)
def test_only_refusals_come_out(params: dict[str, Any]) -> None:
    try:
        query = parse_geo_query(params, CORE)
    except BadRequestData:
        return
    geo_bounds(query)
    geo_matches(query, at("Point", [1, 2]))


@given(json_values, json_values)
def test_stored_nonsense_matches_nothing(kind: Any, coordinates: Any) -> None:
    value = {"type": kind, "coordinates": coordinates}
    matched = geo_matches(geo("disjoint", "Point", [0.123, 0.456]), {LOCATION: [{"type": "GeoProperty", "value": value}]})
    assert not matched or geometry_box(value) is not None
