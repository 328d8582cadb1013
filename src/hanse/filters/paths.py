"""From a path in a filter to the values that it names in the attributes of an event.

`a.b[c.d]` has two halves. The dotted names go from an attribute to its sub-attributes (`temperature.precision`,
`isMonitoredBy.observedAt`); the names in brackets go into the JSON value found there (`address[city]`). Both halves mean the
same in every representation: an attribute may be normalized (`{"type": "Property", "value": 30}`), concise (`{"value": 30}`)
or simplified (`30`). An object counts as an attribute if it has a value member (`value`, `object`, ...) or the type of an
attribute; any other object is a plain JSON value, which brackets enter and dots do not.

A path names a list of values, not one: arrays are flattened, an attribute may have several instances (datasetId), and a
LanguageProperty has a text in each language. An object is a value that equals nothing, and so is an empty array: they exist,
and that is all. Null and NaN are no values. Hence `the path exists` is `the list is not empty`, exactly.

A name may be a URI. Its dots up to the last `/` or `#` belong to it; a dot behind that begins a sub-attribute, unless it is
written %2E. In brackets, `*` names all members of an object (all languages of a LanguageProperty).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import Any, Final, TypeAlias

from msgspec import Struct

from hanse.model import InvalidInput

MAX_PATH_NAMES: Final = 32

Getter: TypeAlias = Callable[[Mapping[str, Any]], list[Any]]

VALUE_MEMBERS: Final = ("value", "object", "languageMap", "json", "vocab", "valueList", "objectList")  # first found counts
_LINK_MEMBERS: Final = frozenset({"object", "objectList"})
ATTRIBUTE_TYPES: Final = frozenset(
    {
        "Property",
        "Relationship",
        "GeoProperty",
        "LanguageProperty",
        "JsonProperty",
        "VocabProperty",
        "ListProperty",
        "ListRelationship",
    }
)
NAME_PATTERN: Final = r"[^\W\d][\w:\/#%@$&?+.\-]*"  # the names of the specification, and URIs
PATH_PATTERN: Final = rf'{NAME_PATTERN}(?:\[[^\[\]"]*\])*'
_SCALARS = frozenset({str, int, float, bool})  # exact classes: what nearly every value is of
_URI_START = re.compile(r"[A-Za-z][A-Za-z0-9+\-]*://")
_BEFORE_URI = re.compile(r"\.(?=[A-Za-z][A-Za-z0-9+\-]*://)")
_PATH = re.compile(r"([^\[\]]+)((?:\[[^\[\]]+\])*)")


class Path(Struct, frozen=True, dict=True):
    names: tuple[str, ...]
    inner: tuple[str, ...]

    @cached_property
    def text(self) -> str:
        """The canonical form, which reads back as the same path."""
        return ".".join(map(_written, self.names)) + (f"[{'.'.join(map(_written, self.inner))}]" if self.inner else "")


def renamed_path(path: Path, rename: Callable[[str], str], rename_sub: Callable[[str], str] | None = None) -> Path:
    """The path with other names of the attribute and its sub-attributes (`rename_sub`, if those go by other rules).

    Names in brackets stay.
    """
    names = (rename(path.names[0]), *map(rename_sub or rename, path.names[1:]))
    for name in names:
        if not re.fullmatch(NAME_PATTERN, name) or parse_path(_written(name)).names != (name,):
            raise InvalidInput(f"{name[:60]!r} cannot stand in a filter as the name of an attribute; map the term to another URI")
    return Path(names, path.inner)


@lru_cache(maxsize=4096)
def parse_path(text: str) -> Path:
    found = _PATH.fullmatch(text)
    if found is None:
        raise InvalidInput(f"{text[:60]!r} is not an attribute path; write it like a.b[c.d]")
    names = _split(found[1])
    inner = tuple(name for part in found[2][1:-1].split("][") for name in _split(part)) if found[2] else ()
    if "" in names or "" in inner:
        raise InvalidInput(f"the path {text[:60]!r} has an empty name; put one dot between two names")
    if len(names) + len(inner) > MAX_PATH_NAMES:
        raise InvalidInput(f"the path {text[:60]!r} has more than {MAX_PATH_NAMES} names")
    return Path(names, inner)


def _split(text: str) -> tuple[str, ...]:
    names: list[str] = []
    for chunk in _BEFORE_URI.split(text):
        start = 1 + max(chunk.rfind("/"), chunk.rfind("#")) if _URI_START.match(chunk) else 0
        head, *tail = chunk[start:].split(".")
        names += [chunk[:start] + head, *tail]
    return tuple(name.replace("%2E", ".").replace("%2e", ".").strip() for name in names)


def _written(name: str) -> str:
    """The name with those dots escaped that would otherwise end it."""
    start = 1 + max(name.rfind("/"), name.rfind("#")) if _URI_START.match(name) else 0
    # a URI inside a URI would be cut before its scheme
    head = _BEFORE_URI.sub("%2E", name[:start])
    return head + name[start:].replace(".", "%2E")


def values_at(attributes: Mapping[str, Any], path: str) -> list[Any]:
    """All values found at a path: scalars, and objects or empty arrays as they are. Empty: the path does not exist."""
    return path_getter(path)(attributes)


@lru_cache(maxsize=4096)
def path_getter(path: str, *, links: bool = True) -> Getter:
    """`values_at` for one path, compiled. Without `links`, what a relationship leads to is no value."""
    parsed = parse_path(path)
    name, *subs = parsed.names
    inner = parsed.inner
    if subs or inner or not links:
        return _deep_getter(name, tuple(subs), inner, links=links)

    def get(attributes: Mapping[str, Any]) -> list[Any]:
        return _values(attributes.get(name))

    return get


def flat_getter(key: str, *, links: bool = True) -> Getter:  # noqa: ARG001  no indicator is a relationship
    """The getter for mappings whose keys are whole paths, such as quality indicators: nothing is taken apart."""

    def get(indicators: Mapping[str, Any]) -> list[Any]:
        value = indicators.get(key)
        if value.__class__ in _SCALARS:
            return [value] if value == value else []  # noqa: PLR0124  NaN
        return _leaves([value])

    return get


def _deep_getter(name: str, subs: tuple[str, ...], inner: tuple[str, ...], *, links: bool) -> Getter:
    def get(attributes: Mapping[str, Any]) -> list[Any]:
        value = attributes.get(name)
        for sub in subs:
            if value is None:
                return []
            value = _sub_attribute(value, sub)
        if not links:
            value = _without_links(value)
        if not inner:
            return _values(value)
        found = _contents(value, inner)
        for key in inner:
            found = _members(found, key)
        return _leaves(found)

    return get


def _values(attribute: Any) -> list[Any]:
    """The values of an attribute, or of a list of its instances. The first lines are a short cut; the last one says it all."""
    if attribute is None:
        return []
    instance = attribute
    if attribute.__class__ is list and len(attribute) == 1 and attribute[0].__class__ is dict:
        instance = attribute[0]
    value = instance.get("value") if instance.__class__ is dict else attribute
    if value.__class__ in _SCALARS:
        return [value] if value == value else []  # noqa: PLR0124  NaN
    return _leaves(_contents(attribute, ()))


def _is_attribute(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    for member in VALUE_MEMBERS:
        if member in value:
            return True
    kind = value.get("type")
    return isinstance(kind, str) and kind in ATTRIBUTE_TYPES


def _without_links(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        return None if _is_link(value) else value
    return [item for item in value if not _is_link(item)] or (None if value else value)


def _is_link(value: Any) -> bool:
    """Whether it is a relationship: the first value member that it has says so."""
    found = next((member for member in VALUE_MEMBERS if member in value), "") if isinstance(value, dict) else ""
    return found in _LINK_MEMBERS


def _sub_attribute(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return value.get(name) if _is_attribute(value) else None
    if not isinstance(value, list | tuple):
        return None
    found: list[Any] = []
    for instance in value:
        if _is_attribute(instance):
            sub = instance.get(name)
            # the instances of a sub-attribute join those of its siblings
            found.extend(sub if isinstance(sub, list | tuple) and sub else (sub,))
    return [sub for sub in found if sub is not None] or None


def _contents(value: Any, inner: tuple[str, ...]) -> list[Any]:
    """The JSON values of an attribute, one for each instance; a value that is no attribute is its own content."""
    if isinstance(value, dict):
        return [_content(value, inner)] if _is_attribute(value) else [value]
    if isinstance(value, list | tuple):
        if not value:
            return [value]
        return [_content(item, inner) if _is_attribute(item) else item for item in value]
    return [value]


def _content(attribute: dict[str, Any], inner: tuple[str, ...]) -> Any:
    for member in VALUE_MEMBERS:
        if member in attribute:
            content = attribute[member]
            if member == "languageMap" and isinstance(content, dict) and not inner:
                return list(content.values())
            if member == "objectList" and isinstance(content, list | tuple):
                return [item.get("object", item) if isinstance(item, dict) else item for item in content]
            return content
    return None


def _members(values: list[Any], key: str) -> list[Any]:
    found: list[Any] = []
    for value in _leaves(values):
        if isinstance(value, dict):
            if key in value:
                found.append(value[key])
            elif key == "*":
                found.extend(value.values())
    return found


def _leaves(values: list[Any]) -> list[Any]:
    """Arrays flattened in order, JSON-LD typed values unwrapped, null and NaN left out. Iterative: data may nest deeply."""
    out: list[Any] = []
    stack = values[::-1]
    while stack:
        value = stack.pop()
        if value is None or (isinstance(value, float) and value != value):  # noqa: PLR0124
            continue
        if isinstance(value, list | tuple) and value:
            stack.extend(reversed(value))
        elif isinstance(value, dict) and "@value" in value:
            stack.append(value["@value"])
        else:
            out.append(value)
    return out
