"""What the quality of an entity is, and what a qualityQ asks of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hanse.ngsild.contexts import CORE, compile_context
from hanse.ngsild.entity import DEFAULT_VOCAB, Entity
from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.parsing import parse_entity
from hanse.ngsild.quality import Measure, default_measure, parse_quality, quality_attributes, shown_quality
from hanse.ngsild.query import EntityQuery, matches
from hanse.ngsild.subscriptions import Counters, core_subscription, parse_subscription, patch_subscription, subscription_to_json
from hanse.quality import default_registry, load, whole

NOW, BEFORE, LATER = "2026-11-16T12:00:00Z", "2026-11-16T11:59:00Z", "2026-11-16T12:01:00Z"
A, B = DEFAULT_VOCAB + "a", DEFAULT_VOCAB + "b"
DQV_PRECISION = "http://www.w3.org/ns/dqv#precision"


def entity(**attributes: Any) -> Entity:
    return parse_entity({"id": "urn:e:1", "type": "Room"} | attributes, CORE, NOW)


def prop(value: Any = 1, **members: Any) -> dict[str, Any]:
    return {"type": "Property", "value": value} | members


def quality(found: Entity, measure: Measure | None = None, at: str = NOW) -> dict[str, float]:
    return {name.replace(DEFAULT_VOCAB, ""): value for name, value in (measure or default_measure()).of_entity(at)(found).items()}


# --- what is stated -----------------------------------------------------------------------------------------------------


def test_a_sub_property_with_the_name_of_a_criterion_states_an_indicator() -> None:
    found = entity(a=prop(precision=prop(40)), b=prop(**{DQV_PRECISION: prop(60.5)}))
    assert quality(found) == {"a.precision": 40, "b.precision": 60.5, "precision": 40}


def test_what_is_stated_for_the_whole_counts_for_it_and_not_the_worst() -> None:
    assert quality(entity(a=prop(precision=prop(40)), precision=prop(90))) == {"a.precision": 40, "precision": 90}


@pytest.mark.parametrize("said", ["high", True, 101, -1, [40], {"x": 40}])
def test_what_is_no_value_of_the_criterion_says_nothing(said: Any) -> None:
    assert quality(entity(a=prop(precision=prop(said)))) == {}


def test_of_several_instances_the_worst_counts_by_the_direction_of_the_criterion() -> None:
    several = [
        prop(precision=prop(40), spatialResolution=prop(10)),
        prop(precision=prop(30), spatialResolution=prop(20), datasetId="urn:d:1"),
        prop(datasetId="urn:d:2"),
    ]
    found = quality(entity(a=several))
    assert found == {"a.precision": 30, "a.spatialResolution": 20, "precision": 30, "spatialResolution": 20}


# --- what is computed ---------------------------------------------------------------------------------------------------


def test_freshness_is_the_age_at_the_moment_of_matching_and_never_negative() -> None:
    found = entity(a=prop(observedAt=BEFORE), b=prop(observedAt=LATER))
    assert quality(found) == {"a.freshness": 60, "b.freshness": 0, "freshness": 60}
    assert quality(found, at=LATER) == {"a.freshness": 120, "b.freshness": 0, "freshness": 120}


def test_a_stated_freshness_counts_more_than_observed_at() -> None:
    assert quality(entity(a=prop(observedAt=BEFORE, freshness=prop(7)))) == {"a.freshness": 7, "freshness": 7}


def test_the_past_is_as_fresh_as_it_was_when_it_was_accepted() -> None:
    found = entity(a=prop(observedAt=BEFORE))
    assert default_measure().of(found.attributes) == {f"{A}.freshness": 60, "freshness": 60}


def test_completeness_is_the_share_of_what_is_expected_of_all_types() -> None:
    wanted = {DEFAULT_VOCAB + "Room": {A, B}, DEFAULT_VOCAB + "Hall": {DEFAULT_VOCAB + "c", B}}
    measure = Measure(expected=lambda type_: wanted.get(type_, ()))
    assert quality(entity(a=prop()), measure) == {"completeness": 50}
    hall = parse_entity({"id": "urn:e:1", "type": ["Room", "Hall"], "a": prop()}, CORE, NOW)
    assert quality(hall, measure) == {"completeness": pytest.approx(100 / 3)}
    assert quality(parse_entity({"id": "urn:e:1", "type": "Car", "a": prop()}, CORE, NOW), measure) == {}
    assert quality(entity(a=prop(), completeness=prop(10)), measure) == {"completeness": 10}


def test_criteria_of_a_users_own_count() -> None:
    own = """
        [[criteria]]
        id = "90"
        name = "calibration"
        uris = ["https://example.org/calibration"]
        [[criteria.definitions]]
        id = "90.1"
        direction = "lower"
        levels = { medium = 30, high = 7 }
    """
    measure = Measure(load(own))
    found = entity(a=prop(calibration=prop(3)), b=prop(**{"https://example.org/calibration": prop(9)}))
    assert quality(found, measure) == {"a.calibration": 3, "b.calibration": 9, "calibration": 9}
    assert parse_quality("a.calibration>=high", CORE, measure.registry) == f"{A}.calibration<=7"


def test_a_composite_criterion_is_computed_of_its_parts() -> None:
    own = """
        [[criteria]]
        id = "91"
        name = "worth"
        rule = "minimum"
        parts = ["precision", "trust"]
        [[criteria.definitions]]
        id = "91.1"
        min = 0.0
        max = 10.0
        levels = { medium = 5, high = 8 }
    """
    found = quality(entity(a=prop(precision=prop(40), trust=prop(70)), b=prop(trust=prop(90))), Measure(load(own)))
    assert found == {
        "a.precision": 40, "a.trust": 70, "a.worth": 4, "b.trust": 90, "precision": 40, "trust": 70, "worth": 4,
    }  # fmt: skip


# --- a plain meaning ------------------------------------------------------------------------------------------------------

numbers = st.sampled_from([0, 10, 40.5, 100, 101, -1, "x", True, None])
stated: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("precision", "spatialResolution", "freshness", "trust", "unknown"), numbers)
)
moments = st.sampled_from([{}, {"observedAt": BEFORE}, {"observedAt": LATER}, {"observedAt": "2026-11-16T11:59:30.5Z"}])
instances = st.builds(
    lambda said, when: prop(1, **when) | {name: prop(value) for name, value in said.items() if value is not None}, stated, moments
)
attributes = st.lists(instances, min_size=1, max_size=3).map(
    lambda some: [one | ({"datasetId": f"urn:d:{n}"} if n else {}) for n, one in enumerate(some)]
)
members = st.dictionaries(st.sampled_from(["a", "b", "a.b", "a%2Eb", "precision", "trust"]), attributes, max_size=4)


def plainly(found: Entity) -> dict[str, float]:
    """The same by `whole`, and otherwise word for word."""
    registry = default_registry()

    def worst(name: str, values: list[float]) -> float:
        return min(values) if registry.by_name[name].definition.direction == "higher" else max(values)

    def numbers_of(some: list[dict[str, Any]], name: str) -> list[float]:
        said = [one["value"] for one in some]
        accepts = registry.by_name[name].definition.accepts
        return [
            float(value) for value in said if not isinstance(value, bool) and isinstance(value, int | float) and accepts(value)
        ]

    ages = {BEFORE: 60.0, LATER: 0.0, "2026-11-16T11:59:30.5Z": 29.5}
    per_attribute: dict[str, dict[str, float]] = {}
    for attribute, several in found.attributes.items():
        by_name: dict[str, list[float]] = {}
        for instance in several:
            for name in registry.names:
                values = numbers_of(instance.get(DEFAULT_VOCAB + name, []), name)
                if not values and name == "freshness" and "observedAt" in instance:
                    values = [ages[instance["observedAt"]]]
                if values:
                    by_name.setdefault(name, []).append(worst(name, values))
        per_attribute[attribute] = {name: worst(name, values) for name, values in by_name.items()}
    of_whole = {
        name: worst(name, values)
        for name in registry.names
        if (values := numbers_of(found.attributes.get(DEFAULT_VOCAB + name, []), name))
    }
    return whole(per_attribute, of_whole, registry)


@given(members)
@example({"a%2Eb": [prop(precision=prop(3))], "a.b": [prop(precision=prop(4))]})
def test_quality_is_what_the_plain_words_say(given_members: dict[str, Any]) -> None:
    found = Entity(
        id="urn:e:1",
        types=("urn:t",),
        attributes={DEFAULT_VOCAB + name: [_internal(one) for one in several] for name, several in given_members.items()},
    )
    assert default_measure().of_entity(NOW)(found) == plainly(found)


def _internal(instance: dict[str, Any]) -> dict[str, Any]:
    return {DEFAULT_VOCAB + key if isinstance(value, dict) else key: [value] if isinstance(value, dict) else value
            for key, value in instance.items()}  # fmt: skip


# --- requirements -------------------------------------------------------------------------------------------------------


def test_names_are_expanded_and_levels_become_numbers() -> None:
    own = compile_context({"temp": "https://example.org/temperature"})
    levels = default_registry().by_name["freshness"].definition.levels
    assert levels is not None
    medium = f"freshness<={levels.medium:g};https://example.org/temperature.precision>=40"
    assert parse_quality("temp.precision>=40;freshness>=medium", own) == medium
    assert shown_quality(parse_quality("temp.precision>=40;trust<3", own), own) == "temp.precision>=40;trust<3"
    assert quality_attributes(parse_quality("temp.precision>=40;b.trust", own)) == frozenset(
        {"https://example.org/temperature", B}
    )
    assert quality_attributes(parse_quality("temp.precision>=40;trust", own)) is None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("a.precison>=40", "precision"),
        ("a.precision>>40", "qualityQ"),
        ("precision>=40|trust>3", "';'"),
        ("precision>=soso", "qualityQ"),
        ("x" * 10_000, "8192"),
    ],
)
def test_a_wrong_requirement_is_refused_with_what_would_be_right(wrong: str, said: str) -> None:
    with pytest.raises(BadRequestData, match=said):
        parse_quality(wrong, CORE)


def test_a_query_matches_what_is_good_enough() -> None:
    good, bad, none = entity(a=prop(precision=prop(50))), entity(a=prop(precision=prop(30))), entity(a=prop())
    asked = EntityQuery(quality=parse_quality("a.precision>=40", CORE))
    assert [matches(asked, one) for one in (good, bad, none)] == [True, False, False]
    fresh = EntityQuery(quality=parse_quality("a.freshness<=100", CORE))
    observed = entity(a=prop(observedAt=BEFORE))
    assert matches(fresh, observed, default_measure().of_entity(NOW))
    assert not matches(fresh, observed, default_measure().of_entity("2026-11-16T12:01:00Z"))


# --- subscriptions ------------------------------------------------------------------------------------------------------

BODY = {
    "id": "urn:s:1",
    "type": "Subscription",
    "entities": [{"type": "Room"}],
    "notification": {"endpoint": {"uri": "http://127.0.0.1:1/n"}},
}


def test_a_subscription_keeps_its_requirement_as_written_and_tells_the_core_what_it_means() -> None:
    made = parse_subscription(BODY | {"qualityQ": "a.precision>=medium;freshness<=60"}, CORE, NOW)
    assert core_subscription(made).quality == made.query.quality == f"freshness<=60;{A}.precision>=40"
    assert subscription_to_json(made, CORE, Counters(), 0)["qualityQ"] == "a.precision>=medium;freshness<=60"
    patched = patch_subscription(made, {"qualityQ": "trust>=high"}, CORE, NOW)
    assert patched.query.quality == "trust>=80"
    assert patched.given_quality == "trust>=high"
    without = patch_subscription(patched, {"qualityQ": None}, CORE, NOW)
    assert without.query.quality == without.given_quality == ""
    assert "qualityQ" not in subscription_to_json(without, CORE, Counters(), 0)


def test_it_may_be_escaped_as_in_a_url() -> None:
    assert parse_subscription(BODY | {"qualityQ": "a.precision%3E%3D40"}, CORE, NOW).query.quality == f"{A}.precision>=40"


@pytest.mark.parametrize("wrong", ["", " ", 3, "precison>3", {"a": 1}])
def test_a_subscription_with_a_wrong_one_is_refused(wrong: Any) -> None:
    with pytest.raises(BadRequestData, match="qualityQ"):
        parse_subscription(BODY | {"qualityQ": wrong}, CORE, NOW)
