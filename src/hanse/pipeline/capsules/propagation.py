"""How quality comes through a capsule: what is known of a result from what is known of the contributions.

Rules that all capsules share, and that `tests/pipeline/test_capsules.py` holds them to:

- **Only what all of them state.** If one contribution does not say how accurate it is, nobody knows how accurate the result
  is.
- **Weighted mean** (`mean_of`): for results that are (weighted) means. It is a bound, not a guess: the deviation of a mean
  from the mean of the references is at most the mean of the deviations, and so is the spread of a mean (triangle inequality).
  So the accuracy and the precision of the result are at least the weighted mean of those of the contributions.
- **Worst** (`worst_of`): for results that may rest on a single contribution (least, greatest, median, a level).
- **Sum** (`mean_of` with the values as weights): a share of a sum counts as much as it contributes.
- What is better when lower (metres, seconds) and what counts values (refreshRate) comes through as the worst, always.
- **completeness** of a result: the share of the expected contributions that were there, times the least completeness that one
  of them states (which is taken to be complete where it states nothing).
- **freshness**: the oldest contribution; see `hanse.pipeline.capsules.values`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import fsum
from typing import Final

from hanse.pipeline.capsules.values import FRESHNESS, Reading
from hanse.quality import default_registry

COMPLETENESS: Final = "completeness"
PERCENT: Final = "P1"  # the unit of those that can be averaged
OWN: Final = frozenset({FRESHNESS, COMPLETENESS})  # have rules of their own


def stated_by_all(readings: Sequence[Reading]) -> list[str]:
    """The criteria that every one of them states, in order."""
    if not readings:
        return []
    common = frozenset.intersection(*(frozenset(one.quality) for one in readings))
    return sorted((common & default_registry().by_name.keys()) - OWN)


def is_averaged(criterion: str) -> bool:
    """Whether a mean of values has the mean of this; percentages do."""
    definition = default_registry().by_name[criterion].definition
    return definition.direction == "higher" and definition.unit_code == PERCENT


def mean_of(readings: Sequence[Reading], weights: Sequence[float]) -> dict[str, float]:
    """Of a weighted mean, or of a sum."""
    total = fsum(weights)
    if total <= 0:
        return worst_of(readings)
    found = worst_of(readings)
    for name in found:
        if is_averaged(name):
            found[name] = fsum(one.quality[name] * weight for one, weight in zip(readings, weights, strict=True)) / total
    return found


def worst_of(readings: Sequence[Reading]) -> dict[str, float]:
    registry = default_registry()
    return {
        name: reduce(registry.by_name[name].definition.worse, (one.quality[name] for one in readings))
        for name in stated_by_all(readings)
    }


def completeness_of(readings: Sequence[Reading], present: int, expected: int | None) -> dict[str, float]:
    """Nothing where nobody says what is expected and no contribution states its own."""
    stated = [one.quality[COMPLETENESS] for one in readings if COMPLETENESS in one.quality]
    if expected is None and not stated:
        return {}
    share = 1.0 if expected is None else min(1.0, present / expected)
    return {COMPLETENESS: min(stated, default=100.0) * share}


def scaled(quality: Mapping[str, float], criterion: str, percent: float) -> dict[str, float]:
    """With a criterion that is, at most, so good: of an estimate that is itself so accurate."""
    return {**quality, criterion: quality.get(criterion, 100.0) * percent / 100.0}
