"""/hanse/v1: the native primitives over HTTP, with JSON or XML payloads. What a node's operators need is in `admin`."""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec import Struct

from hanse.model import (
    WORLD,
    Advertisement,
    Geofence,
    InvalidInput,
    Location,
    Notification,
    Selector,
    Subscription,
    geofence_from_geojson,
)
from hanse.model.values import XML
from hanse.ngsild.errors import BadRequestData, InvalidRequest, ResourceNotFound
from hanse.ngsild.query import EntityQuery
from hanse.node.http import admin
from hanse.node.http.answers import JSON
from hanse.node.http.call import Call, Endpoint, Path, native
from hanse.node.http.events import event_stream
from hanse.node.http.results import page_headers, whole_number
from hanse.node.native import CLIENTS_MAX, NativeClient, stream_of
from hanse.node.outlines import outline
from hanse.quality import completed, normalized
from hanse.quality.contracts import check
from hanse.quality.xml_form import quality_of_xml

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from hanse.node.native import Native

GEOFENCES_SHOWN_MAX: Final = 8  # of one client, in a list of clients
T = TypeVar("T")


class Place(Struct, frozen=True, forbid_unknown_fields=True):
    lat: float
    lon: float


class _Attach(Struct, frozen=True, forbid_unknown_fields=True):
    location: Place | None = None
    endpoint: str = ""
    previous: str | None = None


class _Selector(Struct, frozen=True, forbid_unknown_fields=True):
    type: str | None = None
    id: str | None = None
    id_pattern: str | None = None
    topic: str | None = None


class _Subscribe(Struct, frozen=True, forbid_unknown_fields=True):
    selectors: tuple[_Selector, ...] = ()
    attributes: tuple[str, ...] = ()
    q: str = ""
    quality: str = ""
    xpath: tuple[str, ...] = ()
    geofence: dict[str, Any] | None = None
    scopes: dict[str, str] = {}
    expires_at_ms: int | None = None


class _Advertise(Struct, frozen=True, forbid_unknown_fields=True):
    selectors: tuple[_Selector, ...] = ()
    q: str = ""
    quality: str = ""
    xpath: tuple[str, ...] = ()
    scopes: dict[str, str] = {}
    expires_at_ms: int | None = None


class _Publish(Struct, frozen=True, forbid_unknown_fields=True):
    id: str = ""
    topic: str | None = None
    types: tuple[str, ...] = ()
    entity: str | None = None
    attributes: dict[str, Any] = {}
    quality: dict[str, float] = {}
    payload: msgspec.Raw = msgspec.Raw()
    location: Place | None = None
    geofence: dict[str, Any] | None = None
    scopes: dict[str, str] = {}
    advertisement: str | None = None
    published_at_ms: int = 0


# --- clients ----------------------------------------------------------------------------------------------------------


async def clients(call: Call) -> ASGIApp:
    """A page of them, in the order in which they came; on asking, with where each of them listens to."""
    kept, most = call.tenant.native, call.node.settings.limits.page_max
    everyone = kept.clients()
    limit = whole_number(call, "limit", most, most)
    offset = whole_number(call, "offset", 0, CLIENTS_MAX)
    page = everyone[offset : offset + limit]
    headers = page_headers(call, EntityQuery(limit=limit, offset=offset), len(page), len(everyone))
    if call.flag("count"):
        headers["NGSILD-Results-Count"] = str(len(everyone))
    is_fenced = call.flag("geofences")
    shown = [_shown(client) | ({"geofences": _geofences(kept, client.name)} if is_fenced else {}) for client in page]
    return call.answer(shown, headers=headers)


def _geofences(kept: Native, name: str) -> dict[str, Any]:
    """By subscription, the outlines of where a client wants to hear from; of the first so many that say that."""
    found = ((id_, outline(one.geofence)) for id_, one in kept.subscriptions(name).items())
    return dict(islice(((id_, drawn) for id_, drawn in found if drawn is not None), GEOFENCES_SHOWN_MAX))


async def client(call: Call) -> ASGIApp:
    kept = call.tenant.native
    name = call.path["client"]
    found = _shown(kept.client(name))
    found["subscriptions"] = {id_: _plain(kept, id_, value) for id_, value in kept.subscriptions(name).items()}
    found["advertisements"] = {id_: _advertised(kept, id_, value) for id_, value in kept.advertisements(name).items()}
    return call.answer(found)


async def attach(call: Call) -> ASGIApp:
    given = await _read(call, _Attach)
    attached = NativeClient(call.path["client"], _location(given.location), given.endpoint)
    await call.tenant.native.attach(attached, given.previous)
    return call.no_content()


async def detach(call: Call) -> ASGIApp:
    await call.tenant.native.detach(call.path["client"])
    return call.no_content()


