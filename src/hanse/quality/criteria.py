"""Criteria of quality, and the registry that says what each one's numbers mean.

A criterion is a word that producers and consumers share: precision, freshness. Its definitions say how it is measured; the
first one says what a plain number means, which of two numbers is better, and from where on it counts as medium or high.
Criteria are written down in TOML: a starting set comes along (`criteria.toml`), a user's file adds to it or replaces some by
name. A composite criterion is computed from others by a named rule (`hanse.quality.composites`).

The model is QoCIM (Marie et al., "QoCIM: a meta-model for quality of context", CONTEXT 2013), and so are the ids: indicator
10, criterion [10.1], definition 10.1.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from functools import cached_property, lru_cache
from importlib import resources
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from hanse.model.errors import InvalidInput
from hanse.quality.texts import check_name, check_text
from hanse.quality.units import converted

MAX_FILE_BYTES: Final = 1 << 20
MAX_CRITERIA: Final = 1_000
MAX_DEFINITIONS: Final = 32
MAX_PARTS: Final = 32
MAX_WORD: Final = 100
MAX_TEXT: Final = 2_048

DEFAULT_VOCABULARY: Final = "https://uri.etsi.org/ngsi-ld/default-context/"  # what NGSI-LD makes of a name that no context maps
LEVELS: Final = ("low", "medium", "high")
RULES: Final = ("minimum", "maximum", "mean", "weighted mean", "geometric mean", "product")

Level: TypeAlias = Literal["low", "medium", "high"]
Direction: TypeAlias = Literal["higher", "lower"]
Word: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_WORD)]
Text: TypeAlias = Annotated[str, Meta(max_length=MAX_TEXT)]

_LEVELS_EXAMPLE: Final = "levels = { medium = 50, high = 80 }"
_ID: Final = re.compile(r"[0-9A-Za-z_.\-]+", re.ASCII)


class Levels(Struct, frozen=True, forbid_unknown_fields=True):
    """From which value on one is medium, and high; where lower is better, up to which."""

    medium: float
    high: float


class Definition(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One way to measure a criterion. `min` or `max` is None where there is no bound; `related` are ids of others."""

    id: Word
    name: Text = ""
    levels: Levels | None = None
    unit: Text = ""
    unit_code: Annotated[str, Meta(max_length=MAX_WORD)] = ""  # UN/CEFACT Recommendation 20, as NGSI-LD's unitCode
    direction: Direction = "higher"  # which is better
    min: float | None = None
    max: float | None = None
    default: float | None = None
    provider: Text = ""  # who or what measures it, a URI
    description: Text = ""
    keywords: Annotated[tuple[Text, ...], Meta(max_length=MAX_PARTS)] = ()
    related: Annotated[tuple[Word, ...], Meta(max_length=MAX_PARTS)] = ()
    invariant: bool = False  # whether the value never changes

    def accepts(self, value: float) -> bool:
        """Whether it can be a value of this: a number outside its range says nothing about quality."""
        return isfinite(value) and (self.min is None or value >= self.min) and (self.max is None or value <= self.max)

    @property
    def range_words(self) -> str:
        """What numbers it accepts: `from 0 to 100 percent`."""
        low, high = (None if bound is None else f"{bound:g}" for bound in (self.min, self.max))
        words = (
            f"from {low} to {high}" if low and high else f"from {low} on" if low else f"up to {high}" if high else "of any size"
        )
        return f"{words}, in {self.unit}" if self.unit else words

    def check_texts(self) -> None:
        """Raises InvalidInput for what its types do not allow, or XML cannot carry: not every definition comes from a file."""
        place = f"the definition {self.id[:40]!r}"
        for texts, most in (
            ((self.id, self.unit_code, *self.related), MAX_WORD),
            ((self.name, self.unit, self.provider, self.description, *self.keywords), MAX_TEXT),
        ):
            for text in texts:
                check_text(text, place, most)
        for what, many in (("keywords", self.keywords), ("related definitions", self.related)):
            if len(many) > MAX_PARTS:
                raise InvalidInput(f"{place} has {len(many)} {what}; {MAX_PARTS} are allowed")
        if not all((self.id, *self.related)):
            raise InvalidInput(f"{place} has an empty id, or one of a related one; give it, like 10.1")

    def worse(self, one: float, other: float) -> float:
        return min(one, other) if self.direction == "higher" else max(one, other)

    def level(self, value: float) -> Level:
        """Raises InvalidInput if there are no levels."""
        if self.levels is None:
            raise InvalidInput(f"the definition {self.id} has no levels; give it {_LEVELS_EXAMPLE}, or compare with a number")
        sign = 1 if self.direction == "higher" else -1
        if sign * value >= sign * self.levels.high:
            return "high"
        return "medium" if sign * value >= sign * self.levels.medium else "low"

    def score(self, value: float) -> float | None:
        """How good it is, from 0 to 1; None where it cannot be said, since a bound is missing."""
        if self.min is None or self.max is None:
            return None
        share = (value - self.min) / (self.max - self.min)
        return share if self.direction == "higher" else 1 - share

    def scored(self, score: float) -> float | None:
        """The value that has this score."""
        if self.min is None or self.max is None:
            return None
        share = score if self.direction == "higher" else 1 - score
        return self.min + share * (self.max - self.min)


