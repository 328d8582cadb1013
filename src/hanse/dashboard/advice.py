"""Which strategy suits a workload, and why: in words, of what was measured. Pure.

`advise(results, wishes) -> Advice`: among the strategies that keep what is wished for, the one that needs the fewest messages;
where two need about as many, the faster one. Each other one is told what speaks against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from hanse.simulation.run import KINDS, Result, by_kind

ALIKE: Final = 1.1  # costs within this factor of each other are about the same
NEEDS: Final = {
    "flood-events": "Every broker sees every notification, so it is for communities that may show each other everything.",
    "flood-subscriptions": "Every broker holds every subscription: it suits many notifications for few, steady subscribers.",
    "geo-subscriber": "It lives from geofences of notifications: those without one go to every broker.",
    "geo-publisher": "It lives from geofences of subscriptions, and from publishers that say where they are.",
    "dht": "Everything with the same topic or type meets at one broker, wherever that stands: all must name topics or types.",
    "grid-quorum": "Nothing is central, and cost grows with the square root of the number of brokers.",
    "broadcast-groups": "It needs a broker in a cloud that holds every subscription and that all trust.",
    "scoped": "It lives from scopes: without any, subscriptions go everywhere.",
    "advertised": "Producers say beforehand what they have, under the export rules of each link: it suits communities that keep "
    "their data to themselves.",
}


class Wishes(Struct, frozen=True, kw_only=True):
    """What must be kept; None: nothing is asked."""

    latency_p95_ms: float | None = None
    table_size: float | None = None  # subscriptions that a broker holds, on average
    brokers_each: float | None = None  # that handle a notification, on average


class Verdict(Struct, frozen=True):
    strategy: str
    says: str


class Advice(Struct, frozen=True):
    strategy: str  # empty if none will do
    headline: str
    reasons: list[str]
    others: list[Verdict]  # in the order in which they would do


def advise(results: Sequence[Result], wishes: Wishes) -> Advice:
    if not results:
        return Advice("", "Run at least two strategies, and they are compared here.", [], [])
    most = max(result.deliveries for result in results)
    lacks = {result.strategy: _lacks(result, wishes, most) for result in results}
    ordered = sorted(results, key=lambda result: (bool(lacks[result.strategy]), result.between_brokers))
    fit = [result for result in ordered if not lacks[result.strategy]]
    if not fit:
        others = [Verdict(result.strategy, "; ".join(lacks[result.strategy])) for result in ordered]
        return Advice("", "None of these keeps all that you ask for: ask for less, or try other strategies.", [], others)
    best = _best(fit)
    others = [
        Verdict(result.strategy, "; ".join(lacks[result.strategy]) or _against(result, best))
        for result in ordered
        if result is not best
    ]
    return Advice(best.strategy, f"{best.strategy} suits this workload", _reasons(best, ordered, wishes), others)


def _best(fit: Sequence[Result]) -> Result:
    """The fewest messages; among those with about as few, the fastest, and then the one with the smallest tables."""
    fewest = fit[0].between_brokers
    alike = [result for result in fit if result.between_brokers <= fewest * ALIKE]
    return min(alike, key=lambda result: (result.latency_ms.mean or 0.0, result.table_size.mean or 0.0, result.between_brokers))


def _lacks(result: Result, wishes: Wishes, most: int) -> list[str]:
    """What it does not keep."""
    found = []
    p95, held, handled = result.latency_ms.p95, result.table_size.mean, result.brokers_per_publication.mean
    if wishes.latency_p95_ms is not None and p95 is not None and p95 > wishes.latency_p95_ms:
        found.append(f"too slow: 5 of 100 notifications take longer than {p95:,.0f} ms")
    if wishes.table_size is not None and held is not None and held > wishes.table_size:
        found.append(f"tables too large: a broker holds {held:,.0f} subscriptions on average")
    if wishes.brokers_each is not None and handled is not None and handled > wishes.brokers_each:
        found.append(f"seen by too many: {handled:,.1f} brokers handle a notification")
    if result.deliveries < most:
        found.append(f"{most - result.deliveries:,} fewer deliveries than another: a subscription that changes counts later here")
    return found


def _reasons(best: Result, all_: Sequence[Result], wishes: Wishes) -> list[str]:
    actions = sum(best.requests.values())
    found = [f"It needs {_messages(best)} for {actions:,} actions of clients and {best.deliveries:,} deliveries."]
    if rivals := [result for result in all_ if result is not best]:
        worst = max(rivals, key=lambda result: result.between_brokers)
        if worst.between_brokers > best.between_brokers:
            found.append(f"That is {_times(worst, best)} fewer than {worst.strategy}, which needs {worst.between_brokers:,}.")
        if saved := _saved(best, worst):
            found.append(saved)
    if best.latency_ms.mean is not None:
        kept = "" if wishes.latency_p95_ms is None else f", within the {wishes.latency_p95_ms:,.0f} ms that you ask for"
        p95 = f"95 of 100 at most {best.latency_ms.p95:,.0f} ms"
        found.append(f"A notification takes {best.latency_ms.mean:,.1f} ms on average, {p95}{kept}.")
    held, handled = best.table_size.mean, best.brokers_per_publication.mean
    if held is not None and handled is not None:
        found.append(f"A broker holds {held:,.0f} subscriptions on average, and {handled:,.1f} brokers handle a notification.")
    if needs := NEEDS.get(best.strategy):
        found.append(needs)
    return found


def _messages(result: Result) -> str:
    count = result.between_brokers
    return f"{count:,} message{'s' * (count != 1)} between brokers"


def _saved(best: Result, worst: Result) -> str:
    """Where most of the difference is."""
    mine, theirs = by_kind(best.messages), by_kind(worst.messages)
    kind = max(KINDS, key=lambda name: theirs[name] - mine[name])
    gain = theirs[kind] - mine[kind]
    return f"Most is saved on {kind}: {mine[kind]:,} messages instead of {theirs[kind]:,}." if gain > 0 else ""


def _against(result: Result, best: Result) -> str:
    """What speaks against it, and what for it."""
    if result.between_brokers > best.between_brokers:
        said = f"{_times(result, best)} as many messages"
    else:
        said = f"about as many messages ({result.between_brokers:,})"
    mine, its = result.latency_ms.mean, best.latency_ms.mean
    if mine is not None and its is not None and abs(mine - its) >= 1.0:
        said += f", {abs(mine - its):,.0f} ms {'faster' if mine < its else 'slower'} on average"
    held, other = result.table_size.mean or 0.0, best.table_size.mean or 0.0
    if held * ALIKE < other:
        said += f", smaller tables ({held:,.0f} against {other:,.0f})"
    elif held > other * ALIKE:
        said += f", larger tables ({held:,.0f} against {other:,.0f})"
    return said


def _times(more: Result, less: Result) -> str:
    return f"{more.between_brokers / max(1, less.between_brokers):,.1f} times"
