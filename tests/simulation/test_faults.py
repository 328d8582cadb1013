"""Under faults the five properties hold; and if a mechanism is taken out, the checkers find it and tell the story."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from hanse.model import WORLD, Notification, Selector, Subscription
from hanse.routing import STRATEGIES
from hanse.routing import messages as m
from hanse.simulation.checkers import CHECKERS, Got, Published, Trace, check
from hanse.simulation.faults import Cut, Faults, FaultyFederation, random_faults
from hanse.simulation.hunt import attempt, shrink
from hanse.simulation.scenarios import scenario
from hanse.simulation.steps import Scenario, with_steps

TELL_OTHERS = set(STRATEGIES) - {"flood-events", "geo-subscriber"}  # enough to overflow an outbox, and to be told again


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_properties_hold_under_faults(strategy: str) -> None:
    outcomes = [attempt(seed, strategy) for seed in range(40)]
    assert [outcome for outcome in outcomes if outcome.violations] == []
    assert sum(outcome.promised for outcome in outcomes) > 200
    assert sum(outcome.crashes for outcome in outcomes) > 40


def all_at_rest_when_published(given: Scenario) -> Scenario:
    """Nobody publishes while things change: what is published while state is lost can be lost too."""
    keep = {
        (i, j)
        for i, phase in enumerate(given.phases)
        for j, step in enumerate(phase.steps)
        if isinstance(step.do, m.Publish) == (phase.kind == "publish")
    }
    return with_steps(given, keep)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_state_that_a_long_cut_lost_is_repaired(strategy: str) -> None:
    """Outboxes of a few messages, and most links cut while everything changes: digests find what is missing."""
    lost = 0
    for seed in range(25):
        given = all_at_rest_when_published(scenario(seed, strategy))
        dice = Random(seed)
        pairs = sorted({tuple(sorted((link.source, link.target))) for link in given.settings.federation.links})
        changes = [i for i, phase in enumerate(given.phases) if i and phase.kind != "publish"]
        cuts = tuple(
            Cut(i, dice.randrange(8_000), dice.randrange(9_000, 60_000), a, b)
            for i in changes
            for a, b in pairs
            if dice.random() < 0.7
        )
        faults = Faults(seed=seed, cuts=cuts, outbox_max=8, loss=0.2, delay_ms=200)
        trace = FaultyFederation(given, faults).run()
        assert check(trace) == [], seed
        lost += sum(not hasattr(m.innermost(message), "notification") for message in trace.lost)
    assert lost > 0 or strategy not in TELL_OTHERS


@pytest.mark.parametrize(
    ("missing", "strategy", "property_"),
    [
        ("dedup", "grid-quorum", "at most once"),
        ("link-dedup", "flood-events", "at most once"),
        ("link-order", "flood-subscriptions", "eventually"),
        ("retransmit", "geo-publisher", "eventually"),
        ("export-attributes", "flood-events", "only as exported"),
        ("export-attributes", "advertised", "only as exported"),
        ("policies", "dht", "only as exported"),
        ("policies", "advertised", "only published and visible"),
    ],
)
def test_a_mechanism_that_is_missing_is_missed(missing: str, strategy: str, property_: str) -> None:
    # what stands behind it must go, too, where that would make good for it
    ablations = (missing, *{"link-dedup": ("dedup",), "export-attributes": ("guard",)}.get(missing, ()))
    found = (attempt(seed, strategy, ablations=ablations).violations for seed in range(300))
    assert any(violation.property == property_ for violations in found for violation in violations)


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
SAID, ASKED, GOT = ("p", "n"), ("c", "s"), Got("c", "s", "p", "n")


def trace(**changes: object) -> Trace:
    good = {"published": {SAID: Published(BUS, {ASKED}, {ASKED})}, "delivered": [GOT], "subscribed": {ASKED: [SUBSCRIPTION]}}
    return Trace(**{**good, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "property_"),
    [
        ({"subscribed": {}}, "only subscribed"),
        ({"published": {SAID: Published(Notification(id="n", publisher="p"), {ASKED}, {ASKED})}}, "only subscribed"),
        ({"published": {SAID: Published(BUS, set(), set())}}, "only published and visible"),
        ({"published": {}}, "only published and visible"),
        ({"published": {("q", "n"): Published(BUS, set(), set())}}, "only published and visible"),
        ({"leaked": [("a", "b", SAID)]}, "only published and visible"),
        ({"shown": [(GOT, Notification(id="n", publisher="p", types=("Bus",), attributes={"secret": 1}))]}, "only as exported"),
        ({"shown": [(GOT, BUS)], "published": {SAID: Published(BUS, set(), {ASKED}, views={ASKED: []})}}, "only as exported"),
        ({"published": {SAID: Published(BUS, set(), set(), advertised=False)}}, "only advertised"),
        ({"delivered": [GOT] * 2}, "at most once"),
        ({"delivered": []}, "eventually"),
        ({"delivered": [GOT._replace(client="d")]}, "eventually"),
        ({"delivered": [GOT._replace(publisher="q")]}, "eventually"),
        ({"delivered": [], "dropped": [(GOT, "for no good reason")]}, "eventually"),
        ({"asked": {("c", "q"): True}}, "queries are answered"),
        ({"asked": {("c", "q"): True}, "replied": [("c", "q", "a", (BUS,))]}, "queries are answered"),
    ],
)
def test_each_checker_sees_what_it_watches(changes: dict[str, object], property_: str) -> None:
    assert property_ in CHECKERS
    assert property_ in {violation.property for violation in check(trace(**changes))}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"delivered": [], "dropped": [(GOT, "the client has gone for good")]},
        {"delivered": [], "dropped": [(GOT, "the client is out of reach and 7 notifications wait for it already")]},
        {"delivered": [], "lost": [m.Event(BUS, "a")]},
        {"shown": [(GOT, BUS)]},
        {"asked": {("c", "q"): True}, "replied": [("c", "q", "a", (BUS,))], "answered": {("c", "q", "a"): [BUS]}},
        {"asked": {("c", "q"): False}},
    ],
)
def test_a_good_run_violates_nothing(changes: dict[str, object]) -> None:
    assert check(trace(**changes)) == []


def test_the_scenarios_have_all_that_can_happen() -> None:
    """Every kind of request and of phase, ids that several clients use, and what makes a run hard."""
    seen: Counter[str] = Counter()
    for seed in range(60):
        given = scenario(seed, "scoped")
        seen["require_advertisements"] += given.settings.require_advertisements
        seen["clock turns"] += not given.counts_turns
        for does in {rule.does for policy in given.policies.values() for rule in policy.rules}:
            seen[f"policy: {does}"] += 1
        for member in ("attributes", "deny_attributes", "scopes", "quality", "deny"):
            seen[f"rule on {member}"] += any(getattr(link.export, member) for link in given.settings.federation.links)
        seen["rule on area"] += any(link.export.area != WORLD for link in given.settings.federation.links)
        seen["long cut"] += any(cut.until_ms - cut.from_ms > 60_000 for cut in random_faults(given).cuts)
        owners: dict[str, set[str]] = {}
        for phase in given.phases:
            seen[phase.kind] += 1
            for step in phase.steps:
                do = step.do
                seen[type(do).__name__] += 1
                if isinstance(do, m.Publish):
                    seen["located notification"] += do.notification.location is not None
                    owners.setdefault(f"notification {do.notification.id}", set()).add(do.notification.publisher)
                elif isinstance(do, m.Subscribe):
                    seen["expiry"] += do.subscription.expires_at_ms is not None
                    owners.setdefault(f"subscription {do.subscription.id}", set()).add(do.subscription.client)
                elif isinstance(do, m.Advertise):
                    seen["advertisement expiry"] += do.advertisement.expires_at_ms is not None
                elif isinstance(do, m.SetVisibility):
                    seen["half visibility"] += do.out is None or do.into is None
                elif isinstance(do, m.Attach):
                    seen["attached from here"] += do.previous == step.node
        for name, clients in owners.items():
            seen[f"shared {name.split()[0]} id"] += len(clients) > 1
    requests = (
        "Attach Move Disconnect Detach Locate Subscribe Unsubscribe Advertise Unadvertise Publish Query JoinScope LeaveScope"
    )
    more = ["SetVisibility", "clock turns", "long cut", "located notification", "advertisement expiry", "half visibility"]
    more += ["require_advertisements", "attached from here", "expiry", "shared notification id", "shared subscription id"]
    more += [f"policy: {does}" for does in ("forbid", "hide", "round", "coarsen", "blur")]
    more += [f"rule on {member}" for member in ("attributes", "deny_attributes", "scopes", "quality", "deny", "area")]
    assert [name for name in [*requests.split(), *more, "change", "publish", "mixed"] if seen[name] < 5] == []


def test_messages_are_named_by_what_they_carry() -> None:
    inner = m.DropSubscription("s", 1)
    assert m.innermost(m.Relay("a", ("b",), m.Routed("a", ("b",), inner))) is inner
