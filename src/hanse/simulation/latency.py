"""How long a message takes from one broker to another."""

from __future__ import annotations

from math import asin, ceil, degrees, radians, sqrt
from typing import TYPE_CHECKING, TypeAlias

from hanse.model import EARTH_RADIUS_KM, Location, half_chord_squared

if TYPE_CHECKING:
    from hanse.routing import Federation

MS_PER_KM = 0.021048134571484346  # the DisGB authors' constant, from measured internet routes
CLIENT_HOP_MS = 5

Latencies: TypeAlias = dict[str, dict[str, int]]  # from, to: milliseconds


def distance_km(a: Location, b: Location) -> float:
    return radians(degrees(2 * asin(min(1.0, sqrt(half_chord_squared(a.lat, a.lon, b.lat, b.lon)))))) * EARTH_RADIUS_KM


def by_distance(federation: Federation) -> Latencies:
    """One way, for linked brokers: great-circle kilometres times a constant, rounded up; at least one millisecond."""
    nodes = federation.by_id
    return {
        node: {other: max(1, ceil(distance_km(nodes[node].location, nodes[other].location) * MS_PER_KM)) for other in others}
        for node, others in federation.neighbours.items()
    }
