"""Rows that wait for values beyond a threshold, sorted by it: an event takes the part of them that its value reaches.

Rows with two one-sided bounds (`level>7;humidity<30`) are sorted by both, and the event takes the shorter part. So it does not
matter which of the bounds is the telling one, and nobody has to guess.

To sort a row into a long array moves half of it. So new rows wait, then go many at a time into a short array, and that now and
then into the long one: each row is moved a few times, however many there are. An event looks at all three.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEAD_ROW = 0  # a row of the columns that never matches
_WAITING_MAX = 64
_DEAD_MIN = 64
_SHORT_MIN = 1024
_SHORT_SHARE = 16  # the short array has at most this part of all rows


class Side(NamedTuple):
    """A lane, and whether values match from the threshold upward or downward."""

    lane: int
    rises: bool


class Rungs(NamedTuple):
    """Where a row stands; thresholds in the order of the sides, those of falling sides negated."""

    sides: tuple[Side, ...]
    thresholds: tuple[float, ...]


class Sorted:
    """Rows by their thresholds on each side. Removed ones leave a dead row until the next merge."""

    __slots__ = ("_rows", "_thresholds", "dead")

    def __init__(self, sides: int) -> None:
        self._thresholds: list[NDArray[np.float64]] = [np.empty(0) for _ in range(sides)]
        self._rows: list[NDArray[np.int32]] = [np.empty(0, np.int32) for _ in range(sides)]
        self.dead = 0

    def __len__(self) -> int:
        return len(self._rows[0])

    def remove(self, row: int, thresholds: tuple[float, ...]) -> bool:
        """Whether it was here."""
        for threshold, values, rows in zip(thresholds, self._thresholds, self._rows, strict=True):
            low, high = values.searchsorted((threshold, np.nextafter(threshold, inf))).tolist()
            found = (rows[low:high] == row).nonzero()[0]
            if not len(found):
                return False
            rows[low + found[0]] = DEAD_ROW
        self.dead += 1
        return True

    def upto(self, values: list[float]) -> NDArray[np.int32]:
        """The rows that the values reach, on the side where they are fewest."""
        reached = [
            int(thresholds.searchsorted(value, "right")) for thresholds, value in zip(self._thresholds, values, strict=True)
        ]
        least = min(reached)
        return self._rows[reached.index(least)][:least]

    def merge(self, other: Sorted) -> None:
        """Take in the rows of another, and let go of the dead."""
        for side, (thresholds, rows) in enumerate(zip(other._thresholds, other._rows, strict=True)):
            self._merge(side, thresholds, rows)
        self.dead = 0

    def merge_new(self, new: dict[int, tuple[float, ...]]) -> None:
        rows = np.fromiter(new, np.int32, len(new))
        for side, thresholds in enumerate(zip(*new.values(), strict=True)):
            self._merge(side, np.array(thresholds), rows)
        self.dead = 0

    def _merge(self, side: int, thresholds: NDArray[np.float64], rows: NDArray[np.int32]) -> None:
        thresholds = np.concatenate((self._thresholds[side], thresholds))
        rows = np.concatenate((self._rows[side], rows))
        order = thresholds.argsort(kind="stable")  # which takes sorted runs as they are
        order = order[rows.take(order) != DEAD_ROW]
        self._thresholds[side], self._rows[side] = thresholds.take(order), rows.take(order)


class Ladder:
    """Rows with the same sides."""

    __slots__ = ("_long", "_short", "_sides", "_size", "_waiting")

    def __init__(self, sides: int) -> None:
        self._sides = sides
        self._long = Sorted(sides)
        self._short = Sorted(sides)
        self._waiting: dict[int, tuple[float, ...]] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, row: int, thresholds: tuple[float, ...]) -> None:
        self._size += 1
        self._waiting[row] = thresholds
        if len(self._waiting) < _WAITING_MAX:
            return
        self._short.merge_new(self._waiting)
        self._waiting.clear()
        if len(self._short) > max(_SHORT_MIN, self._size // _SHORT_SHARE):
            self._merge_all()

    def remove(self, row: int, thresholds: tuple[float, ...]) -> None:
        self._size -= 1
        if self._waiting.pop(row, None) is not None:
            return
        if not self._short.remove(row, thresholds):
            self._long.remove(row, thresholds)
        if self._short.dead + self._long.dead > _DEAD_MIN + self._size // 4:
            self._merge_all()

    def _merge_all(self) -> None:
        self._long.merge(self._short)
        self._short = Sorted(self._sides)

    def upto(self, values: list[float]) -> list[NDArray[np.int32]]:
        """The rows that the values reach on one side, and those not sorted yet."""
        parts = [self._long.upto(values), self._short.upto(values)]
        if self._waiting:
            parts.append(np.fromiter(self._waiting, np.int32, len(self._waiting)))
        return parts
