"""Notifications on a connection that the client opens, for browsers and for whoever has no address of its own.

- `GET /hanse/v1/notifications?subscription=ID`: Server-Sent Events of a subscription that is kept. `Last-Event-ID` goes on where
  a connection broke, and 0 begins with what came before anybody listened; an event `gap` says that something in between is lost.
- `GET /hanse/v1/subscribe?type=...&q=...`: the same for a subscription that lives as long as the connection, asked for with the
  parameters of a query.
- `WebSocket /hanse/v1/stream`: any number of both on one connection, by messages (see `Conversation`).

The tenant is named by the header NGSILD-Tenant or, as browsers cannot set one here, by the parameter `tenant`; the @context by a
Link header or the parameter `context`; a bearer token, where there are policies, by the header Authorization or the parameter
`access_token`; when it expires, the connection ends. A client that does not keep up loses the oldest events and is told how many.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import msgspec
import structlog
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocketDisconnect

from hanse.model import InvalidInput
from hanse.ngsild import errors
from hanse.ngsild.contexts import CORE, Context
from hanse.ngsild.entity import now_text
from hanse.ngsild.subscription_members import STREAM_URI
from hanse.ngsild.subscriptions import parse_subscription
from hanse.node.http.answers import problem_answer
from hanse.node.http.call import context_of_link
from hanse.node.http.events import EXPIRED, EventStream, told
from hanse.node.notifier.streams import Listener

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection, Request
    from starlette.responses import Response
    from starlette.types import ASGIApp
    from starlette.websockets import WebSocket

    from hanse.ngsild.subscriptions import NgsiSubscription
    from hanse.node.tenant import Node, Tenant

HEARTBEAT_S: Final = 15.0  # so that proxies leave a silent connection open, and a dead one is noticed
MESSAGE_BYTES_MAX: Final = 1 << 20
SUBSCRIPTIONS_PER_SOCKET: Final = 100
LISTENER_PARAMS: Final = frozenset({"subscription", "lastEventId", "tenant", "access_token"})
SUBSCRIBE_PARAMS: Final = frozenset(
    {
        "id", "type", "idPattern", "attrs", "q", "georel", "geometry", "coordinates", "geoproperty", "scopeQ", "qualityQ",
        "datasetId", "lang", "pick", "omit", "format", "options", "watched", "trigger", "throttling", "showChanges", "tenant",
        "context", "access_token",
    }
)  # fmt: skip

log = structlog.get_logger("hanse.streams")
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


# --- Server-Sent Events -----------------------------------------------------------------------------------------------


async def notifications(request: Request) -> Response | ASGIApp:
    """The events of a subscription that is kept."""
    try:
        _check_params(request.query_params, LISTENER_PARAMS)
        tenant = await _tenant(request)
        ends_at = _ends_at(request)
        id_ = request.query_params.get("subscription", "")
        if not tenant.subscriptions.get(id_).is_kept:
            raise errors.ResourceNotFound(f"there is no subscription {id_!r}")
        after = _event_id(request.headers.get("last-event-id") or request.query_params.get("lastEventId"))
        _check_room(request.app.state.node)
    except errors.NgsiLdError as error:
        return problem_answer(error)
    streams = tenant.notifier.streams
    listener = Listener()
    streams.keep(id_)
    position = streams.position(id_, after)
    complete = streams.listen(id_, listener, after)

    async def events() -> AsyncIterator[bytes]:
        yield (b": connected\nid: %d\n\n" if complete else b"event: gap\nid: %d\ndata: {}\n\n") % position
        async for chunk in told(listener, HEARTBEAT_S, b": \n\n", ends_at):
            yield chunk

    async def ended() -> None:
        streams.unlisten(id_, listener)

    return EventStream(events(), streams, ended)


async def subscribe(request: Request) -> Response | ASGIApp:
    """The events of a subscription that ends with the connection."""
    try:
        params = request.query_params
        _check_params(params, SUBSCRIBE_PARAMS)
        tenant = await _tenant(request)
        ends_at = _ends_at(request)
        source = params.get("context") or context_of_link(request.headers.get("link", ""))
        context = await _context(tenant, source)
        subscription = _ephemeral(subscription_of(params), context, tenant)
        _check_room(request.app.state.node)
        await tenant.subscriptions.add(subscription, is_kept=False)
    except InvalidInput as error:
        return problem_answer(error if isinstance(error, errors.NgsiLdError) else errors.BadRequestData(str(error)))
    except errors.NgsiLdError as error:
        return problem_answer(error)
    streams = tenant.notifier.streams
    listener = Listener()
    streams.listen(subscription.id, listener)

    async def events() -> AsyncIterator[bytes]:
        yield b": connected\n\n"
        async for chunk in told(listener, HEARTBEAT_S, b": \n\n", ends_at):
            yield chunk

    async def ended() -> None:
        streams.unlisten(subscription.id, listener)
        with suppress(errors.ResourceNotFound):
            await tenant.subscriptions.delete(subscription.id)

    return EventStream(events(), streams, ended)


def subscription_of(params: Mapping[str, str]) -> dict[str, Any]:
    """The subscription that the parameters of a query describe."""
    selector: dict[str, Any] = {"type": params.get("type", "*")}
    if "id" in params:
        selector["id"] = params["id"].split(",")
    if "idPattern" in params:
        selector["idPattern"] = params["idPattern"]
    options = params.get("options", "").split(",")
    notification: dict[str, Any] = {"sysAttrs": "sysAttrs" in options, "showChanges": params.get("showChanges") == "true"}
    for name in ("attributes", "pick", "omit"):
        text = params.get("attrs" if name == "attributes" else name)
        if text:
            notification[name] = text.split(",") if "{" not in text else [text]
    chosen = params.get("format") or next((one for one in options if one in ("keyValues", "simplified", "concise")), None)
    if chosen:
        notification["format"] = chosen
    body: dict[str, Any] = {"type": "Subscription", "entities": [selector], "notification": notification}
    for name in ("q", "scopeQ", "qualityQ", "lang"):
        if params.get(name):
            body[name] = params[name]
    for name, member in (("watched", "watchedAttributes"), ("trigger", "notificationTrigger"), ("datasetId", "datasetId")):
        if params.get(name):
            body[member] = params[name].split(",")
    if "throttling" in params:
        try:
            body["throttling"] = float(params["throttling"])
        except ValueError:
            raise errors.BadRequestData("throttling is a number of seconds") from None
    geo = {name: params[name] for name in ("georel", "geometry", "coordinates", "geoproperty") if name in params}
    return body | {"geoQ": geo} if geo else body


# --- WebSocket --------------------------------------------------------------------------------------------------------


async def stream(socket: WebSocket) -> None:
    await socket.accept()
    try:
        tenant = await _tenant(socket)
        ends_at = _ends_at(socket)
        _check_room(socket.app.state.node)
    except errors.NgsiLdError as error:
        await socket.send_bytes(_encode({"op": "error", "problem": error.problem()}))
        await socket.close(1008)
        return
    with tenant.notifier.streams.connection():
        conversation = Conversation(socket, tenant)
        try:
            async with asyncio.timeout(None if ends_at == inf else max(0.0, ends_at - time.time())):
                await conversation.run()
        except TimeoutError:
            with suppress(WebSocketDisconnect, RuntimeError, OSError):
                await socket.close(1008, EXPIRED)


class Conversation:
    """One WebSocket. Every message is a JSON object with a member `op`; `id` is the client's name for one of its subscriptions.

    From the client:
    - `{"op": "subscribe", "id": "a", "subscription": {...}}`, as for POST /subscriptions; the endpoint can be left out;
    - `{"op": "listen", "id": "b", "subscriptionId": "urn:...", "lastEventId": 17}` for one that is kept;
    - `{"op": "unsubscribe", "id": "a"}`; `{"op": "ping"}`.
    To the client: `subscribed`, `unsubscribed` (also when someone else deletes it), `notification` (with `eventId`,
    `notification`), `gap` (with `dropped`), `error` (with `problem`), `pong`.
    """

    def __init__(self, socket: WebSocket, tenant: Tenant) -> None:
        self._socket = socket
        self._tenant = tenant
        self._listener = Listener(is_for_several=True)
        self._names: dict[str, str] = {}  # the client's name of a subscription -> its id
        self._own: set[str] = set()  # ids of those that end with the connection
        self._sending = asyncio.Lock()

    async def run(self) -> None:
        telling = asyncio.create_task(self._tell())
        try:
            while True:
                await self._hear(await self._message())
        except (WebSocketDisconnect, RuntimeError, OSError):  # starlette's RuntimeError: it is closed already
            pass
        finally:
            telling.cancel()
            for name in list(self._names):
                await self._forget(name)

    async def _message(self) -> Any:
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect
        data = message.get("bytes") or (message.get("text") or "").encode()
        if len(data) > MESSAGE_BYTES_MAX:
            return None
        try:
            return _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    async def _hear(self, message: Any) -> None:
        name = message.get("id") if isinstance(message, dict) else None
        try:
            if not isinstance(message, dict):
                raise errors.InvalidRequest(f"a message is a JSON object of at most {MESSAGE_BYTES_MAX} bytes")
            answer = await self._answer(message)
        except errors.NgsiLdError as error:
            answer = {"op": "error", "problem": error.problem()}
        except InvalidInput as error:
            answer = {"op": "error", "problem": errors.BadRequestData(str(error)).problem()}
        except Exception:
            log.exception("a message failed")
            answer = {"op": "error", "problem": errors.NgsiLdError("this is our fault; the node's log says more").problem()}
        await self._send(answer | ({"id": name} if isinstance(name, str) else {}))

    async def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        op, name = message.get("op"), message.get("id")
        if op == "ping":
            return {"op": "pong"}
        if op not in ("subscribe", "listen", "unsubscribe"):
            raise errors.InvalidRequest("op is subscribe, listen, unsubscribe or ping")
        if not isinstance(name, str) or not name or len(name) > 200:
            raise errors.BadRequestData("id is a text, your own name for the subscription")
        if op == "unsubscribe":
            if name not in self._names:
                raise errors.ResourceNotFound(f"there is no subscription {name!r} on this connection")
            await self._forget(name)
            return {"op": "unsubscribed"}
        if name in self._names:
            raise errors.AlreadyExists(f"there is a subscription {name!r} on this connection already")
        if len(self._names) >= SUBSCRIPTIONS_PER_SOCKET:
            raise errors.TooManyPending(f"a connection may have {SUBSCRIPTIONS_PER_SOCKET} subscriptions")
        if op == "subscribe":
            return await self._subscribe(name, message.get("subscription"))
        return self._listen(name, message)

    async def _subscribe(self, name: str, body: Any) -> dict[str, Any]:
        if not isinstance(body, dict):
            raise errors.BadRequestData("subscription is an object, as for POST /subscriptions")
        context = await _context(self._tenant, body.pop("@context", None))
        subscription = _ephemeral(body, context, self._tenant)
        await self._tenant.subscriptions.add(subscription, is_kept=False)
        self._names[name] = subscription.id
        self._own.add(subscription.id)
        self._tenant.notifier.streams.listen(subscription.id, self._listener)
        return {"op": "subscribed", "subscriptionId": subscription.id}

    def _listen(self, name: str, message: dict[str, Any]) -> dict[str, Any]:
        id_ = message.get("subscriptionId")
        if not isinstance(id_, str) or not self._tenant.subscriptions.get(id_).is_kept or id_ in self._names.values():
            raise errors.BadRequestData("subscriptionId names a subscription that is kept, and not yet listened to here")
        after = message.get("lastEventId")
        streams = self._tenant.notifier.streams
        streams.keep(id_)
        complete = streams.listen(id_, self._listener, _event_id(str(after) if after is not None else None))
        self._names[name] = id_
        return {"op": "subscribed", "subscriptionId": id_, "complete": complete}

    async def _forget(self, name: str) -> None:
        id_ = self._names.pop(name)
        self._tenant.notifier.streams.unlisten(id_, self._listener)
        if id_ in self._own:
            self._own.discard(id_)
            with suppress(errors.ResourceNotFound):
                await self._tenant.subscriptions.delete(id_)

    async def _tell(self) -> None:
        """Pass events on, as fast as the client takes them."""
        try:
            while (event := await self._listener.get()) is not None:
                if dropped := self._listener.take_dropped():
                    await self._send({"op": "gap", "dropped": dropped})
                name = next((name for name, id_ in self._names.items() if id_ == event.subscription), None)
                if name is not None and not event.body:
                    del self._names[name]
                    self._own.discard(event.subscription)
                    await self._send({"op": "unsubscribed", "id": name})
                elif name is not None:
                    notification = msgspec.Raw(event.body)
                    await self._send({"op": "notification", "id": name, "eventId": event.id, "notification": notification})
            await self._socket.close(1001)
        except (WebSocketDisconnect, RuntimeError, OSError):
            pass
        except Exception:
            log.exception("a stream ends")

    async def _send(self, message: dict[str, Any]) -> None:
        async with self._sending:
            await self._socket.send_text(_encode(message).decode())


# --- what both need ---------------------------------------------------------------------------------------------------


def _ephemeral(body: dict[str, Any], context: Context, tenant: Tenant) -> NgsiSubscription:
    """A subscription whose notifications go to a stream, whatever endpoint it names."""
    notification = body.get("notification") or {}
    if isinstance(notification, dict):
        endpoint = notification.get("endpoint")
        accept = endpoint.get("accept") if isinstance(endpoint, dict) else None
        notification = notification | {"endpoint": {"uri": STREAM_URI, "accept": accept}}
    body = {"type": "Subscription"} | body | {"notification": notification, "id": f"urn:hanse:stream:{uuid4()}"}
    return parse_subscription(body, context, now_text(), tenant.measure.registry)


async def _tenant(connection: HTTPConnection) -> Tenant:
    """The tenant that is asked for, as the one who asks sees it."""
    node: Node = connection.app.state.node
    access = node.access
    token = connection.query_params.get("access_token", "")
    principal = None if access is None else await access.principal(connection.headers, token)
    name = connection.headers.get("ngsild-tenant") or connection.query_params.get("tenant", "")
    tenant = await node.tenant(name, create=False)
    tenant.calls += 1
    return tenant if access is None or principal is None else access.seen(tenant, principal)


def _ends_at(connection: HTTPConnection) -> float:
    """When the token ends that a connection was opened with, in seconds since 1970."""
    access = connection.app.state.node.access
    return (
        inf if access is None else access.identities.end_of(connection.headers, connection.query_params.get("access_token", ""))
    )


async def _context(tenant: Tenant, source: Any) -> Context:
    if source is None:
        return CORE
    return tenant.contexts.resolve_now(source) or await tenant.contexts.resolve(source)


def _check_params(params: Mapping[str, str], known: frozenset[str]) -> None:
    for name in params:
        if name not in known:
            raise errors.InvalidRequest(f"there is no parameter {name[:60]!r}; this operation knows {', '.join(sorted(known))}")


def _check_room(node: Node) -> None:
    limit = node.settings.limits.streams_max
    if sum(tenant.notifier.streams.connections for tenant in node.tenants.values()) >= limit:
        raise errors.TooManyPending(f"there are {limit} streams already")


def _event_id(text: str | None) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise errors.BadRequestData(f"the id of an event is a number, not {text[:40]!r}")
    return int(text)


routes: list[BaseRoute] = [
    Route("/hanse/v1/notifications", notifications, methods=["GET"]),
    Route("/hanse/v1/subscribe", subscribe, methods=["GET"]),
    WebSocketRoute("/hanse/v1/stream", stream),
]
