"""How a large partition comes from an event to the rows that may match: one way in for each row, chosen when the row comes.

Nearly everything is a **bucket**, a list of row numbers behind a hash key that the event can work out too: the value of an
equality; the cell of a grid that a geofence or a bounded interval lies in (at the level where it covers few cells); an attribute
that must be carried; news that must be told; or nothing at all, the bucket that every event looks at. Half-open intervals have no
cell. They stand on ladders (see `ladder`).

A subscription often has several of these. It goes where an event is least likely to look, taking it that events are spread as
subscriptions are: the chance of a bucket is its share of all rows in buckets of the same kind. Kinds that hold little yet are
thought to be telling until they show otherwise, so each is tried, and few rows are filed badly for it. Thus ten thousand
subscriptions to `status=="open"` in ten thousand places are filed by place, and those in one place by what else they ask.

A bucket may hold rows that do not match, never miss one that does; the columns decide. A row may come up twice if an event has
several of the values or attributes that it waits for.
"""

from __future__ import annotations

from array import array
from math import floor, frexp, inf, isfinite, ldexp
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from hanse.matching.ladder import Ladder, Rungs, Side
from hanse.matching.sphere import box_of, cells_at, grid_cells, level_of
from hanse.model import Circle, Polygon

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hanse.matching.event import Event, Readings
    from hanse.model import Subscription

_SCAN_MIN = 256  # a longer bucket is searched by numpy
_CELLS_MAX = 64  # an event whose values on a lane span more cells looks at all of the lane
_TRIAL_ROWS = 1024  # a kind of bucket is judged as if it held this many other rows
_LADDER_CHANCE = 0.4
_LADDERS_MAX = 16  # when there are more, new ones have one side only


class Span(NamedTuple):
    """An atom of a row: an interval on a lane."""

    lane: int
    low: float
    high: float


# a grid cell; equality; interval cell; attribute carried; news told; rungs of a ladder; nothing
Place: TypeAlias = int | tuple[int, float] | tuple[int, int, int] | str | tuple[str] | Rungs | None
Kind: TypeAlias = tuple[int | None, int | None]  # lane, or none for geofences; level, or none for equality
_CARRIED: Kind = (None, None)
_ALWAYS: Kind = (-1, None)
_TOLD: Kind = (-2, None)


class Access:
    def __init__(self) -> None:
        self._buckets: dict[Place, array[int]] = {}
        self._filed: dict[Kind, int] = {}  # rows in buckets, by kind
        self._levels: dict[int | None, set[int]] = {}  # those in use, of intervals by lane and of geofences
        self._ladders: dict[tuple[Side, ...], Ladder] = {}
        self._ladders_on: dict[int, dict[tuple[Side, ...], Ladder]] = {}  # by the lane of their first side

    def add(self, row: int, spans: Sequence[Span], subscription: Subscription) -> tuple[Place, ...]:
        """Where the row was filed: give it back to `remove`."""
        places = self._choose(spans, subscription)
        first = places[0]
        if isinstance(first, Rungs):
            ladder = self._ladders.get(first.sides)
            if ladder is None:
                ladder = self._ladders[first.sides] = Ladder(len(first.sides))
                self._ladders_on.setdefault(first.sides[0].lane, {})[first.sides] = ladder
            ladder.add(row, first.thresholds)
            return places
        for place in places:
            bucket = self._buckets.get(place)
            if bucket is None:
                bucket = self._buckets[place] = array("i")
            bucket.append(row)
        kind = _kind(first)
        count = self._filed.get(kind, 0)
        self._filed[kind] = count + 1
        lane, level = kind
        if not count and level is not None:
            self._levels.setdefault(lane, set()).add(level)
        return places

    def remove(self, row: int, places: tuple[Place, ...]) -> None:
        first = places[0]
        if isinstance(first, Rungs):
            ladder = self._ladders[first.sides]
            ladder.remove(row, first.thresholds)
            if not len(ladder):
                del self._ladders[first.sides]
                on_lane = self._ladders_on[first.sides[0].lane]
                del on_lane[first.sides]
                if not on_lane:
                    del self._ladders_on[first.sides[0].lane]
            return
        for place in places:
            bucket = self._buckets[place]
            _discard(bucket, row)
            if not bucket:
                del self._buckets[place]
        kind = _kind(first)
        self._filed[kind] -= 1
        if self._filed[kind]:
            return
        del self._filed[kind]
        lane, level = kind
        if level is not None:
            self._levels[lane].discard(level)
            if not self._levels[lane]:
                del self._levels[lane]

    def _choose(self, spans: Sequence[Span], subscription: Subscription) -> tuple[Place, ...]:
        best: tuple[Place, ...] = (None,)
        least = 1.0
        buckets = self._buckets
        for places in _ways(spans, subscription):
            rows = len(places)
            for place in places:
                bucket = buckets.get(place)
                if bucket is not None:
                    rows += len(bucket)
            chance = rows / (self._filed.get(_kind(places[0]), 0) + _TRIAL_ROWS)
            if chance < least:
                best, least = places, chance
        if least > _LADDER_CHANCE:
            sides = 2 if len(self._ladders) < _LADDERS_MAX else 1
            return _rungs(spans, sides) or best
        return best

    def candidates(self, event: Event, readings: Readings) -> NDArray[np.int32]:
        parts: list[NDArray[np.int32]] = []
        keys: list[Place] = [None]
        if event.place is not None and None in self._levels:
            keys += cells_at(event.lat, event.lon, self._levels[None])
        if _CARRIED in self._filed:
            keys += event.notification.attributes
        if _TOLD in self._filed:
            keys += [(name,) for name in event.notification.news]
        ranges: dict[int, tuple[float, float]] = {}
        for lane, values in readings.values.items():
            keys += [(lane, value) for value in values]
            # several values may satisfy the two bounds of an interval together, so what counts is the range they span
            ranges[lane] = (values[0], values[0]) if len(values) == 1 else (min(values), max(values))
            for level in self._levels.get(lane, ()):
                keys += self._interval_cells(lane, level, *ranges[lane])
        for first in ranges:
            for sides, ladder in self._ladders_on.get(first, {}).items():
                if all(lane in ranges for lane, _ in sides):
                    parts += ladder.upto([ranges[lane][1] if rises else -ranges[lane][0] for lane, rises in sides])
        for key in keys:
            bucket = self._buckets.get(key)
            if bucket is not None:
                parts.append(np.frombuffer(bucket, np.int32))
        if not parts:
            return np.empty(0, np.int32)
        return np.concatenate(parts)  # a copy: buckets can only grow while no array looks at them

    def _interval_cells(self, lane: int, level: int, least: float, greatest: float) -> list[Place]:
        first, last = _interval_cell(least, level), _interval_cell(greatest, level)
        if first is None and least == greatest:
            return []
        if first is not None and last is not None and last - first < _CELLS_MAX:
            return [(lane, level, cell) for cell in range(first, last + 1)]
        return [place for place in self._buckets if _kind(place) == (lane, level)]


