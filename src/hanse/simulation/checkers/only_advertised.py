"""3. What its publisher has not advertised, or what does not match the advertisement, reaches nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.simulation.checkers.trace import Trace, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(trace: Trace) -> Iterator[Violation]:
    for client, subscription, notification in trace.delivered:
        published = trace.published.get(notification)
        if published is not None and not published.advertised:
            yield Violation("only advertised", f"{client} got {notification} for {subscription}, which was not as advertised")
