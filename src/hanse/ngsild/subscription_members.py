"""The members of a subscription, one by one: from what a client wrote to values with expanded names, and the nested ones back.

Each reader takes a value, the name to complain about and the context of names. It raises BadRequestData or InvalidInput.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from hanse.filters import compile_q
from hanse.filters.patterns import pattern_search
from hanse.model import InvalidInput, Location, Subscription
from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.geo import parse_geo_query
from hanse.ngsild.parameters import expand_q, parse_projection
from hanse.ngsild.query import EntitySelector
from hanse.ngsild.representation import ENTITY_PARTS, Projection
from hanse.ngsild.scope_query import parse_scope_query
from hanse.ngsild.selection import parse_type_query
from hanse.ngsild.uris import check_uri

if TYPE_CHECKING:
    from collections.abc import Callable

    from hanse.ngsild.contexts import Context

Trigger: TypeAlias = Literal[
    "entityCreated", "entityUpdated", "entityDeleted", "attributeCreated", "attributeUpdated", "attributeDeleted"
]
Format: TypeAlias = Literal["normalized", "concise", "simplified", "keyValues"]
Join: TypeAlias = Literal["inline", "flat"]
Pairs: TypeAlias = tuple[tuple[str, str], ...]
Reader: TypeAlias = "Callable[[Any, str, Context], Any]"

TRIGGERS: Final = frozenset(Trigger.__args__)  # type: ignore[attr-defined]
DEFAULT_TRIGGERS: Final = ("attributeCreated", "attributeUpdated")
ACCEPTED: Final = ("application/json", "application/ld+json", "application/geo+json")
STREAM_URI: Final = "urn:hanse:stream"  # an endpoint for those who listen by Server-Sent Events or a WebSocket only

ENTITIES_MAX: Final = 64
NAMES_MAX: Final = 1024
PAIRS_MAX: Final = 64
TEXT_MAX: Final = 4096
JOIN_LEVEL_MAX: Final = 10
SECONDS_MAX: Final = 10 * 366 * 86_400.0

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_NOT_A_NAME = re.compile(r"""[\s"'<>\\^`{}()|;,\x00-\x1f]""")


class Receiver(Struct, frozen=True, omit_defaults=True):
    """Where notifications go: the `endpoint` of a subscription."""

    uri: str
    accept: str | None = None
    receiver_info: Pairs = ()
    notifier_info: Pairs = ()
    timeout_ms: float | None = None
    cooldown_ms: float | None = None


class Notice(Struct, frozen=True, omit_defaults=True):
    """What a notification carries, and in which form: the `notification` of a subscription."""

    endpoint: Receiver
    attributes: tuple[str, ...] = ()
    pick: Projection = Projection()
    omit: Projection = Projection()
    format: Format | None = None
    show_changes: bool = False
    sys_attrs: bool = False
    only_changed: bool = False
    join: Join | None = None
    join_level: int | None = None


def _entities(value: Any, name: str, context: Context) -> tuple[EntitySelector, ...]:
    if not isinstance(value, list) or not value:
        raise BadRequestData(f"{name} is a list of at least one entity selector")
    if len(value) > ENTITIES_MAX:
        raise BadRequestData(f"{name} has {len(value)} members; {ENTITIES_MAX} are allowed")
    return tuple(_selector(item, context) for item in value)


def _selector(item: Any, context: Context) -> EntitySelector:
    if not isinstance(item, dict):
        raise BadRequestData('an entity selector is an object like {"type": "Building"}')
    given = {key: value for key, value in item.items() if value is not None}
    selection = given.get("type")
    if isinstance(selection, list) and selection and all(isinstance(part, str) for part in selection):
        selection = ",".join(selection)
    if not isinstance(selection, str):
        raise BadRequestData('an entity selector needs a type: a name or an expression of names, "*" for any')
    ids = given.get("id", [])
    ids = ids if isinstance(ids, list) else [ids]
    pattern = given.get("idPattern")
    if pattern is not None:
        pattern = _text(pattern, "idPattern", context)
        pattern_search(pattern)  # raises InvalidInput if it is none
    return EntitySelector(
        types=parse_type_query(selection, context),
        ids=tuple(check_uri(id_, "the id of an entity selector") for id_ in ids[: NAMES_MAX + 1]),
        id_pattern=pattern,
    )


