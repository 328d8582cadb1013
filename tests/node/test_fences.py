"""Entities that are not at a single point still reach the geo-queries that they satisfy."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.ngsild.entity import LOCATION
from hanse.ngsild.geo import GeoQuery, geo_matches
from hanse.node.fences import Fences

positions = st.tuples(st.integers(-180, 180), st.integers(-90, 90))
queries = st.one_of(
    st.builds(lambda at, metres: GeoQuery("near", "Point", at, max_distance_m=metres), positions, st.sampled_from([1e3, 2e6])),
    st.builds(lambda line: GeoQuery("intersects", "LineString", line), st.lists(positions, min_size=2, max_size=2).map(tuple)),
)
lines = st.lists(positions, min_size=2, max_size=3).map(lambda line: {"type": "LineString", "coordinates": [*map(list, line)]})


@settings(max_examples=60)
@given(st.lists(queries, min_size=1, max_size=8), st.lists(lines, min_size=1, max_size=2), st.sets(st.integers(0, 7)))
def test_all_that_match_are_found(asked: list[GeoQuery], where: list[dict[str, object]], gone: set[int]) -> None:
    fences = Fences()
    attributes = {LOCATION: [{"type": "GeoProperty", "value": value} for value in where]}
    assert fences.near(attributes) == []
    for number, geo in enumerate(asked):
        fences.add(str(number), geo)
    fences.near(attributes)
    for number in gone:
        fences.remove(str(number))
    left = {str(number): geo for number, geo in enumerate(asked) if number not in gone}
    assert len(fences) == len(left)
    found = fences.near(attributes)
    assert len(found) == len(set(found))
    assert {id_ for id_, geo in left.items() if geo_matches(geo, attributes)} <= set(found) <= set(left)