async def locate(call: Call) -> ASGIApp:
    place = await _read(call, Place)
    await call.tenant.native.locate(call.path["client"], Location(place.lat, place.lon))
    return call.no_content()


async def stream(call: Call) -> ASGIApp:
    """What is for a client, as Server-Sent Events."""
    name = call.path["client"]
    if call.tenant.native.client(name).endpoint:
        raise BadRequestData(f"the client {name!r} is told at its endpoint; attach it without one to listen here")
    return event_stream(call, stream_of(name))


# --- subscriptions, advertisements, scopes ------------------------------------------------------------------------------


async def subscribe(call: Call) -> ASGIApp:
    given = await _read(call, _Subscribe)
    subscription = Subscription(
        id=call.path["id"],
        client=call.path["client"],
        selectors=_selectors(given.selectors),
        attributes=given.attributes,
        q=given.q,
        quality=_quality(call, given.quality),
        xpath=given.xpath,
        geofence=_geofence(given.geofence),
        scopes=given.scopes,
        expires_at_ms=given.expires_at_ms,
    )
    await call.tenant.native.subscribe(subscription, given.quality)
    return call.no_content()


async def unsubscribe(call: Call) -> ASGIApp:
    await call.tenant.native.unsubscribe(call.path["client"], call.path["id"])
    return call.no_content()


async def advertisement(call: Call) -> ASGIApp:
    kept, id_ = call.tenant.native, call.path["id"]
    kept.client(call.path["client"])
    found = kept.advertisements(call.path["client"]).get(id_)
    if found is None:
        raise ResourceNotFound(f"there is no advertisement {id_!r} of this client")
    return call.answer(_advertised(kept, id_, found))


async def advertise(call: Call) -> ASGIApp:
    given = await _read(call, _Advertise)
    quality = _quality(call, given.quality)
    if missing := check(quality, "").missing:
        raise BadRequestData("; ".join(missing))
    advertised = Advertisement(
        id=call.path["id"],
        client=call.path["client"],
        selectors=_selectors(given.selectors),
        q=given.q,
        quality=quality,
        xpath=given.xpath,
        scopes=given.scopes,
        expires_at_ms=given.expires_at_ms,
    )
    await call.tenant.native.advertise(advertised, given.quality)
    return call.no_content()


async def unadvertise(call: Call) -> ASGIApp:
    await call.tenant.native.unadvertise(call.path["client"], call.path["id"])
    return call.no_content()


async def scopes(call: Call) -> ASGIApp:
    return call.answer(call.tenant.native.scopes())


async def characterise(call: Call) -> ASGIApp:
    call.check_content_type()
    try:
        text = (await call.body()).decode()
    except UnicodeDecodeError:
        raise InvalidRequest("the body is not UTF-8") from None
    await call.tenant.native.characterise(text)
    return call.no_content()


async def join_scope(call: Call) -> ASGIApp:
    await call.tenant.native.join_scope(call.path["dimension"], call.path["scope"])
    return call.no_content()


async def leave_scope(call: Call) -> ASGIApp:
    await call.tenant.native.leave_scope(call.path["dimension"], call.path["scope"])
    return call.no_content()


# --- publishing -------------------------------------------------------------------------------------------------------


async def publish(call: Call) -> ASGIApp:
    kept = call.tenant.native
    media_type = call.check_content_type()
    notification = await (_published_xml(call) if media_type == XML else _published_json(call))
    heard = await kept.publish(notification)
    return call.answer({"id": notification.id, "publisher": notification.publisher, "heard": heard}, status=202)


async def _published_json(call: Call) -> Notification:
    if call.params:
        raise InvalidRequest(f"with a JSON body everything is in the body; {min(call.params)!r} is for XML")
    given = await _read(call, _Publish)
    payload = bytes(given.payload).decode()
    return Notification(
        id=given.id or call.tenant.native.next_id(),
        publisher=call.path["client"],
        topic=given.topic,
        types=given.types,
        entity=given.entity,
        attributes=given.attributes,
        quality=completed(given.quality, call.tenant.measure.registry),
        payload=payload,
        location=_location(given.location),
        geofence=_geofence(given.geofence),
        scopes=given.scopes,
        advertisement=given.advertisement,
        published_at_ms=given.published_at_ms,
    )


async def _published_xml(call: Call) -> Notification:
    """The body is the payload; its quality is what the indicators in it say; what else there is to say comes as parameters."""
    try:
        payload = (await call.body()).decode()
    except UnicodeDecodeError:
        raise InvalidRequest("the body is not UTF-8") from None
    params = call.params
    quality = quality_of_xml(payload, call.tenant.measure.registry, now=time.time()) if payload else {}
    return Notification(
        id=params.get("id") or call.tenant.native.next_id(),
        publisher=call.path["client"],
        topic=params.get("topic"),
        types=tuple(filter(None, params.get("type", "").split(","))),
        entity=params.get("entity"),
        quality=quality,
        payload=payload,
        media_type=XML,
        location=_location_of(params),
        advertisement=params.get("advertisement"),
    )


