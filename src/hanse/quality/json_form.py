"""Observations with their quality in NGSI-LD, and back.

An observation is an attribute of an entity in normalized form, and each indicator a sub-property by the name of its criterion:

    {"id": "urn:ngsi-ld:Sensor:45", "type": "Thing",
     "pollution": {"type": "Property", "value": 41.5, "observedAt": "2014-06-12T08:30:00Z", "unitCode": "GQ",
                   "precision": {"type": "Property", "value": 80, "unitCode": "P1", "observedAt": "2014-06-12T08:30:00Z"}}}

That says everything where an indicator is as the registry defines it. Where it is not (other definitions, several values), all
of it stands in a sub-property `qocIndicator` beside the latest value, so that nothing is lost. What quality any entity has,
whoever made it, is asked of `hanse.ngsild.quality`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from hanse.model.errors import InvalidInput
from hanse.quality.criteria import DEFAULT_VOCABULARY, Criterion, Definition, Registry, default_registry
from hanse.quality.indicators import Indicator, MetricValue, Quality, indicator_by
from hanse.quality.observation import Observation, observable_of

OBSERVATION_ID: Final = "observationId"
INDICATOR: Final = "qocIndicator"
_ENTITY_MEMBERS: Final = frozenset({"id", "type", "scope", "@context", "createdAt", "modifiedAt", "expiresAt", "deletedAt"})
_ATTRIBUTE_MEMBERS: Final = frozenset({"type", "value", "observedAt", "unitCode", "createdAt", "modifiedAt"})


class _Whole(Struct, frozen=True, kw_only=True, rename="camel"):
    """All of an indicator but its criterion, which is the name that it stands under."""

    id: str
    name: str
    criterion_id: str
    definitions: tuple[Definition, ...]
    values: tuple[MetricValue, ...]


# --- writing ----------------------------------------------------------------------------------------------------------


def to_entity(observation: Observation, registry: Registry | None = None) -> dict[str, Any]:
    """The entity with this observation as its only attribute, as one would merge it into a broker."""
    attribute = to_attribute(observation, registry)
    return {"id": observation.entity, "type": observation.entity_type, observation.attribute: attribute}


def to_attribute(observation: Observation, registry: Registry | None = None) -> dict[str, Any]:
    """The observation as an attribute, in normalized form."""
    registry = registry or default_registry()
    attribute = _property(observation.value, observation.at, observation.unit_code)
    if observation.id:
        attribute[OBSERVATION_ID] = _property(observation.id)
    for stated in observation.quality.indicators:
        attribute[stated.criterion] = _sub_property(stated, registry)
    return attribute


def _property(value: Any, at: str | None = None, unit_code: str = "") -> dict[str, Any]:
    found = {"type": "Property", "value": value}
    if at is not None:
        found["observedAt"] = at
    if unit_code:
        found["unitCode"] = unit_code
    return found


def _sub_property(stated: Indicator, registry: Registry) -> dict[str, Any]:
    latest = stated.latest
    found = _property(latest.value, latest.at, stated.definition.unit_code)
    if _usual(stated.criterion, latest.value, latest.at, stated.definition.unit_code, registry) != stated:
        all_of_it = {name: getattr(stated, name) for name in _Whole.__struct_fields__}
        found[INDICATOR] = _property(msgspec.json.decode(msgspec.json.encode(_Whole(**all_of_it))))  # lists, not tuples
    return found


def _usual(name: str, value: float, at: str | None, unit_code: str, registry: Registry) -> Indicator | None:
    """The indicator that a plain sub-property means; None if its name or its unit is unknown."""
    criterion = registry.by_name.get(name)
    definition = None if criterion is None else _in_unit(criterion, unit_code)
    return None if criterion is None or definition is None else indicator_by(criterion, definition, value, at)


def _in_unit(criterion: Criterion, unit_code: str) -> Definition | None:
    if not unit_code:
        return criterion.definition
    return next((one for one in criterion.definitions if one.unit_code == unit_code), None)


# --- reading ----------------------------------------------------------------------------------------------------------


def from_entity(entity: Mapping[str, Any], registry: Registry | None = None) -> tuple[Observation, ...]:
    """All attributes of an entity, in normalized form, as observations."""
    id_, types = entity.get("id"), entity.get("type")
    if not isinstance(id_, str):
        raise InvalidInput("the entity has no id")
    kind = types[0] if isinstance(types, list) and len(types) == 1 else types
    if not isinstance(kind, str):
        raise InvalidInput("the entity has no type, or several; an observation is of an entity with one")
    return tuple(
        from_attribute(attribute, entity=id_, entity_type=kind, name=name, registry=registry)
        for name, attribute in entity.items()
        if name not in _ENTITY_MEMBERS
    )


def from_attribute(
    attribute: Any, *, entity: str, name: str, entity_type: str = "Thing", registry: Registry | None = None
) -> Observation:
    """An attribute in normalized form as an observation. InvalidInput where it has what an observation cannot hold."""
    registry = registry or default_registry()
    instance = _instance(attribute, name)
    indicators: list[Indicator] = []
    id_ = ""
    for member, sub in instance.items():
        if member in _ATTRIBUTE_MEMBERS:
            continue
        place = f"{name}.{member}"
        if _is(member, OBSERVATION_ID):
            id_ = _text(_instance(sub, place).get("value"), place)
            continue
        indicators.append(_read_indicator(member, _instance(sub, place), place, registry))
    return Observation(
        entity=entity,
        entity_type=entity_type,
        observable=observable_of(name),
        value=instance.get("value"),
        at=instance.get("observedAt"),
        unit_code=instance.get("unitCode") or "",
        id=id_,
        quality=Quality(tuple(indicators)),
    )


def _instance(attribute: Any, place: str) -> dict[str, Any]:
    """The only instance of an attribute, which is a Property."""
    found = attribute[0] if isinstance(attribute, list) and len(attribute) == 1 else attribute
    if not isinstance(found, dict) or found.get("type") != "Property":
        raise InvalidInput(
            'it is no Property in normalized form; write it like {"type": "Property", "value": 30}', place=place[:120]
        )
    for member in ("observedAt", "unitCode"):
        if not isinstance(found.get(member, ""), str):
            raise InvalidInput(f"its {member} is no text", place=place[:120])
    return found


def _read_indicator(member: str, sub: dict[str, Any], place: str, registry: Registry) -> Indicator:
    known = registry.of_uri(member)
    name = known.name if known is not None else member.removeprefix(DEFAULT_VOCABULARY)
    details = [inner for inner in sub if _is(inner, INDICATOR)]
    for inner in sub:
        if inner not in _ATTRIBUTE_MEMBERS and inner not in details:
            raise InvalidInput(f"an indicator has no {inner[:60]!r}; leave it out", place=place)
    value = _number(sub.get("value"))
    if details:
        stated = indicator_in_full(name, _instance(sub[details[0]], f"{place}.{INDICATOR}").get("value"), place)
        if value != stated.latest.value:
            raise InvalidInput(f"its value is not the latest of its {INDICATOR}; change both", place=place)
        return stated
    if name not in registry.by_name:
        raise InvalidInput("it is no criterion of quality, and an observation holds nothing else; leave it out", place=place)
    if value is None:
        raise InvalidInput("its value is no number", place=place)
    found = _usual(name, value, sub.get("observedAt"), sub.get("unitCode") or "", registry)
    if found is None:
        raise InvalidInput(f"{name} is not measured in the unit {sub.get('unitCode')!r}; use that of its definition", place=place)
    return found


def indicator_in_full(criterion: str, written: Any, place: str = "") -> Indicator:
    """What the value of a `qocIndicator` says. Raises InvalidInput."""
    try:
        read = msgspec.convert(written, _Whole)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:  # half of a surrogate pair
        raise InvalidInput(f"{error}".replace("`", "'"), place=f"{place}.{INDICATOR}") from error
    return Indicator(criterion=criterion, **{field: getattr(read, field) for field in _Whole.__struct_fields__})


def _is(member: str, name: str) -> bool:
    return member in (name, DEFAULT_VOCABULARY + name)


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput("its value is no text", place=place)
    return value


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
