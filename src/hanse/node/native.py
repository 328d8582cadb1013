"""The native primitives of one tenant: attach, locate, advertise, publish, subscribe, join scope, and their opposites.

Each is a request to the core's `Broker`; what it refuses is answered to whoever asked. Clients, subscriptions, advertisements and
scopes are documents of the store, and are told to the broker again when the node starts. What is for a client goes to its
endpoint by HTTP, through the outbox like any notification; a client without an endpoint listens to its stream, which keeps the
last events while nobody listens.

Names of types and attributes are taken as they are: who wants to hear of NGSI-LD entities names their types by URI.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec
import structlog
from msgspec import Struct

from hanse.matching.meaning import carries, lies_in, passes_q, passes_quality, passes_xpath, tells
from hanse.model import TOP, UNIT, Advertisement, Location, Notification, Subscription, World
from hanse.ngsild.errors import BadRequestData, ResourceNotFound, TooManyPending
from hanse.ngsild.notifications import Letter
from hanse.ngsild.subscriptions import CLIENT as NGSI_LD_CLIENT
from hanse.node.access.owners import CLIENT as OWNED_CLIENT
from hanse.node.guarantees import Guarantees
from hanse.node.metrics import METRICS
from hanse.node.notifier.notifier import encode_letter
from hanse.node.registrations import CLIENT as SOURCE_CLIENT
from hanse.node.store import DeleteDocument, Delivery, PutDelivery, PutDocument
from hanse.routing import messages as m
from hanse.routing.state import Client
from hanse.scopes import parse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hanse.node.store import Write
    from hanse.node.tenant import Tenant

CLIENTS_MAX: Final = 10_000
KEPT_PER_CLIENT_MAX: Final = 1_000  # subscriptions, and advertisements, of one client
SCOPES_MAX: Final = 1_000
CLIENT, SUBSCRIPTION, ADVERTISEMENT = "native-client", "native-subscription", "native-advertisement"
SCOPE, CHARACTERISATION = "native-scope", "native-characterisation"
WORDING = "native-wording"  # a requirement or a guarantee as its client wrote it, where that is not what brokers are told
# the broker's clients that stand for NGSI-LD's subscriptions, for context sources, and for nodes
_RESERVED: Final = (NGSI_LD_CLIENT, SOURCE_CLIENT, "urn:hanse:node:")

log = structlog.get_logger("hanse.native")


class NativeClient(Struct, frozen=True, omit_defaults=True):
    """A client that is attached here. Without an endpoint it listens to its stream."""

    name: str
    location: Location | None = None
    endpoint: str = ""


class Post(Struct, frozen=True):
    """What a change means for native clients: letters for the outbox, and events for streams once it is committed."""

    deliveries: list[Delivery]
    events: list[tuple[str, bytes]]  # with the names of the streams


NO_POST: Final = Post([], [])


def stream_of(client: str) -> str:
    """The name of a client's stream among all streams."""
    return f"native/{client}"


