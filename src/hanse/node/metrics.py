"""Numbers about the node for Prometheus.

Counting is on the path of every request, so it is an addition to a plain number; families with names and help are made of these
only when somebody looks. One node is one process: there is one `METRICS`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from prometheus_client import Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
COUNTERS: Final = {  # name -> help; each has one label, `kind`
    "mqtt_messages": "Messages of devices, and to those who follow them, by what became of them",
    "native_requests": "Requests of the native API, by kind",
    "below_guarantee": "Notifications that were refused because they are below the guarantee of their advertisement, by that",
    "federation_refused": "What came over links and was not believed, by the node that is said to have sent it",
    "federation_postponed": "Packets that were not taken and come again, by node",
    "federation_lost": "Messages that a full outbox or a fault has lost, by node",
    "federation_dropped": "Notifications that were given up on their way",
    "federation_questions": "Questions of other nodes, by kind",
}
TOTALS: Final = {  # what parts of the node count themselves
    "notifications_sent": "Attempts to notify an endpoint",
    "notifications_failed": "Attempts to notify that failed",
    "notifications_dead": "Notifications that became dead letters",
    "log_offset": "Changes of entities so far: the offset of the newest one",
}


class Total(Struct, frozen=True):
    """Something that a part has counted; `name` is one of TOTALS."""

    tenant: str
    name: str
    number: int


class Bound(Struct, frozen=True):
    """Something that cannot grow without end, and how full it is. No `max`: it is bounded by something else, but worth a look."""

    tenant: str
    name: str
    used: int
    max: int | None


class Metrics:
    def __init__(self) -> None:
        self._requests: defaultdict[tuple[str, int], int] = defaultdict(int)
        self._buckets = [0] * (len(BUCKETS_S) + 1)
        self._seconds = 0.0
        self._counts: defaultdict[tuple[str, str], int] = defaultdict(int)

    def request(self, method: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._requests[method if method in METHODS else "other", status] += 1
        self._buckets[bisect_left(BUCKETS_S, seconds)] += 1
        self._seconds += seconds

    def count(self, name: str, kind: str = "", by: int = 1) -> None:
        """One more of COUNTERS."""
        self._counts[name, kind] += by

    def count_bounded(self, name: str, kind: str, kinds_max: int, rest: str) -> None:
        """The same where anyone can make up kinds: beyond so many, what is new is counted as `rest`."""
        if (name, kind) not in self._counts and sum(counted == name for counted, _ in self._counts) >= kinds_max:
            kind = rest
        self.count(name, kind)

    def text(self, bounds: Iterable[Bound] = (), totals: Iterable[Total] = ()) -> bytes:
        """All of it, in the text format of Prometheus."""
        registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=registry)
        registry.register(_Families(self, list(bounds), list(totals)))
        return generate_latest(registry)

    def families(self) -> Iterator[Metric]:
        requests = CounterMetricFamily("hanse_requests", "HTTP requests answered", labels=["method", "status"])
        for (method, status), number in sorted(self._requests.items()):
            requests.add_metric([method, str(status)], number)
        yield requests
        total, buckets = 0, []
        for bound, number in zip([*map(str, BUCKETS_S), "+Inf"], self._buckets, strict=True):
            total += number
            buckets.append((bound, total))
        yield HistogramMetricFamily("hanse_request_seconds", "How long answers took", buckets=buckets, sum_value=self._seconds)
        for name, help_ in COUNTERS.items():
            family = CounterMetricFamily(f"hanse_{name}", help_, labels=["kind"])
            for (counted, kind), number in sorted(self._counts.items()):
                if counted == name:
                    family.add_metric([kind], number)
            yield family


class _Families(Collector):
    def __init__(self, metrics: Metrics, bounds: list[Bound], totals: list[Total]) -> None:
        self._metrics = metrics
        self._bounds = bounds
        self._totals = totals

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics.families()
        for name, help_ in TOTALS.items():
            family = CounterMetricFamily(f"hanse_{name}", help_, labels=["tenant"])
            for total in self._totals:
                if total.name == name:
                    family.add_metric([total.tenant], total.number)
            yield family
        used = GaugeMetricFamily("hanse_bound_used", "How much of a bound is in use", labels=["tenant", "bound"])
        most = GaugeMetricFamily("hanse_bound_max", "The bound itself", labels=["tenant", "bound"])
        for bound in self._bounds:
            used.add_metric([bound.tenant, bound.name], bound.used)
            if bound.max is not None:
                most.add_metric([bound.tenant, bound.name], bound.max)
        yield used
        yield most


METRICS: Final = Metrics()
