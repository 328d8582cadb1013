"""Under faults the five properties hold; and if a mechanism is taken out, the checkers find it and tell the story."""

from __future__ import annotations

import pytest

from hanse.model import Notification, Selector, Subscription
from hanse.routing import STRATEGIES
from hanse.routing import messages as m
from hanse.simulation.checkers import CHECKERS, Published, Trace, check
from hanse.simulation.faults import Cut, Faults, FaultyFederation
from hanse.simulation.hunt import attempt, shrink
from hanse.simulation.scenarios import scenario


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_properties_hold_under_faults(strategy: str) -> None:
    outcomes = [attempt(seed, strategy) for seed in range(40)]
    assert [outcome for outcome in outcomes if outcome.violations] == []
    assert sum(outcome.promised for outcome in outcomes) > 200
    assert sum(outcome.crashes for outcome in outcomes) > 40


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_state_that_a_long_cut_lost_is_repaired(strategy: str) -> None:
    """Outboxes of a few messages, and all links cut while everything changes: digests find what is missing."""
    lost = 0
    for seed in range(25):
        given = scenario(seed, strategy)
        pairs = sorted({tuple(sorted((link.source, link.target))) for link in given.settings.federation.links})
        changes = [i for i, phase in enumerate(given.phases) if i and not phase.publishes]
        cuts = tuple(Cut(i, 0, 60_000, a, b) for i in changes for a, b in pairs)
        trace = FaultyFederation(given, Faults(seed=seed, cuts=cuts, outbox_max=8)).run()
        assert check(trace) == []
        lost += len(trace.lost)
    assert lost > 0 or strategy in ("flood-events", "geo-subscriber")  # these tell others next to nothing


@pytest.mark.parametrize(
    ("missing", "strategy", "property_"),
    [
        ("dedup", "grid-quorum", "at most once"),
        ("link-dedup", "flood-events", "at most once"),
        ("link-order", "flood-subscriptions", "eventually"),
        ("retransmit", "geo-publisher", "eventually"),
    ],
)
def test_a_mechanism_that_is_missing_is_missed(missing: str, strategy: str, property_: str) -> None:
    ablations = ("dedup", "link-dedup") if missing == "link-dedup" else (missing,)
    bad = next(o for seed in range(300) if (o := attempt(seed, strategy, ablations=ablations)).violations)
    assert property_ in {violation.property for violation in bad.violations}


def test_a_violation_is_told_as_a_short_story() -> None:
    seed = next(seed for seed in range(300) if attempt(seed, "grid-quorum", ablations=("dedup",)).violations)
    found = shrink(seed, "grid-quorum", ablations=("dedup",))
    assert found is not None
    whole = scenario(seed, "grid-quorum", ablations=("dedup",))
    steps = sum(len(phase.steps) for phase in found.scenario.phases[1:])
    assert steps <= 4 < sum(len(phase.steps) for phase in whole.phases[1:])
    story = "\n".join(found.lines())
    assert f"seed {seed}" in story
    assert "at most once" in story
    assert "Publish" in story


def test_the_same_seed_is_the_same_run() -> None:
    assert attempt(3, "scoped") == attempt(3, "scoped")


# --- the checkers themselves -------------------------------------------------------------------------------------------

BUS = Notification(id="n", publisher="p", types=("Bus",))
SUBSCRIPTION = Subscription(id="s", client="c", selectors=(Selector(type="Bus"),))


def trace(**changes: object) -> Trace:
    good = {"published": {"n": Published(BUS, {"s"}, {"s"})}, "delivered": [("c", "s", "n")], "subscribed": {"s": [SUBSCRIPTION]}}
    return Trace(**{**good, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "property_"),
    [
        ({"subscribed": {}}, "only subscribed"),
        ({"published": {"n": Published(Notification(id="n", publisher="p"), {"s"}, {"s"})}}, "only subscribed"),
        ({"published": {"n": Published(BUS, set(), set())}}, "only published and visible"),
        ({"published": {}}, "only published and visible"),
        ({"published": {"n": Published(BUS, set(), set(), advertised=False)}}, "only advertised"),
        ({"delivered": [("c", "s", "n")] * 2}, "at most once"),
        ({"delivered": []}, "eventually"),
    ],
)
def test_each_checker_sees_what_it_watches(changes: dict[str, object], property_: str) -> None:
    assert property_ in CHECKERS
    assert property_ in {violation.property for violation in check(trace(**changes))}


def test_a_good_run_violates_nothing() -> None:
    assert check(trace()) == []


def test_messages_are_named_by_what_they_carry() -> None:
    inner = m.DropSubscription("s", 1)
    assert m.innermost(m.Relay("a", ("b",), m.Routed("a", ("b",), inner))) is inner
