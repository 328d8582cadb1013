"""What matching costs, against the limits that it has to keep and against a loop over `satisfies` in the same run.

    python benchmarks/bench_matching.py [--quick] [--json]

Each shape of load has subscriptions with content and a geofence (or only one of them, as named), about twenty of which match an
event at every size. Times are CPU time, the best of several rounds, because the machine has other things to do. An addition is
of a subscription with a filter that nobody has compiled yet. Memory is what a process of its own grows by: the index with its
subscriptions. Nothing is asserted; the last line says which limits hold.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import subprocess
import sys
from dataclasses import asdict, dataclass
from math import cos, inf, pi, sin, sqrt
from pathlib import Path
from time import process_time_ns
from typing import TYPE_CHECKING, TypeVar

from msgspec import structs
from rich.console import Console
from rich.table import Table

from hanse.filters import compile_q
from hanse.matching import MatchIndex, satisfies
from hanse.model import WORLD, Circle, Location, Notification, Polygon, Selector, Subscription

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")

SIZE = 100_000
EVENT_US_MAX = 100
CHANGE_US_MAX = 50
MB_MAX = 200
MATCHES = 20
EVENTS = 200
ROUNDS = 10
NEW = 2000
NAIVE_SAMPLE = 2000  # subscriptions; the loop is linear, so its time at 100,000 is this many times fifty
STATUS = ("open", "shut", "ajar", "jammed")


@dataclass
class Shape:
    name: str
    subscription: Callable[[random.Random, int, int], Subscription]
    event: Callable[[random.Random, int], tuple[Notification, Location]]


def _somewhere(rng: random.Random, size_deg: float = 10.0) -> tuple[float, float]:
    """In a region of some 1000 km around Hamburg."""
    return 53.5 + rng.uniform(-size_deg / 2, size_deg / 2), 10.0 + rng.uniform(-size_deg / 2, size_deg / 2)


def _radius(n: int, share: float = 1.0) -> float:
    """Of a circle such that a point of the region lies in MATCHES / share of n."""
    return sqrt(10.0 * 10.0 * 0.6 * MATCHES / share / n / pi)


def _subscription(i: int, n: int, kind: str = "Sensor", topic: str | None = None, **members: object) -> Subscription:
    selector = Selector(topic=topic) if topic else Selector(type=kind)
    return Subscription(id=f"urn:subscription:{i}", client=f"client-{i % max(1, n // 4)}", selectors=(selector,), **members)  # type: ignore[arg-type]


def _event(rng: random.Random, topic: str | None = None, **attributes: object) -> tuple[Notification, Location]:
    lat, lon = _somewhere(rng)
    known = {
        "temperature": {"type": "Property", "value": round(rng.uniform(0, 40), 1)},
        "humidity": {"type": "Property", "value": round(rng.uniform(0, 100), 1)},
        "status": {"type": "Property", "value": rng.choice(STATUS)},
        "serial": {"type": "Property", "value": rng.randrange(10**6)},
    }
    known.update({name: {"type": "Property", "value": value} for name, value in attributes.items()})
    return (
        Notification(
            id="n",
            publisher="p",
            topic=topic,
            types=("Sensor",),
            entity="urn:sensor:1",
            attributes=known,
            geofence=Circle(53.5, 10.0, 20.0),
        ),
        Location(lat, lon),
    )


def _polygon(rng: random.Random, n: int, share: float) -> Polygon:
    """Four corners at random distances from the middle, in a point of the region as often as a circle."""
    lat, lon = _somewhere(rng)
    turn = rng.uniform(0, pi / 2)
    ring = []
    for corner in range(4):
        distance, angle = _radius(n, share) * rng.uniform(0.9, 1.6), turn + corner * pi / 2 + rng.uniform(-0.3, 0.3)
        ring.append((lon + distance / 0.6 * cos(angle), lat + distance * sin(angle)))
    return Polygon((((*ring, ring[0]),),))


def _topics(n: int) -> int:
    return max(1, n // 80)


SHAPES = (
    Shape(
        "many topics, content + geo",
        lambda rng, i, n: _subscription(
            i,
            n,
            topic=f"topic/{i % _topics(n)}",
            q=f"temperature>{round(rng.uniform(0, 40), 1)}",
            geofence=Circle(*_somewhere(rng), 4.0),
        ),
        lambda rng, n: _event(rng, f"topic/{rng.randrange(_topics(n))}"),
    ),
    Shape(
        "one type, geo-selective, content + geo",
        lambda rng, i, n: _subscription(
            i,
            n,
            q=f'temperature>{round(rng.uniform(0, 40), 1)};status=="{rng.choice(STATUS)}"',
            geofence=Circle(*_somewhere(rng), _radius(n, 1 / 8)),
        ),
        lambda rng, _: _event(rng),
    ),
    Shape(
        "one type, polygons, content + geo",
        lambda rng, i, n: _subscription(
            i,
            n,
            q=f'temperature>{round(rng.uniform(0, 40), 1)};status=="{rng.choice(STATUS)}"',
            geofence=_polygon(rng, n, 1 / 8),
        ),
        lambda rng, _: _event(rng),
    ),
    Shape(
        "one type, content-selective, content + geo",
        lambda rng, i, n: _subscription(
            i,
            n,
            q=f"serial=={rng.randrange(max(1, n // (MATCHES * 4)))};temperature>{round(rng.uniform(0, 40), 1)}",
            geofence=Circle(*_somewhere(rng), 4.0),
        ),
        lambda rng, n: _event(rng, serial=rng.randrange(max(1, n // (MATCHES * 4)))),
    ),
    Shape(
        "one type, bounded ranges, content",
        lambda rng, i, n: _subscription(
            i, n, q=f"serial>{(low := rng.uniform(0, 10**6)):.3f};serial<{low + 10**6 * MATCHES / n:.3f}", geofence=WORLD
        ),
        lambda rng, _: _event(rng),
    ),
    Shape(
        "one type, one-sided ranges, content",
        lambda rng, i, n: _subscription(
            i, n, q=f"level>{rng.uniform(0, 1):.6f};humidity>{rng.uniform(0, 50):.1f}", geofence=WORLD
        ),
        lambda rng, n: _event(rng, level=rng.uniform(0, min(1.0, 2 * MATCHES / n)), humidity=60),
    ),
)


def best_us(call: Callable[[], object], times: int, rounds: int = ROUNDS) -> float:
    """Microseconds for one of the `times` things that a call does: the best round."""
    return min(_timed_ns(call) for _ in range(rounds)) / times / 1000


def each(do: Callable[[T], object], things: Iterable[T]) -> None:
    for thing in things:
        do(thing)


def _timed_ns(call: Callable[[], object]) -> int:
    began = process_time_ns()
    call()
    return process_time_ns() - began


def build(shape: Shape, n: int, seed: int = 1) -> tuple[MatchIndex, list[Subscription]]:
    rng = random.Random(seed)
    subscriptions = [shape.subscription(rng, i, n) for i in range(n)]
    index = MatchIndex()
    for i in range(0, n, 4):
        index.move(f"client-{i // 4}", Location(*_somewhere(rng)))
    for subscription in subscriptions:
        index.add(subscription)
    return index, subscriptions


@dataclass
class Row:
    shape: str
    subscriptions: int
    matches: float
    event_us: float
    naive_us: float
    add_us: float
    remove_us: float
    mb: float


def measure(shape: Shape, n: int) -> Row:
    build(shape, 100)
    gc.collect()
    before_mb = resident_mb()
    index, subscriptions = build(shape, n)
    sample = random.Random(3).sample(subscriptions, min(n, NAIVE_SAMPLE))
    del subscriptions
    gc.collect()
    mb = resident_mb() - before_mb

    rng = random.Random(2)
    events = [shape.event(rng, n) for _ in range(EVENTS)]
    matches = sum(len(index.match(event, place)) for event, place in events) / EVENTS
    event_us = best_us(lambda: [index.match(event, place) for event, place in events], EVENTS)

    pairs = events[:5]
    naive = best_us(
        lambda: [satisfies(s, event, place, index.location(s.client)) for event, place in pairs for s in sample], len(pairs), 2
    ) * (n / len(sample))

    add_us, remove_us = inf, inf
    for _ in range(3):
        new = [structs.replace(shape.subscription(rng, i, n), id=f"urn:subscription:new:{i}") for i in range(NEW)]
        compile_q.cache_clear()
        add_us = min(add_us, best_us(lambda: each(index.add, new), NEW, 1))  # noqa: B023
        remove_us = min(remove_us, best_us(lambda: each(index.remove, [s.id for s in new]), NEW, 1))  # noqa: B023
    return Row(shape.name, n, matches, event_us, naive, add_us, remove_us, mb)


def measure_apart(number: int, n: int) -> Row:
    """In a process of its own, whose memory nothing else has touched."""
    command = [sys.executable, __file__, "--one", str(number), str(n)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return Row(**json.loads(run.stdout))


def resident_mb() -> float:
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4096 / 1e6


def small() -> dict[str, float]:
    """What a broker in a simulator pays, whose index is small: microseconds."""
    index = MatchIndex()
    topics = [
        Subscription(id=f"s{i}", client=f"c{i}", selectors=(Selector(topic=f"t{i % 20}"),), geofence=Circle(50 + i / 100, 10, 1))
        for i in range(100)
    ]
    moved = [
        Subscription(id=s.id, client=s.client, selectors=s.selectors, geofence=Circle(50, 10 + i / 100, 1))
        for i, s in enumerate(topics)
    ]
    nobody = Notification(id="n", publisher="p", topic="nobody", geofence=Circle(50, 10, 5))
    some = Notification(id="n", publisher="p", topic="t3", geofence=Circle(50, 10, 5))
    place = Location(50.2, 10)
    times = range(200)
    costs = {"add (topic + circle)": best_us(lambda: each(index.add, topics), 100, 1)}
    for s in topics:
        index.move(s.client, place)
    costs["replace, another geofence"] = best_us(lambda: each(index.add, moved), 100)
    costs["move"] = best_us(lambda: each(lambda _: index.move("c5", place), times), 200)
    costs["event nobody subscribed"] = best_us(lambda: [index.match(nobody, place) for _ in times], 200)
    costs["event with 5 candidates, 5 match"] = best_us(lambda: [index.match(some, place) for _ in times], 200)
    costs["remove"] = best_us(lambda: [index.remove(s.id) for s in topics], 100, 1)
    return costs


def verdict(rows: list[Row], sizes: tuple[int, ...]) -> str:
    """In words, for the largest size measured."""
    largest = [row for row in rows if row.subscriptions == sizes[-1]]
    linear = sizes[-1] / sizes[0]
    worst = (
        (f"{EVENT_US_MAX} µs an event", max(row.event_us for row in largest), EVENT_US_MAX, "µs"),
        (f"{CHANGE_US_MAX} µs to add one", max(row.add_us for row in largest), CHANGE_US_MAX, "µs"),
        (f"{CHANGE_US_MAX} µs to remove one", max(row.remove_us for row in largest), CHANGE_US_MAX, "µs"),
        (f"{MB_MAX} MB", max(row.mb for row in largest), MB_MAX, "MB"),
        ("less than linear growth", max(growths(rows, sizes).values()), linear, f"times for {linear:,.0f} times as many"),
    )
    said = [
        f"{limit} {'holds' if value <= most else 'DOES NOT HOLD'} (worst {value:.1f} {unit})"
        for limit, value, most, unit in worst
    ]
    return f"At {sizes[-1]:,} subscriptions: {'; '.join(said)}."


def growths(rows: list[Row], sizes: tuple[int, ...]) -> dict[str, float]:
    """How many times longer an event takes at the largest than at the smallest size, by shape."""
    times = {(row.shape, row.subscriptions): row.event_us for row in rows}
    return {shape.name: times[shape.name, sizes[-1]] / times[shape.name, sizes[0]] for shape in SHAPES}


def print_tables(rows: list[Row], sizes: tuple[int, ...], costs: dict[str, float]) -> None:
    console = Console(width=150)
    table = Table(title="one large index, CPU time")
    for column in (
        "shape",
        "subscriptions",
        "matches",
        "µs/event",
        "µs/event, loop",
        "times faster",
        "µs add",
        "µs remove",
        "MB",
    ):
        table.add_column(column, justify="left" if column == "shape" else "right")
    for r in rows:
        counts = (f"{r.subscriptions:,}", f"{r.matches:.1f}")
        times = (
            f"{r.event_us:.1f}",
            f"{r.naive_us:,.0f}",
            f"{r.naive_us / r.event_us:,.0f}",
            f"{r.add_us:.1f}",
            f"{r.remove_us:.1f}",
        )
        table.add_row(r.shape, *counts, *times, f"{r.mb:.0f}", end_section=r.subscriptions == sizes[-1])
    table.add_row("at most", f"{SIZE:,}", "", str(EVENT_US_MAX), "", "", str(CHANGE_US_MAX), str(CHANGE_US_MAX), str(MB_MAX))
    console.print(table)
    steps = " -> ".join(f"{n:,}" for n in sizes)
    table = Table("shape", "µs/event", "growth", title=f"growth, {steps} subscriptions")
    for name, growth in growths(rows, sizes).items():
        table.add_row(name, " -> ".join(f"{row.event_us:.1f}" for row in rows if row.shape == name), f"x {growth:.2f}")
    console.print(table)
    table = Table("100 subscriptions to 20 topics", "µs", title="one small index")
    for name, us in costs.items():
        table.add_row(name, f"{us:.2f}")
    console.print(table)
    console.print(verdict(rows, sizes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="up to 10,000 subscriptions")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", nargs=2, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        number, n = options.one
        print(json.dumps(asdict(measure(SHAPES[number], n))))
        return
    sizes = (1000, 10_000) if options.quick else (1000, 10_000, SIZE)
    rows = [measure_apart(number, n) for number in range(len(SHAPES)) for n in sizes]
    costs = small()
    if options.json:
        large = [asdict(row) for row in rows]
        print(json.dumps({"large": large, "growth": growths(rows, sizes), "small_us": costs, "verdict": verdict(rows, sizes)}))
    else:
        print_tables(rows, sizes, costs)


if __name__ == "__main__":
    main()
