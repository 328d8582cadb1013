"""Aggregation over periods: against the plain statement of each method, and by the calendar."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from statistics import fmean, stdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.ngsild.aggregation import (
    LAST_US,
    METHODS,
    PERIODS_MAX,
    Aggregation,
    Duration,
    aggregate,
    aggregated,
    boundary,
    parse_duration,
    parse_methods,
    period_number,
)
from hanse.ngsild.errors import BadRequestData, TooManyResults

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR = 3_600_000_000


def us(text: str) -> int:
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


def text(moment_us: int) -> str:
    return (EPOCH + timedelta(microseconds=moment_us)).isoformat()[:19]


@pytest.mark.parametrize(
    ("written", "duration"),
    [
        ("PT1H", Duration(0, HOUR)),
        ("P1D", Duration(0, 24 * HOUR)),
        ("P2W", Duration(0, 14 * 24 * HOUR)),
        ("P3Y6M4DT12H30M5S", Duration(42, ((4 * 24 + 12) * 60 + 30) * 60_000_000 + 5_000_000)),
        ("PT0.5S", Duration(0, 500_000)),
        ("PT0S", Duration()),
        ("P0D", Duration()),
    ],
)
def test_durations(written: str, duration: Duration) -> None:
    assert parse_duration(written) == duration


@pytest.mark.parametrize("written", ["", "P", "PT", "1H", "PT1D", "P1H", "-PT1H", "P1DT", "PT1H ", "P1W2D", "PT1,2H", "hour"])
def test_what_is_no_duration_is_refused(written: str) -> None:
    with pytest.raises(BadRequestData):
        parse_duration(written)


@given(st.text(alphabet="PTYMWDHS0123456789.,-", max_size=20) | st.text(max_size=20))
def test_parsing_a_duration_raises_nothing_else(written: str) -> None:
    try:
        duration = parse_duration(written)
    except BadRequestData:
        return
    assert duration.months >= 0
    assert duration.us >= 0


def test_methods() -> None:
    assert parse_methods(["avg", " max", "avg"]) == ("avg", "max")
    with pytest.raises(BadRequestData, match="median"):
        parse_methods(["median"])
    with pytest.raises(BadRequestData):
        parse_methods([])


def test_months_are_counted_from_the_origin_by_the_calendar() -> None:
    origin, month = us("2024-01-31T06:00:00"), parse_duration("P1M")
    assert [text(boundary(origin, month, n)) for n in range(5)] == [
        "2024-01-31T06:00:00",
        "2024-02-29T06:00:00",
        "2024-03-31T06:00:00",
        "2024-04-30T06:00:00",
        "2024-05-31T06:00:00",
    ]
    assert text(boundary(us("2024-02-29T00:00:00"), parse_duration("P1Y"), 1)) == "2025-02-28T00:00:00"


def test_periods_end_with_the_calendar() -> None:
    assert boundary(us("9998-01-01T00:00:00"), parse_duration("P5Y"), 1) == LAST_US
    assert boundary(us("2020-01-01T00:00:00"), parse_duration("P999999Y"), 1) == LAST_US


durations = st.builds(Duration, st.integers(0, 30), st.integers(0, 40 * 24).map(lambda hours: hours * HOUR)).filter(bool)
moments = st.integers(us("1990-01-01T00:00:00"), us("2030-01-01T00:00:00"))


@given(moments, moments, durations)
def test_a_moment_lies_in_its_period(one: int, other: int, duration: Duration) -> None:
    origin, moment = min(one, other), max(one, other)
    n = period_number(moment, origin, duration)
    assert boundary(origin, duration, n) <= moment < boundary(origin, duration, n + 1)


values = st.one_of(
    st.integers(-1000, 1000),
    st.floats(-1e6, 1e6),
    st.booleans(),
    st.text(max_size=3),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)


def plainly(method: str, found: list[Any]) -> Any:
    """Each method, said in the words of the standard library."""
    if method == "totalCount":
        return len(found)
    if method == "distinctCount":
        distinct: list[Any] = []
        for value in found:
            if not any(value == other and isinstance(value, bool) == isinstance(other, bool) for other in distinct):
                distinct.append(value)
        return len(distinct)
    numbers = [
        float(len(value)) if isinstance(value, list) else float(value) for value in found if isinstance(value, list | int | float)
    ]
    texts = [value for value in found if isinstance(value, str)]
    if not numbers:
        if not texts or method not in ("min", "max"):
            return None
        return min(texts) if method == "min" else max(texts)
    plain: dict[str, Any] = {
        "sum": sum,
        "avg": fmean,
        "min": min,
        "max": max,
        "stddev": lambda some: stdev(some) if len(some) > 1 else 0.0,
        "sumsq": lambda some: sum(number**2 for number in some),
    }
    return plain[method](numbers)


@given(st.lists(values, min_size=1, max_size=8), st.sampled_from(METHODS))
def test_methods_against_the_standard_library(found: list[Any], method: Any) -> None:
    expected = plainly(method, found)
    assert aggregated(method, found) == (pytest.approx(expected, abs=1e-6) if isinstance(expected, float) else expected)


@given(st.lists(st.tuples(st.integers(0, 500), values), max_size=30), st.integers(1, 60), st.integers(-100, 0))
def test_aggregate_groups_by_period(rows: list[tuple[int, Any]], length: int, origin: int) -> None:
    rows.sort(key=lambda row: row[0])
    by_period: dict[int, list[Any]] = defaultdict(list)
    for moment, value in rows:
        by_period[(moment - origin) // length].append(value)
    expected = [(len(found), origin + n * length, origin + (n + 1) * length) for n, found in sorted(by_period.items())]
    result = aggregate(rows, Aggregation(("totalCount",), Duration(0, length)), origin, 1000)["totalCount"]
    assert [(value, period.start_us, period.end_us) for value, period in result] == expected


def test_a_duration_of_nothing_spans_everything() -> None:
    rows = [(5, 1), (7, 2), (9, 6)]
    ((value, period),) = aggregate(rows, Aggregation(("avg",)), 0, 10)["avg"]
    assert (value, period.start_us, period.end_us) == (3.0, 0, 10)
    assert aggregate([], Aggregation(("avg",)), 0, 10) == {"avg": []}


def test_numbers_beyond_the_doubles_say_nothing() -> None:
    assert aggregated("sumsq", [1e300]) is None
    assert aggregated("sum", [1.7e308, 1.7e308]) is None
    assert aggregated("max", [10**400, 3]) == 3.0


def test_too_many_periods_are_refused() -> None:
    rows = ((n, 1) for n in range(PERIODS_MAX + 1))
    with pytest.raises(TooManyResults):
        aggregate(rows, Aggregation(("sum",), Duration(0, 1)), 0, 10**9)
