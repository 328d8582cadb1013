"""DisGB, table III at the paper's own sizes: the simulation with 100,000 and 1,000,000 clients, computed on Spark.

The counts are those that the real brokers would give (`hanse.pipeline.simulation`); the clients are drawn anew, as many as the
paper has.
"""

from __future__ import annotations

from math import nan
from time import perf_counter
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from hanse.simulation.latency import by_distance
from hanse.simulation.run import field_size, settings_for
from hanse.simulation.topologies import topology
from hanse.studies.disgb.runs import EVENT_CLASSES, NAMES, SUBSCRIPTION_CLASSES
from hanse.studies.disgb.simulation import DISGB, DURATION_S, OTHERS, TABLE_III
from hanse.studies.report import Report, number, progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from hanse.simulation.run import Result


class Size(Struct, frozen=True, order=True):
    brokers: int
    clients: int


COLUMNS: Final = (Size(25, 100_000), Size(25, 1_000_000), Size(256, 100_000))  # those of table III, in its order


class Sizes(Struct, frozen=True):
    """`columns`: what stands for each column of table III. `more`: others, for the plots of cost by clients and by brokers."""

    columns: tuple[Size, Size, Size] = COLUMNS
    more: tuple[Size, ...] = (Size(25, 10_000), Size(9, 100_000), Size(64, 100_000))
    duration_s: int = DURATION_S

    @property
    def every(self) -> tuple[Size, ...]:
        """The small ones first: if it takes too long, they are there."""
        return tuple(sorted({*self.columns, *self.more}, key=lambda size: size.brokers**0.5 * size.clients))


FULL: Final = Sizes()
QUICK: Final = Sizes((Size(25, 2_000), Size(25, 5_000), Size(64, 2_000)), (Size(25, 500), Size(9, 2_000)))


class Ran(Struct, frozen=True):
    result: Result
    seconds: float  # includes what several strategies share, for the first one that needs it

    @property
    def events(self) -> int:
        return sum(self.result.messages.get(name, 0) for name in EVENT_CLASSES)

    @property
    def without_locations(self) -> int:
        return self.events + sum(self.result.messages.get(name, 0) for name in SUBSCRIPTION_CLASSES)


def study_on_spark(sizes: Sizes, *, seed: int, clients_max: int, master: str) -> Report:
    """`clients_max`: sizes with more clients are left out, and said to be."""
    from hanse.pipeline.simulation import simulation_session

    wanted = [size for size in sizes.every if size.clients <= clients_max]
    most = max((size.clients for size in wanted), default=1)
    with (
        simulation_session("hanse-study-disgb", most, master) as spark,
        progress("DisGB on Spark", len(wanted) * len(NAMES)) as step,
    ):
        ran = {size: run_size(spark, size, seed=seed, duration_s=sizes.duration_s, step=step) for size in wanted}
    return report_of(sizes, ran)


def report_of(sizes: Sizes, ran: dict[Size, dict[str, Ran]]) -> Report:
    report = Report(
        "DisGB: table III at full size",
        "The simulation of Hasenburg and Bermbach, DisGB: Using Geo-Context Information for Efficient Routing in Geo-Distributed "
        "Pub/Sub Systems, with as many clients as in the paper. Messages and latencies are those of Hanse's brokers, computed by "
        "joins in Spark instead of message by message; for fewer clients both ways give the same numbers.",
    )
    _table_3(report, sizes, ran)
    for size, runs in ran.items():
        _messages(report, size, runs)
    _statements(report, ran)
    _costs(report, ran)
    return report


def run_size(spark: SparkSession, size: Size, *, seed: int, duration_s: int, step: Callable[[float], None]) -> dict[str, Ran]:
    from hanse.pipeline.simulation import hiking_simulation

    federation = topology("cities", nodes=size.brokers, seed=seed, clients=size.clients)
    field_deg = field_size(federation)
    ran = {}
    started = perf_counter()
    with hiking_simulation(
        spark, federation, clients=size.clients, duration_s=duration_s, seed=seed, field_deg=field_deg
    ) as simulation:
        for strategy in NAMES:
            settings = settings_for(strategy, federation, field_size_deg=field_deg, flood_locations=True)
            result = simulation.run(settings, by_distance(settings.federation))
            now = perf_counter()
            ran[strategy] = Ran(result, now - started)
            started = now
            step(1)
    return ran