class Native:
    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._clients: dict[str, NativeClient] = {}
        self._scopes: set[tuple[str, str]] = set()
        self._wordings: dict[str, dict[str, str]] = {}  # client -> key of the document -> text
        self.guarantees = Guarantees()
        self._published = 0
        self._started_ms = _now_ms()

    def restore(self) -> None:
        """Tell the broker again what was kept."""
        store = self._tenant.store
        for _, data in store.documents(CHARACTERISATION) if not self._tenant.router.is_federated else ():
            self._tenant.broker.scopes = parse(data.decode()).scopes()
        for _, data in store.documents(SCOPE):
            dimension, scope = msgspec.json.decode(data, type=tuple[str, str])
            self._again(m.JoinScope(dimension, scope))
            self._scopes.add((dimension, scope))
        for name, data in store.documents(CLIENT):
            client = self._clients[name] = msgspec.json.decode(data, type=NativeClient)
            self._listen(client)
            if name not in self._tenant.broker.clients:
                self._again(m.Attach(name, client.location))
        for key, data in store.documents(WORDING):
            self._wordings.setdefault(key.split(UNIT)[1], {})[key] = data.decode()
        if self._tenant.router.is_federated:
            return  # the brokers remember the rest themselves, also of clients that came from other nodes
        for _, data in store.documents(ADVERTISEMENT):
            self._again(m.Advertise(msgspec.json.decode(data, type=Advertisement)))
        for _, data in store.documents(SUBSCRIPTION):
            self._again(m.Subscribe(msgspec.json.decode(data, type=Subscription)))

    def _again(self, request: m.Request) -> None:
        for effect in self._tenant.router.handle(request):
            if isinstance(effect, m.Reject):
                log.warning("what was kept is refused now", reason=effect.reason, client=effect.client)

    # --- clients ----------------------------------------------------------------------------------------------------

    @property
    def is_any(self) -> bool:
        """Whether a client is attached here."""
        return bool(self._clients)

    def client(self, name: str) -> NativeClient:
        client = self._clients.get(name)
        if client is None:
            raise ResourceNotFound(f"there is no client {name!r} here; attach it first: PUT /hanse/v1/clients/{name}")
        return client

    def clients(self) -> list[NativeClient]:
        return list(self._clients.values())

    async def attach(self, client: NativeClient, previous: str | None = None) -> None:
        """A client comes, or says anew where it is and where it is to be told."""
        check_name(client.name, "client")
        check_endpoint(client.endpoint)
        known = self._clients.get(client.name)
        if known is None and len(self._clients) >= CLIENTS_MAX:
            raise TooManyPending(f"there are {CLIENTS_MAX} native clients already")
        if previous is not None and previous not in self._tenant.broker.federation.by_id:
            raise BadRequestData(f"there is no node {previous!r} in this federation")
        effects = self._ask(m.Attach(client.name, client.location, previous))
        if client.location is not None:
            effects += self._ask(m.Locate(client.name, client.location))
        self._clients[client.name] = client
        self._listen(client)
        await self._keep(effects, PutDocument(CLIENT, client.name, msgspec.json.encode(client)))

    async def detach(self, name: str) -> None:
        """A client is gone for good, with all that it has here."""
        self.client(name)
        writes: list[Write] = [DeleteDocument(CLIENT, name)]
        for kind, kept in ((SUBSCRIPTION, self.subscriptions(name)), (ADVERTISEMENT, self.advertisements(name))):
            writes += [DeleteDocument(kind, _key(name, id_)) for id_ in kept]
        for id_ in self.subscriptions(name):
            writes += self._tenant.notifier.discard(_key(name, id_))
        writes += self._forget_all(name)
        effects = self._ask(m.Detach(name))
        del self._clients[name]
        self._tenant.notifier.streams.end(stream_of(name))
        await self._keep(effects, *writes)

    def handed_over(self, name: str) -> list[Write]:
        """A client has gone to another node, with all that it had here."""
        if self._clients.pop(name, None) is None:
            return []
        self._tenant.notifier.streams.end(stream_of(name))
        return [DeleteDocument(CLIENT, name), *self._forget_all(name)]

    async def locate(self, name: str, location: Location) -> None:
        client = msgspec.structs.replace(self.client(name), location=location)
        effects = self._ask(m.Locate(name, location))
        self._clients[name] = client
        await self._keep(effects, PutDocument(CLIENT, name, msgspec.json.encode(client)))

    def _listen(self, client: NativeClient) -> None:
        if not client.endpoint:
            self._tenant.notifier.streams.keep(stream_of(client.name))

    # --- subscriptions and advertisements -----------------------------------------------------------------------------

    def subscriptions(self, client: str) -> dict[str, Subscription]:
        """Those of a client, by the ids that it gave them."""
        return {id_.partition(UNIT)[2]: kept for id_, kept in self._state(client).subscriptions.items()}

    def advertisements(self, client: str) -> dict[str, Advertisement]:
        return dict(self._state(client).advertisements)

    def _state(self, client: str) -> Client:
        return self._tenant.broker.clients.get(client) or Client()

    def written(self, kept: Subscription | Advertisement, id_: str) -> str:
        """What its client wrote of quality."""
        return self._wordings.get(kept.client, {}).get(_wording_key(kept, id_), kept.quality)

    async def subscribe(self, subscription: Subscription, written: str = "") -> None:
        """`written`: what is required of the quality in the client's own words, for showing it."""
        self.client(subscription.client)
        check_name(subscription.id, "subscription")
        _check_room(self.subscriptions(subscription.client), subscription.id, "subscriptions")
        effects = self._ask(m.Subscribe(subscription))
        key = _key(subscription.client, subscription.id)
        write = PutDocument(SUBSCRIPTION, key, msgspec.json.encode(subscription))
        await self._keep(effects, write, *self._word(subscription, written))

    async def unsubscribe(self, client: str, id_: str) -> None:
        self.client(client)
        effects = self._ask(m.Unsubscribe(client, id_))
        key = _key(client, id_)
        forgotten = self._forget_wording(client, f"{SUBSCRIPTION}{UNIT}{key}")
        await self._keep(effects, DeleteDocument(SUBSCRIPTION, key), *forgotten, *self._tenant.notifier.discard(key))

    async def advertise(self, advertisement: Advertisement, written: str = "") -> None:
        """`written`: what is guaranteed in the client's own words, for showing it."""
        self.client(advertisement.client)
        check_name(advertisement.id, "advertisement")
        _check_room(self.advertisements(advertisement.client), advertisement.id, "advertisements")
        effects = self._ask(m.Advertise(advertisement))
        key = _key(advertisement.client, advertisement.id)
        write = PutDocument(ADVERTISEMENT, key, msgspec.json.encode(advertisement))
        await self._keep(effects, write, *self._word(advertisement, written))

    async def unadvertise(self, client: str, id_: str) -> None:
        self.client(client)
        effects = self._ask(m.Unadvertise(client, id_))
        key = _key(client, id_)
        self.guarantees.forget(client, id_)
        forgotten = self._forget_wording(client, f"{ADVERTISEMENT}{UNIT}{key}")
        await self._keep(effects, DeleteDocument(ADVERTISEMENT, key), *forgotten)

    def _word(self, kept: Subscription | Advertisement, written: str) -> list[Write]:
        key = _wording_key(kept, kept.id)
        if not written or written == kept.quality:
            return self._forget_wording(kept.client, key)
        self._wordings.setdefault(kept.client, {})[key] = written
        return [PutDocument(WORDING, key, written.encode())]

    def _forget_wording(self, client: str, key: str) -> list[Write]:
        return [DeleteDocument(WORDING, key)] if self._wordings.get(client, {}).pop(key, None) is not None else []

    def _forget_all(self, client: str) -> list[Write]:
        """A client has gone, with what it wrote and what it broke."""
        self.guarantees.forget_client(client)
        return [DeleteDocument(WORDING, key) for key in self._wordings.pop(client, ())]

    # --- scopes -----------------------------------------------------------------------------------------------------

    def scopes(self) -> dict[str, Any]:
        """What the node knows of scopes and of the borders between them, and which scopes it has joined."""
        graphs = self._tenant.broker.scopes.graphs
        return {
            "dimensions": {name: sorted(graph.scopes()) for name, graph in sorted(graphs.items())},
            "borders": [
                {"dimension": name, "scope": edge.sub, "superscope": edge.super_, "out": edge.out, "into": edge.into}
                for name, graph in sorted(graphs.items())
                for edge in graph.edges()
                if edge.super_ != TOP
            ],
            "joined": [{"dimension": dimension, "scope": scope} for dimension, scope in sorted(self._scopes)],
        }

    async def characterise(self, text: str) -> None:
        """Take the dimensions, scopes and visibility filters of a characterisation in the place of those that there are."""
        if self._tenant.router.is_federated:
            raise BadRequestData("the scopes are the whole federation's: change its characterisation at all nodes")
        scopes = parse(text).scopes()
        for dimension, scope in self._scopes:
            if dimension not in scopes.graphs or scope not in scopes.graphs[dimension]:
                raise BadRequestData(
                    f"the scope {scope!r} in dimension {dimension!r} is missing, which is joined; leave it first"
                )
        self._tenant.broker.scopes = scopes
        await self._tenant.store.submit(PutDocument(CHARACTERISATION, "", text.encode()))

    async def join_scope(self, dimension: str, scope: str) -> None:
        if len(self._scopes) >= SCOPES_MAX and (dimension, scope) not in self._scopes:
            raise TooManyPending(f"{SCOPES_MAX} scopes are joined already")
        effects = self._ask(m.JoinScope(dimension, scope))
        self._scopes.add((dimension, scope))
        await self._keep(effects, PutDocument(SCOPE, _key(dimension, scope), msgspec.json.encode((dimension, scope))))

    async def leave_scope(self, dimension: str, scope: str) -> None:
        if (dimension, scope) not in self._scopes:
            raise ResourceNotFound(f"the scope {scope!r} in dimension {dimension!r} is not joined")
        effects = self._ask(m.LeaveScope(dimension, scope))
        self._scopes.discard((dimension, scope))
        await self._keep(effects, DeleteDocument(SCOPE, _key(dimension, scope)))

    # --- publishing and delivering ----------------------------------------------------------------------------------

    def next_id(self) -> str:
        """For a notification whose publisher gave it none."""
        self._published += 1
        return f"{self._started_ms}-{self._published}"

    async def publish(self, notification: Notification) -> int:
        """To whom it is for, here; gives how many subscriptions of native clients heard of it."""
        self.client(notification.publisher)
        post = await self._keep(self._ask(m.Publish(notification)))
        return len(post.deliveries) + len(post.events)

    async def _keep(self, effects: list[m.Effect], *writes: Write) -> Post:
        """Store something with what the broker was told and what it wants delivered to native clients; then deliver that."""
        post = self.post(effects)
        await self._tenant.keep(*writes, *map(PutDelivery, post.deliveries))
        if post.deliveries:
            self._tenant.notifier.dispatch(post.deliveries)
        self._tenant.notifier.streams.tell(post.events)
        return post

    def post(self, effects: Iterable[m.Effect]) -> Post:
        """What the broker wants delivered to native clients, whoever caused it."""
        if not self._clients:
            return NO_POST
        post = Post([], [])
        store = self._tenant.store
        for effect in effects:
            client = self._clients.get(effect.client) if isinstance(effect, m.Deliver) else None
            if client is None or not isinstance(effect, m.Deliver):
                continue
            seen = self._seen(effect)
            if seen is None:
                continue
            body = msgspec.json.encode(shown(seen))
            if not client.endpoint:
                post.events.append((stream_of(client.name), body))
                continue
            letter = Letter(uri=client.endpoint, body=body, headers=(("Content-Type", "application/json"),), order=client.name)
            key = _key(client.name, effect.subscription)
            post.deliveries.append(
                Delivery(
                    id=store.next_delivery_id(),
                    subscription=key,
                    endpoint=client.endpoint,
                    payload=encode_letter(letter),
                    created_ms=_now_ms(),
                )
            )
        return post

    def _seen(self, effect: m.Deliver) -> m.Deliver | None:
        """A delivery as its client may see it; None: the client may not see enough of it for its own subscription to hold."""
        sight = self._tenant.sight_of_owner(OWNED_CLIENT, effect.client)
        if sight is None:
            return effect
        seen = sight.notification(effect.notification)
        asked = self.subscriptions(effect.client).get(effect.subscription)
        if seen is None or asked is None or not holds(asked, seen):
            return None
        return effect if seen is effect.notification else m.Deliver(effect.client, effect.subscription, seen)

    def _ask(self, request: m.Request) -> list[m.Effect]:
        """What the broker says to a request. Raises BadRequestData with the reason if it refuses."""
        METRICS.count("native_requests", type(request).__name__)
        effects = self._tenant.router.handle(request)
        for effect in effects:
            if isinstance(effect, m.Reject):
                if effect.below:
                    self.guarantees.broken(effect, is_told=True)
                if effect.reason.startswith("there is no "):
                    raise ResourceNotFound(effect.reason)
                raise BadRequestData(effect.reason)
        return effects

    def refused_late(self, refused: m.Reject) -> None:
        """A request that had waited, so that nobody waits for an answer any more."""
        if refused.below:
            self.guarantees.broken(refused, is_told=False)
        else:
            log.warning("a request that had to wait is refused", client=refused.client, reason=refused.reason)

    def bounds(self) -> dict[str, tuple[int, int | None]]:
        return {
            "native_clients": (len(self._clients), CLIENTS_MAX),
            "native_scopes": (len(self._scopes), SCOPES_MAX),
            **self.guarantees.bounds(),
        }


