"""Capsules without Spark: what each makes of the readings of a window, and how quality comes through."""

from __future__ import annotations

import json
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.model import InvalidInput
from hanse.pipeline.capsules import (
    Aggregation,
    AirQuality,
    Arrival,
    Capsule,
    Filtering,
    Fusion,
    Inferred,
    Occupancy,
    Outliers,
    Place,
    Reading,
    Selector,
    Span,
    Stop,
    Value,
    Windows,
)
from hanse.pipeline.capsules.air_quality import air_quality_index, co_ppm, no2_ppb
from hanse.pipeline.capsules.anomaly import robust_scores
from hanse.pipeline.capsules.places import METRES_PER_DEGREE, cell, middle, seconds
from hanse.pipeline.capsules.propagation import completeness_of, mean_of, worst_of
from hanse.pipeline.capsules.values import publication
from hanse.quality import computed

SPAN = Span(1_772_366_400.0, 1_772_367_000.0)  # 2026-03-01T12:00:00Z, ten minutes
ANYWHERE = Place.of("everywhere")
TEN_MINUTES = Windows.of("10 minutes")


def reading(value: float, sensor: str = "a", at: float = 0.0, attribute: str = "no2", **more: Any) -> Reading:
    quality: dict[str, float] = {
        name: more.pop(name) for name in ("accuracy", "precision", "completeness", "spatialResolution") if name in more
    }
    return Reading(SPAN.start + at, sensor, attribute, value, quality=quality, **more)


def one(capsule: Any, readings: list[Reading], span: Span = SPAN) -> Inferred:
    found: list[Inferred] = list(capsule.infer(sorted(readings, key=lambda it: it[:3]), span))
    assert len(found) == 1
    return found[0]


def values_of(made: Inferred) -> dict[str, Any]:
    return {value.attribute: value.value for value in made.values}


# --- how quality comes through ------------------------------------------------------------------------------------------

measurements = st.lists(
    st.tuples(st.floats(0, 100), st.floats(-50, 50), st.floats(0.01, 1)), min_size=1, max_size=8
)  # reference, deviation, weight


@given(measurements)
def test_the_accuracy_of_a_weighted_mean_is_a_bound(those: list[tuple[float, float, float]]) -> None:
    """Whatever the deviations are: the mean is at least as near to the mean of the references as the rule says."""
    span = 100.0
    readings = [
        reading(reference + off, str(number), accuracy=computed.accuracy(reference + off, reference, span))
        for number, (reference, off, _) in enumerate(those)
    ]
    weights = [weight for *_, weight in those]
    total = sum(weights)
    mean = sum((it.value or 0) * weight for it, weight in zip(readings, weights, strict=True)) / total
    reference = sum(ref * weight for ref, _, weight in those) / total
    assert computed.accuracy(mean, reference, span) >= mean_of(readings, weights)["accuracy"] - 1e-9


@given(measurements)
def test_the_accuracy_of_an_extreme_is_bounded_by_the_worst(those: list[tuple[float, float, float]]) -> None:
    span = 100.0
    readings = [
        reading(ref + off, str(n), accuracy=computed.accuracy(ref + off, ref, span)) for n, (ref, off, _) in enumerate(those)
    ]
    worst = worst_of(readings)["accuracy"]
    for extreme in (min, max):
        made, true = extreme(ref + off for ref, off, _ in those), extreme(ref for ref, *_ in those)
        assert computed.accuracy(made, true, span) >= worst - 1e-9


def test_only_what_all_contributions_state_is_stated() -> None:
    readings = [reading(1, "a", accuracy=90, precision=80), reading(2, "b", accuracy=70)]
    assert mean_of(readings, [1, 1]) == {"accuracy": 80}
    assert worst_of(readings) == {"accuracy": 70}
    assert worst_of([]) == {}


def test_what_is_better_when_lower_comes_through_as_the_worst() -> None:
    readings = [reading(1, "a", spatialResolution=10), reading(2, "b", spatialResolution=500)]
    assert mean_of(readings, [99, 1]) == {"spatialResolution": 500}


@pytest.mark.parametrize(
    ("stated", "present", "expected", "completeness"),
    [
        ([], 3, None, None),
        ([], 3, 4, 75.0),
        ([], 9, 4, 100.0),
        ([50.0, 80.0], 4, 4, 50.0),
        ([50.0], 2, 4, 25.0),
        ([60.0], 1, None, 60.0),
    ],
)
def test_completeness_is_the_share_of_what_is_expected(
    stated: list[float], present: int, expected: int | None, completeness: float | None
) -> None:
    readings = [reading(1, str(number), completeness=value) for number, value in enumerate(stated)]
    assert completeness_of(readings, present, expected).get("completeness") == completeness


