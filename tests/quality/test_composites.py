"""Composite criteria, and the keys under which a notification says its quality."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.model import InvalidInput
from hanse.quality import attribute_and_criterion, completed, default_registry, indicator_key, load, whole
from hanse.quality.composites import RULE_FUNCTIONS, composed, with_composites
from hanse.quality.criteria import RULES, Registry


def composite(rule: str, extra: str = "", parts: str = '["trust", "accuracy"]', name: str = "worth", number: int = 30) -> str:
    return (
        f'[[criteria]]\nid = "{number}"\nname = "{name}"\nrule = "{rule}"\nparts = {parts}\n{extra}\n'
        f'[[criteria.definitions]]\nid = "{number}.1"\nmin = 0\nmax = 100\n'
    )


def worth(registry: Registry, **values: float) -> float | None:
    return composed(registry.criterion("worth"), values, registry)


@pytest.mark.parametrize(
    ("rule", "extra", "expected"),
    [
        ("minimum", "", 25),
        ("maximum", "", 64),
        ("mean", "", 44.5),
        ("weighted mean", "weights = [3, 1]", 54.25),
        ("geometric mean", "", 40),
        ("product", "", 16),
    ],
)
def test_rules(rule: str, extra: str, expected: float) -> None:
    registry = load(composite(rule, extra))
    assert worth(registry, trust=64, accuracy=25) == pytest.approx(expected)
    assert worth(registry, trust=64) is None


def test_every_rule_has_a_function() -> None:
    assert tuple(RULE_FUNCTIONS) == RULES


def test_directions_and_ranges_are_evened_out() -> None:
    own = (
        '[[criteria]]\nid = "31"\nname = "delay"\n[[criteria.definitions]]\nid = "31.1"\ndirection = "lower"\nmin = 0\nmax = 10\n'
    )
    registry = load(own + composite("mean", parts='["delay", "trust"]'))
    assert worth(registry, delay=0, trust=100) == 100
    assert worth(registry, delay=10, trust=100) == 50
    assert worth(registry, delay=2, trust=60) == 70


def test_composites_of_composites() -> None:
    registry = load(composite("mean", parts='["half", "trust"]') + composite("product", name="half", number=31))
    found = with_composites({"trust": 50, "accuracy": 50}, registry)
    assert found == {"trust": 50, "accuracy": 50, "half": 25, "worth": 37.5}
    assert with_composites({"trust": 50, "half": 100}, registry) == {"trust": 50, "half": 100, "worth": 75}


@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_cycle_is_refused(length: int) -> None:
    text = "".join(composite("mean", parts=f'["c{(i + 1) % length}"]', name=f"c{i}", number=40 + i) for i in range(length))
    with pytest.raises(InvalidInput, match=r"it is computed from itself \(c0 of .*c0\)"):
        load(text)


def test_a_long_chain_is_none() -> None:
    text = "".join(composite("mean", parts=f'["c{i + 1}"]', name=f"c{i}", number=40 + i) for i in range(900))
    registry = load(text + composite("mean", name="c900", number=940))
    assert with_composites({"trust": 10, "accuracy": 30}, registry)["c0"] == pytest.approx(20)


scores = st.floats(0, 100)


@given(st.sampled_from([rule for rule in RULES if rule != "weighted mean"]), scores, scores)
def test_a_composite_is_within_its_range_and_grows_with_its_parts(rule: str, one: float, other: float) -> None:
    registry = load(composite(rule))
    found = worth(registry, trust=one, accuracy=other)
    better = worth(registry, trust=min(100, one + 10), accuracy=other)
    assert found is not None
    assert better is not None
    assert 0 <= found <= better + 1e-9 <= 100 + 1e-6


# --- keys -------------------------------------------------------------------------------------------------------------


def test_keys() -> None:
    for attribute in ("NO2", "a.b", "https://example.org/air.NO2", ""):
        assert attribute_and_criterion(indicator_key(attribute, "trust")) == (attribute, "trust")
    assert indicator_key("https://example.org/a%2Eb", "trust") == "https://example.org/a.b.trust"


def test_the_whole_is_as_bad_as_its_worst_attribute() -> None:
    per_attribute = {"a": {"trust": 70, "freshness": 10}, "b": {"trust": 60, "freshness": 20, "precision": 1}}
    found = whole(per_attribute, {}, default_registry())
    assert found == {
        "a.trust": 70,
        "a.freshness": 10,
        "b.trust": 60,
        "b.freshness": 20,
        "b.precision": 1,
        "trust": 60,
        "freshness": 20,
        "precision": 1,
    }


def test_what_is_stated_for_the_whole_counts() -> None:
    found = whole({"a": {"trust": 70}}, {"trust": 99, "precision": 5}, default_registry())
    assert found == {"a.trust": 70, "trust": 99, "precision": 5}


def test_what_is_no_quality_says_nothing() -> None:
    values = {"trust": 101, "precision": float("nan"), "colour": 1, "freshness": float("inf")}
    assert whole({"a": values}, values, default_registry()) == {}


def test_composites_of_an_attribute_and_of_the_whole() -> None:
    registry = load(composite("minimum"))
    both = {"trust": 70.0, "accuracy": 40.0}
    assert whole({"a": both}, {}, registry).items() >= {"a.worth": 40, "worth": 40}.items()
    assert whole({"a": both}, {"worth": 80}, registry).items() >= {"a.worth": 40, "worth": 80}.items()
    apart = whole({"a": {"trust": 70}, "b": {"accuracy": 50}}, {}, registry)
    assert "a.worth" not in apart
    assert apart["worth"] == 50
    assert whole({"a": both}, {"trust": 10}, registry)["worth"] == 40  # the worst of the attributes that have it


def test_what_is_stated_by_keys_is_completed() -> None:
    registry = load(composite("minimum"))
    stated = {"a.trust": 70, "b.trust": 60, "a.accuracy": 80, "https://x.org/v1.2/c.freshness": 5, "mood": 3}
    follows = {"a.worth": 70, "trust": 60, "accuracy": 80, "freshness": 5, "worth": 70}
    assert completed(stated, registry) == stated | follows
    assert completed(stated | {"trust": 10}, registry)["trust"] == 10
    assert completed({}, registry) == {}
    for wrong in ({"a.trust": 101}, {"freshness": -1}, {"trust": float("nan")}):
        with pytest.raises(InvalidInput, match=f"quality: {next(iter(wrong))} is .*; [a-z]+ is a number from 0"):
            completed(wrong, registry)
