"""A partition with many subscriptions: columns, tested for all candidates at once.

A row is a subscription. It has the atoms of its filters as intervals on lanes (see `event`), its geofence as a cap (see
`sphere`), and by number its client and the test that only Python can do. `Access` names the candidates; then each step leaves
fewer of them, and every step is exact, so that what is left is the answer:

1. atoms: the event's value on the lane lies in the interval;
2. the publisher lies in the subscription's geofence: by chord, and where that is too close to tell, by the geofence;
3. the subscriber lies in the event's geofence: the same with the roles exchanged;
4. tests, each distinct one once.

Columns are as wide as the row with most atoms, up to `ATOMS_MAX`; a filter with more is tested by Python as a whole.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from hanse.matching.access import Access, Place, Span
from hanse.matching.entry import NO_TEST, Test
from hanse.matching.event import PRESENT, Event, Readings, Vocabulary
from hanse.matching.ladder import DEAD_ROW
from hanse.matching.sphere import cap_of, inside_polygons
from hanse.model import Polygon, World

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hanse.filters import Atom
    from hanse.matching.clients import Clients
    from hanse.matching.entry import Entry, Predicate
    from hanse.model import Geofence, Location, Subscription

Rows: TypeAlias = "NDArray[np.int32]"
Number = TypeVar("Number", np.int32, np.float64)

ATOMS_MAX = 4
_ROWS_MIN = 64
_DEAD_CAP = (0.0, 0.0, 0.0, -1.0, -1.0)
_BULK_MIN = 4  # fewer polygons are asked one by one


class Many:
    def __init__(self, vocabulary: Vocabulary, clients: Clients) -> None:
        self._vocabulary = vocabulary
        self._clients = clients
        self._access = Access()
        self._row_of: dict[str, int] = {}
        self._subscriptions: list[Subscription | None] = [None]  # the dead row
        self._places: list[tuple[Place, ...]] = [()]
        self._free: list[int] = []
        self._width = 0
        self._lanes: NDArray[np.int32] = np.zeros((_ROWS_MIN, 0), np.int32)
        self._lows: NDArray[np.float64] = np.zeros((_ROWS_MIN, 0))
        self._highs: NDArray[np.float64] = np.zeros((_ROWS_MIN, 0))
        self._caps: NDArray[np.float64] = np.zeros((_ROWS_MIN, 5))
        self._clients_tests: NDArray[np.int32] = np.zeros((_ROWS_MIN, 2), np.int32)
        self._caps[DEAD_ROW] = _DEAD_CAP

    def __len__(self) -> int:
        return len(self._row_of)

    def subscriptions(self) -> list[Subscription]:
        return [subscription for subscription in self._subscriptions if subscription is not None]

    def add(self, entry: Entry) -> None:
        subscription = entry.subscription
        if subscription.id in self._row_of:
            self.remove(subscription.id)
        row = self._new_row(subscription)
        spans, test = self._compile(entry)
        if len(spans) > self._width:
            self._resize(len(self._lanes), len(spans))
        for column, span in enumerate(spans):
            self._lanes[row, column], self._lows[row, column], self._highs[row, column] = span
        for column in range(len(spans), self._width):
            self._lanes[row, column], self._lows[row, column], self._highs[row, column] = 0, -inf, inf
        self._caps[row] = cap_of(subscription.geofence)
        self._clients_tests[row, 0] = self._clients.acquire(subscription.client)
        self._clients_tests[row, 1] = self._vocabulary.tests.acquire(test)
        self._places[row] = self._access.add(row, spans, subscription.attributes, subscription.geofence)

    def _new_row(self, subscription: Subscription) -> int:
        if self._free:
            row = self._free.pop()
            self._subscriptions[row] = subscription
        else:
            row = len(self._subscriptions)
            self._subscriptions.append(subscription)
            self._places.append(())
            if row >= len(self._lanes):
                self._resize(len(self._lanes) + len(self._lanes) // 2, self._width)
        self._row_of[subscription.id] = row
        return row

    def _resize(self, size: int, width: int) -> None:
        self._lanes = _resized(self._lanes, size, width, 0)
        self._lows = _resized(self._lows, size, width, -inf)
        self._highs = _resized(self._highs, size, width, inf)
        self._caps = _resized(self._caps, size, 5, 0)
        self._clients_tests = _resized(self._clients_tests, size, 2, 0)
        self._width = width

    def _compile(self, entry: Entry) -> tuple[list[Span], Test]:
        """The atoms that fit into the columns, and a test of all the rest."""
        spans: list[Span] = []
        left: list[tuple[str, Predicate | None]] = []
        for of_quality, compiled in ((False, entry.q), (True, entry.quality)):
            if compiled is None:
                left.append(("", None))
            elif len(spans) + len(compiled.atoms) <= ATOMS_MAX:
                spans += [self._span(atom, of_quality) for atom in compiled.atoms]
                left.append((compiled.residual_key, compiled.residual))
            else:
                left.append((f"; {compiled.canonical}", compiled.matches))
        (q_key, q), (quality_key, quality) = left
        attributes = entry.subscription.attributes
        if not (entry.selectors or attributes or q or quality):
            return spans, NO_TEST
        return spans, Test(entry.selectors, attributes, q_key, quality_key, q, quality)

    def _span(self, atom: Atom, of_quality: bool) -> Span:
        lane = self._vocabulary.acquire_lane(atom, of_quality)
        if isinstance(atom.low, str):
            code = float(self._vocabulary.texts.acquire(atom.low))
            return Span(lane, code, code)
        if atom.low is None or atom.high is None or isinstance(atom.high, str):
            return Span(lane, PRESENT, PRESENT)
        return Span(lane, atom.low, atom.high)

    def remove(self, subscription_id: str) -> None:
        row = self._row_of.pop(subscription_id)
        self._access.remove(row, self._places[row])
        for lane, low in zip(self._lanes[row].tolist(), self._lows[row].tolist(), strict=True):
            if lane:
                kind = self._vocabulary.lanes.things[lane]
                if kind is not None and kind.kind == "text":
                    self._vocabulary.texts.release(int(low))
                self._vocabulary.release_lane(lane)
        client, test = self._clients_tests[row].tolist()
        self._clients.release(client)
        self._vocabulary.tests.release(test)
        self._subscriptions[row] = None
        self._places[row] = ()
        self._caps[row] = _DEAD_CAP
        self._free.append(row)

    def match(self, event: Event) -> list[Subscription]:
        readings = event.readings(self._vocabulary)
        rows = self._access.candidates(event, readings)
        if len(rows) and self._width:
            rows = self._satisfying_atoms(rows, readings)
        if len(rows):
            rows = self._around_publisher(rows, event)
        if len(rows) and not isinstance(event.notification.geofence, World):
            rows = self._around_subscriber(rows, event.notification.geofence)
        return self._passing_tests(rows, event) if len(rows) else []

    def _satisfying_atoms(self, rows: Rows, readings: Readings) -> Rows:
        lanes = self._lanes.take(rows, axis=0)
        held = readings.greatest.take(lanes) >= self._lows.take(rows, axis=0)
        held &= readings.least.take(lanes) <= self._highs.take(rows, axis=0)
        kept = held[:, 0] if self._width == 1 else held.all(axis=1)
        rows = rows[kept]
        if readings.several and len(rows):
            unsure = np.any(np.isin(self._lanes.take(rows, axis=0), readings.several), axis=1)
            sure = np.logical_not(unsure)
            sure[unsure] = [self._holds(row, readings) for row in rows[unsure].tolist()]
            rows = rows[sure]
        return rows

    def _holds(self, row: int, readings: Readings) -> bool:
        """Whether each atom has a value of its own, for an event that has several on a lane."""
        atoms = zip(self._lanes[row].tolist(), self._lows[row].tolist(), self._highs[row].tolist(), strict=True)
        return all(not lane or any(low <= value <= high for value in readings.values[lane]) for lane, low, high in atoms)

    def _around_publisher(self, rows: Rows, event: Event) -> Rows:
        caps = self._caps.take(rows, axis=0)
        if event.vector is None or event.place is None:
            everywhere: NDArray[np.bool_] = caps[:, 4] == inf
            return rows[everywhere]
        offsets = caps[:, :3] - event.vector
        chords: NDArray[np.float64] = np.einsum("ij,ij->i", offsets, offsets)
        kept = chords <= caps[:, 4]
        unsure = kept & (chords > caps[:, 3])
        if unsure.any():
            fences = [self._subscription(row).geofence for row in rows[unsure].tolist()]
            kept[unsure] = _inside(fences, [event.place] * len(fences))
        return rows[kept]

    def _around_subscriber(self, rows: Rows, fence: Geofence) -> Rows:
        x, y, z, sure, may = cap_of(fence)
        clients = self._clients_tests[rows, 0]
        offsets = self._clients.vectors().take(clients, axis=0) - (x, y, z)
        chords: NDArray[np.float64] = np.einsum("ij,ij->i", offsets, offsets)
        kept = chords <= may
        unsure = kept & (chords > sure)
        if unsure.any():
            places = [self._clients.location(client) for client in clients[unsure].tolist()]
            known = [place for place in places if place is not None]  # all of them: an unknown one is in no cap
            kept[unsure] = _inside([fence] * len(known), known)
        return rows[kept]

    def _passing_tests(self, rows: Rows, event: Event) -> list[Subscription]:
        tests = self._clients_tests[rows, 1].tolist()
        things, notification = self._vocabulary.tests.things, event.notification
        passed = {code for code in set(tests) if (test := things[code]) is not None and test.passes(notification)}
        # by way of a dictionary, because a candidate may have come up twice
        found = dict.fromkeys(row for row, test in zip(rows.tolist(), tests, strict=True) if test in passed)
        return [self._subscription(row) for row in found]

    def _subscription(self, row: int) -> Subscription:
        subscription = self._subscriptions[row]
        assert subscription is not None
        return subscription


def _resized(column: NDArray[Number], size: int, width: int, fill: float) -> NDArray[Number]:
    new = np.full((size, width), fill, column.dtype)
    new[: len(column), : column.shape[1]] = column
    return new


def _inside(fences: list[Geofence], places: list[Location]) -> list[bool]:
    polygons = [fence for fence in fences if isinstance(fence, Polygon)]
    if len(polygons) < max(_BULK_MIN, len(fences)):
        return [fence.contains(place.lat, place.lon) for fence, place in zip(fences, places, strict=True)]
    answer: list[bool] = inside_polygons(polygons, places).tolist()
    return answer