# --- fusion -------------------------------------------------------------------------------------------------------------


def test_fusion_weighs_sensors_by_their_quality() -> None:
    fusion = Fusion(ANYWHERE, TEN_MINUTES, expected=4, tolerance=5)
    made = one(
        fusion,
        [
            reading(10, "a", 60, accuracy=90, unit="GQ"),
            reading(1000, "b", 30, accuracy=0, unit="GQ"),  # says itself that it is worth nothing
            reading(40, "c", 90, accuracy=30, unit="GQ"),
            reading(7, "d", 95, unit="GQ"),  # does not say
        ],
    )
    (value,) = made.values
    assert value.value == (10 * 90 + 40 * 30) / 120
    assert value.unit == "GQ"
    assert value.quality == {"accuracy": (90 * 90 + 30 * 30) / 120, "completeness": 50.0, "consistency": 0.0}
    assert made.observed_at == SPAN.start + 60  # the oldest that contributed


def test_fusion_takes_the_newest_of_each_sensor() -> None:
    made = one(
        Fusion(ANYWHERE, TEN_MINUTES),
        [reading(5, "a", 1, accuracy=50), reading(9, "a", 2, accuracy=50), reading(1, "b", 0, accuracy=50)],
    )
    assert values_of(made) == {"no2": 5.0}
    assert made.observed_at == SPAN.start


def test_fusion_without_any_quality_is_a_mean() -> None:
    made = one(Fusion(ANYWHERE, TEN_MINUTES), [reading(10, "a"), reading(20, "b")])
    assert values_of(made) == {"no2": 15.0}
    assert made.values[0].quality == {}


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(1, 100)), min_size=1, max_size=10))
def test_a_fused_value_and_its_accuracy_are_between_those_fused(those: list[tuple[float, float]]) -> None:
    made = one(
        Fusion(ANYWHERE, TEN_MINUTES), [reading(value, str(n), accuracy=accuracy) for n, (value, accuracy) in enumerate(those)]
    )
    (value,) = made.values
    lowest, highest = min(those)[0], max(those)[0]
    slack = 1e-6
    assert isinstance(value.value, float)
    assert lowest - slack <= value.value <= highest + slack
    assert min(a for _, a in those) - slack <= value.quality["accuracy"] <= max(a for _, a in those) + slack


def test_fusion_by_something_that_is_no_percentage_is_refused() -> None:
    with pytest.raises(InvalidInput, match="weighs by a percentage"):
        Fusion(ANYWHERE, TEN_MINUTES, by="spatialResolution")


# --- inference ----------------------------------------------------------------------------------------------------------


def hours(values: list[float], attribute: str, **more: Any) -> list[Reading]:
    return [reading(value, "s", 3600.0 * hour + 60, attribute, **more) for hour, value in enumerate(values)]


EIGHT = Span(SPAN.start, SPAN.start + 8 * 3600)


@given(st.lists(st.floats(0, 60), min_size=8, max_size=8), st.floats(0, 4000))
def test_the_index_of_a_window_is_that_of_the_table(co: list[float], no2: float) -> None:
    made = one(AirQuality(), [*hours(co, "co"), reading(no2, "s", 7 * 3600 + 60)], EIGHT)
    index = air_quality_index(no2, co)
    assert index is not None
    assert values_of(made) == {"airQualityIndex": index.value, "airQualityLevel": index.level}


def test_the_index_knows_units() -> None:
    plain = one(AirQuality(), [*hours([9.0] * 8, "co"), reading(150, "s", 7 * 3600)], EIGHT)
    others = [*hours([co_ppm(9.0) * 1000] * 8, "co", unit="61"), reading(no2_ppb(150) / 1000, "s", 7 * 3600, unit="59")]
    assert values_of(one(AirQuality(), others, EIGHT)) == values_of(plain)
    assert list(AirQuality().infer([reading(150, "s", 7 * 3600, unit="KGM")], EIGHT)) == []


def test_the_quality_of_the_index_is_that_of_the_gas_that_decides() -> None:
    co, no2 = hours([0.1] * 7, "co", accuracy=20), reading(150, "s", 7 * 3600, accuracy=90)
    made = one(AirQuality(), [*co, no2], EIGHT)
    assert made.values[0].quality == {"accuracy": 90, "completeness": pytest.approx(800 / 9)}
    assert made.observed_at == SPAN.start + 60
    without = one(AirQuality(), [no2], EIGHT)
    assert without.values[0].quality["completeness"] == pytest.approx(100 / 9)