def _names(value: Any, name: str) -> list[str]:
    if not isinstance(value, list) or not value:
        raise BadRequestData(f"{name} is a list of at least one name; leave it out to mean all")
    if len(value) > NAMES_MAX:
        raise BadRequestData(f"{name} has {len(value)} names; {NAMES_MAX} are allowed")
    for item in value:
        if not isinstance(item, str) or not item or len(item) > TEXT_MAX:
            raise BadRequestData(f"{name} has {str(item)[:60]!r} in it, which is no name of an attribute")
    return value


def _attributes(value: Any, name: str, context: Context) -> tuple[str, ...]:
    names = _names(value, name)
    for item in names:
        if _NOT_A_NAME.search(item):
            raise BadRequestData(f"{name} has {item[:60]!r} in it, which is no name of an attribute")
    return tuple(dict.fromkeys(context.expand_term(item) for item in names))


def _projected(value: Any, name: str, context: Context) -> Projection:
    return parse_projection(",".join(_names(value, name)), name, context)


def _q(value: Any, name: str, context: Context) -> str:
    """With expanded names. In a body, too, clients escape a query as they would in a URL."""
    text = _text(value, name, context)
    if "%" in text:
        text = unquote(re.sub("%2[Ee]", "%252E", text))  # an escaped dot is part of a name, and stays one
    return expand_q(text, context)


def _geo_q(value: Any, name: str, context: Context) -> Any:
    if not isinstance(value, dict):
        raise BadRequestData(f"{name} is an object with georel, geometry and coordinates")
    return parse_geo_query(value, context)


def _scope_q(value: Any, name: str, context: Context) -> str:
    text = _text(value, name, context)
    parse_scope_query(text)
    return text


def _csf(value: Any, name: str, context: Context) -> str:
    text = _text(value, name, context)
    compile_q(text)
    return text


def _uris(value: Any, name: str, _context: Context) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    if not items or len(items) > NAMES_MAX:
        raise BadRequestData(f"{name} is a list of 1 to {NAMES_MAX} URIs")
    return tuple(item if item == "@none" else check_uri(item, f"{name}") for item in items)


def _triggers(value: Any, name: str, _context: Context) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise BadRequestData(f"{name} is a list of at least one trigger; leave it out for the default")
    for item in value:
        if not isinstance(item, str) or item not in TRIGGERS:
            raise BadRequestData(f"{name} has {str(item)[:60]!r} in it; choose from {', '.join(sorted(TRIGGERS))}")
    return tuple(dict.fromkeys(value))


def _text(value: Any, name: str, _context: Context) -> str:
    if not isinstance(value, str) or not value:
        raise BadRequestData(f"{name} is a text, not empty")
    if len(value) > 2 * TEXT_MAX:
        raise BadRequestData(f"{name} has {len(value)} characters; {2 * TEXT_MAX} are allowed")
    return value


def _flag(value: Any, name: str, _context: Context) -> bool:
    if not isinstance(value, bool):
        raise BadRequestData(f"{name} is true or false")
    return value


def _seconds(value: Any, name: str, _context: Context) -> float:
    return _number(value, name, "seconds")


def _number(value: Any, name: str, unit: str, *, or_zero: bool = False) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or (isinstance(value, float) and not math.isfinite(value)):
        raise BadRequestData(f"{name} is a number of {unit}")
    if value < 0 or (value == 0 and not or_zero) or value > SECONDS_MAX * 1000:
        raise BadRequestData(f"{name} is a number of {unit} greater than 0, not {str(value)[:40]}")
    return value


def _context_url(value: Any, name: str, _context: Context) -> str:
    return check_uri(value, name)


def _location(value: Any, name: str, _context: Context) -> tuple[float, float]:
    coordinates = value.get("coordinates") if isinstance(value, dict) and value.get("type") == "Point" else None
    if not isinstance(coordinates, list) or len(coordinates) < 2:
        raise BadRequestData(f'{name} is a GeoJSON point: {{"type": "Point", "coordinates": [longitude, latitude]}}')
    lon, lat = (_coordinate(part, name) for part in coordinates[:2])
    try:
        Location(lat, lon)
    except InvalidInput as error:
        raise BadRequestData(f"{name}: {error}") from None
    return lon, lat


def _coordinate(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 360:
        raise BadRequestData(f"{name} has {str(value)[:40]!r} for a coordinate; a number of degrees belongs there")
    return float(value)


def _scopes(value: Any, name: str, _context: Context) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(scope, str) for scope in value.values()):
        raise BadRequestData(f"{name} is an object that says a scope for each dimension")
    try:
        Subscription(id="x", client="x", scopes=value)
    except InvalidInput as error:
        raise BadRequestData(f"{name}: {error}") from None
    return value


