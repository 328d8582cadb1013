"""A requirement as written, and what it becomes: numbers only, the same meaning."""

from __future__ import annotations

from math import inf, nextafter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.filters import compile_quality
from hanse.model import InvalidInput
from hanse.quality import default_registry, indicator_key, load, names, normalized

REGISTRY = default_registry()
VOCABULARY = "https://uri.etsi.org/ngsi-ld/default-context/"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("  ", ""),
        ("temperature.precision>=40;freshness<=60", "freshness<=60;temperature.precision>=40"),
        ("correctness>=medium", "correctness>=50"),
        ("correctness >= medium ; freshness >= medium", "correctness>=50;freshness<=600"),
        ("correctness>=high", "correctness>=80"),
        ("correctness>medium", "correctness>=80"),
        ("correctness>low", "correctness>=50"),
        ("correctness>=low", "correctness"),
        ("correctness<=high", "correctness"),
        ("correctness<high", "correctness<80"),
        ("correctness<=medium", "correctness<80"),
        ("correctness<medium", "correctness<50"),
        ("correctness==medium", "correctness<80;correctness>=50"),
        ('correctness=="medium"', "correctness<80;correctness>=50"),
        ('correctness>="medium"', "correctness>=50"),
        ("correctness==low", "correctness<50"),
        ("correctness==high", "correctness>=80"),
        ("correctness==medium,high", "correctness>=50"),
        ("correctness==low,high", f"correctness!=50..{nextafter(80, -inf)!r}"),
        ("correctness!=medium", f"correctness!=50..{nextafter(80, -inf)!r}"),
        ("correctness!=low", "correctness>=50"),
        ("freshness==high", "freshness<=60"),
        ("freshness==medium", "freshness<=600;freshness>60"),
        ("freshness<=low", "freshness>600"),
        ("freshness!=medium", f"freshness!={nextafter(60, inf)!r}..600"),
        ("correctness==40..60", "correctness==40..60"),
        ("correctness==40,60", "correctness==40,60"),
        ("trust", "trust"),
        ("https://example.org/air.NO2.precision>1", "https://example.org/air.NO2.precision>1"),
        ("a.b.precision>1", "a.b.precision>1"),
        ("a%2Eb.precision>1", "a.b.precision>1"),
        ("https://example.org/a%2Eb.precision>1", "https://example.org/a.b.precision>1"),
    ],
)
def test_normalized(text: str, expected: str) -> None:
    found = normalized(text, REGISTRY)
    assert found == expected
    assert normalized(found, REGISTRY) == found
    assert compile_quality(found).canonical == found


def test_names_of_attributes_are_expanded() -> None:
    found = normalized("NO2.precision>=medium;precision", REGISTRY, lambda name: VOCABULARY + name)
    assert found == f"{VOCABULARY}NO2.precision>=40;precision"
    assert compile_quality(found).matches({indicator_key(VOCABULARY + "NO2", "precision"): 41, "precision": 0})
    dotted = normalized("a.b.precision>1", REGISTRY, lambda name: VOCABULARY + name)
    assert dotted == f"{VOCABULARY}a.b.precision>1"
    assert compile_quality(dotted).matches({indicator_key(VOCABULARY + "a.b", "precision"): 2})


def test_names() -> None:
    assert names("NO2.correctness>=medium;freshness<=60;freshness>1;trust") == ("NO2.correctness", "freshness", "trust")
    assert names("a%2Eb.trust") == ("a.b.trust",)
    assert names("") == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("presision>=40", "'presision>=40': there is no criterion 'presision'; do you mean precision"),
        ("temperature>=40", "there is no criterion 'temperature'"),
        ("precision.temperature>=40", "there is no criterion 'temperature'"),
        ("correctness>high", "no level is like that"),
        ("correctness<low", "no level is like that"),
        ("correctness!=low,medium,high", "no level is like that"),
        ("correctness==good", '"good" is no level; use low, medium, high or a number'),
        ('correctness=="low".."medium"', "levels have no ranges"),
        ("correctness==medium,40", "quality is a number or a level"),
        ("correctness==true", "quality is a number or a level"),
        ("correctness>2017-12-24", "quality is a number or a level"),
        ("correctness>1|trust>1", "joins its parts by ';' only"),
        ('correctness~="x"', "has no patterns"),
        ("!correctness", "cannot ask that 'correctness' is missing"),
        ("correctness[a]>1", "without brackets"),
        ("correctness>=", "column 14"),
        ("correctness>=mediumish", "column 14"),
    ],
)
def test_refusal(text: str, says: str) -> None:
    with pytest.raises(InvalidInput) as error:
        normalized(text, REGISTRY)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_criterion_without_levels() -> None:
    registry = load('[[criteria]]\nid = "20"\nname = "coverage"\n[[criteria.definitions]]\nid = "20.1"\n')
    assert normalized("coverage>1", registry) == "coverage>1"
    with pytest.raises(InvalidInput, match="the criterion has no levels; compare it with a number"):
        normalized("coverage>=medium", registry)
    with pytest.raises(InvalidInput, match=r"the definition 20\.1 has no levels"):
        registry.criterion("coverage").definition.level(1)


def test_an_attribute_that_no_filter_can_name() -> None:
    with pytest.raises(InvalidInput, match="cannot stand in a requirement"):
        normalized("a.trust", REGISTRY, lambda _: "not a name")


LEVELS = ("low", "medium", "high")
OPERATORS = {
    ">=": lambda one, other: one >= other,
    ">": lambda one, other: one > other,
    "<=": lambda one, other: one <= other,
    "<": lambda one, other: one < other,
    "==": lambda one, other: one == other,
    "!=": lambda one, other: one != other,
}


@given(
    name=st.sampled_from(REGISTRY.names),
    operator=st.sampled_from(sorted(OPERATORS)),
    level=st.sampled_from(LEVELS),
    value=st.floats(0, 1000) | st.sampled_from([10.0, 40.0, 50.0, 60.0, 80.0, 100.0, 600.0, nextafter(80, 0), nextafter(60, 61)]),
)
def test_a_level_means_what_the_definition_calls_it(name: str, operator: str, level: str, value: float) -> None:
    definition = REGISTRY.by_name[name].definition
    expected = OPERATORS[operator](LEVELS.index(definition.level(value)), LEVELS.index(level))
    if (operator, level) in ((">", "high"), ("<", "low")):
        with pytest.raises(InvalidInput):
            normalized(f"{name}{operator}{level}", REGISTRY)
        assert not expected
    else:
        assert compile_quality(normalized(f"{name}{operator}{level}", REGISTRY)).matches({name: value}) is expected
