"""Filters, compiled: what an index can hold as numbers and texts, and a predicate for the rest.

A subscription's filter is mostly a conjunction of simple comparisons. Those become atoms, which an index keeps in sorted arrays
and answers for all subscriptions at once; what is left, the residual, is a closure that is asked only where the atoms hold,
and once per event for all filters with the same `residual_key`. The split never changes the meaning: `matches` is `all atoms
hold and the residual does`. Atoms on one path stay apart, because an array satisfies `a>5;a<3` with two different elements.

Meaning of the comparisons. A path that does not exist satisfies no term, not even != or !~=; only `!path` asks for that. On
several values (arrays, instances, languages) ==, ordering and ~= hold if they do for some value; != and !~= hold if the target
exists and no value is equal or matches. Values of another kind than the filter's are unequal, unordered and unmatched. Patterns
are searched for, unanchored. Text is ordered by code points. What a relationship leads to is equal or unequal, but neither
ordered nor matched.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from hanse.filters.closures import GetterOf, Predicate, all_of, number_bounds, predicate
from hanse.filters.grammar import parse
from hanse.filters.paths import Path, flat_getter, path_getter
from hanse.filters.terms import Exists, Joined, Node, Pattern, Rename, Within, join, renamed
from hanse.filters.values import number_value
from hanse.model import InvalidInput

COMPILED_CACHE_SIZE: Final = 4096

Language: TypeAlias = Literal["q", "quality"]
_GETTERS: Final[dict[Language, GetterOf]] = {"q": path_getter, "quality": flat_getter}


class Atom(Struct, frozen=True):
    """One conjunct that an index can hold: some value at `path`, of kind `kind`, lies in [low, high]."""

    path: str
    kind: Literal["number", "text", "exists"]
    low: float | str | None = None
    high: float | str | None = None

    def holds(self, values: list[Any]) -> bool:
        """Whether it does for what `values_at(attributes, path)` gave."""
        if self.kind == "exists":
            return bool(values)
        if self.kind == "text":
            return any(isinstance(value, str) and value == self.low for value in values)
        numbers = [number for number in map(number_value, values) if number is not None]
        return any(self.low <= number <= self.high for number in numbers)  # type: ignore[operator]


class Filter(Struct, frozen=True, eq=False, kw_only=True, dict=True):
    """A compiled filter. Equal, and equally hashed, if it says the same in canonical form; pickles as its text."""

    text: str
    canonical: str
    language: Language
    atoms: tuple[Atom, ...]
    residual: Predicate | None  # None: the atoms say it all
    residual_key: str
    conjuncts: tuple[Node, ...]

    @cached_property
    def matches(self) -> Predicate:
        """Made when first asked for: an index lives on the atoms and the residual."""
        return all_of([predicate(part, _GETTERS[self.language]) for part in self.conjuncts])

    @cached_property
    def paths(self) -> frozenset[Path]:
        """All paths that it asks for."""
        return frozenset(path for part in self.conjuncts for path in _paths(part))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and self.canonical == other.canonical and self.language == other.language

    def __hash__(self) -> int:
        return hash((self.language, self.canonical))

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return compile_q if self.language == "q" else compile_quality, (self.text,)

    def __repr__(self) -> str:
        return f"Filter({self.text!r})"


@lru_cache(maxsize=COMPILED_CACHE_SIZE)
def compile_q(text: str) -> Filter:
    """The NGSI-LD query `text`; the empty one matches everything. Raises InvalidInput."""
    return _compiled(text, "q", parse(text))


@lru_cache(maxsize=COMPILED_CACHE_SIZE)
def compile_quality(text: str) -> Filter:
    """A requirement on quality, `temperature.precision>=40;freshness<=60`, for mappings from whole indicator names to values.

    A conjunction of comparisons with numbers or text levels, and of names that must be present. An atom's path is the key of
    the mapping, dots included.
    """
    node = parse(text)
    for part in _conjuncts(node):
        _check_quality(part)
    return _compiled(text, "quality", node)


def rename_attributes(text: str, rename: Rename, rename_sub: Rename | None = None) -> str:
    """The query, in canonical form, with the names of attributes and sub-attributes put through `rename`.

    Sub-attributes go through `rename_sub`, if that is given.
    """
    node = parse(text)
    return "" if node is None else renamed(node, rename, rename_sub).text


def _compiled(text: str, language: Language, node: Node | None) -> Filter:
    conjuncts = _conjuncts(node)
    atoms: list[Atom] = []
    rest: list[Node] = []
    for part in conjuncts:
        atom = _atom(part)
        if atom is None:
            rest.append(part)
        else:
            atoms.append(atom)
    return Filter(
        text=text,
        canonical="" if node is None else node.text,
        language=language,
        atoms=tuple(atoms),
        residual=all_of([predicate(part, _GETTERS[language]) for part in rest]) if rest else None,
        residual_key=join(";", rest).text if rest else "",
        conjuncts=conjuncts,
    )


def _conjuncts(node: Node | None) -> tuple[Node, ...]:
    if node is None:
        return ()
    return node.parts if isinstance(node, Joined) and node.sign == ";" else (node,)


def _paths(node: Node) -> list[Path]:
    if isinstance(node, Joined):
        return [path for part in node.parts for path in _paths(part)]
    return [node.path]


def _atom(node: Node) -> Atom | None:
    if isinstance(node, Exists):
        return None if node.negated else Atom(node.path.text, "exists")
    if not isinstance(node, Within) or node.negated or len(node.intervals) != 1:
        return None
    interval = node.intervals[0]
    if interval.kind == "number":
        return Atom(node.path.text, "number", *number_bounds(interval))
    if interval.kind == "text" and interval.low is not None and interval.low == interval.high:
        return Atom(node.path.text, "text", str(interval.low.key), str(interval.low.key))
    return None


def _check_quality(node: Node) -> None:
    if isinstance(node, Joined):
        raise InvalidInput(f"a quality requirement joins its parts by ';' only; take {node.text[:60]!r} apart")
    if isinstance(node, Pattern):
        raise InvalidInput(f"a quality requirement has no patterns; compare {node.path.text[:60]!r} with a number or a text")
    if isinstance(node, Exists) and node.negated:
        raise InvalidInput(f"a quality requirement cannot ask that {node.path.text[:60]!r} is missing; leave it out")
    if node.path.inner:
        raise InvalidInput(f"an indicator is named like temperature.precision, without brackets, not {node.path.text[:60]!r}")
    for interval in node.intervals if isinstance(node, Within) else ():
        if interval.kind not in ("number", "text"):
            raise InvalidInput(f"{node.text[:60]!r} compares quality with a {interval.kind}; use a number or a text")
        if interval.kind == "text" and interval.low != interval.high:
            raise InvalidInput(f"levels have no order, so {node.text[:60]!r} says nothing; use == or != on text")
