"""5. A client eventually receives every notification that is visible to it and matches one of its subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.simulation.checkers.trace import Trace, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(trace: Trace) -> Iterator[Violation]:
    got = {(subscription, notification) for _, subscription, notification in trace.delivered}
    for published in trace.published.values():
        for subscription in sorted(published.must):
            if (subscription, published.notification.id) not in got:
                yield Violation("eventually", f"{subscription} never got {published.notification.id}")
