"""The geofence of a geo-query holds every point that satisfies the query."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hanse.model import WORLD, Circle, InvalidInput, Location, Polygon
from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import DEFAULT_VOCAB, LOCATION, Instance
from hanse.ngsild.geo import GeoQuery, geo_matches, parse_geo_query
from hanse.ngsild.geofences import EVENT_GEOFENCE, event_geofence, geofence_of, is_at_a_point, place

lons = st.sampled_from([-180.0, -179.999, -90.0, 0.0, 10.0, 10.001, 90.0, 179.999, 180.0]) | st.floats(-180, 180)
lats = st.sampled_from([-90.0, -89.999, 0.0, 50.0, 50.001, 89.999, 90.0]) | st.floats(-90, 90)
positions = st.tuples(lons, lats)


def _geometry(kind: str, coordinates: Any) -> dict[str, Any]:
    return {"geometry": kind, "coordinates": coordinates}


geometries = st.one_of(
    positions.map(lambda at: _geometry("Point", list(at))),
    st.lists(positions.map(list), min_size=2, max_size=3).map(lambda line: _geometry("LineString", line)),
    st.lists(positions.map(list), min_size=3, max_size=4).map(lambda ring: _geometry("Polygon", [[*ring, ring[0]]])),
    st.lists(positions.map(list), min_size=1, max_size=3).map(lambda some: _geometry("MultiPoint", some)),
)
georels = st.one_of(
    st.sampled_from(["within", "contains", "intersects", "equals", "overlaps", "disjoint"]),
    st.builds("near;maxDistance=={}".format, st.sampled_from([0.001, 1, 111.2, 200_000, 10_007_543, 18_900_000, 20_015_200])),
    st.just("near;minDistance==1000"),
)


def geo_query(georel: str, geometry: dict[str, Any], **more: str) -> GeoQuery:
    return parse_geo_query(geometry | {"georel": georel} | more, CORE)


def located(lon: float, lat: float) -> dict[str, list[Instance]]:
    return {LOCATION: [{"type": "GeoProperty", "value": {"type": "Point", "coordinates": [lon, lat]}}]}


@settings(max_examples=400)
@given(georels, geometries, st.lists(positions, max_size=4))
@example("near;maxDistance==1000", _geometry("Point", [180, 0]), [(-180.0, 0.0), (-179.995, 0.0)])
@example("near;maxDistance==1000", _geometry("Point", [0, 90]), [(120.0, 89.995)])
@example("near;maxDistance==5000", _geometry("LineString", [[179.99, 0], [179.99, 1]]), [(-179.99, 0.5)])
@example("within", _geometry("Polygon", [[[-170, -10], [170, -10], [170, 10], [-170, 10], [-170, -10]]]), [(0.0, 0.0)])
def test_no_point_that_satisfies_a_query_lies_outside_of_its_geofence(
    georel: str, geometry: dict[str, Any], points: list[tuple[float, float]]
) -> None:
    geo = geo_query(georel, geometry)
    fence = geofence_of(geo)
    corners = [at for at in _positions(geometry["coordinates"]) if geo_matches(geo, located(*at))]
    for lon, lat in [*points, *corners]:
        if geo_matches(geo, located(lon, lat)):
            assert fence.contains(lat, lon)


def _positions(coordinates: Any) -> list[tuple[float, float]]:
    if isinstance(coordinates[0], int | float):
        return [(coordinates[0], coordinates[1])]
    return [at for part in coordinates for at in _positions(part)]


def test_geofences_are_no_larger_than_they_need_to_be() -> None:
    circle = geofence_of(geo_query("near;maxDistance==1000", _geometry("Point", [10, 53])))
    assert isinstance(circle, Circle)
    assert circle.contains(53.008, 10)
    assert not circle.contains(53.01, 10)
    box = [[[9, 53], [11, 53], [11, 54], [9, 54], [9, 53]]]
    for georel in ("within", "intersects", "equals", "overlaps", "contains"):
        fence = geofence_of(geo_query(georel, _geometry("Polygon", box)))
        assert isinstance(fence, Polygon)
        assert fence.contains(53.5, 9.0)
        assert not fence.contains(53.5, 8.99)
    around = geofence_of(geo_query("near;maxDistance==20000", _geometry("LineString", [[179.9, 0], [179.9, 1]])))
    assert around.contains(0.5, -179.95)
    assert not around.contains(0.5, -179)


@pytest.mark.parametrize(
    "geo",
    [
        geo_query("disjoint", _geometry("Point", [0, 0])),
        geo_query("near;minDistance==5", _geometry("Point", [0, 0])),
        geo_query("near;maxDistance==20000000", _geometry("Point", [0, 0])),
        geo_query("within", _geometry("Point", [0, 0]), geoproperty="operationSpace"),
    ],
)
def test_some_queries_have_none(geo: GeoQuery) -> None:
    assert geofence_of(geo) is WORLD


LINE = {"type": "LineString", "coordinates": [[0, 0], [1, 1]]}


@pytest.mark.parametrize(
    ("instances", "where", "is_all"),
    [
        ([], None, True),
        ([{"type": "GeoProperty", "value": {"type": "Point", "coordinates": [1, 2, 3]}}], Location(2, 1), True),
        ([{"type": "GeoProperty", "value": LINE}], None, False),
        ([{"type": "GeoProperty", "datasetId": "urn:d", "value": {"type": "Point", "coordinates": [1, 2]}}], None, False),
        (
            [
                {"type": "GeoProperty", "value": {"type": "Point", "coordinates": [1, 2]}},
                {"type": "GeoProperty", "datasetId": "urn:d", "value": LINE},
            ],
            Location(2, 1),
            False,
        ),
        ([{"type": "Property", "value": {"type": "Point"}}], None, True),
        ([{"type": "Property", "value": {"type": "Point", "coordinates": "x"}}], None, True),
        ([{"type": "Property", "value": {"type": "Point", "coordinates": [1, 200]}}], None, True),
        ([{"type": "Property", "value": "Hamburg"}], None, False),
    ],
)
def test_where_an_entity_is(instances: list[Instance], where: Location | None, is_all: bool) -> None:
    attributes = {LOCATION: instances} if instances else {}
    assert place(attributes) == where
    assert is_at_a_point(attributes) == is_all


def test_where_the_news_of_an_entity_may_be_heard() -> None:
    ring = [[0, 0], [1, 0], [1, 1], [0, 0]]
    fence = event_geofence({EVENT_GEOFENCE: [{"type": "GeoProperty", "value": {"type": "Polygon", "coordinates": [ring]}}]})
    assert fence.contains(0.1, 0.5)
    assert not fence.contains(2, 2)
    assert event_geofence({DEFAULT_VOCAB + "other": []}) is WORLD
    with pytest.raises(InvalidInput):
        event_geofence({EVENT_GEOFENCE: [{"type": "GeoProperty", "value": LINE}]})
