"""Projecting a graph of scopes onto an overlay of brokers.

An administrator calls JoinScope(s ◁ t) at a broker B. B then knows s, and so do those neighbours of B that know t: they stand
at the border and hold its filters. The brokers that know a scope are its area. ⊤ is nobody's area, so the join of a root tells
nobody. Three rules of the paper keep the relation of subscope and superscope intact:

1. every edge of the graph has its call; further calls for an edge only extend an area;
2. the calls for roots come first, and generally those for a superscope before those for its subscopes;
3. before a call for k ◁ l at a broker, l is known further along a way of links to the broker where the root was joined.

All here is pure: `extend` and `leave` give a new projection.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from hanse.model import TOP, InvalidInput
from hanse.scopes.graph import ScopeGraph

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import networkx as nx


class Overlay(Protocol):
    """What a projection must know of a federation; `hanse.routing.Federation` is one."""

    @property
    def ids(self) -> tuple[str, ...]: ...
    @property
    def neighbours(self) -> Mapping[str, tuple[str, ...]]: ...


class Join(Struct, frozen=True, rename={"super_": "super"}):
    """A call of JoinScope(`sub` ◁ `super_`) at a broker. `extends`: the edge had its call already, the area grows."""

    broker: str
    sub: str
    super_: str
    extends: bool = False

    def __str__(self) -> str:
        return f"{self.broker}: JoinScope({self.sub} ◁ {self.super_})"


class Knowledge:
    """Which broker knows which scopes while calls are made, one after the other."""

    def __init__(self, overlay: Overlay) -> None:
        self.overlay = overlay
        self.brokers: dict[str, set[str]] = {}  # scope -> the brokers that know it
        self.calls: list[Join] = []

    def join(self, broker: str, sub: str, super_: str) -> None:
        extends = any((call.sub, call.super_) == (sub, super_) for call in self.calls)
        self.calls.append(Join(broker, sub, super_, extends))
        area = self.brokers.setdefault(sub, set())
        area.add(broker)
        area |= self.brokers.get(super_, set()) & set(self.overlay.neighbours[broker])

    def nearest(self, candidates: Iterable[str], scope: str) -> str:
        """The candidate with the shortest way to the area of a scope; the first of those that are equal."""
        distances = _distances(self.overlay, self.brokers.get(scope, ()))
        return min(candidates, key=lambda broker: distances.get(broker, len(self.overlay.ids)))


@dataclass(frozen=True)
class Projection:
    """The calls, in order, and what every broker knows after them."""

    graph: ScopeGraph
    overlay: Overlay
    placements: Mapping[str, tuple[str, ...]]  # scope -> the brokers that join it at deployment
    extensions: tuple[tuple[str, str], ...]  # broker, scope: joined later, on demand
    calls: tuple[Join, ...]
    areas: Mapping[str, tuple[str, ...]]  # scope -> the brokers that know it

    @cached_property
    def knows(self) -> dict[str, tuple[str, ...]]:
        """For every broker the scopes that it knows, those further up first."""
        return {broker: tuple(scope for scope, area in self.areas.items() if broker in area) for broker in self.overlay.ids}

    @cached_property
    def unplaced(self) -> tuple[str, ...]:
        """The scopes that no broker knows (yet)."""
        return tuple(scope for scope in self.graph.scopes() if scope not in self.areas)

    @cached_property
    def violations(self) -> tuple[str, ...]:
        """Where the calls at deployment break the rules. They do not bind what is joined later, on demand."""
        deployed = project(self.graph, self.overlay, self.placements) if self.extensions else self
        return check_rules(self.graph, self.overlay, deployed.calls, without=deployed.unplaced)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Where notifications cannot flow although the graph says they may: split areas, and borders that no broker holds."""
        found = []
        for scope, area in self.areas.items():
            parts = _parts(self.overlay, area)
            if len(parts) > 1:
                places = " and ".join("{" + ", ".join(part) + "}" for part in parts)
                found.append(f"the area of {scope!r} is not connected: {places}; join {scope!r} on the brokers between them")
            for parent in self.graph.parents(scope):
                if not self.border(scope, parent):
                    found.append(
                        f"no broker knows both {scope!r} and {parent!r}; join {scope!r} at a neighbour of the area of {parent!r}"
                    )
        return tuple(found)

    def border(self, sub: str, super_: str) -> tuple[str, ...]:
        """The brokers that hold the visibility filters of an edge: those that know both scopes."""
        return tuple(broker for broker in self.areas.get(sub, ()) if broker in self.areas.get(super_, ()))

    def way(self, broker: str, scope: str) -> tuple[str, ...]:
        """The brokers that must join, in this order, so that `broker` is connected to the area of `scope`.

        Empty if it belongs to it already; the broker alone if the area is still empty.
        """
        area = self.areas.get(scope, ())
        self._check(broker, scope)
        if broker in area:
            return ()
        if not area:
            return (broker,)
        distances = _distances(self.overlay, area)
        if broker not in distances:
            raise InvalidInput(f"no way of links leads from broker {broker!r} to the area of scope {scope!r}; add a link")
        way = [broker]
        while distances[way[-1]] > 1:
            way.append(next(other for other in self.overlay.neighbours[way[-1]] if distances[other] == distances[way[-1]] - 1))
        return tuple(reversed(way))

    def extend(self, broker: str, scope: str) -> Projection:
        """The projection after a client at `broker` wanted a scope that it did not know; the calls that this takes come last.

        If no broker knows the scope yet, its superscopes are extended to the broker first.
        """
        self._check(broker, scope)
        if (broker, scope) in self.extensions:
            return self
        # the wish is kept even if the broker knows the scope already: it may do so only for the sake of one that leaves
        knowledge = self._replay()
        _extend(self, knowledge, broker, scope)
        return _projection(self.graph, self.overlay, self.placements, (*self.extensions, (broker, scope)), knowledge)

    def leave(self, broker: str, scope: str) -> Projection:
        """Take back a placement or an extension, with the brokers that joined only to be on its way."""
        self._check(broker, scope)
        if (broker, scope) in self.extensions:
            placements = self.placements
        elif broker in self.placements.get(scope, ()):
            placements = {**self.placements, scope: tuple(other for other in self.placements[scope] if other != broker)}
        else:
            raise InvalidInput(
                f"broker {broker!r} did not ask for scope {scope!r}: it is not in its area, or only for the sake of others"
            )
        left = project(self.graph, self.overlay, placements)
        for other in self.extensions:
            if other != (broker, scope):
                left = left.extend(*other)
        return left

    def _check(self, broker: str, scope: str) -> None:
        if scope not in self.graph:
            raise InvalidInput(
                f"dimension {self.graph.dimension!r} has no scope {scope!r}; choose one of {_some(self.graph.scopes())}"
            )
        if broker not in self.overlay.neighbours:
            raise InvalidInput(f"there is no broker {broker!r}; choose one of {_some(self.overlay.ids)}")

    def _replay(self) -> Knowledge:
        knowledge = Knowledge(self.overlay)
        for call in self.calls:
            knowledge.join(call.broker, call.sub, call.super_)
        return knowledge


