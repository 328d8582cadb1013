"""The air quality index at the EPA's published break points (EPA-454/B-24-002, table 6), and between them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bordeaux.index import LEVELS, air_quality_index, co_index, co_ppm, level_of, no2_index, no2_ppb

CO = [(0.0, 0), (4.4, 50), (4.5, 51), (9.4, 100), (9.5, 101), (12.4, 150), (12.5, 151), (15.4, 200), (15.5, 201), (30.4, 300)]
NO2 = [(0, 0), (53, 50), (54, 51), (100, 100), (101, 101), (360, 150), (361, 151), (649, 200), (650, 201), (1249, 300)]


@pytest.mark.parametrize(("ppm", "index"), [*CO, (30.5, 301), (50.4, 500)])
def test_carbon_monoxide_at_the_break_points(ppm: float, index: int) -> None:
    assert co_index(ppm) == index


@pytest.mark.parametrize(("ppb", "index"), [*NO2, (1250, 301), (2049, 500)])
def test_nitrogen_dioxide_at_the_break_points(ppb: float, index: int) -> None:
    assert no2_index(ppb) == index


def test_concentrations_are_cut_not_rounded() -> None:
    assert (co_index(9.49), no2_index(100.99)) == (100, 100)
    assert (co_index(9.51), no2_index(101.01)) == (101, 101)


def test_between_break_points_the_index_is_on_a_straight_line() -> None:
    assert no2_index(230) == round(101 + 49 * (230 - 101) / (360 - 101))
    assert co_index(7.0) == round(51 + 49 * (7.0 - 4.5) / (9.4 - 4.5))


def test_above_the_table_it_stays_hazardous() -> None:
    assert no2_index(5_000) > 500
    assert level_of(no2_index(5_000)) == level_of(co_index(80)) == "hazardous"


def test_levels_are_the_categories_of_the_index() -> None:
    edges = [(50, "good"), (51, "moderate"), (100, "moderate"), (101, "unhealthyForSensitiveGroups"), (150, LEVELS[2])]
    edges += [(151, "unhealthy"), (200, "unhealthy"), (201, "veryUnhealthy"), (300, "veryUnhealthy"), (301, "hazardous")]
    assert [(index, level_of(index)) for index, _ in edges] == edges


def test_masses_become_parts_at_the_conditions_of_european_law() -> None:
    """1 ppb of NO2 is 1.9125 µg/m3 and 1 ppm of CO 1.1642 mg/m3 at 20 °C, as European agencies convert."""
    assert no2_ppb(1.9125) == pytest.approx(1, rel=5e-4)
    assert co_ppm(1.1642) == pytest.approx(1, rel=5e-4)


def test_the_worse_gas_decides() -> None:
    clean, bad = 10.0, 200.0  # µg/m3 of NO2: 5 and 104 ppb
    assert air_quality_index(clean, [0.1] * 8) == air_quality_index(clean, [])
    found = air_quality_index(bad, [1.0] * 8)
    assert found is not None
    assert (found.value, found.level) == (no2_index(104), "unhealthyForSensitiveGroups")
    found = air_quality_index(clean, [15.0] * 8)  # mg/m3 of CO: 12.8 ppm
    assert found is not None
    assert found.level == "unhealthy"


def test_six_of_eight_hours_make_a_mean_and_five_do_not() -> None:
    six, five = (air_quality_index(10.0, [15.0] * hours) for hours in (6, 5))
    assert six is not None
    assert five is not None
    assert (six.level, five.level) == ("unhealthy", "good")


def test_without_nitrogen_dioxide_nothing_is_said() -> None:
    assert air_quality_index(None, [1.0] * 8) is None


@given(st.floats(0, 4_000), st.floats(0, 4_000))
def test_more_is_never_better(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert no2_index(low) <= no2_index(high)
    assert co_index(low / 40) <= co_index(high / 40)
    assert LEVELS.index(level_of(no2_index(low))) <= LEVELS.index(level_of(no2_index(high)))
