"""Times as numbers: microseconds since 1970, in UTC."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Final

from hanse.filters.values import temporal_value

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_NS: Final = date(1970, 1, 1).toordinal() * 86_400 * 1_000_000_000


@lru_cache(maxsize=4096)  # one request's time is asked for with every attribute
def to_us(text: str) -> int | None:
    """None: it is no time. A missing zone means UTC, as in filters."""
    if text[-1:] == "Z":
        try:  # what the node itself writes is read fastest so
            since = datetime.fromisoformat(text) - _EPOCH
        except ValueError:
            pass
        else:
            return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    moment = temporal_value(text)
    return (moment[1] - _EPOCH_NS) // 1000 if moment is not None and moment[0] == "instant" else None


def now_us() -> int:
    return time.time_ns() // 1000
