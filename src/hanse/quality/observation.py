"""An observation: the state of an observable of an entity at a time, with its quality. The context model of the INCOME paper.

It has two forms on the wire, `xml_form` and `json_form`. Whatever an observation can hold, both can carry.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, Final

import msgspec
from msgspec import Struct

from hanse.model.errors import InvalidInput
from hanse.quality.computed import freshness
from hanse.quality.criteria import Registry, default_registry
from hanse.quality.indicators import Quality
from hanse.quality.keys import whole
from hanse.quality.texts import check_text, checked_time

MAX_OBSERVATIONS: Final = 1_000  # in one notification
MAX_NUMBER: Final = sys.float_info.max
MAX_DEPTH: Final = 32  # of a value
MAX_URI: Final = 2_048

_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:[^\s<>\"{}|\\^`\x00-\x20\x7f]+")
_FRAGMENT: Final = re.compile(r"#[^\W\d][\w.\-]*")
_NO_ATTRIBUTES: Final = frozenset({"id", "type", "scope"})  # members of an entity in NGSI-LD


class Observation(Struct, frozen=True, kw_only=True):
    """`observable` is a URI or, relative to whatever document it is in, `#pollution`; a value is JSON without null."""

    entity: str
    observable: str
    value: Any
    at: str | None = None
    unit_code: str = ""
    entity_type: str = "Thing"
    id: str = ""
    quality: Quality = Quality()

    def __post_init__(self) -> None:
        for text, what in ((self.entity, "the entity"), (self.observable, "the observable")):
            check_text(text, what)
            if len(text) > MAX_URI:
                raise InvalidInput(f"{what} has {len(text)} characters; {MAX_URI} are allowed")
        if not _ABSOLUTE.fullmatch(self.entity):
            raise InvalidInput(f"the entity {self.entity[:60]!r} is no URI; write it like urn:ngsi-ld:Sensor:45")
        if not (_FRAGMENT.fullmatch(self.observable) or _ABSOLUTE.fullmatch(self.observable)) or self.attribute in _NO_ATTRIBUTES:
            raise InvalidInput(f"the observable {self.observable[:60]!r} is no URI; write it like #pollution")
        for text, what in ((self.unit_code, "the unit code"), (self.entity_type, "the type of the entity"), (self.id, "the id")):
            check_text(text, what)
        if not self.entity_type:
            raise InvalidInput("the type of the entity is empty; name it, or leave it out")
        _check_value(self.value, f"the value of {self.observable!r}")
        if self.at is not None:
            msgspec.structs.force_setattr(self, "at", checked_time(self.at, "the time of the observation"))

    @property
    def attribute(self) -> str:
        """The observable as the name of an attribute: `pollution` for `#pollution`, or the URI."""
        return self.observable.removeprefix("#")


def observable_of(attribute: str) -> str:
    """The observable that has this name as an attribute."""
    return attribute if ":" in attribute else f"#{attribute}"


def quality_of(
    observations: Sequence[Observation], registry: Registry | None = None, *, now: float | None = None
) -> dict[str, float]:
    """What a notification of these observations says of its quality: the keys of `Notification.quality`.

    Of two observations of the same observable the worse one counts. With the time `now`, freshness follows from when each was
    made.
    """
    registry = registry or default_registry()
    stated = ((one.attribute, with_freshness(one.quality.values(registry), one.at, now, registry)) for one in observations)
    return whole(worst_of(stated, registry), {}, registry)


def with_freshness(values: dict[str, float], at: str | None, now: float | None, registry: Registry) -> dict[str, float]:
    """The values with the age that an observation has now, if it says when it was made, and states no age itself."""
    if now is None or at is None or "freshness" in values or "freshness" not in registry.by_name:
        return values
    return values | {"freshness": freshness(at, now)}


def worst_of(stated: Iterable[tuple[str, Mapping[str, float]]], registry: Registry) -> dict[str, dict[str, float]]:
    """Values by criterion of each attribute; the worse one, where an attribute has several."""
    found: dict[str, dict[str, float]] = {}
    for attribute, values in stated:
        known = found.setdefault(attribute, {})
        for name, value in values.items():
            known[name] = registry.by_name[name].definition.worse(known[name], value) if name in known else value
    return found


def _check_value(value: Any, what: str) -> None:
    """JSON that both forms carry. Iterative: data may nest deeply."""
    stack: list[tuple[Any, int]] = [(value, 0)]
    while stack:
        one, depth = stack.pop()
        if isinstance(one, dict | list):
            if depth >= MAX_DEPTH:
                raise InvalidInput(f"{what} is nested more than {MAX_DEPTH} deep")
            stack.extend((item, depth + 1) for item in (one.values() if isinstance(one, dict) else one))
            for key in one if isinstance(one, dict) else ():
                if not isinstance(key, str):
                    raise InvalidInput(f"{what} has an object with a key that is no text")
                check_text(key, what)
        elif isinstance(one, str):
            check_text(one, what)
        elif one is None:
            raise InvalidInput(f"{what} {'has null in it' if depth else 'is null'}, which is no value in NGSI-LD; leave it out")
        elif not isinstance(one, int | float):
            raise InvalidInput(f"{what} is a {type(one).__name__}; give JSON")
        elif isinstance(one, float) and not isfinite(one):
            raise InvalidInput(f"{what} is {one}; give a finite number")
        elif isinstance(one, int) and abs(one) > MAX_NUMBER:
            raise InvalidInput(f"{what} has a number beyond what a double holds; give it as a text")