def project(graph: ScopeGraph, overlay: Overlay, placements: Mapping[str, Sequence[str]]) -> Projection:
    """The JoinScope calls, top-down, that make each broker of `placements` (scope -> brokers) know its scope.

    Every edge is called once, at the broker of the subscope that is nearest to the superscope's area; brokers that do not know
    the scope by then follow with calls that extend its area.
    """
    for scope, brokers in placements.items():
        if scope not in graph:
            raise InvalidInput(
                f"scope {scope!r} is placed but not known; choose one of {_some(graph.scopes())}",
                place=f"dimension {graph.dimension!r}",
            )
        for broker in brokers:
            if broker not in overlay.neighbours:
                raise InvalidInput(
                    f"it is placed at {broker!r}, which is no broker; choose one of {_some(overlay.ids)}",
                    place=f"scope {scope!r}",
                )
    # a copy: the graph may change later, a projection does not
    graph = ScopeGraph.from_struct(graph.to_struct())
    knowledge = Knowledge(overlay)
    for scope in sorted(graph.scopes(), key=graph.level):
        brokers = list(dict.fromkeys(placements.get(scope, ())))
        if not brokers:
            continue
        supers = graph.parents(scope) or (TOP,)
        for super_ in supers:
            knowledge.join(knowledge.nearest(brokers, super_), scope, super_)
        while waiting := [broker for broker in brokers if broker not in knowledge.brokers[scope]]:
            knowledge.join(knowledge.nearest(waiting, scope), scope, supers[0])
    return _projection(graph, overlay, {scope: tuple(brokers) for scope, brokers in placements.items()}, (), knowledge)


def place(graph: ScopeGraph, overlay: Overlay) -> dict[str, tuple[str, ...]]:
    """A placement for want of a better one: roots at central brokers, each subscope at a free neighbour of its superscope."""
    from networkx import closeness_centrality

    closeness = closeness_centrality(_network(overlay))
    load = dict.fromkeys(overlay.ids, 0)
    places: dict[str, str] = {}
    for scope in sorted(graph.scopes(), key=graph.level):
        parents = graph.parents(scope)
        choice: Iterable[str] = overlay.neighbours[places[parents[0]]] if parents else overlay.ids
        broker = min(choice or overlay.ids, key=lambda name: (load[name], -closeness[name]))
        load[broker] += 1
        places[scope] = broker
    return {scope: (broker,) for scope, broker in places.items()}


