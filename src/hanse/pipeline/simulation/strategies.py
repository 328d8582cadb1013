"""What each of the seven strategies sends and delivers, from counts. One function each; they read across line by line.

A function is given the `Run` and adds to its costs: where subscriptions go, where publications go, what is delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from hanse.pipeline.simulation.areas import touched_by_publications, touched_by_subscriptions
from hanse.pipeline.simulation.costs import Costs
from hanse.pipeline.simulation.following import located_by_areas, located_by_topics
from hanse.pipeline.simulation.matching import collected, cut_of, expression, numbers
from hanse.pipeline.simulation.touching import FieldMap
from hanse.simulation.latency import CLIENT_HOP_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hanse.pipeline.simulation.census import Census
    from hanse.pipeline.simulation.matching import Candidates
    from hanse.pipeline.simulation.network import Network
    from hanse.pipeline.simulation.tables import Tables

Numbers: TypeAlias = Any  # a numpy array of whole numbers
Step: TypeAlias = Callable[[str], None]


class Run:
    """One workload under one strategy; `shared` keeps what several strategies have in common, for the same latencies."""

    def __init__(
        self,
        tables: Tables,
        census: Census,
        candidates: Candidates,
        network: Network,
        *,
        shared: dict[tuple[str, bytes], Any],
        step: Step,
    ) -> None:
        self.tables = tables
        self.census = census
        self.candidates = candidates
        self.network = network
        self.shared = shared
        self.step = step
        self.costs = Costs(network)
        self.others = ~np.eye(network.size, dtype=bool)
        self.nobody = np.zeros((network.size, network.size), dtype=bool)

    @property
    def size(self) -> int:
        return self.network.size

    @cached_property
    def fields(self) -> FieldMap:
        return FieldMap.of(self.network.settings)

    # --- what clients do, by home: nothing at the cloud, which has none -----------------------------------------------

    def _by_home(self, values: Numbers) -> Numbers:
        return np.concatenate([values, np.zeros((self.size - values.shape[0], *values.shape[1:]), dtype=np.int64)])

    @cached_property
    def asked(self) -> tuple[Numbers, Numbers, Numbers]:
        """Updates of subscriptions by home and topic: how many, when the last was sent, and of how many clients."""
        counted = self.census.subscriptions
        return self._by_home(counted.count), self._by_home(counted.last_ms), self._by_home(counted.clients)

    @cached_property
    def published(self) -> tuple[Numbers, Numbers]:
        counted = self.census.publications
        return self._by_home(counted.count), self._by_home(counted.last_ms)

    def arrival(self, last_sent: Numbers) -> Numbers:
        """When what the clients of each home sent last is handled by each broker that it goes to straight."""
        return last_sent[:, None] + CLIENT_HOP_MS + self.network.ms

    # --- what several strategies do -----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Requests are handled at home."""
        for counted in (self.census.locations, self.census.subscriptions, self.census.publications):
            self.costs.handle(counted.count, counted.last_ms + CLIENT_HOP_MS)

    @property
    def floods_locations(self) -> bool:
        return self.network.settings.flood_locations

    def locate(self, targets: Numbers) -> None:
        """A location goes to the targets of its home if its client has subscribed to anything; flooded, to everyone always."""
        counted, targets = (self.census.locations, self.others) if self.floods_locations else (self.census.followed, targets)
        if targets.any():
            count, last = self._by_home(counted.count), self._by_home(counted.last_ms)
            self.costs.send("ClientLocation", count[:, None] * targets, self.arrival(last))

    def locate_where(self, told: Iterable[tuple[int, int, int, int]]) -> None:
        """Locations go to brokers that hold a subscription of their client: home, broker, how many, when the last was sent."""
        if self.floods_locations:
            self.locate(self.others)
            return
        sent, last = np.zeros_like(self.network.ms), np.zeros_like(self.network.ms)
        for home, broker, count, sent_ms in told:
            sent[home, broker], last[home, broker] = count, sent_ms
        self.costs.send("ClientLocation", sent, last + CLIENT_HOP_MS + self.network.ms)

    def put(self, targets: Numbers) -> None:
        """Every subscription is held at home, and by the targets of its home (a row of booleans)."""
        count, last, clients = self.asked
        sent = count.sum(axis=1)[:, None] * targets
        self.costs.send("PutSubscription", sent, self.arrival(_latest(last)))
        self.costs.delay(sent, self.network.ms)
        own = clients.sum(axis=1)
        self.costs.held += own + (own[:, None] * targets).sum(axis=0)

    def publish(self, targets: Numbers) -> None:
        """Every publication goes to the targets of its home."""
        count, last = self.published
        self.costs.send("Event", count.sum(axis=1)[:, None] * targets, self.arrival(_latest(last)))

    def totals(self, told: DataFrame, *more: str) -> dict[str, Numbers]:
        """By p, h (and more): publications, deliveries by how they were matched, and when the last was published."""
        from pyspark.sql import functions as f

        ways = [name for name in ("first", "second", "both") if name in told.columns]
        wanted = [f.count("*").alias("publications"), f.max("at").alias("last_ms")]
        wanted += [f.sum(way).alias(way) for way in ways]
        if "both" in ways:
            wanted += [f.max(f.expr(f"if({way} > 0, at, 0)")).alias(f"last_{way}") for way in ways]
            wanted += [f.count_if(f.expr(f"{way} + both > 0")).alias(f"told_{way}") for way in ways[:2]]
            wanted += [f.max(f.expr(f"if({way} + both > 0, at, 0)")).alias(f"last_told_{way}") for way in ways[:2]]
        return collected(told.groupBy("p", "h", *more).agg(*wanted))

    def grid(self, found: dict[str, Numbers], name: str) -> Numbers:
        made = np.zeros_like(self.network.ms)
        made[found["p"], found["h"]] = found[name]
        return made

    def match_at_subscriber(self) -> None:
        """Each broker that has the publication matches it for its own clients."""
        option = self.network.at_subscriber
        key = "at subscriber", self.network.ms.tobytes()
        if key not in self.shared:
            self.step("matching at the subscribers' brokers")
            told = self.candidates.told(self.candidates.stays(), cut_of(option, self.network))
            self.shared[key] = self.totals(told)
        found = self.shared[key]
        self.costs.deliver(self.grid(found, "first"), option.way, self.grid(found, "last_ms"))

    def match_at_publisher(self) -> None:
        """The publisher's broker matches for all, and tells each other home with a subscriber once."""
        option = self.network.at_publisher
        key = "at publisher", self.network.ms.tobytes()
        if key not in self.shared:
            self.step("matching at the publishers' brokers")
            told = self.candidates.told(self.candidates.stays(), cut_of(option, self.network)).persist()
            self.shared[key] = self.totals(told), self.involved(told, "h <> p")
            told.unpersist()
        found, involved = self.shared[key]
        last = self.grid(found, "last_ms")
        self.costs.deliver(self.grid(found, "first"), option.way, last)
        self.costs.send("Delivery", self.grid(found, "publications") * self.others, last + CLIENT_HOP_MS + self.network.ms)
        self.involve(involved, np.ones(self.size, dtype=np.int64))

    def involved(self, told: DataFrame, aside: str, *more: str, weight: str = "1") -> dict[str, Numbers]:
        """How many brokers publications are told to where `aside` holds: p (and more), n brokers, how many publications."""
        from pyspark.sql import functions as f

        by = [name for name in ("topic", "id", "p") if name not in more]
        per = told.where(aside).groupBy(*by, *more).agg(f.sum(f.expr(weight)).alias("n"))
        return collected(per.groupBy("p", *more, "n").agg(f.count("*").alias("times")))

    def involve(self, found: dict[str, Numbers], base: Numbers, *more: str) -> None:
        """`base`: how many brokers handle a publication of p (and more) anyway; those in `found` come on top."""
        left = (self.published[0] if more else self.published[0].sum(axis=1)).copy()
        place = tuple(found[key] for key in ("p", *more))
        np.subtract.at(left, place, found["times"])
        involved = self.costs.involved
        for brokers, times in zip(base.ravel().tolist(), left.ravel().tolist(), strict=True):
            involved[brokers] += times
        for brokers, n, times in zip(base[place].tolist(), found["n"].tolist(), found["times"].tolist(), strict=True):
            involved[brokers + n] += times

    def pass_on(self, kind: str, counts: Numbers, last_sent: Numbers) -> None:
        """What homes told their leaders goes on to the cloud."""
        network = self.network
        sent, arrives = np.zeros_like(network.ms), np.zeros_like(network.ms)
        np.add.at(sent[:, network.cloud], network.leader, counts)
        handled = np.where(counts > 0, last_sent + CLIENT_HOP_MS + network.to_cloud, 0)
        np.maximum.at(arrives[:, network.cloud], network.leader, handled)
        self.costs.send(kind, sent, arrives)

    def tell(self, source: Numbers, target: Numbers, counts: Numbers, handled_ms: Numbers) -> None:
        """`Delivery` messages, by lists of brokers; to itself a broker needs none."""
        away = (source != target) & (counts > 0)
        sent, arrives = np.zeros_like(self.network.ms), np.zeros_like(self.network.ms)
        np.add.at(sent, (source[away], target[away]), counts[away])
        np.maximum.at(arrives, (source[away], target[away]), handled_ms[away])
        self.costs.send("Delivery", sent, arrives)


