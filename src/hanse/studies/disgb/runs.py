"""Runs of the real brokers over the DisGB workloads, several at a time, each boiled down to the numbers that the paper gives."""

from __future__ import annotations

import gc
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from math import nan, sqrt
from multiprocessing import get_context
from time import process_time
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from hanse.routing import Settings
from hanse.routing import messages as m
from hanse.simulation.engine import Delivered, Simulator
from hanse.simulation.run import field_size, settings_for
from hanse.simulation.topologies import topology
from hanse.simulation.workloads import Workload, experiment_federation, workload
from hanse.studies.disgb.circles import calculate_in_circles
from hanse.studies.report import progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NAMES: Final = {
    "broadcast-groups": "BG",
    "dht": "DHT",
    "geo-subscriber": "DisGB E",
    "geo-publisher": "DisGB S",
    "flood-events": "Flood E",
    "flood-subscriptions": "Flood S",
    "grid-quorum": "GQPS",
}
SCENARIOS: Final = {"environmental": "Open environmental", "hiking": "Hiking", "context": "Context-based"}
CLIENT_HOP_MS: Final = 5
MOST_AT_ONCE: Final = 2
EVENT_CLASSES: Final = ("Event", "Delivery")
SUBSCRIPTION_CLASSES: Final = ("PutSubscription", "DropSubscription")


class Task(Struct, frozen=True, kw_only=True):
    """One run. `brokers` at large cities; none: the three of the experiment. `strategy` empty: only calculate.

    `circles`: the areas and clients of the experiment are in the authors' circles (only calculated).
    """

    workload: str
    strategy: str
    clients: int
    duration_s: int
    seed: int
    brokers: int = 0
    flood_locations: bool = False
    circles: bool = False


class Spread(Struct, frozen=True):
    """Of many times in milliseconds."""

    count: int
    mean: float
    sd: float
    quartiles: tuple[float, float, float]
    greatest: float


class Counted(Struct, frozen=True):
    """What clients asked for, in the words of table II; overlaps where they are calculated."""

    location_updates: int
    subscription_updates: int
    events: int
    subscription_overlaps: int | None = None
    event_overlaps: int | None = None


class Outcome(Struct, frozen=True, kw_only=True):
    task: Task
    counted: Counted
    messages: dict[str, int]
    latency: Spread
    delay: Spread
    to_themselves: int
    across: int
    field_deg: float
    cpu_seconds: float

    @property
    def between(self) -> int:
        """All messages between brokers."""
        return sum(self.messages.values())

    @property
    def event_messages(self) -> int:
        return sum(self.messages.get(name, 0) for name in EVENT_CLASSES)

    @property
    def subscription_messages(self) -> int:
        return sum(self.messages.get(name, 0) for name in SUBSCRIPTION_CLASSES)

    @property
    def without_locations(self) -> int:
        """As the paper's simulation counts."""
        return self.event_messages + self.subscription_messages


class Tally(list[Delivered]):
    """In place of a simulator's list of deliveries, of which there may be millions: only how long they took is kept."""

    def __init__(self, homes: Mapping[str, str]) -> None:
        super().__init__()
        self.homes = homes
        self.latencies: Counter[int] = Counter()
        self.to_themselves = 0
        self.across = 0

    def append(self, delivered: Delivered) -> None:
        at_ms, client, _, notification = delivered
        self.latencies[at_ms - notification.published_at_ms] += 1
        if client == notification.publisher:
            self.to_themselves += 1
        elif self.homes[client] != self.homes[notification.publisher]:
            self.across += 1


