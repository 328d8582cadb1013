"""Terms to closures: all choices are made while compiling, so that an event meets nothing but comparisons.

A test asks of one value whether it lies in an interval, of the kind that the interval has; a predicate asks of all values at
a path whether some does (or, negated, that there are some and none does).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import inf, nextafter
from typing import Any, Protocol, TypeAlias

from hanse.filters.paths import Getter
from hanse.filters.patterns import pattern_search
from hanse.filters.terms import Exists, Interval, Joined, Node, Pattern, Within
from hanse.filters.values import number_value, temporal_value

Predicate: TypeAlias = Callable[[Mapping[str, Any]], bool]
Test: TypeAlias = Callable[[Any], bool]


class GetterOf(Protocol):
    """From a path to what finds its values; without `links`, those of relationships are none."""

    def __call__(self, path: str, /, *, links: bool = True) -> Getter: ...


def predicate(node: Node, getter_of: GetterOf) -> Predicate:
    if isinstance(node, Joined):
        parts = [predicate(part, getter_of) for part in node.parts]
        return all_of(parts) if node.sign == ";" else _any_of(parts)
    if isinstance(node, Pattern) or (isinstance(node, Within) and node.orders_texts):
        getter_of = partial(getter_of, links=False)
    get = getter_of(node.path.text)
    if isinstance(node, Exists):
        return (lambda attributes: not get(attributes)) if node.negated else (lambda attributes: bool(get(attributes)))
    if isinstance(node, Within):
        return _quantified(get, _interval_test(node.intervals), negated=node.negated)
    return _quantified(get, _pattern_test(node.pattern), negated=node.negated)


def all_of(parts: list[Predicate]) -> Predicate:
    if not parts:
        return lambda _attributes: True
    if len(parts) == 1:
        return parts[0]
    if len(parts) == 2:
        first, second = parts
        return lambda attributes: first(attributes) and second(attributes)

    def check(attributes: Mapping[str, Any]) -> bool:
        for part in parts:  # noqa: SIM110  a generator would cost more than the tests
            if not part(attributes):
                return False
        return True

    return check


def _any_of(parts: list[Predicate]) -> Predicate:
    def check(attributes: Mapping[str, Any]) -> bool:
        for part in parts:  # noqa: SIM110
            if part(attributes):
                return True
        return False

    return check


def _quantified(get: Getter, test: Test, *, negated: bool) -> Predicate:
    if not negated:

        def some(attributes: Mapping[str, Any]) -> bool:
            for value in get(attributes):  # noqa: SIM110
                if test(value):
                    return True
            return False

        return some

    def none(attributes: Mapping[str, Any]) -> bool:
        values = get(attributes)
        for value in values:
            if test(value):
                return False
        return bool(values)

    return none


def number_bounds(interval: Interval) -> tuple[float, float]:
    """The closed interval of doubles that an interval of numbers is."""
    low = -inf if interval.low is None else float(interval.low.key)
    high = inf if interval.high is None else float(interval.high.key)
    if interval.is_open:
        low = low if interval.low is None else nextafter(low, inf)
        high = high if interval.high is None else nextafter(high, -inf)
    return low, high


def _interval_test(intervals: tuple[Interval, ...]) -> Test:
    texts = frozenset(i.low.key for i in intervals if i.kind == "text" and i.low is not None and i.low == i.high)
    if len(texts) == len(intervals):
        return lambda value: isinstance(value, str) and value in texts
    tests = [_TESTS[interval.kind](interval) for interval in intervals]
    if len(tests) == 1:
        return tests[0]

    def check(value: Any) -> bool:
        for test in tests:  # noqa: SIM110
            if test(value):
                return True
        return False

    return check


def _number_test(interval: Interval) -> Test:
    low, high = number_bounds(interval)

    def check(value: Any) -> bool:
        if value.__class__ is not float:
            value = number_value(value)
            if value is None:
                return False
        return low <= value <= high  # type: ignore[no-any-return]

    return check


def _text_test(interval: Interval) -> Test:
    inside = _between(interval)
    return lambda value: isinstance(value, str) and inside(value)


def _temporal_test(interval: Interval) -> Test:
    kind, inside = interval.kind, _between(interval)

    def check(value: Any) -> bool:
        if not isinstance(value, str):
            return False
        moment = temporal_value(value)
        return moment is not None and moment[0] == kind and inside(moment[1])

    return check


def _boolean_test(interval: Interval) -> Test:
    assert interval.low is not None
    wanted = interval.low.key
    return lambda value: value is wanted


_TESTS: dict[str, Callable[[Interval], Test]] = {
    "number": _number_test,
    "text": _text_test,
    "instant": _temporal_test,
    "time": _temporal_test,
    "boolean": _boolean_test,
}


def _between(interval: Interval) -> Test:
    low: Any = interval.low and interval.low.key
    high: Any = interval.high and interval.high.key
    if interval.high is None:
        return (lambda key: key > low) if interval.is_open else (lambda key: key >= low)
    if interval.low is None:
        return (lambda key: key < high) if interval.is_open else (lambda key: key <= high)
    return lambda key: low <= key <= high


def _pattern_test(pattern: str) -> Test:
    found = pattern_search(pattern)
    return lambda value: isinstance(value, str) and found(value)
