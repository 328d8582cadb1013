"""Which values of one indicator a text on quality allows, as a set that can be cut, turned round and compared.

An indicator has one value, a number or a text. Numbers are doubles, as `filters.values` takes them, so every set of them that a
text can say is a few closed intervals, and `above 5` begins at the next double. Texts are some, or all but some. On these sets
every question has an exact answer: nothing here is sampled, and nothing is guessed.
"""

from __future__ import annotations

from math import inf, nextafter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct

from hanse.filters.closures import number_bounds
from hanse.filters.terms import Exists, Within
from hanse.filters.values import number_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hanse.filters.terms import Node

Intervals: TypeAlias = tuple[tuple[float, float], ...]  # closed, sorted, apart from each other

_ALL_NUMBERS: Final = ((-inf, inf),)


class ValueSet(Struct, frozen=True):
    numbers: Intervals = _ALL_NUMBERS
    texts: frozenset[str] = frozenset()
    is_without: bool = True  # all texts but those, instead of only those

    def __bool__(self) -> bool:
        """Whether there is anything in it."""
        return bool(self.numbers) or self.is_without or bool(self.texts)

    def __and__(self, other: ValueSet) -> ValueSet:
        if self.is_without and other.is_without:
            texts = self.texts | other.texts
        elif self.is_without:
            texts = other.texts - self.texts
        elif other.is_without:
            texts = self.texts - other.texts
        else:
            texts = self.texts & other.texts
        return ValueSet(_common(self.numbers, other.numbers), texts, self.is_without and other.is_without)

    def __invert__(self) -> ValueSet:
        return ValueSet(_gaps(self.numbers), self.texts, not self.is_without)

    def __le__(self, other: ValueSet) -> bool:
        """Whether all of it is in the other one."""
        return not self & ~other

    def __contains__(self, value: Any) -> bool:
        if isinstance(value, str):
            return (value in self.texts) is not self.is_without
        number = number_value(value)
        if number is not None:
            return any(low <= number <= high for low, high in self.numbers)
        # NaN is no value, like None; what is neither number nor text is there, and equals nothing
        return self.is_without and value is not None and not isinstance(value, float)

    @property
    def span(self) -> tuple[float, float] | None:
        """From where to where, if it is one stretch of numbers and nothing else."""
        return self.numbers[0] if len(self.numbers) == 1 and not self.is_without and not self.texts else None


ALL: Final = ValueSet()


def allowed(conjuncts: Iterable[Node]) -> ValueSet:
    """The values with which all of these hold; they are on one indicator, and `compile_quality` has taken them."""
    found = ALL
    for conjunct in conjuncts:
        found &= _allowed_by(conjunct)
    return found


def _allowed_by(conjunct: Node) -> ValueSet:
    if isinstance(conjunct, Exists):
        return ALL
    assert isinstance(conjunct, Within)
    numbers = [number_bounds(one) for one in conjunct.intervals if one.kind == "number"]
    texts = frozenset(str(one.low.key) for one in conjunct.intervals if one.kind == "text" and one.low is not None)
    found = ValueSet(_merged(numbers), texts, is_without=False)
    return ~found if conjunct.negated else found


def _merged(intervals: Iterable[tuple[float, float]]) -> Intervals:
    merged: list[tuple[float, float]] = []
    for low, high in sorted(intervals):
        if merged and low <= nextafter(merged[-1][1], inf):
            merged[-1] = merged[-1][0], max(merged[-1][1], high)
        else:
            merged.append((low, high))
    return tuple(merged)


def _common(some: Intervals, others: Intervals) -> Intervals:
    common: list[tuple[float, float]] = []
    i = j = 0
    while i < len(some) and j < len(others):
        low, high = max(some[i][0], others[j][0]), min(some[i][1], others[j][1])
        if low <= high:
            common.append((low, high))
        if some[i][1] < others[j][1]:
            i += 1
        else:
            j += 1
    return tuple(common)


def _gaps(intervals: Intervals) -> Intervals:
    gaps: list[tuple[float, float]] = []
    start = -inf
    for low, high in intervals:
        if low > start:
            gaps.append((start, nextafter(low, -inf)))
        if high == inf:
            return tuple(gaps)
        start = nextafter(high, inf)
    gaps.append((start, inf))
    return tuple(gaps)
