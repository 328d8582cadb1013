"""The experiment of the DisGB paper (its section V): three brokers, 1,200 clients each, 15 minutes, and what was counted.

The authors' brokers were responsible for circles, not for all that is nearest to them. Table II counts the geofences that touch
another one's circle.
"""

from __future__ import annotations

from itertools import combinations
from typing import Final

from msgspec import Struct

from hanse.model import Circle, Location
from hanse.routing.federation import Federation, Node, both_ways

EXPERIMENT_CLIENTS: Final = 3600
EXPERIMENT_DURATION_S: Final = 900
EXPERIMENT_CIRCLES: Final = {
    "Columbus": Circle(39.961332, -82.999083, 5.0),
    "Frankfurt": Circle(50.106732, 8.663124, 2.1),
    "Paris": Circle(48.877366, 2.359708, 2.1),
}


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


def circles_for(federation: Federation) -> dict[str, Circle]:
    """The circles that the clients of the experiment's brokers keep to; clients of other nodes have all of their area."""
    return {
        node.id: circle
        for node in federation.nodes
        if (circle := EXPERIMENT_CIRCLES.get(node.id)) is not None and node.location == Location(circle.lat, circle.lon)
    }
