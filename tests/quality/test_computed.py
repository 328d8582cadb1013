"""Computed quality, against figures worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from math import pi

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.model import InvalidInput
from hanse.quality import computed, default_registry

EPOCH = 1402561800.0  # 2014-06-12T08:30:00Z


def test_freshness() -> None:
    assert computed.freshness("2014-06-12T08:30:00Z", EPOCH + 90) == 90
    assert computed.freshness("2014-06-12T10:30:00.500+02:00", EPOCH + 90) == 89.5
    assert computed.freshness("2014-06-12T09:30:00Z", EPOCH) == 0
    assert computed.freshness(EPOCH, EPOCH + 1) == 1


def test_shares() -> None:
    assert computed.timeliness(15, 60) == 75
    assert computed.timeliness(61, 60) == 0
    assert computed.completeness({"a", "x"}, ["a", "b", "c", "d"]) == 25
    assert computed.completeness((), ()) == 100
    assert computed.accuracy(18, 20, 40) == 95
    assert computed.accuracy(22, 20, 40) == 95
    assert computed.accuracy(100, 20, 40) == 0
    assert computed.correctness(3, 4) == 75
    assert computed.precision([9, 10, 11], 20) == 95  # a standard deviation of 1
    assert computed.precision([0, 100], 10) == 0
    assert computed.consistency([True, True, False, True]) == 75
    assert computed.consistency([]) == 100
    assert computed.trust(0, 0) == 50
    assert computed.trust(8, 0) == 90


def test_rates_and_radii() -> None:
    assert computed.refresh_rate(["2014-06-12T08:30:04Z", "2014-06-12T08:30:00Z", "2014-06-12T08:30:01Z"]) == 0.5
    assert computed.refresh_rate([0, 0.5]) == 2
    assert computed.spatial_resolution(pi * 100) == 10


@pytest.mark.parametrize(
    "work",
    [
        lambda: computed.freshness("yesterday", 0),
        lambda: computed.freshness("12:00:00", 0),
        lambda: computed.freshness(float("nan"), 0),
        lambda: computed.timeliness(1, 0),
        lambda: computed.accuracy(1, 1, -1),
        lambda: computed.accuracy(float("inf"), 1, 1),
        lambda: computed.correctness(0, 0),
        lambda: computed.correctness(2, 1),
        lambda: computed.precision([1], 1),
        lambda: computed.refresh_rate([1]),
        lambda: computed.refresh_rate([1, 1]),
        lambda: computed.spatial_resolution(-1),
        lambda: computed.trust(-1, 0),
        lambda: computed.precision([1e308, 1e308, 1e308], 1),
        lambda: computed.precision([1e200, -1e200], 1),
        lambda: computed.refresh_rate([0.0, 5e-324]),
        lambda: computed.freshness(-1e308, 1e308),
    ],
)
def test_what_cannot_be_computed(work: Callable[[], float]) -> None:
    with pytest.raises(InvalidInput) as error:
        work()
    assert "\n" not in str(error.value)


finite = st.floats(-1e9, 1e9)


@given(finite, finite, st.floats(1e-3, 1e9), st.lists(finite, min_size=2, max_size=5))
def test_what_is_computed_is_a_value_of_its_criterion(one: float, other: float, span: float, several: list[float]) -> None:
    known = default_registry().by_name
    assert known["freshness"].definition.accepts(computed.freshness(one, other))
    assert known["timeliness"].definition.accepts(computed.timeliness(abs(one), span))
    assert known["accuracy"].definition.accepts(computed.accuracy(one, other, span))
    assert known["precision"].definition.accepts(computed.precision(several, span))
    assert known["spatialResolution"].definition.accepts(computed.spatial_resolution(span))
