"""All measurements of the study, one after the other."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from hanse.simulation.smart_port import smart_port
from hanse.studies.comdex.federations import TOPOLOGIES, chain, running
from hanse.studies.comdex.latency import Samples, measure
from hanse.studies.comdex.messages import GRANULARITIES, PHASES, Counted, Links, count, count_live
from hanse.studies.comdex.mosquitto import bare_mosquitto
from hanse.studies.report import progress

if TYPE_CHECKING:
    from collections.abc import Callable

WIDTHS: Final = (1, 2, 3, 6)  # the paper has 1, 3 and 6; the prototype was measured with two
LIVE: Final = "hybrid"  # the topology that is run with real nodes, too


class Sizes(Struct, frozen=True, kw_only=True):
    widths: tuple[int, ...]
    entities: int  # at the first node of each chain
    rounds: int
    normal: int  # samples in a round
    worst: int  # the same, and advertisements in a round
    scale: float  # of the port in the simulator
    seconds: float  # that its devices speak for
    live_scale: float  # of the port with real nodes
    live_messages: int  # of devices with real nodes


FULL: Final = Sizes(
    widths=WIDTHS, entities=2_000, rounds=5, normal=100, worst=20, scale=1.0, seconds=60.0, live_scale=0.1, live_messages=500
)
QUICK: Final = Sizes(
    widths=WIDTHS, entities=500, rounds=2, normal=25, worst=5, scale=0.1, seconds=60.0, live_scale=0.02, live_messages=60
)


class Timed(Struct, frozen=True):
    """What one width took."""

    normal: Samples
    worst: Samples
    installed: Samples
    rediscoveries: int  # how often the provider was told of the subscription in the worst case


class Check(Struct, frozen=True):
    """The same port and messages in the simulator and with real nodes."""

    simulated: Counted
    live: dict[str, Links]
    live_delivered: int

    def rows(self) -> list[tuple[str, str, int, int]]:
        """Phase, link, messages simulated and live."""
        found = []
        for phase in PHASES:
            ours, theirs = self.simulated.by_phase[phase], self.live[phase]
            for source, target in sorted(ours.keys() | theirs.keys()):
                found.append((phase, f"{source} → {target}", ours[source, target], theirs[source, target]))
        return found

    @property
    def agrees(self) -> bool:
        return self.live_delivered == self.simulated.delivered and all(ours == live for _, _, ours, live in self.rows())


class Results(Struct, frozen=True):
    sizes: Sizes
    timed: dict[int, Timed]
    mosquitto: Samples | None
    counted: dict[tuple[str, str], Counted]
    checks: dict[str, Check]  # by granularity


def run(sizes: Sizes, seed: int) -> Results:
    with progress("ComDeX", len(TOPOLOGIES) * len(GRANULARITIES) + 4) as done:
        timed = times(sizes, seed)
        done(1)
        mosquitto = bare_mosquitto(sizes.rounds * sizes.normal)
        done(1)
        counted = counts(sizes, seed, done)
        checks = {}
        for granularity in GRANULARITIES:
            checks[granularity] = check_live(sizes, seed, granularity)
            done(1)
    return Results(sizes, timed, mosquitto, counted, checks)


def times(sizes: Sizes, seed: int) -> dict[int, Timed]:
    with ExitStack() as stack:
        federations = {width: stack.enter_context(running(chain(width))) for width in sizes.widths}
        measuring = measure(
            federations, entities=sizes.entities, rounds=sizes.rounds, normal=sizes.normal, worst=sizes.worst, seed=seed
        )
        chains = asyncio.run(measuring)
        return {
            width: Timed(chain.normal, chain.worst, chain.installed, chain.rediscoveries()) for width, chain in chains.items()
        }


def counts(sizes: Sizes, seed: int, done: Callable[[float], None]) -> dict[tuple[str, str], Counted]:
    port = smart_port(seed=seed, scale=sizes.scale)
    messages = port.messages(sizes.seconds, seed)
    found = {}
    for topology in TOPOLOGIES:
        for granularity in GRANULARITIES:
            found[topology, granularity] = count(topology, granularity, port, messages)
            done(1)
    return found


def check_live(sizes: Sizes, seed: int, granularity: str) -> Check:
    port = smart_port(seed=seed, scale=sizes.live_scale)
    messages = port.messages(3_600, seed)[: sizes.live_messages]
    simulated = count(LIVE, granularity, port, messages, direct=True)
    with running(TOPOLOGIES[LIVE], by_id=granularity == "id") as federation:
        live, delivered = asyncio.run(count_live(federation, port, messages))
    return Check(simulated, live, delivered)
