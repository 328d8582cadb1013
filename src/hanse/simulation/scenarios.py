"""Random federations with random clients, for property tests and for faults: everything that the meaning speaks of, mixed."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

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
from hanse.model.values import JSON, XML
from hanse.routing import ExportRule, Federation, Group, Link, Node, Settings
from hanse.routing import messages as m
from hanse.scopes import NEVER, Scopes
from hanse.simulation.policies import random_policies
from hanse.simulation.steps import PHASE_MS, Move, Phase, Scenario, Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

GRACES_MS = (60_000, 300_000, 3_600_000)  # short enough to end while things happen, or longer than any trouble
TYPES = ("Bus", "Ship", "Room")
TOPICS = ("t/1", "t/2")
QS = (
    "",
    "",
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
    "!name",
)
XPATHS: tuple[tuple[str, ...], ...] = (("//name[. = 'a']",), ("//temp[. > 4]", "/thing"), ("/thing",), ("/thing[not(x)]/name",))
QUALITIES = ("", "", "", "", "", "", "", "precision>=4", "precision<8;freshness<=60", "precision<=4")


def scenario(seed: int, strategy: str, *, nodes: int | None = None, rounds: int = 3, ablations: tuple[str, ...] = ()) -> Scenario:
    """A random scenario; the same one for the same seed and strategy."""
    dice = Random(f"{seed}/{strategy}")
    return _Maker(dice, seed, _settings(dice, strategy, nodes or dice.randint(2, 7), ablations), rounds).make()


# --- the federation ---------------------------------------------------------------------------------------------------


def _settings(dice: Random, strategy: str, count: int, ablations: tuple[str, ...]) -> Settings:
    federation, groups = _federation(dice, strategy, count)
    return Settings(
        strategy,
        federation,
        groups=groups,
        flood_locations=dice.random() < 0.15,
        handover_grace_ms=dice.choice(GRACES_MS),
        require_advertisements=dice.random() < 0.15,
        advertise_ids=dice.random() < 0.3,
        field_size_deg=dice.choice((6.0, 30.0)),
        ablations=ablations,
    )


def _federation(dice: Random, strategy: str, count: int) -> tuple[Federation, tuple[Group, ...]]:
    nodes = [Node(f"n{i}", _anywhere(dice)) for i in range(count)]
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
        nodes.append(Node("cloud", _anywhere(dice)))
        for other in ids if shape == "mesh" else [dice.choice(ids)]:
            pairs.add((other, "cloud"))
    draw = dice.choice((None, None, None, None, None, None, None, _rule_on_names, _rule, _rule))
    links = tuple(Link(a, b, draw(dice) if draw else ExportRule()) for x, y in sorted(pairs) for a, b in ((x, y), (y, x)))
    return Federation(tuple(nodes), links), tuple(groups)


def _anywhere(dice: Random) -> Location:
    return Location(dice.choice((-60.0, 0.0, 30.0, 48.85)) + dice.uniform(-8, 8), dice.uniform(-180, 180))


def _rule(dice: Random) -> ExportRule:
    """Of any kind, or several at once."""
    if dice.random() < 0.35:
        return _rule_on_names(dice)
    place = _anywhere(dice)
    parts: list[dict[str, Any]] = [
        {"attributes": tuple(dice.sample(("temp", "n*", "flag"), 2))},
        {"deny_attributes": (dice.choice(("temp", "name", "fl[a-z]g")),)},
        {"scopes": {dice.choice(("d0", "d1")): dice.choice((("s?[0-2]", "*"), ("s?[0-3]",), ("s00", "s1*")))}},
        {"area": Circle(place.lat, place.lon, dice.choice((60.0, 120.0)))},
        {"quality": dice.choice(("precision>=2", "freshness<=90"))},
        {"deny": True, "types": ("Bus", "Ship", "t/?")},
        {"deny": True, "ids": ("urn:*",)},
        {"deny": True},
    ]
    weights = (4, 5, 3, 3, 3, 2, 1, 1)
    rule: dict[str, Any] = {}
    for part in dice.choices(parts, weights, k=dice.choice((1, 1, 1, 2))):
        rule |= part
    return ExportRule(**rule)


def _rule_on_names(dice: Random) -> ExportRule:
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


class _Maker:
    """The dice, and what the clients have said so far. Steps of one client keep their order; different clients overlap."""

    def __init__(self, dice: Random, seed: int, settings: Settings, rounds: int) -> None:
        self.dice = dice
        self.xml_dice = Random(f"xml/{seed}/{settings.strategy}")  # for what concerns XML alone
        self.seed = seed
        self.settings = settings
        self.rounds = rounds
        self.collides = dice.random() < 0.4  # clients take each other's ids for what is theirs
        self.pace_ms = dice.choice((3_000, 3_000, 3_000, 15_000))
        self.scopes = self._scopes()
        self.homes: dict[str, str] = {}  # of those who are here
        self.away: set[str] = set()  # of these, who is out of reach
        self.gone: dict[str, str] = {}  # detached, from where
        self.moved: set[str] = set()  # in this phase
        self.subscriptions: dict[tuple[str, str], Subscription] = {}
        self.advertisements: dict[tuple[str, str], Advertisement] = {}
        self.counts: dict[str, int] = {}

    def make(self) -> Scenario:
        phases = [Phase(tuple(self._arrivals()), "change")]
        for _ in range(self.rounds):
            kinds = self.dice.choice((("change", "publish"), ("change", "publish"), ("change", "mixed"), ("mixed",)))
            for kind in kinds:
                phases.append(Phase(tuple(self._phase(len(phases), kind)), kind))
        if self.away:
            phases.append(Phase(tuple(self._returns()), "change"))
        counts_turns = self.dice.random() < 0.8
        scopes = [(d, scope) for d, graph in self.scopes.graphs.items() for scope in graph.scopes()]
        policies = random_policies(self.seed, self.settings.strategy, self.settings.federation.ids, TYPES, scopes)
        return Scenario(self.seed, self.settings, self.scopes, tuple(phases), counts_turns, policies)

    # --- pieces -----------------------------------------------------------------------------------------------------

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

    def _near(self) -> Location:
        node = self.dice.choice(self.settings.federation.nodes).location
        return Location(
            max(-90.0, min(90.0, node.lat + self.dice.uniform(-4, 4))),
            max(-180.0, min(180.0, node.lon + self.dice.uniform(-4, 4))),
        )

    def _geofence(self) -> Geofence:
        dice = self.dice
        if dice.random() < 0.65:
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
            lambda: (),
            lambda: (),
            lambda: (),
            lambda: (Selector(type=dice.choice(TYPES)),),
            lambda: (Selector(type=dice.choice(TYPES)),),
            lambda: (Selector(topic=dice.choice(TOPICS)),),
            lambda: (Selector(type=dice.choice(TYPES)), Selector(topic=dice.choice(TOPICS))),
            lambda: (Selector(id=f"urn:{dice.randrange(6)}"),),
            lambda: (Selector(type=dice.choice(TYPES), id_pattern="[13]$"),),
        )
        return dice.choice(kinds)()

    def _id(self, client: str, kind: str, taken: Iterable[str]) -> str:
        """A new id, perhaps one that another client has too; or an old one, whose place it takes."""
        old = sorted(taken)
        if old and self.dice.random() < 0.4:
            return self.dice.choice(old)
        self.counts[kind + client] = number = self.counts.get(kind + client, 0) + 1
        return f"{kind}{number}" if self.collides else f"{kind}{client[1:]}.{number}"

    def _expiry(self, phase: int, chance: float) -> int | None:
        """Between phases, or in the middle of this one."""
        dice = self.dice
        if dice.random() >= chance:
            return None
        if dice.random() < 0.6:
            return PHASE_MS * dice.randint(phase + 1, phase + 4) - 1
        return PHASE_MS * phase + dice.randrange(1, 40_000)

    def _subscription(self, client: str, phase: int) -> Subscription:
        dice = self.dice
        return Subscription(
            id=self._id(client, "s", (id_ for owner, id_ in self.subscriptions if owner == client)),
            client=client,
            selectors=self._selectors(),
            attributes=dice.choice(((), (), (), ("temp",), ("name", "flag"))),
            news=dice.choice(((), (), (), (), (), (), ("temp", "name"), ("entityUpdated",))),
            q=dice.choice(QS),
            quality=dice.choice(QUALITIES),
            geofence=self._geofence(),
            scopes=self._chosen_scopes(),
            expires_at_ms=self._expiry(phase, 0.15),
            xpath=self._xpath(0.03),
        )

    def _xpath(self, chance: float) -> tuple[str, ...]:
        return self.xml_dice.choice(XPATHS) if self.xml_dice.random() < chance else ()

    def _advertisement(self, client: str, phase: int) -> Advertisement:
        dice = self.dice
        return Advertisement(
            id=self._id(client, "a", (id_ for owner, id_ in self.advertisements if owner == client)),
            client=client,
            selectors=self._selectors(),
            q=dice.choice(("", "", "temp>1")),
            quality=dice.choice(("", "", "precision>=1", "precision>=7")),
            scopes=self._chosen_scopes(),
            expires_at_ms=self._expiry(phase, 0.15),
            xpath=self._xpath(0.01),
        )

    def _notification(self, client: str) -> Notification:
        dice = self.dice
        self.counts["e" + client] = number = self.counts.get("e" + client, 0) + 1
        mine = [a for a in self.advertisements.values() if a.client == client]
        named = dice.choice(mine) if mine and dice.random() < (0.9 if self.settings.require_advertisements else 0.5) else None
        attributes = {"temp": dice.randrange(10), "name": dice.choice("abc"), "flag": True}
        kept = dice.sample(sorted(attributes), dice.randint(1, 3))
        xml = self.xml_dice.random() < 0.8
        inside = "".join(f"<{name}>{value}</{name}>" for name, value in attributes.items())
        json = f'{{"name": "{attributes["name"]}"}}'
        return Notification(
            id=f"e{number}" if self.collides else f"e{client[1:]}.{number}",
            publisher=client,
            topic=dice.choice((*TOPICS, None)),
            types=tuple(dice.sample(TYPES, dice.choice((0, 1, 1, 1, 2)))),
            entity=dice.choice((f"urn:{dice.randrange(6)}", None)),
            attributes={name: attributes[name] for name in kept},
            news=dice.choice(((), ("entityUpdated", *kept[:2]), ("entityUpdated", *sorted(attributes)))),
            payload=dice.choice(("", "", json)) if not xml else dice.choice([f"<thing>{inside}</thing>"] * 3),
            media_type=XML if xml else JSON,
            quality=dice.choice(({}, {"precision": float(dice.randrange(10)), "freshness": float(dice.randrange(120))})),
            location=self._near() if dice.random() < 0.15 else None,
            geofence=self._geofence(),
            scopes=self._chosen_scopes() if named is None and dice.random() < 0.7 else {},
            advertisement=named.id if named else (None if dice.random() < 0.97 else "none such"),
        )

    # --- phases -----------------------------------------------------------------------------------------------------

    def _arrivals(self) -> Iterator[Step]:
        for i in range(self.dice.randint(2, 7)):
            at = self.dice.randrange(0, 20_000)
            yield Step(at, *self._arrive(f"c{i}"))
            if self.settings.require_advertisements:
                yield Step(at + 1, self.homes[f"c{i}"], self._advertise(f"c{i}", 0))

    def _returns(self) -> Iterator[Step]:
        for client in sorted(self.away):
            yield Step(self.dice.randrange(0, 5_000), self.homes[client], m.Attach(client))

    def _phase(self, number: int, kind: str) -> list[Step]:
        dice = self.dice
        steps: list[Step] = []
        clocks: dict[str, int] = {}
        self.moved = set()
        count = {"change": (6, 20), "publish": (6, 16), "mixed": (10, 28)}[kind]
        mover = dice.choice(sorted(self.homes)) if kind == "publish" and dice.random() < 0.4 else None
        for _ in range(dice.randint(*count)):
            # whoever detached while its hand-over was perhaps under way comes anew only when all is at rest
            gone = [client for client in self.gone if client not in self.moved] if kind != "publish" else []
            client = dice.choice(sorted(self.homes) + gone)
            clocks[client] = clocks.get(client, 0) + dice.randrange(1, self.pace_ms)
            steps.extend(Step(clocks[client], node, do) for node, do in self._does(client, number, kind))
            if mover is not None and client == mover and self._may_move and dice.random() < 0.5:
                steps.append(Step(clocks[client] + 1, self.homes[mover], self._move(mover)))
                mover = None
        return sorted(steps, key=lambda step: step.at_ms)

    def _does(self, client: str, phase: int, kind: str) -> list[tuple[str, m.Request | Move]]:
        """One thing that a client does, and where."""
        dice = self.dice
        if client not in self.homes:
            return [self._arrive(client)] if dice.random() < 0.7 else []
        here = self.homes[client]
        if client in self.away:
            return [] if kind == "publish" else [(here, do) for do in self._while_away(client)]
        if kind == "publish" or (kind == "mixed" and dice.random() < 0.45):
            return [(here, m.Publish(self._notification(client)))]
        if dice.random() < 0.12:
            return self._operators(here)
        return [(here, self._change(client, phase))]

    def _arrive(self, client: str) -> tuple[str, m.Request]:
        """For the first time, or anew; it may still name the node where it was before, which has nothing of it any more."""
        dice = self.dice
        place = self._near() if dice.random() < 0.75 else None
        before = self.gone.pop(client, None)
        node = before if before is not None and dice.random() < 0.4 else dice.choice(self.settings.served)
        self.homes[client] = node
        return node, m.Attach(client, place, before if dice.random() < 0.2 else None)

    @property
    def _may_move(self) -> bool:
        return len(self.settings.served) > 1

    def _move(self, client: str) -> Move:
        others = [node for node in self.settings.served if node != self.homes[client]]
        move = Move(client, self.dice.choice(others), self._near() if self.dice.random() < 0.7 else None)
        self.homes[client] = move.to
        self.away.discard(client)
        self.moved.add(client)
        return move

    def _attach_again(self, client: str) -> m.Attach:
        self.away.discard(client)
        place = self._near() if self.dice.random() < 0.3 else None
        return m.Attach(client, place, self.dice.choice((None, self.homes[client])))

    def _while_away(self, client: str) -> list[m.Request | Move]:
        dice = self.dice
        roll = dice.random()
        if roll < 0.2 and (mine := self._mine(self.subscriptions, client)):
            return [self._unsubscribe(client, dice.choice(mine))]
        if roll < 0.3:
            return []
        if roll < 0.5 and self._may_move:
            return [self._move(client)]
        if roll < 0.55 and len(self.homes) > 2:
            return [self._detach(client)]
        return [self._attach_again(client)]

    def _change(self, client: str, phase: int) -> m.Request | Move:
        dice = self.dice
        roll = dice.random()
        if roll < 0.1 and (mine := self._mine(self.subscriptions, client)):
            return self._unsubscribe(client, dice.choice(mine))
        if roll < 0.22:
            return m.Locate(client, self._near())
        if roll < 0.34:
            return self._advertise(client, phase)
        if roll < 0.4 and (mine := self._mine(self.advertisements, client)):
            id_ = dice.choice(mine)
            del self.advertisements[client, id_]
            return m.Unadvertise(client, id_)
        if roll < 0.52 and self._may_move:
            return self._move(client)
        if roll < 0.58:
            self.away.add(client)
            return m.Disconnect(client)
        if roll < 0.61 and len(self.homes) > 2:
            return self._detach(client)
        if roll < 0.66:
            self.counts["q" + client] = number = self.counts.get("q" + client, 0) + 1
            return m.Query(f"q{client[1:]}.{number}", client, self._selectors(), dice.choice(QS))
        subscription = self._subscription(client, phase)
        self.subscriptions[client, subscription.id] = subscription
        return m.Subscribe(subscription)

    def _mine(self, things: dict[tuple[str, str], Subscription] | dict[tuple[str, str], Advertisement], client: str) -> list[str]:
        return sorted(id_ for owner, id_ in things if owner == client)

    def _unsubscribe(self, client: str, id_: str) -> m.Unsubscribe:
        del self.subscriptions[client, id_]
        return m.Unsubscribe(client, id_)

    def _advertise(self, client: str, phase: int) -> m.Advertise:
        advertisement = self._advertisement(client, phase)
        self.advertisements[client, advertisement.id] = advertisement
        return m.Advertise(advertisement)

    def _detach(self, client: str) -> m.Detach:
        self.subscriptions = {key: s for key, s in self.subscriptions.items() if key[0] != client}
        self.advertisements = {key: a for key, a in self.advertisements.items() if key[0] != client}
        self.gone[client] = self.homes.pop(client)
        self.away.discard(client)
        return m.Detach(client)

    def _operators(self, here: str) -> list[tuple[str, m.Request | Move]]:
        dice = self.dice
        scopes = [(d, scope) for d, graph in self.scopes.graphs.items() for scope in graph.scopes()]
        edges = [(d, edge) for d, graph in self.scopes.graphs.items() for edge in graph.edges() if edge.super_ in graph]
        if edges and dice.random() < 0.5:
            dimension, edge = dice.choice(edges)
            out, into = dice.choice(((True, True), (True, False), (False, True)))
            filters = (self._border() if out else None, self._border() if into else None)
            return [(here, m.SetVisibility(dimension, edge.sub, edge.super_, *filters))]
        if scopes:
            kind = dice.choice((m.JoinScope, m.JoinScope, m.LeaveScope))
            return [(dice.choice(self.settings.federation.ids), kind(*dice.choice(scopes)))]
        return []
