"""How nodes do, of what they count: rates, how long answers take, and what comes near its bound. Pure.

- `numbers(seen)`: a node at this moment; `together(all)`: the same of all of them;
- `fullest(nodes)`: bounds in use, the fullest first; `worries(...)`: in words, what somebody should look at, worst first;
- `series(histories, chart)`: the points of a chart, of one node or of several together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf, isfinite
from typing import Any, Final, NamedTuple

from hanse.dashboard.watching import STEPS, NodeSeen, Point, total

NEAR: Final = 0.8  # of a bound: said first
NOTABLE: Final = 0.5  # and this is worth a line
SLOW_S: Final = 1.0  # that 95 of 100 answers may take
WORRIES_MAX: Final = 12
LATELY_S: Final = 10.0
STEP_S: Final = 2.0  # of a chart: long enough for every node to have been asked
REQUESTS: Final = "hanse_requests_total"
SECONDS: Final = "hanse_request_seconds"
CHANGES: Final = "hanse_log_offset_total"
SENT: Final = "hanse_notifications_sent_total"
FAILED: Final = "hanse_notifications_failed_total"
DEAD: Final = "hanse_notifications_dead_total"
MEMORY: Final = "process_resident_memory_bytes"
USED: Final = "hanse_bound_used"
BOUND: Final = "hanse_bound_max"
BETWEEN: Final = f"{STEPS}{{did=sent}}"
DELIVERED: Final = f"{STEPS}{{did=delivered}}"
DEAD_LETTERS: Final = "dead_letters"  # the name of a bound
MIB: Final = 2**20
ROLLING: Final = frozenset(  # bounds of what keeps the newest so many: that these are full is as it should be
    (
        "advertisements_below_guarantee",
        "batch_parts",
        "broker_delivered_kept",
        "broker_tombstones",
        "contexts_cached",
        "contexts_compiled",
        "contexts_implicitlycreated",
        "entities_in_memory",
        "log_records",
        "models_deleted",
        "stream_replays",
    )
)
_OF_TIME: Final = "_bucket{le="


class Numbers(NamedTuple):
    """One node, or all of them, at this moment; rates are by second."""

    node: str
    requests: float
    changes: float
    notified: float  # endpoints
    delivered: float  # notifications to clients, across the federation
    between: float  # notifications to other nodes
    failed: float
    mean_ms: float | None
    p95_ms: float | None
    memory_mib: float
    waiting: int  # on links
    lost: int
    dead: int
    problem: str


class Fill(NamedTuple):
    """How full something is."""

    node: str
    name: str
    used: float
    most: float

    @property
    def share(self) -> float:
        return self.used / self.most if self.most else 0.0

    @property
    def is_rolling(self) -> bool:
        return self.name in ROLLING


def numbers(seen: NodeSeen) -> Numbers:
    mean_s, p95_s = answer_times(seen.history, LATELY_S)
    counts = [link["counts"] for link in seen.overview.get("links", ()) if "counts" in link]
    return Numbers(
        seen.id or seen.url,
        seen.rate(REQUESTS),
        seen.rate(CHANGES),
        seen.rate(SENT),
        seen.rate(DELIVERED),
        seen.rate(BETWEEN),
        seen.rate(FAILED),
        None if mean_s is None else mean_s * 1000,
        None if p95_s is None else p95_s * 1000,
        seen.metrics.get(MEMORY, 0.0) / MIB,
        sum(int(one.get("waiting", 0)) for one in counts),
        sum(int(one.get("lost", 0)) for one in counts),
        int(sum(fill.used for fill in fills(seen) if fill.name == DEAD_LETTERS)),
        seen.problem,
    )


def together(found: Sequence[Numbers]) -> Numbers:
    """Sums; of times, the worst."""

    def worst(times: Iterable[float | None]) -> float | None:
        return max((time for time in times if time is not None), default=None)

    silent = sum(bool(one.problem) for one in found)
    return Numbers(
        "all together",
        sum(one.requests for one in found),
        sum(one.changes for one in found),
        sum(one.notified for one in found),
        sum(one.delivered for one in found),
        sum(one.between for one in found),
        sum(one.failed for one in found),
        worst(one.mean_ms for one in found),
        worst(one.p95_ms for one in found),
        sum(one.memory_mib for one in found),
        sum(one.waiting for one in found),
        sum(one.lost for one in found),
        sum(one.dead for one in found),
        f"{silent} of {len(found)} do not answer" if silent else "",
    )


# --- bounds ---------------------------------------------------------------------------------------------------------------


def fills(seen: NodeSeen) -> list[Fill]:
    """Every bound of a node that has a largest number, each once; where tenants share a name, the fullest."""
    found: dict[str, Fill] = {}
    for key, most in seen.metrics.items():
        if not key.startswith(BOUND + "{"):
            continue
        labels = key[len(BOUND) :]
        fill = Fill(seen.id or seen.url, _label(labels, "bound"), seen.metrics.get(USED + labels, 0.0), most)
        if fill.name not in found or found[fill.name].share < fill.share:
            found[fill.name] = fill
    return list(found.values())


def fullest(nodes: Iterable[NodeSeen]) -> list[Fill]:
    """The fullest first, and what may well be full behind them; what is not used at all is left out."""
    found = [fill for seen in nodes for fill in fills(seen) if fill.used > 0]
    return sorted(found, key=lambda fill: (fill.is_rolling, -fill.share, fill.node, fill.name))


def in_words(name: str) -> str:
    """The name of a bound, for people: `pending_writes` is pending writes."""
    return name.replace("_", " ")


def worries(found: Sequence[Numbers], bounds: Sequence[Fill]) -> list[str]:
    """What somebody should look at, worst first: who does not answer, what is lost, what is nearly full, what is slow."""
    silent = [f"{one.node}: {one.problem}" for one in found if one.problem]
    full = [_full(fill) for fill in bounds if fill.share >= NEAR and not fill.is_rolling]
    lost = [f"{one.node} has lost {one.lost:,} messages on its links" for one in found if one.lost]
    failing = [f"{one.node}: {one.failed:.1f} attempts to notify fail each second" for one in found if one.failed > 0]
    dead = [f"{one.node} has {one.dead:,} dead letters; look at them below" for one in found if one.dead]
    slow = [
        f"{one.node} answers slowly: 5 of 100 answers take longer than {one.p95_ms / 1000:.1f} s"
        for one in found
        if one.p95_ms is not None and one.p95_ms >= SLOW_S * 1000
    ]
    half = [_full(fill) for fill in bounds if NOTABLE <= fill.share < NEAR and not fill.is_rolling]
    said = [*silent, *full, *lost, *failing, *dead, *slow, *half]
    more = len(said) - WORRIES_MAX
    return [*said[:WORRIES_MAX], f"and {more} more"] if more > 0 else said


def _full(fill: Fill) -> str:
    return f"{fill.node}: {in_words(fill.name)} {fill.used:,.0f} of {fill.most:,.0f}, {fill.share:.0%} full"


def _label(labels: str, name: str) -> str:
    for part in labels.strip("{}").split(","):
        key, _, value = part.partition("=")
        if key == name:
            return value
    return ""


# --- how long answers take ------------------------------------------------------------------------------------------------


def answer_times(history: Sequence[Point], over_s: float) -> tuple[float | None, float | None]:
    """Mean and 95th percentile of answers of the last seconds; None if nobody has asked."""
    if len(history) < 2:
        return None, None
    newest = history[-1]
    older = next((point for point in history if point.at >= newest.at - over_s), newest)
    return _times(older.metrics, newest.metrics)


def _times(before: Mapping[str, float], after: Mapping[str, float]) -> tuple[float | None, float | None]:
    count = after.get(f"{SECONDS}_count", 0.0) - before.get(f"{SECONDS}_count", 0.0)
    if count <= 0:
        return None, None
    mean = (after.get(f"{SECONDS}_sum", 0.0) - before.get(f"{SECONDS}_sum", 0.0)) / count
    buckets = [
        (_bound(key), number - before.get(key, 0.0)) for key, number in after.items() if key.startswith(SECONDS + _OF_TIME)
    ]
    return mean, quantile(sorted(buckets), 0.95)


def quantile(buckets: Sequence[tuple[float, float]], part: float) -> float | None:
    """Of a histogram's buckets, each with how many were at most so much: straight within a bucket, as Prometheus has it."""
    count = buckets[-1][1] if buckets else 0.0
    if count <= 0:
        return None
    wanted, low, below = part * count, 0.0, 0.0
    for bound, number in buckets:
        if number >= wanted:
            return low if not isfinite(bound) else low + (bound - low) * (wanted - below) / max(number - below, 1e-12)
        low, below = bound, number
    return low


