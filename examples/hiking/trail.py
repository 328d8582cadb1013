"""Who walks where, and says what to whom: random, seeded, and pure. The same plan is played live and in the simulator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, cycle, islice, permutations
from random import Random
from typing import Final

from msgspec import Struct, field

from hanse.model import Circle, InvalidInput, Location, Notification, Selector, Subscription
from hanse.routing import Federation, Node
from hanse.routing import messages as m
from hanse.routing.federation import both_ways
from hanse.routing.oracle import World
from hanse.routing.territories import Territories
from hanse.simulation.actions import Action
from hanse.simulation.workloads import Workload

CITIES: Final = {"porto": (41.15, -8.61), "paris": (48.86, 2.35), "wien": (48.21, 16.37), "roma": (41.90, 12.50)}
NAMES: Final = ("Ada", "Bo", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "Jun", "Kai", "Lea", "Mia", "Ned", "Ola", "Pia")
TOPIC: Final = "hiking"
WORDS: Final = ("the hut is full", "snow on the pass", "the path is closed", "who has a stove?", "what a view", "storm at noon")
INTEREST_KM: Final = 500  # how far around a hiker messages come from
REACH_KM: Final = (50, 600)  # how far around a hiker his message goes
TALKS: Final = (0, 3)  # messages in a stage
WANDER_DEG: Final = 1.2
STAGE_MS: Final = 60_000  # in the simulator; live, a stage ends when it is done
HIKERS_MAX: Final = len(NAMES)
STAGES_MAX: Final = 50


class Move(Struct, frozen=True):
    """A hiker is somewhere, at the node whose area that is; `previous` is where he was at home until now."""

    hiker: str
    to: Location
    home: str
    previous: str | None


class Said(Struct, frozen=True):
    id: str
    hiker: str
    home: str
    at: Location
    text: str
    reach_km: int


class Stage(Struct):
    """First all move, then some speak."""

    moves: list[Move] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)


def federation() -> Federation:
    nodes = tuple(Node(name, Location(*place)) for name, place in CITIES.items())
    return Federation(nodes, both_ways(list(combinations(CITIES, 2))))


def areas_of_nodes() -> Territories:
    """Every place belongs to the nearest city: what nodes take for granted where nobody has drawn them other areas."""
    return Territories(federation(), {})


def hike(hikers: int, stages: int, seed: int) -> list[Stage]:
    """Each walks from one city to another, not quite straight."""
    if not 2 <= hikers <= HIKERS_MAX:
        raise InvalidInput(f"2 to {HIKERS_MAX} hikers are possible, not {hikers}")
    if not 2 <= stages <= STAGES_MAX:
        raise InvalidInput(f"2 to {STAGES_MAX} stages are possible, not {stages}")
    random, areas = Random(seed), areas_of_nodes()
    possible = list(permutations(CITIES, 2))
    random.shuffle(possible)
    chosen = list(islice(cycle(possible), hikers))
    homes: dict[str, str] = {}
    plan = []
    for number in range(stages):
        stage = Stage()
        for name, (start, goal) in zip(NAMES, chosen, strict=False):
            at = _between(start, goal, number / (stages - 1), random)
            home = areas.owner(at.lat, at.lon)
            stage.moves.append(Move(name, at, home, homes.get(name)))
            homes[name] = home
            for i in range(random.randint(*TALKS)):
                reach_km = random.randint(*REACH_KM)
                stage.said.append(Said(f"{name}-{number}-{i}", name, home, at, random.choice(WORDS), reach_km))
        plan.append(stage)
    return plan


def _between(start: str, goal: str, share: float, random: Random) -> Location:
    (lat, lon), (to_lat, to_lon) = CITIES[start], CITIES[goal]
    wander_lat, wander_lon = (random.uniform(-WANDER_DEG, WANDER_DEG) for _ in range(2))
    return Location(round(lat + share * (to_lat - lat) + wander_lat, 3), round(lon + share * (to_lon - lon) + wander_lon, 3))


def subscription(hiker: str, at: Location) -> Subscription:
    around = Circle.of_km(at.lat, at.lon, INTEREST_KM)
    return Subscription(id=f"{hiker}/near", client=hiker, selectors=(Selector(topic=TOPIC),), geofence=around)


def notification(said: Said) -> Notification:
    around = Circle.of_km(said.at.lat, said.at.lon, said.reach_km)
    return Notification(id=said.id, publisher=said.hiker, topic=TOPIC, location=said.at, geofence=around)


def should_hear(plan: Sequence[Stage]) -> dict[str, set[str]]:
    """Who has to hear of each message, by the plain meaning of delivery: without brokers, without messages between them."""
    world = World(federation())
    found = {}
    for stage in plan:
        for move in stage.moves:
            world.homes[move.hiker] = move.home
            world.locations[move.hiker] = move.to
            asked = subscription(move.hiker, move.to)
            world.subscriptions[asked.id] = asked
        for said in stage.said:
            found[said.id] = {id_.partition("/")[0] for id_ in world.receivers(notification(said))}
    return found


def workload(plan: Sequence[Stage]) -> Workload:
    """The same for the simulator."""
    return Workload("hiking", federation(), list(_actions(plan)))


def _actions(plan: Sequence[Stage]) -> Iterator[Action]:
    for number, stage in enumerate(plan):
        now_ms = number * STAGE_MS
        for move in stage.moves:
            is_new = move.home != move.previous
            come: m.Request = m.Attach(move.hiker, move.to, move.previous) if is_new else m.Locate(move.hiker, move.to)
            yield Action(now_ms, move.home, move.hiker, come)
        for move in stage.moves:
            asked = m.Subscribe(subscription(move.hiker, move.to))
            yield Action(now_ms + STAGE_MS // 4, move.home, move.hiker, asked)
        for said in stage.said:
            yield Action(now_ms + STAGE_MS // 2, said.home, said.hiker, m.Publish(notification(said)))


def ways(plan: Sequence[Stage]) -> Mapping[str, list[str]]:
    """The nodes that each hiker was at home at, one after the other."""
    found: dict[str, list[str]] = {}
    for move in (move for stage in plan for move in stage.moves):
        passed = found.setdefault(move.hiker, [])
        if passed[-1:] != [move.home]:
            passed.append(move.home)
    return found
