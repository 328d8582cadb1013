"""Every point in a box lies in one of the few ranges of cells that cover it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hanse.node.store.cells import CELL_BYTES, COVER_MAX, cell, cover

longitudes = st.floats(-180, 180) | st.sampled_from([-180, 0, 180])
latitudes = st.floats(-90, 90) | st.sampled_from([-90, 0, 90])
parts = st.floats(0, 1)


@given(st.tuples(longitudes, longitudes), st.tuples(latitudes, latitudes), parts, parts)
def test_a_box_is_covered(lons: tuple[float, float], lats: tuple[float, float], right: float, up: float) -> None:
    (west, east), (south, north) = sorted(lons), sorted(lats)
    lon, lat = min(west + (east - west) * right, east), min(south + (north - south) * up, north)
    ranges = cover((west, south, east, north))
    assert 0 < len(ranges) <= COVER_MAX
    assert [one for pair in ranges for one in pair] == sorted(one for pair in ranges for one in pair)
    for point in ((lon, lat), (west, south), (east, north), (west, north), (east, south)):
        assert any(first <= cell(*point) <= last for first, last in ranges)


@given(longitudes, latitudes)
def test_what_is_around_one_point_is_found_in_a_small_part_of_the_earth(lon: float, lat: float) -> None:
    numbers = [
        tuple(int.from_bytes(one, "big") for one in pair)
        for pair in cover((max(-180, lon - 0.01), max(-90, lat - 0.01), min(180, lon + 0.01), min(90, lat + 0.01)))
    ]
    cells = sum(last - first + 1 for first, last in numbers)
    assert cells < 3e-8 * 256**CELL_BYTES  # the box itself is 6e-9 of it


def test_a_box_beyond_the_edges_is_what_of_it_lies_within() -> None:
    assert cover((-200, -100, 200, 100)) == cover((-180, -90, 180, 90)) == [(b"\x00" * CELL_BYTES, b"\xff" * CELL_BYTES)]
