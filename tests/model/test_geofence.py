"""Places: what lies inside a geofence, and what is not a geofence."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.model import (
    WORLD,
    Circle,
    Geofence,
    InvalidInput,
    Location,
    Polygon,
    geofence_from_geojson,
    geofence_from_wkt,
)

latitudes = st.floats(-90, 90)
longitudes = st.floats(-180, 180)


def test_the_edge_of_a_circle_is_inside() -> None:
    assert Circle(0.0, 0.0, 10.0).contains(10.0, 0.0)
    assert Circle(0.0, 0.0, 10.0).contains(0.0, -10.0)
    assert not Circle(0.0, 0.0, 10.0).contains(10.001, 0.0)


def test_circles_reach_over_the_date_line_and_the_poles() -> None:
    assert Circle(0.0, 179.0, 3.0).contains(0.0, -179.0)
    assert Circle(89.0, 0.0, 3.0).contains(89.0, 180.0)
    assert not Circle(89.0, 0.0, 1.5).contains(89.0, 180.0)


@given(latitudes, longitudes, st.floats(0, 180), latitudes, longitudes)
def test_a_circle_holds_what_is_no_further_than_its_radius(
    lat: float, lon: float, radius: float, lat2: float, lon2: float
) -> None:
    from math import acos, cos, degrees, radians, sin

    # the law of cosines: another formula than the haversine, exact enough away from the edge
    a, b, d = radians(lat), radians(lat2), radians(lon2 - lon)
    angle = degrees(acos(max(-1.0, min(1.0, sin(a) * sin(b) + cos(a) * cos(b) * cos(d)))))
    if abs(angle - radius) > 1e-4:
        assert Circle(lat, lon, radius).contains(lat2, lon2) == (angle < radius)


def test_a_polygon_may_cross_the_date_line() -> None:
    fiji = geofence_from_wkt("POLYGON ((175 -20, -175 -20, -175 -15, 175 -15, 175 -20))")
    assert fiji.contains(-17.0, 178.0)
    assert fiji.contains(-17.0, -178.0)
    assert fiji.contains(-17.0, 180.0)
    assert fiji.contains(-17.0, -180.0)
    assert not fiji.contains(-17.0, 0.0)


def test_a_polygon_that_ends_at_the_date_line_has_both_its_names() -> None:
    fence = geofence_from_wkt("POLYGON ((170 0, 180 0, 180 10, 170 10, 170 0))")
    assert fence.contains(5.0, 180.0)
    assert fence.contains(5.0, -180.0)
    assert not fence.contains(5.0, -179.0)


def test_holes_are_outside() -> None:
    fence = geofence_from_geojson(
        {
            "type": "Polygon",
            "coordinates": [[[0, 0], [10, 0], [10, 10], [0, 10], [0, 0]], [[4, 4], [6, 4], [6, 6], [4, 6], [4, 4]]],
        }
    )
    assert fence.contains(2.0, 2.0)
    assert not fence.contains(5.0, 5.0)


def test_a_hole_on_the_other_side_of_the_date_line() -> None:
    fence = Polygon(
        (
            (
                ((170.0, 0.0), (-170.0, 0.0), (-170.0, 10.0), (170.0, 10.0), (170.0, 0.0)),
                ((-178.0, 4.0), (-176.0, 4.0), (-176.0, 6.0), (-178.0, 6.0), (-178.0, 4.0)),
            ),
        )
    )
    assert fence.contains(5.0, -179.0)
    assert not fence.contains(5.0, -177.0)


def test_geojson_in_all_its_forms() -> None:
    assert geofence_from_geojson('{"type": "Point", "coordinates": [2, 48], "radius": 0}') == Circle(48.0, 2.0, 0.0)
    assert geofence_from_geojson({"type": "Point", "coordinates": [0, 0], "radius": 111_195}).contains(0.99, 0.0)
    square = [[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]
    feature = {
        "type": "Feature",
        "geometry": {"type": "MultiPolygon", "coordinates": [[square], [[[5, 5], [6, 5], [6, 6], [5, 5]]]]},
    }
    assert geofence_from_geojson(feature).contains(5.1, 5.5)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("POLYGON ((0 0, 1 1", "not a geofence in WKT"),
        ("POINT (1 2)", "not a Point"),
        ("POLYGON EMPTY", "not empty"),
        ("POLYGON ((0 0, 10 10, 10 0, 0 10, 0 0))", "not valid"),
        ("POLYGON ((0 0, 200 0, 200 10, 0 0))", "longitude 200"),
        ("CIRCLE (1 2)", "write CIRCLE"),
        ("CIRCLE (1 95, 3)", "latitude 95"),
        ("CIRCLE (1 2, -3)", "radius -3"),
        ("CIRCLE (1 2, nan)", "radius nan"),
        ("", "not a geofence"),
    ],
)
def test_bad_wkt_is_refused_in_one_line(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint) as caught:
        geofence_from_wkt(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        "nonsense",
        "[]",
        {"type": "LineString", "coordinates": [[0, 0], [1, 1]]},
        {"type": "Polygon"},
        {"type": "Polygon", "coordinates": 5},
        {"type": "Polygon", "coordinates": []},
        {"type": "Polygon", "coordinates": [[[0, 0], [1, 1]]]},
        {"type": "Polygon", "coordinates": [[["a", 0], [1, 1], [2, 2], ["a", 0]]]},
        {"type": "Point", "coordinates": []},
        {"type": "Feature", "geometry": None},
        None,
    ],
)
def test_bad_geojson_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput):
        geofence_from_geojson(value)


@given(st.text(max_size=60))
def test_no_text_breaks_the_parsers(text: str) -> None:
    for parse in (geofence_from_wkt, geofence_from_geojson):
        try:
            fence: Geofence = parse(text)
        except InvalidInput:
            continue
        fence.contains(0.0, 0.0)


def test_geofences_survive_the_wire() -> None:
    for fence in (WORLD, Circle(1.0, 2.0, 3.0), geofence_from_wkt("POLYGON ((0 0, 1 0, 1 1, 0 0))")):
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(fence), type=Geofence) == fence


@pytest.mark.parametrize(("lat", "lon"), [(91.0, 0.0), (0.0, 181.0), (float("nan"), 0.0), (0.0, float("inf"))])
def test_impossible_places_are_refused(lat: float, lon: float) -> None:
    with pytest.raises(InvalidInput):
        Location(lat, lon)
