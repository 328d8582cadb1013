"""Visibility against an independent enumeration of every path, on random graphs with random filters."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.model import BOTTOM, TOP
from hanse.scopes import NEVER, Edge, GraphState, ScopeGraph, Scopes, ScopesState, is_visibility_path

if TYPE_CHECKING:
    from collections.abc import Iterator

FILTERS = ["", "", NEVER, "x==1", "y==1", "x==1;y==1"]


def opens(text: str, attributes: dict[str, int]) -> bool:
    if text == NEVER:
        return False
    return all(attributes[term[0]] == 1 for term in text.split(";") if term)


def every_path(edges: list[Edge], source: str, target: str) -> Iterator[tuple[str, ...]]:
    """All ways up, and from each of their ends all ways down: no sharing, no cleverness."""

    def up(path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield path
        for edge in edges:
            if edge.sub == path[-1] and edge.super_ != TOP:
                yield from up((*path, edge.super_))

    def down(path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield path
        for edge in edges:
            if edge.super_ == path[-1]:
                yield from down((*path, edge.sub))

    for climb in up((source,)):
        for path in down(climb):
            if path[-1] == target:
                yield path


def lets_through(edges: list[Edge], path: tuple[str, ...], attributes: dict[str, int]) -> bool:
    table = {(edge.sub, edge.super_): edge for edge in edges}
    return all(opens(table[a, b].out if (a, b) in table else table[b, a].into, attributes) for a, b in pairwise(path))


@st.composite
def graphs(draw: st.DrawFn) -> list[Edge]:
    count = draw(st.integers(1, 7))
    edges = []
    for i in range(count):
        parents = draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set()
        if not parents:
            edges.append(Edge(f"s{i}"))
        for parent in sorted(parents):
            edges.append(Edge(f"s{i}", f"s{parent}", draw(st.sampled_from(FILTERS)), draw(st.sampled_from(FILTERS))))
    return edges


def built(edges: list[Edge]) -> ScopeGraph:
    return ScopeGraph.from_struct(GraphState("d", tuple(edges)))


@settings(max_examples=300, deadline=None)
@given(graphs(), st.integers(0, 1), st.integers(0, 1), st.data())
def test_visible_is_what_the_enumeration_of_paths_says(edges: list[Edge], x: int, y: int, data: st.DataObject) -> None:
    graph, attributes = built(edges), {"x": x, "y": y}
    for _ in range(2):
        for source in graph.scopes():
            for target in graph.scopes():
                paths = set(every_path(edges, source, target))
                expected = source == target or any(lets_through(edges, path, attributes) for path in paths)
                assert graph.visible(source, target, attributes) is expected
                trace = graph.trace(source, target, attributes)
                assert trace.visible is expected
                if expected:
                    assert trace.path in paths
                    assert lets_through(edges, trace.path, attributes)
                    assert is_visibility_path(graph, trace.path)
                    assert all(opens(border.filter, attributes) for border in trace.borders)
                else:
                    assert bool(trace.borders) is bool(paths)
                    assert not any(opens(border.filter, attributes) for border in trace.borders)
        # then again, after a change at run time
        borders = [i for i, edge in enumerate(edges) if edge.super_ != TOP]
        if not borders:
            break
        i = data.draw(st.sampled_from(borders))
        changed = Edge(edges[i].sub, edges[i].super_, data.draw(st.sampled_from(FILTERS)), data.draw(st.sampled_from(FILTERS)))
        graph.set_filter(changed.sub, changed.super_, out=changed.out, into=changed.into)
        edges = [*edges[:i], changed, *edges[i + 1 :]]


@settings(max_examples=100, deadline=None)
@given(graphs(), st.randoms(use_true_random=False))
def test_a_snapshot_restores_the_same_scopes(edges: list[Edge], random: object) -> None:
    scopes = Scopes()
    for edge in edges:
        scopes.graph("d").add(edge.sub, edge.super_, out=edge.out, into=edge.into)
    scopes.graph("empty")
    state = msgspec.json.decode(msgspec.json.encode(scopes.to_struct()), type=ScopesState)
    restored = Scopes.from_struct(state)
    assert restored.to_struct() == scopes.to_struct()
    assert restored.digest() == scopes.digest()
    assert set(restored.graphs["d"].edges()) == set(edges)


def test_the_digest_tells_a_changed_filter_but_not_an_order() -> None:
    one, other = Scopes(), Scopes()
    for scopes, order in ((one, "ab"), (other, "ba")):
        scopes.graph("d").add("top")
        for name in order:
            scopes.graph("d").add(name, "top")
    assert one.digest() == other.digest()
    one.graph("d").set_filter("a", "top", out=NEVER)
    assert one.digest() != other.digest()


def test_an_unstated_scope_restricts_nothing_and_an_unknown_one_sees_itself_alone() -> None:
    scopes = Scopes()
    scopes.graph("area").add("region")
    scopes.graph("area").add("city", "region")
    assert scopes.visible({}, {"area": "city"}, {})
    assert scopes.visible({"area": "city"}, {}, {})
    assert scopes.visible({"area": BOTTOM}, {"area": "city"}, {})
    assert scopes.visible({"area": "city"}, {"area": TOP}, {})
    assert scopes.visible({"other": BOTTOM}, {"other": "x"}, {})
    assert scopes.visible({"area": "city"}, {"area": "region"}, {})
    assert scopes.visible({"area": "elsewhere"}, {"area": "elsewhere"}, {})
    assert not scopes.visible({"area": "elsewhere"}, {"area": "city"}, {})
    assert not scopes.visible({"area": "city"}, {"area": "elsewhere"}, {})
    assert not scopes.visible({"other": "x"}, {"other": "y"}, {})
    assert scopes.visible({"other": "x"}, {"other": "x"}, {})


def test_every_stated_dimension_must_pass() -> None:
    scopes = Scopes()
    for dimension in ("area", "group"):
        graph = scopes.graph(dimension)
        graph.add("all")
        graph.add("a", "all")
        graph.add("b", "all")
    both = {"area": "a", "group": "a"}
    assert scopes.visible(both, {"area": "b", "group": "b"}, {})
    scopes.graph("group").set_filter("b", "all", into=NEVER)
    assert not scopes.visible(both, {"area": "b", "group": "b"}, {})
    assert scopes.visible(both, {"area": "b", "group": "all"}, {})
    traces = scopes.trace(both, {"area": "b", "group": "b"}, {})
    assert traces["area"].visible
    assert str(traces["group"]) == "a is not visible to b: stopped at all → b [into: false]"


def test_the_whole_world_is_no_way_from_one_root_to_another() -> None:
    graph = ScopeGraph("d")
    graph.add("one")
    graph.add("two")
    assert not graph.visible("one", "two", {})
    assert not graph.visible(TOP, "two", {})
    assert not graph.visible("one", BOTTOM, {})
    assert "no superscope in common" in graph.trace("one", "two", {}).reason
