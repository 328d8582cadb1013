"""2. A client receives only notifications that were published and are visible to it: places, scopes and export rules included.

And what export rules forbid a node to hear of does not cross the link to it either; nor does any node read of it what the
policy of the publisher's node forbids it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.simulation.checkers.trace import Trace, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "only published and visible"


def check(trace: Trace) -> Iterator[Violation]:
    for got in trace.delivered:
        published = trace.published.get(got.said)
        if published is None:
            yield Violation(NAME, f"{got}, which nobody published")
        elif published.advertised and got.asked not in published.may:
            yield Violation(NAME, f"{got}, which may not see it")
    for source, target, (publisher, notification) in trace.leaked:
        yield Violation(NAME, f"{source} let {target} hear of {notification} of {publisher}, against its rule or policy")