def _latest(last_ms: Numbers) -> Numbers:
    return last_ms.max(axis=1, initial=0)


# --- the strategies ---------------------------------------------------------------------------------------------------


def flood_events(run: Run) -> None:
    run.locate(run.nobody)
    run.put(run.nobody)
    run.publish(run.others)
    run.match_at_subscriber()
    run.costs.involved[run.size] += int(run.published[0].sum())


def flood_subscriptions(run: Run) -> None:
    run.locate(run.others)
    run.put(run.others)
    run.match_at_publisher()


def geo_subscriber(run: Run) -> None:
    run.locate(run.nobody)
    run.put(run.nobody)
    run.step("areas that publications touch")
    sent, arrives = np.zeros_like(run.network.ms), np.zeros_like(run.network.ms)
    for home, brokers, count, last in touched_by_publications(run.tables, run.fields):
        sent[home, brokers] += count
        arrives[home, brokers] = np.maximum(arrives[home, brokers], last + CLIENT_HOP_MS + run.network.ms[home, brokers])
        run.costs.involved[1 + len(brokers)] += count
    run.costs.send("Event", sent, arrives)
    run.match_at_subscriber()


def geo_publisher(run: Run) -> None:
    run.step("areas that subscriptions touch")
    run.locate_where(located_by_areas(run.tables, run.fields))
    sent, arrives = np.zeros_like(run.network.ms), np.zeros_like(run.network.ms)
    run.costs.held += run.asked[2].sum(axis=1)
    for home, brokers, in_the_end, count, last in touched_by_subscriptions(run.tables, run.fields):
        sent[home, brokers] += count
        arrives[home, brokers] = np.maximum(arrives[home, brokers], last + CLIENT_HOP_MS + run.network.ms[home, brokers])
        run.costs.held[in_the_end] += count
    run.costs.send("PutSubscription", sent, arrives)
    run.costs.delay(sent, run.network.ms)
    run.match_at_publisher()


