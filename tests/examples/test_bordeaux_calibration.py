"""Calibration: what is learned beside the analyser, and what it is worth."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import plain_air

from bordeaux.calibration import calibrate, repeatability
from bordeaux.measurements import GASES, SENSORS, WEATHER, Row, read, row_of
from hanse.model import InvalidInput

CO, NO2, NOX, BENZENE = GASES
START = datetime(2004, 3, 10, 18, tzinfo=UTC)


def rows_of(values: Sequence[dict[str, float]]) -> list[Row]:
    return [Row(START + timedelta(hours=number), one) for number, one in enumerate(values)]


@given(st.floats(-50, 50), st.floats(0.1, 2), st.floats(-2, 2))
def test_a_law_that_is_there_is_found(constant: float, first: float, second: float) -> None:
    readings = [{"T": float(number % 17), "AH": number * number % 23 / 7} for number in range(120)]
    known = [one | {NO2.reference: 200 + constant + first * one["T"] + second * one["AH"]} for one in readings]
    found = calibrate(rows_of(known), NO2, ("T", "AH"))
    assert (found.constant, *found.weights) == pytest.approx((200 + constant, first, second), abs=1e-6)
    assert found.estimate({"T": 20, "AH": 3}) == pytest.approx(200 + constant + 20 * first + 3 * second, abs=1e-4)


@pytest.mark.parametrize("gas", GASES, ids=lambda gas: gas.name)
@pytest.mark.parametrize("is_whole", [True, False])
def test_it_is_the_least_squares_of_the_file(gas: object, is_whole: bool) -> None:
    known = next(one for one in GASES if one is gas)
    channels = (*SENSORS, *WEATHER) if is_whole else (known.sensor, "T", "AH")
    rows = list(read().values())[:672]
    found = calibrate(rows, known, channels)
    constant, weights = plain_air.line_through([row.values for row in rows], known.reference, list(channels))
    assert (found.constant, *found.weights) == pytest.approx((constant, *weights), rel=1e-6)
    references = [row.values[known.reference] for row in rows if {known.reference, *channels} <= row.values.keys()]
    assert (found.pairs, found.span) == (len(references), max(references) - min(references))


def test_an_estimate_needs_all_channels_and_is_never_below_nothing() -> None:
    known = [{"T": float(number), NO2.reference: 2.0 * number} for number in range(200)]
    found = calibrate(rows_of(known), NO2, ("T",))
    assert found.estimate({"RH": 50}) is None
    assert found.estimate({"T": -40}) == 0.0


def test_too_little_to_learn_from_is_refused() -> None:
    known = [{"T": float(number), NO2.reference: 2.0 * number} for number in range(99)]
    with pytest.raises(InvalidInput, match="NO2 has 99 hours with sensor and reference in the window; 100 are needed"):
        calibrate(rows_of(known), NO2, ("T",))
    with pytest.raises(InvalidInput, match="the reference of NO2 is the same in all hours"):
        calibrate(rows_of([one | {NO2.reference: 40.0} for one in [*known, *known]]), NO2, ("T",))


def test_precision_is_the_spread_while_the_reference_reads_the_same() -> None:
    pairs = [(10.0, 9.0), (10.0, 11.0), (30.0, 28.0), (30.0, 32.0), (50.0, 47.0)]
    # two groups of two: deviations 1, 1, 2, 2; squares 10; freedom 2; so a spread of the root of 5, of a span of 100
    assert repeatability(pairs, 100) == pytest.approx(100 - 5**0.5)
    assert repeatability([(1.0, 5.0), (2.0, 9.0)], 100) is None


def test_what_is_missing_in_the_file_is_missing() -> None:
    row = row_of({"Date": "10/03/2004", "Time": "18:00:00", "CO_GT": "-200", "T": "13.6"})
    assert (row.hour, row.values) == (START, {"T": 13.6})
    with pytest.raises(InvalidInput, match="line 7 is no row of measurements"):
        row_of({"Date": "2004-03-10", "Time": "18:00:00"}, 7)


def test_the_file_is_what_its_page_says() -> None:
    rows = read()
    assert len(rows) == 9_357
    by_reading: dict[float, list[float]] = {}
    for row in rows.values():
        assert (BENZENE.sensor in row.values) == (BENZENE.reference in row.values)
        if BENZENE.sensor in row.values:
            by_reading.setdefault(row.values[BENZENE.sensor], []).append(row.values[BENZENE.reference])
    # benzene is no measurement of its own: the sensor's reading says it to the last digit; NO2 is one
    assert all(max(found) - min(found) < 0.11 for found in by_reading.values())
    assert mean(map(len, by_reading.values())) > 7
