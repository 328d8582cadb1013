"""The parts of a tenant as one principal sees them: what is its own, and what it may make.

Something that belongs to another is not there, for all that is to be seen from here. Operators see everything.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hanse.ngsild.entity import now_text
from hanse.ngsild.errors import AlreadyExists, ResourceNotFound, TooManyResults
from hanse.ngsild.ordering import order_entities
from hanse.ngsild.query import EntityQuery, matches
from hanse.node.access import owners as owned
from hanse.node.access.errors import Forbidden
from hanse.node.distributed.subscriptions import RemoteSubscriptions, told_entity
from hanse.node.entity_maps import EntityMaps
from hanse.node.native import Native
from hanse.node.registrations import Registrations
from hanse.node.snapshots import Snapshots
from hanse.node.store import Found
from hanse.node.subscriptions import Subscriptions
from hanse.policies import ANONYMOUS, Resource, resource_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from hanse.model import Advertisement, Location, Notification, Subscription
    from hanse.ngsild.contexts import Context
    from hanse.ngsild.entity import Entity
    from hanse.ngsild.entity_maps import EntityMap
    from hanse.ngsild.registrations import Registration, Sought
    from hanse.ngsild.representation import View
    from hanse.ngsild.snapshots import Snapshot
    from hanse.ngsild.subscriptions import NgsiSubscription
    from hanse.ngsild.temporal import Page
    from hanse.ngsild.temporal_parsing import TemporalQuery
    from hanse.node.access.seen_tenant import SeenTenant
    from hanse.node.federation.reading import Read
    from hanse.node.federation.reading import Reading as FederatedReading
    from hanse.node.history import History
    from hanse.node.live_subscription import Live
    from hanse.node.native import NativeClient
    from hanse.node.notifier.streams import Streams
    from hanse.node.snapshots import Before
    from hanse.node.tenant import Tenant


_HOW: Final = "contextSourceInfo"  # of a registration


class Ownership:
    """Of one kind of things."""

    def __init__(self, seen: SeenTenant, kind: str) -> None:
        self._seen = seen
        self._kind = kind
        self._owners = seen.real.owners

    def has(self, id_: str) -> bool:
        return self._seen.is_admin or self._owners.of(self._kind, id_) == self._seen.sight.principal

    def check(self, id_: str, what: str) -> None:
        if not self.has(id_):
            raise ResourceNotFound(f"there is no {what} {id_!r}")

    async def take(self, id_: str, *, is_kept: bool = True, by_anyone: bool = False) -> None:
        """Raises Forbidden: what is nobody's in particular would be everybody's."""
        if self._seen.sight.principal == ANONYMOUS and not by_anyone:
            raise Forbidden(f"say who you are, by a token: a {self._kind} belongs to someone")
        await self._owners.put(self._kind, id_, self._seen.sight.principal, is_kept=is_kept)

    async def give_up(self, id_: str) -> None:
        await self._owners.forget(self._kind, id_)

    def making(self, id_: str) -> AbstractContextManager[None]:
        return self._owners.making(self._kind, id_)


class SeenSubscriptions(Subscriptions):
    def __init__(self, seen: SeenTenant) -> None:
        self._real = seen.real.subscriptions
        self._sight = seen.sight
        self._own = Ownership(seen, owned.SUBSCRIPTION)

    def _check(self, subscription: NgsiSubscription) -> None:
        selectors = subscription.query.selectors
        selected = [
            (alternative, id_) for one in selectors for alternative in (one.types or ((),)) for id_ in (one.ids or ("",))
        ] or [((), "")]
        names = {*subscription.watched, *subscription.query.attrs, *subscription.notification.attributes}
        self._sight.may_subscribe("subscribe", selected, names)

    async def add(self, subscription: NgsiSubscription, *, is_kept: bool = True) -> Live:
        self._check(subscription)
        if subscription.id in self._real:
            raise AlreadyExists(f"there is a subscription {subscription.id!r} already; choose another id")
        with self._own.making(subscription.id):
            # first, so that it is never told more than its owner may see; policies have decided whether that may be anyone
            await self._own.take(subscription.id, is_kept=is_kept, by_anyone=True)
            try:
                return await self._real.add(subscription, is_kept=is_kept)
            except BaseException:
                await self._own.give_up(subscription.id)
                raise

    def get(self, id_: str) -> Live:
        self._own.check(id_, "subscription")
        return self._real.get(id_)

    def page(self, limit: int, offset: int = 0) -> tuple[list[Live], int]:
        every, _ = self._real.page(len(self._real))
        own = [live for live in every if self._own.has(live.subscription.id)]
        return own[offset : offset + limit], len(own)

    async def update(
        self, id_: str, body: Any, context: Context, check: Callable[[NgsiSubscription], None] | None = None
    ) -> None:
        self._own.check(id_, "subscription")
        await self._real.update(id_, body, context, check or self._check)

    async def delete(self, id_: str) -> None:
        self._own.check(id_, "subscription")
        await self._real.delete(id_)
        await self._own.give_up(id_)

    def shown(self, live: Live, context: Context, *, sys_attrs: bool = False) -> dict[str, Any]:
        return self._real.shown(live, context, sys_attrs=sys_attrs)


class SeenNative(Native):
    """A client is its principal's who has attached it."""

    def __init__(self, seen: SeenTenant) -> None:
        self._real = seen.real.native
        self._sight = seen.sight
        self._own = Ownership(seen, owned.CLIENT)
        self._is_admin = seen.is_admin

    def client(self, name: str) -> NativeClient:
        if not self._own.has(name):
            raise ResourceNotFound(f"there is no client {name!r} here; attach it first: PUT /hanse/v1/clients/{name}")
        return self._real.client(name)

    def clients(self) -> list[NativeClient]:
        return [client for client in self._real.clients() if self._own.has(client.name)]

    async def attach(self, client: NativeClient, previous: str | None = None) -> None:
        if any(known.name == client.name for known in self._real.clients()):
            if not self._own.has(client.name):
                raise Forbidden(f"the client {client.name!r} is another's; choose another name")
            await self._real.attach(client, previous)
            return
        with self._own.making(client.name):
            await self._own.take(client.name)
            try:
                await self._real.attach(client, previous)
            except BaseException:
                await self._own.give_up(client.name)
                raise

    async def detach(self, name: str) -> None:
        self.client(name)
        await self._real.detach(name)
        await self._own.give_up(name)

    async def locate(self, name: str, location: Location) -> None:
        self.client(name)
        await self._real.locate(name, location)

    def subscriptions(self, client: str) -> dict[str, Subscription]:
        self.client(client)
        return self._real.subscriptions(client)

    def advertisements(self, client: str) -> dict[str, Advertisement]:
        self.client(client)
        return self._real.advertisements(client)

    def written(self, kept: Subscription | Advertisement, id_: str) -> str:
        return self._real.written(kept, id_)

    async def subscribe(self, subscription: Subscription, written: str = "") -> None:
        self.client(subscription.client)
        self._sight.may_native("subscribe", subscription, subscription.attributes)
        await self._real.subscribe(subscription, written)

    async def unsubscribe(self, client: str, id_: str) -> None:
        self.client(client)
        await self._real.unsubscribe(client, id_)

    async def advertise(self, advertisement: Advertisement, written: str = "") -> None:
        self.client(advertisement.client)
        self._sight.may_native("advertise", advertisement)
        await self._real.advertise(advertisement, written)

    async def unadvertise(self, client: str, id_: str) -> None:
        self.client(client)
        await self._real.unadvertise(client, id_)

    def scopes(self) -> dict[str, Any]:
        return self._real.scopes()

    async def join_scope(self, dimension: str, scope: str) -> None:
        self._may_join(dimension, scope)
        await self._real.join_scope(dimension, scope)

    async def leave_scope(self, dimension: str, scope: str) -> None:
        self._may_join(dimension, scope)
        await self._real.leave_scope(dimension, scope)

    def _may_join(self, dimension: str, scope: str) -> None:
        resource = Resource(scopes=(f"{dimension}:{scope}",), tenant=self._sight.tenant)
        self._sight.check("join", resource, (), f"{dimension}:{scope}")

    def next_id(self) -> str:
        return self._real.next_id()

    async def publish(self, notification: Notification) -> int:
        self.client(notification.publisher)
        areas = self._sight.policies.areas_at(notification.location)
        whole = resource_of(notification, tenant=self._sight.tenant, areas=areas)
        # a payload is what nobody can look into: it is published as a whole
        is_whole = bool(notification.payload) or notification.location is not None
        self._sight.check("publish", whole, notification.attributes, notification.id, is_whole=is_whole)
        return await self._real.publish(notification)


