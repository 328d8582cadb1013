"""A workload under a strategy, and what it cost."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from hanse.model import InvalidInput
from hanse.routing import STRATEGIES, Federation, Settings
from hanse.routing import messages as m
from hanse.simulation.engine import Simulator
from hanse.simulation.groups import CLOUD, with_cloud
from hanse.simulation.workloads.positions import Fields

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hanse.scopes import Scopes
    from hanse.simulation.workloads import Workload

TICK_EVERY_MS = 10_000


class Distribution(Struct, frozen=True):
    count: int
    mean: float | None = None
    sd: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None


class Result(Struct, frozen=True):
    """What one run did and cost. Messages are counted once for each link that they cross."""

    strategy: str
    nodes: int
    requests: dict[str, int]
    messages: dict[str, int]
    messages_by_link: list[tuple[str, str, int]]
    deliveries: int
    latency_ms: Distribution
    subscription_delay_ms: Distribution
    table_size: Distribution  # subscriptions held by a broker
    brokers_per_publication: Distribution
    rejected: int
    ended_at_ms: int

    @property
    def between_brokers(self) -> int:
        return sum(self.messages.values())


def distribution(values: Sequence[float]) -> Distribution:
    if not values:
        return Distribution(0)
    ordered = sorted(values)
    n = len(ordered)
    mean = sum(ordered) / n
    sd = sqrt(sum((v - mean) ** 2 for v in ordered) / (n - 1)) if n > 1 else 0.0

    def percentile(p: float) -> float:
        return float(ordered[min(n - 1, int(p * n))])

    return Distribution(n, mean, sd, percentile(0.5), percentile(0.95), percentile(0.99), float(ordered[-1]))


KINDS = ("subscriptions", "notifications", "locations", "other")
_KIND_OF = {
    "PutSubscription": "subscriptions",
    "DropSubscription": "subscriptions",
    "Event": "notifications",
    "RestrictedEvent": "notifications",
    "Delivery": "notifications",
    "ClientLocation": "locations",
    "Guest": "locations",
}


def by_kind(messages: dict[str, int]) -> dict[str, int]:
    """Messages between brokers in four groups."""
    groups = dict.fromkeys(KINDS, 0)
    for name, count in messages.items():
        groups[_KIND_OF.get(name, "other")] += count
    return groups


FIELDS_DEG = (6.0, 4.0, 3.0, 2.0, 1.0, 0.5)


def field_size(federation: Federation) -> float:
    """DisGB's 6 degrees where every broker then has a field of its own; else the largest size with which every one does."""
    for size in FIELDS_DEG:
        if Fields(federation, size).all_own_one:
            return size
    raise InvalidInput(f"some brokers stand so close together that even fields of {FIELDS_DEG[-1]:g} degrees do not part them")


def settings_for(strategy: str, federation: Federation, **options: Any) -> Settings:
    """Settings with all that a strategy needs; broadcast groups need a node for the cloud."""
    if strategy not in STRATEGIES:
        raise InvalidInput(f"there is no strategy {strategy!r}; take one of {', '.join(STRATEGIES)}, or all")
    if strategy == "broadcast-groups":
        federation, groups = with_cloud(federation)
        return Settings(strategy, federation, groups=groups, cloud=CLOUD, **options)
    return Settings(strategy, federation, **options)


def run(
    workload: Workload,
    strategy: str,
    *,
    scopes: Scopes | None = None,
    watch_brokers: bool = True,
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> Result:
    settings = settings_for(strategy, workload.federation, **options)
    simulator = Simulator(settings, scopes)
    simulator.watch_brokers = watch_brokers
    last = 0
    for action in workload.actions:
        simulator.request(action.at_ms, action.node, action.do)
        last = max(last, action.at_ms)
    for at_ms in range(TICK_EVERY_MS, last + TICK_EVERY_MS, TICK_EVERY_MS):
        for node in settings.federation.ids:
            simulator.tick(at_ms, node)
    simulator.run(progress=progress)
    return result_of(simulator)


def result_of(simulator: Simulator) -> Result:
    by_link = sorted(((a, b, n) for (a, b), n in simulator.by_link.items()), key=lambda item: (-item[2], item))
    return Result(
        strategy=simulator.settings.strategy,
        nodes=len(simulator.brokers),
        requests=dict(sorted(simulator.requests.items())),
        messages=dict(sorted(simulator.messages.items())),
        messages_by_link=by_link,
        deliveries=len(simulator.delivered),
        latency_ms=distribution([d.at_ms - d.notification.published_at_ms for d in simulator.delivered]),
        subscription_delay_ms=distribution([delay - simulator.client_hop_ms for delay in simulator.update_delays_ms]),
        table_size=distribution([len(broker.held) for broker in simulator.brokers.values()]),
        brokers_per_publication=distribution([len(nodes) for nodes in simulator.involved.values()]),
        rejected=sum(isinstance(effect, m.Reject) for _, _, effect in simulator.other_effects),
        ended_at_ms=simulator.last_ms,
    )
