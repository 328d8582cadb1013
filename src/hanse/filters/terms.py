"""What a filter says, as values: terms joined by AND and OR, in one canonical form.

Every comparison is the same statement, `some value at this path lies in one of these intervals`, or its negation: `a==5` is
the interval [5, 5], `a>5` is the interval above 5, `a==1..5` is [1, 5], and a list of values is a list of intervals. So there
is one kind of comparison to compile, to print and to test, not eight. Only patterns and existence stand beside it.

The canonical text reads back as the same filter. It is what filters are compared by, so AND and OR are flat, sorted and free
of duplicates.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from math import isfinite
from typing import Final, TypeAlias

from msgspec import Struct

from hanse.filters.paths import Path, renamed_path
from hanse.filters.values import Kind, temporal_value
from hanse.model import InvalidInput

MAX_DEPTH: Final = 32  # AND inside OR inside AND ...

Rename: TypeAlias = Callable[[str], str]


class Value(Struct, frozen=True):
    kind: Kind
    key: float | str | int | bool  # what is compared, within a kind
    text: str


class Interval(Struct, frozen=True):
    """All values of one kind from `low` to `high`, both included unless `is_open`; None is no bound on that side."""

    low: Value | None
    high: Value | None
    is_open: bool = False

    @property
    def kind(self) -> Kind:
        bound = self.low or self.high
        assert bound is not None
        return bound.kind


def number(text: str) -> Value | None:
    """None: it is too large for a double."""
    key = float(text) + 0.0  # -0.0 is 0.0
    return Value("number", key, repr(key).removesuffix(".0")) if isfinite(key) else None


def text_or_moment(text: str) -> Value:
    """A quoted text: a moment if it reads as one, since filters compare those as instants."""
    moment = temporal_value(text)
    return Value(moment[0], moment[1], text) if moment else Value("text", text, quoted(text))


class Exists(Struct, frozen=True):
    path: Path
    negated: bool = False
    depth: int = 0

    @property
    def text(self) -> str:
        return "!" * self.negated + self.path.text


class Within(Struct, frozen=True):
    path: Path
    negated: bool
    intervals: tuple[Interval, ...]
    depth: int = 0

    @property
    def text(self) -> str:
        first = self.intervals[0]
        if first.low is None or first.high is None:
            bound = first.low or first.high
            assert bound is not None
            operator = ("<" if first.low is None else ">") + ("" if first.is_open else "=")
            return f"{self.path.text}{operator}{bound.text}"
        operator = "!=" if self.negated else "=="
        if first.low != first.high:
            return f"{self.path.text}{operator}{first.low.text}..{first.high.text}"
        choices = sorted({interval.low.text for interval in self.intervals if interval.low is not None})
        return f"{self.path.text}{operator}{','.join(choices)}"

    @property
    def orders_texts(self) -> bool:
        """Whether it asks which of two texts is first, which no relationship answers."""
        first = self.intervals[0]
        return first.kind == "text" and (first.low is None or first.high is None)


class Pattern(Struct, frozen=True):
    path: Path
    negated: bool
    pattern: str
    depth: int = 0

    @property
    def text(self) -> str:
        # in a quoted pattern the backslash belongs to the pattern, except before the quote that would end it
        return f'{self.path.text}{"!~=" if self.negated else "~="}"{self.pattern}"'


class Joined(Struct, frozen=True):
    """At least two parts, joined by ';' (AND) or '|' (OR); none of them is joined by the same sign."""

    sign: str
    parts: tuple[Node, ...]
    text: str
    depth: int


Node: TypeAlias = Exists | Within | Pattern | Joined


def order(path: Path, operator: str, value: Value) -> Within:
    is_open = len(operator) == 1
    beyond = Interval(value, None, is_open) if operator[0] == ">" else Interval(None, value, is_open)
    return Within(path, negated=False, intervals=(beyond,))


def equality(path: Path, operator: str, choices: tuple[Value, ...]) -> Within:
    intervals = {choice.text: Interval(choice, choice) for choice in choices}
    return Within(path, operator == "!=", tuple(intervals[text] for text in sorted(intervals)))


def value_range(path: Path, operator: str, low: Value, high: Value) -> Within | None:
    """From one to another value of the same kind; None: it is empty."""
    if low.key > high.key:  # type: ignore[operator]
        return None
    return Within(path, operator == "!=", (Interval(low, high if low.key != high.key else low),))


def join(sign: str, nodes: list[Node]) -> Node:
    parts: dict[str, Node] = {}
    for node in nodes:
        for part in node.parts if isinstance(node, Joined) and node.sign == sign else (node,):
            parts[f"({part.text})" if isinstance(part, Joined) and sign == ";" else part.text] = part
    if len(parts) == 1:
        return next(iter(parts.values()))
    depth = 1 + max(part.depth for part in parts.values())
    if depth > MAX_DEPTH:
        raise InvalidInput(f"the filter nests ';' and '|' more than {MAX_DEPTH} deep; split it into several subscriptions")
    texts = sorted(parts)
    return Joined(sign, tuple(parts[text] for text in texts), sign.join(texts), depth)


quoted: Callable[[str], str] = json.JSONEncoder(ensure_ascii=False).encode


def renamed(node: Node, rename: Rename, rename_sub: Rename | None = None) -> Node:
    """The same filter on other names of the attributes and sub-attributes; names in brackets stay."""
    if isinstance(node, Joined):
        return join(node.sign, [renamed(part, rename, rename_sub) for part in node.parts])
    path = renamed_path(node.path, rename, rename_sub)
    if isinstance(node, Exists):
        return Exists(path, node.negated)
    if isinstance(node, Within):
        return Within(path, node.negated, node.intervals)
    return Pattern(path, node.negated, node.pattern)


def with_texts(node: Node, names: Collection[str], rename: Rename) -> Node:
    """The same filter with the texts that attributes of these names are compared with put through `rename`."""
    if isinstance(node, Joined):
        return join(node.sign, [with_texts(part, names, rename) for part in node.parts])
    if not isinstance(node, Within) or node.path.names[0] not in names:
        return node

    def changed(value: Value | None) -> Value | None:
        return value if value is None or value.kind != "text" else text_or_moment(rename(str(value.key)))

    intervals = tuple(Interval(changed(one.low), changed(one.high), one.is_open) for one in node.intervals)
    return Within(node.path, node.negated, intervals)