# --- reading and showing ------------------------------------------------------------------------------------------------


async def _read(call: Call, kind: type[T]) -> T:
    call.check_content_type()
    body = await call.body()
    try:
        return msgspec.json.decode(body.strip() or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise BadRequestData(str(error)) from None
    except RecursionError:
        raise InvalidRequest("the body is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"the body is not valid JSON: {error}") from None


def _selectors(given: tuple[_Selector, ...]) -> tuple[Selector, ...]:
    return tuple(Selector(one.type, one.id, one.id_pattern, one.topic) for one in given)


def _geofence(given: dict[str, Any] | None) -> Geofence:
    return WORLD if given is None else geofence_from_geojson(given)


def _location(place: Place | None) -> Location | None:
    return None if place is None else Location(place.lat, place.lon)


def _location_of(params: dict[str, str]) -> Location | None:
    if "lat" not in params and "lon" not in params:
        return None
    try:
        return Location(float(params.get("lat", "")), float(params.get("lon", "")))
    except InvalidInput:
        raise
    except ValueError:
        raise BadRequestData("lat and lon are both numbers, in degrees") from None


def _shown(one: NativeClient) -> dict[str, Any]:
    shown: dict[str, Any] = {"client": one.name, "endpoint": one.endpoint or None}
    if one.location is not None:
        shown["location"] = {"lat": one.location.lat, "lon": one.location.lon}
    return shown


def _quality(call: Call, written: str) -> str:
    """What a client writes of quality, levels and all, as brokers are told it."""
    return normalized(written, call.tenant.measure.registry)


def _plain(kept: Native, id_: str, value: Subscription | Advertisement) -> dict[str, Any]:
    """As its client gave it; `quality_means` is what brokers make of a quality that is written in other words."""
    plain: dict[str, Any] = msgspec.to_builtins(value)
    plain.pop("id")
    plain.pop("client")
    written = kept.written(value, id_)
    if written != value.quality:
        plain |= {"quality": written, "quality_means": value.quality}
    return plain


def _advertised(kept: Native, id_: str, advertisement: Advertisement) -> dict[str, Any]:
    """With what was refused because it was below the guarantee, since the node started."""
    failures = kept.guarantees.failures(advertisement.client, id_)
    shown = _plain(kept, id_, advertisement) | {"below_guarantee": failures.number}
    return shown | {"last_below_guarantee": failures.last} if failures.number else shown


_ONE: Final = (JSON,)
_BODY: Final = (JSON,)
_PUBLISH_PARAMS: Final = ("id", "topic", "type", "entity", "advertisement", "lat", "lon")

paths: list[Path] = [
    native("/clients", GET=Endpoint(clients, ("limit", "offset", "count", "geofences"), offers=_ONE)),
    native(
        "/clients/{client}",
        GET=Endpoint(client, offers=_ONE),
        PUT=Endpoint(attach, offers=_ONE, media_types=_BODY, makes_tenant=True),
        DELETE=Endpoint(detach, offers=_ONE),
    ),
    native("/clients/{client}/location", PUT=Endpoint(locate, offers=_ONE, media_types=_BODY)),
    native("/clients/{client}/stream", GET=Endpoint(stream, offers=("text/event-stream",))),
    native("/clients/{client}/notifications", POST=Endpoint(publish, _PUBLISH_PARAMS, offers=_ONE, media_types=(JSON, XML))),
    native(
        "/clients/{client}/subscriptions/{id}",
        PUT=Endpoint(subscribe, offers=_ONE, media_types=_BODY),
        DELETE=Endpoint(unsubscribe, offers=_ONE),
    ),
    native(
        "/clients/{client}/advertisements/{id}",
        GET=Endpoint(advertisement, offers=_ONE),
        PUT=Endpoint(advertise, offers=_ONE, media_types=_BODY),
        DELETE=Endpoint(unadvertise, offers=_ONE),
    ),
    native(
        "/scopes",
        GET=Endpoint(scopes, offers=_ONE),
        PUT=Endpoint(characterise, offers=_ONE, media_types=("application/toml", "text/plain"), makes_tenant=True),
    ),
    native(
        "/scopes/{dimension}/{scope}",
        PUT=Endpoint(join_scope, offers=_ONE, media_types=()),
        DELETE=Endpoint(leave_scope, offers=_ONE),
    ),
    *admin.paths,
]
