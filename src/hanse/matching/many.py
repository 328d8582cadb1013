"""A partition with many subscriptions: columns, tested for all candidates at once.

A row is a subscription. It has the atoms of its filters as intervals on lanes (see `event`), its geofence as a cap (see
`sphere`), and by number its client and the test that only Python can do. `Access` names the candidates; then each step leaves
fewer of them, and every step is exact, so that what is left is the answer:

1. the publisher lies in the subscription's cap, which is quickly asked and leaves few where rows were found by place;
2. atoms: the event's value on the lane lies in the interval;
3. where the cap is too coarse to tell, the publisher lies in the geofence itself;
4. the subscriber lies in the event's geofence: by its cap and, where that cannot tell, by itself;
5. tests, each distinct one once.

There are as many columns of atoms as some row needs, up to `ATOMS_MAX`; a filter with more is tested by Python too.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from hanse.filters import compile_q, compile_quality, compile_xpath
from hanse.matching.access import Access, Place, Span
from hanse.matching.entry import NO_TEST, Conjunction, Test
from hanse.matching.event import NO_TEST_CODE, PRESENT, Event, Readings, Vocabulary
from hanse.matching.ladder import DEAD_ROW
from hanse.matching.outline import UNKNOWN, outline, outlines_hold
from hanse.matching.sphere import cap_of, inside_polygon
from hanse.model import Polygon, World

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hanse.filters import Atom, XPathFilter
    from hanse.matching.clients import Clients
    from hanse.matching.entry import Predicate
    from hanse.matching.event import Source
    from hanse.model import Geofence, Selector, Subscription

Rows: TypeAlias = "NDArray[np.int32]"
Item = TypeVar("Item", bound=np.generic)

ATOMS_MAX = 4
_ROWS_MIN = 64
_DEAD_CAP = (0.0, 0.0, 0.0, inf, inf)
NO_SPAN = Span(0, -inf, inf)  # always holds
_SPAN = np.dtype([("lane", np.intp), ("low", np.float64), ("high", np.float64)])


class Many:
    def __init__(self, vocabulary: Vocabulary, clients: Clients) -> None:
        self._vocabulary = vocabulary
        self._clients = clients
        self._access = Access()
        self._row_of: dict[str, int] = {}
        self._subscriptions: list[Any] = [None]  # None where a row is dead, and then nobody asks
        self._places: list[tuple[Place, ...]] = [()]
        self._outlines: list[bytes] = [UNKNOWN]
        self._free: list[int] = []
        self._atoms: list[NDArray[np.void]] = []  # the first atom of each row, then the second ...
        self._caps: NDArray[np.float64] = np.zeros((_ROWS_MIN, 5))
        self._client_codes: NDArray[np.int32] = np.zeros(_ROWS_MIN, np.int32)
        self._test_codes: NDArray[np.int32] = np.zeros(_ROWS_MIN, np.int32)
        self._caps[DEAD_ROW] = _DEAD_CAP

    def __len__(self) -> int:
        return len(self._row_of)

    def subscriptions(self) -> list[Subscription]:
        return [subscription for subscription in self._subscriptions if subscription is not None]

    def add(self, subscription: Subscription, selectors: tuple[Selector, ...]) -> None:
        if subscription.id in self._row_of:
            self.remove(subscription.id)
        row = self._new_row(subscription)
        spans, test = self._compile(subscription, selectors)
        while len(self._atoms) < len(spans):
            self._atoms.append(np.full(len(self._caps), np.array(NO_SPAN, _SPAN)))
        for i, atoms in enumerate(self._atoms):
            atoms[row] = spans[i] if i < len(spans) else NO_SPAN
        fence = subscription.geofence
        self._caps[row] = cap_of(fence)
        self._outlines[row] = outline(fence)
        self._client_codes[row] = self._clients.acquire(subscription.client)
        self._test_codes[row] = self._vocabulary.tests.acquire(test)
        self._places[row] = self._access.add(row, spans, subscription)

    def _new_row(self, subscription: Subscription) -> int:
        if self._free:
            row = self._free.pop()
            self._subscriptions[row] = subscription
        else:
            row = len(self._subscriptions)
            self._subscriptions.append(subscription)
            self._places.append(())
            self._outlines.append(UNKNOWN)
            if row >= len(self._caps):
                self._grow(row + row // 2)
        self._row_of[subscription.id] = row
        return row

    def _grow(self, size: int) -> None:
        self._atoms = [_grown(atoms, size) for atoms in self._atoms]
        self._caps = _grown(self._caps, size)
        self._client_codes = _grown(self._client_codes, size)
        self._test_codes = _grown(self._test_codes, size)

    def _compile(self, subscription: Subscription, selectors: tuple[Selector, ...]) -> tuple[list[Span], Test]:
        """The atoms that fit into the columns, and a test of all the rest."""
        spans: list[Span] = []
        left: list[tuple[str, Predicate | None]] = []
        sources: tuple[tuple[Source, str], ...] = (("attributes", subscription.q), ("quality", subscription.quality))
        for source, text in sources:
            if not text:
                left.append(("", None))
                continue
            compiled = compile_quality(text) if source == "quality" else compile_q(text)
            atoms = sorted(compiled.atoms, key=_is_range)[: ATOMS_MAX - len(spans)]  # equalities first: they leave fewest
            spans += [self._span(atom, source) for atom in atoms]
            if len(atoms) == len(compiled.atoms):
                left.append((compiled.residual_key, compiled.residual))
            else:
                left.append((f"; {compiled.canonical}", Conjunction(compiled)))  # no residual begins so
        (q_key, q), (quality_key, quality) = left
        xpath = self._left_of_xpath(subscription.xpath, spans) if subscription.xpath else ()
        attributes, news = subscription.attributes, subscription.news
        if not (selectors or attributes or news or q or quality or xpath):
            return spans, NO_TEST
        return spans, Test(selectors, attributes, q_key, quality_key, q, quality, news, xpath)

    def _left_of_xpath(self, constraints: tuple[str, ...], spans: list[Span]) -> tuple[XPathFilter, ...]:
        """The constraints that no atom says, or for whose atom there is no column left; the others go to the spans."""
        left: list[XPathFilter] = []
        for compiled in dict.fromkeys(map(compile_xpath, constraints)):
            if compiled.atom is not None and len(spans) < ATOMS_MAX:
                spans.append(self._span(compiled.atom, "xml"))
            else:
                left.append(compiled)
        return tuple(left)

    def _span(self, atom: Atom, source: Source) -> Span:
        lane = self._vocabulary.acquire_lane(atom, source)
        if isinstance(atom.low, str):
            code = float(self._vocabulary.texts.acquire(atom.low))
            return Span(lane, code, code)
        if atom.low is None or atom.high is None or isinstance(atom.high, str):
            return Span(lane, PRESENT, PRESENT)
        return Span(lane, atom.low, atom.high)

    def remove(self, subscription_id: str) -> None:
        row = self._row_of.pop(subscription_id)
        self._access.remove(row, self._places[row])
        for atoms in self._atoms:
            code, low, _ = atoms[row].item()
            if code:
                lane = self._vocabulary.lanes.things[code]
                if lane is not None and lane.kind == "text":
                    self._vocabulary.texts.release(int(low))
                self._vocabulary.release_lane(code)
        self._clients.release(int(self._client_codes[row]))
        self._vocabulary.tests.release(int(self._test_codes[row]))
        self._subscriptions[row] = None
        self._places[row] = ()
        self._outlines[row] = UNKNOWN
        self._caps[row] = _DEAD_CAP
        self._free.append(row)

    def match(self, event: Event) -> list[Subscription]:
        readings = event.readings(self._vocabulary)
        rows, all_sure = self._around_publisher(self._access.candidates(event, readings), event)
        rows = self._satisfying_atoms(rows, readings)
        if len(rows) and not all_sure:
            rows = self._surely_around_publisher(rows, event)
        if len(rows) and not isinstance(event.notification.geofence, World):
            rows = self._around_subscriber(rows, event.notification.geofence)
        return self._passing_tests(rows, event) if len(rows) else []

    def _around_publisher(self, rows: Rows, event: Event) -> tuple[Rows, bool]:
        """The rows whose caps the publisher may lie in, and whether it surely does in all of them."""
        caps = self._caps.take(rows, axis=0)
        if event.vector is None:
            return rows.compress(caps[:, 4] == -inf), True
        cosines = caps[:, :3] @ event.vector
        kept = cosines >= caps[:, 4]
        return rows.compress(kept), np.count_nonzero(kept) == np.count_nonzero(cosines >= caps[:, 3])

    def _surely_around_publisher(self, rows: Rows, event: Event) -> Rows:
        place = event.place
        assert place is not None
        assert event.vector is not None
        caps = self._caps.take(rows, axis=0)
        kept: NDArray[np.bool_] = caps[:, :3] @ event.vector >= caps[:, 3]
        unsure = rows.compress(~kept).tolist()
        if not unsure:
            return rows
        inside, untold = outlines_hold([self._outlines[row] for row in unsure], place)
        for i in untold:
            inside[i] = self._subscriptions[unsure[i]].geofence.contains(place.lat, place.lon)
        kept[~kept] = inside
        return rows.compress(kept)

    def _satisfying_atoms(self, rows: Rows, readings: Readings) -> Rows:
        for atoms in self._atoms:
            if not len(rows):
                return rows
            spans = atoms.take(rows)
            lanes = spans["lane"]
            least = greatest = readings.least.take(lanes)
            if readings.several:
                greatest = readings.greatest.take(lanes)
            kept = greatest >= spans["low"]
            kept &= least <= spans["high"]
            if readings.several:
                kept[kept] = self._each_held(spans[kept], readings)
            rows = rows.compress(kept)
        return rows

    def _each_held(self, spans: NDArray[np.void], readings: Readings) -> NDArray[np.bool_]:
        """Whether an atom holds for one value on the lane, and not only for the range that several span."""
        held = np.ones(len(spans), np.bool_)
        for lane in readings.several:
            on_lane = spans["lane"] == lane
            asked = spans[on_lane]
            values = np.array(readings.values[lane])[:, None]
            held[on_lane] = ((asked["low"] <= values) & (values <= asked["high"])).any(axis=0)
        return held

    def _around_subscriber(self, rows: Rows, fence: Geofence) -> Rows:
        x, y, z, sure_limit, may_limit = cap_of(fence)
        clients = self._client_codes.take(rows)
        cosines = self._clients.vectors().take(clients, axis=0) @ (x, y, z)
        kept: NDArray[np.bool_] = cosines >= may_limit
        sure = cosines >= sure_limit
        if np.count_nonzero(kept) > np.count_nonzero(sure):
            unsure = kept & ~sure
            places = [self._clients.location(client) for client in clients[unsure].tolist()]
            known = [place for place in places if place is not None]  # all of them: an unknown one is in no cap
            if isinstance(fence, Polygon):
                kept[unsure] = inside_polygon(fence, known)
            else:
                kept[unsure] = [fence.contains(place.lat, place.lon) for place in known]
        return rows.compress(kept)

    def _passing_tests(self, rows: Rows, event: Event) -> list[Subscription]:
        found = rows.tolist()
        tests = self._test_codes.take(rows).tolist()
        codes = set(tests)
        if codes != {NO_TEST_CODE}:
            things, notification = self._vocabulary.tests.things, event.notification
            passed = {code for code in codes if (test := things[code]) is not None and test.passes(notification)}
            found = [row for row, test in zip(found, tests, strict=True) if test in passed]
        subscriptions = self._subscriptions
        # by way of a dictionary, because a candidate may have come up twice
        return [subscriptions[row] for row in dict.fromkeys(found)]


def _is_range(atom: Atom) -> bool:
    return atom.low != atom.high


def _grown(column: NDArray[Item], size: int) -> NDArray[Item]:
    new = np.zeros((size, *column.shape[1:]), column.dtype)
    new[: len(column)] = column
    return new