def holds(subscription: Subscription, seen: Notification) -> bool:
    """Whether the content that someone sees is what he asked for."""
    return (
        carries(subscription.attributes, seen)
        and tells(subscription.news, seen)
        and passes_q(subscription.q, seen)
        and passes_quality(subscription.quality, seen)
        and passes_xpath(subscription.xpath, seen)
        and (isinstance(subscription.geofence, World) or lies_in(seen.location, subscription.geofence))
    )


def shown(deliver: m.Deliver) -> dict[str, Any]:
    """A delivery as a client gets it: the notification with the subscription; a JSON payload as JSON, an XML one as text."""
    notification = deliver.notification
    data: dict[str, Any] = msgspec.to_builtins(notification)
    data["subscription"] = deliver.subscription
    if notification.payload and notification.media_type == "application/json":
        data["payload"] = msgspec.Raw(notification.payload.encode())
    return data


def check_name(name: str, what: str) -> None:
    if UNIT in name or not name.isprintable() or not name:
        raise BadRequestData(f"{name[:60]!r} is no name for a {what}: it is empty, or has a control character")
    if what == "client" and name.startswith(_RESERVED):
        raise BadRequestData(f"names of clients do not begin with {' or '.join(_RESERVED)}")


def check_endpoint(uri: str) -> None:
    if not uri:
        return
    try:
        parts = urlsplit(uri)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        usable = False
    if not usable:
        raise BadRequestData(f"the endpoint {uri[:100]!r} is no http or https URL")


def _check_room(kept: dict[str, Any], id_: str, what: str) -> None:
    if id_ not in kept and len(kept) >= KEPT_PER_CLIENT_MAX:
        raise TooManyPending(f"the client has {KEPT_PER_CLIENT_MAX} {what} already")


def _wording_key(kept: Subscription | Advertisement, id_: str) -> str:
    """By the id that the client gave; a broker has made that of a subscription unique."""
    return f"{SUBSCRIPTION if isinstance(kept, Subscription) else ADVERTISEMENT}{UNIT}{_key(kept.client, id_)}"


def _key(first: str, second: str) -> str:
    return f"{first}{UNIT}{second}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
