"""What is asked of the past, as far as that says where to look."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from hanse.ngsild.entity import LOCATION
from hanse.ngsild.query import EntitySelector
from hanse.ngsild.temporal_parsing import TemporalQuery
from hanse.node.store.beside import Row

_SLACK: Final = 4  # a series is cut back to what is wanted when it is so many times as long


class Span(NamedTuple):
    """Records that may be asked for: what `high` says of them is not before `from_us`, and what `low` says before `until_us`."""

    low: str
    high: str
    from_us: int | None
    until_us: int | None


class Question(Struct, frozen=True):
    temporal: TemporalQuery
    selectors: Sequence[EntitySelector] = ()
    only: Sequence[str] | None = None  # ids
    instances: int | None = None  # of each series, from its end (with lastN) or its beginning; None: all may be looked at

    def reaches(self, latest_us: int) -> bool:
        """Whether something is asked for that may have happened up to a moment."""
        return self.temporal.from_us is None or self.temporal.from_us <= latest_us

    @property
    def span(self) -> Span:
        """By the columns that a record has its times in."""
        from_us, until_us = self.temporal.from_us, self.temporal.until_us
        if self.temporal.timeproperty in ("modifiedAt", "deletedAt"):
            return Span("at", "at", from_us, until_us)
        if self.temporal.timeproperty == "createdAt":  # an instance may have been created long before it was as it is
            return Span("at", "at", from_us, None)
        return Span("pastFrom", "pastUntil", from_us, until_us)

    def moment(self, row: Row) -> int | None:
        """When a row happened, by the time that is asked for; None: it is not asked for."""
        if (row.deleted_us is None) == (self.temporal.timeproperty == "deletedAt"):
            return None
        match self.temporal.timeproperty:
            case None:
                us: int | None = row.modified_us if row.observed_us is None else row.observed_us
            case "observedAt":
                us = row.observed_us
            case "createdAt":
                us = row.created_us
            case "modifiedAt":
                us = row.modified_us
            case _:
                us = row.deleted_us
        if us is None or (self.temporal.from_us is not None and us < self.temporal.from_us):
            return None
        return None if self.temporal.until_us is not None and us >= self.temporal.until_us else us


class Gathered:
    """The rows that a question needs, of all that are offered; no more of a series than it can show."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._series: dict[tuple[str, str, str | None], list[tuple[int, Row]]] = {}
        self.count = 0

    def add(self, row: Row) -> None:
        us = self._question.moment(row)
        if us is None:
            return
        series = self._series.setdefault((row.entity, row.attribute, row.dataset), [])
        series.append((us, row))
        self.count += 1
        most = self._question.instances
        # of places, some may be hidden and others not
        if most is not None and len(series) > _SLACK * max(most, 1) and row.attribute != LOCATION:
            self.count -= len(series)
            self._cut(series, most)
            self.count += len(series)

    def _cut(self, series: list[tuple[int, Row]], most: int) -> None:
        """Keep those nearest to one end, and all that happened at the moment of the last of them."""
        times = (us for us, _ in series)
        if self._question.temporal.last_n is not None:
            last = heapq.nlargest(max(most, 1), times)[-1]
            series[:] = [pair for pair in series if pair[0] >= last]
        else:
            last = heapq.nsmallest(max(most, 1), times)[-1]
            series[:] = [pair for pair in series if pair[0] <= last]

    def rows(self) -> list[Row]:
        return [row for series in self._series.values() for _, row in series]
