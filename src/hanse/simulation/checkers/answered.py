"""Queries: a reply comes, once, with entities as export rules show them to the asker."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hanse.simulation.checkers.trace import Trace, Violation, content

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "queries are answered"


def check(trace: Trace) -> Iterator[Violation]:
    times = Counter((client, query) for client, query, _, _ in trace.replied)
    for (client, query), needed in trace.asked.items():
        if times[client, query] > 1:
            yield Violation(NAME, f"{client} got {times[client, query]} replies to {query}")
        elif needed and not times[client, query]:
            yield Violation(NAME, f"{client} got no reply to {query}")
    for client, query, node, entities in trace.replied:
        allowed = [content(entity) for entity in trace.answered.get((client, query, node), ())]
        for entity in entities:
            if content(entity) not in allowed:
                yield Violation(NAME, f"the reply to {query} of {client} has {entity.id} of {entity.publisher}: not allowed")