def instant_ms(value: Any, name: str) -> int:
    """A time of NGSI-LD (ISO 8601 with a zone) in milliseconds since 1970."""
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)
    except (TypeError, ValueError, OverflowError):
        raise BadRequestData(f"{name} is a time like 2030-01-31T12:00:00Z, not {str(value)[:40]!r}") from None


# --- the notification member ------------------------------------------------------------------------------------------


def _notification(value: Any, name: str, context: Context) -> Notice:
    if not isinstance(value, dict):
        raise BadRequestData(f"{name} is an object with an endpoint")
    given = {key: item for key, item in value.items() if item is not None}
    if "endpoint" not in given:
        raise BadRequestData(f"{name} needs an endpoint")
    format_ = given.get("format")
    if format_ is not None and (not isinstance(format_, str) or format_ not in Format.__args__):  # type: ignore[attr-defined]
        raise BadRequestData(f"format is normalized, concise, simplified or keyValues, not {str(format_)[:40]!r}")
    join = given.get("join")
    if join in ("none", "@none"):
        join = None
    if join not in (None, "inline", "flat"):
        raise BadRequestData(f"join is inline, flat or @none, not {str(join)[:40]!r}")
    level = given.get("joinLevel")
    if level is not None and (isinstance(level, bool) or not isinstance(level, int) or not 1 <= level <= JOIN_LEVEL_MAX):
        raise BadRequestData(f"joinLevel is a whole number from 1 to {JOIN_LEVEL_MAX}")
    only_changed = given.get("onlyChangedAttributes", given.get("onlyChanged", False))
    notice = Notice(
        endpoint=_receiver(given["endpoint"], context),
        attributes=_attributes(given["attributes"], "attributes", context) if "attributes" in given else (),
        pick=_projected(given["pick"], "pick", context) if "pick" in given else Projection(),
        omit=_projected(given["omit"], "omit", context) if "omit" in given else Projection(),
        format=format_,  # type: ignore[arg-type]
        show_changes=_flag(given.get("showChanges", False), "showChanges", context),
        sys_attrs=_flag(given.get("sysAttrs", False), "sysAttrs", context),
        only_changed=_flag(only_changed, "onlyChangedAttributes", context),
        join=join,
        join_level=level,
    )
    if notice.attributes and ("pick" in given or "omit" in given):
        raise BadRequestData("attributes excludes pick and omit; say it with one of them")
    if both := set(notice.pick.names) & set(notice.omit.names):
        raise BadRequestData(f"{min(both)} is in pick and in omit; leave it out of one")
    if notice.show_changes and format_ in ("simplified", "keyValues"):
        raise BadRequestData("showChanges needs attributes as objects; choose the format normalized or concise")
    return notice


def _receiver(value: Any, context: Context) -> Receiver:
    if not isinstance(value, dict):
        raise BadRequestData("endpoint is an object with a uri")
    given = {key: item for key, item in value.items() if item is not None}
    accept = given.get("accept")
    if accept is not None and accept not in ACCEPTED:
        raise BadRequestData(f"accept is one of {', '.join(ACCEPTED)}, not {str(accept)[:60]!r}")
    timeout, cooldown = given.get("timeout"), given.get("cooldown")
    receiver = Receiver(
        uri=_endpoint_uri(given.get("uri")),
        accept=accept,
        receiver_info=header_pairs(given.get("receiverInfo"), "receiverInfo"),
        notifier_info=header_pairs(given.get("notifierInfo"), "notifierInfo"),
        timeout_ms=None if timeout is None else _number(timeout, "timeout", "milliseconds"),
        cooldown_ms=None if cooldown is None else _number(cooldown, "cooldown", "milliseconds", or_zero=True),
    )
    for key, item in receiver.notifier_info:
        check = _NOTIFIER_INFO.get(key)
        if check is not None and item not in check:
            raise BadRequestData(f"{key} in notifierInfo is one of {', '.join(check)}, not {item[:40]!r}")
    del context
    return receiver


_NOTIFIER_INFO: Final = {"MQTT-Version": ("mqtt3.1.1", "mqtt5.0"), "MQTT-QoS": ("0", "1", "2")}


