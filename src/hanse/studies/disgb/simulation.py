"""DisGB, section VI: brokers at large cities, seven strategies, messages and latencies (figures 9 to 12, table III)."""

from __future__ import annotations

from collections import Counter
from math import nan
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from hanse.routing import Settings
from hanse.simulation.latency import by_distance
from hanse.simulation.topologies import topology
from hanse.studies.disgb.runs import CLIENT_HOP_MS, NAMES, Outcome, Task, run_all
from hanse.studies.report import number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hanse.routing import Federation
    from hanse.studies.report import Report

DURATION_S: Final = 900
TOPICS: Final = 1000
DISGB: Final = ("geo-subscriber", "geo-publisher")
OTHERS: Final = tuple(strategy for strategy in NAMES if strategy not in DISGB)
PAPER_CLIENTS: Final = 100_000
# mean and standard deviation in ms: 25 brokers and 100,000 clients; 25 and 1,000,000; 256 and 100,000
TABLE_III: Final = {
    "broadcast-groups": ((22, 63), (27, 75), (24, 69)),
    "dht": ((353, 188), (348, 184), (355, 195)),
    "geo-subscriber": ((16, 26), (19, 31), (16, 8)),
    "geo-publisher": ((16, 26), (19, 31), (16, 8)),
    "flood-events": ((16, 26), (19, 31), (16, 8)),
    "flood-subscriptions": ((16, 26), (19, 31), (16, 8)),
    "grid-quorum": ((31, 85), (39, 98), (105, 145)),
}


class OwnRun(Struct, frozen=True):
    """What the authors' simulator answers for DisGB E with few clients."""

    clients: int = 989
    to_themselves: int = 5_597
    to_others: int = 115
    across: int = 23
    latency_ms: float = 10.179271708683451

    @property
    def way_ms(self) -> float:
        """How much longer than 10 ms a delivery to another broker takes."""
        return (self.latency_ms - 2 * CLIENT_HOP_MS) * (self.to_themselves + self.to_others) / self.across

    def mean_ms(self, clients: int) -> float:
        """The mean latency with more clients: to themselves in proportion, to others by the square."""
        times = clients / self.clients
        return 2 * CLIENT_HOP_MS + self.way_ms * self.across * times / (self.to_themselves + self.to_others * times)


AUTHORS: Final = OwnRun()


