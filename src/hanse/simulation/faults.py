"""Real brokers on real reliable links, over a network that loses, delays, doubles and reorders, with nodes that crash.

A crash loses what is in memory and on the wire, and what is stored comes back: broker and links are dumped and restored, as a
process that starts again would. (A message that was handled but not yet stored is the same as one that was not handled, since
nothing leaves before it is stored.) Every phase of a scenario ends with the network whole again and everything at rest.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct

from hanse.routing import Broker
from hanse.routing import messages as m
from hanse.routing.link import Frame, LinkState, ReliableLink
from hanse.scopes import Scopes
from hanse.simulation.checkers import Published, Trace
from hanse.simulation.scenarios import PHASE_MS, Move, Scenario, Step, apply, client_of

if TYPE_CHECKING:
    from collections.abc import Callable

HOP_MS = 20
STEPS_MAX = 2_000_000  # events of one run: a livelock is a failure too
START_TURN = 1 << 40  # above any clock
RESTART_RETRY_MS = 50  # how soon a client tries again to reach a node that is down


class Cut(Struct, frozen=True):
    phase: int
    from_ms: int
    until_ms: int
    a: str
    b: str


class Crash(Struct, frozen=True):
    phase: int
    at_ms: int
    down_ms: int
    node: str


class Faults(Struct, frozen=True):
    """What goes wrong. Probabilities are for each frame, times are after the start of a phase."""

    seed: int = 0
    loss: float = 0.0
    doubled: float = 0.0
    delay_ms: int = 0
    cuts: tuple[Cut, ...] = ()
    crashes: tuple[Crash, ...] = ()
    outbox_max: int = 100_000


NO_FAULTS = Faults()


def random_faults(scenario: Scenario) -> Faults:
    dice = Random(f"faults/{scenario.seed}/{scenario.settings.strategy}")
    federation = scenario.settings.federation
    links = sorted({tuple(sorted((link.source, link.target))) for link in federation.links})
    phases = range(len(scenario.phases))
    cuts, crashes = [], []
    for phase in phases:
        for _ in range(dice.choice((0, 0, 1, 2))):
            start = dice.randrange(0, 20_000)
            a, b = dice.choice(links)
            cuts.append(Cut(phase, start, start + dice.randrange(100, 30_000), a, b))
        for _ in range(dice.choice((0, 0, 1, 1, 2))):
            crashes.append(Crash(phase, dice.randrange(0, 20_000), dice.randrange(10, 10_000), dice.choice(federation.ids)))
    return Faults(
        seed=scenario.seed,
        loss=dice.choice((0.0, 0.05, 0.3)),
        doubled=dice.choice((0.0, 0.1, 0.3)),
        delay_ms=dice.choice((0, 30, 2_000)),
        cuts=tuple(cuts),
        crashes=tuple(crashes),
    )


class Sent(NamedTuple):
    """What was on a link, for the trace of a violation."""

    at_ms: int
    source: str
    target: str
    message: Any


class Host:
    """One process: a broker, its links, and whether it runs."""

    def __init__(self, broker: Broker, faults: Faults) -> None:
        self.broker = broker
        self.up = True
        self.outbox_max = faults.outbox_max
        self.ablations = broker.settings.ablations
        neighbours = broker.federation.neighbours[broker.id]
        self.links = {peer: ReliableLink(outbox_max=self.outbox_max, ablations=self.ablations) for peer in neighbours}

    def crash(self) -> None:
        self.up = False
        stored = self.broker.dump()
        links = {peer: link.dump() for peer, link in self.links.items()}
        self.broker = Broker.restore(self.broker.id, self.broker.settings, stored)
        for peer, dumped in links.items():
            state = msgspec.msgpack.decode(dumped, type=LinkState)
            self.links[peer] = ReliableLink(state=state, outbox_max=self.outbox_max, ablations=self.ablations)


class FaultyFederation:
    """Runs a scenario under faults and records what the checkers need."""

    def __init__(self, scenario: Scenario, faults: Faults = NO_FAULTS) -> None:
        self.scenario = scenario
        self.faults = faults
        self.dice = Random(f"network/{faults.seed}")
        snapshot = scenario.scopes.to_struct()
        settings = scenario.settings
        self.hosts = {
            node: Host(Broker(node, settings, Scopes.from_struct(snapshot)), faults) for node in settings.federation.ids
        }
        self.now_ms = 0
        self.calm = True
        self.cut: dict[frozenset[str], int] = {}
        self.trace = Trace()
        self.sent: list[Sent] = []
        self._queue: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = 0
        self._timers: dict[tuple[str, str], int] = {}
        self._turns: dict[str, int] = {}
        self._to_do: dict[str, deque[tuple[str, m.Request]]] = {}
        self._steps = 0

    def run(self) -> Trace:
        world = self.scenario.world()
        for number, phase in enumerate(self.scenario.phases):
            start = max(self.now_ms + 1, number * PHASE_MS)
            self.now_ms = start
            for node in self.hosts:
                self._handle(node, m.Tick(), "")
            self._settle()
            start = self.now_ms = self.now_ms + 1
            before = world
            if phase.publishes:
                before = world.copy()
            for step in phase.steps:
                self._at(start + step.at_ms, self._request, step)
                apply(world, step)
                if isinstance(step.do, m.Subscribe):
                    self.trace.subscribed.setdefault(step.do.subscription.id, []).append(step.do.subscription)
            if phase.publishes:
                self._expect(phase.steps, start, before, world)
            self._break(number, start)
            self._run()
            self._heal()
            self._settle()
        return self.trace

    def _expect(self, steps: tuple[Step, ...], start: int, before: Any, after: Any) -> None:
        """While one client moves, a notification must reach whom it reaches both before and after, and may reach either."""
        for step in steps:
            if isinstance(step.do, m.Publish):
                before.now_ms = after.now_ms = start + step.at_ms
                n = step.do.notification
                first, second = before.receivers(n), after.receivers(n)
                advertised = n.advertisement is None or any(
                    (a := world.advertisements.get((n.publisher, n.advertisement))) is not None and world.allows(a, n)
                    for world in (before, after)
                )
                self.trace.published[n.id] = Published(n, first & second, first | second, advertised)

    # --- time -------------------------------------------------------------------------------------------------------

    def _at(self, at_ms: int, do: Callable[..., None], *arguments: Any) -> None:
        self._order += 1
        heappush(self._queue, (at_ms, self._order, do, arguments))

    def _run(self) -> None:
        while self._queue:
            self._steps += 1
            if self._steps > STEPS_MAX:
                raise RuntimeError(f"still busy after {STEPS_MAX} events: a livelock")
            at_ms, _, do, arguments = heappop(self._queue)
            self.now_ms = max(self.now_ms, at_ms)
            do(*arguments)

    _settle = _run

    def _break(self, phase: int, start: int) -> None:
        self.calm = False
        for cut in self.faults.cuts:
            if cut.phase == phase:
                self._at(start + cut.from_ms, self._cut, frozenset((cut.a, cut.b)), start + cut.until_ms)
        for crash in self.faults.crashes:
            if crash.phase == phase:
                self._at(start + crash.at_ms, self._crash, crash.node, crash.down_ms)

    def _heal(self) -> None:
        self.calm = True
        self.cut.clear()

    def _cut(self, ends: frozenset[str], until_ms: int) -> None:
        self.cut[ends] = max(self.cut.get(ends, 0), until_ms)

    def _crash(self, node: str, down_ms: int) -> None:
        host = self.hosts[node]
        if host.up:
            host.crash()
            self._at(self.now_ms + down_ms, self._restart, node)

    def _restart(self, node: str) -> None:
        self.hosts[node].up = True
        for peer in self.hosts[node].links:
            self._retry(node, peer)

    # --- the network ------------------------------------------------------------------------------------------------

    def _transmit(self, source: str, target: str, frame: Frame) -> None:
        dice, faults = self.dice, self.faults
        if not self.calm:
            if self.cut.get(frozenset((source, target)), 0) > self.now_ms or dice.random() < faults.loss:
                return
            if dice.random() < faults.doubled:
                self._at(self.now_ms + HOP_MS + dice.randint(0, faults.delay_ms + 5), self._arrive, source, target, frame)
        late = 0 if self.calm else dice.randint(0, faults.delay_ms)
        self._at(self.now_ms + HOP_MS + late, self._arrive, source, target, frame)

    def _arrive(self, source: str, target: str, frame: Frame) -> None:
        host = self.hosts[target]
        if not host.up:
            return
        output = host.links[source].receive(frame, self.now_ms)
        for message in output.messages:
            self._handle(target, message, source)
        self._emit(target, source, output.frames)
        if output.resync:
            self._handle(target, m.Resync(), "")

    def _emit(self, source: str, target: str, frames: list[Frame]) -> None:
        for frame in frames:
            self._transmit(source, target, frame)
        due = self.hosts[source].links[target].retry_at_ms
        if due is not None and self._timers.get((source, target), 0) < due:
            self._timers[source, target] = due
            self._at(due, self._retry, source, target)

    def _retry(self, source: str, target: str) -> None:
        host = self.hosts[source]
        if host.up:
            link = host.links[target]
            due = link.retry_at_ms
            if due is None or due <= self.now_ms:
                self._emit(source, target, link.tick(self.now_ms).frames)

    # --- brokers and clients ----------------------------------------------------------------------------------------

    def _request(self, step: Step) -> None:
        """A client does one thing after the other, and tries again while a node is down."""
        do = step.do
        waiting = self._to_do.setdefault(client_of(do), deque())
        idle = not waiting
        if isinstance(do, Move):
            waiting.append((step.node, m.Disconnect(do.client)))
            turn = self._turns[do.client] = self._turns.get(do.client, START_TURN) + 1
            waiting.append((do.to, m.Attach(do.client, do.location, step.node, turn)))
        else:
            waiting.append((step.node, do))
        if idle:
            self._next(waiting)

    def _next(self, waiting: deque[tuple[str, m.Request]]) -> None:
        node, request = waiting[0]
        if self.hosts[node].up:
            waiting.popleft()
            self._handle(node, request, "")
        if waiting:
            self._at(self.now_ms + (1 if self.hosts[node].up else RESTART_RETRY_MS), self._next, waiting)

    def _handle(self, node: str, message: Any, sender: str) -> None:
        host = self.hosts[node]
        for effect in host.broker.handle(message, sender, self.now_ms):
            if isinstance(effect, m.Send):
                for target in effect.to:
                    self.sent.append(Sent(self.now_ms, node, target, effect.message))
                    output = host.links[target].send(effect.message, self.now_ms)
                    self._emit(node, target, output.frames)
                    self.trace.lost.extend(output.lost)
            elif isinstance(effect, m.Deliver):
                self.trace.delivered.append((effect.client, effect.subscription, effect.notification.id))
            elif isinstance(effect, m.Reject):
                self.trace.rejected.append(effect)
            elif isinstance(effect, m.Dropped):
                self.trace.dropped.append(effect)
