"""Rows that wait for values beyond a threshold, sorted by it: an event takes the part of them that its value reaches.

Rows with two one-sided bounds (`level>7;humidity<30`) are sorted by both, and the event takes the shorter part. So it does not
matter which of the bounds is the telling one, and nobody has to guess.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEAD_ROW = 0  # a row of the columns that never matches
_WAITING_MIN = 64
_WAITING_SHARE = 512


class Side(NamedTuple):
    """A lane, and whether values match from the threshold upward or downward."""

    lane: int
    rises: bool


class Rungs(NamedTuple):
    """Where a row stands; thresholds in the order of the sides, those of falling sides negated."""

    sides: tuple[Side, ...]
    thresholds: tuple[float, ...]


class Ladder:
    """Rows with the same sides. New ones wait unsorted, removed ones leave a dead row, and both are worked in by and by."""

    __slots__ = ("_dead", "_rows", "_size", "_sorted", "_waiting")

    def __init__(self, sides: int) -> None:
        self._sorted: list[NDArray[np.float64]] = [np.empty(0) for _ in range(sides)]
        self._rows: list[NDArray[np.int32]] = [np.empty(0, np.int32) for _ in range(sides)]
        self._waiting: dict[int, tuple[float, ...]] = {}
        self._dead = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, row: int, thresholds: tuple[float, ...]) -> None:
        self._size += 1
        self._waiting[row] = thresholds
        if len(self._waiting) > _WAITING_MIN + self._size // _WAITING_SHARE:
            self._work_in()

    def remove(self, row: int, thresholds: tuple[float, ...]) -> None:
        self._size -= 1
        if self._waiting.pop(row, None) is not None:
            return
        for threshold, values, rows in zip(thresholds, self._sorted, self._rows, strict=True):
            low, high = values.searchsorted((threshold, np.nextafter(threshold, inf))).tolist()
            rows[low + int((rows[low:high] == row).argmax())] = DEAD_ROW
        self._dead += 1
        if self._dead > _WAITING_MIN + self._size // 4:
            self._work_in()

    def upto(self, values: list[float]) -> list[NDArray[np.int32]]:
        """The rows that the values reach on the side where they are fewest, and those not sorted yet."""
        reached = [int(thresholds.searchsorted(value, "right")) for thresholds, value in zip(self._sorted, values, strict=True)]
        least = min(reached)
        parts = [self._rows[reached.index(least)][:least]] if least else []
        if self._waiting:
            parts.append(np.fromiter(self._waiting, np.int32, len(self._waiting)))
        return parts

    def _work_in(self) -> None:
        waiting = np.fromiter(self._waiting, np.int32, len(self._waiting))
        for side, (old, rows) in enumerate(zip(self._sorted, self._rows, strict=True)):
            if self._dead:
                alive = rows != DEAD_ROW
                old, rows = old[alive], rows[alive]  # noqa: PLW2901
            new = np.array([thresholds[side] for thresholds in self._waiting.values()])
            order = new.argsort()
            at = old.searchsorted(new[order])
            self._sorted[side], self._rows[side] = np.insert(old, at, new[order]), np.insert(rows, at, waiting[order])
        self._waiting.clear()
        self._dead = 0
