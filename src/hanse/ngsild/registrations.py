"""Context source registrations (clauses 5.2.9, 5.9, 5.10, 5.12): who else has which entities and attributes.

A registration is kept as the document that was given, with the names of types, attributes and Context Source Properties expanded;
members that NGSI-LD names itself keep their short names. Everything else is read from that: a patch makes a new document, and
what held for a new registration holds for it. `matching_information` is the one meaning of "this registration may have what is
sought": discovery, registration subscriptions and conflicts ask it, and forwarding will.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from uuid import uuid4

import msgspec
from msgspec import Struct

from hanse.filters import compile_q, rename_attributes
from hanse.filters.patterns import pattern_search
from hanse.model import Advertisement, InvalidInput, Selector
from hanse.model.values import MAX_SELECTORS
from hanse.ngsild.entity import NGSI_LD
from hanse.ngsild.entity_maps import moment
from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.geo import GeoQuery, parse_geo_query, value_matches
from hanse.ngsild.quality import parse_quality, parse_quality_member
from hanse.ngsild.query import EntityQuery, EntitySelector, matches
from hanse.ngsild.registration_members import (
    CHECKS,
    DEFAULT_OPERATIONS,
    GEO_MEMBERS,
    GROUPS,
    INCLUSIVE,
    MANDATORY,
    READING,
    TYPE,
    expanded_members,
    id_pattern,
)
from hanse.ngsild.scope_query import parse_scope_query, scope_matches
from hanse.ngsild.selection import parse_type_query, types_match
from hanse.ngsild.uris import check_uri
from hanse.quality.contracts import check

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hanse.ngsild.contexts import Context
    from hanse.ngsild.entity import Entity
    from hanse.quality import Registry

Timerel: TypeAlias = Literal["before", "after", "between"]

OBSERVED: Final = "observedAt"
MANAGED: Final = ("createdAt", "modifiedAt", "deletedAt")
_GEO_NAMES: Final = {NGSI_LD + name: name for name in GEO_MEMBERS}


class EntityInfo(Struct, frozen=True):
    types: tuple[str, ...]
    id: str | None = None
    id_pattern: str | None = None  # counts only where there is no id


class RegistrationInfo(Struct, frozen=True):
    """Some entities (none named: any), and some of their attributes (none named: any)."""

    entities: tuple[EntityInfo, ...] = ()
    names: tuple[str, ...] = ()


class Registration(Struct, frozen=True, kw_only=True):
    id: str
    document: dict[str, Any]  # as given, names expanded, without the read-only members
    created_at: str
    modified_at: str
    information: tuple[RegistrationInfo, ...]  # from here on: what the document says, to work with
    endpoint: str
    mode: str = INCLUSIVE
    operations: frozenset[str] = frozenset()  # groups taken apart
    scopes: tuple[str, ...] = ()
    dataset_ids: frozenset[str] = frozenset()
    expires_at: datetime | None = None
    quality: str = ""  # what it guarantees: its qualityQ with expanded names and numbers only

    def is_over(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now


class _Stored(Struct):
    document: dict[str, Any]
    created_at: str
    modified_at: str
    quality: str = ""


# --- reading, changing, showing -----------------------------------------------------------------------------------------


def parse_registration(body: Any, context: Context, now: str, criteria: Registry | None = None) -> Registration:
    """A new registration, its guarantee by these criteria; it gets an id if it brings none."""
    document = expanded_members(body, context)
    if "type" not in document:
        raise BadRequestData(f"the type is missing; it is {TYPE}")
    quality = _guarantee(document, context, criteria)
    return _checked({"id": f"urn:ngsi-ld:{TYPE}:{uuid4()}", **document}, now, now, now, quality)


def patch_registration(
    registration: Registration, body: Any, context: Context, now: str, criteria: Registry | None = None
) -> Registration:
    """What a fragment makes of it (5.5.8): each member takes the place of the old one, null takes it away."""
    fragment = expanded_members(body, context, is_fragment=True)
    if fragment.get("id", registration.id) != registration.id:
        raise BadRequestData("the id of a registration cannot change; register it anew")
    document = {name: value for name, value in (registration.document | fragment).items() if value is not None}
    quality = _guarantee(document, context, criteria) if "qualityQ" in fragment else registration.quality
    return _checked(document, registration.created_at, now, now if "expiresAt" in fragment else None, quality)


def _guarantee(document: Mapping[str, Any], context: Context, criteria: Registry | None) -> str:
    """What a document guarantees of quality; it must be possible to keep."""
    if "qualityQ" not in document:
        return ""
    quality = parse_quality_member(document["qualityQ"], context, criteria)
    if missing := check(quality, "").missing:
        raise BadRequestData(f"qualityQ: {'; '.join(missing)}")
    return quality


def _checked(document: dict[str, Any], created_at: str, modified_at: str, now: str | None, quality: str) -> Registration:
    """What the members say together, once each of them is right. `now`: an end before that makes no sense."""
    for name in MANDATORY:
        if name not in document:
            raise BadRequestData(f"{name} is missing; a registration needs it")
    registration = _read(document, created_at, modified_at, quality)
    if now is not None and registration.is_over(moment(now, "now")):
        raise BadRequestData("expiresAt is in the past; leave it out for a registration without an end")
    if registration.mode == "exclusive":
        for info in registration.information:
            if not info.entities or any(entity.id is None or entity.id_pattern is not None for entity in info.entities):
                raise BadRequestData("an exclusive registration is for single entities: give each an id and no idPattern")
            if not info.names:
                raise BadRequestData("an exclusive registration is for attributes: give propertyNames or relationshipNames")
    if registration.mode == "auxiliary" and not READING.issuperset(document.get("operations", ())):
        raise BadRequestData(f"the operations of an auxiliary registration are among {', '.join(sorted(READING))}")
    return registration


def _read(document: dict[str, Any], created_at: str, modified_at: str, quality: str) -> Registration:
    scope = document.get("scope", [])
    mode = document.get("mode", INCLUSIVE)
    can_do = document.get("operations", ("retrieveOps",) if mode == "auxiliary" else DEFAULT_OPERATIONS)
    return Registration(
        id=document["id"],
        document=document,
        created_at=created_at,
        modified_at=modified_at,
        information=tuple(map(_registration_info, document["information"])),
        endpoint=document["endpoint"],
        mode=mode,
        operations=frozenset(name for group in can_do for name in GROUPS.get(group, (group,))),
        scopes=(scope,) if isinstance(scope, str) else tuple(scope),
        dataset_ids=frozenset(document.get("datasetId", ())),
        expires_at=moment(document["expiresAt"], "expiresAt") if "expiresAt" in document else None,
        quality=quality,
    )


def _registration_info(info: Mapping[str, Any]) -> RegistrationInfo:
    return RegistrationInfo(
        tuple(
            EntityInfo(
                (types,) if isinstance(types := entity["type"], str) else tuple(types), entity.get("id"), entity.get("idPattern")
            )
            for entity in info.get("entities", ())
        ),
        (*info.get("propertyNames", ()), *info.get("relationshipNames", ())),
    )


def encode_registration(registration: Registration) -> bytes:
    return msgspec.json.encode(
        _Stored(registration.document, registration.created_at, registration.modified_at, registration.quality)
    )


def decode_registration(data: bytes) -> Registration:
    stored = msgspec.json.decode(data, type=_Stored)
    return _read(stored.document, stored.created_at, stored.modified_at, stored.quality)


def represent_registration(registration: Registration, context: Context, *, sys_attrs: bool = False) -> dict[str, Any]:
    """As a client sees it, names compacted."""
    shown: dict[str, Any] = {}
    for name, value in registration.document.items():
        if name == "information":
            shown[name] = [represent_info(info, context) for info in value]
        else:
            shown[name if name in CHECKS else context.compact_iri(name)] = value
    if sys_attrs:
        shown |= {"createdAt": registration.created_at, "modifiedAt": registration.modified_at}
    return shown


def represent_info(info: Mapping[str, Any], context: Context, *, type_lists: bool = False) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, value in info.items():
        if name == "entities":
            shown[name] = [entity | {"type": _compact_types(entity["type"], context, type_lists)} for entity in value]
        else:
            shown[name] = [context.compact_iri(item) for item in value]
    return shown


def _compact_types(types: str | list[str], context: Context, as_list: bool) -> str | list[str]:
    if isinstance(types, str) and not as_list:
        return context.compact_type(types)
    return [context.compact_type(name) for name in ([types] if isinstance(types, str) else types)]


# --- what is sought -----------------------------------------------------------------------------------------------------


class TimeQuery(Struct, frozen=True):
    timerel: Timerel
    time_at: datetime
    end_time_at: datetime | None = None
    timeproperty: str = OBSERVED


class Sought(Struct, frozen=True, kw_only=True):
    """What a query, or a subscription to registrations, asks of a registration. Everything given must fit."""

    selectors: tuple[EntitySelector, ...] = ()  # any of them; none: any entity
    attrs: tuple[str, ...] = ()  # any of them; none: any attribute
    dataset_ids: frozenset[str] = frozenset()
    geo: GeoQuery | None = None
    csf: str = ""  # on the members and properties of the registration itself
    scope_q: str = ""
    quality: str = ""  # what must be possible under the guarantee of the source
    time: TimeQuery | None = None  # None: sources of what holds now, not of history
    operations: frozenset[str] = frozenset()  # any of them; none: whatever the source can do
    passed: frozenset[str] = frozenset()  # aliases of sources that a request has been through: going back would be a loop


def parse_sought(params: Mapping[str, str], context: Context, criteria: Registry | None = None) -> Sought:
    """The URL parameters of a discovery (6.8.3.2). Raises BadRequestData."""
    types = parse_type_query(params["type"], context) if "type" in params else ()
    ids = tuple(check_uri(item.strip(), "an id") for item in params["id"].split(",")) if "id" in params else ()
    pattern = id_pattern(params["idPattern"]) if "idPattern" in params else None
    given = [item.strip() for item in params["attrs"].split(",")] if params.get("attrs") else []
    if "" in given:
        raise BadRequestData("attrs has an empty name; put one comma between two names")
    attrs = [context.expand_term(name) for name in given]
    geo = None
    if any(name in params for name in ("georel", "geometry", "coordinates")):
        geo = parse_geo_query(params, context)
    if "q" in params:
        attrs += queried_names(params["q"], context)
    if geo is not None and params.get("geoproperty"):
        attrs.append(geo.geoproperty)
    if not ("type" in params or ids or attrs or geo):
        raise BadRequestData("say at least one of type, attrs, id, q and georel: everything is too much")
    if scope_q := params.get("scopeQ", ""):
        parse_scope_query(scope_q)
    return Sought(
        selectors=(EntitySelector(types, ids, pattern),) if types or ids or pattern else (),
        attrs=tuple(dict.fromkeys(attrs)),
        dataset_ids=frozenset(params["datasetId"].split(",")) if params.get("datasetId") else frozenset(),
        geo=geo,
        csf=parse_csf(params["csf"], context) if params.get("csf") else "",
        scope_q=scope_q,
        quality=parse_quality(params["qualityQ"], context, criteria) if params.get("qualityQ") else "",
        time=parse_time_query(params) if "timerel" in params or "timeAt" in params else None,
    )


def queried_names(q: str, context: Context) -> list[str]:
    """The attributes that a query looks at: a source that may have them is relevant, whatever their values there."""
    try:
        return sorted({context.expand_term(path.names[0]) for path in compile_q(q).paths})
    except InvalidInput as error:
        raise BadRequestData(f"q: {error}") from None


def parse_csf(text: str, context: Context) -> str:
    """A context source filter with its names as a document has them."""
    try:
        renamed = rename_attributes(text, lambda name: name if name in CHECKS else context.expand_term(name))
        compile_q(renamed)
    except InvalidInput as error:
        raise BadRequestData(f"csf: {error}") from None
    return renamed


def parse_time_query(params: Mapping[str, Any]) -> TimeQuery:
    """From `timerel`, `timeAt`, `endTimeAt` and `timeproperty`: URL parameters, or the members of a temporalQ."""
    timerel = params.get("timerel")
    if timerel not in ("before", "after", "between"):
        raise BadRequestData(f"timerel is before, after or between, not {str(timerel)[:60]!r}")
    if "timeAt" not in params:
        raise BadRequestData("timerel needs timeAt, a time like 2030-01-31T12:00:00Z")
    time_at = moment(params["timeAt"], "timeAt")
    end = None
    if timerel == "between":
        end = moment(params.get("endTimeAt"), "endTimeAt")
        if end <= time_at:
            raise BadRequestData("endTimeAt is after timeAt")
    timeproperty = params.get("timeproperty") or OBSERVED
    if timeproperty not in (OBSERVED, *MANAGED):
        raise BadRequestData(f"timeproperty is one of {', '.join((OBSERVED, *MANAGED))}, not {str(timeproperty)[:60]!r}")
    return TimeQuery(timerel, time_at, end, timeproperty)


# --- matching -----------------------------------------------------------------------------------------------------------


def matching_information(registration: Registration, sought: Sought) -> tuple[int, ...]:
    """Which elements of the information may have what is sought (5.12); none: this registration is not relevant."""
    if not _source_fits(registration, sought):
        return ()
    return tuple(
        position for position, info in enumerate(registration.information) if info_fits(info, sought.selectors, sought.attrs)
    )


def info_fits(info: RegistrationInfo, selectors: tuple[EntitySelector, ...], attrs: tuple[str, ...]) -> bool:
    if attrs and info.names and not any(name in info.names for name in attrs):
        return False
    if not selectors or not info.entities:
        return True
    return any(entity_fits(entity, selector) for selector in selectors for entity in info.entities)


def entity_fits(entity: EntityInfo, selector: EntitySelector) -> bool:
    if not types_match(selector.types, entity.types):
        return False
    if not selector.ids and selector.id_pattern is None:
        return True
    if entity.id is not None:
        return entity.id in selector.ids or (selector.id_pattern is not None and pattern_search(selector.id_pattern)(entity.id))
    if entity.id_pattern is None or selector.id_pattern is not None:
        return True  # whether two patterns have an id in common is not known, so they may
    return any(map(pattern_search(entity.id_pattern), selector.ids))


def _source_fits(registration: Registration, sought: Sought) -> bool:
    """Whether the source as a whole fits: its intervals, data sets, scopes, places and properties (5.10.2.4)."""
    document = registration.document
    if not _times_fit(document, sought.time):
        return False
    if sought.dataset_ids and registration.dataset_ids and not sought.dataset_ids & registration.dataset_ids:
        return False
    if sought.operations and not sought.operations & registration.operations:
        return False
    if not may_satisfy(registration, sought.quality):
        return False
    if sought.passed and document.get("contextSourceAlias") in sought.passed:
        return False
    if not scope_matches(sought.scope_q, registration.scopes):
        return False
    if sought.geo is not None and not place_fits(document, sought.geo):
        return False
    return not sought.csf or bool(
        compile_q(sought.csf).matches({"mode": INCLUSIVE, "operations": [*DEFAULT_OPERATIONS], **document})
    )


def may_satisfy(registration: Registration, quality: str) -> bool:
    """Whether what a source guarantees leaves room for what is asked; one that guarantees nothing may have any quality."""
    return not quality or not registration.quality or check(registration.quality, quality).kind != "impossible"


def _times_fit(document: Mapping[str, Any], time: TimeQuery | None) -> bool:
    if time is None:
        return "observationInterval" not in document and "managementInterval" not in document
    interval = document.get("observationInterval" if time.timeproperty == OBSERVED else "managementInterval")
    if interval is None:
        return False
    start = moment(interval["startAt"], "startAt")
    end = moment(interval["endAt"], "endAt") if "endAt" in interval else None
    begins_in_time = time.timerel == "after" or start <= (time.end_time_at or time.time_at)
    ends_in_time = time.timerel == "before" or end is None or end >= time.time_at
    return begins_in_time and ends_in_time


def place_fits(document: Mapping[str, Any], geo: GeoQuery) -> bool:
    """Whether the place matches, or may have places in it that do."""
    place = document.get(_GEO_NAMES.get(geo.geoproperty, geo.geoproperty))
    if isinstance(place, dict) and place.get("type") == "GeoProperty":
        place = place.get("value")
    if not isinstance(place, dict):
        return False
    if place.get("type") == "Point" or value_matches(geo, place):
        return value_matches(geo, place)
    if geo.georel == "disjoint":
        return not value_matches(msgspec.structs.replace(geo, georel="within"), place)
    if geo.georel != "near":
        return value_matches(msgspec.structs.replace(geo, georel="intersects"), place)
    # farther than: a corner is the farthest that there is
    return geo.min_distance_m is not None and any(
        value_matches(geo, {"type": "Point", "coordinates": corner}) for corner in _corners(place.get("coordinates"))
    )


def _corners(coordinates: Any) -> Iterable[Any]:
    if isinstance(coordinates, list | tuple) and coordinates:
        if isinstance(coordinates[0], list | tuple):
            for part in coordinates:
                yield from _corners(part)
        else:
            yield coordinates


# --- what a registration stands in the way of ---------------------------------------------------------------------------


def conflicting(new: Registration, old: Registration) -> bool:
    """Whether both want an attribute of an entity for themselves (4.3.6.3): one is exclusive, the other not inclusive."""
    modes = {new.mode, old.mode}
    if "exclusive" not in modes or not modes <= {"exclusive", "redirect"} or new.id == old.id:
        return False
    lone, other = (new, old) if new.mode == "exclusive" else (old, new)
    return any(info_fits(info, wanted.selectors, wanted.attrs) for wanted in claims(lone) for info in other.information)


def claims(registration: Registration) -> list[EntityQuery]:
    """Queries that find the entities here which a source wants for itself; none for one that shares."""
    if registration.mode not in ("exclusive", "redirect"):
        return []
    return [
        EntityQuery(
            selectors=tuple(
                EntitySelector(
                    # an exclusive source has the attributes of that entity, whatever its type is here
                    () if registration.mode == "exclusive" else (tuple(entity.types),),
                    () if entity.id is None else (entity.id,),
                    entity.id_pattern if entity.id is None else None,
                )
                for entity in info.entities
            ),
            attrs=info.names,
            limit=1,
        )
        for info in registration.information
    ]


def claimed(registration: Registration, entity: Entity) -> bool:
    """Whether a source has some of an entity for itself: the plain meaning of `claims`."""
    return any(matches(claim, entity) for claim in claims(registration))


def advertisement(registration: Registration, client: str) -> Advertisement:
    """What the source is going to publish, in the words of the core; more than that where there are too many words."""
    selectors: list[Selector] = []
    for info in registration.information:
        if not info.entities:
            selectors = []
            break
        selectors += [
            Selector(type=name, id=entity.id, id_pattern=entity.id_pattern if entity.id is None else None)
            for entity in info.entities
            for name in entity.types
        ]
    return Advertisement(
        id=registration.id,
        client=client,
        selectors=tuple(selectors) if len(selectors) <= MAX_SELECTORS else (),
        quality=registration.quality,
        expires_at_ms=None if registration.expires_at is None else int(registration.expires_at.timestamp() * 1000),
    )