def test_no2_of_another_hour_is_no_index() -> None:
    assert list(AirQuality().infer([reading(150, "s", 6 * 3600)], EIGHT)) == []


DEGREE_M = 111_195.0
STOPS = (Stop("ahead", 44.87, -0.57), Stop("behind", 44.80, -0.57), Stop("here", 44.85, -0.57))


def test_a_bus_arrives_at_the_stops_ahead() -> None:
    way = [reading(0, "bus", 60.0 * n, "speed", lat=44.84 + n * 0.0025, lon=-0.57, accuracy=95) for n in range(5)]
    made = {it.about: it for it in Arrival(ANYWHERE, TEN_MINUTES, stops=STOPS, expected=10).infer(way, SPAN)}
    assert made.keys() == {"ahead", "here"}
    speed = 0.01 * DEGREE_M / 240
    found = values_of(made["ahead"])
    assert found["remainingTime"] == pytest.approx(0.02 * DEGREE_M * 1.3 / speed, rel=1e-3)
    assert found["estimatedArrival"] == "2026-03-01T12:14:24Z"
    assert values_of(made["here"])["remainingTime"] == 0
    assert made["ahead"].values[0].quality == pytest.approx({"accuracy": 95, "completeness": 50, "correctness": 100})


def test_a_bus_that_turns_about_is_less_likely_right() -> None:
    lats = [44.84, 44.845, 44.84, 44.845]
    way = [reading(0, "bus", 60.0 * n, "speed", lat=lat, lon=-0.57) for n, lat in enumerate(lats)]
    (made,) = Arrival(ANYWHERE, TEN_MINUTES, stops=STOPS[:1]).infer(way, SPAN)
    assert made.values[0].quality["correctness"] == pytest.approx(100 / 3)


def test_who_stands_still_arrives_nowhere() -> None:
    way = [reading(0, "bus", 60.0 * n, "speed", lat=44.84, lon=-0.57) for n in range(3)]
    assert list(Arrival(ANYWHERE, TEN_MINUTES, stops=STOPS).infer(way, SPAN)) == []


def test_people_are_counted_by_their_devices() -> None:
    counts = [
        reading(30, "ap1", 0, "devices", accuracy=90),
        reading(50, "ap1", 5, "devices", accuracy=90),
        reading(20, "ap2", 3, "devices", accuracy=60),
    ]
    made = one(Occupancy(ANYWHERE, TEN_MINUTES, devices_per_person=1.5, capacity=80, calibrated=50, expected=4), counts)
    assert values_of(made) == {"peopleCount": 40.0, "occupancy": 50.0, "occupancyLevel": "medium"}
    assert made.values[0].quality == pytest.approx({"accuracy": (90 * 40 + 60 * 20) / 60 * 0.5, "completeness": 50.0})


def test_an_outlier_does_not_hide_itself() -> None:
    readings = [reading(10 + n % 3, "a", n) for n in range(20)] + [reading(90, "b", 30)]
    made = one(Outliers(ANYWHERE, TEN_MINUTES), readings)
    found = values_of(made)
    assert found["no2"] == 90
    assert found["isAnomalous"] is True
    assert found["anomalyOf"] == "b"
    assert found["anomalyScore"] == pytest.approx(0.6745 * (90 - 11) / 1)
    assert list(Outliers(ANYWHERE, TEN_MINUTES).infer(readings[:-1], SPAN)) == []


@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=20), st.floats(0.1, 10), st.floats(-100, 100))
def test_scores_do_not_depend_on_the_unit(values: list[int], factor: float, offset: float) -> None:
    again = robust_scores([value * factor + offset for value in values])
    assert again == pytest.approx(robust_scores(values), rel=1e-6, abs=1e-6)


# --- places and windows -------------------------------------------------------------------------------------------------

positions = st.tuples(st.floats(-80, 80), st.floats(-179, 179))


@given(positions, st.sampled_from([100.0, 500.0, 10_000.0]))
def test_the_middle_of_a_cell_is_near_and_in_it(position: tuple[float, float], metres: float) -> None:
    name = cell(*position, metres)
    lat, lon = middle(name, metres)
    assert cell(lat, lon, metres) == name
    assert abs(lat - position[0]) * METRES_PER_DEGREE <= metres * 0.5001