class SeenRegistrations(Registrations):
    """A registration tells what there is elsewhere: who may read nothing of that does not see it."""

    def __init__(self, seen: SeenTenant) -> None:
        self._real = seen.real.registrations
        self._sight = seen.sight
        self._own = Ownership(seen, owned.REGISTRATION)
        self._is_admin = seen.is_admin

    def _check(self, registration: Registration) -> None:
        for information in registration.information:
            selected = [(entity.types, entity.id or "") for entity in information.entities] or [((), "")]
            self._sight.may_subscribe("advertise", selected, information.names)
            if not self._is_admin and any(map(_is_told_by, registration.operations)):
                # what others write is sent there: that is for those who may read it all, as it is
                for types, id_ in selected:
                    self._sight.sees_all(types, id_, information.names)

    def _sees(self, registration: Registration) -> bool:
        if self._own.has(registration.id):
            return True
        try:
            for information in registration.information:
                selected = [(entity.types, entity.id or "") for entity in information.entities] or [((), "")]
                self._sight.may_subscribe("read", selected, information.names)
        except Forbidden:
            return False
        return True

    @property
    def is_any(self) -> bool:
        return self._real.is_any

    def get(self, id_: str) -> Registration:
        registration = self._real.get(id_)
        if not self._sees(registration):
            raise ResourceNotFound(f"there is no registration {id_!r}")
        return self._shown(registration)

    def find(self, sought: Sought) -> list[Registration]:
        return [self._shown(registration) for registration in self._real.find(sought) if self._sees(registration)]

    def _shown(self, registration: Registration) -> Registration:
        """How a source is asked, with tokens and all, is between its owner and this node."""
        if _HOW not in registration.document or self._own.has(registration.id):
            return registration
        left = {name: value for name, value in registration.document.items() if name != _HOW}
        return msgspec.structs.replace(registration, document=left)

    async def create(self, registration: Registration) -> None:
        self._check(registration)
        await self._real.create(registration)
        await self._own.take(registration.id, by_anyone=True)

    async def replace(self, old: Registration, new: Registration) -> None:
        self._own.check(old.id, "registration")
        self._check(new)
        await self._real.replace(old, new)

    async def remove(self, id_: str) -> None:
        self._own.check(id_, "registration")
        await self._real.remove(id_)
        await self._own.give_up(id_)