def dht(run: Run) -> None:
    network, costs = run.network, run.costs
    owners = network.owners(run.tables.topics)
    run.locate_where(located_by_topics(run.tables, numbers(owners, "topic")))
    ms, every = network.ms, np.arange(run.size)
    count, last, clients = run.asked
    for kind, number, latest in (("PutSubscription", count, last), ("Event", *run.published)):
        sent, arrives = np.zeros_like(ms), np.zeros_like(ms)
        np.add.at(sent.T, owners, number.T)
        np.maximum.at(arrives.T, owners, (latest + CLIENT_HOP_MS).T)
        costs.send(kind, sent * run.others, arrives + ms)
        if kind == "PutSubscription":
            costs.delay(sent * run.others, ms)
    away = every[:, None] != owners[None, :]
    costs.held += clients.sum(axis=1)
    np.add.at(costs.held, owners, (clients * away).sum(axis=0))
    run.step("matching at the topics' brokers")
    owner = numbers(owners, "topic")
    there, back = numbers(ms, f"p * {run.size} + {owner}"), numbers(ms, f"h * {run.size} + {owner}")
    cut = f"{there} - {back} - if(h = {owner} AND p <> {owner}, 1, 0)"
    told = run.candidates.told(run.candidates.stays(), (cut, "0")).persist()
    found = run.totals(told, "topic")
    p, h, via = found["p"], found["h"], owners[found["topic"]]
    ways = ms[p, via] + ms[via, h]
    costs.deliver(found["first"], ways, found["last_ms"])
    run.tell(via, h, found["publications"], found["last_ms"] + CLIENT_HOP_MS + ways)
    run.involve(run.involved(told, f"h <> p AND h <> {owner}", "topic"), np.where(away, 2, 1), "topic")
    told.unpersist()


