"""The subscriptions to registrations of a tenant: kept, counted, and told of what they seek through the tenant's outbox."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec
import structlog
from msgspec import Struct

from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import now_text
from hanse.ngsild.errors import AlreadyExists, BadRequestData, NgsiLdError, ResourceNotFound, TooManyResults
from hanse.ngsild.notifications import Writer
from hanse.ngsild.registration_subscriptions import Reason, RegistrationSubscription, notification, reason
from hanse.ngsild.registrations import Registration, Sought
from hanse.ngsild.subscription_members import STREAM_URI
from hanse.ngsild.subscriptions import Counters, settled
from hanse.node.notifier.notifier import encode_letter
from hanse.node.store import DeleteDocument, Delivery, PutDelivery, PutDocument

if TYPE_CHECKING:
    from hanse.ngsild.contexts import Context
    from hanse.node.registrations import Registrations
    from hanse.node.tenant import Tenant

KIND: Final = "registration-subscription"
SUBSCRIPTIONS_MAX: Final = 10_000
COUNTERS_S: Final = 1.0  # how long counters may be newer in memory than in the store

log = structlog.get_logger("hanse.registrations")
_encode = msgspec.json.Encoder().encode


class _Stored(Struct):
    subscription: RegistrationSubscription
    counters: Counters


class _Entry:
    """One subscription, and what it takes to serve it."""

    __slots__ = ("context", "counters", "last_ms", "periodic", "sought", "subscription", "writer")

    def __init__(self, subscription: RegistrationSubscription, counters: Counters, context: Context, tenant: str) -> None:
        self.subscription = subscription
        self.counters = counters
        self.context = context
        self.sought: Sought = subscription.sought()
        self.writer = Writer(subscription.base, context, lambda _: None, tenant)
        self.last_ms = 0
        self.periodic: asyncio.Task[None] | None = None


class RegistrationSubscriptions:
    def __init__(self, tenant: Tenant, registrations: Registrations) -> None:
        self._tenant = tenant
        self._registrations = registrations
        self._entries: dict[str, _Entry] = {}
        self._counted: set[str] = set()
        self._flush_timer: asyncio.TimerHandle | None = None
        self._writes: set[asyncio.Future[None]] = set()

    async def start(self) -> None:
        for id_, data in self._tenant.store.documents(KIND):
            stored = msgspec.json.decode(data, type=_Stored)
            stored.subscription = msgspec.structs.replace(stored.subscription, base=settled(stored.subscription.base))
            try:
                entry = await self._entry(stored.subscription, stored.counters)
            except NgsiLdError as error:
                log.warning("notifications of registrations are without their @context", subscription=id_, error=str(error))
                entry = _Entry(stored.subscription, stored.counters, CORE, self._tenant.name)
            self._enter(entry)

    async def stop(self) -> None:
        for entry in self._entries.values():
            if entry.periodic is not None:
                entry.periodic.cancel()
                with suppress(asyncio.CancelledError):
                    await entry.periodic
        self._flush()
        if self._writes:
            await asyncio.wait(set(self._writes))

    def bounds(self) -> dict[str, tuple[int, int | None]]:
        return {"registration_subscriptions": (len(self._entries), SUBSCRIPTIONS_MAX)}

    # --- looking ----------------------------------------------------------------------------------------------------

    def get(self, id_: str) -> tuple[RegistrationSubscription, Counters]:
        entry = self._get(id_)
        return entry.subscription, entry.counters

    def all(self) -> list[tuple[RegistrationSubscription, Counters]]:
        """In the order in which they came."""
        return [(entry.subscription, entry.counters) for entry in self._entries.values()]

    def _get(self, id_: str) -> _Entry:
        entry = self._entries.get(id_)
        if entry is None:
            raise ResourceNotFound(f"there is no subscription to registrations {id_!r}")
        return entry

    # --- changing ---------------------------------------------------------------------------------------------------

    async def create(self, subscription: RegistrationSubscription) -> None:
        entry = await self._entry(subscription, Counters())
        if subscription.id in self._entries:
            raise AlreadyExists(f"there is a subscription {subscription.id!r} already; update it, or delete it first")
        if len(self._entries) >= SUBSCRIPTIONS_MAX:
            raise TooManyResults(f"there are {SUBSCRIPTIONS_MAX} subscriptions to registrations already; delete some")
        await self._save(entry)

    async def replace(self, old: RegistrationSubscription, new: RegistrationSubscription) -> None:
        """What a patch has made of a subscription; its subscriber hears of all that it finds now (5.11.3)."""
        entry = await self._entry(new, self._get(old.id).counters)
        periodic = self._get(old.id).periodic
        await self._save(entry)
        if periodic is not None:
            periodic.cancel()

    async def remove(self, id_: str) -> None:
        entry = self._get(id_)
        if entry.periodic is not None:
            entry.periodic.cancel()
        del self._entries[id_]
        self._counted.discard(id_)
        self._tenant.notifier.unregister(id_)
        await self._tenant.store.submit(DeleteDocument(KIND, id_), *self._tenant.notifier.discard(id_))

    async def _entry(self, subscription: RegistrationSubscription, counters: Counters) -> _Entry:
        if subscription.base.notification.endpoint.uri == STREAM_URI:
            raise BadRequestData("registrations are not streamed; give an endpoint by http or mqtt")
        context = await self._tenant.contexts.resolve(subscription.base.context_source)
        return _Entry(subscription, counters, context, self._tenant.name)

    async def _save(self, entry: _Entry) -> None:
        deliveries = self._current(entry)
        write = PutDocument(KIND, entry.subscription.id, _encode(_Stored(entry.subscription, entry.counters)))
        committed = self._tenant.store.submit(write, *map(PutDelivery, deliveries))
        self._enter(entry)
        await committed
        self._tenant.notifier.welcome(entry.subscription.base.notification.endpoint.uri)
        self._tenant.notifier.dispatch(deliveries)

    def _enter(self, entry: _Entry) -> None:
        id_ = entry.subscription.id
        self._entries[id_] = entry
        self._tenant.notifier.register(id_, entry.counters, self._count)
        interval_s = entry.subscription.base.time_interval_s
        if interval_s is not None:
            entry.periodic = asyncio.create_task(self._repeat(entry, interval_s))

    # --- telling ----------------------------------------------------------------------------------------------------

    def deliveries(self, before: Registration | None, after: Registration | None) -> list[Delivery]:
        """What subscribers are to hear of a change of one registration."""
        registration = after or before
        assert registration is not None
        found = []
        for entry in self._entries.values():
            if entry.subscription.base.time_interval_s is not None or not self._is_due(entry):
                continue
            why = reason(entry.sought, before, after)
            if why is not None:
                found.append(self._delivery(entry, [registration], why))
        return found

    def _current(self, entry: _Entry) -> list[Delivery]:
        """All that a subscription finds now; nobody is told that there is nothing."""
        if not entry.subscription.base.is_live(_now_ms()):
            return []
        matching = self._registrations.find(entry.sought)
        return [self._delivery(entry, matching, "newlyMatching")] if matching else []

    def _is_due(self, entry: _Entry) -> bool:
        now_ms, base = _now_ms(), entry.subscription.base
        return base.is_live(now_ms) and now_ms - entry.last_ms >= (base.throttling_s or 0) * 1000

    def _delivery(self, entry: _Entry, registrations: list[Registration], why: Reason) -> Delivery:
        subscription = entry.subscription
        entry.last_ms = _now_ms()
        body = _encode(notification(subscription, registrations, why, entry.context, now_text()))
        letter = entry.writer.letter(body, subscription.id)
        return Delivery(
            id=self._tenant.store.next_delivery_id(),
            subscription=subscription.id,
            endpoint=letter.uri,
            payload=encode_letter(letter),
            created_ms=entry.last_ms,
        )

    async def _repeat(self, entry: _Entry, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                deliveries = self._current(entry)
                if deliveries:
                    await self._tenant.store.submit(*map(PutDelivery, deliveries))
                    self._tenant.notifier.dispatch(deliveries)
            except NgsiLdError as error:
                log.warning("a periodic notification is left out", subscription=entry.subscription.id, error=str(error))

    # --- counting ---------------------------------------------------------------------------------------------------

    def _count(self, id_: str) -> None:
        self._counted.add(id_)
        if self._flush_timer is None:
            self._flush_timer = asyncio.get_running_loop().call_later(COUNTERS_S, self._flush)

    def _flush(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        counted, self._counted = self._counted, set()
        entries = [self._entries[id_] for id_ in counted if id_ in self._entries]
        writes = [
            PutDocument(KIND, entry.subscription.id, _encode(_Stored(entry.subscription, entry.counters))) for entry in entries
        ]
        if not writes:
            return
        try:
            written = self._tenant.store.submit(*writes)
        except NgsiLdError as error:  # the next one that arrives counts them again
            log.warning("counters could not be kept", error=str(error))
            return
        self._writes.add(written)
        written.add_done_callback(self._written)

    def _written(self, written: asyncio.Future[None]) -> None:
        self._writes.discard(written)
        if not written.cancelled() and (error := written.exception()) is not None:
            log.warning("counters could not be kept", error=str(error))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
