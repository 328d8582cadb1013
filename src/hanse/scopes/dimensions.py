"""All dimensions together: a notification is visible to a subscription if it is so in every dimension that both state."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from hanse.model import BOTTOM, TOP, InvalidInput
from hanse.scopes.graph import GraphState, ScopeGraph

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hanse.scopes.visibility import Trace

MAX_DIMENSIONS = 64


class ScopesState(Struct, frozen=True):
    graphs: tuple[GraphState, ...] = ()


class Scopes:
    """One graph a dimension, under the dimension's name in `graphs`."""

    def __init__(self) -> None:
        self.graphs: dict[str, ScopeGraph] = {}

    def graph(self, dimension: str) -> ScopeGraph:
        """The graph of a dimension, which is empty if there was none."""
        found = self.graphs.get(dimension)
        if found is None:
            if len(self.graphs) >= MAX_DIMENSIONS:
                raise InvalidInput(f"there are already {MAX_DIMENSIONS} dimensions", place=f"dimension {dimension!r}")
            found = self.graphs[dimension] = ScopeGraph(dimension)
        return found

    def visible(self, from_scopes: Mapping[str, str], to_scopes: Mapping[str, str], attributes: Mapping[str, Any]) -> bool:
        """Whether what is published in `from_scopes` may be seen in `to_scopes`, each at most one scope a dimension.

        A dimension that only one side states restricts nothing: ⊥ stands in for the publisher's scope, ⊤ for the subscriber's.
        A scope that its graph does not know is visible to its own name alone.
        """
        for dimension, source in from_scopes.items():
            target = to_scopes.get(dimension)
            if target is None or target == source:
                continue
            graph = self.graphs.get(dimension)
            if graph is None:
                if source != BOTTOM and target != TOP:
                    return False
            elif not graph.visible(source, target, attributes):
                return False
        return True

    def trace(
        self, from_scopes: Mapping[str, str], to_scopes: Mapping[str, str], attributes: Mapping[str, Any]
    ) -> dict[str, Trace]:
        """For each dimension that both sides state, why it lets the notification through or not."""
        return {
            dimension: (self.graphs.get(dimension) or ScopeGraph(dimension)).trace(source, to_scopes[dimension], attributes)
            for dimension, source in from_scopes.items()
            if dimension in to_scopes
        }

    def digest(self) -> str:
        """The same for any two that hold the same edges with the same filters, in whatever order they were joined."""
        edges = sorted(
            (name, edge.sub, edge.super_, edge.out, edge.into) for name, graph in self.graphs.items() for edge in graph.edges()
        )
        return blake2b(msgspec.json.encode(edges), digest_size=16).hexdigest()

    def to_struct(self) -> ScopesState:
        return ScopesState(tuple(graph.to_struct() for graph in self.graphs.values()))

    @classmethod
    def from_struct(cls, state: ScopesState) -> Scopes:
        scopes = cls()
        for graph in state.graphs:
            if graph.dimension in scopes.graphs:
                raise InvalidInput("the dimension is given twice", place=f"dimension {graph.dimension!r}")
            if len(scopes.graphs) >= MAX_DIMENSIONS:
                raise InvalidInput(f"there are more than {MAX_DIMENSIONS} dimensions")
            scopes.graphs[graph.dimension] = ScopeGraph.from_struct(graph)
        return scopes