def run_all(tasks: Sequence[Task], description: str, *, at_once: int = MOST_AT_ONCE) -> dict[Task, Outcome]:
    """Every task in a process of its own, the longest ones (by their order) first, so that memory is given back after each."""
    outcomes: dict[Task, Outcome] = {}
    with progress(description, len(tasks)) as step:
        if at_once <= 1:
            for task in tasks:
                outcomes[task] = run(task)
                step(1)
            return outcomes
        with ProcessPoolExecutor(at_once, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
            for future in as_completed([pool.submit(run, task) for task in tasks]):
                outcome = future.result()
                outcomes[outcome.task] = outcome
                step(1)
    return outcomes


def run(task: Task) -> Outcome:
    started = process_time()
    federation = (
        experiment_federation()
        if not task.brokers
        else topology("cities", nodes=task.brokers, seed=task.seed, clients=task.clients)
    )
    field_deg = field_size(federation)
    options: dict[str, Any] = {"field_deg": None if task.circles else field_deg}
    if task.workload == "hiking":
        options["preset"] = "simulation" if task.brokers else "experiment"
    load = workload(task.workload, federation, clients=task.clients, duration_s=task.duration_s, seed=task.seed, **options)
    settings = settings_for(
        task.strategy or "geo-publisher", federation, field_size_deg=field_deg, flood_locations=task.flood_locations
    )
    counted = count(load)
    latencies: Counter[int] = Counter()
    delays: Counter[int] = Counter()
    to_themselves = across = 0
    if task.circles:
        messages = calculate_in_circles(load)
    elif not task.strategy:
        counted, messages = calculate(load, settings)
    else:
        simulator, tally = simulate(load, settings)
        messages = dict(simulator.messages)
        latencies, to_themselves, across = tally.latencies, tally.to_themselves, tally.across
        # from the first broker to the receiving one, without the client's hop
        delays.update(delay - CLIENT_HOP_MS for delay in simulator.update_delays_ms)
    return Outcome(
        task=task,
        counted=counted,
        messages=messages,
        latency=spread(latencies),
        delay=spread(delays),
        to_themselves=to_themselves,
        across=across,
        field_deg=field_deg,
        cpu_seconds=process_time() - started,
    )


def count(load: Workload) -> Counted:
    kinds = Counter(type(action.do) for action in load.actions)
    return Counted(kinds[m.Locate], kinds[m.Subscribe], kinds[m.Publish])


def simulate(load: Workload, settings: Settings) -> tuple[Simulator, Tally]:
    simulator = Simulator(settings)
    tally = Tally({action.client: action.node for action in load.actions})
    simulator.delivered = tally
    for action in load.actions:
        simulator.request(action.at_ms, action.node, action.do)
    load.actions.clear()
    gc.freeze()  # nothing of the workload is garbage before the run ends
    try:
        simulator.run()
    finally:
        gc.unfreeze()
    return simulator, tally


def calculate(load: Workload, settings: Settings) -> tuple[Counted, dict[str, int]]:
    """Table II; and the messages of some strategies by the formulas of table I, without any broker.

    Not among them: matched events that go to subscribers elsewhere. `geo-publisher, locations` is part of `geo-publisher`.
    """
    touched, hashed = settings.areas.touched, settings.hashed
    others = len(load.federation.ids) - 1
    held: dict[str, dict[str, frozenset[str]]] = {}
    locations = subscriptions = events = subscription_overlaps = event_overlaps = 0
    messages: Counter[str] = Counter()
    for action in load.actions:
        request = action.do
        match request:
            case m.Locate():
                locations += 1
                messages["geo-publisher, locations"] += len(frozenset[str]().union(*held.get(action.client, {}).values()))
            case m.Subscribe(subscription):
                subscriptions += 1
                targets = frozenset(touched(subscription.geofence)) - {action.node}
                mine = held.setdefault(action.client, {})
                messages["geo-publisher"] += len(targets | mine.get(subscription.id, frozenset()))
                mine[subscription.id] = targets
                subscription_overlaps += bool(targets)
                messages["dht"] += hashed(subscription.selectors[0].topic or "") != action.node
            case m.Publish(notification):
                events += 1
                away = sum(node != action.node for node in touched(notification.geofence))
                messages["geo-subscriber"] += away
                event_overlaps += bool(away)
                # there, and back to the publisher, who always subscribes to what it publishes
                messages["dht"] += 2 * (hashed(notification.topic or "") != action.node)
            case _:
                pass
    messages["geo-publisher"] += messages["geo-publisher, locations"]
    messages["flood-events"] = others * events
    messages["flood-subscriptions"] = others * (locations + subscriptions)
    return Counted(locations, subscriptions, events, subscription_overlaps, event_overlaps), dict(messages)


def spread(times: Counter[int]) -> Spread:
    count = times.total()
    if not count:
        return Spread(0, nan, nan, (nan, nan, nan), nan)
    mean = sum(time * n for time, n in times.items()) / count
    squares = sum(n * (time - mean) ** 2 for time, n in times.items())
    ordered = sorted(times.items())
    first, second, third = (_rank(ordered, count * part / 4) for part in (1, 2, 3))
    return Spread(count, mean, sqrt(squares / max(1, count - 1)), (first, second, third), float(ordered[-1][0]))


def _rank(ordered: Iterable[tuple[int, int]], rank: float) -> float:
    seen = 0
    for time, n in ordered:
        seen += n
        if seen >= rank:
            return float(time)
    raise AssertionError
