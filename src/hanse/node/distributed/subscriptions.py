"""Subscriptions that reach further than this node (5.8.1.4): sources that can do so are asked to notify the node of what a
subscription is about, and the node tells its subscriber.

Which sources hold a copy of which subscription is written down before they are asked. A task makes it so, and goes on trying:
when a subscription or a registration changes, the copies follow. A copy is for what its source has itself (`localOnly`), and a
subscription that came from another broker (it has a Via header) is not passed on: so nothing goes round in circles.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote
from uuid import uuid4

import msgspec
import structlog
from msgspec import Struct

from hanse.ngsild.contexts import CORE
from hanse.ngsild.distributed import AUXILIARY, may_have, names_for, narrowed, without
from hanse.ngsild.distributed_merge import read_entity
from hanse.ngsild.distributed_wire import filter_members, selector_bodies
from hanse.ngsild.entity import Entity, now_text
from hanse.ngsild.errors import BadRequestData, NgsiLdError, ResourceNotFound, TooManyResults
from hanse.ngsild.parsing import parse_fragment
from hanse.ngsild.quality import quality_matches
from hanse.ngsild.query import EntitySelector
from hanse.ngsild.registrations import Sought, decode_registration, encode_registration
from hanse.ngsild.subscription_members import DEFAULT_TRIGGERS
from hanse.node.distributed.forward import NoReply, Outgoing, Trigger
from hanse.node.notifier.notifier import encode_letter
from hanse.node.store import DeleteDocument, Delivery, PutDelivery, PutDocument

if TYPE_CHECKING:
    from hanse.ngsild.contexts import Context
    from hanse.ngsild.subscriptions import NgsiSubscription
    from hanse.node.distributed.forward import Reply
    from hanse.node.distributed.sources import Provider
    from hanse.node.live_subscription import Live
    from hanse.node.tenant import Tenant

COPY: Final = "subscription-copy"  # kinds of documents in the store
LOCAL: Final = "subscription-local"
PATH: Final = "/hanse/v1/remote-notifications"
COPIES_MAX: Final = 100_000
RETRY_S: Final = 30.0
LOOK_AGAIN_S: Final = 300.0  # subscriptions end by themselves, too
DELETIONS_MAX: Final = 20  # how often a source is asked to forget a copy
OPERATION: Final = "createSubscription"
_BUSY: Final = frozenset({429, 500, 502, 503, 504})  # another time it may do what it is asked to

log = structlog.get_logger("hanse.distributed")


class Copy(Struct):
    """What a source has been asked to do."""

    id: str  # what the copy is called there
    subscription: str
    registration: bytes  # as it was then: who is to be asked to end it
    digest: str  # of what it says
    is_there: bool = False
    meaning: str = ""  # likewise, of all but whom it tells
    deletions: int = 0  # how often its end was asked for in vain


class RemoteSubscriptions:
    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._copies: dict[str, Copy] = {}  # by their own ids
        self._of: dict[str, set[str]] = {}  # those of a subscription
        self._local: set[str] = set()
        self._dirty: set[str] | None = set()  # subscriptions to be looked at; None: all
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        store = self._tenant.store
        for _, data in store.documents(COPY):
            self._remember(msgspec.json.decode(data, type=Copy))
        self._local = {id_ for id_, _ in store.documents(LOCAL)}
        self._tenant.registrations.on_change.append(self.changed)
        self._task = asyncio.create_task(self._follow())
        self.changed()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def bounds(self) -> dict[str, tuple[int, int | None]]:
        return {"subscription_copies": (len(self._copies), COPIES_MAX)}

    # --- what changes -----------------------------------------------------------------------------------------------

    def changed(self, subscription: str | None = None) -> None:
        """A subscription has changed; or, without one, who could have copies of any."""
        if subscription is None:
            self._dirty = None
        elif self._dirty is not None:
            self._dirty.add(subscription)
        self._woken.set()

    async def keep_local(self, subscription: str) -> None:
        """Pass a subscription on to nobody."""
        self._local.add(subscription)
        await self._tenant.store.submit(PutDocument(LOCAL, subscription, b"{}"))

    def _remember(self, copy: Copy) -> None:
        self._copies[copy.id] = copy
        self._of.setdefault(copy.subscription, set()).add(copy.id)

    async def _forget(self, copy: Copy) -> None:
        self._copies.pop(copy.id, None)
        others = self._of.get(copy.subscription, set())
        others.discard(copy.id)
        if not others:
            self._of.pop(copy.subscription, None)
        await self._tenant.store.submit(DeleteDocument(COPY, copy.id))

    # --- copies follow ----------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        wait_s = LOOK_AGAIN_S
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._woken.wait()
            self._woken.clear()
            dirty, self._dirty = self._dirty, set()
            try:
                is_done = await self._settle(dirty or None)
            except Exception:
                log.exception("subscriptions at other sources could not be settled", tenant=self._tenant.name)
                is_done = False
            wait_s = LOOK_AGAIN_S if is_done else RETRY_S

    async def _settle(self, dirty: set[str] | None) -> bool:
        """Make the copies what they should be; False if some could not be."""
        if not self._copies and not self._tenant.distributed.is_any:
            return True
        lives = {live.subscription.id: live for live in self._tenant.subscriptions.page(COPIES_MAX)[0]}
        is_done = True
        for id_ in {*lives, *self._of, *self._local} if dirty is None else dirty:
            if id_ not in lives and id_ in self._local:
                self._local.discard(id_)
                await self._tenant.store.submit(DeleteDocument(LOCAL, id_))
            wanted = await self._wanted(lives[id_]) if id_ in lives else {}
            is_done = await self._settle_one(id_, wanted) and is_done
        return is_done

    async def _settle_one(self, id_: str, wanted: dict[str, tuple[Provider, Context, dict[str, Any]]]) -> bool:
        work = []
        for copy in [self._copies[copy_id] for copy_id in self._of.get(id_, ())]:
            registration = decode_registration(copy.registration)
            found = wanted.get(registration.id)
            if found is not None and copy.digest == _digest(found[0], found[2]):
                del wanted[registration.id]
                if not copy.is_there:
                    work.append(self._make(copy, *found))
            elif found is not None and copy.is_there and copy.meaning == _meaning(found[0], found[2]):
                del wanted[registration.id]
                work.append(self._redirect(copy, *found))
            else:
                work.append(self._end(copy))
        for provider, wire, body in wanted.values():
            if len(self._copies) >= COPIES_MAX:
                raise TooManyResults(f"there are {COPIES_MAX} copies of subscriptions at other sources already")
            copy = Copy(
                f"urn:ngsi-ld:Subscription:{uuid4()}",
                id_,
                encode_registration(provider.registration),
                _digest(provider, body),
                meaning=_meaning(provider, body),
            )
            self._remember(copy)
            await self._tenant.store.submit(PutDocument(COPY, copy.id, msgspec.json.encode(copy)))
            work.append(self._make(copy, provider, wire, body))
        return all(await asyncio.gather(*work))

    async def _wanted(self, live: Live) -> dict[str, tuple[Provider, Context, dict[str, Any]]]:
        """The copies that there should be of a subscription, by registration."""
        subscription = live.subscription
        if subscription.id in self._local or not subscription.is_live(int(time.time() * 1000)):
            return {}
        query = subscription.query
        sought = Sought(selectors=query.selectors, csf=subscription.csf, operations=frozenset({OPERATION}))
        wanted: dict[str, tuple[Provider, Context, dict[str, Any]]] = {}
        for provider in self._tenant.providers(sought):
            registration = provider.registration
            if registration.mode == AUXILIARY or not may_have(registration, query):
                continue
            names = names_for(registration, query.selectors)
            if names is None or not subscription.watched or not names.isdisjoint(subscription.watched):
                wire = await self._tenant.distributed.wire(provider, live.context)
                wanted[registration.id] = provider, wire, self._body(live, provider, names, wire)
        return wanted

    def _body(self, live: Live, provider: Provider, names: frozenset[str] | None, wire: Context) -> dict[str, Any]:
        """A subscription as a source is to have it: to what it is registered with, and with this node to be told."""
        subscription = live.subscription
        selectors = [
            narrowed(provider.registration, selector) for selector in subscription.query.selectors or (EntitySelector(),)
        ]
        notice = subscription.notification
        endpoint: dict[str, Any] = {"uri": self._tenant.contexts.base_url + PATH, "accept": "application/json"}
        if self._tenant.name:
            endpoint["receiverInfo"] = [{"key": "NGSILD-Tenant", "value": self._tenant.name}]
        shown = frozenset(notice.attributes) or names
        if names is not None and shown is not None:
            shown &= names
        notification: dict[str, Any] = {"endpoint": endpoint, "format": "normalized", "sysAttrs": True}
        if shown:
            notification["attributes"] = sorted(map(wire.compact_iri, shown))
        body: dict[str, Any] = {
            "type": "Subscription",
            "entities": [selected for selector in selectors for selected in selector_bodies(selector, wire)],
            "notification": notification,
            "localOnly": True,
        }
        if subscription.watched:
            watched = subscription.watched if names is None else [name for name in subscription.watched if name in names]
            body["watchedAttributes"] = [wire.compact_iri(name) for name in watched]
        if subscription.triggers:
            body["notificationTrigger"] = list(subscription.triggers)
        times = {
            "expiresAt": subscription.expires_at,
            "throttling": subscription.throttling_s,
            "timeInterval": subscription.time_interval_s,
        }
        body |= {member: value for member, value in times.items() if value is not None}
        return body | filter_members(subscription.query, wire)

    async def _make(self, copy: Copy, provider: Provider, wire: Context, body: dict[str, Any]) -> bool:
        outgoing = Outgoing("POST", "/subscriptions", body=body | {"id": copy.id})
        reply = await self._tenant.distributed.ask(provider, outgoing, Trigger({}, wire))
        if copy.id not in self._copies:
            return True
        if isinstance(reply, NoReply) or not (reply.is_success or reply.status == 409):
            log.info("a source takes no subscription", registration=provider.registration.id, reason=_reason(reply))
            return False
        copy.is_there = True
        await self._tenant.store.submit(PutDocument(COPY, copy.id, msgspec.json.encode(copy)))
        return True

    async def _redirect(self, copy: Copy, provider: Provider, wire: Context, body: dict[str, Any]) -> bool:
        """Have the source tell this node at its new address, from one moment to the next."""
        change = {"type": "Subscription", "notification": body["notification"]}
        outgoing = Outgoing("PATCH", f"/subscriptions/{quote(copy.id, safe=':')}", body=change)
        reply = await self._tenant.distributed.ask(provider, outgoing, Trigger({}, wire))
        if isinstance(reply, NoReply) or reply.status in _BUSY or copy.id not in self._copies:
            return False
        if reply.status == 404:  # it has forgotten it
            copy.is_there = False
        elif not reply.is_success:  # it cannot change one: another is made in its place
            log.info("a source changes no subscription", registration=provider.registration.id, reason=_reason(reply))
            if await self._end(copy):
                self.changed(copy.subscription)
            return False
        copy.digest = _digest(provider, body)
        await self._tenant.store.submit(PutDocument(COPY, copy.id, msgspec.json.encode(copy)))
        return copy.is_there or await self._make(copy, provider, wire, body)

    async def _end(self, copy: Copy) -> bool:
        provider = self._tenant.distributed.provider(decode_registration(copy.registration))
        outgoing = Outgoing("DELETE", f"/subscriptions/{quote(copy.id, safe=':')}")
        reply = await self._tenant.distributed.ask(provider, outgoing, Trigger({}, CORE))
        copy.deletions += 1
        if not isinstance(reply, NoReply) and (reply.is_success or reply.status == 404):
            await self._forget(copy)
            return True
        if copy.deletions >= DELETIONS_MAX:
            log.warning(
                "a source keeps a subscription that has ended", registration=provider.registration.id, subscription=copy.id
            )
            await self._forget(copy)
            return True
        return False

    # --- what sources tell ------------------------------------------------------------------------------------------

    async def told(self, body: Any, context: Context) -> None:
        """A notification of a source, for the subscription that it has a copy of. Raises BadRequestData and its like."""
        if not isinstance(body, dict) or not isinstance(body.get("data"), list):
            raise BadRequestData("a notification is an object with a subscriptionId and data, an array of entities")
        copy = self._copies.get(str(body.get("subscriptionId")))
        if copy is None:
            raise ResourceNotFound("there is no such subscription, or none any more")
        live = self._tenant.subscriptions.get(copy.subscription)
        registration = decode_registration(copy.registration)
        entities = [told_entity(item, context) for item in body["data"]]
        if (names := names_for(registration, live.subscription.query.selectors)) is not None:
            entities = [without(entity, frozenset(entity.attributes) - names) for entity in entities]
        entities = live.seen_entities(entities)
        quality = live.subscription.query.quality
        if quality and names is None and _is_told_whole(live.subscription):  # who does not know the member may ignore it
            quality_of = self._tenant.measure.of_entity(now_text())
            entities = [entity for entity in entities if quality_matches(quality, quality_of(entity))]
        if live.writer is None or not entities or not live.subscription.is_live(int(time.time() * 1000)):
            return
        text = live.writer.body_of_entities(entities, now_text())
        if text is None:
            return
        if live.is_stream:
            self._tenant.notifier.streams.publish(live.subscription.id, text)
            return
        delivery = Delivery(
            id=self._tenant.store.next_delivery_id(),
            subscription=live.subscription.id,
            endpoint=live.subscription.notification.endpoint.uri,
            payload=encode_letter(live.writer.letter(text, f"{live.subscription.id} {entities[0].id}")),
            created_ms=int(time.time() * 1000),
        )
        await self._tenant.store.submit(PutDelivery(delivery))
        self._tenant.notifier.dispatch([delivery])


def told_entity(body: Any, context: Context) -> Entity:
    """An entity of a notification; what has been deleted of it is null."""
    try:
        return read_entity(body, context)
    except NgsiLdError:  # something in it has been deleted, which is said by nulls
        part = parse_fragment(body, context, now_text(), allow_null=True)
        if part.id is None or not part.types:
            raise
        return Entity(id=part.id, types=part.types, scopes=part.scopes or (), attributes=part.attributes)


def _is_told_whole(subscription: NgsiSubscription) -> bool:
    """Whether sources tell of all that an entity has, and of nothing that is gone."""
    return not subscription.notification.attributes and set(subscription.triggers) <= set(DEFAULT_TRIGGERS)


def _digest(provider: Provider, body: dict[str, Any]) -> str:
    said = msgspec.json.encode([provider.registration.document, body], order="sorted")
    return hashlib.sha256(said).hexdigest()


def _meaning(provider: Provider, body: dict[str, Any]) -> str:
    notification = {name: value for name, value in body["notification"].items() if name != "endpoint"}
    return _digest(provider, body | {"notification": notification})


def _reason(reply: Reply | NoReply) -> str:
    return reply.text if isinstance(reply, NoReply) else f"it answers {reply.status}"
