"""Fusion: several sensors of one place, each with the weight that its quality earns, are one value.

Of each sensor the newest reading of the window counts, so one that talks much does not outvote the others. The weight of a
reading is its `by` (accuracy, unless another percentage is named): a reading with twice the accuracy counts twice. Who states
none has the weight `unknown` (0: does not count, unless nobody states any; then all count alike).

**Quality.** Percentages: their mean with the same weights, a bound (`hanse.pipeline.capsules.propagation`); others: the worst.
`completeness`: sensors that contributed, of those expected. `consistency`, if a `tolerance` is given: the share of the weights
whose readings are within it. Freshness: the oldest reading that contributed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import fsum
from typing import ClassVar

from hanse.model import InvalidInput
from hanse.pipeline.capsules.gathering import Gathering, newest_by_entity, position_of
from hanse.pipeline.capsules.propagation import completeness_of, is_averaged, mean_of
from hanse.pipeline.capsules.values import Inferred, Reading, Span, Value
from hanse.quality import default_registry


class Fusion(Gathering, frozen=True, kw_only=True):
    category: ClassVar[str] = "fusion"
    is_of_numbers: ClassVar[bool] = True

    by: str = "accuracy"
    expected: int | None = None  # sensors of each place
    unknown: float = 0.0  # the weight, in percent, of a reading that does not state its quality
    tolerance: float | None = None  # in the unit of the readings

    def __post_init__(self) -> None:
        if not is_averaged(default_registry().criterion(self.by).name):
            raise InvalidInput(f"fusion weighs by a percentage such as accuracy or precision, not by {self.by}")

    def infer(self, readings: Sequence[Reading], span: Span) -> Iterator[Inferred]:  # noqa: ARG002
        values, counted = [], []
        for attribute in sorted({one.attribute for one in readings}):
            every = newest_by_entity([one for one in readings if one.attribute == attribute])
            weighed = [(one, self._weight(one)) for one in every]
            if not any(weight > 0 for _, weight in weighed):
                weighed = [(one, 1.0) for one, _ in weighed]
            used = [(one, weight) for one, weight in weighed if weight > 0]
            if used:
                values.append(self._fused(attribute, [one for one, _ in used], [weight for _, weight in used]))
                counted += [one for one, _ in used]
        if values:
            lat, lon = position_of(counted)
            yield Inferred(tuple(values), min(one.observed_at for one in counted), lat, lon)

    def _weight(self, reading: Reading) -> float:
        return reading.quality.get(self.by, self.unknown)

    def _fused(self, attribute: str, readings: list[Reading], weights: list[float]) -> Value:
        total = fsum(weights)
        value = fsum(weight * (one.value or 0.0) for one, weight in zip(readings, weights, strict=True)) / total
        quality = mean_of(readings, weights) | completeness_of(readings, len(readings), self.expected)
        if self.tolerance is not None:
            near = fsum(
                weight for one, weight in zip(readings, weights, strict=True) if abs((one.value or 0.0) - value) <= self.tolerance
            )
            quality["consistency"] = 100.0 * near / total
        units = {one.unit for one in readings}
        return Value(attribute, value, (units.pop() or "") if len(units) == 1 else "", quality)
