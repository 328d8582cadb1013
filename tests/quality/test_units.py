"""Values in other units than their definition's: what can be converted counts as what it is, the rest says nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.quality.strategies import observations

from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import DEFAULT_VOCAB
from hanse.ngsild.parsing import parse_entity
from hanse.ngsild.quality import default_measure
from hanse.quality import default_registry, load
from hanse.quality.criteria import Definition
from hanse.quality.indicators import Indicator, MetricValue, Quality
from hanse.quality.json_form import to_entity
from hanse.quality.observation import Observation, quality_of
from hanse.quality.units import converted
from hanse.quality.xml_form import quality_of_xml, to_xml

NOW, NOW_S = "2026-11-16T12:00:00Z", 1_794_830_400.0


@pytest.mark.parametrize(
    ("value", "unit", "wanted", "found"),
    [
        (5, "MIN", "SEC", 300),
        (2, "HUR", "SEC", 7200),
        (1, "DAY", "HUR", 24),
        (250, "C26", "SEC", 0.25),
        (3, "KMT", "MTR", 3000),
        (50, "CMT", "MTR", 0.5),
        (2, "KHZ", "HTZ", 2000),
        (0.25, "C62", "P1", 25),
        (7, "", "SEC", 7),
        (7, "SEC", "SEC", 7),
        (7, "MTR", "SEC", None),
        (7, "of their own", "SEC", None),
        (7, "SEC", "of our own", None),
        (7, "SEC", "", 7),  # a definition that names no unit does not mind
        (1e308, "KMT", "MTR", float("inf")),
    ],
)
def test_a_number_in_another_unit(value: float, unit: str, wanted: str, found: float | None) -> None:
    assert converted(value, unit, wanted) == found


@given(st.floats(0, 1e6), st.sampled_from(["C26", "MIN", "HUR", "DAY"]))
def test_to_another_unit_and_back(value: float, unit: str) -> None:
    there = converted(value, "SEC", unit)
    assert there is not None
    assert converted(there, unit, "SEC") == pytest.approx(value)


def stated(**members: Any) -> dict[str, float]:
    sub = {name: {"type": "Property"} | said for name, said in members.items()}
    entity = parse_entity({"id": "urn:e:1", "type": "Room", "a": {"type": "Property", "value": 1} | sub}, CORE, NOW)
    return {name.removeprefix(DEFAULT_VOCAB): value for name, value in default_measure().of_entity(NOW)(entity).items()}


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ({"value": 5, "unitCode": "SEC"}, 5),
        ({"value": 5, "unitCode": "MIN"}, 300),
        ({"value": 5}, 5),
        ({"value": 5, "unitCode": "MTR"}, None),
        ({"value": -5, "unitCode": "MIN"}, None),
    ],
)
def test_a_unit_code_in_ngsi_ld_counts(said: dict[str, Any], means: float | None) -> None:
    assert stated(freshness=said) == ({} if means is None else {"a.freshness": means, "freshness": means})


def test_a_unit_may_be_that_of_another_definition() -> None:
    registry = load(
        '[[criteria]]\nid = "90"\nname = "grade"\n'
        '[[criteria.definitions]]\nid = "90.1"\nunit_code = "P1"\nmin = 0\nmax = 100\n'
        '[[criteria.definitions]]\nid = "90.2"\nunit_code = "marks"\ndirection = "lower"\nmin = 1\nmax = 6\n'
    )
    grade = registry.by_name["grade"]
    assert grade.plain_in_unit(1, "marks") == 100
    assert grade.plain_in_unit(0.5, "C62") == 50
    assert grade.plain_in_unit(7, "marks") is None


def with_definition(definition: Definition, value: float, criterion: str = "freshness") -> Observation:
    one = Indicator(
        criterion=criterion,
        id="15",
        name="",
        criterion_id="",
        definitions=(definition,),
        values=(MetricValue(value, definition=definition.id),),
    )
    return Observation(entity="urn:ngsi-ld:Sensor:1", observable="#NO2", value=7, quality=Quality((one,)))


def in_all_forms(observation: Observation) -> dict[str, float]:
    """What every form says of its quality, if they agree."""
    plain = quality_of([observation], now=NOW_S)
    assert quality_of_xml(to_xml(observation), now=NOW_S) == plain
    entity = parse_entity(to_entity(observation), CORE, NOW)
    of_entity = {name.removeprefix(DEFAULT_VOCAB): value for name, value in default_measure().of_entity(NOW)(entity).items()}
    assert of_entity == pytest.approx(plain)  # one counts in microseconds, the other in less
    return plain


@pytest.mark.parametrize(
    ("definition", "means"),
    [
        (Definition(id="15.1", unit_code="MIN", direction="lower"), 300),
        (Definition(id="15.1", unit_code="MTR", direction="lower"), None),
        (Definition(id="15.1", unit_code="SEC", direction="higher"), None),
        (Definition(id="15.1", unit_code="MIN", direction="lower", max=4), None),  # beyond what it allows itself
        (Definition(id="99.1", unit_code="SEC", direction="lower"), None),
    ],
)
def test_an_indicator_by_another_definition_means_the_same_in_every_form(definition: Definition, means: float | None) -> None:
    assert in_all_forms(with_definition(definition, 5)).get("freshness") == means


@given(observations)
def test_an_observation_has_one_quality_in_whatever_form(observation: Observation) -> None:
    in_all_forms(observation)


def test_what_is_said_of_another_value_does_not_count() -> None:
    entity = to_entity(with_definition(Definition(id="99.1", direction="lower"), 5))
    entity["NO2"]["freshness"]["value"] = 7  # somebody has changed it since
    found = default_measure().of_entity(NOW)(parse_entity(entity, CORE, NOW))
    assert found["freshness"] == 7
    entity["NO2"]["freshness"]["qocIndicator"]["value"] = {"id": "\u00e9"}
    assert default_measure().of_entity(NOW)(parse_entity(entity, CORE, NOW))["freshness"] == 7


def test_every_unit_of_the_starting_set_is_known() -> None:
    codes = {criterion.definition.unit_code for criterion in default_registry().by_name.values()}
    others = {"SEC": "HUR", "MTR": "KMT", "HTZ": "KHZ", "P1": "C62"}
    assert codes == set(others)
    assert all(converted(1, code, other) for code, other in others.items())
