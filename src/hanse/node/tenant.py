"""One tenant of a node: its store, broker, contexts, subscriptions and registrations, and the one way in which an entity changes.

A change goes like this, all on the event loop's thread, so that changes of one entity never cross: the newest state is read,
a pure operation of `hanse.ngsild` says what it becomes, the broker says which subscriptions hear of it, their notifications are
rendered, and everything is handed to the store as one submission. After the commit the request is answered and the
notifications leave. A crash before the commit leaves nothing behind; one after it leaves the notifications in the outbox.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import structlog
from msgspec import Struct

from hanse.model import WORLD, Geofence, InvalidInput, Notification
from hanse.ngsild.entity import Change, Entity, now_text
from hanse.ngsild.errors import NonexistentTenant, TooManyPending
from hanse.ngsild.geofences import EVENT_GEOFENCE, event_geofence, place
from hanse.ngsild.operations import Outcome, expire
from hanse.ngsild.quality import NO_QUALITY
from hanse.ngsild.subscriptions import news
from hanse.node.access.owners import CLIENT, REGISTRATION, SNAPSHOT, SUBSCRIPTION, Owners
from hanse.node.batch_keys import BatchKeys
from hanse.node.contexts import ContextService
from hanse.node.distributed.forward import Distributed
from hanse.node.distributed.subscriptions import RemoteSubscriptions
from hanse.node.entity_maps import EntityMaps
from hanse.node.models import Models
from hanse.node.native import Native
from hanse.node.notifier import Notifier
from hanse.node.quality import measure_of
from hanse.node.registrations import Registrations
from hanse.node.router import Alone
from hanse.node.snapshots import Snapshots
from hanse.node.store import PutDelivery, SaveChange, Store
from hanse.node.subscriptions import Subscriptions
from hanse.node.transient import Transient
from hanse.routing import Broker, Federation, Settings
from hanse.routing import messages as m
from hanse.routing.federation import Node as FederatedNode

if TYPE_CHECKING:
    from hanse.ngsild.query import TypeQuery
    from hanse.ngsild.registrations import Sought
    from hanse.node.access.access import Access
    from hanse.node.access.views import Sight
    from hanse.node.distributed.sources import Provider
    from hanse.node.lake import Lake
    from hanse.node.live_subscription import Fired
    from hanse.node.mqtt import MqttDevices
    from hanse.node.router import Router
    from hanse.node.settings import NodeSettings
    from hanse.node.store import Write

EXPIRY_S = 1.0  # how often transient entities that have ended are removed; nobody sees them before that either
DEFAULT_TENANT = ""

T = TypeVar("T", bound="Change | Outcome | None")
L = TypeVar("L")

log = structlog.get_logger("hanse.node")


class Applied(Struct):
    """An operation that was accepted; durable once `committed` is done."""

    result: Any
    change: Change | None
    committed: asyncio.Future[None] | None


class Tenant:
    def __init__(
        self, name: str, store: Store, settings: NodeSettings, *, is_alone: bool = False, access: Access | None = None
    ) -> None:
        """`is_alone`: it is no part of the federation, whatever the settings say. `access`: None if there are no policies."""
        self.name = name
        self.store = store
        self.settings = settings
        self.access = access
        self.owners = Owners(store)
        self.publisher = f"urn:hanse:node:{settings.node.id}"
        self.router: Router = self._router(is_alone=is_alone)
        self.contexts = ContextService(store, settings)
        self.models = Models(self)
        self.measure = store.measure = measure_of(settings.quality, self.models.required)
        self.notifier = Notifier(self)
        self.subscriptions = Subscriptions(self)
        self.native = Native(self)
        self.registrations = Registrations(self)
        self.distributed = Distributed(self)
        self.remote_subscriptions = RemoteSubscriptions(self)
        self.entity_maps = EntityMaps(self)
        self.snapshots = Snapshots(self)
        self.transient = Transient(store)
        self.batch_keys = BatchKeys(store)
        self.on_change: list[Callable[[Change], None]] = []  # told of every change, after its commit
        self._published = 0
        self._started_ms = _now_ms()
        self.calls = 0  # how many requests have been for it
        self.is_made_by_call = False  # rather than found when the node started
        self._sweeper: asyncio.Task[None] | None = None

    def _router(self, *, is_alone: bool) -> Router:
        federation = self.settings.federation
        if self.name == DEFAULT_TENANT and not is_alone and (federation.name or federation.file):
            from hanse.node.federation import federated

            return federated(self)
        node = self.settings.node
        alone = Federation((FederatedNode(node.id, community=node.community),))
        return Alone(Broker(node.id, Settings("flood-events", alone)))

    @property
    def broker(self) -> Broker:
        """To look at; requests go to the router."""
        return self.router.broker

    async def start(self) -> None:
        await self.contexts.start()
        self.models.restore()
        await self.notifier.start()
        self.router.restore()
        await self.subscriptions.start()
        self.native.restore()
        await self.registrations.start()
        await self.remote_subscriptions.start()
        await self.entity_maps.start()
        await self.snapshots.start()
        self.transient.restore()
        if self.access is not None:
            await self.owners.keep_only(
                {
                    SUBSCRIPTION: self.subscriptions.ids(),
                    CLIENT: [client.name for client in self.native.clients()],
                    REGISTRATION: self.registrations.ids(),
                    SNAPSHOT: self.snapshots.ids(),
                }
            )
        self.router.keep_only({*self.subscriptions.clients(), *self.registrations.clients()})
        await self.router.start()
        self._sweeper = asyncio.create_task(self._sweep())

    async def stop(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        await self.router.stop()
        await self.subscriptions.stop()
        await self.remote_subscriptions.stop()
        await self.distributed.stop()
        await self.registrations.stop()
        await self.snapshots.stop()
        await self.notifier.stop()
        await self.contexts.stop()
        await self.store.close()

    def providers(self, sought: Sought) -> list[Provider]:
        """Who else may have what is sought: the context sources that have registered."""
        return self.distributed.registered(sought)

    # --- for whom things are done; a `SeenTenant` knows better -------------------------------------------------------

    sees_part = False  # whether something may be hidden

    def looked_at(self, what: L) -> L | None:
        """What other sources have answered (an entity, the past of one, types, attributes), as it is to be seen."""
        return what

    def may_forward(self, types: TypeQuery, id_: str, names: frozenset[str] | None) -> None:
        """Raises unless these attributes of an entity may be published at other sources; None: all of it."""

    def trusts(self, registration: str) -> bool:
        """Whether a source may have what requests say of their senders, tokens included: with policies, an operator's only."""
        if self.access is None:
            return True
        owner = self.owners.of(REGISTRATION, registration)
        return owner is not None and self.access.is_admin(owner)

    def sight_of_owner(self, kind: str, id_: str) -> Sight | None:
        """What the owner of a subscription, a client or a snapshot sees; None: everything, there being no policies."""
        return None if self.access is None else self.access.sight(self, self.owners.listener(kind, id_))

    def seen_by_owner(self, kind: str, id_: str) -> Store:
        """The store as that owner sees it."""
        return self.store if self.access is None else self.access.seen(self, self.owners.listener(kind, id_)).store

    # --- the one way in which an entity changes ---------------------------------------------------------------------

    async def change(self, id_: str, operation: Callable[[Entity | None], T], name: str) -> T:
        """Read, modify, write, durably. `operation` raises to refuse; None (or an outcome without a change) changes nothing."""
        applied = self.apply(id_, operation, name)
        if applied.committed is not None:
            await applied.committed
        return applied.result  # type: ignore[no-any-return]

    def apply(
        self, id_: str, operation: Callable[[Entity | None], Any], name: str, *more: Write, even_expired: bool = False
    ) -> Applied:
        """The same without waiting for the disk: the next operation on the entity sees this one already."""
        result = operation(self.store.latest(id_, even_expired=even_expired))
        change = result.change if isinstance(result, Outcome) else result
        if change is None:
            return Applied(result, None, None)
        return Applied(result, change, self._save(change, name, more))

    def _save(self, change: Change, name: str, more: Iterable[Write]) -> asyncio.Future[None]:
        if self.models.active:
            self.models.check(change, name)
        effects, quality = self._routed(change)
        fired = self.subscriptions.fired(change, effects, quality)
        post = self.native.post(effects)
        deliveries = fired.deliveries + post.deliveries
        pending = self.router.take()
        routed = pending.writes if pending is not None else ()
        writes = (*map(PutDelivery, deliveries), *fired.writes, *self.transient.writes(change), *more, *routed)
        try:
            committed = self.store.submit(SaveChange(change, name), *writes)
        except BaseException:
            self._undo(change, fired)
            self.router.failed()
            raise
        events = fired.events + post.events
        if writes or events or fired.held or self.on_change or pending is not None:

            def after(done: asyncio.Future[None]) -> None:
                if done.cancelled() or done.exception() is not None:
                    self._undo(change, fired)
                    self.router.failed()
                    return
                if pending is not None:
                    for call in pending.after:
                        call()
                if deliveries:
                    self.notifier.dispatch(deliveries)
                self.notifier.streams.tell(events)
                for tell in self.on_change:
                    tell(change)

            committed.add_done_callback(after)
        return committed

    async def keep(self, *writes: Write) -> None:
        """Store something, and with it what the broker was told: both are on the disk then, or neither is."""
        pending = self.router.take()
        if pending is None and not writes:
            return
        try:
            committed = self.store.submit(*writes, *(pending.writes if pending is not None else ()))
        except BaseException:
            self.router.failed()
            raise

        def after(done: asyncio.Future[None]) -> None:
            if done.cancelled() or done.exception() is not None:
                self.router.failed()
                return
            for call in pending.after if pending is not None else ():
                call()

        committed.add_done_callback(after)
        await asyncio.shield(committed)  # whoever asked for it may have gone meanwhile

    def _undo(self, change: Change, fired: Fired) -> None:
        """The change was not stored after all: forget what was remembered because of it."""
        fired.undo(change)
        id_ = change.entity.id
        self.transient.undo(id_, self.store.latest(id_, even_expired=True))

    def _routed(self, change: Change) -> tuple[list[m.Effect], dict[str, float]]:
        """What the broker says to a change: who hears of it. And of what quality the entity is, if anyone may want to know."""
        broker = self.broker
        entity = change.entity
        geofence: Geofence = WORLD
        if EVENT_GEOFENCE in entity.attributes:
            try:
                geofence = event_geofence(entity.attributes)
            except InvalidInput as error:
                if change.kind != "deleted":  # whoever hears of it or not: an entity with such a fence is refused
                    raise error.at("eventGeofence") from None
        router = self.router
        if not router.is_federated and not broker.held:
            return [], NO_QUALITY
        self._published += 1
        is_asked_for = router.is_federated or self.subscriptions.ask_for_quality or self.native.is_any
        quality = self.measure.of_change(change) if is_asked_for else NO_QUALITY
        notification = Notification(
            id=f"{self._started_ms}-{self._published}",
            publisher=self.publisher,
            types=entity.types,
            entity=entity.id,
            attributes=entity.attributes,
            news=news(change),
            quality=quality,
            location=place(entity.attributes),
            geofence=geofence,
        )
        if router.is_federated:
            return router.changed(change, notification), quality
        return router.handle(m.Publish(notification)), quality

    async def _sweep(self) -> None:
        """Remove what has ended: transient entities and attributes, as if someone deleted them; subscriptions; advertisements."""
        while True:
            await asyncio.sleep(EXPIRY_S)
            try:
                now = now_text()
                expiry = partial(expire, now=now)
                for id_ in self.store.expired(now):
                    self.apply(id_, expiry, "expire", even_expired=True)
                for id_ in self.transient.due(now):
                    if self.store.latest(id_, even_expired=True) is None:
                        self.store.submit(self.transient.forget(id_))
                    else:
                        self.apply(id_, expiry, "expire", even_expired=True)
                await self.entity_maps.sweep(now)
                if not self.router.is_federated:  # which ticks for itself
                    self.router.handle(m.Tick())
            except TooManyPending:
                continue
            except Exception:
                log.exception("removing what has expired failed", tenant=self.name)