@pytest.mark.parametrize(
    ("text", "number"), [("10 minutes", 600), ("30 s", 30), ("1 hour", 3600), (90, 90), ("1.5 min", 90), ("2 days", 172_800)]
)
def test_times_are_written_in_words(text: str | float, number: float) -> None:
    assert seconds(text) == number


@pytest.mark.parametrize("text", ["", "ten minutes", "-1 s", "0 s", "1 fortnight", "9999 days"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is written like 30 seconds"):
        seconds(text)


# --- what is published --------------------------------------------------------------------------------------------------


def test_the_same_place_and_window_have_the_same_name() -> None:
    made = Inferred((Value("no2", 12.5, "GQ", {"accuracy": 80.0, "freshness": 3.0}),), SPAN.start + 100, 44.8, -0.5)
    published = publication("by-street", "StreetAir", "", "/bordeaux/rue x", SPAN, made, ["/bordeaux/rue x"])
    assert published.id == "urn:ngsi-ld:StreetAir:by-street:/bordeaux/rue%20x:20260301T120000Z"
    assert json.loads(published.entity) == {
        "id": published.id,
        "type": "StreetAir",
        "scope": ["/bordeaux/rue x"],
        "location": {"type": "GeoProperty", "value": {"type": "Point", "coordinates": [-0.5, 44.8]}},
        "dateObservedFrom": {"type": "Property", "value": {"@type": "DateTime", "@value": "2026-03-01T12:00:00.000000Z"}},
        "dateObservedTo": {"type": "Property", "value": {"@type": "DateTime", "@value": "2026-03-01T12:10:00.000000Z"}},
        "source": {"type": "Property", "value": "capsule by-street"},
        "no2": {
            "type": "Property",
            "value": 12.5,
            "observedAt": "2026-03-01T12:01:40.000000Z",
            "unitCode": "GQ",
            "accuracy": {"type": "Property", "value": 80.0},
        },
    }
    newest = publication("by-street", "StreetAir", "", "/bordeaux/rue x", SPAN, made, is_newest_only=True)
    assert newest.id == "urn:ngsi-ld:StreetAir:by-street:/bordeaux/rue%20x"


@given(st.lists(st.tuples(st.text(max_size=6), st.text(min_size=1, max_size=6)), unique=True, max_size=8))
def test_different_places_have_different_names(places: list[tuple[str, str]]) -> None:
    ids = {
        publication("c", "T", "", place, SPAN, Inferred((Value("a", 1.0),), SPAN.start, about=about)).id
        for place, about in places
    }
    assert len(ids) == len({(place.removeprefix("urn:ngsi-ld:"), about) for place, about in places})


@pytest.mark.parametrize(
    ("guarantee", "value", "problem"),
    [
        ("accuracy>=80", 1.0, None),
        ("no2.accuracy>=80;freshness<=500", 1.0, None),
        ("accuracy>=81", 1.0, "below the guarantee: accuracy is 80, and accuracy>=81 is guaranteed"),
        ("precision>=1", 1.0, "below the guarantee: precision is missing, and precision>=1 is guaranteed"),
        ("freshness<=499", 1.0, "below the guarantee: freshness is 500, and freshness<=499 is guaranteed"),
        ("", inf, "no2 is not a number that can be published"),
    ],
)
def test_what_is_below_the_guarantee_has_a_problem(guarantee: str, value: float, problem: str | None) -> None:
    made = Inferred((Value("no2", value, "", {"accuracy": 80.0}),), SPAN.start + 100)
    assert publication("c", "T", guarantee, "p", SPAN, made).problem == problem


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"name": "No2 by street"}, "a capsule's name has small letters"),
        ({"output": ""}, "needs an output"),
        ({"guarantee": "acuracy>=3"}, "there is no criterion 'acuracy'"),
    ],
)
def test_capsules_that_cannot_be(wrong: dict[str, Any], complaint: str) -> None:
    given: dict[str, Any] = {"name": "c", "input": Selector(), "transform": Filtering(), "output": "T"}
    with pytest.raises(InvalidInput, match=complaint):
        Capsule(**given | wrong)


def test_aggregations_that_cannot_be() -> None:
    with pytest.raises(InvalidInput, match="there is no statistic 'mode'"):
        Aggregation(ANYWHERE, TEN_MINUTES, ("no2",), ("mode",))
    with pytest.raises(InvalidInput, match="needs the attributes"):
        Aggregation(ANYWHERE, TEN_MINUTES, ())
    with pytest.raises(InvalidInput, match="leave out what is between"):
        Windows.of("1 minute", "5 minutes")