class Sizes(Struct, frozen=True):
    """All strategies run with `clients`, a tenth of them, and `many_clients` at `many` brokers; trends: DisGB E."""

    brokers: int = 25
    many: int = 256
    clients: int = 10_000
    many_clients: int = 2_000
    trend: tuple[int, ...] = (1_000, 3_000, 10_000, 30_000, 100_000)
    many_trend: tuple[int, ...] = (2_000, 10_000, 30_000)
    draws: int = 20
    duration_s: int = DURATION_S

    @property
    def fewer(self) -> int:
        return max(1, self.clients // 10)


class Runs(Struct, frozen=True):
    few: dict[str, Outcome]
    fewer_clients: dict[str, Outcome]
    many: dict[str, Outcome]
    trend: dict[int, Outcome]
    many_trend: dict[int, Outcome]
    draws: list[Outcome]  # other cities, calculated only


def tell(report: Report, sizes: Sizes, *, seed: int, at_once: int) -> None:
    runs = _run(sizes, seed=seed, at_once=at_once)
    _messages(report, runs.few, 9, sizes.brokers, sizes.clients)
    _messages(report, runs.many, 10, sizes.many, sizes.many_clients)
    _latencies(report, runs.few, 11, sizes.brokers, sizes.clients, column=0)
    _latencies(report, runs.many, 12, sizes.many, sizes.many_clients, column=2)
    _statements(report, sizes, runs)
    _draws(report, sizes, runs)
    _trend(report, sizes, runs)
    _words(report, sizes, runs, seed)


def _run(sizes: Sizes, *, seed: int, at_once: int) -> Runs:
    def task(strategy: str, brokers: int, clients: int) -> Task:
        return Task(
            workload="hiking",
            strategy=strategy,
            clients=clients,
            duration_s=sizes.duration_s,
            seed=seed,
            brokers=brokers,
            flood_locations=True,
        )

    few = {strategy: task(strategy, sizes.brokers, sizes.clients) for strategy in NAMES}
    fewer_clients = {strategy: task(strategy, sizes.brokers, sizes.fewer) for strategy in NAMES}
    many = {strategy: task(strategy, sizes.many, sizes.many_clients) for strategy in NAMES}
    trend = {clients: task("geo-subscriber", sizes.brokers, clients) for clients in sizes.trend}
    many_trend = {clients: task("geo-subscriber", sizes.many, clients) for clients in sizes.many_trend}
    draws = [replace(task("", sizes.brokers, sizes.fewer), seed=draw) for draw in range(sizes.draws)]
    wanted = [*trend.values(), *many_trend.values(), *many.values(), *few.values(), *fewer_clients.values(), *draws]
    longest_first = sorted(dict.fromkeys(wanted), key=lambda each: -each.clients * each.brokers)
    outcomes = run_all(longest_first, "DisGB simulation", at_once=at_once)
    return Runs(
        {name: outcomes[each] for name, each in few.items()},
        {name: outcomes[each] for name, each in fewer_clients.items()},
        {name: outcomes[each] for name, each in many.items()},
        {clients: outcomes[each] for clients, each in trend.items()},
        {clients: outcomes[each] for clients, each in many_trend.items()},
        [outcomes[each] for each in draws],
    )


def _messages(report: Report, runs: Mapping[str, Outcome], figure: int, brokers: int, clients: int) -> None:
    title = f"Figure {figure}: messages between {brokers} brokers, {clients:,} clients"
    least = min(outcome.without_locations for outcome in runs.values())
    rows = [
        [
            NAMES[strategy],
            outcome.messages.get("Event", 0),
            outcome.messages.get("Delivery", 0),
            outcome.subscription_messages,
            outcome.without_locations,
            outcome.without_locations / least if least else None,
        ]
        for strategy, outcome in runs.items()
    ]
    first = next(iter(runs.values()))
    report.table(
        title,
        ("strategy", "events to match", "matched events", "subscriptions", "in all", "times the least"),
        rows,
        note=f"{first.counted.events:,} events and {first.counted.subscription_updates:,} subscription updates of clients. "
        "Location updates go to all brokers in every strategy and are disregarded, as in the paper, whose figure has no numbers.",
        key=f"figure_{figure}",
    )
    report.bars(
        title,
        f"figure-{figure}",
        [NAMES[strategy] for strategy in runs],
        {
            "events, to match or matched": [outcome.event_messages for outcome in runs.values()],
            "subscriptions": [outcome.subscription_messages for outcome in runs.values()],
        },
        ylabel="messages between brokers",
        log=True,
        note="Logarithmic scale; where there is no bar, no such messages are sent.",
    )


def _latencies(report: Report, runs: Mapping[str, Outcome], figure: int, brokers: int, clients: int, *, column: int) -> None:
    rows: list[tuple[str, float | None, float | None, str]] = []
    for strategy, outcome in runs.items():
        mean, sd = TABLE_III[strategy][column]
        latency = outcome.latency
        quartiles = " / ".join(number(each) for each in latency.quartiles)
        rows.append((NAMES[strategy], mean, latency.mean, f"sd: paper {sd}, ours {number(latency.sd)}; quartiles {quartiles}"))
    report.compare(
        f"Table III: mean event delivery latency, {brokers} brokers (paper {PAPER_CLIENTS:,} clients, ours {clients:,})",
        rows,
        unit="ms",
        note="sd: standard deviation; the quartiles are ours."
        + (
            " Fewer clients bring the means nearer to 10 ms, except for DHT: see the last section."
            if clients < PAPER_CLIENTS
            else ""
        ),
        key=f"table_3_{brokers}",
    )
    report.table(
        f"Figure {figure}: subscription update delay, {brokers} brokers, {clients:,} clients",
        ("strategy", "updates", "mean ms", "sd", "first quartile", "median", "third quartile", "longest"),
        [
            [NAMES[strategy], delay.count, delay.mean, delay.sd, *delay.quartiles, delay.greatest]
            for strategy, delay in ((strategy, outcome.delay) for strategy, outcome in runs.items())
        ],
        note="From the subscriber's broker to the one that receives the update. None where events travel to the subscriptions.",
        key=f"figure_{figure}",
    )
    report.bars(
        f"Figure {figure}: latency and delay, {brokers} brokers",
        f"figure-{figure}",
        [NAMES[strategy] for strategy in runs],
        {
            f"event delivery, paper ({PAPER_CLIENTS // 1000}k clients)": [TABLE_III[strategy][column][0] for strategy in runs],
            "event delivery, ours": [outcome.latency.mean for outcome in runs.values()],
            "subscription update delay, ours": [outcome.delay.mean for outcome in runs.values()],
        },
        ylabel="mean, ms",
        log=True,
        note="Logarithmic scale; where there is no bar, no updates are sent. A delivery that crosses no brokers "
        f"takes {2 * CLIENT_HOP_MS} ms.",
    )


def _statements(report: Report, sizes: Sizes, runs: Runs) -> None:
    few, many = runs.few, runs.many
    sent = {strategy: outcome.without_locations for strategy, outcome in few.items()}
    sent_many = {strategy: outcome.without_locations for strategy, outcome in many.items()}
    best_other = min(OTHERS, key=sent.__getitem__)
    worse_disgb = max(sent[strategy] for strategy in DISGB)
    lowest_many = min(sent_many, key=sent_many.__getitem__)
    ratios = {
        strategy: sent[strategy] / runs.fewer_clients[strategy].without_locations
        for strategy in NAMES
        if runs.fewer_clients[strategy].without_locations
    }
    fewest, most = min(ratios.values(), default=nan), max(ratios.values(), default=nan)
    at_ten = all(few[s].latency.quartiles == (10.0, 10.0, 10.0) for s in NAMES if s != "dht")
    same = {strategy: few[strategy].latency.mean for strategy in (*DISGB, "flood-events", "flood-subscriptions")}
    dht = few["dht"].latency.mean
    most_clients = max(runs.trend)
    at_most = runs.trend[most_clients].latency.mean
    third = runs.many_trend[max(runs.many_trend)].latency.quartiles[2]
    rows: list[tuple[str, bool, str]] = []

    def state(statement: str, holds: bool, measured: str) -> None:
        rows.append((statement, holds, measured))

    state(
        f"{sizes.brokers} brokers: both DisGB need fewer messages than all others",
        worse_disgb < sent[best_other],
        f"the larger of the two {worse_disgb:,}, next {NAMES[best_other]} {sent[best_other]:,}; both below DHT in "
        f"{sum(map(_below_dht, runs.draws))} of {len(runs.draws)} draws of cities",
    )
    state(
        "DisGB E needs fewer than DisGB S",
        sent["geo-subscriber"] < sent["geo-publisher"],
        f"{sent['geo-subscriber']:,} and {sent['geo-publisher']:,}",
    )
    state(
        "Flood E needs fewer than Flood S",
        sent["flood-events"] < sent["flood-subscriptions"],
        f"{sent['flood-events']:,} and {sent['flood-subscriptions']:,}",
    )
    state(
        f"ten times the clients ({sizes.fewer:,} to {sizes.clients:,}) give about ten times the messages",
        fewest > 8 and most < 12,
        f"{fewest:.1f} to {most:.1f} times",
    )
    state(
        f"{sizes.many} brokers: DHT needs the fewest",
        lowest_many == "dht",
        f"DHT {sent_many['dht']:,}, DisGB E {sent_many['geo-subscriber']:,}, DisGB S {sent_many['geo-publisher']:,}",
    )
    state(
        f"{sizes.brokers} brokers: three quartiles of the latency are 10 ms for all but DHT",
        at_ten,
        f"third quartile of DHT {number(few['dht'].latency.quartiles[2])} ms",
    )
    state(
        "both DisGB deliver as fast as flooding, within half a millisecond",
        max(same.values()) - min(same.values()) < 0.5,
        ", ".join(f"{NAMES[strategy]} {mean:.2f}" for strategy, mean in same.items()) + " ms",
    )
    state(
        "DHT takes more than ten times as long as DisGB (paper: up to 22 times)",
        dht / few["geo-subscriber"].latency.mean > 10,
        f"{dht / few['geo-subscriber'].latency.mean:.1f} times with {sizes.clients:,} clients; "
        f"{dht / at_most:.1f} times by the mean of DisGB E with {most_clients:,}",
    )
    state(
        f"{sizes.many} brokers: the third quartile is above 10 ms",
        third > 10.0,
        f"{number(third)} ms with {max(runs.many_trend):,} clients, DisGB E",
    )
    report.table("What the paper states, checked", ("statement", "holds", "measured"), rows, key="statements")


def _draws(report: Report, sizes: Sizes, runs: Runs) -> None:
    rows: list[list[object]] = []
    for outcome in runs.draws:
        federation = topology("cities", nodes=sizes.brokers, seed=outcome.task.seed, clients=outcome.task.clients)
        near, dht = _without_locations(outcome), outcome.messages["dht"]
        rows.append(
            [
                outcome.task.seed,
                outcome.messages["geo-subscriber"],
                near,
                dht,
                near / dht,
                near < dht,
                expected_dht_ms(federation),
            ]
        )
    report.table(
        f"Draws of {sizes.brokers} cities",
        ("seed", "DisGB E messages", "DisGB S messages", "DHT messages", "S / DHT", "S below DHT", "DHT latency ms"),
        rows,
        note=f"Calculated for {sizes.fewer:,} clients, without matched events for others. The authors' own draw, with 989 "
        "clients in their simulator: DisGB E 5,108, DisGB S 13,325, DHT 17,929 and 363 ms.",
        key="draws",
    )


def _without_locations(outcome: Outcome) -> int:
    return outcome.messages["geo-publisher"] - outcome.messages["geo-publisher, locations"]


def _below_dht(outcome: Outcome) -> bool:
    return max(_without_locations(outcome), outcome.messages["geo-subscriber"]) < outcome.messages["dht"]


def _trend(report: Report, sizes: Sizes, runs: Runs) -> None:
    rows: list[list[object]] = []
    for brokers, trend in ((sizes.brokers, runs.trend), (sizes.many, runs.many_trend)):
        for clients, outcome in trend.items():
            count = outcome.latency.count
            rows.append([
                brokers, clients, count, outcome.to_themselves, outcome.across, 100 * outcome.across / count if count else None,
                outcome.latency.mean, outcome.latency.sd, outcome.latency.quartiles[2],
            ])  # fmt: skip
    report.table(
        "How the latency of DisGB E grows with the number of clients",
        (
            "brokers",
            "clients",
            "deliveries",
            "to the publisher itself",
            "to another broker",
            "of all, %",
            "mean ms",
            "sd",
            "third quartile",
        ),
        rows,
        note="Mean and sd in the paper: 16 (26) with 25 brokers and 100,000 clients, 19 (31) with 1,000,000 clients, "
        "16 (8) with 256 brokers and 100,000 clients.",
        key="trend",
    )
    places = sorted({*sizes.trend, *sizes.many_trend, 100_000, 1_000_000})

    def ours(trend: Mapping[int, Outcome]) -> list[float]:
        return [trend[clients].latency.mean if clients in trend else nan for clients in places]

    report.lines(
        "Mean latency of DisGB E by number of clients",
        "latency-by-clients",
        places,
        {
            f"{sizes.brokers} brokers, ours": ours(runs.trend),
            f"{sizes.many} brokers, ours": ours(runs.many_trend),
            "25 brokers, paper": [{100_000: 16.0, 1_000_000: 19.0}.get(clients, nan) for clients in places],
            "256 brokers, paper": [{100_000: 16.0}.get(clients, nan) for clients in places],
        },
        ylabel="mean event delivery latency, ms",
        xlabel="clients",
        log_x=True,
        note="Clients on a logarithmic scale.",
    )


def _words(report: Report, sizes: Sizes, runs: Runs, seed: int) -> None:
    expected = sorted(
        expected_dht_ms(topology("cities", nodes=sizes.brokers, seed=draw, clients=sizes.fewer)) for draw in range(sizes.draws)
    )
    federation = topology("cities", nodes=sizes.brokers, seed=seed, clients=sizes.clients)
    here = expected_dht_ms(federation)
    largest = 100 * max(node.clients for node in federation.nodes) / sizes.clients
    below = sum(_without_locations(outcome) < outcome.messages["dht"] for outcome in runs.draws)
    below_e = sum(outcome.messages["geo-subscriber"] < outcome.messages["dht"] for outcome in runs.draws)
    dht = runs.few["dht"]
    clients, last = max(runs.trend.items())
    first_clients, first = min(runs.trend.items())
    many_clients, many = max(runs.many_trend.items())
    paper_dht = TABLE_III["dht"][0][0]
    like_these = "one draw like these" if expected[0] <= paper_dht <= expected[-1] else "which none of these draws gives"
    matched, sent = runs.few["geo-publisher"].messages.get("Delivery", 0), runs.few["geo-publisher"].without_locations
    report.text(
        "Figures 9 to 12 and table III, where ours differs and why",
        f"""
        Other cities. The authors drew their brokers from another list of cities (simplemaps); ours come from GeoNames. How far
        brokers are apart decides what DHT costs, since every event travels to the broker of its topic and back: 10 ms and twice
        the mean way between a client's broker and a topic's. For {sizes.draws} draws of {sizes.brokers} cities this comes to
        {expected[0]:.0f} to {expected[-1]:.0f} ms, half of them below {expected[len(expected) // 2]:.0f}; for the draw of this
        seed to {here:.0f} ms, and we measured {dht.latency.mean:.0f}. The paper has {paper_dht} ms, {like_these}. Into how many
        areas a geofence reaches depends on the draw as well: DisGB S is below DHT in {below} of the {len(runs.draws)} draws,
        DisGB E in {below_e}.

        Fewer clients. A client subscribes to the topics that it publishes to, so that each event comes back to its own publisher
        after 10 ms, and only what others receive takes longer. The more clients share the 1,000 topics, the more others there
        are: {_own(first)} of the deliveries go to the publisher itself with {first_clients:,} clients, {_own(last)} with
        {clients:,}. The mean of DisGB (flooding hardly differs) is {first.latency.mean:.1f} ms with the former and
        {last.latency.mean:.1f} ms with the latter; the paper has 16 ms with {PAPER_CLIENTS:,} and 19 ms with ten times as many.
        With {sizes.many} brokers it is {many.latency.mean:.1f} ms with {many_clients:,} clients, and 16 in the paper with
        {PAPER_CLIENTS:,}. The latency of BG and GQPS is subject to the same: their detours concern only what goes to others.

        Clients in fewer places. Deliveries to others at the same broker take 10 ms, too; what counts is how many go to another
        broker. In the authors' own run with {AUTHORS.clients} clients {AUTHORS.to_others} deliveries go to others,
        {AUTHORS.across} of them to another broker, {AUTHORS.way_ms:.0f} ms further each; deliveries to others grow with the
        square of the number of clients, which gives {AUTHORS.mean_ms(PAPER_CLIENTS):.1f} ms for {PAPER_CLIENTS:,} and
        {AUTHORS.mean_ms(10 * PAPER_CLIENTS):.1f} for ten times as many (from so few, give or take a fifth of what is above 10),
        near the paper's 16 and 19. It gives {AUTHORS.mean_ms(clients):.1f} ms for {clients:,}, where we have
        {last.latency.mean:.1f}. {_percent(AUTHORS.across, AUTHORS.to_others)} of theirs cross brokers, of ours, with {clients:,}
        clients, {_percent(last.across, last.latency.count - last.to_themselves)}: the largest of our {sizes.brokers} brokers has
        {largest:.0f} % of the clients, theirs 9 %.

        Fields. With {sizes.brokers} brokers the areas are made of fields of {dht.field_deg:g} degrees. {sizes.many}
        brokers at large cities stand closer than that; their areas are made of fields of {runs.many["dht"].field_deg:g} degrees,
        the largest with which each has one.

        Messages. Clients do the same however many they are: from {sizes.fewer:,} to {sizes.clients:,} clients the order of the
        strategies {"stays the same" if _order(runs.few) == _order(runs.fewer_clients) else "changes"}. Only the matched events
        for others grow with the square; of the messages of DisGB S they are {_percent(matched, sent)}.
        """,
    )


def _order(runs: Mapping[str, Outcome]) -> list[str]:
    return sorted(runs, key=lambda strategy: runs[strategy].without_locations)


def _own(outcome: Outcome) -> str:
    return _percent(outcome.to_themselves, outcome.latency.count)


def _percent(part: int, whole: int) -> str:
    percent = 100 * part / max(1, whole)
    return f"{percent:.0f} %" if percent >= 1 or not part else f"{percent:.1g} %"


def expected_dht_ms(federation: Federation) -> float:
    """The mean latency of an event that comes back to its publisher by way of the broker of its topic."""
    settings = Settings("dht", federation)
    owners = Counter(settings.hashed(f"t-{topic}") for topic in range(TOPICS))
    latencies = by_distance(federation)
    total = sum(node.clients for node in federation.nodes)
    way = sum(
        node.clients / total * count / TOPICS * latencies[node.id][owner]
        for node in federation.nodes
        for owner, count in owners.items()
        if owner != node.id
    )
    return 2 * CLIENT_HOP_MS + 2 * way