def _now_ms() -> int:
    return int(time.time() * 1000)


class Node:
    """The process: its tenants, and what they share."""

    def __init__(self, settings: NodeSettings) -> None:
        self.settings = settings
        self.tenants: dict[str, Tenant] = {}
        self.started_at = now_text()
        self.devices: MqttDevices | None = None
        self.access = self._access()
        self.lake = self._lake()
        self.batch_works = asyncio.Lock()  # held by the batch of entities that is being worked on
        self._opening = asyncio.Lock()

    def _lake(self) -> Lake | None:
        if not self.settings.lake.path:
            return None
        from hanse.node.lake import Lake  # only who has one pays for it

        return Lake(self.settings)

    def _access(self) -> Access | None:
        if not self.settings.access.policies:
            return None
        from hanse.node.access.access import Access  # only who has policies pays for them

        return Access(self.settings)

    @property
    def directory(self) -> Path | None:
        return Path(self.settings.store.data) if self.settings.store.data else None

    async def start(self) -> None:
        if self.lake is not None:
            await self.lake.start()
        await self._open(DEFAULT_TENANT)
        if self.access is not None:
            self.access.on_change.append(self._policies_changed)
            await self.access.start()
        if self.directory is not None:
            for name in Store.tenants(self.directory):
                if name not in self.tenants:
                    await self._open(name)
        mqtt = self.settings.mqtt
        if mqtt.embedded or mqtt.url:
            from hanse.node.mqtt import MqttDevices

            self.devices = MqttDevices(self, mirror=mqtt.mirror, form=mqtt.form, context=mqtt.context)
            try:
                await self.devices.start()
            except OSError as error:
                raise InvalidInput(
                    f"cannot listen for MQTT there ({error.strerror or error}); choose another --mqtt-port, or --no-mqtt",
                    place=f"{mqtt.host}:{mqtt.port}",
                ) from error

    def _policies_changed(self) -> None:
        for tenant in self.tenants.values():
            tenant.subscriptions.policies_changed()

    def bounds(self) -> dict[str, tuple[int, int | None]]:
        of_lake = self.lake.bounds() if self.lake is not None else {}
        return of_lake | (self.devices.bounds() if self.devices is not None else {})

    async def stop(self) -> None:
        if self.devices is not None:
            await self.devices.stop()
        if self.access is not None:
            await self.access.stop()
        if self.lake is not None:
            await asyncio.to_thread(self.lake.close)
        for tenant in self.tenants.values():
            await tenant.stop()
        self.tenants.clear()

    async def tenant(self, name: str, *, create: bool) -> Tenant:
        """The tenant of that name. Raises NonexistentTenant if there is none and none may be made."""
        async with self._opening:
            tenant = self.tenants.get(name)
            if tenant is not None:
                return tenant
            if not create or not self.settings.tenants.create:
                raise NonexistentTenant(f"there is no tenant {name!r}; the first write to it makes it")
            if len(self.tenants) >= self.settings.tenants.max:
                raise TooManyPending(f"there are {self.settings.tenants.max} tenants already")
            tenant = await self._open(name)
            tenant.is_made_by_call = True
            return tenant

    async def refused(self, tenant: Tenant) -> None:
        """A request was refused: if it was the one that made the tenant, and nobody else came since, nothing is left of it."""
        async with self._opening:
            if tenant.calls > 1 or not tenant.is_made_by_call or self.tenants.get(tenant.name) is not tenant:
                return
            del self.tenants[tenant.name]
            await tenant.stop()
            if self.directory is not None:
                path = tenant.store.path
                of_sqlite = (path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm", "-journal"))
                for file in (*of_sqlite, path.with_suffix(".lock")):  # by name: `a.*` would be `a.b`'s, too
                    file.unlink(missing_ok=True)

    async def _open(self, name: str) -> Tenant:
        store = Store.open(self.directory, name, self.settings.store, query_ms_max=self.settings.limits.query_ms_max)
        if self.access is not None and name == DEFAULT_TENANT:
            self.access.restore(store)
        if self.lake is not None:
            await self.lake.serve(store, name)
        tenant = Tenant(name, store, self.settings, access=self.access)
        await tenant.start()
        self.tenants[name] = tenant
        return tenant
