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

from hanse.matching.meaning import passes_q, selects
from hanse.routing import Broker
from hanse.routing import messages as m
from hanse.routing.export import export_types
from hanse.routing.guard import Guard
from hanse.routing.link import Frame, LinkState, ReliableLink
from hanse.scopes import Scopes
from hanse.simulation.checkers import Got, Trace
from hanse.simulation.expectation import Expectation
from hanse.simulation.steps import PHASE_MS, Move, Scenario, Step, client_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hanse.model import Notification

HOP_MS = 20
STEPS_MAX = 200_000  # events of one run: a livelock is a failure too
START_TURN = 1 << 40  # above any clock
LONG_CUT_MS = 150_000
SHORT_TROUBLE_MS = 4_000
AFTERWARDS_MS = 70_000  # how long nodes look at the time after the last step of a phase
OPERATORS_PAUSE_MS = 10  # changes of one border at two nodes within a millisecond have no order that anyone could tell
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
    ticks_ms: int = 0  # how often each node that is up looks at the time; 0: between phases only
    outbox_max: int = 100_000


NO_FAULTS = Faults()


def random_faults(scenario: Scenario) -> Faults:
    """Trouble that is over while old homes still forward to those who moved: where they do so for long, it may be long."""
    dice = Random(f"faults/{scenario.seed}/{scenario.settings.strategy}")
    federation = scenario.settings.federation
    links = sorted({tuple(sorted((link.source, link.target))) for link in federation.links})
    patient = scenario.settings.handover_grace_ms > LONG_CUT_MS
    cut_ms = dice.choice((30_000, 30_000, LONG_CUT_MS)) if patient else SHORT_TROUBLE_MS
    down_ms = 10_000 if patient else SHORT_TROUBLE_MS
    cuts, crashes = [], []
    for number, phase in enumerate(scenario.phases):
        span = max([20_000, *(step.at_ms for step in phase.steps)])
        for _ in range(dice.choice((0, 0, 1, 2))):
            start = dice.randrange(0, span)
            a, b = dice.choice(links)
            cuts.append(Cut(number, start, start + dice.randrange(100, cut_ms), a, b))
        for _ in range(dice.choice((0, 0, 1, 1, 2))):
            crashes.append(Crash(number, dice.randrange(0, span), dice.randrange(10, down_ms), dice.choice(federation.ids)))
        for step in phase.steps:
            if isinstance(step.do, Move) and dice.random() < 0.15:  # in the middle of a hand-over
                at, node = step.at_ms + dice.randrange(1, 100), dice.choice((step.node, step.do.to))
                crashes.append(Crash(number, at, dice.randrange(10, SHORT_TROUBLE_MS), node))
    return Faults(
        seed=scenario.seed,
        loss=dice.choice((0.0, 0.05, 0.3)) if patient else 0.0,
        doubled=dice.choice((0.0, 0.1, 0.3)),
        delay_ms=dice.choice((0, 30, 2_000)),
        cuts=tuple(cuts),
        crashes=tuple(crashes),
        ticks_ms=dice.choice((0, 5_000, 10_000, 20_000)),
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
        self.broker = Broker.restore(self.broker.id, self.broker.settings, stored, self.broker.policy)
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
            node: Host(Broker(node, settings, Scopes.from_struct(snapshot), scenario.policies.get(node)), faults)
            for node in settings.federation.ids
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
        self._store: dict[str, list[Notification]] = {}
        self._guarded = settings.federation.has_export_rules
        self._guard = Guard(settings, scenario.scopes) if "guard" not in settings.ablations else None
        self._asked: dict[str, str] = {}  # what queries ask for

    def run(self) -> Trace:
        expectation = Expectation(self.scenario)
        for number, phase in enumerate(self.scenario.phases):
            self.now_ms = max(self.now_ms + 1, number * PHASE_MS)
            for node in self.hosts:
                self._handle(node, m.Tick(), "")
            self._run()
            start = self.now_ms = self.now_ms + 1
            for step in phase.steps:
                self._at(start + step.at_ms, self._request, step)
                if isinstance(step.do, m.Subscribe):
                    subscription = step.do.subscription
                    self.trace.subscribed.setdefault((subscription.client, subscription.id), []).append(subscription)
            self._expect_replies(phase.steps)
            window = expectation.phase(phase.steps, start)
            self._break(number, start)
            self._run()
            self._heal()
            self._run()
            window.end_ms = self.now_ms
        self.trace.published = expectation.published()
        return self.trace

    def _expect_replies(self, steps: tuple[Step, ...]) -> None:
        """Whoever asks and stays where it is gets a reply."""
        left = {step.do.client for step in steps if isinstance(step.do, m.Detach | Move)}
        for step in steps:
            if isinstance(step.do, m.Query):
                self.trace.asked[step.do.client, step.do.id] = step.do.client not in left
                self._asked[step.do.id] = step.do.q

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

    def _break(self, phase: int, start: int) -> None:
        self.calm = False
        for cut in self.faults.cuts:
            if cut.phase == phase:
                self._at(start + cut.from_ms, self._cut, frozenset((cut.a, cut.b)), start + cut.until_ms)
        for crash in self.faults.crashes:
            if crash.phase == phase:
                self._at(start + crash.at_ms, self._crash, crash.node, crash.down_ms)
        if self.faults.ticks_ms:
            steps = self.scenario.phases[phase].steps
            cuts = (cut.until_ms for cut in self.faults.cuts if cut.phase == phase)
            end = max([0, *(step.at_ms for step in steps), *cuts]) + AFTERWARDS_MS
            for i, node in enumerate(self.hosts):
                for at in range(i * self.faults.ticks_ms // len(self.hosts) + 1, end, self.faults.ticks_ms):
                    self._at(start + at, self._tick, node)

    def _tick(self, node: str) -> None:
        if self.hosts[node].up:
            self._handle(node, m.Tick(), "")

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
            if self._guard is not None and (reason := self._guard.refusal(message, source, target)):
                self.trace.refused.append((source, target, reason))
            else:
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
        match do:
            case Move():
                waiting.append((step.node, m.Disconnect(do.client)))
                waiting.append((do.to, m.Attach(do.client, do.location, step.node, self._turn(do.client))))
            case m.Attach():
                waiting.append((step.node, msgspec.structs.replace(do, turn=self._turn(do.client))))
            case _:
                waiting.append((step.node, do))
        if idle:
            self._next(waiting)

    def _turn(self, client: str) -> int:
        if not self.scenario.counts_turns:
            return 0
        turn = self._turns[client] = self._turns.get(client, START_TURN) + 1
        return turn

    def _next(self, waiting: deque[tuple[str, m.Request]]) -> None:
        node, request = waiting[0]
        if self.hosts[node].up:
            waiting.popleft()
            self._handle(node, request, "")
            if isinstance(request, m.Publish):
                self._store.setdefault(node, []).append(request.notification)
        if waiting:
            pause_ms = OPERATORS_PAUSE_MS if isinstance(request, m.SetVisibility) else 1
            self._at(self.now_ms + (pause_ms if self.hosts[node].up else RESTART_RETRY_MS), self._next, waiting)

    def _handle(self, node: str, message: Any, sender: str) -> None:
        host = self.hosts[node]
        trace = self.trace
        for effect in host.broker.handle(message, sender, self.now_ms):
            match effect:
                case m.Send():
                    for target in effect.to:
                        self._send(node, target, effect.message)
                case m.Deliver():
                    trace.delivered.append(_got(effect))
                    trace.shown.append((_got(effect), effect.notification))
                case m.Reject():
                    trace.rejected.append((effect.client, effect.request, effect.reason))
                case m.Dropped():
                    trace.dropped.append((_got(effect), effect.reason))
                case m.Lookup():
                    self._at(self.now_ms + 1, self._answer, node, effect)
                case m.Reply():
                    trace.replied.append((effect.client, effect.query, node, effect.entities))

    def _send(self, node: str, target: str, message: m.BrokerMessage) -> None:
        self.sent.append(Sent(self.now_ms, node, target, message))
        if self._guarded:
            rule = self.scenario.settings.federation.rule[node, target]
            for n in carried(m.innermost(message)):
                # what is only for one node, nobody on its way can read; the guard looks at it there
                if n.only_for:
                    continue
                if not rule.allows(export_types(n), n.entity) or not rule.admits(n) or rule.stripped(n) != n:
                    self.trace.leaked.append((node, target, (n.publisher, n.id)))
        if self.scenario.policies:
            for n, home in published_at(m.innermost(message)):
                reader = n.only_for or target
                policy = self.scenario.policies.get(home)
                view = policy.view(reader, n) if policy is not None and reader != home else n
                if view != n:
                    self.trace.leaked.append((home, reader, (n.publisher, n.id)))
        output = self.hosts[node].links[target].send(message, self.now_ms)
        self._emit(node, target, output.frames)
        self.trace.lost.extend(output.lost)

    def _answer(self, node: str, lookup: m.Lookup) -> None:
        """A node has the entities that were published there."""
        if not self.hosts[node].up:
            self._at(self.now_ms + RESTART_RETRY_MS, self._answer, node, lookup)
            return
        query, asker = lookup.query, lookup.asker
        has = self._store.get(node, ())
        found = tuple(n for n in has if n.entity is not None and selects(query.selectors, n) and passes_q(query.q, n))
        seen_at = self.scenario.world().seen_at
        views = (seen_at(node, asker, n) for n in found)
        allowed = self.trace.answered.setdefault((query.client, query.id, asker), [])
        allowed.extend(view for view in views if view is not None and passes_q(self._asked[query.id], view))
        self._handle(node, m.Answer(query.id, asker, found), "")


def _got(effect: m.Deliver | m.Dropped) -> Got:
    return Got(effect.client, effect.subscription, effect.notification.publisher, effect.notification.id)


def published_at(message: Any) -> Iterator[tuple[Notification, str]]:
    """The notifications in a message, each with the node where it was published."""
    match message:
        case m.Handover():
            yield from ((n, home) for _, n, home in message.waiting)
        case m.Found():
            yield from ((n, message.provider) for n in message.entities)
        case m.Event() | m.RestrictedEvent() | m.Delivery() | m.Waited():
            yield message.notification, message.home
        case _:
            pass


def carried(message: Any) -> Iterator[Notification]:
    """The notifications in a message. (What a client has asked to publish and no broker has yet is none.)"""
    match message:
        case m.Event() | m.RestrictedEvent() | m.Delivery() | m.Waited():
            yield message.notification
        case m.Found():
            yield from message.entities
        case m.Handover():
            yield from (item[1] for item in message.waiting)
