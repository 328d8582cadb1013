"""Requirements on quality as users write them, made into what the rest of Hanse takes.

A user names criteria and levels: `NO2.correctness>=medium;freshness<=60`. A level is a word for a range of values, and which
one it is depends on the criterion and on which of its values are better. Brokers know nothing of that: what they see is
`hanse.filters.compile_quality` on numbers, `NO2.correctness>=50;freshness<=60`. `normalized` makes one of the other, once,
where the requirement comes in.

With levels, "at least" always means "at least as good": `freshness>=medium` asks for an age of at most so many seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import inf, nextafter
from typing import Final, TypeAlias

from hanse.filters import compile_quality
from hanse.filters.grammar import parse
from hanse.filters.paths import NAME_PATTERN, Path, parse_path
from hanse.filters.terms import Exists, Interval, Joined, Node, Pattern, Within, join, number, order, value_range
from hanse.filters.terms import Value as FilterValue
from hanse.model.errors import InvalidInput
from hanse.quality.criteria import LEVELS, Definition, Registry
from hanse.quality.keys import attribute_and_criterion, indicator_key

Expand: TypeAlias = Callable[[str], str]

# the grammar of filters wants texts in quotes after < and >; a quoted text is passed over whole
_BARE_LEVEL: Final = re.compile(r'"(?:\\.|[^"\\])*"|([<>]=?)[ \t\r\n]*(low|medium|high)(?!\w)', re.DOTALL)
_WHOLE_NAME: Final = re.compile(NAME_PATTERN)


def normalized(text: str, registry: Registry, expand: Expand | None = None) -> str:
    """The requirement in canonical form, numbers only; names of attributes go through `expand`, if that is given.

    InvalidInput where it names no criterion of the registry, or asks for what cannot be.
    """
    parts = [_normalized(part, registry, expand) for part in _parts(text)]
    if not parts:
        return ""
    canonical = join(";", [node for nodes in parts for node in nodes]).text
    return compile_quality(canonical).canonical


def names(text: str) -> tuple[str, ...]:
    """The indicators that a requirement asks for, each once: `NO2.correctness`, `freshness`."""
    return tuple(sorted({".".join(path.names) for part in _parts(text) for path in _paths(part)}))


def _parts(text: str) -> tuple[Node, ...]:
    node = parse(_BARE_LEVEL.sub(lambda found: f'{found[1]}"{found[2]}"' if found[1] else found[0], text))
    if node is None:
        return ()
    return node.parts if isinstance(node, Joined) and node.sign == ";" else (node,)


def _paths(node: Node) -> list[Path]:
    return [path for part in node.parts for path in _paths(part)] if isinstance(node, Joined) else [node.path]


def _normalized(node: Node, registry: Registry, expand: Expand | None) -> list[Node]:
    if isinstance(node, Joined | Pattern) or node.path.inner or (isinstance(node, Exists) and node.negated):
        compile_quality(node.text)  # says why not
        raise AssertionError(node.text)
    attribute, name = attribute_and_criterion(".".join(node.path.names))
    try:
        definition = registry.criterion(name).definition
    except InvalidInput as error:
        raise InvalidInput(error.message, place=repr(node.text[:60])) from None
    path = _path(attribute, name, expand)
    if isinstance(node, Exists):
        return [Exists(path)]
    kinds = {interval.kind for interval in node.intervals}
    if kinds == {"number"}:
        return [Within(path, node.negated, node.intervals)]
    if kinds != {"text"}:
        raise InvalidInput(f"quality is a number or a level ({', '.join(LEVELS)})", place=repr(node.text[:60]))
    return _at_levels(path, _accepted(node), definition, node.text)


def _path(attribute: str, name: str, expand: Expand | None) -> Path:
    key = indicator_key(expand(attribute) if expand and attribute else attribute, name)
    if _WHOLE_NAME.fullmatch(key):
        path = parse_path(key)
        if path.text == key:
            return path
    raise InvalidInput(f"{key[:60]!r} cannot stand in a requirement; map the attribute to another URI")


def _accepted(node: Within) -> frozenset[str]:
    """The levels that a comparison with levels lets pass."""
    accepted: set[str] = set()
    for interval in node.intervals:
        accepted |= _levels_within(interval, node.text)
    return frozenset(LEVELS) - accepted if node.negated else frozenset(accepted)


def _levels_within(interval: Interval, text: str) -> set[str]:
    low, high = interval.low, interval.high
    for bound in (low, high):
        if bound is not None and bound.key not in LEVELS:
            raise InvalidInput(f"{bound.text[:40]} is no level; use {', '.join(LEVELS)} or a number", place=repr(text[:60]))
    if low is not None and high is not None and low != high:
        raise InvalidInput("levels have no ranges; write >= or <= and one level", place=repr(text[:60]))
    rank = LEVELS.index(str((low or high).key))  # type: ignore[union-attr]
    if high is None:
        return set(LEVELS[rank + interval.is_open :])
    if low is None:
        return set(LEVELS[: rank + (not interval.is_open)])
    return {LEVELS[rank]}


def _at_levels(path: Path, accepted: frozenset[str], definition: Definition, text: str) -> list[Node]:
    if definition.levels is None:
        raise InvalidInput("the criterion has no levels; compare it with a number", place=repr(text[:60]))
    higher = definition.direction == "higher"
    medium, high = _number(definition.levels.medium), _number(definition.levels.high)
    good, bad = (">=", "<") if higher else ("<=", ">")
    if not accepted:
        raise InvalidInput("no level is like that; nothing is below low or above high", place=repr(text[:60]))
    if accepted == set(LEVELS):
        return [Exists(path)]
    if "low" not in accepted:
        least = order(path, good, medium if "medium" in accepted else high)
        return [least] if "high" in accepted else [least, order(path, bad, high)]
    if "high" not in accepted:
        return [order(path, bad, high if "medium" in accepted else medium)]
    # all but medium: outside the closed range of the doubles that are medium
    edge = _number(nextafter(definition.levels.high, -inf if higher else inf))
    around = value_range(path, "!=", medium, edge) if higher else value_range(path, "!=", edge, medium)
    assert around is not None  # medium is worse than high
    return [around]


def _number(value: float) -> FilterValue:
    found = number(repr(value))
    assert found is not None  # a registry has finite numbers
    return found
