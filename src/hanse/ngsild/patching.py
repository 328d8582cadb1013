"""How a patch changes one instance of an attribute: the members that it names, and no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from hanse.ngsild.entity import NULL, RESERVED_MEMBERS, VALUE_MEMBER, Instance
from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.uris import is_uri
from hanse.ngsild.values import check_geometry, looks_like_geometry, shown

Expand: TypeAlias = Callable[[str], str]

_KIND_OF_MEMBER: Final = {member: kind for kind, member in VALUE_MEMBER.items() if kind != "GeoProperty"}
_MERGED: Final = frozenset({"Property", "LanguageProperty"})  # others are replaced as a whole
_KEPT_BY_PATCH: Final = frozenset({"type", "createdAt", "modifiedAt", "datasetId"})


def resolved(
    patch: Instance, old: Instance | None, name: str, *, lang: str | None = None, expand: Expand | None = None
) -> Instance:
    """A whole instance out of one that may lack its type: that of the one which it replaces, or what its value looks like."""
    kind = patch.get("type") or _fitting_kind(patch, old, name)
    if "type" not in patch:
        patch = {"type": kind, **_as_kind(patch, kind, name, lang, expand)}
    member = VALUE_MEMBER[kind]
    if member not in patch:
        raise BadRequestData(f"the attribute {name!r} is a {kind} without {member!r}")
    result: Instance = {}
    for key, value in patch.items():
        if key == member:
            result[key] = _without_nulls(kind, value)
        elif key in RESERVED_MEMBERS:
            if value != NULL:
                result[key] = value
        else:
            items = [resolved(item, None, key) for item in value if not _is_null(item)]
            if items:
                result[key] = items
    return result


def instance_patched(
    old: Instance, patch: Instance, name: str, now: str, *, deep: bool, lang: str | None = None, expand: Expand | None = None
) -> Instance:
    """The old instance with the members of the patch. `deep`: objects in values are merged, and so are attributes of it."""
    kind = patch.get("type") or _fitting_kind(patch, old, name)
    if "type" not in patch:
        patch = _as_kind(patch, kind, name, lang, expand)
    member = VALUE_MEMBER[kind]
    result = old.copy()
    if kind != old["type"]:
        del result[VALUE_MEMBER[old["type"]]]
        result["type"] = kind
    for key, value in patch.items():
        if key in _KEPT_BY_PATCH:
            continue
        if key == member:
            result[key] = _merged(kind, result.get(key), value) if deep else _without_nulls(kind, value)
        elif key in RESERVED_MEMBERS:
            if value == NULL:
                result.pop(key, None)
            else:
                result[key] = value
        else:
            items = _sub_attributes(old.get(key, []), value, key, now, deep=deep)
            if items:
                result[key] = items
            else:
                result.pop(key, None)
    if member not in result:
        raise BadRequestData(f"the attribute {name!r} cannot become a {kind} without {member!r}")
    result["modifiedAt"] = now
    return result


def merged_json(old: Any, new: Any) -> Any:
    """RFC 7396, with NGSI-LD's Null in the place of null."""
    if type(new) is not dict:
        return new
    result = dict(old) if type(old) is dict else {}
    for key, value in new.items():
        if value == NULL:
            result.pop(key, None)
        else:
            result[key] = merged_json(result.get(key), value)
    return result


def _sub_attributes(old: list[Instance], patch: list[Instance], name: str, now: str, *, deep: bool) -> list[Instance]:
    result = list(old)
    for item in patch:
        dataset = item.get("datasetId")
        index = next((at for at, other in enumerate(result) if other.get("datasetId") == dataset), None)
        if _is_null(item):
            if "createdAt" not in item:
                result.clear()
            elif index is not None:
                del result[index]
        elif index is None:
            result.append(resolved(item, None, name))
        elif deep or not _has_value(item):
            result[index] = instance_patched(result[index], item, name, now, deep=deep)
        else:
            result[index] = {**resolved(item, result[index], name), "createdAt": result[index]["createdAt"]}
    return result


def _fitting_kind(patch: Instance, old: Instance | None, name: str) -> str:
    """The kind of an instance that does not say it: that of the old one, if its value can be one of that kind."""
    said = next((_KIND_OF_MEMBER[member] for member in _KIND_OF_MEMBER if member in patch), None)
    if old is not None:
        kind: str = old["type"]
        if said is None or said in {kind, "Property"}:
            return kind
        raise BadRequestData(
            f"the attribute {name!r} is a {kind}; {VALUE_MEMBER[said]!r} belongs to a {said}, say its type to change it"
        )
    if said is None:
        raise BadRequestData(f"the attribute {name!r} does not exist yet, and this patch has no value for it")
    return "GeoProperty" if said == "Property" and looks_like_geometry(patch["value"]) else said


def _as_kind(patch: Instance, kind: str, name: str, lang: str | None, expand: Expand | None) -> Instance:
    """A patch that says only "value", as one of an attribute of the given kind."""
    if "value" not in patch or kind == "Property":
        return patch
    value = patch["value"]
    fits = True
    match kind:
        case "GeoProperty":
            check_geometry(value, f"the attribute {name!r}")
        case "Relationship":
            fits = all(type(item) is str and is_uri(item) for item in (value if type(value) is list and value else [value]))
        case "LanguageProperty":
            if type(value) is str:
                value = {lang or "@none": value}
            fits = type(value) is dict and all(type(item) is str for item in value.values())
        case "VocabProperty":
            fits = type(value) is str and expand is not None
            value = expand(value) if fits and expand else value
        case "JsonProperty":
            fits = type(value) is dict or type(value) is list
        case "ListProperty":
            fits = type(value) is list
        case "ListRelationship":
            fits = type(value) is list and all(type(item) is str and is_uri(item) for item in value)
            value = [{"object": item} for item in value] if fits else value
    if not fits:
        raise BadRequestData(
            f"the attribute {name!r} is a {kind}, and {shown(value)} is no value for it; say another type to change it"
        )
    return {VALUE_MEMBER[kind] if key == "value" else key: value if key == "value" else item for key, item in patch.items()}


def _merged(kind: str, old: Any, new: Any) -> Any:
    return merged_json(old, new) if kind in _MERGED else new


def _without_nulls(kind: str, value: Any) -> Any:
    return merged_json({}, value) if type(value) is dict and kind in _MERGED else value


def _has_value(item: Instance) -> bool:
    return any(member in item for member in _KIND_OF_MEMBER)


def _is_null(item: Instance) -> bool:
    return any(item.get(member) == NULL for member in _KIND_OF_MEMBER)
