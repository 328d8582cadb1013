"""From the parameters of a request, or the body of a query by POST, to what is asked for and how it is to be shown.

Everything that a client can get wrong here is refused with what is wrong and how to mend it; nothing is ignored.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Protocol

from hanse.filters import compile_q
from hanse.filters.grammar import parse
from hanse.filters.patterns import pattern_search
from hanse.filters.terms import renamed, with_texts
from hanse.model import InvalidInput
from hanse.ngsild.errors import BadRequestData, InvalidRequest, TooManyResults
from hanse.ngsild.geo import parse_geo_query
from hanse.ngsild.ordering import expand_head, expand_member, parse_order_by
from hanse.ngsild.quality import parse_quality
from hanse.ngsild.query import EntityQuery, EntitySelector
from hanse.ngsild.representation import ENTITY_PARTS, NO_DATASET, Format, Projection, View
from hanse.ngsild.scope_query import parse_scope_query
from hanse.ngsild.selection import ANY_TYPE, parse_type_query
from hanse.ngsild.uris import check_uri

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hanse.ngsild.contexts import Context
    from hanse.quality import Registry

__all__ = ["View", "expand_q", "parse_projection", "parse_query", "parse_query_body", "parse_view"]

Q_LENGTH_MAX: Final = 8_192  # as the client writes it
NAMES_MAX: Final = 1_000  # in attrs, pick, omit, datasetId ...
SELECTORS_MAX: Final = 100  # in one query
JOIN_LEVEL_MAX: Final = 16
PROJECTION_DEPTH_MAX: Final = 16
OFFSET_MAX: Final = 2**53

FORMATS: Final[dict[str, Format]] = {
    "normalized": "normalized",
    "concise": "concise",
    "simplified": "simplified",
    "keyValues": "simplified",
}
OPTIONS: Final = frozenset({*FORMATS, "sysAttrs", "count"})
GEO_PARAMS: Final = ("georel", "geometry", "coordinates", "geoproperty")

_NOT_IN_NAMES = re.compile(r"""[\s"'<>=;(){}\[\]|\\^`\x00-\x1f\x7f]""")
_NO_ATTRIBUTES: Final = frozenset({"id", "type", "scope", "@id", "@type", "@context"})
_PROJECTION = re.compile(r"[{},|]|[^{},|]+")
_DIGITS = re.compile(r"[0-9]{1,16}")


class Limits(Protocol):
    """How many entities an answer may hold."""

    @property
    def page_default(self) -> int: ...

    @property
    def page_max(self) -> int: ...


# --- what is asked for ------------------------------------------------------------------------------------------------


def parse_query(params: Mapping[str, str], context: Context, limits: Limits, criteria: Registry | None = None) -> EntityQuery:
    """What the URL parameters of a query ask for, quality by these criteria. Raises BadRequestData and its like."""
    selector = _selector(params.get("type"), params.get("id"), params.get("idPattern"), context)
    if params.get("type", "").strip() == ANY_TYPE and flag(params, "local", default=True) is False:
        raise BadRequestData("type=* asks for what is stored here, so local cannot be false")
    return _query((selector,) if selector != EntitySelector() else (), params, context, limits, params, criteria)


def _query(
    selectors: tuple[EntitySelector, ...],
    params: Mapping[str, Any],
    context: Context,
    limits: Limits,
    page: Mapping[str, str],
    criteria: Registry | None,
) -> EntityQuery:
    q = params.get("q") or ""
    if params.get("csf"):
        compile_q(params["csf"])  # which context sources to ask: read only, so that a wrong one is refused
    for name in ("expandValues", "jsonKeys"):
        names_of(params.get(name), name)
    scope_q = params.get("scopeQ") or ""
    if scope_q:
        parse_scope_query(scope_q)
    geo = parse_geo_query(params, context) if any(params.get(name) for name in GEO_PARAMS) else None
    attrs = attributes_of(params.get("attrs"), "attrs", context)
    count = flag(page, "count") or "count" in options_of(page)
    limit, offset = _page(page, limits, count=count)
    return EntityQuery(
        selectors=selectors,
        attrs=attrs or _needed(params, context),
        q=expand_q(q, context, names_of(params.get("expandValues"), "expandValues")),
        geo=geo,
        scope_q=scope_q,
        quality=parse_quality(params["qualityQ"], context, criteria) if params.get("qualityQ") else "",
        dataset_ids=dataset_ids_of(params.get("datasetId")),
        order_by=_order_by(params, context),
        limit=limit,
        offset=offset,
        count=count,
    )


