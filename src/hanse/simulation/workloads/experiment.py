"""The experiment of the DisGB paper (its section V): three brokers, 1,200 clients each, 15 minutes, and what was counted.

The authors' brokers were responsible for circles, not for all that is nearest to them, and table II counts the geofences that
touch another one's circle. With `field_deg=None`, clients keep to these very circles. With fields of 6 degrees, the border
between Paris and Frankfurt is a meridian instead, which more geofences touch; so clients then keep a gap from it that gives
about as many overlaps.
"""

from __future__ import annotations

from itertools import combinations
from typing import Final

from msgspec import Struct

from hanse.model import Circle, Location
from hanse.routing.federation import Federation, Node, both_ways
from hanse.simulation.workloads.positions import FIELD_DEG

EXPERIMENT_CLIENTS: Final = 3600
EXPERIMENT_DURATION_S: Final = 900
EXPERIMENT_CIRCLES: Final = {
    "Columbus": Circle(39.961332, -82.999083, 5.0),
    "Frankfurt": Circle(50.106732, 8.663124, 2.1),
    "Paris": Circle(48.877366, 2.359708, 2.1),
}
BORDER_DEG: Final = {"Frankfurt": 1.708, "Paris": 2.394}  # how far the border of the fields, 6 degrees east, is from each
GAP_DEG: Final = {"environmental": 0.27, "hiking": 0.12, "context": 0.17}


class Counts(Struct, frozen=True):
    """A column of table II; None where there is no geofence to overlap with anything."""

    location_updates: int
    subscription_updates: int
    events: int
    subscription_overlaps: int | None
    event_overlaps: int | None


TABLE_II: Final = {
    "environmental": Counts(7_200, 75_168, 216_029, 1_225, None),
    "hiking": Counts(193_709, 128_008, 111_811, 502, 623),
    "context": Counts(69_236, 5_544, 62_675, None, 222),
}


def experiment_federation() -> Federation:
    clients = EXPERIMENT_CLIENTS // len(EXPERIMENT_CIRCLES)
    nodes = tuple(Node(name, Location(circle.lat, circle.lon), clients=clients) for name, circle in EXPERIMENT_CIRCLES.items())
    return Federation(nodes, both_ways(list(combinations(EXPERIMENT_CIRCLES, 2))))


def circles_for(federation: Federation, workload: str, field_deg: float | None) -> dict[str, Circle]:
    """The circles that the clients of the experiment's brokers keep to; clients of other nodes have all of their area."""
    circles = {}
    for node in federation.nodes:
        circle = EXPERIMENT_CIRCLES.get(node.id)
        if circle is None or node.location != Location(circle.lat, circle.lon):
            continue
        if field_deg == FIELD_DEG and node.id in BORDER_DEG:
            circle = Circle(circle.lat, circle.lon, BORDER_DEG[node.id] - GAP_DEG[workload])
        circles[node.id] = circle
    return circles
