"""Brokers that keep to the rules believe each other: whatever one says, the next one does not refuse it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.simulation.checkers.trace import Trace, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(trace: Trace) -> Iterator[Violation]:
    for source, target, reason in trace.refused:
        yield Violation("the honest are believed", f"{target} refused what {source} said: {reason}")