def _bound(key: str) -> float:
    text = key[len(SECONDS + _OF_TIME) :].rstrip("}")
    return inf if text == "+Inf" else float(text)


# --- charts ---------------------------------------------------------------------------------------------------------------


class Chart(NamedTuple):
    """Lines over time; `of` takes two points of a node that follow each other, and says None where there is nothing to say."""

    title: str
    unit: str
    lines: Mapping[str, Callable[[Point, Point], float | None]]
    is_sum: bool = True  # of several nodes; else the largest


def _rate(name: str) -> Callable[[Point, Point], float | None]:
    def of(before: Point, after: Point) -> float | None:
        grown = total(after.metrics, name) - total(before.metrics, name)
        return max(0.0, grown / (after.at - before.at)) if after.at > before.at else None

    return of


def _time(which: int) -> Callable[[Point, Point], float | None]:
    def of(before: Point, after: Point) -> float | None:
        found = _times(before.metrics, after.metrics)[which]
        return None if found is None else found * 1000

    return of


def _memory(_: Point, after: Point) -> float | None:
    return after.metrics.get(MEMORY, 0.0) / MIB


CHARTS: Final = (
    Chart("Requests", "a second", {"answered": _rate(REQUESTS)}),
    Chart("Changes of entities", "a second", {"written": _rate(CHANGES)}),
    Chart("Notifications", "a second", {"to clients": _rate(DELIVERED), "to endpoints": _rate(SENT), "failed": _rate(FAILED)}),
    Chart("Between nodes", "notifications a second", {"sent": _rate(BETWEEN)}),
    Chart("Answers take", "ms", {"mean": _time(0), "95 of 100": _time(1)}, is_sum=False),
    Chart("Memory", "MiB", {"in use": _memory}),
)