def grid_quorum(run: Run) -> None:
    network, costs = run.network, run.costs
    targets = run.nobody.copy()
    for node, others in enumerate(network.quorum):
        targets[node, others] = True
    run.locate(targets)
    run.put(targets)
    run.publish(targets)
    run.step("matching where rows and columns meet")
    options = network.quorum_options
    ways: Numbers = np.sum([(option.via >= 0) << k for k, option in enumerate(options)], axis=0, dtype=np.int64)
    every = numbers(ways, f"p * {run.size} + h")
    told = run.candidates.told(run.candidates.stays(), *(cut_of(option, network) for option in options), every=every).persist()
    found = run.totals(told)
    p, h = found["p"], found["h"]
    if len(options) == 1:
        costs.deliver(run.grid(found, "first"), options[0].way, run.grid(found, "last_ms"))
        told_by = [("publications", "last_ms")]
    else:  # who is told by both has it from the one that is quicker
        quickest = np.minimum(options[0].way, options[1].way)
        for name, way in (("first", options[0].way), ("second", options[1].way), ("both", quickest)):
            costs.deliver(run.grid(found, name), way, run.grid(found, f"last_{name}"))
        told_by = [("told_first", "last_told_first"), ("told_second", "last_told_second")]
    for (count, last), option in zip(told_by, options, strict=True):
        run.tell(option.via[p, h], h, found[count], found[last] + CLIENT_HOP_MS + option.way[p, h])
    near = targets | ~run.others
    apart = f"{numbers(near.astype(np.int64), f'p * {run.size} + h')} = 0"
    run.involve(run.involved(told, apart), near.sum(axis=1))
    told.unpersist()


def broadcast_groups(run: Run) -> None:
    network, costs, candidates = run.network, run.costs, run.candidates
    ms, leader, cloud, every = network.ms, network.leader, network.cloud, np.arange(run.size)
    leads = (leader == every) & (every != cloud)
    in_group = (leader[:, None] == leader[None, :]) & run.others
    to_leader = leader[:, None] == every[None, :]
    to_cloud = leads[:, None] & (every == cloud)[None, :]
    run.locate(run.nobody | (every == cloud)[None, :])
    # what a home tells its leader, or the cloud if it is a leader itself; and what leaders pass on to the cloud for the others
    count, last, clients = run.asked
    own = clients.sum(axis=1)
    costs.held += own
    costs.held[cloud] += own.sum()
    updates = count.sum(axis=1)
    first = updates[:, None] * ((to_leader & run.others) | to_cloud)
    costs.send("PutSubscription", first, run.arrival(_latest(last)))
    costs.delay(first, ms)
    passed_on = np.where(leads, 0, updates)
    costs.delay(passed_on, network.to_cloud)
    run.pass_on("PutSubscription", passed_on, _latest(last))
    run.publish(in_group | to_cloud)
    published, last_published = run.published
    run.pass_on("Event", np.where(leads, 0, published.sum(axis=1)), _latest(last_published))
    run.step("matching in the cloud")
    stays = candidates.stays_at("stays_at_cloud", network.to_cloud, ms[:, cloud])
    at_cloud = numbers(network.to_cloud, "p"), numbers(network.to_cloud - ms[:, cloud], "p")
    own_group, group = numbers(leader, "p"), numbers(leader, "h")
    called = candidates.told(stays, at_cloud).selectExpr("topic", "id", "p", f"{group} AS h", "at")
    called = called.where(f"h <> {own_group}").distinct().persist()
    calls = run.totals(called)
    sent = run.grid(calls, "publications")
    handled = np.where(sent > 0, run.grid(calls, "last_ms") + CLIENT_HOP_MS + network.to_cloud[:, None] + ms[cloud][None, :], 0)
    down, arrives = np.zeros_like(ms), np.zeros_like(ms)
    down[cloud], arrives[cloud] = sent.sum(axis=0), handled.max(axis=0)
    for chief in np.flatnonzero(leads):
        down[chief, in_group[chief]] = sent[:, chief].sum()
        arrives[chief, in_group[chief]] = handled[:, chief].max() + ms[chief, in_group[chief]]
    costs.send("Event", down, arrives)
    run.step("matching in the groups")
    option = network.in_groups
    told = candidates.told(candidates.stays(), cut_of(option, network)).withColumn("chief", expression(group))
    near = told.where(f"chief = {own_group}")
    called_by_chief = called.select("topic", "id", called["h"].alias("chief"))
    far = told.where(f"chief <> {own_group}").join(called_by_chief, ["topic", "id", "chief"], "left_semi")
    found = run.totals(near.unionByName(far))
    costs.deliver(run.grid(found, "first"), option.way, run.grid(found, "last_ms"))
    sizes = in_group.sum(axis=1) + 1
    run.involve(run.involved(called, "true", weight=numbers(sizes, "h")), sizes + 1)
    called.unpersist()


STRATEGIES: Final[dict[str, Callable[[Run], None]]] = {
    "flood-events": flood_events,
    "flood-subscriptions": flood_subscriptions,
    "geo-subscriber": geo_subscriber,
    "geo-publisher": geo_publisher,
    "dht": dht,
    "grid-quorum": grid_quorum,
    "broadcast-groups": broadcast_groups,
}
