"""The members of a context source registration (5.2.8 to 5.2.11, 5.2.34), each checked and with its names expanded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from hanse.filters.patterns import pattern_search
from hanse.model import InvalidInput
from hanse.ngsild.entity_maps import duration_s, moment
from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.geo import geometry_shape
from hanse.ngsild.scope_query import parse_scope_query
from hanse.ngsild.uris import check_uri

if TYPE_CHECKING:
    from collections.abc import Callable

    from hanse.ngsild.contexts import Context

TYPE: Final = "ContextSourceRegistration"
MAX_INFORMATION: Final = 1_000
MAX_NAMES: Final = 1_000  # of attributes, or of entities, in one element of information
MAX_TEXT: Final = 10_000

INCLUSIVE: Final = "inclusive"
MODES: Final = (INCLUSIVE, "exclusive", "redirect", "auxiliary")

_RETRIEVE: Final = ("retrieveEntity", "queryEntity")
_UPDATE: Final = ("updateEntity", "updateAttrs", "replaceEntity", "replaceAttrs")
_DISCOVERY: Final = (
    "retrieveEntityTypes", "retrieveEntityTypeDetails", "retrieveEntityTypeInfo", "retrieveAttrTypes", "retrieveAttrTypeDetails",
    "retrieveAttrTypeInfo",
)  # fmt: skip
_SUBSCRIPTIONS: Final = (
    "createSubscription", "updateSubscription", "retrieveSubscription", "querySubscription", "deleteSubscription",
)  # fmt: skip
_BATCHES: Final = ("createBatch", "upsertBatch", "updateBatch", "deleteBatch", "mergeBatch", "queryBatch", "queryBatchTemporal")
_TEMPORAL: Final = (
    "upsertTemporal", "appendAttrsTemporal", "deleteAttrsTemporal", "updateAttrsTemporal", "updateAttrInstanceTemporal",
    "deleteAttrInstanceTemporal", "deleteTemporal", "retrieveTemporal", "queryTemporal",
)  # fmt: skip
_MAPS: Final = (
    "createEntityMap", "queryEntityMap", "retrieveEntityMap", "updateEntityMap", "deleteEntityMap", "createEntityMapTemporal",
    "retrieveSourceIdentity",
)  # fmt: skip
GROUPS: Final[dict[str, tuple[str, ...]]] = {  # clause 4.20: one name for several operations
    "federationOps": (*_RETRIEVE, "queryBatch", *_DISCOVERY, *_SUBSCRIPTIONS, *_MAPS),
    "updateOps": _UPDATE,
    "retrieveOps": _RETRIEVE,
    "redirectionOps": (
        "createEntity",
        "appendAttrs",
        "deleteAttrs",
        "deleteEntity",
        "mergeEntity",
        "purgeEntity",
        *_UPDATE,
        *_RETRIEVE,
        *_DISCOVERY,
    ),
}
OPERATIONS: Final = frozenset(
    {*GROUPS, *_BATCHES, *_TEMPORAL, *(name for names in GROUPS.values() for name in names)}
)  # fmt: skip
DEFAULT_OPERATIONS: Final = ("federationOps",)
READING: Final = frozenset({"retrieveOps", *_RETRIEVE})  # what an auxiliary source may be asked

GEO_MEMBERS: Final = ("location", "observationSpace", "operationSpace")
MANDATORY: Final = ("information", "endpoint")
READ_ONLY: Final = frozenset(
    {"status", "timesSent", "timesFailed", "lastSuccess", "lastFailure", "createdAt", "modifiedAt", "deletedAt"}
)


def expanded_members(body: Any, context: Context, *, is_fragment: bool = False) -> dict[str, Any]:
    """The document with names expanded and every member checked by itself. In a fragment, null takes a member away."""
    if not isinstance(body, dict):
        raise BadRequestData("a context source registration is a JSON object")
    members: dict[str, Any] = {}
    for name, value in body.items():
        if name in READ_ONLY or name == "@context":
            continue
        check = CHECKS.get(name)
        if value is None:
            if not is_fragment or name in ("id", "type", *MANDATORY):
                raise BadRequestData(f"{name[:60]} cannot be null; a registration needs it" if check else f"{name[:60]} is null")
            members[name if check else context.expand_term(name)] = None
        elif check is not None:
            members[name] = check(value, context)
        else:
            members[_property_name(name, context)] = value
    return members


def _property_name(name: str, context: Context) -> str:
    if not name or name.startswith("@"):
        raise BadRequestData(f"{name[:60]!r} is not the name of a Context Source Property")
    return context.expand_term(name)


# --- one member each ----------------------------------------------------------------------------------------------------


def texts(value: Any, what: str, most: int = MAX_NAMES) -> list[str]:
    """A list of at least one text."""
    if not isinstance(value, list) or not value or not all(isinstance(item, str) and item for item in value):
        raise BadRequestData(f"{what} is a list of at least one text")
    if len(value) > most:
        raise BadRequestData(f"{what} has {len(value)} elements; {most} are allowed")
    return value


def _id(value: Any, _context: Context) -> str:
    return check_uri(value, "the id of a registration")


def _type(value: Any, _context: Context) -> str:
    if value != TYPE:
        raise BadRequestData(f"the type of a registration is {TYPE}, not {str(value)[:60]!r}")
    return TYPE


def _text(what: str) -> Callable[[Any, Context], str]:
    def check(value: Any, _context: Context) -> str:
        if not isinstance(value, str) or not value.strip() or len(value) > MAX_TEXT:
            raise BadRequestData(f"{what} is a text that is not empty")
        return value

    return check


def _endpoint(value: Any, _context: Context) -> str:
    url = check_uri(value, "the endpoint")
    try:
        parts = urlsplit(url)
        reachable = bool(parts.scheme and parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        reachable = False
    if not reachable:
        raise BadRequestData(f"the endpoint {url[:60]!r} cannot be reached; write it like http://source.example:9090")
    return url


def _information(value: Any, context: Context) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not value:
        raise BadRequestData("information is a list of at least one element, with entities, propertyNames or relationshipNames")
    if len(value) > MAX_INFORMATION:
        raise BadRequestData(f"information has {len(value)} elements; {MAX_INFORMATION} are allowed")
    return [_registration_info(item, context) for item in value]


def _registration_info(value: Any, context: Context) -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        raise BadRequestData("an element of information is an object with entities, propertyNames or relationshipNames")
    info: dict[str, Any] = {}
    for name, member in value.items():
        if name == "entities":
            if not isinstance(member, list) or not member or len(member) > MAX_NAMES:
                raise BadRequestData(f"entities is a list of one to {MAX_NAMES} objects; leave it out to mean any")
            info[name] = [_entity_info(item, context) for item in member]
        elif name in ("propertyNames", "relationshipNames"):
            info[name] = [context.expand_term(item) for item in texts(member, name)]
        else:
            raise BadRequestData(
                f"an element of information has no member {name[:60]!r}; use entities, propertyNames and relationshipNames"
            )
    return info


def _entity_info(value: Any, context: Context) -> dict[str, Any]:
    if not isinstance(value, dict) or "type" not in value:
        raise BadRequestData("an element of entities is an object with a type")
    info: dict[str, Any] = {}
    for name, member in value.items():
        if name == "type":
            types = [member] if isinstance(member, str) and member else texts(member, "the type of an element of entities")
            expanded = [context.expand_type(item) for item in types]
            info[name] = expanded if isinstance(member, list) else expanded[0]
        elif name == "id":
            info[name] = check_uri(member, "the id of an element of entities")
        elif name == "idPattern":
            info[name] = id_pattern(member)
        else:
            raise BadRequestData(f"an element of entities has no member {name[:60]!r}; use type, id and idPattern")
    return info


def id_pattern(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise BadRequestData("idPattern is a regular expression, a text")
    try:
        pattern_search(value)
    except InvalidInput as error:
        raise BadRequestData(str(error)) from None
    return value


def _context_source_info(value: Any, _context: Context) -> list[dict[str, str]]:
    if not isinstance(value, list):
        raise BadRequestData('contextSourceInfo is a list of objects like {"key": "X-Token", "value": "..."}')
    for pair in value:
        if (
            not isinstance(pair, dict)
            or pair.keys() != {"key", "value"}
            or not all(isinstance(text, str) for text in pair.values())
        ):
            raise BadRequestData("an element of contextSourceInfo has a key and a value, both texts")
    return value


def _dataset_ids(value: Any, _context: Context) -> list[str]:
    return [item if item == "@none" else check_uri(item, "an element of datasetId") for item in texts(value, "datasetId")]


def _geometry(what: str) -> Callable[[Any, Context], dict[str, Any]]:
    def check(value: Any, _context: Context) -> dict[str, Any]:
        if not isinstance(value, dict) or "type" not in value or "coordinates" not in value:
            raise BadRequestData(f"{what} is a GeoJSON geometry, with type and coordinates")
        geometry_shape(value["type"], value["coordinates"])
        return value

    return check


def _management(value: Any, _context: Context) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadRequestData("management is an object with localOnly, cacheDuration, timeout or cooldown")
    for name, member in value.items():
        if name == "localOnly":
            if not isinstance(member, bool):
                raise BadRequestData("management.localOnly is true or false")
        elif name == "cacheDuration":
            duration_s(member, "management.cacheDuration")
        elif name in ("timeout", "cooldown"):
            if isinstance(member, bool) or not isinstance(member, int | float) or not 0 < member < float("inf"):
                raise BadRequestData(f"management.{name} is a number of milliseconds greater than 0")
        else:
            raise BadRequestData(f"management has no member {name[:60]!r}")
    return value


def _interval(what: str) -> Callable[[Any, Context], dict[str, str]]:
    def check(value: Any, _context: Context) -> dict[str, str]:
        if not isinstance(value, dict) or "startAt" not in value or not value.keys() <= {"startAt", "endAt"}:
            raise BadRequestData(f"{what} is an object with startAt and, if it ends, endAt")
        start = moment(value["startAt"], f"{what}.startAt")
        if "endAt" in value and moment(value["endAt"], f"{what}.endAt") < start:
            raise BadRequestData(f"{what} ends before it starts")
        return value

    return check


def _expires_at(value: Any, _context: Context) -> str:
    moment(value, "expiresAt")
    return str(value)


def _mode(value: Any, _context: Context) -> str:
    if value not in MODES:
        raise BadRequestData(f"mode is one of {', '.join(MODES)}, not {str(value)[:60]!r}")
    return str(value)


def _operations(value: Any, _context: Context) -> list[str]:
    for name in texts(value, "operations"):
        if name not in OPERATIONS:
            raise BadRequestData(f"there is no operation {name[:60]!r}; see clause 4.20 of NGSI-LD for their names")
    return list(value)


def _refresh_rate(value: Any, _context: Context) -> str:
    duration_s(value, "refreshRate")
    return str(value)


def _scope(value: Any, _context: Context) -> str | list[str]:
    scopes = [value] if isinstance(value, str) else texts(value, "scope")
    for scope in scopes:
        clauses = parse_scope_query(scope)
        if len(clauses) != 1 or len(clauses[0]) != 1 or {"+", "#"} & set(scope.split("/")):
            raise BadRequestData(f"{scope[:60]!r} is not a scope; write it like /Madrid/Gardens")
    return value  # type: ignore[no-any-return]


def _quality(value: Any, _context: Context) -> str:
    """As it was written: `registrations` reads it, by the criteria that are known."""
    if not isinstance(value, str) or not value.strip():
        raise BadRequestData("qualityQ is a text like temperature.precision>=40;freshness<=60, not empty")
    return value


CHECKS: Final[dict[str, Callable[[Any, Context], Any]]] = {
    "id": _id,
    "type": _type,
    "endpoint": _endpoint,
    "information": _information,
    "registrationName": _text("registrationName"),
    "description": _text("description"),
    "tenant": _text("tenant"),
    "contextSourceAlias": _text("contextSourceAlias"),
    "contextSourceInfo": _context_source_info,
    "datasetId": _dataset_ids,
    "expiresAt": _expires_at,
    "management": _management,
    "managementInterval": _interval("managementInterval"),
    "observationInterval": _interval("observationInterval"),
    "mode": _mode,
    "operations": _operations,
    "qualityQ": _quality,
    "refreshRate": _refresh_rate,
    "scope": _scope,
    **{name: _geometry(name) for name in GEO_MEMBERS},
}
