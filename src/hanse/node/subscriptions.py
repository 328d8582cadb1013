"""The subscriptions of a tenant: kept in the store, held by the broker, and turned into letters when a change fires them.

The broker says which subscriptions a change may concern; `fires` says which it does concern. That, and writing the letters,
happens before the commit, so that they are stored together with the change. Streams get their copy after the commit.

Throttling (5.8.6): within the interval nothing is sent; the last change of each entity is kept and sent, all in one notification,
when the interval is over. Meanwhile the store has it, so that a crash loses nothing. A subscription in time (`timeInterval`)
gets, at each interval, the entities that match by then; if none does, no notification. Nothing is sent when a subscription is
made: a notification tells of a change.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from hanse.matching.meaning import lies_in
from hanse.model import WORLD, InvalidInput
from hanse.ngsild.contexts import CORE, Context
from hanse.ngsild.entity import now_text
from hanse.ngsild.errors import AlreadyExists, BadRequestData, NgsiLdError, ResourceNotFound, TooManyPending
from hanse.ngsild.geofences import event_geofence, is_at_a_point
from hanse.ngsild.notifications import LastShown, Writer
from hanse.ngsild.subscriptions import (
    CLIENT,
    Counters,
    NgsiSubscription,
    core_subscription,
    fires,
    patch_subscription,
    settled,
    subscriber_location,
    subscription_to_json,
)
from hanse.node import throttled
from hanse.node.access.owners import SUBSCRIPTION
from hanse.node.fences import Fences
from hanse.node.live_subscription import HELD_MAX, KIND, NOTHING_FIRED, Fired, Live, decode_kept
from hanse.node.notifier.notifier import encode_letter
from hanse.node.store import DeleteDocument, Delivery, PutDelivery, Write
from hanse.routing import messages as m

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hanse.model import Geofence, Location
    from hanse.ngsild.entity import Change
    from hanse.ngsild.quality import QualityOf
    from hanse.ngsild.query import EntityQuery
    from hanse.node.tenant import Tenant

SUBSCRIPTIONS_MAX: Final = 100_000
PERIODIC_ENTITIES_MAX: Final = 1_000  # in one notification of a subscription in time
RELEASE_AGAIN_S: Final = 1.0  # when the store is full just as an interval ends
COUNTERS_S: Final = 2.0  # counters are written this long after they have changed
COUNTERS_AT_ONCE: Final = 500

log = structlog.get_logger("hanse.subscriptions")


class Subscriptions:
    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._live: dict[str, Live] = {}
        self._fences = Fences()
        self._last = LastShown()
        self._of_quality: set[str] = set()  # those that ask for it
        self._changed: set[str] = set()
        self._counters_timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        for id_, data in self._tenant.store.documents(KIND):
            try:
                kept = decode_kept(data)
            except msgspec.DecodeError as error:
                log.warning("a subscription cannot be read and stays asleep", id=id_, error=str(error))
                continue
            live = Live(settled(kept.subscription), kept.counters)
            live.sight = self._tenant.sight_of_owner(SUBSCRIPTION, id_)
            try:
                live.context = await self._resolved(live.subscription)
            except NgsiLdError as error:
                log.warning("a subscription without its @context has full names in notifications", id=id_, error=str(error))
            self._live[id_] = live
            try:
                self._install(live)
            except NgsiLdError as error:
                log.warning("a subscription is refused and stays asleep", id=id_, error=str(error))
        self._live = dict(sorted(self._live.items(), key=lambda item: item[1].subscription.created_at))
        await self._hold_again()

    async def _hold_again(self) -> None:
        """Go on with what throttling held back when the node ended."""
        forgotten: list[Write] = []
        for live in self._live.values():
            live.next_ms = live.last_ms + live.interval_ms
        for one in throttled.held(self._tenant.store):
            held_by = self._live.get(one.subscription)
            if held_by is None:
                forgotten += throttled.drop(one.subscription, (one.change.entity.id,))
                continue
            held_by.held[one.change.entity.id] = one.change
            held_by.next_ms = min(one.due_ms, _now_ms() + held_by.interval_ms)
            self._await_end(held_by)
        if forgotten:
            await self._tenant.store.submit(*forgotten)

    async def stop(self) -> None:
        for live in self._live.values():
            live.stop()
        await self._write_counters()

    # --- add, get, list, update, delete -----------------------------------------------------------------------------

    async def add(self, subscription: NgsiSubscription, *, is_kept: bool = True) -> Live:
        """Raises AlreadyExists, LdContextNotAvailable, BadRequestData. One that is not kept ends with `delete`, or the node."""
        self._check_free(subscription.id)
        context = await self._resolved(subscription)
        self._check_free(subscription.id)
        live = Live(subscription, Counters(), is_kept=is_kept)
        live.context, live.sight = context, self._tenant.sight_of_owner(SUBSCRIPTION, subscription.id)
        self._install(live)
        self._live[subscription.id] = live
        if is_kept:
            try:
                await self._tenant.store.submit(live.kept())
                await self._tenant.contexts.url_of(context)
            except BaseException:
                self._remove(subscription.id)
                raise
        self._tenant.notifier.welcome(subscription.notification.endpoint.uri)
        return live

    def _check_free(self, id_: str) -> None:
        if id_ in self._live:
            raise AlreadyExists(f"there is a subscription {id_!r} already; patch it, or delete it first")
        if len(self._live) >= SUBSCRIPTIONS_MAX:
            raise TooManyPending(f"there are {SUBSCRIPTIONS_MAX} subscriptions already")

    def get(self, id_: str) -> Live:
        live = self._live.get(id_)
        if live is None:
            raise ResourceNotFound(f"there is no subscription {id_!r}")
        return live

    def page(self, limit: int, offset: int = 0) -> tuple[list[Live], int]:
        """Those of a page, oldest first, and how many there are in all."""
        kept = [live for live in self._live.values() if live.is_kept]
        return kept[offset : offset + limit], len(kept)

    def __len__(self) -> int:
        return len(self._live)

    @property
    def ask_for_quality(self) -> bool:
        """Whether one of them does."""
        return bool(self._of_quality)

    def __contains__(self, id_: str) -> bool:
        return id_ in self._live

    def policies_changed(self) -> None:
        """What the broker is told of a subscription depends on what its owner may see."""
        for live in self._live.values():
            try:
                self._install(live)
            except NgsiLdError as error:
                log.warning("a subscription is refused and stays asleep", id=live.subscription.id, error=str(error))

    async def update(
        self, id_: str, body: Any, context: Context, check: Callable[[NgsiSubscription], None] = lambda _: None
    ) -> None:
        """Patch it; `check` raises if it must not become so. Raises ResourceNotFound, LdContextNotAvailable, BadRequestData."""
        while True:
            old = self._kept(id_)
            patched = patch_subscription(old.subscription, body, context, now_text(), self._tenant.measure.registry)
            check(patched)
            resolved = await self._resolved(patched)
            if self._kept(id_) is old:  # else someone else has patched it meanwhile
                break
        live = Live(patched, old.counters)
        live.context, live.sight = resolved, old.sight
        live.next_ms = old.next_ms - old.interval_ms + live.interval_ms
        of_entity = self._tenant.measure.of_entity
        live.held = {
            entity: held
            for entity, held in old.held.items()
            if (seen := live.seen(held)) is not None and fires(patched, seen, _now_ms(), of_entity(held.at))
        }
        self._broker(m.Detach(CLIENT + id_))
        old.stop()
        self._live[id_] = live
        try:
            self._install(live)
            await self._tenant.store.submit(live.kept(), *throttled.drop(id_, old.held.keys() - live.held.keys()))
        except BaseException:
            live.stop()
            self._live[id_] = old
            self._install(old)
            raise
        await self._tenant.contexts.url_of(resolved)
        await self._let_go(old.context)
        self._tenant.notifier.welcome(patched.notification.endpoint.uri)

    async def delete(self, id_: str) -> None:
        """It ends, with what it has not yet delivered. Raises ResourceNotFound."""
        live = self.get(id_)
        drops = self._tenant.notifier.discard(id_)
        self._remove(id_)
        if live.is_kept:
            await self._tenant.store.submit(DeleteDocument(KIND, id_), *drops, *throttled.drop(id_, live.held))
            await self._let_go(live.context)

    async def _let_go(self, context: Context) -> None:
        """The context of a subscription stays where notifications say that it is, as long as there is one that says so."""
        if all(live.context.link_url != context.link_url for live in self._live.values()):
            await self._tenant.contexts.release(context)

    def ids(self) -> list[str]:
        return list(self._live)

    def clients(self) -> list[str]:
        """The names that they have at the broker."""
        return [CLIENT + id_ for id_ in self._live]

    def _kept(self, id_: str) -> Live:
        live = self.get(id_)
        if not live.is_kept:
            raise ResourceNotFound(f"there is no subscription {id_!r}")
        return live

    def shown(self, live: Live, context: Context, *, sys_attrs: bool = False) -> dict[str, Any]:
        """The subscription as JSON, with status and counters."""
        url = live.context.link_url
        return subscription_to_json(live.subscription, context, live.counters, _now_ms(), context_url=url, sys_attrs=sys_attrs)

    async def _resolved(self, subscription: NgsiSubscription) -> Context:
        source = subscription.context_source
        if source is None:
            return CORE
        contexts = self._tenant.contexts
        return contexts.resolve_now(source) or await contexts.resolve(source)

    # --- at work and at rest ----------------------------------------------------------------------------------------

    def _install(self, live: Live) -> None:
        """Put it to work, in the place of an older version. Raises BadRequestData if the broker refuses it."""
        subscription = live.subscription
        id_ = subscription.id
        self._fences.remove(id_)
        (self._of_quality.add if subscription.query.quality else self._of_quality.discard)(id_)
        if subscription.time_interval_s is not None or subscription.is_active is False:
            self._broker(m.Detach(CLIENT + id_))
        else:
            core = self._tenant.router.core(live.loosened(core_subscription(subscription)))
            self._broker(m.Subscribe(core))
            if core.geofence is not WORLD and subscription.query.geo is not None:
                self._fences.add(id_, subscription.query.geo)
            location = subscriber_location(subscription)
            if location is not None:
                self._broker(m.Locate(CLIENT + id_, location))
        fetch = self._tenant.seen_by_owner(SUBSCRIPTION, id_).latest
        live.writer = Writer(subscription, live.context, fetch, self._tenant.name, self._last)
        if subscription.time_interval_s is not None and live.timer is None:
            live.timer = asyncio.create_task(self._periodic(live, subscription.time_interval_s))
        self._await_end(live)
        notifier = self._tenant.notifier
        notifier.register(id_, live.counters, self._count)
        if live.is_kept and live.is_stream:
            notifier.streams.keep(id_)

    def _broker(self, request: m.Request) -> None:
        for effect in self._tenant.router.handle(request):
            if isinstance(effect, m.Reject):
                raise BadRequestData(effect.reason)

    def _remove(self, id_: str) -> None:
        live = self._live.pop(id_)
        live.stop()
        self._fences.remove(id_)
        self._broker(m.Detach(CLIENT + id_))
        self._changed.discard(id_)
        self._of_quality.discard(id_)
        self._tenant.notifier.unregister(id_)
        self._tenant.notifier.streams.end(id_)

    # --- what a change fires ----------------------------------------------------------------------------------------

    def fired(self, change: Change, effects: Sequence[m.Effect], quality: dict[str, float]) -> Fired:
        """What a change gives the outbox. Never raises: a subscription that cannot be served must not stop a change.

        `quality`: that of the entity, as the node that accepted the change found it.
        """
        if not effects and not self._fences:
            return NOTHING_FIRED
        found = Fired([], [], [], [])
        now_ms = 0
        for id_ in self._concerned(change, effects):
            live = self._live.get(id_)
            if live is None:
                continue
            now_ms = now_ms or _now_ms()
            try:
                seen = live.seen(change)
                if seen is None or not fires(live.subscription, seen, now_ms, self._quality_of(change, seen, quality)):
                    continue
                if self._is_throttled(live, change, now_ms, found):
                    continue
                body = live.writer.body((seen,), now_text()) if live.writer is not None else None
                if body is not None:
                    if self._tenant.notifier.streams.wants(id_):
                        found.events.append((id_, body))
                    delivery = self._delivery(live, body, change.entity.id, now_ms)
                    if delivery is not None:
                        found.deliveries.append(delivery)
            except Exception:
                log.exception("a notification could not be written", subscription=id_, entity=change.entity.id)
        return found

    def _quality_of(self, change: Change, seen: Change, quality: dict[str, float]) -> QualityOf:
        """Of a change of which something is hidden, the quality is that of what is seen."""
        return (lambda _: quality) if seen is change else self._tenant.measure.of_entity(change.at)

    def _concerned(self, change: Change, effects: Iterable[m.Effect]) -> Iterable[str]:
        """The subscriptions that a change may fire."""
        told = [effect.subscription for effect in effects if type(effect) is m.Deliver and effect.client.startswith(CLIENT)]
        attributes = change.entity.attributes
        if not self._fences or is_at_a_point(attributes):
            return told
        around: Geofence = WORLD
        with suppress(InvalidInput):  # an entity that ends with such a fence
            around = event_geofence(attributes)
        near = [id_ for id_ in self._fences.near(attributes) if lies_in(self._place(id_), around)]
        return dict.fromkeys((*told, *near))

    def _place(self, id_: str) -> Location | None:
        return subscriber_location(self._live[id_].subscription) if id_ in self._live else None

    def _delivery(self, live: Live, body: bytes, entity: str, now_ms: int) -> Delivery | None:
        subscription = live.subscription
        uri = subscription.notification.endpoint.uri
        if live.is_stream or live.writer is None:
            return None
        letter = live.writer.letter(body, f"{subscription.id} {entity}")
        return Delivery(
            id=self._tenant.store.next_delivery_id(),
            subscription=subscription.id,
            endpoint=uri,
            payload=encode_letter(letter),
            created_ms=now_ms,
        )

    # --- throttling and time ----------------------------------------------------------------------------------------

    def _is_throttled(self, live: Live, change: Change, now_ms: int, found: Fired) -> bool:
        """Whether nothing may be sent yet; the change is then held, here and by what is to be written."""
        if live.subscription.throttling_s is None:
            return False
        if now_ms >= live.next_ms and not live.held:
            live.next_ms = now_ms + live.interval_ms
            return False
        found.held.append((live, live.held.get(change.entity.id)))
        found.writes += live.hold(change)
        self._await_end(live)
        return True

    def _await_end(self, live: Live) -> None:
        """Of the interval, if something is held until then."""
        if live.held and live.timer is None:
            pause_s = max(0.0, (live.next_ms - _now_ms()) / 1000)
            live.timer = asyncio.get_running_loop().call_later(pause_s, self._release, live)

    def _release(self, live: Live) -> None:
        """The interval is over: send what has been kept, and begin the next one."""
        live.timer = None
        now_ms, id_ = _now_ms(), live.subscription.id
        held = live.held.values() if live.subscription.is_live(now_ms) else ()
        changes = [seen for change in held if (seen := live.seen(change)) is not None]
        try:
            body = live.writer.body(changes, now_text()) if changes and live.writer is not None else None
        except Exception:
            log.exception("a notification could not be written", subscription=id_)
            body = None
        try:
            self._send(live, body, *throttled.drop(id_, live.held))
        except NgsiLdError as error:  # the store takes nothing more just now
            log.warning("a throttled notification has to wait", subscription=id_, error=str(error))
            live.timer = asyncio.get_running_loop().call_later(RELEASE_AGAIN_S, self._release, live)
            return
        live.held.clear()
        if changes:
            live.next_ms = now_ms + live.interval_ms

    async def _periodic(self, live: Live, interval_s: float) -> None:
        loop = asyncio.get_running_loop()
        since_s = (_now_ms() - live.last_ms) / 1000  # before a restart, perhaps
        due = loop.time() - min(max(since_s, 0.0), interval_s) if live.last_ms else loop.time()
        query = msgspec.structs.replace(live.subscription.query, limit=PERIODIC_ENTITIES_MAX, offset=0, count=False)
        while True:
            due = max(due + interval_s, loop.time())
            await asyncio.sleep(due - loop.time())
            if not live.subscription.is_live(_now_ms()):
                continue
            try:
                await self._tell_all(live, query)
            except Exception:
                log.exception("a subscription in time could not be served", subscription=live.subscription.id)

    async def _tell_all(self, live: Live, query: EntityQuery) -> None:
        """All that matches now, in as many notifications as it takes."""
        while live.writer is not None:
            found = await self._tenant.seen_by_owner(SUBSCRIPTION, live.subscription.id).query(query)
            if found.entities:
                self._send(live, live.writer.body_of_entities(found.entities, now_text()))
            if len(found.entities) < PERIODIC_ENTITIES_MAX:
                return
            query = msgspec.structs.replace(query, offset=query.offset + PERIODIC_ENTITIES_MAX)

    def _send(self, live: Live, body: bytes | None, *more: Write) -> None:
        """A notification that no change brings along; `more` is written with it."""
        delivery = self._delivery(live, body, "", _now_ms()) if body is not None else None
        writes = (*more, PutDelivery(delivery)) if delivery is not None else more

        def stored(done: asyncio.Future[None]) -> None:
            if not done.cancelled() and done.exception() is None and delivery is not None:
                self._tenant.notifier.dispatch([delivery])

        if writes:
            self._tenant.store.submit(*writes).add_done_callback(stored)
        if body is not None:
            self._tenant.notifier.streams.publish(live.subscription.id, body)

    # --- counters ---------------------------------------------------------------------------------------------------

    def _count(self, id_: str) -> None:
        self._changed.add(id_)
        if self._counters_timer is None:
            self._counters_timer = asyncio.get_running_loop().call_later(COUNTERS_S, self._counters_due)

    def _counters_due(self) -> None:
        self._counters_timer = None
        asyncio.ensure_future(self._write_counters()).add_done_callback(_looked_at)

    async def _write_counters(self) -> None:
        if self._counters_timer is not None:
            self._counters_timer.cancel()
            self._counters_timer = None
        while self._changed:
            some = [self._changed.pop() for _ in range(min(len(self._changed), COUNTERS_AT_ONCE))]
            lives = [self._live[id_] for id_ in some if id_ in self._live and self._live[id_].is_kept]
            if lives:
                try:
                    await self._tenant.store.submit(*(live.kept() for live in lives))
                except NgsiLdError as error:
                    log.warning("counters of subscriptions have to wait", error=str(error))
                    self._changed.update(some)
                    return

    def bounds(self) -> dict[str, tuple[int, int | None]]:
        return {
            "subscriptions": (len(self._live), SUBSCRIPTIONS_MAX),
            "entities_held_by_throttling": (max((len(live.held) for live in self._live.values()), default=0), HELD_MAX),
        }


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _looked_at(task: asyncio.Future[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("counters of subscriptions could not be written", error=str(error))
