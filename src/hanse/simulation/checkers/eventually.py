"""5. A client eventually receives every notification that is visible to it and matches one of its subscriptions.

Excused is only what a bounded queue could not take, and said so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.routing.messages import innermost
from hanse.simulation.checkers.trace import GIVEN_UP_RIGHTLY, REFUSED_RIGHTLY, Got, Trace, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(trace: Trace) -> Iterator[Violation]:
    got = set(trace.delivered)
    dropped = dict(trace.dropped)
    excused = {
        (n.publisher, n.id) for message in trace.lost if (n := getattr(innermost(message), "notification", None)) is not None
    }
    refused = {(client, id_): reason for client, id_, reason in trace.rejected}
    for said, published in trace.published.items():
        if said in excused or any(words in refused.get(said, "") for words in REFUSED_RIGHTLY):
            continue
        for client, subscription in sorted(published.must):
            missing = Got(client, subscription, *said)
            if missing in got:
                continue
            reason = dropped.get(missing, "")
            if not any(words in reason for words in GIVEN_UP_RIGHTLY):
                why = f" (dropped: {reason})" if reason else f" (refused: {refused[said]})" if said in refused else ""
                yield Violation("eventually", f"{client} never got {said[1]} of {said[0]} for {subscription}{why}")