def series(histories: Sequence[Sequence[Point]], chart: Chart, every_s: float = STEP_S) -> dict[str, list[tuple[float, float]]]:
    """For each line `(seconds since 1970, value)`, of all these nodes together, by whole steps of time."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for name, of in chart.lines.items():
        at: dict[float, list[float]] = {}
        for history in histories:
            mine: dict[float, float] = {}
            for before, after in pairwise(history):
                if (value := of(before, after)) is not None:
                    mine[after.at // every_s * every_s] = value
            for moment, value in mine.items():
                at.setdefault(moment, []).append(value)
        lines[name] = [(moment, sum(at[moment]) if chart.is_sum else max(at[moment])) for moment in sorted(at)]
    return lines


def row(one: Numbers) -> dict[str, Any]:
    """For a table."""
    return {
        "node": one.node,
        "requests": f"{one.requests:,.1f}",
        "changes": f"{one.changes:,.1f}",
        "notified": f"{one.notified + one.delivered:,.1f}",
        "between": f"{one.between:,.1f}",
        "times": "–" if one.mean_ms is None or one.p95_ms is None else f"{one.mean_ms:,.1f} / {one.p95_ms:,.1f}",
        "memory": f"{one.memory_mib:,.0f}",
        "waiting": f"{one.waiting:,}",
        "dead": f"{one.dead:,}",
        "state": one.problem or "answers",
    }
