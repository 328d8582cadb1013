"""3. What its publisher has not advertised (where it says it has, or must), or what is not as advertised, reaches nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.simulation.checkers.trace import Trace, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(trace: Trace) -> Iterator[Violation]:
    for got in trace.delivered:
        published = trace.published.get(got.said)
        if published is not None and not published.advertised:
            yield Violation("only advertised", f"{got}, which was not as advertised")
