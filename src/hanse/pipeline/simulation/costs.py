"""What a run has cost, gathered from counts by pair of brokers, and told as the exact simulator tells it."""

from __future__ import annotations

from collections import Counter
from math import fsum, sqrt
from typing import TYPE_CHECKING

import numpy as np

from hanse.simulation.latency import CLIENT_HOP_MS
from hanse.simulation.run import Distribution, Result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hanse.pipeline.simulation.network import Network


class Costs:
    """Counts are of messages between brokers; the last times are those at which a broker handles the last one."""

    def __init__(self, network: Network) -> None:
        size = network.size
        self.network = network
        self.sent: dict[str, NDArray[np.int64]] = {}
        self.last_ms = 0
        self.last_delivery_ms = 0
        self.latencies: Counter[int] = Counter()
        self.delays: Counter[int] = Counter()
        self.held = np.zeros(size, dtype=np.int64)  # subscriptions at each broker in the end
        self.involved: Counter[int] = Counter()  # how many brokers handle a publication
        self.to_themselves = 0
        self.across = 0

    def send(self, kind: str, counts: NDArray[np.int64], last_ms: NDArray[np.int64] | int) -> None:
        """Messages from each broker (row) to each (column); `last_ms`: when the last of them is handled there."""
        if not counts.any():
            return
        self.sent[kind] = self.sent.get(kind, np.zeros_like(counts)) + counts
        self.handle(counts, last_ms)

    def handle(self, counts: NDArray[np.int64], last_ms: NDArray[np.int64] | int) -> None:
        """Brokers handle something, the last of it then."""
        if counts.any():
            self.last_ms = max(self.last_ms, int(np.where(counts > 0, last_ms, 0).max()))

    def deliver(self, counts: NDArray[np.int64], ways_ms: NDArray[np.int64], last_ms: NDArray[np.int64]) -> None:
        """To clients: how many, how long from the publisher's broker to theirs, and when the last left its publisher."""
        for way, count in zip(ways_ms.ravel().tolist(), counts.ravel().tolist(), strict=True):
            if count:
                self.latencies[way + 2 * CLIENT_HOP_MS] += count
        if counts.any():
            handled = np.where(counts > 0, last_ms + CLIENT_HOP_MS + ways_ms, 0)
            self.last_delivery_ms = max(self.last_delivery_ms, int(handled.max()))
            self.handle(counts, handled)

    def delay(self, counts: NDArray[np.int64], ways_ms: NDArray[np.int64]) -> None:
        """Updates of subscriptions, from the subscriber's broker to one that receives them."""
        for way, count in zip(ways_ms.ravel().tolist(), counts.ravel().tolist(), strict=True):
            if count:
                self.delays[way] += count

    @property
    def ended_at_ms(self) -> int:
        """When the last broker has handled the last message, and a client that this was for has it."""
        return self.last_ms + (CLIENT_HOP_MS if self.last_delivery_ms == self.last_ms else 0)

    def result(self, strategy: str, requests: Mapping[str, int]) -> Result:
        ids = self.network.ids
        by_link: Counter[tuple[str, str]] = Counter()
        for counts in self.sent.values():
            for a, b in np.argwhere(counts):
                by_link[ids[a], ids[b]] += int(counts[a, b])
        return Result(
            strategy=strategy,
            nodes=self.network.size,
            requests=dict(sorted((name, count) for name, count in requests.items() if count)),
            messages={name: int(self.sent[name].sum()) for name in sorted(self.sent)},
            messages_by_link=sorted(((a, b, n) for (a, b), n in by_link.items()), key=lambda item: (-item[2], item)),
            deliveries=self.latencies.total(),
            latency_ms=distribution_of(self.latencies),
            subscription_delay_ms=distribution_of(self.delays),
            table_size=distribution_of(Counter(self.held.tolist())),
            brokers_per_publication=distribution_of(self.involved),
            rejected=0,
            ended_at_ms=self.ended_at_ms,
        )


def distribution_of(values: Mapping[int, int]) -> Distribution:
    """What `hanse.simulation.run.distribution` says of the values, each as often as it is counted."""
    ordered = sorted((value, count) for value, count in values.items() if count)
    n = sum(count for _, count in ordered)
    if not n:
        return Distribution(0)
    mean = sum(value * count for value, count in ordered) / n
    sd = sqrt(fsum(count * (value - mean) ** 2 for value, count in ordered) / (n - 1)) if n > 1 else 0.0

    def percentile(part: float) -> float:
        place, seen = min(n - 1, int(part * n)), 0
        for value, count in ordered:
            seen += count
            if seen > place:
                return float(value)
        raise AssertionError

    return Distribution(n, mean, sd, percentile(0.5), percentile(0.95), percentile(0.99), float(ordered[-1][0]))
