"""The graph of one dimension: what may be joined, what is refused, and how it is walked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hanse.model import BOTTOM, TOP, InvalidInput, ScopePath
from hanse.scopes import NEVER, Edge, ScopeGraph, join_paths

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def graph() -> ScopeGraph:
    """A diamond over a leaf, and a second root."""
    made = ScopeGraph("area")
    made.add("top")
    made.add("left", "top")
    made.add("right", "top")
    made.add("leaf", "left")
    made.add("leaf", "right")
    made.add("alone")
    return made


def test_a_graph_is_walked_up_and_down(graph: ScopeGraph) -> None:
    assert graph.parents("leaf") == ("left", "right")
    assert graph.parents("top") == ()
    assert graph.children("top") == ("left", "right")
    assert graph.ancestors("leaf") == {"left", "right", "top"}
    assert graph.roots("leaf") == ("top",)
    assert graph.roots("alone") == ("alone",)
    assert graph.roots() == ("top", "alone")
    assert [graph.level(scope) for scope in ("top", "left", "leaf", "alone")] == [1, 2, 3, 1]
    assert "leaf" in graph
    assert "nowhere" not in graph
    assert len(graph) == 5
    assert Edge("top", TOP) in graph.edges()
    assert len(graph.edges()) == 6


def test_the_level_counts_the_longest_way_down(graph: ScopeGraph) -> None:
    graph.add("leaf", "top")
    assert graph.level("leaf") == 3


def test_joining_again_changes_nothing(graph: ScopeGraph) -> None:
    version = graph.version
    graph.add("leaf", "left")
    graph.add("leaf")
    graph.add("top")
    assert graph.version == version


def test_a_root_may_come_under_a_superscope(graph: ScopeGraph) -> None:
    graph.add("alone", "leaf")
    assert graph.roots("alone") == ("top",)
    assert graph.visible("alone", "left", {})


def test_a_leaf_may_be_removed_and_an_inner_scope_may_not(graph: ScopeGraph) -> None:
    with pytest.raises(InvalidInput, match="scope 'left': it still has the subscope 'leaf'; remove that one first"):
        graph.remove("left")
    graph.remove("leaf")
    graph.remove("left")
    assert graph.children("top") == ("right",)
    assert not graph.visible("left", "top", {})


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            lambda g: g.add("top", "leaf"),
            "dimension 'area', scope 'top': 'leaf' is already below it, so that the edge would close a cycle",
        ),
        (lambda g: g.add("leaf", "leaf"), "dimension 'area', scope 'leaf': it cannot be its own superscope"),
        (
            lambda g: g.add("new", "nowhere"),
            "dimension 'area', scope 'new': its superscope 'nowhere' is not known; join 'nowhere' first",
        ),
        (lambda g: g.add("new", BOTTOM), "dimension 'area', scope 'new': its superscope '⊥' is not known; join '⊥' first"),
        (lambda g: g.add(TOP), "⊤ cannot be the name of a scope of dimension 'area': it stands in for an unstated scope"),
        (lambda g: g.add(" "), "the name of a scope of dimension 'area' is empty"),
        (lambda g: g.add("x" * 257), "the name of a scope of dimension 'area' is longer than 256 characters"),
        (lambda g: g.add("new", out=NEVER), "⊤ is never crossed"),
        (
            lambda g: g.add("leaf", "left", out=NEVER),
            "already a subscope of 'left' with other visibility filters; change them with set_filter",
        ),
        (
            lambda g: g.add("new", "top", into="a=="),
            "dimension 'area', scope 'new', superscope 'top', visibility filter 'into': ",
        ),
        (lambda g: g.set_filter("leaf", "left", out="a=="), "scope 'leaf', superscope 'left', visibility filter 'out': "),
        (lambda g: g.set_filter("leaf", "top", out=NEVER), "scope 'leaf': it is no subscope of 'top'; join it first"),
        (lambda g: g.set_filter("top", TOP, out=NEVER), "⊤ is never crossed"),
        (lambda g: g.remove("nowhere"), "dimension 'area' has no scope 'nowhere'; join it first"),
        (lambda g: g.parents("nowhere"), "dimension 'area' has no scope 'nowhere'; join it first"),
        (lambda g: g.level("nowhere"), "dimension 'area' has no scope 'nowhere'; join it first"),
        (lambda g: g.ancestors("nowhere"), "dimension 'area' has no scope 'nowhere'; join it first"),
    ],
)
def test_what_is_refused_leaves_the_graph_as_it_was(
    graph: ScopeGraph, change: Callable[[ScopeGraph], None], complaint: str
) -> None:
    before = graph.to_struct()
    with pytest.raises(InvalidInput) as caught:
        change(graph)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)
    assert graph.to_struct() == before


def test_a_filter_may_change_at_run_time(graph: ScopeGraph) -> None:
    graph.remove("leaf")
    assert graph.visible("left", "right", {})
    graph.set_filter("left", "top", out="official==true")
    assert not graph.visible("left", "right", {"official": False})
    assert graph.visible("left", "right", {"official": True})
    graph.set_filter("right", "top", into=NEVER)
    assert not graph.visible("left", "right", {"official": True})
    assert graph.visible("right", "top", {})
    graph.set_filter("left", "top", out="")
    graph.set_filter("right", "top", into=" ")
    assert graph.visible("left", "right", {})


def test_a_chain_as_long_as_the_graph_may_be_is_no_trouble() -> None:
    graph = ScopeGraph("deep")
    graph.add("s0")
    for i in range(1, 3000):
        graph.add(f"s{i}", f"s{i - 1}")
    assert graph.level("s2999") == 3000
    assert graph.visible("s2999", "s0", {})
    assert len(graph.trace("s2999", "s0", {}).path) == 3000


def path(scopes: str) -> ScopePath:
    return ScopePath("area", tuple(scopes.split()))


@pytest.fixture
def figure_2() -> ScopeGraph:
    """X is in s1, Y in s5; s1 ◁ s2 ◁ s3 ▷ s4 ▷ s5, and beside it s6 ▷ s4 and s6 ▷ s7: the way into a second hill."""
    made = ScopeGraph("area")
    made.add("s3")
    made.add("s6")
    made.add("s2", "s3")
    made.add("s1", "s2")
    made.add("s4", "s3")
    made.add("s4", "s6")
    made.add("s5", "s4")
    made.add("s7", "s6")
    return made


# The drawing is lost; the text says where the overlap lies and whether the next scope is eligible. The subscription's path
# starts at the consumer.
@pytest.mark.parametrize(
    ("configuration", "notification", "subscription", "joined"),
    [
        ("a: the overlap climbs, and the next step climbs", "s1 s2", "s5 s4 s3 s2", "s1 s2 s3 s4 s5"),
        ("b: the overlap ends at the top, and the next step descends", "s1 s2 s3", "s5 s4 s3 s2", "s1 s2 s3 s4 s5"),
        ("c: the overlap descends, and so does the next step", "s1 s2 s3 s4", "s5 s4 s3", "s1 s2 s3 s4 s5"),
        ("d: the overlap descends, the next step climbs a second hill", "s1 s2 s3 s4", "s7 s6 s4 s3", None),
        ("e: the overlap is all descent, and the next step climbs", "s3 s4", "s6 s4 s3", None),
    ],
)
def test_figure_2(figure_2: ScopeGraph, configuration: str, notification: str, subscription: str, joined: str | None) -> None:
    found = join_paths(figure_2, path(notification), path(subscription))
    assert found == (tuple(joined.split()) if joined else None), configuration


@pytest.mark.parametrize(
    ("notification", "subscription", "joined"),
    [
        ("s1", "s5 s4 s3 s2", "s1 s2 s3 s4 s5"),  # they touch by one step up
        ("s1 s2 s3", "s5 s4", "s1 s2 s3 s4 s5"),  # and by one step down
        ("s1", "s1", "s1"),
        ("unknown", "unknown", "unknown"),
        ("s1", "s5", None),  # too far apart
        ("s4", "s7 s6", "s4 s6 s7"),
        ("s3 s4", "s7 s6", None),  # one step, but up again
        ("s1 s2", "s1 s2", "s1 s2 s1"),  # out of the scope and back into it elsewhere
        ("s1 s3", "s3", None),  # no edge: not a path at all
    ],
)
def test_paths_join_where_they_overlap_or_touch(
    figure_2: ScopeGraph, notification: str, subscription: str, joined: str | None
) -> None:
    assert join_paths(figure_2, path(notification), path(subscription)) == (tuple(joined.split()) if joined else None)


def test_paths_of_another_dimension_are_refused(figure_2: ScopeGraph) -> None:
    with pytest.raises(InvalidInput, match="'group' cannot be joined in dimension 'area'"):
        join_paths(figure_2, ScopePath("group", ("s1",)), path("s1"))
