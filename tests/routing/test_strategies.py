"""One meaning, many routes: on random federations every strategy delivers exactly what the oracle says, each thing once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.routing import STRATEGIES
from hanse.routing import messages as m
from hanse.simulation.engine import Simulator
from hanse.simulation.scenarios import PHASE_MS, Move, Scenario, apply, scenario

SEEDS = st.integers(0, 10**9)


def run_settled(given_scenario: Scenario) -> tuple[set[tuple[str, str]], set[tuple[str, str]], int]:
    """Each step when the one before has come to rest; what had to be delivered, what was, and how many deliveries there were."""
    simulator = Simulator(given_scenario.settings, given_scenario.scopes)
    world = given_scenario.world()
    promised: set[tuple[str, str]] = set()
    turn = 1 << 40
    now = 0
    for number, phase in enumerate(given_scenario.phases):
        now = max(now, number * PHASE_MS)
        for node in given_scenario.settings.federation.ids:
            simulator.tick(now, node)
        simulator.run()
        for step in phase.steps:
            now = max(now, simulator.last_ms) + 10
            if isinstance(step.do, Move):
                turn += 1
                simulator.request(now, step.node, m.Disconnect(step.do.client))
                simulator.request(now + 1, step.do.to, m.Attach(step.do.client, step.do.location, step.node, turn))
            else:
                simulator.request(now, step.node, step.do)
            apply(world, step)
            if isinstance(step.do, m.Publish):
                world.now_ms = now + simulator.client_hop_ms
                promised |= {(id_, step.do.notification.id) for id_ in world.receivers(step.do.notification)}
            simulator.run()
    delivered = [(d.subscription, d.notification.id) for d in simulator.delivered]
    return promised, set(delivered), len(delivered)


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=40, deadline=None)
@given(seed=SEEDS)
def test_every_strategy_delivers_what_the_oracle_says(strategy: str, seed: int) -> None:
    promised, delivered, count = run_settled(scenario(seed, strategy))
    assert delivered == promised
    assert count == len(delivered)


def test_the_scenarios_are_not_trivial() -> None:
    promised = sum(len(run_settled(scenario(seed, "flood-events"))[0]) for seed in range(40))
    assert promised > 200