class Criterion(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What can be good or bad about information. `rule` and `parts` (names of criteria) are those of a composite one."""

    id: Word
    name: Word
    definitions: Annotated[tuple[Definition, ...], Meta(min_length=1, max_length=MAX_DEFINITIONS)]
    description: Text = ""
    uris: Annotated[tuple[Text, ...], Meta(max_length=MAX_PARTS)] = ()
    rule: str = ""
    parts: Annotated[tuple[Word, ...], Meta(max_length=MAX_PARTS)] = ()
    weights: Annotated[tuple[float, ...], Meta(max_length=MAX_PARTS)] = ()  # of the parts, where the rule wants them

    @property
    def definition(self) -> Definition:
        """What a plain number means."""
        return self.definitions[0]

    @property
    def criterion_id(self) -> str:
        """QoCIM's id of the criterion itself: [10.1]."""
        return f"[{', '.join(definition.id for definition in self.definitions)}]"

    @property
    def indicator_name(self) -> str:
        """QoCIM's name of an indicator of this: PrecisionQoCIndicator."""
        return f"{self.name[0].upper()}{self.name[1:]}QoCIndicator"

    def plain(self, value: float, definition_id: str, unit_code: str = "") -> float | None:
        """A value of one of its definitions, in whatever unit, as the plain number that it is; None if it is none."""
        for definition in self.definitions:
            if definition.id == definition_id:
                return self._plain(converted(value, unit_code, definition.unit_code), definition)
        return None

    def plain_in_unit(self, value: float, unit_code: str) -> float | None:
        """A value of which only the unit is known, at most, as the plain number that it is; None if it is none."""
        for definition in self.definitions:
            if unit_code in ("", definition.unit_code):
                return self._plain(value, definition)
        return self.plain(value, self.definition.id, unit_code)

    def _plain(self, value: float | None, definition: Definition) -> float | None:
        if value is None or not definition.accepts(value):
            return None
        if definition is self.definition:
            return value
        score = definition.score(value)
        return None if score is None else self.definition.scored(score)


class Registry(Struct, frozen=True, dict=True):
    """The criteria that a node, or a user, knows."""

    by_name: dict[str, Criterion]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.by_name)

    @cached_property
    def composites(self) -> tuple[Criterion, ...]:
        """Each one after those that it is computed from."""
        return tuple(self.by_name[name] for name in _in_order(self.by_name) if self.by_name[name].rule)

    @cached_property
    def _by_uri(self) -> dict[str, Criterion]:
        found = {DEFAULT_VOCABULARY + name: criterion for name, criterion in self.by_name.items()}
        return found | {uri: criterion for criterion in self.by_name.values() for uri in criterion.uris}

    @cached_property
    def _by_id(self) -> dict[str, Criterion]:
        return {criterion.id: criterion for criterion in self.by_name.values()}

    def of_uri(self, uri: str) -> Criterion | None:
        """The criterion that has this URI; its name in the default vocabulary of NGSI-LD is one, too."""
        return self._by_uri.get(uri)

    def of_id(self, indicator_id: str) -> Criterion | None:
        """The criterion whose indicators have this id, `10`."""
        return self._by_id.get(indicator_id)

    def criterion(self, name: str) -> Criterion:
        """By name; InvalidInput with near ones if there is none."""
        if found := self.by_name.get(name):
            return found
        near = get_close_matches(name, self.names, n=3, cutoff=0.5)
        meant = f"do you mean {' or '.join(near)}?" if near else f"choose one of {', '.join(self.names)}"
        raise InvalidInput(f"there is no criterion {name[:MAX_WORD]!r}; {meant}")


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    criteria: Annotated[tuple[Criterion, ...], Meta(max_length=MAX_CRITERIA)] = ()


