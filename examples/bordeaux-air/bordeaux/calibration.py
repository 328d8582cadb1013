"""Calibration: what a low-cost sensor's readings mean, learned beside the analyser.

A metal-oxide sensor answers to several gases, to the temperature and to humidity. So a gas is estimated by ordinary least
squares: the analyser's value as a constant and a weighted sum of the channels, over the hours of a window that have them all.
Such a calibration is as good as its window: sensors drift (De Vito et al., Sensors and Actuators B 129(2), 2008).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from math import fsum, sqrt
from typing import Final

import numpy as np
from msgspec import Struct

from bordeaux.measurements import Gas, Row
from hanse.model import InvalidInput
from hanse.quality import computed

PAIRS_MIN: Final = 100  # hours with both, for a calibration


class Calibration(Struct, frozen=True):
    """How a gas follows from the channels; `span` is the range of the reference, and `precision` what the window says of it."""

    gas: str
    channels: tuple[str, ...]
    constant: float
    weights: tuple[float, ...]
    pairs: int
    span: float
    precision: float | None

    def estimate(self, values: Mapping[str, float]) -> float | None:
        """The concentration; None if a channel is missing. A straight line may go below nothing, air does not."""
        return _estimate(self.constant, self.weights, self.channels, values)


def pairs_of(rows: Iterable[Row], gas: Gas, channels: tuple[str, ...]) -> list[Row]:
    """The rows that a calibration can learn from."""
    wanted = {gas.reference, *channels}
    return [row for row in rows if wanted <= row.values.keys()]


def calibrate(rows: Iterable[Row], gas: Gas, channels: tuple[str, ...]) -> Calibration:
    """Learn a gas from the rows of a window."""
    pairs = pairs_of(rows, gas, channels)
    if len(pairs) < PAIRS_MIN:
        raise InvalidInput(f"{gas.name} has {len(pairs)} hours with sensor and reference in the window; {PAIRS_MIN} are needed")
    readings = np.array([[row.values[channel] for channel in channels] for row in pairs])
    reference = np.array([row.values[gas.reference] for row in pairs])
    span = float(np.ptp(reference))
    if span == 0:
        raise InvalidInput(f"the reference of {gas.name} is the same in all hours of the window; nothing can be learned from it")
    mean = readings.mean(axis=0)  # taken out for the arithmetic's sake only
    weights = np.linalg.lstsq(readings - mean, reference - reference.mean(), rcond=None)[0]
    constant = float(reference.mean() - mean @ weights)
    found = tuple(map(float, weights))
    estimates = [(row.values[gas.reference], _estimate(constant, found, channels, row.values) or 0.0) for row in pairs]
    return Calibration(gas.name, channels, constant, found, len(pairs), span, repeatability(estimates, span))


def repeatability(estimates: Iterable[tuple[float, float]], span: float) -> float | None:
    """Precision from pairs of reference and estimate: how alike the estimates are while the reference reads the same.

    The hours with the same reading are repeated measurements of the same thing. Their deviations from the mean of their group
    are pooled, each group taking one degree of freedom (ISO 5725-2). None if nothing was measured twice.
    """
    groups: defaultdict[float, list[float]] = defaultdict(list)
    for reference, estimate in estimates:
        groups[reference].append(estimate)
    repeated = [group for group in groups.values() if len(group) > 1]
    deviations = [value - fsum(group) / len(group) for group in repeated for value in group]
    if not deviations:
        return None
    freedom = len(deviations) - len(repeated)
    scale = sqrt((len(deviations) - 1) / freedom)
    return computed.precision([scale * deviation for deviation in deviations], span)


def _estimate(
    constant: float, weights: tuple[float, ...], channels: tuple[str, ...], values: Mapping[str, float]
) -> float | None:
    if not values.keys() >= set(channels):
        return None
    return max(0.0, fsum((constant, *(weight * values[channel] for weight, channel in zip(weights, channels, strict=True)))))