def _needed(params: Mapping[str, Any], context: Context) -> tuple[str, ...]:
    """The attributes of which an entity must have one for `pick` to leave something of it."""
    picked = parse_projection(params.get("pick"), "pick", context).names
    return () if any(name in ENTITY_PARTS for name in picked) else picked


def _selector(types: str | None, ids: str | None, pattern: str | None, context: Context) -> EntitySelector:
    found_ids = tuple(check_uri(part.strip(), "one of the ids") for part in ids.split(",")) if ids is not None else ()
    if pattern is not None and not found_ids:  # an id says more than a pattern
        pattern_search(pattern)
    else:
        pattern = None
    return EntitySelector(parse_type_query(types, context) if types is not None else (), found_ids, pattern)


def _page(params: Mapping[str, str], limits: Limits, *, count: bool) -> tuple[int, int]:
    limit = _number(params, "limit", limits.page_default)
    if limit > limits.page_max:
        raise TooManyResults(f"limit is at most {limits.page_max}; ask for more by pages, with offset")
    if limit == 0 and not count:
        raise BadRequestData("limit=0 asks for nothing; add count=true to learn how many there are")
    return limit, _number(params, "offset", 0)


def _number(params: Mapping[str, str], name: str, default: int) -> int:
    text = params.get(name)
    if text is None:
        return default
    if not _DIGITS.fullmatch(text) or int(text) > OFFSET_MAX:
        raise BadRequestData(f"{name} is a whole number from 0 on, not {text[:40]!r}")
    return int(text)


def _order_by(params: Mapping[str, Any], context: Context) -> tuple[Any, ...]:
    text, collation = params.get("orderBy"), params.get("collation") or None
    if not text:
        if collation is not None:
            parse_order_by("id", context, collation=collation)
        return ()
    geometry = params.get("orderGeometry") or "Point"
    return parse_order_by(text, context, collation=collation, origin=params.get("orderFrom") or None, origin_geometry=geometry)


def expand_q(q: str, context: Context, expand_values: tuple[str, ...] = ()) -> str:
    """The query with expanded names, as `compile_q` takes it. `expand_values`: attributes whose values are names as well."""
    if len(q) > Q_LENGTH_MAX:
        raise BadRequestData(f"q has {len(q)} characters; {Q_LENGTH_MAX} are allowed")
    try:
        node = parse(q)
        if node is None:
            return ""
        if expand_values:
            node = with_texts(node, expand_values, context.expand_term)
        return renamed(node, lambda name: expand_head(name, context), lambda name: expand_member(name, context)).text
    except InvalidInput as error:
        place = f" at {error.place}" if error.place else ""
        raise BadRequestData(f"q{place}: {error.message}") from None


# --- how it is shown --------------------------------------------------------------------------------------------------


