"""What a filter says, as values: terms joined by AND and OR, in one canonical form.

Every comparison is the same statement, `some value at this path lies in one of these intervals`, or its negation: `a==5` is
the interval [5, 5], `a>5` is the interval above 5, `a==1..5` is [1, 5], and a list of values is a list of intervals. So there
is one kind of comparison to compile, to print and to test, not eight. Only patterns and existence stand beside it.

The canonical text reads back as the same filter. It is what filters are compared by, so AND and OR are flat, sorted and free
of duplicates.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, TypeAlias

from msgspec import Struct

from hanse.filters.paths import Path, renamed_path
from hanse.filters.values import Kind  # noqa: TC001  msgspec may resolve it
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


class Exists(Struct, frozen=True):
    path: Path
    depth: int = 0

    @property
    def text(self) -> str:
        return self.path.text


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


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def renamed(node: Node, rename: Rename) -> Node:
    """The same filter on other names of the attributes and sub-attributes; names in brackets stay."""
    if isinstance(node, Joined):
        return join(node.sign, [renamed(part, rename) for part in node.parts])
    path = renamed_path(node.path, rename)
    if isinstance(node, Exists):
        return Exists(path)
    if isinstance(node, Within):
        return Within(path, node.negated, node.intervals)
    return Pattern(path, node.negated, node.pattern)
