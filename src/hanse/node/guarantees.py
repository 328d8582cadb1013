"""What was published below its guarantee: refused by the broker, and counted here for each advertisement.

Whoever publishes by HTTP is told in the answer. Where there is no answer any more, because the request had to wait for a
hand-over of the client, the log and these counters are all that tells. They count from when the node started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog
from msgspec import Struct

from hanse.node.metrics import METRICS

if TYPE_CHECKING:
    from hanse.routing import messages as m

ADVERTISEMENTS_MAX: Final = 10_000  # with counters of their own; of more, the one that failed first is forgotten
LABELS_MAX: Final = 1_000  # advertisements that /metrics names; what others break is counted together
LABEL_LENGTH_MAX: Final = 200
OTHERS: Final = "others"

log = structlog.get_logger("hanse.guarantees")


class Failures(Struct, frozen=True):
    number: int
    last: str  # in words


class Guarantees:
    def __init__(self) -> None:
        self._broken: dict[tuple[str, str], Failures] = {}

    def broken(self, refused: m.Reject, *, is_told: bool) -> None:
        """A notification was below the guarantee of the advertisement that it named. `is_told`: its publisher gets an answer."""
        key = refused.client, refused.below
        before = self._broken.pop(key, None)
        if before is None and len(self._broken) >= ADVERTISEMENTS_MAX:
            del self._broken[next(iter(self._broken))]
        self._broken[key] = Failures(1 if before is None else before.number + 1, refused.reason)
        METRICS.count_bounded("below_guarantee", "/".join(key)[:LABEL_LENGTH_MAX], LABELS_MAX, OTHERS)
        if not is_told:
            log.warning("below its guarantee", client=refused.client, notification=refused.request, reason=refused.reason)

    def failures(self, client: str, advertisement: str) -> Failures:
        return self._broken.get((client, advertisement), _NONE)

    def forget(self, client: str, advertisement: str) -> None:
        """The advertisement is gone; one of the same name would be another."""
        self._broken.pop((client, advertisement), None)

    def forget_client(self, client: str) -> None:
        for key in [key for key in self._broken if key[0] == client]:
            del self._broken[key]

    def bounds(self) -> dict[str, tuple[int, int | None]]:
        return {"advertisements_below_guarantee": (len(self._broken), ADVERTISEMENTS_MAX)}


_NONE: Final = Failures(0, "")
