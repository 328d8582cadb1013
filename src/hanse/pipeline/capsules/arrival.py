"""Arrival: when a vehicle will be at a stop, from where it has been in the window.

Its speed is how far it got (from its first to its last position) in the time between; the way that is left is the distance to
the stop times `detour`, as streets are not straight. A stop is spoken of only if the vehicle comes nearer to it. Who stands
still (slower than `slow`, in m/s) arrives nowhere, unless it is there already (within `near` metres).

**Quality.** `correctness`: how straight the vehicle went, as the distance that it got in percent of the way that it made: the
estimate takes the future to be like that, and one that turns about is as likely wrong. Of others the worst of the positions.
`completeness`: positions there, of those expected. Freshness: the oldest position of the window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from math import asin, sqrt
from typing import ClassVar, Final

from msgspec import Struct

from hanse.model import InvalidInput, Location
from hanse.model.geofence import EARTH_RADIUS_KM, half_chord_squared
from hanse.pipeline.capsules.gathering import Gathering
from hanse.pipeline.capsules.propagation import completeness_of, worst_of
from hanse.pipeline.capsules.values import Inferred, Reading, Span, Value

ARRIVAL: Final = "estimatedArrival"
REMAINING: Final = "remainingTime"
STOP: Final = "stop"
SECONDS: Final = "SEC"


class Stop(Struct, frozen=True):
    id: str
    lat: float
    lon: float


class Arrival(Gathering, frozen=True, kw_only=True):
    category: ClassVar[str] = "inference"

    stops: tuple[Stop, ...]
    detour: float = 1.3  # the usual ratio of ways in cities to straight lines
    slow: float = 0.5
    near: float = 30.0
    expected: int | None = None

    def __post_init__(self) -> None:
        if not self.stops:
            raise InvalidInput("arrival needs stops: each with id, lat and lon")

    def infer(self, readings: Sequence[Reading], span: Span) -> Iterator[Inferred]:  # noqa: ARG002
        fixes = {one.observed_at: (one.lat, one.lon) for one in readings if one.lat is not None and one.lon is not None}
        times = sorted(fixes)
        if len(times) < 2:
            return
        way = [Location(*fixes[time]) for time in times]
        path = sum(_metres(one, other) for one, other in pairwise(way))
        got = _metres(way[0], way[-1])
        speed = got / (times[-1] - times[0])
        quality = worst_of(readings) | completeness_of(readings, len(times), self.expected)
        if path > 0:
            quality["correctness"] = quality.get("correctness", 100.0) * got / path
        for stop in self.stops:
            before, left = (_metres(one, Location(stop.lat, stop.lon)) for one in (way[0], way[-1]))
            if left > self.near and (speed < self.slow or left >= before):
                continue
            seconds = 0.0 if left <= self.near else left * self.detour / speed
            at = datetime.fromtimestamp(times[-1] + seconds, UTC)
            values = (
                Value(REMAINING, seconds, SECONDS, quality),
                Value(ARRIVAL, f"{at:%Y-%m-%dT%H:%M:%SZ}", "", quality),
                Value(STOP, stop.id, "", quality),
            )
            yield Inferred(values, times[0], way[-1].lat, way[-1].lon, about=stop.id)


def _metres(one: Location, other: Location) -> float:
    return 2000 * EARTH_RADIUS_KM * asin(sqrt(min(1.0, half_chord_squared(one.lat, one.lon, other.lat, other.lon))))