def _is_told_by(operation: str) -> bool:
    """Whether a source gets to know by this operation what somebody has written."""
    is_of_data = not any(kind in operation for kind in ("Subscription", "EntityMap"))
    return is_of_data and not operation.startswith(("retrieve", "query", "delete", "purge"))


class SeenEntityMaps(EntityMaps):
    """Whoever knows the name of a map may use it; it names only what he sees."""

    def __init__(self, seen: SeenTenant) -> None:
        super().__init__(seen)
        self._maps = seen.real.entity_maps.shared()

    def get(self, id_: str) -> EntityMap:
        entity_map = super().get(id_)
        store = self._tenant.store
        return msgspec.structs.replace(entity_map, ids=[id_ for id_ in entity_map.ids if store.entity(id_) is not None])


class SeenSnapshots(Snapshots):
    """A snapshot is its principal's who has made it, and holds what he could see then."""

    def __init__(self, seen: SeenTenant) -> None:
        self._real = seen.real.snapshots
        self._own = Ownership(seen, owned.SNAPSHOT)

    async def create(self, body: Any, context: Context, before: Before | None = None) -> Snapshot:
        return await self._real.create(body, context, before or self._take)

    async def clone(self, id_: str, body: Any, before: Before | None = None) -> Snapshot:
        self._own.check(id_, "snapshot")
        return await self._real.clone(id_, body, before or self._take)

    async def _take(self, snapshot: Snapshot) -> None:
        await self._own.take(snapshot.id)

    def get(self, id_: str) -> Snapshot:
        self._own.check(id_, "snapshot")
        return self._real.get(id_)

    async def patch(self, id_: str, body: Any) -> Snapshot:
        self._own.check(id_, "snapshot")
        return await self._real.patch(id_, body)

    async def delete(self, id_: str) -> None:
        self._own.check(id_, "snapshot")
        await self._real.delete(id_)
        await self._own.give_up(id_)

    async def purge(self, q: str, only: Callable[[str], bool] = lambda _: True) -> None:
        await self._real.purge(q, lambda id_: self._own.has(id_) and only(id_))

    async def view(self, id_: str) -> Tenant:
        self._own.check(id_, "snapshot")
        return await self._real.view(id_)


