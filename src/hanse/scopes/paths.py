"""Joining what a notification and a subscription have passed into one visibility path (figure 2 of the muDEBS paper).

The notification's path starts at the producer; the subscription's starts at the consumer and is read backwards. They join
where the end of the one is the beginning of the other, or where one step leads from the one to the other.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hanse.model import InvalidInput, ScopePath

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hanse.scopes.graph import ScopeGraph


def is_visibility_path(graph: ScopeGraph, scopes: Sequence[str]) -> bool:
    """Whether every step follows an edge of the graph, and no step climbs after one that descends."""
    descending = False
    for here, there in pairwise(scopes):
        if graph.edge(there, here) is not None:
            descending = True
        elif descending or graph.edge(here, there) is None:
            return False
    return True


def join_paths(graph: ScopeGraph, notification_path: ScopePath, subscription_path: ScopePath) -> tuple[str, ...] | None:
    """The visibility path from producer to consumer, or None if the two do not join into one that climbs, then descends.

    Filters are not applied: each border's is, by the broker that crosses it. The longest overlap that works is taken.
    """
    for path in (notification_path, subscription_path):
        if path.dimension != graph.dimension:
            raise InvalidInput(f"a scope path of dimension {path.dimension!r} cannot be joined in dimension {graph.dimension!r}")
    done, ahead = notification_path.scopes, subscription_path.scopes[::-1]
    for overlap in range(min(len(done), len(ahead)), -1, -1):  # 0: they only touch
        if done[len(done) - overlap :] == ahead[:overlap]:
            joined = done + ahead[overlap:]
            if is_visibility_path(graph, joined):
                return joined
    return None
