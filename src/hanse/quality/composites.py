"""Composite criteria: one number for several, by a named rule (QoCIM's composite indicators).

Parts may have different units and directions. Each is first scored from 0 (the worst that its definition allows) to 1 (the
best), the rule makes one score of them, and that is read on the composite's own scale. Minimum, maximum and weighted average are
the ways to put dimensions of quality together in Pipino, Lee, Wang, "Data quality assessment", CACM 45(4), 2002.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import fsum, prod
from typing import Final, TypeAlias

from hanse.quality.criteria import Criterion, Registry

Rule: TypeAlias = Callable[[Sequence[float], Sequence[float]], float]  # scores and weights, both at least one


def _mean(scores: Sequence[float], _weights: Sequence[float]) -> float:
    return fsum(scores) / len(scores)


def _weighted_mean(scores: Sequence[float], weights: Sequence[float]) -> float:
    return fsum(score * weight for score, weight in zip(scores, weights, strict=True)) / fsum(weights)


def _geometric_mean(scores: Sequence[float], _weights: Sequence[float]) -> float:
    return float(prod(scores) ** (1 / len(scores)))


RULE_FUNCTIONS: Final[dict[str, Rule]] = {
    "minimum": lambda scores, _: min(scores),  # as good as the worst part
    "maximum": lambda scores, _: max(scores),  # as good as the best part
    "mean": _mean,
    "weighted mean": _weighted_mean,
    "geometric mean": _geometric_mean,  # one bad part weighs more than in the mean
    "product": lambda scores, _: float(prod(scores)),  # parts as probabilities that are independent
}


def composed(criterion: Criterion, values: Mapping[str, float], registry: Registry) -> float | None:
    """The value of a composite criterion, from plain values by name; None if one of its parts is missing."""
    scores: list[float] = []
    for part in criterion.parts:
        value = values.get(part)
        score = None if value is None else registry.by_name[part].definition.score(value)
        if score is None:
            return None
        scores.append(score)
    return criterion.definition.scored(min(1.0, max(0.0, RULE_FUNCTIONS[criterion.rule](scores, criterion.weights))))


def with_composites(values: Mapping[str, float], registry: Registry) -> dict[str, float]:
    """The values, and those of the composite criteria that are not among them and can be computed."""
    found = dict(values)
    for criterion in registry.composites:
        if criterion.name not in found:
            value = composed(criterion, found, registry)
            if value is not None:
                found[criterion.name] = value
    return found
