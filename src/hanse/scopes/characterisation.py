"""The multiscale characterisation of a system, as a person writes it down in TOML.

Viewpoints have dimensions, a dimension has scales from the largest to the smallest, and its scopes are instances of these
scales: Versailles is a city. Brokers and links may follow, with the scopes that each broker joins. Every complaint is one
line that names the file, the place in it, and the remedy.
"""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct

from hanse.model import InvalidInput
from hanse.scopes.dimensions import MAX_DIMENSIONS, Scopes
from hanse.scopes.graph import MAX_NAME, MAX_SCOPES, MAX_SUPERSCOPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_FILE_BYTES = 1 << 20
MAX_SCALES = 32
MAX_BROKERS = 1_000
MAX_LINKS = 10_000

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
Text = Annotated[str, Meta(max_length=1024)]


class Parent(Struct, frozen=True, forbid_unknown_fields=True):
    """A superscope, with the visibility filters of the border to it."""

    name: Name
    out: Text = ""
    into: Text = ""


class ScopeEntry(Struct, frozen=True, forbid_unknown_fields=True):
    name: Name
    scale: Name
    title: Text = ""
    parents: Annotated[tuple[Name | Parent, ...], Meta(max_length=MAX_SUPERSCOPES)] = ()

    @property
    def superscopes(self) -> tuple[Parent, ...]:
        return tuple(Parent(parent) if isinstance(parent, str) else parent for parent in self.parents)


class Dimension(Struct, frozen=True, forbid_unknown_fields=True):
    name: Name
    scales: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MAX_SCALES)]  # the largest first
    scopes: Annotated[tuple[ScopeEntry, ...], Meta(max_length=MAX_SCOPES)] = ()

    def title(self, scope: str) -> str:
        return next((entry.title for entry in self.scopes if entry.name == scope), "")


class Viewpoint(Struct, frozen=True, forbid_unknown_fields=True):
    name: Name
    dimensions: Annotated[tuple[Dimension, ...], Meta(min_length=1, max_length=MAX_DIMENSIONS)]


class BrokerEntry(Struct, frozen=True, forbid_unknown_fields=True):
    name: Name
    joins: dict[Name, tuple[Name, ...]] = {}  # dimension -> scopes


class Characterisation(Struct, frozen=True, forbid_unknown_fields=True):
    viewpoints: Annotated[tuple[Viewpoint, ...], Meta(min_length=1, max_length=MAX_DIMENSIONS)]
    title: Text = ""
    brokers: Annotated[tuple[BrokerEntry, ...], Meta(max_length=MAX_BROKERS)] = ()
    links: Annotated[tuple[tuple[Name, Name], ...], Meta(max_length=MAX_LINKS)] = ()

    def dimensions(self) -> tuple[Dimension, ...]:
        return tuple(dimension for viewpoint in self.viewpoints for dimension in viewpoint.dimensions)

    def dimension(self, name: str) -> Dimension:
        for dimension in self.dimensions():
            if dimension.name == name:
                return dimension
        raise InvalidInput(f"there is no dimension {name!r}; choose one of {', '.join(d.name for d in self.dimensions())}")

    def scopes(self) -> Scopes:
        """The graphs of scopes of all dimensions."""
        scopes = Scopes()
        for dimension in self.dimensions():
            graph = scopes.graph(dimension.name)
            # a parent's scale is above its child's, so that this order meets every superscope before its subscopes
            for entry in sorted(dimension.scopes, key=lambda entry: dimension.scales.index(entry.scale)):
                graph.add(entry.name)
                for parent in entry.superscopes:
                    graph.add(entry.name, parent.name, out=parent.out, into=parent.into)
        return scopes

    def placements(self, dimension: str) -> dict[str, tuple[str, ...]]:
        """Which brokers join each scope of a dimension, as `project` takes it."""
        places: dict[str, list[str]] = {}
        for broker in self.brokers:
            for scope in broker.joins.get(dimension, ()):
                places.setdefault(scope, []).append(broker.name)
        return {scope: tuple(brokers) for scope, brokers in places.items()}


