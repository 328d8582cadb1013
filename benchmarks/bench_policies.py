"""What a policy decision costs, against its limit and against Cedar asked every time in the same run.

    python benchmarks/bench_policies.py [--json]

A town's policies, a hundred principals, entities of twenty types with eight attributes each. Amortised: every decision of the
run is counted, those that Cedar makes (one for each kind of principal and shape) and those that are remembered. Times are CPU
time, the best of several rounds. Nothing is asserted; the last line says which limits hold.
"""

from __future__ import annotations

import argparse
import random
from time import process_time_ns
from typing import TYPE_CHECKING

from rich.console import Console

from figures import Figure, show
from hanse.model import Location, Notification
from hanse.policies import PolicySet, Principal, Resource, view

if TYPE_CHECKING:
    from collections.abc import Callable

DECISION_US_MAX = 50
ROUNDS = 3
REQUESTS = 50_000
PRINCIPALS = 100
TYPES = 20
ATTRIBUTES = 8
ALONE = 500  # decisions that Cedar makes one by one

_BASE = """
@id("town") @obfuscate("round 10")
permit (principal in Community::"town", action == Action::"read", resource) when { resource.types.contains("Type3") };
@id("fire") permit (principal in Community::"fire", action, resource);
@id("names") forbid (principal, action == Action::"read", resource)
when { resource.attribute == "attribute1" } unless { principal in Role::"chief" };
@id("old") forbid (principal, action == Action::"read", resource)
when { resource.quality has freshness && resource.quality.freshness > 3600 };
@id("centre") @obfuscate("coarsen 1000")
permit (principal, action == Action::"read", resource) when { resource.areas.contains("centre") };
"""
_BY_ID = '@id("one") permit (principal, action == Action::"read", resource) when { resource.id == "urn:entity:7" };'


def requests(seed: int = 7) -> list[tuple[Principal, Resource]]:
    rng = random.Random(seed)
    people = [
        Principal(f"user{n}", rng.choice(("town", "fire", "port")), ("chief",) if n % 10 == 0 else ()) for n in range(PRINCIPALS)
    ]
    found = []
    for _ in range(REQUESTS):
        resource = Resource(
            types=(f"https://example.org/Type{rng.randrange(TYPES)}",),
            id=f"urn:entity:{rng.randrange(100_000)}",
            attribute=f"https://example.org/attribute{rng.randrange(ATTRIBUTES)}",
            areas=rng.choice(((), ("centre",))),
            quality=rng.choice(({}, {"freshness": 10.0})),
        )
        found.append((rng.choice(people), resource))
    return found


def best(work: Callable[[], int]) -> float:
    """Microseconds for each of what the work counts."""
    times = []
    for _ in range(ROUNDS):
        began = process_time_ns()
        count = work()
        times.append((process_time_ns() - began) / count / 1000)
    return min(times)


def decisions(text: str, asked: list[tuple[Principal, Resource]]) -> Callable[[], int]:
    def work() -> int:
        policies = PolicySet.load(text)  # which has everything to learn
        for principal, resource in asked:
            policies.decide(principal, "read", resource)
        return len(asked)

    return work


def views() -> float:
    policies = PolicySet.load(_BASE)
    principal = Principal("user1", "town")
    notification = Notification(
        id="1",
        publisher="p",
        types=("https://example.org/Type3",),
        entity="urn:entity:1",
        attributes={f"https://example.org/attribute{n}": [{"type": "Property", "value": 17.3 + n}] for n in range(ATTRIBUTES)},
        location=Location(48.85, 2.35),
        news=("https://example.org/attribute3", "entityUpdated"),
    )

    def work() -> int:
        for _ in range(2000):
            view(policies, principal, "read", notification)
        return 2000

    return best(work)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    as_json = parser.parse_args().json
    asked = requests()
    policies = PolicySet.load(_BASE)

    def alone() -> int:
        for principal, resource in asked[:ALONE]:
            policies.decided(principal, "read", resource)
        return ALONE

    every_time = best(alone)
    beside = f"Cedar asked every time: {every_time:.0f} us"
    figures = [
        Figure("a decision, amortised", best(decisions(_BASE, asked)), "us", DECISION_US_MAX, False, beside),
        Figure(
            "the same where a policy looks at ids, ten in a row for each",
            best(decisions(_BASE + _BY_ID, [one for one in asked[: REQUESTS // 10] for _ in range(10)])),
            "us",
            DECISION_US_MAX,
            False,
            beside,
        ),
        Figure(
            f"a view of a notification with {ATTRIBUTES} attributes, by attribute",
            views() / ATTRIBUTES,
            "us",
            DECISION_US_MAX,
            False,
            "values rounded, one attribute taken out",
        ),
    ]
    show(figures, Console(), "policies", as_json=as_json)


if __name__ == "__main__":
    main()
