"""Anomaly: values that are far from the others of their window, by a statistic that outliers do not move.

The modified z-score of Iglewicz and Hoaglin ("How to detect and handle outliers", ASQC 1993): 0.6745 (x - median) / MAD, where
MAD is the median of the distances from the median; above 3.5 a value is an anomaly. If more than half of the values are the
same (MAD is 0), the mean distance takes its place: (x - median) / (1.2533 mean distance). The value of the window with the
greatest score is the one that is told; of several, the newest.

**Quality** of the score: the worst of all values that it is computed from; of the value itself: its own. `completeness`:
values there, of those expected. Freshness: the oldest value of the window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import fsum
from statistics import median
from typing import ClassVar, Final

from hanse.pipeline.capsules.gathering import Gathering
from hanse.pipeline.capsules.propagation import completeness_of, worst_of
from hanse.pipeline.capsules.values import Inferred, Reading, Span, Value

READINGS_MIN: Final = 5  # below, a median says little
LIMIT: Final = 3.5
_MAD: Final = 0.6745  # makes the median distance that of a normal distribution's standard deviation
_MEAN: Final = 1.253314


class Outliers(Gathering, frozen=True, kw_only=True):
    category: ClassVar[str] = "inference"
    is_of_numbers: ClassVar[bool] = True

    limit: float = LIMIT
    expected: int | None = None
    is_anomalies_only: bool = True  # windows without any say nothing

    def infer(self, readings: Sequence[Reading], span: Span) -> Iterator[Inferred]:  # noqa: ARG002
        for attribute in sorted({one.attribute for one in readings}):
            every = [one for one in readings if one.attribute == attribute and one.value is not None]
            if len(every) < READINGS_MIN:
                continue
            scores = robust_scores([one.value or 0.0 for one in every])
            score, worst = max(zip(scores, every, strict=True), key=lambda pair: (abs(pair[0]), pair[1].observed_at))
            is_anomalous = abs(score) > self.limit
            if self.is_anomalies_only and not is_anomalous:
                continue
            quality = worst_of(every) | completeness_of(every, len(every), self.expected)
            values = (
                Value(attribute, worst.value or 0.0, worst.unit or "", worst.quality),
                Value("anomalyScore", score, "", quality),
                Value("isAnomalous", is_anomalous, "", quality),
                Value("anomalyOf", worst.entity, "", quality),
            )
            yield Inferred(values, min(one.observed_at for one in every), worst.lat, worst.lon, about=attribute)


def robust_scores(values: Sequence[float]) -> list[float]:
    """The modified z-score of each; all 0 if all are the same."""
    middle = median(values)
    distances = [abs(value - middle) for value in values]
    mad = median(distances)
    if mad > 0:
        return [_MAD * (value - middle) / mad for value in values]
    mean = fsum(distances) / len(distances)
    return [(value - middle) / (_MEAN * mean) if mean > 0 else 0.0 for value in values]
