"""The NGSI-LD scope query language (clause 4.19): `/Madrid/+/ParqueNorte;/CompanyA/#`.

A scope is a path of levels. `+` stands for one level, `#` at the end for the scope before it and everything below; without either
a scope means exactly itself. `;` is AND (each by some scope of the entity), `,` and `|` are OR.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Final, TypeAlias

from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.selection import normal_form

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_LEVELS: Final = 64

ScopeQuery: TypeAlias = tuple[tuple[str, ...], ...]  # any of these, each of which is: all of these patterns
Levels: TypeAlias = tuple[str, ...]

_LEVEL = re.compile(r"[\w.:%@~-]+|\+|#")


@lru_cache(maxsize=1024)
def parse_scope_query(text: str) -> ScopeQuery:
    """As alternatives of conjunctions of patterns, each written with its leading slash. Raises BadRequestData."""
    return normal_form(text, _checked, "scope")


def scope_matches(scope_q: str, scopes: Iterable[str]) -> bool:
    """Whether an entity in these scopes is selected; the empty query selects all."""
    return not scope_q or _predicate(scope_q)(scopes)


@lru_cache(maxsize=1024)
def _predicate(scope_q: str) -> Callable[[Iterable[str]], bool]:
    alternatives = [[_levels(pattern) for pattern in alternative] for alternative in parse_scope_query(scope_q)]

    def check(scopes: Iterable[str]) -> bool:
        paths = [_levels(scope) for scope in scopes]
        return any(
            all(any(levels_match(pattern, path) for path in paths) for pattern in alternative) for alternative in alternatives
        )

    return check


def scope_keys(scope_q: str) -> tuple[str, ...]:
    """Of these, every entity that is selected has at least one among its `scope_prefixes`; none: an index cannot help."""
    keys: dict[str, None] = {}
    for alternative in parse_scope_query(scope_q):
        key = max(map(_literal, alternative), key=len)
        if not key:
            return ()
        keys[_joined(key)] = None
    return tuple(keys)


def scope_prefixes(scopes: Iterable[str]) -> list[str]:
    """The scopes and all that they lie in."""
    paths = map(_levels, scopes)
    return [_joined(path[:length]) for path in paths for length in range(1, len(path) + 1)]


def _literal(pattern: str) -> Levels:
    """The levels before the first that may be any."""
    return tuple(takewhile(lambda level: level not in ("+", "#"), _levels(pattern)))


def _joined(levels: Levels) -> str:
    return "/" + "/".join(levels)


def pattern_matches(pattern: str, scope: str) -> bool:
    return levels_match(_levels(pattern), _levels(scope))


def levels_match(pattern: Levels, scope: Levels) -> bool:
    if pattern[-1:] == ("#",):
        pattern = pattern[:-1]
        if len(scope) < len(pattern) or not scope:
            return False
    elif len(scope) != len(pattern):
        return False
    return all(wanted in ("+", level) for wanted, level in zip(pattern, scope, strict=False))


def _levels(scope: str) -> Levels:
    path = scope.strip("/")
    return tuple(path.split("/")) if path else ()


def _checked(pattern: str) -> str:
    levels = pattern.removeprefix("/").removesuffix("/").split("/")
    if len(levels) > MAX_LEVELS:
        raise BadRequestData(f"the scope {pattern[:60]!r} has more than {MAX_LEVELS} levels")
    for level in levels:
        if not _LEVEL.fullmatch(level):
            raise BadRequestData(
                f"{pattern[:60]!r} is not a scope; write it like /Madrid/Gardens, with '+' for any level and '/#' at the end"
            )
    if "#" in levels[:-1]:
        raise BadRequestData(f"in the scope {pattern[:60]!r} '#' stands for everything below, so nothing may follow it")
    return "/" + "/".join(levels)
