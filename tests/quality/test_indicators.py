"""The paper's operations on the quality of one thing."""

from __future__ import annotations

import pytest

from hanse.model import InvalidInput
from hanse.quality import load
from hanse.quality.criteria import Definition
from hanse.quality.indicators import MAX_VALUES, Indicator, MetricValue, Quality, indicator, quality

STATED = quality({"precision": 80, "freshness": 700, "correctness": 50})


def test_add_and_retrieve() -> None:
    more = STATED.add(indicator("trust", 30, "2026-01-31T13:00:00+01:00"))
    found = more.retrieve("trust")
    assert found is not None
    assert (found.latest.value, found.latest.at, found.id, found.criterion_id) == (30, "2026-01-31T12:00:00Z", "12", "[12.1]")
    assert STATED.retrieve("trust") is None
    assert len(more) == len(STATED) + 1
    with pytest.raises(InvalidInput, match="there is an indicator of 'precision' already; update it instead"):
        STATED.add(indicator("precision", 1))


def test_the_order_does_not_matter() -> None:
    assert quality({"precision": 80, "trust": 1}) == quality({"trust": 1, "precision": 80})
    assert quality({"precision": 80}) != quality({"precision": 81})


def test_update_and_remove() -> None:
    updated = STATED.update("precision", 10, "2026-01-31T12:00:00Z")
    found = updated.retrieve("precision")
    assert found is not None
    assert found.values == (MetricValue(10.0, "2026-01-31T12:00:00Z", "10.1"),)
    assert STATED.values()["precision"] == 80
    assert updated.remove("precision") == STATED.remove("precision") == quality({"freshness": 700, "correctness": 50})
    for operation in (lambda: STATED.update("trust", 1), lambda: STATED.remove("trust"), lambda: STATED.level("trust")):
        with pytest.raises(InvalidInput, match=r"there is no indicator of 'trust' \(correctness, freshness, precision\)"):
            operation()


def test_filters_on_presence_and_on_value() -> None:
    assert STATED.with_presence({"precision", "trust"}).names == ("precision",)
    assert STATED.with_presence(()) == Quality()
    assert STATED.with_value("precision>=40;freshness<=60;trust>1").names == ("precision",)
    assert STATED.with_value("precision==medium,high;correctness==medium;freshness==low").names == STATED.names
    assert STATED.with_value("correctness>10;correctness<20").names == ()
    assert STATED.meets("precision>=high;correctness>=medium")
    assert not STATED.meets("precision>=high;freshness>=medium")
    assert not STATED.meets("trust")


def test_levels() -> None:
    assert [STATED.level(name) for name in ("precision", "freshness", "correctness")] == ["high", "low", "medium"]


def test_a_composite_counts_as_well() -> None:
    registry = load(
        '[[criteria]]\nid = "30"\nname = "worth"\nrule = "mean"\nparts = ["precision", "correctness"]\n'
        '[[criteria.definitions]]\nid = "30.1"\nmin = 0\nmax = 100\n'
    )
    assert STATED.meets("worth==65", registry)


def test_only_what_the_registry_means_counts() -> None:
    def stated(definition: Definition, value: float) -> Quality:
        return Quality(
            (
                Indicator(
                    criterion="precision",
                    id="10",
                    name="",
                    criterion_id="",
                    definitions=(definition,),
                    values=(MetricValue(value, definition=definition.id),),
                ),
            )
        )

    assert stated(Definition(id="10.1"), 5).values() == {"precision": 5}
    assert stated(Definition(id="10.1", unit_code="P1", max=4), 5).values() == {}  # beyond what its own definition allows
    assert stated(Definition(id="10.1"), 500).values() == {}
    assert stated(Definition(id="10.1", unit_code="59"), 5).values() == {}
    assert stated(Definition(id="10.1", direction="lower"), 5).values() == {}
    assert stated(Definition(id="10.7"), 5).values() == {}


def test_refusals() -> None:
    for make, says in (
        (lambda: indicator("precision", 101), "precision is a number from 0 to 100, in percent, not 101"),
        (lambda: indicator("freshness", -1), "freshness is a number from 0 on, in second, not -1"),
        (lambda: indicator("precison", 1), "do you mean precision"),
        (lambda: MetricValue(float("nan")), "a finite number, not nan"),
        (lambda: MetricValue(1.0, "2026-02-30T00:00:00Z"), "is not a time"),
        (lambda: MetricValue(1.0, "0001-01-01T00:00:00+01:00"), "is not a time"),
        (lambda: Quality((indicator("trust", 1), indicator("trust", 2))), "two indicators of 'trust'"),
        (lambda: _trust(definitions=()), "has no definition"),
        (lambda: _trust(values=()), "has 0 values"),
        (lambda: _trust(values=(MetricValue(1.0, definition="12.1"),) * (MAX_VALUES + 1)), "has 65 values"),
        (lambda: _trust(values=(MetricValue(1.0),)), "by the definition '', which it lacks"),
        (lambda: _trust(definitions=(Definition(id="12.1"),) * 2), "two definitions with the same id"),
        (lambda: _trust(criterion="high"), "which means something else already"),
        (lambda: _trust(name="\x07"), "U+0007 cannot stand in XML"),
    ):
        with pytest.raises(InvalidInput) as error:
            make()
        assert says in str(error.value)


def _trust(**changes: object) -> Indicator:
    members: dict[str, object] = {"criterion": "trust", "id": "12", "name": "", "criterion_id": ""}
    members |= {"definitions": (Definition(id="12.1"),), "values": (MetricValue(1.0, definition="12.1"),)}
    return Indicator(**(members | changes))  # type: ignore[arg-type]
