"""2. A client receives only notifications that were published and are visible to it: places, scopes and export rules included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.simulation.checkers.trace import Trace, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(trace: Trace) -> Iterator[Violation]:
    for client, subscription, notification in trace.delivered:
        published = trace.published.get(notification)
        if published is None:
            yield Violation("only published and visible", f"{client} got {notification}, which nobody published")
        elif published.advertised and subscription not in published.may:
            yield Violation("only published and visible", f"{client} got {notification} for {subscription}, which may not see it")
