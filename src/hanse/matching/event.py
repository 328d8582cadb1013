"""A notification as the index sees it, and the lanes on which its values run.

A **lane** is one thing that many subscriptions compare: a path in the attributes, or an indicator of quality, taken as a number,
as a text, or as present. An atom of a filter is then an interval on a lane. An event has on each lane its least and its
greatest value, NaN where it has none, so that one comparison of arrays tests any number of atoms. With one value on the lane
that is exact; with several (an attribute that is a list) it is necessary, and rows that pass are looked at again.

Texts get codes, those that some subscription mentions; any other text is the code -1, which equals none.
"""

from __future__ import annotations

from math import cos, nan, radians
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hanse.filters import flat_getter, number_value, path_getter, text_value
from hanse.filters.paths import Getter, parse_path
from hanse.matching.entry import NO_TEST, Test
from hanse.matching.interned import Interned
from hanse.matching.sphere import Vector, unit_vector

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hanse.filters import Atom
    from hanse.model import Location, Notification

PRESENT = 0.0  # the value on a lane of existence
NO_TEST_CODE = 0


class Lane(NamedTuple):
    of_quality: bool
    path: str
    kind: str


ALWAYS = Lane(False, "", "")  # where rows put the atoms they do not have


class Vocabulary:
    """What the columns of all partitions of one index speak of by number."""

    def __init__(self) -> None:
        self.lanes: Interned[Lane] = Interned(ALWAYS)
        self.texts: Interned[str] = Interned()
        self.tests: Interned[Test] = Interned(NO_TEST)
        # lanes by what an event must carry to have a value on them, so that an event never looks at the others
        self.readers: dict[tuple[bool, str], dict[int, tuple[Getter, str]]] = {}

    def acquire_lane(self, atom: Atom, of_quality: bool) -> int:
        lane = Lane(of_quality, atom.path, atom.kind)
        code = self.lanes.acquire(lane)
        readers = self.readers.setdefault(_root(lane), {})
        if code not in readers:
            readers[code] = (flat_getter(atom.path) if of_quality else path_getter(atom.path)), atom.kind
        return code

    def release_lane(self, code: int) -> None:
        lane = self.lanes.release(code)
        if lane is not None:
            readers = self.readers[_root(lane)]
            del readers[code]
            if not readers:
                del self.readers[_root(lane)]


def _root(lane: Lane) -> tuple[bool, str]:
    return lane.of_quality, lane.path if lane.of_quality else parse_path(lane.path).names[0]


class Event:
    """A notification and what has been worked out of it so far. Lanes are read when the first large partition asks."""

    __slots__ = ("_readings", "cos_lat", "lat", "lon", "notification", "place", "vector")

    def __init__(self, notification: Notification, place: Location | None) -> None:
        self.notification = notification
        self.place = place
        self._readings: Readings | None = None
        self.vector: Vector | None = None
        if place is not None:
            self.lat, self.lon = place.lat, place.lon
            self.cos_lat = cos(radians(place.lat))
        else:
            self.lat = self.lon = self.cos_lat = nan

    def readings(self, vocabulary: Vocabulary) -> Readings:
        if self._readings is None:
            self._readings = Readings(self.notification, vocabulary)
            if self.place is not None:
                self.vector = unit_vector(self.lat, self.lon)
        return self._readings


class Readings:
    """The values of an event by lane, texts as their codes: all of them, and the least and the greatest as columns."""

    __slots__ = ("greatest", "least", "several", "values")

    def __init__(self, notification: Notification, vocabulary: Vocabulary) -> None:
        self.values: dict[int, list[float]] = {}
        self.several: list[int] = []
        self.least: NDArray[np.float64] = np.full(len(vocabulary.lanes), nan)
        self.least[0] = 0.0
        self.greatest = self.least
        for of_quality, mapping in ((False, notification.attributes), (True, notification.quality)):
            for name in mapping:
                for lane, (getter, kind) in vocabulary.readers.get((of_quality, name), {}).items():
                    self._read(lane, kind, getter(mapping), vocabulary)
        if self.several:
            self.greatest = self.least.copy()
            for lane in self.several:
                self.greatest[lane] = max(self.values[lane])

    def _read(self, lane: int, kind: str, found: list[object], vocabulary: Vocabulary) -> None:
        codes: list[float]
        if kind == "number":
            codes = [number for value in found if (number := number_value(value)) is not None]
        elif kind == "text":
            find = vocabulary.texts.find
            texts = [text for value in found if (text := text_value(value)) is not None]
            codes = [-1.0 if (code := find(text)) is None else float(code) for text in texts]
        else:
            codes = [PRESENT] if found else []
        if not codes:
            return
        self.values[lane] = codes
        self.least[lane] = codes[0] if len(codes) == 1 else min(codes)
        if len(codes) > 1:
            self.several.append(lane)