def parse_view(params: Mapping[str, str], context: Context, *, geojson: bool = False) -> View:
    """What the URL parameters say on how entities are shown. Raises BadRequestData, and InvalidRequest for wrong options."""
    options = options_of(params)
    chosen = [FORMATS[option] for option in options if option in FORMATS]
    said = params.get("format")
    if said is not None and said not in FORMATS:
        raise InvalidRequest(f"format is one of {', '.join(FORMATS)}, not {said[:40]!r}")
    if len(set(chosen)) > 1 and said is None:
        raise InvalidRequest(f"options name {' and '.join(sorted(set(chosen)))}; an answer has one of these forms")
    pick = parse_projection(params.get("pick"), "pick", context)
    omit = parse_projection(params.get("omit"), "omit", context)
    attrs = attributes_of(params.get("attrs"), "attrs", context)
    if attrs and (params.get("pick") or params.get("omit")):
        raise BadRequestData("attrs is the old way to say pick; use either attrs, or pick and omit")
    both = sorted(set(pick.names) & set(omit.names))
    if both:
        raise BadRequestData(f"{context.compact_iri(both[0])!r} is in pick and in omit; decide for one")
    join = params.get("join") or None
    if join not in (None, "inline", "flat", NO_DATASET):
        raise BadRequestData(f"join is inline, flat or @none, not {join[:40]!r}")
    join_level = _join_level(params.get("joinLevel"), join)
    for name, projection in (("pick", pick), ("omit", omit)):
        _check_reach(name, projection, join_level if join in ("inline", "flat") else 0)
    geometry_property = params.get("geometryProperty") or None
    if geometry_property and not geojson:
        raise BadRequestData("geometryProperty is for GeoJSON; add the header Accept: application/geo+json")
    return View(
        format=FORMATS[said] if said is not None else chosen[0] if chosen else "normalized",
        sys_attrs="sysAttrs" in options,
        lang=_language(params.get("lang")),
        pick=pick.names,
        omit=omit.names,
        pick_linked=pick.linked,
        omit_linked=omit.linked,
        attrs=attrs,
        dataset_ids=dataset_ids_of(params.get("datasetId")),
        geojson=geojson,
        geometry_property=_attribute(geometry_property, "geometryProperty", context) if geometry_property else None,
        join="inline" if join == "inline" else "flat" if join == "flat" else None,
        join_level=join_level,
        contained_by=tuple(check_uri(part.strip(), "containedBy") for part in params["containedBy"].split(","))
        if params.get("containedBy")
        else (),
    )


def options_of(params: Mapping[str, str], known: frozenset[str] = OPTIONS) -> tuple[str, ...]:
    options = tuple(part.strip() for part in params.get("options", "").split(",") if part.strip())
    for option in options:
        if option not in known:
            raise InvalidRequest(f"there is no option {option[:40]!r}; choose from {', '.join(sorted(known))}")
    return options


def flag(params: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    text = params.get(name)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise BadRequestData(f"{name} is true or false, not {text[:40]!r}")
    return text.lower() == "true"


def _language(text: str | None) -> str | None:
    if text is None or not text.strip():
        return None
    if len(text) > 256 or _NOT_IN_NAMES.search(text.replace(";", "").replace("=", "").replace(" ", "")):
        raise BadRequestData(f"{text[:60]!r} is no list of languages; write it like fr-CH,fr;q=0.9,*;q=0.5")
    return text.strip()


def _join_level(text: str | None, join: str | None) -> int:
    if text is None or text == "":
        return 1
    if join is None:
        raise BadRequestData("joinLevel says how far join goes; add join=inline or join=flat")
    if not _DIGITS.fullmatch(text) or not 1 <= int(text) <= JOIN_LEVEL_MAX:
        raise BadRequestData(f"joinLevel is a whole number from 1 to {JOIN_LEVEL_MAX}, not {text[:40]!r}")
    return int(text)


def names_of(text: str | None, what: str) -> tuple[str, ...]:
    """The parts of a list, as written."""
    if text is None or text == "":
        return ()
    names = tuple(part.strip() for part in text.split(","))
    _check_count(len(names), what)
    for name in names:
        if not name or _NOT_IN_NAMES.search(name):
            raise BadRequestData(f"{what} has {name[:60]!r} in it; write the names of attributes, with one comma between two")
    return names


def _check_count(count: int, what: str) -> None:
    if count > NAMES_MAX:
        raise BadRequestData(f"{what} has {count} elements; {NAMES_MAX} are allowed")


def attributes_of(text: str | None, what: str, context: Context) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_attribute(name, what, context) for name in names_of(text, what)))


def _attribute(name: str, what: str, context: Context) -> str:
    if name in _NO_ATTRIBUTES or _NOT_IN_NAMES.search(name):
        raise BadRequestData(f"{what} has {name[:60]!r} in it, which is no name of an attribute")
    return context.expand_term(name)


def dataset_ids_of(text: str | None) -> tuple[str, ...]:
    """The data sets whose instances are wanted; "@none" is the default instance."""
    if text is None or text == "":
        return ()
    parts = [part.strip() for part in text.split(",")]
    _check_count(len(parts), "datasetId")
    return tuple(part if part == NO_DATASET else check_uri(part, "a datasetId") for part in parts)


