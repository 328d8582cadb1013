"""One meaning, many routes: on random federations every strategy delivers exactly what the oracle says, each thing once."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.matching import satisfies
from hanse.model import WORLD, Notification, Subscription
from hanse.routing import STRATEGIES
from hanse.routing import messages as m
from hanse.simulation.checkers import Got, content
from hanse.simulation.engine import Simulator
from hanse.simulation.scenarios import scenario
from hanse.simulation.steps import PHASE_MS, Move, Scenario, Step, apply

TICK_MS = 10_000
SEEDS = st.integers(0, 10**9)


class Settled:
    """A scenario without haste: each step when the one before has come to rest, and clocks that all brokers look at."""

    def __init__(self, given_scenario: Scenario) -> None:
        self.simulator = Simulator(given_scenario.settings, given_scenario.scopes, policies=given_scenario.policies)
        self.world = given_scenario.world()
        self.must: set[Got] = set()
        self.may: set[Got] = set()  # the client was out of reach until it did not want it any more
        self.away: dict[str, list[tuple[Subscription, Notification, str]]] = {}  # who is out of reach, and what waits for it
        self.views: dict[Got, tuple[object, ...]] = {}  # what they must see of it
        self.now = self.ticked = 0
        turn = 1 << 40
        for number, phase in enumerate(given_scenario.phases):
            for step in phase.steps:
                self._wait_until(number * PHASE_MS + step.at_ms)
                do = step.do
                if isinstance(do, Move):
                    turn += 1
                    self.simulator.request(self.now, step.node, m.Disconnect(do.client))
                    self.simulator.request(self.now + 1, do.to, m.Attach(do.client, do.location, step.node, turn))
                elif isinstance(do, m.Attach):
                    turn += 1
                    self.simulator.request(self.now, step.node, msgspec.structs.replace(do, turn=turn))
                elif not isinstance(do, m.Query):
                    self.simulator.request(self.now, step.node, do)
                self._expect(step)
                self.simulator.run()
        self.delivered = [
            Got(d.client, d.subscription, d.notification.publisher, d.notification.id) for d in self.simulator.delivered
        ]
        self.shown = {got: content(d.notification) for got, d in zip(self.delivered, self.simulator.delivered, strict=True)}

    def _wait_until(self, at_ms: int) -> None:
        self.now = max(self.now + 10, self.simulator.last_ms + 10, at_ms)
        if self.now - self.ticked > TICK_MS:
            self.ticked = self.now
            for node in self.simulator.brokers:
                self.simulator.tick(self.now, node)
            self.simulator.run()
            self.now = max(self.now, self.simulator.last_ms) + 10

    def _expect(self, step: Step) -> None:
        world, do = self.world, step.do
        world.now_ms = self.now + self.simulator.client_hop_ms
        apply(world, step)
        match do:
            case m.Disconnect():
                self.away.setdefault(do.client, [])
            case m.Attach() | Move() | m.Detach():
                for subscription, n, source in self.away.pop(do.client, ()):
                    as_it_was = subscription in world.subscriptions.values()
                    active = subscription.expires_at_ms is None or subscription.expires_at_ms > world.now_ms
                    view = world.seen_at(source, world.homes[do.client], n) if as_it_was else None
                    # what a filter may not see any more does not decide for it
                    if view is not None and active and _asks(subscription, view):
                        self.must.add(_got(subscription, n))
                        self.views[_got(subscription, n)] = content(view)
                    elif not as_it_was or not active:
                        self.may.add(_got(subscription, n))
            case m.Publish():
                n = do.notification
                for id_, subscription in world.subscriptions.items():  # one by one: clients use each other's ids
                    if msgspec.structs.replace(world, subscriptions={id_: subscription}).receivers(n):
                        whole = world.published(n)
                        assert whole is not None
                        view = world.view(whole, subscription)
                        assert view is not None
                        if subscription.client in self.away:
                            self.away[subscription.client].append((subscription, whole, world.homes[n.publisher]))
                        else:
                            self.must.add(_got(subscription, n))
                            self.views[_got(subscription, n)] = content(view)
            case _:
                pass


def _asks(subscription: Subscription, n: Notification) -> bool:
    return satisfies(subscription, msgspec.structs.replace(n, geofence=WORLD), n.location, None)


def _got(subscription: Subscription, n: Notification) -> Got:
    return Got(subscription.client, subscription.id, n.publisher, n.id)


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=40, deadline=None)
@given(seed=SEEDS)
def test_every_strategy_delivers_what_the_oracle_says(strategy: str, seed: int) -> None:
    run = Settled(scenario(seed, strategy))
    delivered = set(run.delivered)
    assert run.must - delivered == set()
    assert delivered - run.must - run.may == set()
    assert len(run.delivered) == len(delivered)
    assert {got: run.shown[got] for got in run.views} == run.views  # as policy and rules leave it, no more and no less


def test_the_scenarios_are_not_trivial() -> None:
    promised = sum(len(Settled(scenario(seed, "flood-events")).must) for seed in range(40))
    assert promised > 400
