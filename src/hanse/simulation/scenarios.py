"""Random federations with random clients, for property tests and for faults: everything that the meaning speaks of, mixed.

A scenario is explicit (steps, not dice), so that it can be cut down to the steps that matter. It alternates two kinds of phases:
in one the clients change what they want, where they are and to whom they are attached; in the other they publish, while perhaps
one of them moves. Each phase starts when the one before has come to rest, so that the oracle can say what must arrive.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from hanse.model import (
    WORLD,
    Advertisement,
    Circle,
    Geofence,
    Location,
    Notification,
    Polygon,
    Selector,
    Subscription,
)
from hanse.routing import ExportRule, Federation, Group, Link, Node, Settings
from hanse.routing import messages as m
from hanse.routing.oracle import World
from hanse.scopes import NEVER, Scopes

if TYPE_CHECKING:
    from collections.abc import Iterable

PHASE_MS = 600_000  # longer than any phase takes, and than a hand-over's grace
TYPES = ("Bus", "Ship", "Room")
TOPICS = ("t/1", "t/2")
QS = (
    "",
    "",
    "",
    "",
    "temp>5",
    "temp<=3",
    'name=="a"',
    'name=="a"|temp<2',
    "temp==2..6",
    "flag",
    'name~="^b"',
    "temp!=4;name",
    'name!="a"',
)
QUALITIES = ("", "", "", "", "", "precision>=4", "precision<8;freshness<=60")


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
    publishes: bool


class Scenario(Struct, frozen=True):
    seed: int
    settings: Settings
    scopes: Scopes
    phases: tuple[Phase, ...]

    def world(self) -> World:
        return World(self.settings.federation, Scopes.from_struct(self.scopes.to_struct()))


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
            world.subscriptions[do.subscription.id] = do.subscription
        case m.Unsubscribe():
            world.subscriptions.pop(do.id, None)
        case m.Advertise():
            world.advertisements[do.advertisement.client, do.advertisement.id] = do.advertisement
        case m.Unadvertise():
            world.advertisements.pop((do.client, do.id), None)
        case m.Detach():
            world.subscriptions = {k: s for k, s in world.subscriptions.items() if s.client != do.client}
            world.advertisements = {k: a for k, a in world.advertisements.items() if a.client != do.client}
            world.locations.pop(do.client, None)
        case m.SetVisibility():
            world.scopes.graphs[do.dimension].set_filter(do.scope, do.superscope, out=do.out, into=do.into)
        case _:
            pass


def scenario(seed: int, strategy: str, *, nodes: int | None = None, rounds: int = 3, ablations: tuple[str, ...] = ()) -> Scenario:
    """A random scenario; the same one for the same seed and strategy."""
    return _Maker(Random(f"{seed}/{strategy}"), seed, strategy, nodes, rounds, ablations).make()


class _Maker:
    def __init__(
        self, dice: Random, seed: int, strategy: str, nodes: int | None, rounds: int, ablations: tuple[str, ...]
    ) -> None:
        self.dice = dice
        self.seed = seed
        self.rounds = rounds
        self.federation, groups = self._federation(strategy, nodes or dice.randint(2, 7))
        self.settings = Settings(
            strategy,
            self.federation,
            groups=groups,
            flood_locations=dice.random() < 0.15,
            advertise_ids=dice.random() < 0.3,
            field_size_deg=dice.choice((6.0, 30.0)),
            ablations=ablations,
        )
        self.scopes = self._scopes()
        self.homes: dict[str, str] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.advertisements: dict[str, Advertisement] = {}
        self.count = 0

    # --- the federation ---------------------------------------------------------------------------------------------

    def _federation(self, strategy: str, count: int) -> tuple[Federation, tuple[Group, ...]]:
        dice = self.dice
        nodes = [Node(f"n{i}", self._anywhere()) for i in range(count)]
        ids = [node.id for node in nodes]
        pairs: set[tuple[str, str]] = set()
        for i in range(1, count):  # a random tree keeps it connected
            pairs.add((ids[dice.randrange(i)], ids[i]))
        shape = dice.choice(("tree", "more", "mesh"))
        for i in range(count):
            for j in range(i + 1, count):
                if shape == "mesh" or (shape == "more" and dice.random() < 0.3):
                    pairs.add((ids[i], ids[j]))
        groups: list[Group] = []
        if strategy == "broadcast-groups":
            rest = ids[:]
            dice.shuffle(rest)
            while rest:
                size = dice.randint(1, 3)
                group, rest = rest[:size], rest[size:]
                groups.append(Group(group[0], tuple(group[1:])))
            nodes.append(Node("cloud", self._anywhere()))
            for other in ids if shape == "mesh" else [dice.choice(ids)]:
                pairs.add((other, "cloud"))
        ruled = dice.random() < 0.3
        links = tuple(Link(a, b, self._rule() if ruled else ExportRule()) for x, y in sorted(pairs) for a, b in ((x, y), (y, x)))
        return Federation(tuple(nodes), links), tuple(groups)

    def _rule(self) -> ExportRule:
        dice = self.dice
        if dice.random() < 0.5:
            return ExportRule()
        return dice.choice(
            (
                ExportRule(types=tuple(dice.sample((*TYPES, "t/*"), 3))),
                ExportRule(deny_types=(dice.choice(TYPES),)),
                ExportRule(deny_ids=("urn:1",)),
                ExportRule(ids=("urn:[0-3]",)),
            )
        )

    def _scopes(self) -> Scopes:
        dice = self.dice
        scopes = Scopes()
        for d in range(dice.choice((0, 1, 2, 2))):
            graph = scopes.graph(f"d{d}")
            names: list[str] = []
            for i in range(dice.randint(1, 6)):
                name = f"s{d}{i}"
                supers = dice.sample(names, min(len(names), dice.choice((0, 1, 1, 1, 2))))
                for super_ in supers:
                    graph.add(name, super_, out=self._border(), into=self._border())
                if not supers:
                    graph.add(name)
                names.append(name)
        return scopes

    def _border(self) -> str:
        return self.dice.choice(("", "", "", "", NEVER, "temp>4", 'name=="a"'))

    # --- pieces -----------------------------------------------------------------------------------------------------

    def _anywhere(self) -> Location:
        return Location(self.dice.choice((-60.0, 0.0, 30.0, 48.85)) + self.dice.uniform(-8, 8), self.dice.uniform(-180, 180))

    def _near(self) -> Location:
        node = self.dice.choice(self.federation.nodes).location
        return Location(
            max(-90.0, min(90.0, node.lat + self.dice.uniform(-4, 4))),
            max(-180.0, min(180.0, node.lon + self.dice.uniform(-4, 4))),
        )

    def _geofence(self) -> Geofence:
        dice = self.dice
        if dice.random() < 0.55:
            return WORLD
        place = self._near()
        if dice.random() < 0.75:
            return Circle(place.lat, place.lon, dice.choice((10.0, 40.0, 120.0)))
        west, east = max(-180.0, place.lon - 20), min(180.0, place.lon + 20)
        south, north = max(-90.0, place.lat - 15), min(90.0, place.lat + 15)
        return Polygon((((((west, south), (east, south), (east, north), (west, north), (west, south))),),))

    def _chosen_scopes(self) -> dict[str, str]:
        dice = self.dice
        return {d: dice.choice(graph.scopes()) for d, graph in self.scopes.graphs.items() if dice.random() < 0.6}

    def _selectors(self) -> tuple[Selector, ...]:
        dice = self.dice
        kinds = (
            lambda: (),
            lambda: (Selector(type=dice.choice(TYPES)),),
            lambda: (Selector(type=dice.choice(TYPES)),),
            lambda: (Selector(topic=dice.choice(TOPICS)),),
            lambda: (Selector(type=dice.choice(TYPES)), Selector(topic=dice.choice(TOPICS))),
            lambda: (Selector(id=f"urn:{dice.randrange(6)}"),),
            lambda: (Selector(type=dice.choice(TYPES), id_pattern="[13]$"),),
        )
        return dice.choice(kinds)()

    def _subscription(self, id_: str, client: str, phase: int) -> Subscription:
        dice = self.dice
        return Subscription(
            id=id_,
            client=client,
            selectors=self._selectors(),
            attributes=dice.choice(((), (), ("temp",), ("name", "flag"))),
            q=dice.choice(QS),
            quality=dice.choice(QUALITIES),
            geofence=self._geofence(),
            scopes=self._chosen_scopes(),
            expires_at_ms=PHASE_MS * dice.randint(phase + 1, phase + 4) - 1 if dice.random() < 0.15 else None,
        )

    def _notification(self, client: str) -> Notification:
        dice = self.dice
        self.count += 1
        mine = [a for a in self.advertisements.values() if a.client == client]
        advertisement = dice.choice(mine) if mine and dice.random() < 0.6 else None
        attributes = {"temp": dice.randrange(10), "name": dice.choice("abc"), "flag": True}
        kept = dice.sample(sorted(attributes), dice.randint(1, 3))
        scopes = self._chosen_scopes() if advertisement is None and dice.random() < 0.7 else {}
        return Notification(
            id=f"e{self.count}",
            publisher=client,
            topic=dice.choice((*TOPICS, None)),
            types=tuple(dice.sample(TYPES, dice.choice((0, 1, 1, 1, 2)))),
            entity=dice.choice((f"urn:{dice.randrange(6)}", None)),
            attributes={name: attributes[name] for name in kept},
            quality=dice.choice(({}, {"precision": float(dice.randrange(10)), "freshness": float(dice.randrange(120))})),
            geofence=self._geofence(),
            scopes=scopes,
            advertisement=advertisement.id if advertisement else (None if dice.random() < 0.97 else "none such"),
        )

    # --- phases -----------------------------------------------------------------------------------------------------

    def make(self) -> Scenario:
        phases = [Phase(tuple(self._arrivals()), publishes=False)]
        for i in range(self.rounds):
            phases.append(Phase(tuple(self._changes(2 * i + 1)), publishes=False))
            phases.append(Phase(tuple(self._publications()), publishes=True))
        return Scenario(self.seed, self.settings, self.scopes, tuple(phases))

    def _at(self) -> int:
        return self.dice.randrange(0, 20_000)

    def _arrivals(self) -> Iterable[Step]:
        for i in range(self.dice.randint(2, 7)):
            node = self.dice.choice(self.settings.served)
            self.homes[f"c{i}"] = node
            location = self._near() if self.dice.random() < 0.85 else None
            yield Step(self._at(), node, m.Attach(f"c{i}", location))

    def _changes(self, phase: int) -> list[Step]:
        """Steps of one client keep their order; different clients overlap."""
        dice = self.dice
        steps: list[Step] = []
        clocks = dict.fromkeys(self.homes, 0)
        for _ in range(dice.randint(6, 20)):
            client = dice.choice(sorted(self.homes))
            clocks[client] += dice.randrange(1, 3_000)
            for do in self._change(client, phase):
                steps.append(Step(clocks[client], self.homes[client], do))
                if isinstance(do, Move):
                    self.homes[client] = do.to
        return sorted(steps, key=lambda step: step.at_ms)

    def _change(self, client: str, phase: int) -> Iterable[m.Request | Move]:
        dice = self.dice
        mine = sorted(s.id for s in self.subscriptions.values() if s.client == client)
        advertised = sorted(a.id for a in self.advertisements.values() if a.client == client)
        roll = dice.random()
        if roll < 0.44 or (roll < 0.52 and not mine):
            id_ = f"{client}/{len(self.subscriptions)}" if not mine or dice.random() < 0.6 else dice.choice(mine)
            self.subscriptions[id_] = self._subscription(id_, client, phase)
            return [m.Subscribe(self.subscriptions[id_])]
        if roll < 0.52:
            id_ = dice.choice(mine)
            del self.subscriptions[id_]
            return [m.Unsubscribe(client, id_)]
        if roll < 0.65:
            return [m.Locate(client, self._near())]
        if roll < 0.78 or (roll < 0.84 and not advertised):
            id_ = f"a{client}/{len(self.advertisements)}" if not advertised or dice.random() < 0.6 else dice.choice(advertised)
            self.advertisements[id_] = Advertisement(
                id=id_,
                client=client,
                selectors=self._selectors(),
                q=dice.choice(("", "", "temp>1")),
                quality=dice.choice(("", "", "precision>=1")),
                scopes=self._chosen_scopes(),
            )
            return [m.Advertise(self.advertisements[id_])]
        if roll < 0.84:
            id_ = dice.choice(advertised)
            del self.advertisements[id_]
            return [m.Unadvertise(client, id_)]
        if roll < 0.95 and len(self.settings.served) > 1:
            return [self._move(client)]
        edges = [(d, edge) for d, graph in self.scopes.graphs.items() for edge in graph.edges() if edge.super_ in graph]
        if edges:
            dimension, edge = dice.choice(edges)
            return [m.SetVisibility(dimension, edge.sub, edge.super_, self._border(), self._border())]
        return []

    def _move(self, client: str) -> Move:
        others = [node for node in self.settings.served if node != self.homes[client]]
        return Move(client, self.dice.choice(others), self._near() if self.dice.random() < 0.7 else None)

    def _publications(self) -> list[Step]:
        dice = self.dice
        mover = dice.choice(sorted(self.homes)) if len(self.settings.served) > 1 and dice.random() < 0.4 else None
        steps = []
        for _ in range(dice.randint(6, 16)):
            client = dice.choice(sorted(c for c in self.homes if c != mover) or sorted(self.homes))
            steps.append(Step(self._at(), self.homes[client], m.Publish(self._notification(client))))
        if mover is not None:
            move = self._move(mover)
            steps = [step for step in steps if step.do.notification.publisher != mover]  # type: ignore[union-attr]
            steps.append(Step(self._at(), self.homes[mover], move))
            self.homes[mover] = move.to
        return sorted(steps, key=lambda step: step.at_ms)


def with_steps(given: Scenario, keep: set[tuple[int, int]]) -> Scenario:
    """The scenario with only some of its steps, named by phase and place in it, and the arrivals of those who take them.

    A client whose move is left out does what follows from where it then is.
    """
    busy = {client_of(given.phases[i].steps[j].do) for i, j in keep if i}
    homes: dict[str, str] = {}
    phases = []
    for i, phase in enumerate(given.phases):
        steps = []
        for j, step in enumerate(phase.steps):
            client = client_of(step.do)
            here = homes.get(client, step.node)
            if i == 0:
                if client not in busy:
                    continue
                homes[client] = step.node
            elif (i, j) not in keep or (isinstance(step.do, Move) and step.do.to == here):
                continue
            elif isinstance(step.do, Move):
                homes[client] = step.do.to
            steps.append(msgspec.structs.replace(step, node=here))
        phases.append(Phase(tuple(steps), phase.publishes))
    return msgspec.structs.replace(given, phases=tuple(phases))


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