def parse_projection(text: str | None, what: str, context: Context) -> Projection:
    """`id,name,locatedAt{id,name}`: members of an entity, and in braces those of the entities that a relationship leads to."""
    if text is None or text == "":
        return Projection()
    tokens = [token.strip() for token in _PROJECTION.findall(text)]
    _check_count(len(tokens) // 2, what)
    projection, position = _projection(tokens, 0, what, context, 0)
    if position < len(tokens):
        raise BadRequestData(f"{what} has a '}}' without its '{{'; take it away")
    return projection


def _check_reach(what: str, projection: Projection, levels: int) -> None:
    """That it goes no further along relationships than the answer does."""
    if projection.linked and not levels:
        raise BadRequestData(
            f"{what} has braces for more linked entities than are asked for; add join=inline, or raise joinLevel"
        )
    for _, inner in projection.linked:
        _check_reach(what, inner, levels - 1)


def _projection(tokens: list[str], position: int, what: str, context: Context, depth: int) -> tuple[Projection, int]:
    if depth > PROJECTION_DEPTH_MAX:
        raise BadRequestData(f"{what} nests braces more than {PROJECTION_DEPTH_MAX} deep")
    names: dict[str, None] = {}
    linked: dict[str, Projection] = {}
    while True:
        token = tokens[position] if position < len(tokens) else ""
        if not token or token in ("{", "}", ",", "|"):
            where = f"before {token!r}" if token else "at its end"
            raise BadRequestData(f"{what} lacks a name {where}; write it like id,name,locatedAt{{id,name}}")
        name = _projected(token, what, context)
        position += 1
        has_braces = position < len(tokens) and tokens[position] == "{"
        if has_braces:
            if name in ENTITY_PARTS:
                raise BadRequestData(f"{what}: {token[:60]!r} is no relationship; take the braces behind it away")
            linked[name], position = _projection(tokens, position + 1, what, context, depth + 1)
            if position >= len(tokens) or tokens[position] != "}":
                raise BadRequestData(f"{what} has a '{{' without its '}}'; close it")
            position += 1
        if not has_braces or what != "omit":  # to omit members of what a relationship leads to is not to omit the relationship
            names[name] = None
        if position >= len(tokens) or tokens[position] == "}":
            return Projection(tuple(names), tuple(linked.items())), position
        if tokens[position] not in (",", "|"):
            raise BadRequestData(f"{what}: a comma is missing before {tokens[position][:60]!r}")
        position += 1


def _projected(name: str, what: str, context: Context) -> str:
    if name in ENTITY_PARTS:
        return name
    if _NOT_IN_NAMES.search(name):
        raise BadRequestData(f"{what} has {name[:60]!r} in it, which is no name; write it like id,name,locatedAt{{id,name}}")
    return context.expand_term(name)


# --- a query by POST --------------------------------------------------------------------------------------------------

_TEXTS: Final = ("q", "csf", "scopeQ", "qualityQ", "lang", "join", "geometryProperty", "format")
_LISTS: Final = ("attrs", "pick", "omit", "datasetId", "containedBy", "expandValues", "jsonKeys", "options")
# read elsewhere, or without meaning for the state of an entity
_OTHERS: Final = ("type", "@context", "entities", "geoQ", "joinLevel", "ordering", "temporalQ", "local", "aggrParams")
_OTHERS_TOO: Final = ("entityMap", "entityMapLifetime", "splitEntities", "ngsildConf")
_MEMBERS: Final = frozenset((*_TEXTS, *_LISTS, *_OTHERS, *_OTHERS_TOO))
_ORDERING: Final = frozenset({"orderBy", "collation", "coordinates", "geometry"})


def parse_query_body(
    body: Any,
    params: Mapping[str, str],
    context: Context,
    limits: Limits,
    criteria: Registry | None = None,
    *,
    geojson: bool = False,
) -> tuple[EntityQuery, View]:
    """What a Query (5.2.23) asks for; paging and options come as URL parameters. Raises BadRequestData and its like."""
    members = query_members(body)
    said: dict[str, Any] = dict(params) | members
    selectors = parse_selectors(body["entities"], context) if "entities" in body else ()
    query = _query(selectors, said, context, limits, params, criteria)
    texts = {name: value for name, value in said.items() if isinstance(value, str)}
    return query, parse_view(texts, context, geojson=geojson)


def query_members(body: Any) -> dict[str, Any]:
    """The members of a Query as if they were URL parameters; a geoQ by its own members. Entities are left out."""
    if not isinstance(body, dict) or body.get("type") != "Query":
        raise BadRequestData('the body of a query is an object with "type": "Query"')
    for name in body:
        if name not in _MEMBERS:
            raise BadRequestData(f"a Query has no member {str(name)[:60]!r}; leave it out")
    members: dict[str, Any] = {name: _text(body[name], name) for name in _TEXTS if name in body}
    members |= {name: _joined_list(body[name], name) for name in _LISTS if name in body}
    if "joinLevel" in body:
        level = body["joinLevel"]
        if isinstance(level, bool) or not isinstance(level, int | str):
            raise BadRequestData("joinLevel is a whole number")
        members["joinLevel"] = str(level)
    if "geoQ" in body:
        members |= _inner(body["geoQ"], "geoQ", frozenset(GEO_PARAMS))
        members.setdefault("georel", "")  # an empty geoQ is one without a relation, not none
        if not any(members.get(name) for name in GEO_PARAMS):
            raise BadRequestData("a geoQ needs georel, geometry and coordinates")
    if "ordering" in body:
        members |= _ordering(body["ordering"])
    return members


def _ordering(value: Any) -> dict[str, Any]:
    ordering = _inner(value, "ordering", _ORDERING)
    found: dict[str, Any] = {}
    if "orderBy" in ordering:
        found["orderBy"] = _joined_list(ordering["orderBy"], "orderBy")
    if "collation" in ordering:
        found["collation"] = _text(ordering["collation"], "collation")
    if "coordinates" in ordering:
        if not isinstance(ordering["coordinates"], list):
            raise BadRequestData("the coordinates of an ordering are an array")
        found["orderFrom"] = ordering["coordinates"]
    if "geometry" in ordering:
        found["orderGeometry"] = _text(ordering["geometry"], "geometry")
    return found


def parse_selectors(value: Any, context: Context) -> tuple[EntitySelector, ...]:
    """The `entities` of a Query: each with a type, and perhaps ids or a pattern of them."""
    if not isinstance(value, list) or not value:
        raise BadRequestData('entities is an array of objects like {"type": "Vehicle", "id": "urn:ngsi-ld:Vehicle:1"}')
    if len(value) > SELECTORS_MAX:
        raise BadRequestData(f"entities has {len(value)} elements, {SELECTORS_MAX} are allowed; one can have many ids")
    return tuple(_selector_of(item, context) for item in value)


def _selector_of(value: Any, context: Context) -> EntitySelector:
    selector = _inner(value, "one of entities", frozenset({"id", "idPattern", "type"}))
    if "type" not in selector:
        raise BadRequestData('one of entities has no type; add one, or "*" for any')
    ids = selector.get("id")
    if ids is not None:
        texts = ids if isinstance(ids, list) else [ids]
        ids = ",".join(check_uri(text, "an id in entities") for text in texts)
    pattern = _text(selector["idPattern"], "idPattern") if "idPattern" in selector else None
    return _selector(_joined_list(selector["type"], "type"), ids or None, pattern, context)


def _inner(value: Any, what: str, known: frozenset[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadRequestData(f"{what} is an object")
    for name in value:
        if name not in known:
            raise BadRequestData(f"{what} has no member {str(name)[:60]!r}; it knows {', '.join(sorted(known))}")
    return dict(value)


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise BadRequestData(f"{what} is a text, not {str(value)[:60]!r}")
    return value


def _joined_list(value: Any, what: str) -> str:
    """An array of texts, or a text that holds them already, as one text."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value or not all(isinstance(item, str) and item for item in value):
        raise BadRequestData(f"{what} is an array of texts, with at least one")
    return ",".join(value)
