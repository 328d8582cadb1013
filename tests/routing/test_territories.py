"""Areas drawn exactly: every place has one owner, and a geofence touches the area of whoever owns a place in it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.routing.test_strategies import Settled

from hanse.model import Circle, Location, Polygon
from hanse.routing import Federation, Node
from hanse.routing.territories import Territories
from hanse.simulation.scenarios import scenario

# a city, both sides of the date line, and the poles; some at the very same place
lons = st.one_of(st.floats(25.0, 25.1), st.floats(-180.0, 180.0), st.sampled_from([-180.0, 179.9, 180.0]))
lats = st.one_of(st.floats(35.0, 35.1), st.floats(-90.0, 90.0), st.sampled_from([-90.0, 90.0]))
places = st.builds(Location, lats, lons)


@st.composite
def squares(draw: st.DrawFn) -> Polygon:
    lon, lat = draw(st.floats(-179.0, 170.0)), draw(st.floats(-89.0, 80.0))
    size = draw(st.sampled_from([0.01, 1.0, 8.0]))
    ring = ((lon, lat), (lon + size, lat), (lon + size, lat + size), (lon, lat + size), (lon, lat))
    return Polygon(((ring,),))


@st.composite
def territories(draw: st.DrawFn) -> tuple[Territories, dict[str, Polygon]]:
    found = draw(st.lists(places, min_size=1, max_size=6))
    federation = Federation(tuple(Node(f"n{i}", place) for i, place in enumerate(found)))
    polygons = {node: draw(squares()) for node in draw(st.sets(st.sampled_from(federation.ids), max_size=2))}
    return Territories(federation, polygons), polygons


@given(territories(), places, st.floats(1e-6, 30.0), st.data())
@settings(deadline=None)
def test_whoever_owns_a_place_in_a_geofence_is_touched(
    drawn: tuple[Territories, dict[str, Polygon]], place: Location, radius_deg: float, data: st.DataObject
) -> None:
    areas, polygons = drawn
    owner = areas.owner(place.lat, place.lon)
    assert owner in areas.touched(Circle(place.lat, place.lon, radius_deg))
    centre = data.draw(places)
    circle = Circle(centre.lat, centre.lon, radius_deg)
    if circle.contains(place.lat, place.lon):
        assert owner in areas.touched(circle)
    square = data.draw(squares())
    if square.contains(place.lat, place.lon):
        assert owner in areas.touched(square)
    inside = [node for node, polygon in polygons.items() if polygon.contains(place.lat, place.lon)]
    if inside and owner not in inside:  # at a border of two that touch, rounding decides
        assert areas.touched(Circle(place.lat, place.lon, 1e-6)) != (owner,)


@pytest.mark.parametrize("apart", [0.0, 1e-15, 1e-10, 1e-8, 1e-7, 1e-6])
def test_nodes_may_be_very_close(apart: float) -> None:
    beside = [Location(60.380036041181256, -122.0018381147463), Location(60.380036041181256, -122.0018381147463 + apart)]
    for others in ([], [Location(35.0118904425867, -180.0), Location(-90.0, 180.0), Location(5.035507503289608, 180.0)]):
        nodes = tuple(Node(f"n{i}", place) for i, place in enumerate(beside + others))
        areas = Territories(Federation(nodes), {})
        assert areas.owner(60.0, -122.0) in ("n0", "n1")
        assert areas.owner(60.380036041181256, -123.0) == "n0"


@pytest.mark.parametrize("strategy", ["geo-publisher", "geo-subscriber"])
@given(st.integers(0, 10**9))
@settings(max_examples=25, deadline=None)
def test_routing_by_territories_delivers_what_the_oracle_says(strategy: str, seed: int) -> None:
    drawn = scenario(seed, strategy)
    exact = msgspec.structs.replace(drawn, settings=msgspec.structs.replace(drawn.settings, field_owners=(), territories={}))
    settled = Settled(exact)
    delivered = set(settled.delivered)
    assert len(delivered) == len(settled.delivered)
    assert settled.must <= delivered <= settled.must | settled.may
