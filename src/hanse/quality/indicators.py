"""Indicators: what is stated about the quality of one thing, and what a capsule may do with it.

An indicator belongs to a criterion, carries the definitions by which it was measured, and has dated values, the latest last. So
it can be understood by whoever has never seen the registry of its producer. `Quality` is a set of them, at most one for each
criterion; it never changes, every operation gives a new one. The operations are those of the INCOME paper: add, retrieve,
update, remove, filter on presence, filter on value, levels.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise
from math import isfinite
from typing import Final

import msgspec
from msgspec import Struct

from hanse.filters import compile_quality
from hanse.filters.terms import Joined
from hanse.model.errors import InvalidInput
from hanse.quality.composites import with_composites
from hanse.quality.criteria import Criterion, Definition, Level, Registry, default_registry
from hanse.quality.requirements import normalized
from hanse.quality.texts import check_name, check_text, checked_time

MAX_VALUES: Final = 64  # of one indicator
MAX_INDICATORS: Final = 512  # of one thing


class MetricValue(Struct, frozen=True, omit_defaults=True):
    """One measurement of an indicator: a value, when it was made, by which definition, and when it was corrected."""

    value: float
    at: str | None = None
    definition: str = ""
    id: str = ""
    modified_at: str | None = None

    def __post_init__(self) -> None:
        if not isfinite(self.value):
            raise InvalidInput(f"a value of quality is a finite number, not {self.value}")
        check_text(self.id, "the id of a value of quality")
        for member in ("at", "modified_at"):
            text = getattr(self, member)
            if text is not None:
                msgspec.structs.force_setattr(self, member, checked_time(text, "the date of a value of quality"))


class Indicator(Struct, frozen=True, kw_only=True):
    """What is stated by one criterion. `criterion` is its name; `id`, `name` and `criterion_id` are as QoCIM has them."""

    criterion: str
    id: str
    name: str
    criterion_id: str
    definitions: tuple[Definition, ...]
    values: tuple[MetricValue, ...]

    def __post_init__(self) -> None:
        check_name(self.criterion, "the criterion of an indicator")
        for text in (self.id, self.name, self.criterion_id):
            check_text(text, f"the indicator {self.criterion!r}")
        for definition in self.definitions:
            definition.check_texts()
        if not self.definitions:
            raise InvalidInput(f"the indicator {self.criterion!r} has no definition; say by which it was measured")
        if not 1 <= len(self.values) <= MAX_VALUES:
            raise InvalidInput(f"the indicator {self.criterion!r} has {len(self.values)} values; give 1 to {MAX_VALUES}")
        ids = [definition.id for definition in self.definitions]
        if len(set(ids)) < len(ids):
            raise InvalidInput(f"the indicator {self.criterion!r} has two definitions with the same id; rename one")
        for value in self.values:
            if value.definition not in ids:
                raise InvalidInput(
                    f"the indicator {self.criterion!r} has a value by the definition {value.definition[:40]!r}, which it lacks"
                )

    @property
    def latest(self) -> MetricValue:
        return self.values[-1]

    @property
    def definition(self) -> Definition:
        """The one that the latest value was measured by."""
        return next(one for one in self.definitions if one.id == self.latest.definition)

    @property
    def level(self) -> Level:
        return self.definition.level(self.latest.value)


def indicator(name: str, value: float, at: str | None = None, *, registry: Registry | None = None) -> Indicator:
    """An indicator as the registry defines it: `indicator("precision", 80)`."""
    criterion = (registry or default_registry()).criterion(name)
    if not criterion.definition.accepts(value):
        raise InvalidInput(f"{name} is a number {criterion.definition.range_words}, not {value:g}")
    return indicator_by(criterion, criterion.definition, value, at)


def indicator_by(criterion: Criterion, definition: Definition, value: float, at: str | None) -> Indicator:
    """An indicator with one value, by one of the definitions of its criterion."""
    return Indicator(
        criterion=criterion.name,
        id=criterion.id,
        name=criterion.indicator_name,
        criterion_id=criterion.criterion_id,
        definitions=(definition,),
        values=(MetricValue(float(value), at, definition.id),),
    )


def plain_value(stated: Indicator, criterion: Criterion) -> float | None:
    """The latest value as the plain number that the registry's criterion means by one; None if it says nothing to it.

    What the indicator's own definition does not accept counts for nothing, and neither does a definition that the registry does
    not have, or by which other values are better, or in a unit that is no unit of it.
    """
    carried, value = stated.definition, stated.latest.value
    known = next((one for one in criterion.definitions if one.id == carried.id), None)
    if known is None or not carried.accepts(value):
        return None
    return criterion.plain(value, known.id, carried.unit_code) if carried.direction == known.direction else None


class Quality(Struct, frozen=True):
    """The indicators of one thing, by criterion. Equal, whatever the order in which they were added."""

    indicators: tuple[Indicator, ...] = ()

    def __post_init__(self) -> None:
        if len(self.indicators) > MAX_INDICATORS:
            raise InvalidInput(f"there are {len(self.indicators)} indicators of one thing; {MAX_INDICATORS} are allowed")
        ordered = tuple(sorted(self.indicators, key=lambda one: one.criterion))
        for one, other in pairwise(ordered):
            if one.criterion == other.criterion:
                raise InvalidInput(f"there are two indicators of {one.criterion!r}; put their values into one")
        msgspec.structs.force_setattr(self, "indicators", ordered)

    def __len__(self) -> int:
        return len(self.indicators)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.criterion for one in self.indicators)

    # --- the operations -----------------------------------------------------------------------------------------------

    def add(self, *added: Indicator) -> Quality:
        """With more indicators; those that are there are updated, not added."""
        for one in added:
            if self.retrieve(one.criterion) is not None:
                raise InvalidInput(f"there is an indicator of {one.criterion!r} already; update it instead")
        return Quality((*self.indicators, *added))

    def retrieve(self, name: str) -> Indicator | None:
        return next((one for one in self.indicators if one.criterion == name), None)

    def update(self, name: str, value: float, at: str | None = None) -> Quality:
        """With another value, by the definition of the latest one, in the place of all before it."""
        found = self._required(name)
        new = msgspec.structs.replace(found, values=(MetricValue(float(value), at, found.latest.definition),))
        return Quality(tuple(new if one is found else one for one in self.indicators))

    def remove(self, name: str) -> Quality:
        found = self._required(name)
        return Quality(tuple(one for one in self.indicators if one is not found))

    def with_presence(self, wanted: Collection[str]) -> Quality:
        """Only the indicators of these criteria. All of them are there if it is as long as `wanted`."""
        return Quality(tuple(one for one in self.indicators if one.criterion in wanted))

    def with_value(self, requirement: str, registry: Registry | None = None) -> Quality:
        """Only the indicators that a requirement names and that meet what it says of them."""
        registry = registry or default_registry()
        terms: dict[str, list[str]] = {}
        for part in compile_quality(normalized(requirement, registry)).conjuncts:
            assert not isinstance(part, Joined)
            terms.setdefault(part.path.text, []).append(part.text)
        values = self.values(registry)
        kept = (one for one in self.indicators if one.criterion in terms)
        return Quality(tuple(one for one in kept if compile_quality(";".join(terms[one.criterion])).matches(values)))

    def level(self, name: str) -> Level:
        """Low, medium or high, by the levels of its own definition."""
        return self._required(name).level

    def meets(self, requirement: str, registry: Registry | None = None) -> bool:
        """Whether it is as good as a requirement asks; composite criteria count as well."""
        registry = registry or default_registry()
        values = with_composites(self.values(registry), registry)
        return compile_quality(normalized(requirement, registry)).matches(values)

    # --- numbers ------------------------------------------------------------------------------------------------------

    def values(self, registry: Registry | None = None) -> dict[str, float]:
        """The latest values as plain numbers, of the criteria that the registry has."""
        known = (registry or default_registry()).by_name
        found = ((one.criterion, plain_value(one, known[one.criterion])) for one in self.indicators if one.criterion in known)
        return {name: value for name, value in found if value is not None}

    def _required(self, name: str) -> Indicator:
        found = self.retrieve(name)
        if found is None:
            there = ", ".join(self.names) or "there are none"
            raise InvalidInput(f"there is no indicator of {name[:60]!r} ({there}); add it first")
        return found


def quality(values: Mapping[str, float], at: str | None = None, *, registry: Registry | None = None) -> Quality:
    """Indicators as the registry defines them: `quality({"precision": 80, "trust": 60})`."""
    return Quality(tuple(indicator(name, value, at, registry=registry) for name, value in values.items()))
