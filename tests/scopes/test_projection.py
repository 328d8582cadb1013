"""Projection onto brokers: the rules of the paper, areas, and their growth on demand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.model import TOP, InvalidInput
from hanse.routing.federation import Federation, Node, both_ways
from hanse.scopes import Join, ScopeGraph, check_rules, load, place, project

PARIS = load(Path(__file__).parents[2] / "examples" / "olympic-paris" / "characterisation.toml")
AREA, TRANSPORT, GROUP = "geographical area", "transport organisation", "membership"
B = Federation(tuple(Node(broker.name) for broker in PARIS.brokers), both_ways(list(PARIS.links)))


def net(*links: str) -> Federation:
    pairs = [(a, b) for a, b in (link.split("-") for link in links)]
    return Federation(tuple(Node(name) for name in sorted({end for pair in pairs for end in pair})), both_ways(pairs))


RING = net("a-b", "b-c", "c-d", "d-a", "d-d1", "c-c1")


@pytest.fixture
def graph() -> ScopeGraph:
    """The hierarchy of the paper's experiments."""
    made = ScopeGraph("d")
    for sub, super_ in (("s1", TOP), ("s2", "s1"), ("s3", "s1"), ("s4", "s2"), ("s5", "s3")):
        made.add(sub, super_)
    return made


def test_the_papers_own_calls_keep_the_rules(graph: ScopeGraph) -> None:
    calls = [Join("d", "s1", TOP), Join("c", "s2", "s1"), Join("d1", "s4", "s2"), Join("a", "s3", "s1"), Join("a", "s5", "s3")]
    assert check_rules(graph, RING, calls) == ()


@pytest.mark.parametrize(
    ("calls", "broken"),
    [
        ([("d", "s1", TOP)], "rule 1: no call for s2 ◁ s1"),
        ([("d", "s1", TOP), ("d", "s4", "s1")], "rule 1: d: JoinScope(s4 ◁ s1) is for no edge of the graph"),
        ([("c", "s2", "s1"), ("d", "s1", TOP)], "rule 2: c: JoinScope(s2 ◁ s1) comes before any call for s1"),
        ([("c", "s2", "s1"), ("d", "s1", TOP)], "rule 2: d: JoinScope(s1 ◁ ⊤) comes after calls for subscopes"),
        (
            # from d, where the root is, no way leads on to the leaf broker c1 and back
            [("d", "s1", TOP), ("c1", "s2", "s1"), ("d", "s4", "s2")],
            "rule 3: d: JoinScope(s4 ◁ s2), but s2 is not known on a way from there to the broker of its root",
        ),
    ],
)
def test_a_broken_rule_is_told(graph: ScopeGraph, calls: list[tuple[str, str, str]], broken: str) -> None:
    assert broken in check_rules(graph, RING, [Join(*call) for call in calls])


def test_rule_3_asks_for_a_way_without_a_broker_twice(graph: ScopeGraph) -> None:
    calls = [Join("d", "s1", TOP), Join("c1", "s2", "s1"), Join("b", "s4", "s2")]
    assert any(line.startswith("rule 3: b") for line in check_rules(graph, RING, calls)), "c1 is a dead end"
    calls[1] = Join("c", "s2", "s1")
    assert not any(line.startswith("rule 3") for line in check_rules(graph, RING, calls))


def test_a_join_tells_the_neighbours_that_know_the_superscope(graph: ScopeGraph) -> None:
    projection = project(graph, RING, {"s1": ["d", "a"], "s2": ["c"]})
    assert [str(call) for call in projection.calls] == ["d: JoinScope(s1 ◁ ⊤)", "a: JoinScope(s1 ◁ ⊤)", "c: JoinScope(s2 ◁ s1)"]
    assert [call.extends for call in projection.calls] == [False, True, False]
    assert projection.areas == {"s1": ("a", "d"), "s2": ("c", "d")}
    assert projection.knows["d"] == ("s1", "s2")
    assert projection.knows["b"] == ()
    assert projection.border("s2", "s1") == ("d",)
    assert projection.unplaced == ("s3", "s4", "s5")
    assert projection.violations == ()
    assert projection.warnings == ()


def test_one_call_an_edge(graph: ScopeGraph) -> None:
    graph.add("s5", "s2")
    projection = project(graph, RING, place(graph, RING))
    assert sum(not call.extends for call in projection.calls) == len(graph.edges()) == 6


def test_a_split_area_and_a_missing_border_are_told(graph: ScopeGraph) -> None:
    projection = project(graph, RING, {"s1": ["d1"], "s2": ["b", "c1"]})
    assert projection.warnings == (
        "the area of 's2' is not connected: {b} and {c1}; join 's2' on the brokers between them",
        "no broker knows both 's2' and 's1'; join 's2' at a neighbour of the area of 's1'",
    )


def test_later_changes_of_the_graph_do_not_reach_a_projection(graph: ScopeGraph) -> None:
    projection = project(graph, RING, {"s1": ["d"]})
    graph.add("s6", "s1")
    assert "s6" not in projection.graph