def _endpoint_uri(value: Any) -> str:
    if value is None:
        raise BadRequestData("an endpoint needs a uri")
    uri = check_uri(value, "the uri of the endpoint")
    if uri == STREAM_URI:
        return uri
    try:
        parts = urlsplit(uri)
        host, _port = parts.hostname, parts.port
    except ValueError as error:
        raise BadRequestData(f"the uri of the endpoint cannot be used: {error}") from None
    if parts.scheme not in ("http", "https", "mqtt", "mqtts") or not host:
        raise BadRequestData(f"the uri of the endpoint is {uri[:60]!r}; notifications go to http, https, mqtt or mqtts")
    if parts.scheme.startswith("mqtt") and parts.path in ("", "/"):
        raise BadRequestData("an MQTT endpoint needs a topic: mqtt://host:port/topic")
    return uri


def header_pairs(value: Any, name: str) -> Pairs:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > PAIRS_MAX:
        raise BadRequestData(f'{name} is a list of at most {PAIRS_MAX} objects like {{"key": "X-Name", "value": "..."}}')
    pairs = []
    for item in value:
        key, text = (item.get("key"), item.get("value")) if isinstance(item, dict) else (None, None)
        if not isinstance(key, str) or not isinstance(text, str):
            raise BadRequestData(f"each member of {name} has a key and a value, both texts")
        if not _TOKEN.fullmatch(key) or not (text == "" or text.isprintable()) or len(text) > TEXT_MAX:
            raise BadRequestData(
                f"{key[:40]!r} in {name} cannot be sent: a key is a name of a header, a value has no line breaks"
            )
        pairs.append((key, text))
    return tuple(pairs)


READERS: Final[dict[str, tuple[str, Reader]]] = {
    "subscriptionName": ("name", _text),
    "description": ("description", _text),
    "csf": ("csf", _csf),
    "watchedAttributes": ("watched", _attributes),
    "notificationTrigger": ("triggers", _triggers),
    "timeInterval": ("time_interval_s", _seconds),
    "throttling": ("throttling_s", _seconds),
    "isActive": ("is_active", _flag),
    "lang": ("lang", _text),
    "jsonldContext": ("jsonld_context", _context_url),
    "notification": ("notification", _notification),
    "subscriberLocation": ("subscriber_location", _location),
    "scopes": ("scopes", _scopes),
}
QUERY_READERS: Final[dict[str, tuple[str, Any, Reader]]] = {
    "entities": ("selectors", (), _entities),
    "q": ("q", "", _q),
    "geoQ": ("geo", None, _geo_q),
    "scopeQ": ("scope_q", "", _scope_q),
    "datasetId": ("dataset_ids", (), _uris),
}


# --- showing ---


def selector_to_json(selector: EntitySelector, context: Context) -> dict[str, Any]:
    alternatives = [[context.compact_type(name) for name in alternative] for alternative in selector.types]
    several = len(alternatives) > 1
    texts = [f"({';'.join(names)})" if several and len(names) > 1 else ";".join(names) for names in alternatives]
    shown: dict[str, Any] = {"type": "|".join(texts) or "*"}
    if selector.ids:
        shown["id"] = selector.ids[0] if len(selector.ids) == 1 else list(selector.ids)
    if selector.id_pattern is not None:
        shown["idPattern"] = selector.id_pattern
    return shown


def notice_to_json(notice: Notice, context: Context) -> dict[str, Any]:
    receiver = notice.endpoint
    endpoint = present(
        uri=receiver.uri,
        accept=receiver.accept,
        timeout=receiver.timeout_ms,
        cooldown=receiver.cooldown_ms,
        receiverInfo=[{"key": key, "value": text} for key, text in receiver.receiver_info],
        notifierInfo=[{"key": key, "value": text} for key, text in receiver.notifier_info],
    )
    return present(
        attributes=[context.compact_iri(name) for name in notice.attributes],
        pick=_projection_to_json(notice.pick, context),
        omit=_projection_to_json(notice.omit, context),
        format=notice.format,
        showChanges=notice.show_changes,
        sysAttrs=notice.sys_attrs,
        onlyChangedAttributes=notice.only_changed,
        join=notice.join,
        joinLevel=notice.join_level,
        endpoint=endpoint,
    )


def _projection_to_json(projection: Projection, context: Context) -> list[str]:
    linked = dict(projection.linked)

    def shown(name: str) -> str:
        short = name if name in ENTITY_PARTS else context.compact_iri(name)
        return f"{short}{{{','.join(_projection_to_json(linked[name], context))}}}" if name in linked else short

    return [shown(name) for name in dict.fromkeys((*projection.names, *linked))]


def present(**members: Any) -> dict[str, Any]:
    """Those that say something."""
    return {name: value for name, value in members.items() if value}