def load(path: Path | str) -> Characterisation:
    """Read and check a file; InvalidInput where it cannot be used."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidInput(
            f"it cannot be read ({error.strerror}); give the path of a characterisation in TOML", place=str(path)
        ) from error
    if len(content) > MAX_FILE_BYTES:
        raise InvalidInput(f"it is larger than {MAX_FILE_BYTES} bytes; split it by dimension", place=str(path))
    try:
        return parse(content.decode())
    except UnicodeDecodeError as error:
        raise InvalidInput("it is not UTF-8 text; save it as UTF-8", place=str(path)) from error
    except InvalidInput as error:
        raise error.at(str(path)) from error


def parse(text: str) -> Characterisation:
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"it is not TOML: {error}; mend that line") from error
    except ValueError as error:
        raise InvalidInput("it has a number with thousands of digits; shorten it") from error
    except RecursionError as error:
        raise InvalidInput("it is nested too deeply; a characterisation has viewpoints, dimensions and scopes") from error
    try:
        found = msgspec.convert(raw, Characterisation)
    except msgspec.ValidationError as error:
        raise _in_words(str(error), raw) from error
    for place, message in _complaints(found):
        raise InvalidInput(message, place=place)
    found.scopes()  # compiles the visibility filters
    return found


def _complaints(found: Characterisation) -> Iterator[tuple[str, str]]:
    if name := _twice(viewpoint.name for viewpoint in found.viewpoints):
        yield f"viewpoint {name!r}", "the name is given twice; rename one of them"
    if name := _twice(dimension.name for dimension in found.dimensions()):
        yield f"dimension {name!r}", "the name is given twice; rename one of them"
    for dimension in found.dimensions():
        yield from _dimension_complaints(dimension)
    yield from _broker_complaints(found)


def _dimension_complaints(dimension: Dimension) -> Iterator[tuple[str, str]]:
    here = f"dimension {dimension.name!r}"
    rank = {scale: i for i, scale in enumerate(dimension.scales)}
    if name := _twice(dimension.scales):
        yield f"{here}, scale {name!r}", "the name is given twice; rename one of them"
    if name := _twice(entry.name for entry in dimension.scopes):
        yield f"{here}, scope {name!r}", "the name is given twice; rename one of them"
    entries = {entry.name: entry for entry in dimension.scopes}
    for entry in dimension.scopes:
        place = f"{here}, scope {entry.name!r}"
        if entry.scale not in rank:
            yield place, f"there is no scale {entry.scale!r}; choose one of {', '.join(dimension.scales)}"
        if name := _twice(parent.name for parent in entry.superscopes):
            yield place, f"the parent {name!r} is given twice; keep one"
        for parent in entry.superscopes:
            if parent.name not in entries:
                yield place, f"its parent {parent.name!r} is no scope of this dimension; add it, or correct the name"
            above = entries[parent.name].scale
            if above in rank and rank[above] >= rank[entry.scale]:
                larger = ", ".join(dimension.scales[: rank[entry.scale]]) or "there is none"
                message = f"its parent {parent.name!r} has the scale {above!r}, which is not above {entry.scale!r}"
                yield place, f"{message}; choose a parent of a larger scale ({larger})"


def _broker_complaints(found: Characterisation) -> Iterator[tuple[str, str]]:
    names = {broker.name for broker in found.brokers}
    if name := _twice(broker.name for broker in found.brokers):
        yield f"broker {name!r}", "the name is given twice; rename one of them"
    known = {dimension.name: {entry.name for entry in dimension.scopes} for dimension in found.dimensions()}
    for broker in found.brokers:
        for dimension, scopes in broker.joins.items():
            if dimension not in known:
                yield f"broker {broker.name!r}", f"there is no dimension {dimension!r}; choose one of {', '.join(known)}"
            for scope in scopes:
                if scope not in known[dimension]:
                    yield (
                        f"broker {broker.name!r}, dimension {dimension!r}",
                        f"there is no scope {scope!r}; add it to the dimension, or correct the name",
                    )
    for a, b in found.links:
        for end in (a, b):
            if end not in names:
                yield f"link {a} - {b}", f"{end!r} is no broker; add it to [[brokers]], or correct the name"
        if a == b:
            yield f"link {a} - {b}", "it joins a broker to itself; remove it"
    for one, other in pairwise(sorted(tuple(sorted(link)) for link in found.links)):
        if one == other:
            yield f"link {one[0]} - {one[1]}", "it is given twice; links go both ways, so keep one"


def _twice(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


_SECTIONS: dict[str, tuple[str, type[Struct]]] = {
    "viewpoints": ("viewpoint", Viewpoint),
    "dimensions": ("dimension", Dimension),
    "scales": ("scale", Dimension),
    "scopes": ("scope", ScopeEntry),
    "parents": ("parent", Parent),
    "brokers": ("broker", BrokerEntry),
    "links": ("link", Characterisation),
}


def _in_words(message: str, raw: Any) -> InvalidInput:
    """Msgspec's complaint with the names of things in place of `$.viewpoints[0].dimensions[1]`."""
    what, _, path = message.partition(" - at `$")
    places: list[str] = []
    kind: type[Struct] = Characterisation
    for member, index in re.findall(r"\.(\w+)(?:\[(\d+)\])?", path):
        raw = raw.get(member) if isinstance(raw, dict) else None
        if index and isinstance(raw, list):
            raw = raw[int(index)]
            word, kind = _SECTIONS[member]
            name = raw.get("name") if isinstance(raw, dict) else None
            places.append(f"{word} {name!r}" if isinstance(name, str) else f"{word} {int(index) + 1}")
        else:
            places.append(member)
    if any(place.startswith("dimension ") for place in places):
        places = places[1:]  # a dimension's name is the only one in the file: its viewpoint adds nothing
    what = what.replace("`", "'")
    for theirs, ours in (
        ("Object contains unknown field", "it has an unknown member"),
        ("Object missing required field", "it lacks the member"),
    ):
        if what.startswith(theirs):
            return InvalidInput(
                f"{what.replace(theirs, ours)}; the members are {', '.join(kind.__struct_encode_fields__)}",
                place=", ".join(places),
            )
    return InvalidInput(f"{what[0].lower()}{what[1:]}; give what is expected", place=", ".join(places))