@lru_cache(maxsize=1)
def default_registry() -> Registry:
    """The starting set."""
    text = resources.files("hanse.quality").joinpath("criteria.toml").read_text(encoding="utf-8")  # in a zip as well
    return load(text, base=Registry({}))


def load(source: Path | str, *, base: Registry | None = None) -> Registry:
    """The registry of a TOML file (a Path) or text (a str), on top of `base`: the starting set, if none is given."""
    if isinstance(source, str):
        return _parsed(source, base or default_registry())
    try:
        with source.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise InvalidInput(f"it is larger than {MAX_FILE_BYTES} bytes; leave out what is not needed", place=str(source))
        return _parsed(content.decode(), base or default_registry())
    except OSError as error:
        raise InvalidInput(
            f"it cannot be read ({error.strerror}); give the path of a TOML file with criteria", place=str(source)
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidInput("it is not UTF-8 text; save it as UTF-8", place=str(source)) from error
    except InvalidInput as error:
        raise (error if error.place == str(source) else error.at(str(source))) from error


def _parsed(text: str, base: Registry) -> Registry:
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"it is not TOML: {error}; mend that line") from error
    except ValueError as error:
        raise InvalidInput("it has a number with thousands of digits; shorten it") from error
    except RecursionError as error:
        raise InvalidInput("it is nested too deeply; a registry has [[criteria]] and [[criteria.definitions]]") from error
    return _checked(raw, base)


def told(criteria: Any) -> Registry:
    """The registry of somebody who tells all criteria that are known there, as a node does; checked as a file is."""
    return _checked({"criteria": criteria}, Registry({}))


def _checked(raw: dict[str, Any], base: Registry) -> Registry:
    try:
        found = msgspec.convert(raw, _File)
    except msgspec.ValidationError as error:
        raise _in_words(str(error), raw) from error
    if name := _twice(criterion.name for criterion in found.criteria):
        raise InvalidInput("the name is given twice; rename one of them", place=f"criterion {name!r}")
    for criterion in found.criteria:
        for message in _complaints(criterion):
            raise InvalidInput(message, place=f"criterion {criterion.name!r}")
    registry = Registry(base.by_name | {criterion.name: criterion for criterion in found.criteria})
    for place, message in _complaints_together(registry):
        raise InvalidInput(message, place=place)
    return registry


# --- what can be wrong ------------------------------------------------------------------------------------------------


def _complaints(criterion: Criterion) -> Iterator[str]:
    """What is wrong with it, whatever others there are."""
    try:
        check_name(criterion.name, "its name")
    except InvalidInput as error:
        yield error.message
    for id_ in (criterion.id, *(definition.id for definition in criterion.definitions)):
        if not _ID.fullmatch(id_):
            yield f"the id {id_[:40]!r} is not like 10 or 10.1; use digits, letters, dots, _ and -"
    for definition in criterion.definitions:
        try:
            definition.check_texts()
        except InvalidInput as error:
            yield error.message
        for message in _definition_complaints(definition):
            yield f"definition {definition.id!r}: {message}"
    if criterion.rule and criterion.rule not in RULES:
        yield f"there is no rule {criterion.rule[:MAX_WORD]!r}; choose one of {', '.join(RULES)}"
    if bool(criterion.rule) != bool(criterion.parts):
        yield "a composite criterion has both a rule and parts; add what is missing, or remove the other"
    if bool(criterion.weights) != (criterion.rule == "weighted mean"):
        yield "weights go with the rule 'weighted mean', and with no other"
    if criterion.weights and len(criterion.weights) != len(criterion.parts):
        yield f"it has {len(criterion.parts)} parts and {len(criterion.weights)} weights; give each part one"
    if criterion.weights and not (all(0 <= one < float("inf") for one in criterion.weights) and sum(criterion.weights) > 0):
        yield "weights are 0 or more, and one of them is more than 0"
    if part := _twice(criterion.parts):
        yield f"the part {part!r} is given twice; keep one"


