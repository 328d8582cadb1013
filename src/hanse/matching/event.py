"""A notification as the index sees it, and the lanes on which its values run.

A **lane** is one thing that many subscriptions compare: a path in the attributes, an indicator of quality, or an indicator in an
XML payload, taken as a number, as a text, or as present. An atom of a filter is then an interval on a lane. An event has on each
lane its least and its greatest value, NaN where it has none, so that one comparison of arrays tests any number of atoms. With one
value on the lane that is exact; with several (an attribute that is a list) it is necessary, and rows that pass are looked at
again.

Texts get codes, those that some subscription mentions; any other text is the code -1, which equals none.
"""

from __future__ import annotations

from collections import Counter
from math import cos, nan, radians
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from hanse.filters import flat_getter, number_value, path_getter, text_value
from hanse.filters.paths import Getter, parse_path
from hanse.filters.xpath import indicator_values, lane_shape, xpath_number
from hanse.matching.entry import NO_TEST, Test
from hanse.matching.interned import Interned
from hanse.matching.sphere import Vector, unit_vector
from hanse.model import document_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hanse.filters import Atom
    from hanse.model import Location, Notification

PRESENT = 0.0  # the value on a lane of existence
NO_TEST_CODE = 0


Source: TypeAlias = Literal["attributes", "quality", "xml"]


class Lane(NamedTuple):
    source: Source
    path: str
    kind: str


ALWAYS = Lane("attributes", "", "")  # where rows put the atoms they do not have


class Vocabulary:
    """What the columns of all partitions of one index speak of by number."""

    def __init__(self) -> None:
        self.lanes: Interned[Lane] = Interned(ALWAYS)
        self.texts: Interned[str] = Interned()
        self.tests: Interned[Test] = Interned(NO_TEST)
        # lanes by what an event must carry to have a value on them, so that an event never looks at the others
        self.readers: dict[tuple[Source, str], dict[int, tuple[Getter, str]]] = {}
        self.xml_shapes: Counter[str] = Counter()  # of the lanes that are read from XML

    def acquire_lane(self, atom: Atom, source: Source) -> int:
        lane = Lane(source, atom.path, atom.kind)
        code = self.lanes.acquire(lane)
        readers = self.readers.setdefault(_root(lane), {})
        if code not in readers:
            readers[code] = _getter(lane), atom.kind
            if source == "xml":
                self.xml_shapes[lane_shape(atom.path)] += 1
        return code

    def release_lane(self, code: int) -> None:
        lane = self.lanes.release(code)
        if lane is None:
            return
        readers = self.readers[_root(lane)]
        del readers[code]
        if not readers:
            del self.readers[_root(lane)]
        if lane.source == "xml":
            shape = lane_shape(lane.path)
            self.xml_shapes[shape] -= 1
            if not self.xml_shapes[shape]:
                del self.xml_shapes[shape]


def _root(lane: Lane) -> tuple[Source, str]:
    return lane.source, parse_path(lane.path).names[0] if lane.source == "attributes" else lane.path


def _getter(lane: Lane) -> Getter:
    if lane.source == "attributes":
        return path_getter(lane.path)
    if lane.source == "quality":
        return flat_getter(lane.path)
    path = lane.path
    if lane.kind == "exists":
        return lambda found: [PRESENT] if path in found else []
    if lane.kind == "text":
        return lambda found: found[path]
    return lambda found: [xpath_number(text) for text in found[path]]


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
        self._read_all("attributes", notification.attributes, vocabulary)
        self._read_all("quality", notification.quality, vocabulary)
        if vocabulary.xml_shapes:
            document = document_of(notification)
            if document is not None:
                self._read_all("xml", indicator_values(document, vocabulary.xml_shapes), vocabulary)
        if self.several:
            self.greatest = self.least.copy()
            for lane in self.several:
                self.greatest[lane] = max(self.values[lane])

    def _read_all(self, source: Source, mapping: Mapping[str, Any], vocabulary: Vocabulary) -> None:
        for name in mapping:
            for lane, (getter, kind) in vocabulary.readers.get((source, name), {}).items():
                self._read(lane, kind, getter(mapping), vocabulary)

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