def _table_3(report: Report, sizes: Sizes, ran: dict[Size, dict[str, Ran]]) -> None:
    for column, (paper, size) in enumerate(zip(COLUMNS, sizes.columns, strict=True)):
        where = f"{paper.brokers} brokers, {paper.clients:,} clients"
        if size not in ran:
            report.text(f"Table III, {where}", f"Left out: {size.clients:,} clients are more than asked for (--clients-max).")
            continue
        rows: list[tuple[str, float | None, float | None, str]] = []
        for strategy, each in ran[size].items():
            mean, sd = TABLE_III[strategy][column]
            latency = each.result.latency_ms
            rows.append((NAMES[strategy], mean, latency.mean, f"sd: paper {sd}, ours {number(latency.sd or 0.0)}"))
        same = size == paper
        report.compare(
            f"Table III: mean event delivery latency, {where}"
            + ("" if same else f" (ours {size.brokers} brokers, {size.clients:,} clients)"),
            rows,
            unit="ms",
            note=f"{ran[size]['dht'].result.deliveries:,} deliveries. Our brokers stand in other cities than the authors': how "
            "far they are apart decides the latency of DHT, and how many clients the largest of them have decides how many "
            "deliveries stay at one broker and take 10 ms.",
            key=f"table_3_{paper.brokers}_{paper.clients}",
        )


def _messages(report: Report, size: Size, ran: dict[str, Ran]) -> None:
    report.table(
        f"Messages between {size.brokers} brokers, {size.clients:,} clients",
        ("strategy", "events", "subscriptions", "in all", "deliveries", "seconds"),
        [
            [
                NAMES[strategy],
                each.events,
                each.without_locations - each.events,
                each.without_locations,
                each.result.deliveries,
                each.seconds,
            ]
            for strategy, each in ran.items()
        ],
        note="Without location updates, which go to all brokers in every strategy, as the paper counts. Seconds: to compute it; "
        "what several strategies share counts for the first of them.",
        key=f"messages_{size.brokers}_{size.clients}",
    )


def _statements(report: Report, ran: dict[Size, dict[str, Ran]]) -> None:
    rows: list[tuple[str, str, bool, str]] = []
    for size, runs in ran.items():
        sent = {strategy: each.without_locations for strategy, each in runs.items()}
        name = f"{size.brokers} brokers, {size.clients:,} clients"
        near = max(sent[strategy] for strategy in DISGB)
        other = min(OTHERS, key=sent.__getitem__)
        if size.brokers <= COLUMNS[0].brokers:
            rows.append(
                (
                    name,
                    "both DisGB need fewer messages than all others",
                    near < sent[other],
                    f"{near:,}; {NAMES[other]} {sent[other]:,}",
                )
            )
        else:
            least = min(sent, key=sent.__getitem__)
            rows.append(
                (name, "DHT needs the fewest messages", least == "dht", f"{NAMES[least]} {sent[least]:,}; DHT {sent['dht']:,}")
            )
        for fewer, more in (("geo-subscriber", "geo-publisher"), ("flood-events", "flood-subscriptions")):
            rows.append(
                (
                    name,
                    f"{NAMES[fewer]} needs fewer than {NAMES[more]}",
                    sent[fewer] < sent[more],
                    f"{sent[fewer]:,} and {sent[more]:,}",
                )
            )
    for few, many in zip(sorted(ran), sorted(ran)[1:], strict=False):
        if few.brokers == many.brokers:
            times = [
                ran[many][strategy].without_locations / ran[few][strategy].without_locations
                for strategy in NAMES
                if ran[few][strategy].without_locations
            ]
            grown = many.clients / few.clients
            rows.append(
                (
                    f"{many.brokers} brokers",
                    f"{grown:g} times the clients ({few.clients:,} to {many.clients:,}) give about as many times the messages",
                    0.8 * grown < min(times) and max(times) < 1.2 * grown,
                    f"{min(times):.1f} to {max(times):.1f} times",
                )
            )
    report.table("What the paper states, checked", ("size", "statement", "holds", "measured"), rows, key="statements")


def _costs(report: Report, ran: dict[Size, dict[str, Ran]]) -> None:
    """Messages and seconds against the number of clients, and against that of brokers."""
    lines = (
        ("clients", COLUMNS[0].brokers, sorted(size for size in ran if size.brokers == COLUMNS[0].brokers)),
        ("brokers", _usual(ran), sorted(size for size in ran if size.clients == _usual(ran))),
    )
    for axis, fixed, sizes in lines:
        if len(sizes) < 2:  # a line has two ends
            continue
        places = [size.clients if axis == "clients" else size.brokers for size in sizes]
        what = f"{fixed} brokers" if axis == "clients" else f"{fixed:,} clients"
        for kind, label in (("messages", "messages between brokers"), ("seconds", "seconds to compute")):
            report.lines(
                f"{label.capitalize()} by number of {axis}, {what}",
                f"{kind}-by-{axis}",
                places,
                {
                    NAMES[strategy]: [
                        (ran[size][strategy].without_locations if kind == "messages" else ran[size][strategy].seconds) or nan
                        for size in sizes
                    ]
                    for strategy in NAMES
                },
                ylabel=label,
                xlabel=axis,
                log=True,
                log_x=True,
                note="Both scales are logarithmic.",
            )


def _usual(ran: dict[Size, dict[str, Ran]]) -> int:
    """The number of clients that most numbers of brokers were run with."""
    clients = [size.clients for size in ran]
    return max(clients, key=lambda each: (clients.count(each), each), default=0)
