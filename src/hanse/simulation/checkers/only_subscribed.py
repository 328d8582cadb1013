"""1. A client receives only notifications that it is subscribed to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.matching.meaning import carries, passes_q, passes_quality, passes_xpath, selects, tells
from hanse.simulation.checkers.trace import Trace, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(trace: Trace) -> Iterator[Violation]:
    for got in trace.delivered:
        published = trace.published.get(got.said)
        if published is None:
            continue  # the next property's business
        if not any(
            selects(s.selectors, n)
            and carries(s.attributes, n)
            and tells(s.news, n)
            and passes_q(s.q, n)
            and passes_quality(s.quality, n)
            and passes_xpath(s.xpath, n)
            for s in trace.subscribed.get(got.asked, ())
            for n in published.seen_by(got.asked)
        ):
            yield Violation("only subscribed", f"{got}, which never asked for it")
