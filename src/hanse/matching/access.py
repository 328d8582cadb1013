"""How a large partition comes from an event to the rows that may match: one way in for each row, chosen when the row comes.

Nearly everything is a **bucket**, a list of row numbers behind a hash key that the event can work out too: the value of an
equality; the cell of a grid that a geofence or a bounded interval lies in (at the level where it covers few cells); an attribute
that must be carried; or nothing at all, the bucket that every event looks at. Half-open intervals have no cell. They stand on a
**ladder**, sorted by threshold, of which an event takes the part up to its value.

A subscription often has several of these. It goes where the fewest are now: ten thousand subscriptions to `status=="open"` in ten
thousand places spread over places, ten thousand in one place over what else they ask. No statistics about events are needed.

A bucket may hold rows that do not match, never miss one that does; the columns decide. A row may come up twice if an event has
several of the values or attributes that it waits for.
"""

from __future__ import annotations

from array import array
from math import floor, frexp, inf, isfinite, ldexp
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from hanse.matching.sphere import FINEST_LEVEL, box_of, cells_at, grid_cells
from hanse.model import Circle, Polygon

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hanse.matching.event import Event, Readings
    from hanse.model import Geofence

DEAD_ROW = 0  # a row of the columns that never matches
_SCAN_MIN = 256  # a longer bucket is searched by numpy
_LEVEL_SHIFT = 2 * FINEST_LEVEL + 1
_CELLS_MAX = 64  # an event whose values on a lane span more cells looks at all of the lane
_LADDER_DISCOUNT = 8  # thresholds are mostly set where few events reach


class Rung(NamedTuple):
    lane: int
    rises: bool  # matches from the threshold upward, otherwise downward
    threshold: float


class Span(NamedTuple):
    """An atom of a row: an interval on a lane."""

    lane: int
    low: float
    high: float


# a grid cell; equality; interval cell; attribute carried; a rung of a ladder; nothing
Place: TypeAlias = int | tuple[int, float] | tuple[int, int, int] | str | Rung | None


class Access:
    def __init__(self) -> None:
        self._buckets: dict[Place, array[int]] = {}
        self._levels: dict[int | None, dict[int, int]] = {None: {}}  # of intervals by lane, of the geofences: rows at each level
        self._ladders: dict[tuple[int, bool], Ladder] = {}

    def add(self, row: int, spans: Sequence[Span], attributes: tuple[str, ...], geofence: Geofence) -> tuple[Place, ...]:
        """Where the row was filed: give it back to `remove`."""
        places = self._choose(spans, attributes, geofence)
        first = places[0]
        if isinstance(first, Rung):
            key = first.lane, first.rises
            ladder = self._ladders.get(key)
            if ladder is None:
                ladder = self._ladders[key] = Ladder()
            ladder.add(first.threshold if first.rises else -first.threshold, row)
            return places
        for place in places:
            bucket = self._buckets.get(place)
            if bucket is None:
                bucket = self._buckets[place] = array("i")
            bucket.append(row)
        lane_level = _lane_level(first)
        if lane_level is not None:
            lane, level = lane_level
            levels = self._levels.setdefault(lane, {})
            levels[level] = levels.get(level, 0) + 1
        return places

    def remove(self, row: int, places: tuple[Place, ...]) -> None:
        first = places[0]
        if isinstance(first, Rung):
            key = first.lane, first.rises
            ladder = self._ladders[key]
            ladder.remove(first.threshold if first.rises else -first.threshold, row)
            if not len(ladder):
                del self._ladders[key]
            return
        for place in places:
            bucket = self._buckets[place]
            _discard(bucket, row)
            if not bucket:
                del self._buckets[place]
        lane_level = _lane_level(first)
        if lane_level is not None:
            lane, level = lane_level
            levels = self._levels[lane]
            levels[level] -= 1
            if not levels[level]:
                del levels[level]
                if not levels and lane is not None:
                    del self._levels[lane]

    def _choose(self, spans: Sequence[Span], attributes: tuple[str, ...], geofence: Geofence) -> tuple[Place, ...]:
        best: tuple[Place, ...] = (None,)
        least = self._size(best) or inf  # an empty bucket for every event is the last resort all the same
        for places in _ways(spans, attributes, geofence):
            size = self._size(places)
            if size < least:
                best, least = places, size
                if not size:
                    break
        return best

    def _size(self, places: tuple[Place, ...]) -> int:
        first = places[0]
        if isinstance(first, Rung):
            ladder = self._ladders.get((first.lane, first.rises))
            return 0 if ladder is None else 1 + len(ladder) // _LADDER_DISCOUNT
        buckets = self._buckets
        return max([len(buckets.get(place, ())) for place in places])

    def candidates(self, event: Event, readings: Readings) -> NDArray[np.int32]:
        parts: list[NDArray[np.int32]] = []
        get = self._buckets.get
        keys: list[Place] = [None]
        if event.place is not None:
            keys += cells_at(event.lat, event.lon, self._levels[None])
        keys += event.notification.attributes
        for lane, values in readings.values.items():
            keys += [(lane, value) for value in values]
            # several values may satisfy the two bounds of an interval together, so what counts is the range they span
            least, greatest = (values[0], values[0]) if len(values) == 1 else (min(values), max(values))
            for level in self._levels.get(lane, ()):
                keys += self._interval_cells(lane, level, least, greatest)
            if (rising := self._ladders.get((lane, True))) is not None:
                parts += rising.upto(greatest)
            if (falling := self._ladders.get((lane, False))) is not None:
                parts += falling.upto(-least)
        for key in keys:
            bucket = get(key)
            if bucket is not None:
                parts.append(np.frombuffer(bucket, np.int32))
        if not parts:
            return np.empty(0, np.int32)
        return np.concatenate(parts)  # a copy: buckets can only grow while no array looks at them

    def _interval_cells(self, lane: int, level: int, least: float, greatest: float) -> list[Place]:
        first, last = _interval_cell(least, level), _interval_cell(greatest, level)
        if first == last:
            return [] if first is None else [(lane, level, first)]
        if first is not None and last is not None and last - first < _CELLS_MAX:
            return [(lane, level, cell) for cell in range(first, last + 1)]
        return [place for place in self._buckets if isinstance(place, tuple) and place[:2] == (lane, level) and len(place) == 3]