def check_rules(graph: ScopeGraph, overlay: Overlay, calls: Sequence[Join], *, without: Iterable[str] = ()) -> tuple[str, ...]:
    """Where a sequence of calls breaks rule 1, 2 or 3, one line each; `without` names scopes that are not meant to be placed."""
    found = []
    skipped = set(without)
    edges = [(edge.sub, edge.super_) for edge in graph.edges() if edge.sub not in skipped]
    made = {(call.sub, call.super_) for call in calls}
    found += [f"rule 1: no call for {sub} ◁ {super_}" for sub, super_ in edges if (sub, super_) not in made]
    knowledge = Knowledge(overlay)
    net = _network(overlay)
    for call in calls:
        if call.super_ == TOP:
            if any(earlier.super_ != TOP for earlier in knowledge.calls) and call.sub not in knowledge.brokers:
                found.append(f"rule 2: {call} comes after calls for subscopes")
        elif graph.edge(call.sub, call.super_) is None:
            found.append(f"rule 1: {call} is for no edge of the graph")
        elif call.super_ not in knowledge.brokers:
            found.append(f"rule 2: {call} comes before any call for {call.super_}")
        elif not _on_the_way(graph, net, knowledge, call):
            found.append(f"rule 3: {call}, but {call.super_} is not known on a way from there to the broker of its root")
        knowledge.join(call.broker, call.sub, call.super_)
    return tuple(found)


def _on_the_way(graph: ScopeGraph, net: nx.Graph[str], knowledge: Knowledge, call: Join) -> bool:
    """Rule 3 for one call. A broker that was told of the superscope serves as well as one that called for it."""
    roots = graph.roots(call.super_)
    ends = [earlier.broker for earlier in knowledge.calls if earlier.super_ == TOP and earlier.sub in roots]
    return any(_between(net, call.broker, other, end) for end in ends for other in knowledge.brokers[call.super_])


def _between(net: nx.Graph[str], start: str, middle: str, end: str) -> bool:
    """Whether some way from `start` to `end`, with no broker twice, passes `middle`."""
    from networkx import biconnected_components, has_path

    if middle in (start, end) or start == end:
        return middle in (start, end) and has_path(net, start, end)
    # exactly the brokers in one biconnected component with an edge from start to end lie on such a way
    closed = net.copy()
    closed.add_edge(start, end)
    return any({start, middle, end}.issubset(part) for part in biconnected_components(closed))


def _extend(projection: Projection, knowledge: Knowledge, broker: str, scope: str) -> None:
    graph = projection.graph
    supers = graph.parents(scope) or (TOP,)
    now = _projection(graph, projection.overlay, {}, (), knowledge)
    way = now.way(broker, scope)
    if now.areas.get(scope):
        for hop in way:
            knowledge.join(hop, scope, supers[0])
    elif way:
        for super_ in supers:
            if super_ != TOP:
                _extend(projection, knowledge, broker, super_)
        for super_ in supers:
            knowledge.join(broker, scope, super_)


def _projection(
    graph: ScopeGraph,
    overlay: Overlay,
    placements: Mapping[str, tuple[str, ...]],
    extensions: tuple[tuple[str, str], ...],
    knowledge: Knowledge,
) -> Projection:
    order = {broker: i for i, broker in enumerate(overlay.ids)}
    areas = {
        scope: tuple(sorted(knowledge.brokers[scope], key=order.__getitem__))
        for scope in sorted(graph.scopes(), key=graph.level)
        if scope in knowledge.brokers
    }
    return Projection(graph, overlay, placements, extensions, tuple(knowledge.calls), areas)


def _network(overlay: Overlay) -> nx.Graph[str]:
    from networkx import Graph  # slow to load, and a broker that only looks at scopes does not need it

    net: nx.Graph[str] = Graph()
    net.add_nodes_from(overlay.ids)
    net.add_edges_from((a, b) for a in overlay.ids for b in overlay.neighbours[a])
    return net


def _distances(overlay: Overlay, area: Iterable[str], within: Sequence[str] | None = None) -> dict[str, int]:
    """How many links every broker is away from an area, going only over brokers of `within` if it is given."""
    distances = dict.fromkeys(area, 0)
    waiting = deque(distances)
    while waiting:
        here = waiting.popleft()
        for other in overlay.neighbours[here]:
            if other not in distances and (within is None or other in within):
                distances[other] = distances[here] + 1
                waiting.append(other)
    return distances


def _parts(overlay: Overlay, area: Sequence[str]) -> list[list[str]]:
    """The connected parts of an area."""
    parts: list[list[str]] = []
    for broker in area:
        if not any(broker in part for part in parts):
            reached = _distances(overlay, [broker], within=area)
            parts.append([other for other in area if other in reached])
    return parts


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "") if names else "(there is none)"
