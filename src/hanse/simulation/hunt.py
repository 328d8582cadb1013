"""Hunting for violations: many seeds, every strategy; and a violation cut down to the steps and faults that matter."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct

from hanse.routing import messages as m
from hanse.simulation.checkers import Violation, check
from hanse.simulation.faults import NO_FAULTS, Faults, FaultyFederation, Sent, random_faults
from hanse.simulation.scenarios import scenario
from hanse.simulation.steps import Scenario, with_steps

if TYPE_CHECKING:
    from collections.abc import Callable

SHRINK_RUNS_MAX = 2_000
# what can be switched off, to see that it is missed
ABLATIONS = ("dedup", "link-dedup", "link-order", "retransmit", "export-attributes", "policies", "guard")
T = TypeVar("T")


class Outcome(Struct):
    """One run: what was promised, what came, and what was wrong."""

    seed: int
    strategy: str
    promised: int
    delivered: int
    messages: int
    crashes: int
    violations: list[Violation]
    dropped: int = 0  # notifications that brokers gave up, for whatever reason
    lost: int = 0  # messages that links gave up


def checked(federation: FaultyFederation) -> list[Violation]:
    """Run it, and check it. A broker that fails on what it is told, or never comes to rest, is a violation too."""
    try:
        return check(federation.run())
    except Exception as error:  # noqa: BLE001
        where = traceback.extract_tb(error.__traceback__)[-1]
        return [Violation("brokers go on", f"{type(error).__name__}: {error} ({Path(where.filename).name}, {where.name})")]


def attempt(seed: int, strategy: str, *, faulty: bool = True, ablations: tuple[str, ...] = ()) -> Outcome:
    given = scenario(seed, strategy, ablations=ablations)
    faults = random_faults(given) if faulty else NO_FAULTS
    federation = FaultyFederation(given, faults)
    violations = checked(federation)
    trace = federation.trace
    return Outcome(
        seed=seed,
        strategy=strategy,
        promised=sum(len(published.must) for published in trace.published.values()),
        delivered=len(trace.delivered),
        messages=len(federation.sent),
        crashes=len(faults.crashes),
        violations=violations,
        dropped=len(trace.dropped),
        lost=len(trace.lost),
    )


class Found(Struct):
    """The shortest way to a violation that could be found."""

    scenario: Scenario
    faults: Faults
    violation: Violation
    sent: list[Sent]

    def lines(self) -> list[str]:
        """The story in words: what clients did, what went wrong on the way, what brokers said, and the violation."""
        settings = self.scenario.settings
        federation = settings.federation
        links = sorted({"–".join(sorted((link.source, link.target))) for link in federation.links})
        said = [f"{settings.strategy}, seed {self.scenario.seed}: nodes {' '.join(federation.ids)}; links {' '.join(links)}"]
        for node, policy in self.scenario.policies.items():
            said += [f"  policy of {node}: {_words(rule)}" for rule in policy.rules]
        for i, phase in enumerate(self.scenario.phases):
            for step in phase.steps:
                said.append(f"  phase {i} +{step.at_ms} ms, at {step.node}: {_words(step.do)}")
        faults = self.faults
        for cut in faults.cuts:
            said.append(f"  phase {cut.phase} +{cut.from_ms} ms: link {cut.a}–{cut.b} is cut for {cut.until_ms - cut.from_ms} ms")
        for crash in faults.crashes:
            said.append(f"  phase {crash.phase} +{crash.at_ms} ms: {crash.node} crashes, back after {crash.down_ms} ms")
        said.append(f"  network: loss {faults.loss:.0%}, doubled {faults.doubled:.0%}, delay up to {faults.delay_ms} ms")
        if faults.ticks_ms:
            said.append(f"  every node looks at the time every {faults.ticks_ms} ms")
        for sent in self.sent[-40:]:
            said.append(f"    {sent.at_ms:>9} ms {sent.source} → {sent.target}: {_words(m.innermost(sent.message))[:160]}")
        said.append(f"  violates '{self.violation.property}': {self.violation.what}")
        return said


def _words(value: object) -> str:
    """A value as it would be written by hand: what is as usual is left out."""
    if isinstance(value, msgspec.Struct):
        given = [(f.name, getattr(value, f.name), f) for f in msgspec.structs.fields(value)]
        said = [
            f"{name}={_words(v)}" for name, v, f in given if v != f.default and not (f.default is msgspec.NODEFAULT and not v)
        ]
        return f"{type(value).__name__}({', '.join(said)})"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_words, value))}]"
    return f"{value:.2f}" if isinstance(value, float) else repr(value)


def shrink(seed: int, strategy: str, *, faulty: bool = True, ablations: tuple[str, ...] = ()) -> Found | None:
    """Leave out steps, faults and kinds of trouble, as long as the same property is violated."""
    given = scenario(seed, strategy, ablations=ablations)
    faults = random_faults(given) if faulty else NO_FAULTS
    runs = 0

    def fails(candidate: Scenario, trouble: Faults) -> tuple[Violation, list[Sent]] | None:
        nonlocal runs
        runs += 1
        federation = FaultyFederation(candidate, trouble)
        for violation in checked(federation):
            if wanted is None or violation.property == wanted:
                return violation, federation.sent
        return None

    wanted: str | None = None
    first = fails(given, faults)
    if first is None:
        return None
    wanted = first[0].property
    best = Found(given, faults, *first)
    for name, calm in (("loss", 0.0), ("doubled", 0.0), ("delay_ms", 0), ("ticks_ms", 0)):
        milder = msgspec.structs.replace(best.faults, **{name: calm})
        if (result := fails(best.scenario, milder)) is not None:
            best = Found(best.scenario, milder, *result)

    def still(keep: list[tuple[int, int]], cuts: tuple[object, ...], crashes: tuple[object, ...]) -> bool:
        nonlocal best
        candidate = with_steps(given, set(keep))
        trouble = msgspec.structs.replace(best.faults, cuts=cuts, crashes=crashes)
        if runs < SHRINK_RUNS_MAX and (result := fails(candidate, trouble)) is not None:
            best = Found(candidate, trouble, *result)
            return True
        return False

    keep = [(i, j) for i, phase in enumerate(given.phases) for j in range(len(phase.steps))]
    crashes = _fewest(list(best.faults.crashes), lambda rest: still(keep, best.faults.cuts, tuple(rest)))
    cuts = _fewest(list(best.faults.cuts), lambda rest: still(keep, tuple(rest), tuple(crashes)))
    _fewest(keep, lambda rest: still(rest, tuple(cuts), tuple(crashes)))
    return best


def _fewest(items: list[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """The items without those that can be left out: halves first, then quarters, down to single ones."""
    size = max(1, len(items) // 2)
    while items:
        i, shorter = 0, False
        while i < len(items):
            rest = items[:i] + items[i + size :]
            if fails(rest):
                items, shorter = rest, True
            else:
                i += size
        if size == 1 and not shorter:
            break
        size = max(1, size // 2)
    return items
