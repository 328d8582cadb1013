"""Federations to simulate: the overlays of the papers, and the usual plain ones. All are the same for the same options.

Synthetic topologies have no place on a map of their own. Their nodes are spread evenly over the inhabited latitudes, in such an
order that neighbours in the overlay are mostly neighbours on the globe, and far enough apart (up to some 250 nodes) for each to
be the nearest one to the centre of a field of 6 degrees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, pairwise
from math import asin, degrees, radians, sin, sqrt
from random import Random
from typing import Final, TypeAlias

from msgspec import Struct

from hanse.model import InvalidInput, Location, half_chord_squared
from hanse.routing.federation import Federation, Node, both_ways
from hanse.simulation.cities import City, load_cities

MAX_NODES = 10_000
MAX_MESH_NODES = 1_000
GOLDEN_RATIO = (1 + sqrt(5)) / 2
LATITUDE_LIMIT_DEG = 66.0

# Figure 3 of the muDEBS paper: a has three stub domains and, by the text of its scenario 1, c three and d two; three on average
# leaves four for b. Twelve stubs in all give 16, 64 and 112 links to 16, 52 and 100 nodes: flooding then costs 17, 77 and 125.
STUBS_OF_TRANSIT: Final = {"a": 3, "b": 4, "c": 3, "d": 2}
NET_SIZES: Final = (16, 52, 100)

CITY_SPACINGS_DEG: Final = (6.0, 3.0, 1.5, 0.75, 0.0)  # DisGB keeps brokers a field apart; tighter only if so many do not fit


class TopologyOptions(Struct, frozen=True, kw_only=True):
    nodes: int
    seed: int = 0
    clients: int = 0  # in all; shared out over the nodes


Topology: TypeAlias = Callable[[TopologyOptions], Federation]


def topology(name: str, *, nodes: int, seed: int = 0, clients: int = 0) -> Federation:
    make = TOPOLOGIES.get(name)
    if make is None:
        raise InvalidInput(f"there is no topology {name!r}; take one of {', '.join(TOPOLOGIES)}")
    if clients < 0:
        raise InvalidInput(f"{clients} clients are too few; give 0 or more")
    return make(TopologyOptions(nodes=nodes, seed=seed, clients=clients))


def shares(weights: Sequence[int], total: int) -> list[int]:
    """`total` in whole parts in proportion to the weights (all alike if all are zero), by largest remainder: nothing is lost.

    The authors of DisGB round every share down, and so lose up to one client a broker.
    """
    if not any(weights):
        weights = [1] * len(weights)
    whole = sum(weights)
    parts = [total * weight // whole for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda i: (-(total * weights[i] % whole), i))
    for i in by_remainder[: total - sum(parts)]:
        parts[i] += 1
    return parts


def transit_stub(nodes: int, *, clients: int = 0) -> Federation:
    """The overlay of muDEBS: a transit ring a, b, c, d; stub domains a1, a2, ... that are rings, each hung on by one link.

    Node a1 is the one of stub domain a1 that is linked to a; the others are a1.2, a1.3, and so on. The community of a stub's node
    is its stub domain, that of a transit node is `transit`. A stub of two nodes is a pair. Below 16 nodes there are fewer stubs.
    """
    _check_size("transit-stub", nodes, least=4)
    rounds = max(STUBS_OF_TRANSIT.values())
    stubs = [f"{hub}{i}" for i in range(1, rounds + 1) for hub, count in STUBS_OF_TRANSIT.items() if i <= count]
    sizes = dict(zip(stubs, shares([1] * len(stubs), nodes - len(STUBS_OF_TRANSIT)), strict=True))
    pairs = _ring(list(STUBS_OF_TRANSIT))
    communities = dict.fromkeys(STUBS_OF_TRANSIT, "transit")
    order: list[str] = []
    for hub in STUBS_OF_TRANSIT:
        around: list[str] = []
        for stub in sorted(stub for stub in stubs if stub[0] == hub and sizes[stub]):
            members = [stub, *(f"{stub}.{i}" for i in range(2, sizes[stub] + 1))]
            pairs += [(hub, stub), *_ring(members)]
            communities |= dict.fromkeys(members, stub)
            around += members
        order += _amid(hub, around)
    return _federation(order, pairs, communities=communities, clients=clients, first=list(communities))


def hybrid(sub_brokers: Sequence[int] = (2, 2, 0), *, clients: int = 0) -> Federation:
    """The overlay of ComDeX: one tree a community, the tops of all communities linked with each other.

    `sub_brokers` says how many sub-brokers each community has; as given, it is figure 6 of the paper: b1 with b2 and b3, b4 with
    b5 and b6, b7 alone.
    """
    if not sub_brokers or min(sub_brokers) < 0:
        raise InvalidInput("a hybrid topology needs a number of sub-brokers, 0 or more, for at least one community")
    _check_size("hybrid", len(sub_brokers) + sum(sub_brokers), least=1)
    pairs: list[tuple[str, str]] = []
    communities: dict[str, str] = {}
    order: list[str] = []
    tops: list[str] = []
    for i, below in enumerate(sub_brokers):
        top = len(communities) + 1
        members = [f"b{top + j}" for j in range(below + 1)]
        pairs += [(members[0], member) for member in members[1:]]
        communities |= dict.fromkeys(members, _letters(i))
        order += _amid(members[0], members[1:])
        tops.append(members[0])
    return _federation(
        order, pairs + list(combinations(tops, 2)), communities=communities, clients=clients, first=list(communities)
    )


def hybrid_of(nodes: int, *, clients: int = 0) -> Federation:
    """Seven nodes make figure 6; other numbers keep its proportions: three communities in seven nodes, the last one bare."""
    _check_size("hybrid", nodes, least=1)
    count = -(-3 * nodes // 7)
    with_subs = max(1, count - 1)
    return hybrid([*shares([1] * with_subs, nodes - count), *([0] * (count - with_subs))], clients=clients)


def mesh(nodes: int, *, clients: int = 0) -> Federation:
    _check_size("mesh", nodes, least=1, most=MAX_MESH_NODES)
    names = _names(nodes)
    return _federation(names, list(combinations(names, 2)), clients=clients)


def star(nodes: int, *, clients: int = 0) -> Federation:
    """n1 in the middle."""
    _check_size("star", nodes, least=1)
    names = _names(nodes)
    return _federation(_amid(names[0], names[1:]), [(names[0], name) for name in names[1:]], clients=clients, first=names)


def ring(nodes: int, *, clients: int = 0) -> Federation:
    """A ring; one or two nodes make a path."""
    _check_size("ring", nodes, least=1)
    names = _names(nodes)
    return _federation(names, _ring(names), clients=clients)


def tree(nodes: int, *, branching: int = 2, clients: int = 0) -> Federation:
    """A complete tree, filled level by level from the root n1."""
    _check_size("tree", nodes, least=1)
    if branching < 1:
        raise InvalidInput(f"a tree branches into at least 1, not {branching}")
    names = _names(nodes)
    parents = [(i - 1) // branching for i in range(1, nodes)]
    order: list[str] = []
    stack: list[tuple[int, bool]] = [(0, False)]
    while stack:  # in order, so that every subtree is one strip of the globe with its root inside it
        i, opened = stack.pop()
        below = range(i * branching + 1, min(i * branching + branching, nodes - 1) + 1)
        if opened or not below:
            order.append(names[i])
            continue
        half = (len(below) + 1) // 2
        stack += [(j, False) for j in reversed(below[half:])]
        stack.append((i, True))
        stack += [(j, False) for j in reversed(below[:half])]
    return _federation(order, [(names[p], names[i]) for i, p in enumerate(parents, start=1)], clients=clients, first=names)


def cities(nodes: int, *, seed: int = 0, clients: int = 0) -> Federation:
    """As DisGB: brokers in a mesh at randomly chosen large cities, no two closer than a field; clients by population.

    Where that many cities so far apart cannot be found, they may stand closer; then the fields of areas must be smaller, too.
    """
    every = load_cities()
    _check_size("cities", nodes, least=1, most=len(every))
    drawn = list(every)
    Random(seed).shuffle(drawn)
    chosen: list[City] = []
    for spacing_deg in CITY_SPACINGS_DEG:
        chosen = _apart(drawn, nodes, spacing_deg)
        if len(chosen) == nodes:
            break
    parts = shares([city.population for city in chosen], clients)
    placed = tuple(
        Node(f"{city.name}-{city.id}", city.location, city.country, city.population, part)
        for city, part in zip(chosen, parts, strict=True)
    )
    return Federation(placed, both_ways(list(combinations([node.id for node in placed], 2))))


TOPOLOGIES: Final[dict[str, Topology]] = {
    "transit-stub": lambda o: transit_stub(o.nodes, clients=o.clients),
    "hybrid": lambda o: hybrid_of(o.nodes, clients=o.clients),
    "mesh": lambda o: mesh(o.nodes, clients=o.clients),
    "star": lambda o: star(o.nodes, clients=o.clients),
    "tree": lambda o: tree(o.nodes, clients=o.clients),
    "ring": lambda o: ring(o.nodes, clients=o.clients),
    "cities": lambda o: cities(o.nodes, seed=o.seed, clients=o.clients),
}


def _check_size(name: str, nodes: int, *, least: int, most: int = MAX_NODES) -> None:
    if not least <= nodes <= most:
        raise InvalidInput(f"a {name} topology has {least} to {most} nodes, not {nodes}")


def _names(count: int) -> list[str]:
    return [f"n{i}" for i in range(1, count + 1)]


def _letters(i: int) -> str:
    """A, B, ..., Z, AA, AB, ..."""
    text = ""
    i += 1
    while i:
        i, rest = divmod(i - 1, 26)
        text = chr(ord("A") + rest) + text
    return text


def _ring(names: Sequence[str]) -> list[tuple[str, str]]:
    pairs = list(pairwise(names))
    return [*pairs, (names[-1], names[0])] if len(names) > 2 else pairs


def _amid(hub: str, others: Sequence[str]) -> list[str]:
    half = len(others) // 2
    return [*others[:half], hub, *others[half:]]


def _federation(
    order: Sequence[str],
    pairs: list[tuple[str, str]],
    *,
    communities: dict[str, str] | None = None,
    clients: int = 0,
    first: Iterable[str] = (),
) -> Federation:
    """`order` goes round the globe from west to east; the nodes are listed as `first` lists them, if it does."""
    places = dict(zip(order, _spread(len(order)), strict=True))
    names = list(first) or list(order)
    parts = shares([1] * len(names), clients)
    nodes = tuple(
        Node(name, places[name], (communities or {}).get(name, ""), 0, part) for name, part in zip(names, parts, strict=True)
    )
    return Federation(nodes, both_ways(pairs))


def _spread(count: int) -> list[Location]:
    """Points of a Fibonacci lattice, which keeps them about equally far apart, from west to east."""
    limit = sin(radians(LATITUDE_LIMIT_DEG))
    points = [
        Location(round(degrees(asin(limit * (1 - (2 * i + 1) / count))), 4), round(360.0 * ((i / GOLDEN_RATIO) % 1.0) - 180.0, 4))
        for i in range(count)
    ]
    return sorted(points, key=lambda point: point.lon)


def _apart(cities: Sequence[City], count: int, spacing_deg: float) -> list[City]:
    half = sin(radians(spacing_deg) / 2)
    chosen: list[City] = []
    for city in cities:
        if len(chosen) == count:
            break
        here = city.location
        if all(half_chord_squared(here.lat, here.lon, c.location.lat, c.location.lon) >= half * half for c in chosen):
            chosen.append(city)
    return chosen
