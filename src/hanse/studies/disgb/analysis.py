"""DisGB, table I: how many rendezvous points (RPs) an action of a client has, by the formula and by counting messages.

Four brokers stand on the equator, so that each is local to a quarter of the earth between two meridians, and one can tell by
looking which areas a geofence touches. The messages are those that the real brokers send for one action.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from hanse.model import Circle, Location, Notification, Selector, Subscription
from hanse.routing import Broker, Federation, Node, Settings
from hanse.routing import messages as m
from hanse.routing.federation import both_ways

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hanse.studies.report import Report

EAST_OF: Final = {"b1": -135.0, "b2": -45.0, "b3": 45.0, "b4": 135.0}  # the middle of each area, which is 90 degrees wide
HOME: Final = "b2"
START: Final = Location(0.0, -45.0)
NEXT: Final = Location(0.0, -44.0)
GEOFENCES: Final = {  # with the areas that each touches, as one sees on a map
    "around home": (Circle(0.0, -45.0, 5.0), frozenset({"b2"})),
    "over the eastern border": (Circle(0.0, -10.0, 15.0), frozenset({"b2", "b3"})),
    "over the western border": (Circle(0.0, -80.0, 15.0), frozenset({"b1", "b2"})),
    "over the pole": (Circle(85.0, -45.0, 10.0), frozenset({"b1", "b2", "b3", "b4"})),
}
SUBSCRIBED: Final = (
    ("around home",),
    ("over the eastern border",),
    ("around home", "over the eastern border", "over the western border"),
    ("over the pole",),
)


class Case(Struct, frozen=True):
    """One action; its RPs by table I, and as counted: the own broker, and each other one that is sent a message to match with."""

    action: str
    what: str
    strategy: str
    symbol: str
    formula: int
    counted: int


def table_1() -> list[Case]:
    return [case for strategy in ("geo-subscriber", "geo-publisher") for case in _cases(strategy)]


def _cases(strategy: str) -> Iterator[Case]:
    at_publisher = strategy == "geo-publisher"
    for names in SUBSCRIBED:
        client = _Client(strategy)
        for name in names:
            client.subscribe(name, GEOFENCES[name][0])
        areas = frozenset[str]().union(*(GEOFENCES[name][1] for name in names))
        symbol, formula = ("|∪Si|", len(areas)) if at_publisher else ("1", 1)
        yield Case("subscriber location update", ", ".join(names), strategy, symbol, formula, 1 + client.locate(NEXT))
    for name, (geofence, areas) in GEOFENCES.items():
        symbol, formula = ("|Si|", len(areas)) if at_publisher else ("1", 1)
        yield Case("subscription update", name, strategy, symbol, formula, 1 + _Client(strategy).subscribe("s", geofence))
    yield Case("publisher location update", "", strategy, "1", 1, 1 + _Client(strategy).locate(NEXT))
    for name, (geofence, areas) in GEOFENCES.items():
        symbol, formula = ("1", 1) if at_publisher else ("|E|", len(areas))
        yield Case("event", name, strategy, symbol, formula, 1 + _Client(strategy).publish(geofence))


def tell(report: Report) -> None:
    cases = table_1()
    rows: dict[tuple[str, str], list[object]] = {}
    for case in cases:
        row = rows.setdefault((case.action, case.what), [case.action, case.what])
        row += [case.symbol, case.formula, case.counted]
    agree = all(case.formula == case.counted for case in cases)
    report.table(
        "Table I: rendezvous points of a client's action",
        ("client action", "geofence", "E formula", "E gives", "E counted", "S formula", "S gives", "S counted"),
        list(rows.values()),
        note="E: RPs at the subscribers (geo-subscriber); S: RPs at the publishers (geo-publisher). Counted: the own broker, and "
        "the others that our broker sends a message to, in a federation of four whose areas meet at known meridians. "
        + ("Formula and count agree in every case." if agree else "Formula and count DISAGREE."),
        key="table_1",
    )
    report.text(
        "Table I, where ours differs",
        """
        The formulas hold for clients in the area of their own broker, with geofences that touch it, as in all scenarios of the
        paper. A geofence that lies wholly elsewhere lets the paper's broker skip its own matching. Ours still looks at its own
        clients, which costs no message: one of them may be away from home.

        A subscription whose geofence has moved on is told to the brokers that it leaves as well, so that an update counts the
        areas of the old and of the new geofence. The authors' simulator does the same.
        """,
    )


class _Client:
    """A client of the home broker, and how many other brokers hear of what it does."""

    def __init__(self, strategy: str) -> None:
        nodes = tuple(Node(name, Location(0.0, lon)) for name, lon in EAST_OF.items())
        federation = Federation(nodes, both_ways(list(combinations(EAST_OF, 2))))
        self.broker = Broker(HOME, Settings(strategy, federation))
        self._sent(m.Attach("c"))
        self.locate(START)

    def _sent(self, request: m.Request) -> int:
        return sum(len(effect.to) for effect in self.broker.handle(request) if isinstance(effect, m.Send))

    def locate(self, location: Location) -> int:
        return self._sent(m.Locate("c", location))

    def subscribe(self, name: str, geofence: Circle) -> int:
        return self._sent(m.Subscribe(Subscription(id=name, client="c", selectors=(Selector(topic="t"),), geofence=geofence)))

    def publish(self, geofence: Circle) -> int:
        return self._sent(m.Publish(Notification(id="e", publisher="c", topic="t", location=START, geofence=geofence)))
