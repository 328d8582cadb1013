"""4. A client receives a notification at most once for a subscription."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hanse.simulation.checkers.trace import Trace, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(trace: Trace) -> Iterator[Violation]:
    for got, times in Counter(trace.delivered).items():
        if times > 1:
            yield Violation("at most once", f"{got}, {times} times")
