"""The quality of an entity: what its attributes state of themselves, and what can be computed of them.

A sub-property whose name is a criterion's (one of its URIs, or its word in the default vocabulary) and whose value is a number
states an indicator of its attribute; a property of the entity itself with such a name states one of the whole. What nobody states
is computed where it can be: the freshness of an attribute that has an `observedAt`, as its age at the moment of matching; and the
completeness of the whole, as the share of the attributes that are expected of its types and there.

The moment of matching is when a change was accepted, or a query asked. Of several instances of an attribute the worst counts.
The names are those of `Notification.quality` (`hanse.quality.keys`), so that one requirement means the same for a query here, for
a subscription at another node and for a guarantee.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import unquote

from hanse.filters import compile_quality, number_value, rename_attributes, temporal_value
from hanse.model import InvalidInput
from hanse.ngsild.entity import now_text
from hanse.ngsild.errors import BadRequestData
from hanse.quality import default_registry, indicator_key, normalized, whole
from hanse.quality.computed import completeness
from hanse.quality.criteria import DEFAULT_VOCABULARY
from hanse.quality.indicators import plain_value
from hanse.quality.json_form import INDICATOR, indicator_in_full

if TYPE_CHECKING:
    from hanse.ngsild.contexts import Context
    from hanse.ngsild.entity import Attributes, Change, Entity, Instance
    from hanse.quality import Criterion, Registry
    from hanse.quality.indicators import Indicator

QUALITY_LENGTH_MAX: Final = 8_192  # of a qualityQ, as a client writes it
FRESHNESS: Final = "freshness"
COMPLETENESS: Final = "completeness"
NO_QUALITY: Final[dict[str, float]] = {}

Expected: TypeAlias = Callable[[str], Collection[str]]  # from a type to the attributes that are expected of it
QualityOf: TypeAlias = "Callable[[Entity], dict[str, float]]"
_FIRST: Final = datetime(1, 1, 1, tzinfo=UTC)
_DAY_US: Final = 86_400 * 1_000_000
IN_FULL: Final = DEFAULT_VOCABULARY + INDICATOR
_OF_ATTRIBUTE: Final = 2  # names: the attribute and the criterion


def nothing_expected(_type: str) -> Collection[str]:
    return ()


class Measure:
    """What quality is measured by: the criteria that are known, and the attributes that are expected of each type."""

    def __init__(self, registry: Registry | None = None, expected: Expected = nothing_expected) -> None:
        self.registry = registry if registry is not None else default_registry()
        self._expected = expected
        self._criteria: dict[str, Criterion] = {}  # by each of their URIs
        for name, criterion in self.registry.by_name.items():
            for uri in (DEFAULT_VOCABULARY + name, *criterion.uris):
                self._criteria[uri] = criterion
        self._names = frozenset(self._criteria)

    def of(self, attributes: Attributes, types: tuple[str, ...] = (), at: str | None = None) -> dict[str, float]:
        """The indicators of an entity with these attributes, at a moment; None: each instance when it was accepted."""
        known = self._names
        moment: datetime | None = None
        found: dict[str, dict[str, float]] = {}
        for name, instances in attributes.items():
            for instance in instances:
                if "observedAt" in instance or not known.isdisjoint(instance):
                    moment = moment or _instant(at)
                    found[name] = self._of_attribute(instances, moment, dated=at is not None)
                    break
        stated = NO_QUALITY if known.isdisjoint(attributes) else self._stated(attributes)
        if COMPLETENESS not in stated and (share := self._completeness(attributes, types)) is not None:
            stated = stated | {COMPLETENESS: share}
        if not found and not stated:
            return NO_QUALITY
        return whole(found, stated, self.registry) if self.registry.composites else self._whole(found, stated)

    def _whole(self, found: dict[str, dict[str, float]], stated: dict[str, float]) -> dict[str, float]:
        """What `whole` says where no criterion is computed from others: every change has to know."""
        indicators: dict[str, float] = {}
        worst: dict[str, float] = {}
        for attribute, values in found.items():
            for name, value in values.items():
                indicators[f"{attribute}.{name}" if "%" not in attribute else indicator_key(attribute, name)] = value
                worst[name] = self._worse(name, value, worst)
        indicators |= worst
        return indicators | stated if stated else indicators

    def of_entity(self, at: str) -> QualityOf:
        """The question what the quality of an entity is at a moment."""
        return lambda entity: self.of(entity.attributes, entity.types, at)

    def of_change(self, change: Change) -> dict[str, float]:
        """That of the entity as a change leaves it, when the change was accepted."""
        entity = change.entity
        return self.of(entity.attributes, entity.types, change.at)

    def _of_attribute(self, instances: list[Instance], moment: datetime | None, *, dated: bool) -> dict[str, float]:
        worst: dict[str, float] = {}
        for instance in instances:
            values = NO_QUALITY if self._names.isdisjoint(instance) else self._stated(instance)
            if "observedAt" in instance and FRESHNESS not in values:
                accepted = moment if dated else _instant(instance.get("modifiedAt"))
                observed = _instant(instance["observedAt"])
                if observed is not None and accepted is not None:
                    values = values | {FRESHNESS: max(0.0, (accepted - observed).total_seconds())}
            if not worst:
                worst = values
            elif values:
                worst = worst | {name: self._worse(name, value, worst) for name, value in values.items()}
        return worst

    def _worse(self, name: str, value: float, values: dict[str, float]) -> float:
        return self.registry.by_name[name].definition.worse(values[name], value) if name in values else value

    def _stated(self, members: Mapping[str, Any]) -> dict[str, float]:
        """What the properties among the members of an instance, or of an entity, state: the worst, if several do.

        A number that the criterion does not accept, or in a unit that is none of its, says nothing.
        """
        values: dict[str, float] = {}
        for uri in self._names.intersection(members):
            criterion = self._criteria[uri]
            for instance in members[uri] if isinstance(members[uri], list) else ():
                number = stated_number(instance, criterion) if isinstance(instance, dict) else None
                if number is not None:
                    values[criterion.name] = self._worse(criterion.name, number, values)
        return values

    def _completeness(self, attributes: Attributes, types: tuple[str, ...]) -> float | None:
        expected: set[str] = set()
        for type_ in types:
            expected.update(self._expected(type_))
        return completeness(attributes.keys(), expected) if expected else None


def stated_number(instance: Instance, criterion: Criterion, in_full: str = IN_FULL) -> float | None:
    """The plain number that a property states of a criterion.

    Where it says in full by which definition it was measured (`hanse.quality.json_form`), that counts, as it does in XML;
    `in_full` is the name that it says that by.
    """
    number = number_value(instance.get("value"))
    if number is None:
        return None
    unit = instance.get("unitCode")
    if in_full in instance:
        stated = _in_full(instance[in_full], criterion)
        if stated is not None and stated.latest.value == number:
            return plain_value(stated, criterion)
    elif unit is None or unit == criterion.definitions[0].unit_code:  # nearly always: quickly what the last line says
        return number if criterion.definitions[0].accepts(number) else None
    return criterion.plain_in_unit(number, unit if isinstance(unit, str) else "")


def _in_full(written: Any, criterion: Criterion) -> Indicator | None:
    first = written[0] if isinstance(written, list) and written else written
    try:
        return indicator_in_full(criterion.name, first.get("value") if isinstance(first, dict) else None)
    except InvalidInput:
        return None


def _instant(text: Any) -> datetime | None:
    """A time, to the microsecond: quickly as it nearly always is, and as filters read it otherwise."""
    if not isinstance(text, str):
        return None
    if text[-1:] == "Z":
        try:
            return datetime.fromisoformat(text)
        except ValueError:  # look closer
            pass
    moment = temporal_value(text)
    if moment is None or moment[0] != "instant":
        return None
    try:
        return _FIRST + timedelta(microseconds=moment[1] // 1000 - _DAY_US)
    except OverflowError:  # the last day that there is has a leap second
        return None


# --- requirements -----------------------------------------------------------------------------------------------------


def parse_quality(text: Any, context: Context, registry: Registry | None = None) -> str:
    """A qualityQ as `compile_quality` takes it: names expanded, levels as numbers. Raises BadRequestData."""
    if not isinstance(text, str):
        raise BadRequestData("qualityQ is a text like temperature.precision>=40;freshness<=60")
    if len(text) > QUALITY_LENGTH_MAX:
        raise BadRequestData(f"qualityQ has {len(text)} characters; {QUALITY_LENGTH_MAX} are allowed")
    try:
        return normalized(text, registry if registry is not None else default_registry(), context.expand_term)
    except InvalidInput as error:
        place = f" at {error.place}" if error.place else ""
        raise BadRequestData(f"qualityQ{place}: {error.message}") from None


def parse_quality_member(value: Any, context: Context, registry: Registry | None = None) -> str:
    """The same in a body, where clients escape it, too, as they would in a URL, and where an empty one says nothing."""
    if isinstance(value, str) and not value.strip():
        raise BadRequestData("qualityQ is empty; leave it out")
    if isinstance(value, str) and "%" in value:
        value = unquote(re.sub("%2[Ee]", "%252E", value))
    return parse_quality(value, context, registry)


def shown_quality(quality: str, context: Context) -> str:
    """A requirement with the names of attributes as a context has them; it reads back as the same."""
    return rename_attributes(quality, context.compact_iri, lambda criterion: criterion)


def quality_matches(quality: str, indicators: Mapping[str, float]) -> bool:
    return compile_quality(quality).matches(indicators)


def quality_attributes(quality: str) -> frozenset[str] | None:
    """The attributes whose indicators it asks for; None: it asks for more than those, so all of an entity counts."""
    paths = [path.names for path in compile_quality(quality).paths]
    return frozenset(names[0] for names in paths) if all(len(names) == _OF_ATTRIBUTE for names in paths) else None


@lru_cache(maxsize=1)
def default_measure() -> Measure:
    """By the starting set of criteria; nothing is expected."""
    return Measure()


def plain_quality(entity: Entity) -> dict[str, float]:
    """That of an entity just now, by the default measure."""
    return default_measure().of_entity(now_text())(entity)
