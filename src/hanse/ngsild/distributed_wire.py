"""A request in the words of the source that it goes to.

Names travel as the context has them that is named by the Link header: the one of the request, the one that the registration
asks for (`jsonldContext`), or, if neither has a URL of its own, the core context, which leaves all other names written out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from hanse.filters import rename_attributes
from hanse.ngsild.contexts import CORE, Context, is_empty
from hanse.ngsild.entity import LOCATION, RESERVED_MEMBERS
from hanse.ngsild.quality import shown_quality

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from hanse.ngsild.geo import GeoQuery
    from hanse.ngsild.query import EntityQuery, EntitySelector

# members of an entity that are not attributes
ENTITY_MEMBERS: Final = frozenset(
    {"id", "type", "@id", "@type", "scope", "expiresAt", "createdAt", "modifiedAt", "deletedAt", "@context"}
)
_TYPES: Final = ("type", "@type")
_VIA_TOKENS: Final = 2  # protocol and name; what follows is a comment
_NAMED_BY_CONTEXT: Final = ("vocab", "objectType")


# --- contexts -----------------------------------------------------------------------------------------------------------


def linkable(context: Context) -> Context:
    """The context, if one URL names it; else the core context, in which every name can be said."""
    parts = [part for part in (context.source if isinstance(context.source, list) else [context.source]) if not is_empty(part)]
    return context if len(parts) == 1 and isinstance(parts[0], str) else CORE


def attribute_names(body: Mapping[str, Any], context: Context) -> dict[str, str]:
    """The members of an entity, or of a part of one, that are attributes, each with its expanded name."""
    return {name: context.expand_term(name) for name in body if name not in ENTITY_MEMBERS}


def types_of(body: Mapping[str, Any], context: Context) -> tuple[str, ...]:
    """None where there are none, or something that is no type: whoever reads the entity says so."""
    given = next((body[name] for name in _TYPES if name in body), ())
    names = given if isinstance(given, list) else [given]
    return tuple(context.expand_term(name) for name in names if isinstance(name, str))


def part_of(body: Mapping[str, Any], context: Context, names: Collection[str] | None) -> dict[str, Any]:
    """An entity, or a part of one, with these attributes only; None: all that there is."""
    if names is None:
        return dict(body)
    return {
        name: value
        for name, value in body.items()
        if (name in ("id", "type", "@id", "@type", "@context") if name in ENTITY_MEMBERS else context.expand_term(name) in names)
    }


def rest_of(body: Mapping[str, Any], context: Context, taken: Collection[str]) -> dict[str, Any]:
    """And without these."""
    return {name: value for name, value in body.items() if name in ENTITY_MEMBERS or context.expand_term(name) not in taken}


def renamed(body: Mapping[str, Any], old: Context, new: Context) -> dict[str, Any]:
    """An entity, or a part of one, in the words of another context; its own @context is left out."""
    if old is new:
        return {name: value for name, value in body.items() if name != "@context"}
    result: dict[str, Any] = {}
    for name, value in body.items():
        if name in _TYPES:
            result[name] = _names(value, old, new)
        elif name in ENTITY_MEMBERS:
            if name != "@context":
                result[name] = value
        else:
            result[_name(name, old, new)] = renamed_attribute(value, old, new)
    return result


def renamed_attribute(value: Any, old: Context, new: Context) -> Any:
    """An attribute, its instances and its sub-attributes likewise; values stay as they are."""
    if old is new:
        return value
    if isinstance(value, list):
        return [renamed_attribute(item, old, new) if isinstance(item, dict) else item for item in value]
    if not isinstance(value, dict):
        return value
    if "coordinates" in value:  # a geometry, in the concise form
        return value
    return {
        (name if name in RESERVED_MEMBERS or name.startswith("@") else _name(name, old, new)): (
            _names(inner, old, new)
            if name in _NAMED_BY_CONTEXT
            else inner
            if name in RESERVED_MEMBERS or name.startswith("@")
            else renamed_attribute(inner, old, new)
        )
        for name, inner in value.items()
    }


def _name(name: str, old: Context, new: Context) -> str:
    return new.compact_iri(old.expand_term(name))


def _names(value: Any, old: Context, new: Context) -> Any:
    if isinstance(value, list):
        return [_names(item, old, new) for item in value]
    return _name(value, old, new) if isinstance(value, str) else value


# --- queries ------------------------------------------------------------------------------------------------------------


def type_text(selector: EntitySelector, context: Context) -> str:
    return ",".join(";".join(map(context.compact_type, alternative)) for alternative in selector.types)


def selector_params(selector: EntitySelector, context: Context) -> dict[str, str]:
    """The URL parameters that select the same entities."""
    params = {"id": ",".join(selector.ids), "type": type_text(selector, context), "idPattern": selector.id_pattern or ""}
    return {name: value for name, value in params.items() if value}


def selector_bodies(selector: EntitySelector, context: Context) -> list[dict[str, str]]:
    """The same as elements of the `entities` of a Query."""
    rest = {name: value for name, value in selector_params(selector, context).items() if name != "id"} or {"type": "*"}
    return [rest | {"id": id_} for id_ in selector.ids] if selector.ids else [rest]


def filter_params(query: EntityQuery, context: Context) -> dict[str, str]:
    """q, the scope query, the geo-query and what is asked of quality, as URL parameters."""
    params: dict[str, str] = {}
    if query.q:
        params["q"] = rename_attributes(query.q, context.compact_iri)
    if query.scope_q:
        params["scopeQ"] = query.scope_q
    if query.quality:
        params["qualityQ"] = shown_quality(query.quality, context)
    if query.geo is not None:
        params |= {
            name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
            for name, value in geo_members(query.geo, context).items()
        }
    return params


def filter_members(query: EntityQuery, context: Context) -> dict[str, Any]:
    """The same as members of a Query."""
    said = filter_params(query, context)
    members: dict[str, Any] = {name: said[name] for name in ("q", "scopeQ", "qualityQ") if name in said}
    if query.geo is not None:
        members["geoQ"] = geo_members(query.geo, context)
    return members


def geo_members(geo: GeoQuery, context: Context) -> dict[str, Any]:
    georel: str = geo.georel
    if geo.max_distance_m is not None:
        georel = f"near;maxDistance=={geo.max_distance_m:g}"
    elif geo.min_distance_m is not None:
        georel = f"near;minDistance=={geo.min_distance_m:g}"
    members = {"georel": georel, "geometry": geo.geometry, "coordinates": geo.coordinates}
    if geo.geoproperty != LOCATION:
        members["geoproperty"] = context.compact_iri(geo.geoproperty)
    return members


def compacted(names: Iterable[str], context: Context) -> str:
    """A list of attributes, as a URL parameter has it."""
    return ",".join(sorted(map(context.compact_iri, names)))


# --- where a request has been -------------------------------------------------------------------------------------------


def passed_by(via: str) -> frozenset[str]:
    """The names in a Via header: `1.1 here, 1.1 there (comment)`."""
    hops = (hop.split() for hop in via.split(","))
    return frozenset(hop[1] for hop in hops if len(hop) >= _VIA_TOKENS)