def _definition_complaints(definition: Definition) -> Iterator[str]:
    numbers = {"min": definition.min, "max": definition.max, "default": definition.default}
    if definition.levels is not None:
        numbers |= {"medium": definition.levels.medium, "high": definition.levels.high}
    for name, number in numbers.items():
        if number is not None and not isfinite(number):
            yield f"{name} is {number}; give a number, or leave it out where there is no bound"
    if definition.min is not None and definition.max is not None and definition.min >= definition.max:
        yield f"its min {definition.min:g} is not below its max {definition.max:g}; swap them"
    elif definition.min is not None and definition.max is not None and not isfinite(definition.max - definition.min):
        yield "from min to max is too far for a number; take nearer bounds"
    for name in ("default", "medium", "high"):
        number = numbers.get(name)
        if number is not None and not definition.accepts(number):
            yield f"{name} {number:g} is not within min and max; move it inside"
    if definition.levels is None:
        return
    medium, high = definition.levels.medium, definition.levels.high
    if medium == high or definition.worse(medium, high) == high:
        relation = "above" if definition.direction == "higher" else "below"
        yield f"{definition.direction} is better, so the level high ({high:g}) must be {relation} medium ({medium:g})"


def _complaints_together(registry: Registry) -> Iterator[tuple[str, str]]:
    """What is wrong between them."""
    ids: dict[str, str] = {}
    uris = {DEFAULT_VOCABULARY + name: name for name in registry.by_name}
    for criterion in registry.by_name.values():
        here = f"criterion {criterion.name!r}"
        for kind, id_ in (("indicator", criterion.id), *(("definition", one.id) for one in criterion.definitions)):
            other = ids.setdefault(f"{kind} {id_}", criterion.name)
            if other != criterion.name:
                yield here, f"the id {id_!r} is that of {other!r} already; choose another"
        if twice := _twice(definition.id for definition in criterion.definitions):
            yield here, f"the definition {twice!r} is given twice; choose another id for one"
        for uri in criterion.uris:
            other = uris.setdefault(uri, criterion.name)
            if other != criterion.name:
                yield here, f"the URI {uri!r} is that of {other!r} already; keep it at one of them"
        for part in criterion.parts:
            if part not in registry.by_name:
                yield here, f"its part {part!r} is no criterion; add it, or correct the name"
        for name in (*criterion.parts, *([criterion.name] if criterion.rule else [])):
            if registry.by_name[name].definition.score(0.0) is None:
                yield here, f"{name!r} has no min or no max, so it cannot be put together with others; give it both"
    try:
        list(_in_order(registry.by_name))
    except _Cycle as cycle:
        yield f"criterion {cycle.names[0]!r}", f"it is computed from itself ({' of '.join(cycle.names)}); take one part out"


class _Cycle(Exception):
    def __init__(self, names: list[str]) -> None:
        super().__init__(names)
        self.names = names


def _in_order(by_name: dict[str, Criterion]) -> Iterator[str]:
    """All names, parts before what is computed from them. Iterative: a chain may be long."""
    done: set[str] = set()
    for start in by_name:
        way = [start] if start not in done else []
        while way:
            name = way[-1]
            waiting = next((part for part in by_name[name].parts if part not in done), None)
            if waiting is None:
                done.add(way.pop())
                yield name
            elif waiting in way:
                raise _Cycle([*way[way.index(waiting) :], waiting])
            else:
                way.append(waiting)


def _twice(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _in_words(message: str, raw: Any) -> InvalidInput:
    """Msgspec's complaint with the names of things in place of `$.criteria[0].definitions[1]`."""
    what, _, path = message.partition(" - at `$")
    places: list[str] = []
    kind: type[Struct] = _File
    for member, index in re.findall(r"\.(\w+)(?:\[(\d+)\])?", path):
        raw = raw.get(member) if isinstance(raw, dict) else None
        if index and isinstance(raw, list):
            raw = raw[int(index)]
            word, key, kind = {
                "criteria": ("criterion", "name", Criterion),
                "definitions": ("definition", "id", Definition),
            }.get(member, (member, "", kind))
            name = raw.get(key) if isinstance(raw, dict) else None
            places.append(f"{word} {name!r}" if isinstance(name, str) else f"{word} {int(index) + 1}")
        else:
            kind = Levels if member == "levels" else kind
            places.append(member)
    what = what.replace("`", "'")
    for theirs, ours in (
        ("Object contains unknown field", "it has an unknown member"),
        ("Object missing required field", "it lacks the member"),
    ):
        if what.startswith(theirs):
            members = ", ".join(kind.__struct_encode_fields__)
            return InvalidInput(f"{what.replace(theirs, ours)}; the members are {members}", place=", ".join(places))
    return InvalidInput(f"{what[0].lower()}{what[1:]}; give what is expected", place=", ".join(places))