def _ways(spans: Sequence[Span], attributes: tuple[str, ...], geofence: Geofence) -> list[tuple[Place, ...]]:
    """All that a row can be filed under, the most telling first."""
    ways: list[tuple[Place, ...]] = [((span.lane, span.low),) for span in spans if span.low == span.high]
    if isinstance(geofence, Circle | Polygon):
        ways.append(tuple(grid_cells(box_of(geofence))[1]))
    lows: dict[int, float] = {}
    highs: dict[int, float] = {}
    for lane, low, high in spans:
        if low != high:
            lows[lane] = max(low, lows.get(lane, -inf))
            highs[lane] = min(high, highs.get(lane, inf))
    rungs: list[tuple[Place, ...]] = []
    for lane, low in lows.items():
        high = highs[lane]
        if low <= high and isfinite(high - low):
            level = frexp(high - low)[1]
            first, last = _interval_cell(low, level), _interval_cell(high, level)
            if first is not None and last is not None:
                ways.append(tuple((lane, level, cell) for cell in range(first, last + 1)))
        elif low > -inf:
            rungs.append((Rung(lane, True, low),))
        elif high < inf:
            rungs.append((Rung(lane, False, high),))
    if attributes:
        ways.append(tuple(dict.fromkeys(attributes)))
    return ways + rungs


def _interval_cell(value: float, level: int) -> int | None:
    try:
        return floor(ldexp(value, -level))
    except OverflowError:  # infinite, or so far out that no interval of this level reaches it
        return None


def _lane_level(place: Place) -> tuple[int | None, int] | None:
    if isinstance(place, int):
        return None, place >> _LEVEL_SHIFT
    return (place[0], place[1]) if isinstance(place, tuple) and len(place) == 3 else None


def _discard(bucket: array[int], row: int) -> None:
    if len(bucket) < _SCAN_MIN:
        bucket.remove(row)
        return
    index = int((np.frombuffer(bucket, np.int32) == row).argmax())
    last = bucket.pop()
    if last != row:
        bucket[index] = last


class Ladder:
    """Rows sorted by threshold. New ones wait unsorted, removed ones leave a dead row, and both are worked in by and by."""

    __slots__ = ("_dead", "_rows", "_thresholds", "_waiting", "_waiting_thresholds")

    def __init__(self) -> None:
        self._thresholds: NDArray[np.float64] = np.empty(0)
        self._rows: NDArray[np.int32] = np.empty(0, np.int32)
        self._waiting: list[int] = []
        self._waiting_thresholds: list[float] = []
        self._dead = 0

    def __len__(self) -> int:
        return len(self._rows) - self._dead + len(self._waiting)

    def add(self, threshold: float, row: int) -> None:
        self._waiting.append(row)
        self._waiting_thresholds.append(threshold)
        if len(self._waiting) > 64 + len(self._rows) // 512:
            self._work_in()

    def remove(self, threshold: float, row: int) -> None:
        if row in self._waiting:
            index = self._waiting.index(row)
            del self._waiting[index], self._waiting_thresholds[index]
            return
        low, high = np.searchsorted(self._thresholds, (threshold, np.nextafter(threshold, inf))).tolist()
        self._rows[low + int((self._rows[low:high] == row).argmax())] = DEAD_ROW
        self._dead += 1
        if self._dead > 64 + len(self._rows) // 4:
            self._work_in()

    def upto(self, value: float) -> list[NDArray[np.int32]]:
        parts = [self._rows[: int(self._thresholds.searchsorted(value, "right"))]]
        if self._waiting:
            parts.append(np.array(self._waiting, np.int32))
        return parts

    def _work_in(self) -> None:
        alive = self._rows != DEAD_ROW
        thresholds = np.concatenate((self._thresholds[alive], np.array(self._waiting_thresholds)))
        rows = np.concatenate((self._rows[alive], np.array(self._waiting, np.int32)))
        order = thresholds.argsort(kind="stable")
        self._thresholds, self._rows = thresholds[order], rows[order]
        self._waiting.clear()
        self._waiting_thresholds.clear()
        self._dead = 0