@pytest.mark.parametrize(
    ("placements", "complaint"),
    [
        ({"s9": ["d"]}, "dimension 'd': scope 's9' is placed but not known; choose one of s1, s2, s3, s4, s5"),
        ({"s1": ["z"]}, "scope 's1': it is placed at 'z', which is no broker; choose one of a, b, c, c1, d, d1"),
    ],
)
def test_bad_placements_are_refused(graph: ScopeGraph, placements: dict[str, list[str]], complaint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        project(graph, RING, placements)
    assert str(caught.value) == complaint


def test_figure_1_is_projected_as_the_text_says() -> None:
    scopes = PARIS.scopes()
    area = project(scopes.graphs[AREA], B, PARIS.placements(AREA))
    transport = project(scopes.graphs[TRANSPORT], B, PARIS.placements(TRANSPORT))
    group = project(scopes.graphs[GROUP], B, PARIS.placements(GROUP))
    assert transport.areas["ro"] == ("B10", "B11", "B13")
    assert area.border("sm", "idf") == ("B9", "B13"), "the filter of Seine et marne stands at B9 and B13"
    assert group.areas == {}, "at deployment no broker knows the groups"
    for projection in (area, transport, group):
        assert projection.violations == ()
        assert projection.warnings == ()


def test_the_uk_area_grows_when_members_connect_and_shrinks_when_they_leave() -> None:
    empty = project(PARIS.scopes().graphs[GROUP], B, {})
    first = empty.extend("B6", "uk")
    assert [str(call) for call in first.calls] == ["B6: JoinScope(su ◁ ⊤)", "B6: JoinScope(uk ◁ su)"]
    assert first.way("B12", "uk") == ("B5", "B1", "B4", "B9", "B12")
    both = first.extend("B12", "uk")
    assert [call.broker for call in both.calls[len(first.calls) :]] == ["B5", "B1", "B4", "B9", "B12"]
    assert both.areas["uk"] == ("B1", "B4", "B5", "B6", "B9", "B12")
    assert both.extend("B9", "uk").calls == both.calls, "it is on the way already"
    assert both.extend("B9", "uk").leave("B12", "uk").areas["uk"] == ("B1", "B4", "B5", "B6", "B9"), "but now it stays"
    assert both.extend("B12", "uk") is both
    assert both.leave("B12", "uk").areas == first.areas
    assert first.leave("B6", "uk").areas == {}
    with pytest.raises(InvalidInput, match="broker 'B9' did not ask for scope 'uk'"):
        both.leave("B9", "uk")
    with pytest.raises(InvalidInput, match="there is no broker 'B99'; choose one of B1, "):
        both.extend("B99", "uk")
    with pytest.raises(InvalidInput, match="dimension 'membership' has no scope 'us'; choose one of su, uk, fr, at"):
        both.extend("B1", "us")


def test_a_placement_may_leave_too(graph: ScopeGraph) -> None:
    projection = project(graph, RING, {"s1": ["a", "d"]}).leave("a", "s1")
    assert projection.areas == {"s1": ("d",)}


def test_without_links_there_is_no_way(graph: ScopeGraph) -> None:
    apart = Federation((Node("a"), Node("b")))
    with pytest.raises(InvalidInput, match="no way of links leads from broker 'b' to the area of scope 's1'; add a link"):
        project(graph, apart, {"s1": ["a"]}).extend("b", "s1")


@st.composite
def wishes(draw: st.DrawFn) -> tuple[ScopeGraph, Federation, list[tuple[str, str]]]:
    made = ScopeGraph("d")
    count = draw(st.integers(1, 6))
    for i in range(count):
        made.add(f"s{i}")
        for parent in draw(st.sets(st.integers(0, i - 1), max_size=2)) if i else ():
            made.add(f"s{i}", f"s{parent}")
    size = draw(st.integers(1, 8))
    pairs = {(f"b{draw(st.integers(0, i - 1))}", f"b{i}") for i in range(1, size)}
    pairs |= {
        (f"b{i}", f"b{j}")
        for i, j in draw(st.sets(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=4))
        if i < j
    }
    overlay = Federation(tuple(Node(f"b{i}") for i in range(size)), both_ways(sorted(pairs)))
    asked = draw(st.lists(st.tuples(st.sampled_from(overlay.ids), st.sampled_from(made.scopes())), max_size=6))
    return made, overlay, asked


@settings(max_examples=150, deadline=None)
@given(wishes())
def test_areas_that_grow_on_demand_are_connected_and_have_their_borders(
    case: tuple[ScopeGraph, Federation, list[tuple[str, str]]],
) -> None:
    graph, overlay, asked = case
    projection = project(graph, overlay, {})
    for broker, scope in asked:
        before = projection
        projection = before.extend(broker, scope)
        assert broker in projection.areas[scope]
        assert projection.calls[: len(before.calls)] == before.calls
        assert projection.warnings == ()
    for broker, scope in projection.extensions:
        projection = projection.leave(broker, scope)
        assert projection.warnings == ()
    assert projection.areas == {}
