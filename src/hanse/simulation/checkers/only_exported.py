"""What a client receives of a notification is what policy and export rules leave of it on its way, neither more nor less."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.simulation.checkers.trace import Trace, Violation, content

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(trace: Trace) -> Iterator[Violation]:
    for got, notification in trace.shown:
        published = trace.published.get(got.said)
        if published is None or got.asked not in published.may:
            continue  # other properties' business
        if content(notification) not in map(content, published.seen_by(got.asked)):
            shown = ", ".join(sorted(notification.attributes)) or "no attribute"
            yield Violation("only as exported", f"{got} with {shown}, which is not what export rules and policies leave of it")
