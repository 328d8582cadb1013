"""Occupancy: how many people are at a place, from the numbers of devices that its WiFi access points hear.

The mean count of each access point in the window, all of them added up, divided by `devices_per_person` (count people once to
know it); the share of `capacity`, and in words: low, medium or high, from `medium` and `high` percent on.

**Quality.** Percentages: their mean, each access point counting as many as it hears (a bound, as for sums in
`hanse.pipeline.capsules.propagation`); `accuracy` besides: times the accuracy of the calibration (`calibrated`), because the
number of devices says no more of people than that. `completeness`: access points heard, of those expected. Freshness: the
oldest count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import fsum
from typing import ClassVar, Final

from hanse.model import InvalidInput
from hanse.pipeline.capsules.gathering import Gathering, position_of
from hanse.pipeline.capsules.propagation import completeness_of, mean_of, scaled
from hanse.pipeline.capsules.values import Inferred, Reading, Span, Value

PEOPLE: Final = "peopleCount"
OCCUPANCY: Final = "occupancy"
LEVEL: Final = "occupancyLevel"
PERCENT: Final = "P1"
ACCURACY: Final = "accuracy"


class Occupancy(Gathering, frozen=True, kw_only=True):
    category: ClassVar[str] = "inference"
    is_of_numbers: ClassVar[bool] = True

    devices_per_person: float = 1.0
    capacity: float | None = None
    medium: float = 40.0
    high: float = 75.0
    calibrated: float = 80.0  # percent
    expected: int | None = None  # access points of each place

    def __post_init__(self) -> None:
        if self.devices_per_person <= 0 or (self.capacity is not None and self.capacity <= 0):
            raise InvalidInput("devices_per_person and capacity are numbers above 0")
        if not 0 <= self.calibrated <= 100:
            raise InvalidInput(f"calibrated is the accuracy of the calibration in percent, not {self.calibrated}")

    def infer(self, readings: Sequence[Reading], span: Span) -> Iterator[Inferred]:  # noqa: ARG002
        counts = [one for one in readings if one.value is not None and one.value >= 0]
        if not counts:
            return
        means = {}
        for entity in sorted({one.entity for one in counts}):
            heard = [one.value or 0.0 for one in counts if one.entity == entity]
            means[entity] = fsum(heard) / len(heard)
        people = fsum(means.values()) / self.devices_per_person
        # a count's share of the result: its own, divided by how many counts of its access point the mean is of
        shares = [(one.value or 0.0) / sum(1 for other in counts if other.entity == one.entity) for one in counts]
        quality = mean_of(counts, shares) | completeness_of(counts, len(means), self.expected)
        quality = scaled(quality, ACCURACY, self.calibrated)
        values = [Value(PEOPLE, people, "", quality)]
        if self.capacity is not None:
            share = 100.0 * people / self.capacity
            level = "high" if share >= self.high else "medium" if share >= self.medium else "low"
            values += [Value(OCCUPANCY, share, PERCENT, quality), Value(LEVEL, level, "", quality)]
        lat, lon = position_of(counts)
        yield Inferred(tuple(values), min(one.observed_at for one in counts), lat, lon)
