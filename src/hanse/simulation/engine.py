"""Virtual time around real brokers: one queue of messages, the same run for the same input, always.

Within a millisecond all brokers first take what other brokers sent, then what clients send; and among these first locations, then
subscriptions, then notifications, then deliveries. These are the rules of the DisGB authors' simulator, so that their runs can be
replayed message by message. Apart from that, messages on one link keep their order.
"""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from hanse.routing import Broker, Settings
from hanse.routing import messages as m
from hanse.scopes import Scopes
from hanse.simulation.latency import CLIENT_HOP_MS, Latencies, by_distance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hanse.model import Notification
    from hanse.routing.policy import Policy

RANKS: dict[type, int] = {
    m.ClientLocation: 0,
    m.Event: 3,
    m.RestrictedEvent: 3,
    m.Delivery: 4,
    m.Attach: 5,
    m.Disconnect: 5,
    m.Detach: 5,
    m.Locate: 5,
    m.Advertise: 6,
    m.Subscribe: 6,
    m.JoinScope: 6,
    m.LeaveScope: 6,
    m.SetVisibility: 6,
    m.Unsubscribe: 7,
    m.Unadvertise: 7,
    m.Publish: 8,
    m.Query: 8,
    m.Answer: 8,
}
LAST_RANK = 9  # the time, and what operators want
CONTROL_RANK = 1  # subscriptions, advertisements, scope areas, hand-overs, repair


class Delivered(NamedTuple):
    at_ms: int
    client: str
    subscription: str
    notification: Notification


class Simulator:
    """Brokers, what is on its way between them, and what has come of it."""

    def __init__(
        self,
        settings: Settings,
        scopes: Scopes | None = None,
        *,
        latencies: Latencies | None = None,
        client_hop_ms: int = CLIENT_HOP_MS,
        policies: Mapping[str, Policy] | None = None,
    ) -> None:
        self.settings = settings
        snapshot = (scopes or Scopes()).to_struct()
        own = policies or {}
        self.brokers = {
            node: Broker(node, settings, Scopes.from_struct(snapshot), own.get(node)) for node in settings.federation.ids
        }
        self.latencies = latencies if latencies is not None else by_distance(settings.federation)
        self.client_hop_ms = client_hop_ms
        self.now_ms = 0
        self.last_ms = 0
        self.requests: Counter[str] = Counter()  # by class, from clients
        self.messages: Counter[str] = Counter()  # by class, between brokers: one for each link crossed
        self.by_link: Counter[tuple[str, str]] = Counter()
        self.involved: dict[str, set[str]] = {}  # notification -> brokers that handled it; only with `watch_brokers`
        self.watch_brokers = False
        self.direct = False  # as live nodes do: what is for a node further away goes there straight, and counts for the pair
        self.update_delays_ms: list[int] = []
        self.delivered: list[Delivered] = []
        self.other_effects: list[tuple[int, str, m.Effect]] = []
        self._ticks: list[int] = []
        self._due: dict[int, list[tuple[int, Broker, Any, str, int]]] = {}

    # --- input ------------------------------------------------------------------------------------------------------

    def request(self, at_ms: int, node: str, request: m.Request) -> None:
        """A client sends a request at this time; its broker has it one client hop later."""
        self.requests[type(request).__name__] += 1
        self._push(at_ms + self.client_hop_ms, (RANKS.get(type(request), LAST_RANK), self.brokers[node], request, "", at_ms))

    def tick(self, at_ms: int, node: str) -> None:
        """Tell a broker the time."""
        self._push(at_ms, (LAST_RANK, self.brokers[node], m.Tick(), "", at_ms))

    def _push(self, at_ms: int, item: tuple[int, Broker, Any, str, int]) -> None:
        due = self._due.get(at_ms)
        if due is None:
            self._due[at_ms] = [item]
            heappush(self._ticks, at_ms)
        else:
            due.append(item)

    # --- running ----------------------------------------------------------------------------------------------------

    def run(self, until_ms: int | None = None, progress: Callable[[int], None] | None = None) -> None:
        """Until nothing is on its way any more, or until a time."""
        ticks, due = self._ticks, self._due
        while ticks and (until_ms is None or ticks[0] <= until_ms):
            self.now_ms = self.last_ms = heappop(ticks)
            items = due.pop(self.now_ms)
            if len(items) > 1:
                items.sort(key=itemgetter(0))
            self._tick(items)
            if progress is not None:
                progress(self.now_ms)
        if until_ms is not None:
            self.now_ms = max(self.now_ms, until_ms)

    def _far_ms(self, here: str, target: str) -> int:
        """How long it takes over the nodes in between."""
        total = 0
        while here != target:
            after = self.settings.federation.next_hop(here, target)
            total += self.latencies[here][after]
            here = after
        return total

    def _tick(self, items: Iterable[tuple[int, Broker, Any, str, int]]) -> None:
        now = self.now_ms
        due, messages, by_link, brokers = self._due, self.messages, self.by_link, self.brokers
        for _, broker, message, sender, origin_ms in items:
            if self.watch_brokers:
                self._note_broker(broker.id, message)
            for effect in broker.handle(message, sender, now):
                if isinstance(effect, m.Send):
                    outgoing, to = effect.message, effect.to
                    if self.direct and type(outgoing) is m.Relay and outgoing.source == broker.id:
                        to = outgoing.destinations
                        outgoing = outgoing.message
                    inner = type(outgoing) if type(outgoing) not in _WRAPPERS else type(m.innermost(outgoing))
                    rank = RANKS.get(inner, CONTROL_RANK)
                    here = broker.id
                    hops = self.latencies[here]
                    messages[inner.__name__] += len(to)
                    for target in to:
                        at = now + (hops[target] if target in hops else self._far_ms(here, target))
                        if inner is m.PutSubscription:
                            self.update_delays_ms.append(at - origin_ms)
                        by_link[here, target] += 1
                        item = (rank, brokers[target], outgoing, here, origin_ms)
                        there = due.get(at)
                        if there is None:
                            due[at] = [item]
                            heappush(self._ticks, at)
                        else:
                            there.append(item)
                elif isinstance(effect, m.Deliver):
                    at = now + self.client_hop_ms
                    self.delivered.append(Delivered(at, effect.client, effect.subscription, effect.notification))
                    self.last_ms = max(self.last_ms, at)
                else:
                    self.other_effects.append((now, broker.id, effect))

    def _note_broker(self, node: str, message: Any) -> None:
        inner = m.innermost(message)
        if isinstance(inner, m.Publish | m.Event | m.RestrictedEvent | m.Delivery):
            self.involved.setdefault(inner.notification.id, set()).add(node)


_WRAPPERS = frozenset({m.Relay, m.Routed})