def _ways(spans: Sequence[Span], subscription: Subscription) -> list[tuple[Place, ...]]:
    """All buckets that a row can be filed under, the most telling first."""
    ways: list[tuple[Place, ...]] = [((lane, low),) for lane, low, high in spans if low == high]
    geofence = subscription.geofence
    if isinstance(geofence, Circle | Polygon):
        ways.append(tuple(grid_cells(box_of(geofence))))
    for lane, (low, high) in _intervals(spans).items():
        if low <= high and isfinite(high - low):
            level = frexp(high - low)[1]
            first, last = _interval_cell(low, level), _interval_cell(high, level)
            if first is not None and last is not None:
                ways.append(tuple((lane, level, cell) for cell in range(first, last + 1)))
    if subscription.attributes:
        ways.append(tuple(dict.fromkeys(subscription.attributes)))
    if subscription.news:
        ways.append(tuple((name,) for name in dict.fromkeys(subscription.news)))
    return ways


def _rungs(spans: Sequence[Span], sides_max: int) -> tuple[Rungs] | None:
    rungs: dict[Side, float] = {}
    for lane, (low, high) in _intervals(spans).items():
        if low > -inf:
            rungs[Side(lane, rises=True)] = low
        if high < inf:
            rungs[Side(lane, rises=False)] = -high
    chosen = sorted(rungs.items())[:sides_max]
    return (Rungs(tuple(side for side, _ in chosen), tuple(threshold for _, threshold in chosen)),) if chosen else None


def _intervals(spans: Sequence[Span]) -> dict[int, tuple[float, float]]:
    """The bounds on each lane that has no equality, taken together."""
    intervals: dict[int, tuple[float, float]] = {}
    for lane, low, high in spans:
        if low != high:
            other_low, other_high = intervals.get(lane, (-inf, inf))
            intervals[lane] = max(low, other_low), min(high, other_high)
    return intervals


def _interval_cell(value: float, level: int) -> int | None:
    try:
        return floor(ldexp(value, -level))
    except OverflowError:  # infinite, or so far out that no interval of this level reaches it
        return None


def _kind(place: Place) -> Kind:
    if isinstance(place, int):
        return None, level_of(place)
    if isinstance(place, tuple):
        if len(place) == 1:
            return _TOLD
        return (place[0], place[1]) if len(place) == 3 else (place[0], None)  # type: ignore[return-value]
    return _CARRIED if isinstance(place, str) else _ALWAYS


def _discard(bucket: array[int], row: int) -> None:
    if len(bucket) < _SCAN_MIN:
        bucket.remove(row)
        return
    index = int((np.frombuffer(bucket, np.int32) == row).argmax())
    last = bucket.pop()
    if last != row:
        bucket[index] = last
