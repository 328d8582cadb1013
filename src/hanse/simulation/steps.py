"""Explicit scenarios: what clients and operators do, step by step, so that a run can be cut down to the steps that matter.

A scenario is a list of phases, each of which starts when the one before has come to rest. In a 'change' phase clients change
what they want, where they are and to whom they are attached; in a 'publish' phase they publish, while perhaps one of them
moves; in a 'mixed' phase everything happens at once. `expectation` says what must and what may arrive.
`scenarios` has the dice.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from hanse.model import Location
from hanse.routing import Settings
from hanse.routing import messages as m
from hanse.routing.oracle import World
from hanse.routing.state import own_id
from hanse.scopes import Scopes
from hanse.simulation.policies import Rules

PHASE_MS = 600_000  # longer than any phase takes, and than a hand-over's grace


class Move(Struct, frozen=True, tag=True):
    """A client leaves its node and turns up at another, and at another place."""

    client: str
    to: str
    location: Location | None = None


class Step(Struct, frozen=True):
    at_ms: int  # after the start of its phase
    node: str  # where the client is when it does this; for a move, where it comes from
    do: m.Request | Move


class Phase(Struct, frozen=True):
    steps: tuple[Step, ...]
    kind: str  # change, publish, mixed

    @property
    def publishes(self) -> bool:
        return self.kind != "change"


class Scenario(Struct, frozen=True):
    seed: int
    settings: Settings
    scopes: Scopes
    phases: tuple[Phase, ...]
    counts_turns: bool = True  # clients number their stays; otherwise they leave it to the nodes' clocks
    policies: dict[str, Rules] = {}  # of nodes that have one

    def world(self) -> World:
        return World(
            self.settings.federation,
            Scopes.from_struct(self.scopes.to_struct()),
            require_advertisements=self.settings.require_advertisements,
            policies=dict(self.policies),
        )


def apply(world: World, step: Step) -> None:
    """What a step changes in the world as the oracle sees it."""
    do = step.do
    match do:
        case m.Attach():
            world.homes[do.client] = step.node
            if do.location is not None:
                world.locations[do.client] = do.location
        case Move():
            world.homes[do.client] = do.to
            if do.location is not None:
                world.locations[do.client] = do.location
        case m.Locate():
            world.locations[do.client] = do.location
        case m.Subscribe():
            world.subscriptions[own_id(do.subscription.client, do.subscription.id)] = do.subscription
        case m.Unsubscribe():
            world.subscriptions.pop(own_id(do.client, do.id), None)
        case m.Advertise():
            world.advertisements[do.advertisement.client, do.advertisement.id] = do.advertisement
        case m.Unadvertise():
            world.advertisements.pop((do.client, do.id), None)
        case m.Detach():
            world.subscriptions = {k: s for k, s in world.subscriptions.items() if s.client != do.client}
            world.advertisements = {k: a for k, a in world.advertisements.items() if a.client != do.client}
            world.locations.pop(do.client, None)
            world.homes.pop(do.client, None)
        case m.SetVisibility():
            world.scopes.graphs[do.dimension].set_filter(do.scope, do.superscope, out=do.out, into=do.into)
        case _:
            pass


def with_steps(given: Scenario, keep: set[tuple[int, int]]) -> Scenario:
    """The scenario with only some of its steps, named by phase and place in it, and the arrivals of those who take them.

    A client whose move is left out does what follows from where it then is; one that has not come (again) does nothing.
    """
    busy = {client_of(given.phases[i].steps[j].do) for i, j in keep if i}
    homes: dict[str, str] = {}
    phases = []
    for i, phase in enumerate(given.phases):
        steps = []
        for j, step in enumerate(phase.steps):
            arrives = i == 0 and isinstance(step.do, m.Attach)
            if client_of(step.do) in busy if arrives else (i, j) in keep:
                steps.extend(_where_it_is(step, homes))
        phases.append(Phase(tuple(steps), phase.kind))
    return msgspec.structs.replace(given, phases=tuple(phases))


def _where_it_is(step: Step, homes: dict[str, str]) -> list[Step]:
    """The step as its client can take it from where it is now."""
    do = step.do
    client = client_of(do)
    if not client:
        return [step]
    here = homes.get(client)
    if here is None:
        if not isinstance(do, m.Attach):
            return []
        homes[client] = step.node
        return [step]
    match do:
        case Move():
            if do.to == here:
                return []
            homes[client] = do.to
        case m.Detach():
            del homes[client]
        case m.Attach() if do.previous is not None:
            do = msgspec.structs.replace(do, previous=here)
        case _:
            pass
    return [Step(step.at_ms, here, do)]


def client_of(do: m.Request | Move) -> str:
    """Who does it; operators are nobody."""
    match do:
        case m.Subscribe():
            return do.subscription.client
        case m.Advertise():
            return do.advertisement.client
        case m.Publish():
            return do.notification.publisher
        case _:
            return getattr(do, "client", "")