class SeenRemoteSubscriptions(RemoteSubscriptions):
    """What other sources tell for subscriptions here is published here."""

    def __init__(self, seen: SeenTenant) -> None:
        self._real = seen.real.remote_subscriptions
        self._sight = seen.sight

    async def keep_local(self, id_: str) -> None:
        await self._real.keep_local(id_)

    def changed(self, subscription: str | None = None) -> None:
        self._real.changed(subscription)

    async def told(self, body: Any, context: Context) -> None:
        for item in body.get("data", ()) if isinstance(body, dict) and isinstance(body.get("data"), list) else ():
            entity = told_entity(item, context)
            self._sight.check("publish", self._sight.resource(entity, "publish"), entity.attributes, entity.id)
        await self._real.told(body, context)


class SeenReading:
    """What other nodes have, too. They have decided what this node may see; what is left of that is decided here."""

    def __init__(self, reading: FederatedReading, seen: SeenTenant) -> None:
        self._real = reading
        self._seen = seen

    async def entity(self, id_: str) -> tuple[Entity | None, list[str]]:
        if self._seen.real.store.entity(id_) is not None:
            return self._seen.store.entity(id_), []
        entity, warnings = await self._real.entity(id_)
        return None if entity is None else self._seen.sight.entity(entity), warnings

    async def query(self, asked: EntityQuery) -> Read:
        """Others find what may be meant, and what of it is meant is found by what is seen of it: so are order and count."""
        if self._seen.sight.is_all or not self._real.concerns_others(asked):
            return await self._real.query(asked, self._seen.store)
        read = await self._real.query(self._of_its_kind(asked), self._seen.store)
        self._check_all(len(read.found.entities))
        quality_of = self._seen.measure.of_entity(now_text())
        sight = self._seen.sight
        left = [
            seen
            for entity in read.found.entities
            if (seen := sight.entity(entity)) is not None and matches(asked, seen, quality_of)
        ]
        if asked.order_by:
            left = order_entities(left, asked.order_by)
        page = left[asked.offset : asked.offset + asked.limit]
        read.found = Found(page, len(left) if asked.count else None)
        return read

    def _of_its_kind(self, asked: EntityQuery) -> EntityQuery:
        """All that a query may find: by what nobody hides of an entity that is seen."""
        return EntityQuery(selectors=asked.selectors, scope_q=asked.scope_q, limit=self._real.most)

    def _check_all(self, found: int) -> None:
        most = self._real.most
        if found >= most:
            raise TooManyResults(f"{most} entities or more would have to be looked at one by one; name their types or ids")

    async def evolution(self, history: History, id_: str, temporal: TemporalQuery, view: View) -> tuple[Page, list[str]]:
        if temporal.aggregation is not None and not self._seen.sight.is_all:
            with suppress(ResourceNotFound):  # what is computed here is computed of what is seen
                return await history.retrieve(id_, temporal, view), []
        page, warnings = await self._real.evolution(history, id_, temporal, view)
        self._leave(page)
        if not page.evolutions:
            raise ResourceNotFound(f"nothing is known of the past of {id_!r}")
        return page, warnings

    async def evolutions(
        self, history: History, asked: EntityQuery, temporal: TemporalQuery, view: View
    ) -> tuple[Page, int | None, list[str]]:
        if self._seen.sight.is_all or not self._real.concerns_others(asked):
            return await self._real.evolutions(history, asked, temporal, view)
        if asked.q or asked.geo or asked.quality or temporal.aggregation is not None:
            # others would answer by what they have, and so tell more than may be seen
            page, count = await history.query(asked, temporal, view)
            return page, count, ["other nodes are asked neither filters nor sums of the past, where not all of it may be seen"]
        page, _, warnings = await self._real.evolutions(history, self._of_its_kind(asked), temporal, view)
        self._check_all(len(page.evolutions))
        self._leave(page)
        count = len(page.evolutions) if asked.count else None
        page.evolutions = page.evolutions[asked.offset : asked.offset + asked.limit]
        return page, count, warnings

    def _leave(self, page: Page) -> None:
        page.evolutions = [evolution for evolution in page.evolutions if self._seen.sight.evolution(evolution)]


class SeenNotifier:
    """Of sending, only the streams: whose they are is asked of subscriptions and clients."""

    def __init__(self, streams: Streams) -> None:
        self.streams = streams
