"""Which days can be played, and how the examples talk on the way."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from bordeaux.measurements import Row
from bordeaux.streets import WINDOW
from hanse.model import InvalidInput

EXAMPLE: Final = "2004-11-15"


def day(text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise InvalidInput(f"{text[:40]!r} is no day; write it like {EXAMPLE}") from None


def check(rows: Mapping[datetime, Row], since: datetime, days: int) -> None:
    """Raises InvalidInput if there are no measurements, or none to calibrate with, for all of these days."""
    first, last = _midnight_after(next(iter(rows)) + WINDOW), next(reversed(list(rows)))
    days_max = (last - since).days
    if since < first or days_max < 1:
        raise InvalidInput(
            f"--from {since:%Y-%m-%d} cannot be played; take a day from {first:%Y-%m-%d} to {last - timedelta(days=1):%Y-%m-%d}"
        )
    if not 1 <= days <= days_max:
        raise InvalidInput(f"--days {days} cannot be played from {since:%Y-%m-%d} on; take 1 to {days_max}")


def _midnight_after(moment: datetime) -> datetime:
    return moment.replace(hour=0) + timedelta(days=1)


class Voice:
    """What is said on the way: on stdout, or on stderr if a program reads stdout."""

    def __init__(self, is_json: bool) -> None:
        self._to = sys.stderr if is_json else sys.stdout

    def say(self, text: str = "") -> None:
        print(text, file=self._to, flush=True)

    def title(self, text: str) -> None:
        self.say(f"\n\033[1m{text}\033[0m" if self._to.isatty() else f"\n{text}")
