"""What leaves a tenant: letters go from the outbox to the queue of their endpoint, and out of the outbox when they have arrived.

A letter is in the outbox from the commit of the change that caused it until shortly after it has arrived: a crash between the two
sends it once more, and never not at all. What cannot be delivered becomes a dead letter, with the reason: to look at, to resend.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import structlog

from hanse.ngsild.entity import now_text
from hanse.ngsild.errors import NgsiLdError, ResourceNotFound
from hanse.ngsild.notifications import Letter
from hanse.node.notifier.http import HttpSender
from hanse.node.notifier.mqtt import MqttSender
from hanse.node.notifier.queue import EndpointQueue, Item
from hanse.node.notifier.streams import Streams
from hanse.node.store import BuryDelivery, DropDeliveries, PostponeDelivery, PutDelivery, RemoveDeadLetters

if TYPE_CHECKING:
    from hanse.ngsild.subscriptions import Counters
    from hanse.node.store import DeadLetter, Delivery, Write
    from hanse.node.tenant import Tenant

DROP_S: Final = 0.05  # letters that have arrived leave the outbox together, this long after the first of them
DROPS_MAX: Final = 512  # or as soon as there are so many
WRITE_AGAIN_S: Final = 0.5  # when the store is full
WRITTEN_AT_ONCE: Final = 32
UNWRITTEN_MAX: Final = 5_000  # what waits for that; the oldest go, and are sent once more after a restart
TELL_S: Final = 1.0  # an endpoint that is gone for good must not fill the log: one line a second tells of all

log = structlog.get_logger("hanse.notifier")
encode_letter = msgspec.msgpack.Encoder().encode
decode_letter = msgspec.msgpack.Decoder(Letter).decode


class _Tally(NamedTuple):
    counters: Counters
    changed: Callable[[str], None]


class Notifier:
    def __init__(self, tenant: Tenant) -> None:
        self.streams = Streams()
        self._tenant = tenant
        self._settings = tenant.settings.notifications
        self._http = HttpSender(self._settings.timeout_s)
        self._mqtt = MqttSender(self._settings.timeout_s)
        self._queues: dict[str, EndpointQueue] = {}
        self._tallies: dict[str, _Tally] = {}
        self._arrived: list[int] = []
        self._drop_timer: asyncio.TimerHandle | None = None
        self._writes: set[asyncio.Future[None]] = set()
        self._unwritten: deque[Write] = deque(maxlen=UNWRITTEN_MAX)  # the store was full
        self._again_timer: asyncio.TimerHandle | None = None
        self._resending: set[int] = set()  # dead letters
        self._is_closed = False
        self.sent_total = 0
        self.failed_total = 0
        self.died_total = 0
        self._told_s = float("-inf")
        self._untold = 0

    async def start(self) -> None:
        """Go on with what the outbox still has."""
        self.dispatch(self._tenant.store.pending_deliveries())

    async def stop(self) -> None:
        self._is_closed = True
        self.streams.close()
        for queue in list(self._queues.values()):
            await queue.close()
        self._queues.clear()
        if self._again_timer is not None:
            self._again_timer.cancel()
        self._drop()
        self._write_waiting()
        if self._writes:
            await asyncio.wait(set(self._writes))
        await self._http.close()
        await self._mqtt.close()

    # --- sending ----------------------------------------------------------------------------------------------------

    def dispatch(self, deliveries: Iterable[Delivery]) -> None:
        """Send what the outbox has taken."""
        if self._is_closed:
            return
        for delivery in deliveries:
            try:
                letter = decode_letter(delivery.payload)
            except msgspec.DecodeError as error:
                self._bury(delivery, f"the outbox has it in a form that this version cannot read: {error}")
                continue
            self._queue(delivery.endpoint).push(Item(delivery, letter))

    def _queue(self, uri: str) -> EndpointQueue:
        queue = self._queues.get(uri)
        if queue is None:
            sender = self._mqtt.send if uri.startswith("mqtt") else self._http.send
            queue = self._queues[uri] = EndpointQueue(uri, self, sender, self._settings)
        return queue

    def welcome(self, uri: str) -> None:
        """A subscription has just been made for this endpoint, so someone believes that it is there: try again at once."""
        queue = self._queues.get(uri)
        if queue is not None:
            queue.retry_now()

    def discard(self, subscription: str) -> list[Write]:
        """Send no more of a subscription that ends; what to write with its end."""
        ids: list[int] = []
        for uri, queue in list(self._queues.items()):
            ids += queue.discard(subscription)
            if not len(queue):
                del self._queues[uri]
        return [DropDeliveries(tuple(ids))] if ids else []

    def register(self, subscription: str, counters: Counters, changed: Callable[[str], None]) -> None:
        """Count in there what becomes of the letters of a subscription, and tell of it."""
        self._tallies[subscription] = _Tally(counters, changed)

    def unregister(self, subscription: str) -> None:
        self._tallies.pop(subscription, None)

    # --- what the queues tell ---------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def sending(self, item: Item) -> None:
        self.sent_total += 1
        tally = self._tallies.get(item.delivery.subscription)
        if tally is not None and not item.delivery.attempts:  # a retry is not a new notification
            tally.counters.times_sent += 1
            tally.counters.last_notification = now_text()

    def arrived(self, item: Item) -> None:
        tally = self._tallies.get(item.delivery.subscription)
        if tally is not None:
            counters = tally.counters
            counters.last_success = now_text()
            counters.failed = False
            tally.changed(item.delivery.subscription)
        self._arrived.append(item.delivery.id)
        if len(self._arrived) >= DROPS_MAX:
            self._drop()
        elif self._drop_timer is None:
            self._drop_timer = asyncio.get_running_loop().call_later(DROP_S, self._drop)

    def failed(self, item: Item) -> None:
        self.failed_total += 1
        tally = self._tallies.get(item.delivery.subscription)
        if tally is not None:
            counters = tally.counters
            if item.delivery.attempts == 1:  # it has just failed; the failures of retries are the same notification's
                counters.times_failed += 1
            counters.last_failure = now_text()
            counters.failed = True
            tally.changed(item.delivery.subscription)
        if not item.is_discarded:
            delivery = item.delivery
            self._write(PostponeDelivery(delivery.id, delivery.attempts, delivery.due_ms, delivery.error))

    def died(self, item: Item, reason: str) -> None:
        self._bury(item.delivery, reason)

    def idle(self, queue: EndpointQueue) -> None:
        if self._queues.get(queue.uri) is queue:  # another may have taken its place
            del self._queues[queue.uri]

    # --- the outbox -------------------------------------------------------------------------------------------------

    def _bury(self, delivery: Delivery, reason: str) -> None:
        self.died_total += 1
        self._untold += 1
        now_s = time.monotonic()
        if now_s - self._told_s >= TELL_S:
            subscription, number = delivery.subscription, self._untold
            log.warning(
                "a notification is a dead letter now", subscription=subscription, reason=reason, id=delivery.id, number=number
            )
            self._told_s, self._untold = now_s, 0
        self._write(BuryDelivery(delivery, reason))

    def _drop(self) -> None:
        if self._drop_timer is not None:
            self._drop_timer.cancel()
            self._drop_timer = None
        if self._arrived:
            ids, self._arrived = tuple(self._arrived), []
            self._write(DropDeliveries(ids))

    def _write(self, write: Write) -> None:
        """Book-keeping: if it fails for good, the worst is that a letter is sent twice."""
        self._unwritten.append(write)
        if self._again_timer is None:  # else the store is full, and this one waits for its turn
            self._write_waiting()

    def _write_waiting(self) -> None:
        self._again_timer = None
        while self._unwritten:
            some = [self._unwritten[n] for n in range(min(len(self._unwritten), WRITTEN_AT_ONCE))]
            try:
                written = self._tenant.store.submit(*some)
            except NgsiLdError as error:
                log.warning("the outbox could not be updated yet", error=str(error))
                if not self._is_closed:
                    self._again_timer = asyncio.get_running_loop().call_later(WRITE_AGAIN_S, self._write_waiting)
                return
            for _ in some:
                self._unwritten.popleft()
            self._writes.add(written)
            written.add_done_callback(self._written)

    def _written(self, written: asyncio.Future[None]) -> None:
        self._writes.discard(written)
        if not written.cancelled() and (error := written.exception()) is not None:
            log.warning("the outbox could not be updated", error=str(error))

    # --- dead letters -----------------------------------------------------------------------------------------------

    def dead_letters(self, limit: int = 100, after: int = 0) -> list[dict[str, Any]]:
        return [_shown(letter, with_body=False) for letter in self._tenant.store.dead_letters(limit, after)]

    def dead_letter(self, id_: int) -> dict[str, Any]:
        return _shown(self._dead_letter(id_), with_body=True)

    async def resend(self, id_: int) -> None:
        """Try a dead letter again, as if it were new."""
        dead = self._dead_letter(id_)
        if id_ in self._resending:  # by another request, which is about to be stored
            raise ResourceNotFound(f"the dead letter {id_} is being sent again already")
        delivery = PutDelivery(_revived(dead, self._tenant.store.next_delivery_id()))
        self._resending.add(id_)
        try:
            await self._tenant.store.submit(RemoveDeadLetters((id_,)), delivery)
        finally:
            self._resending.discard(id_)
        self.dispatch([delivery.delivery])

    async def remove(self, id_: int) -> None:
        self._dead_letter(id_)
        await self._tenant.store.submit(RemoveDeadLetters((id_,)))

    def _dead_letter(self, id_: int) -> DeadLetter:
        dead = self._tenant.store.dead_letter(id_)
        if dead is None:
            raise ResourceNotFound(f"there is no dead letter {id_}")
        return dead

    # --- for the health page ----------------------------------------------------------------------------------------

    def bounds(self) -> dict[str, tuple[int, int | None]]:
        longest = max((len(queue) for queue in self._queues.values()), default=0)
        return {
            "notifications_waiting_for_one_endpoint": (longest, self._settings.queue_max),
            "notification_endpoints_with_waiting": (len(self._queues), None),
            **self.streams.bounds(),
        }

    def endpoints(self) -> dict[str, dict[str, Any]]:
        """The endpoints that something waits for."""
        return {
            uri: {"waiting": len(queue), "failures": queue.patience.failures, "open": queue.patience.is_open}
            for uri, queue in self._queues.items()
        }


def _revived(dead: DeadLetter, id_: int) -> Delivery:
    from hanse.node.store import Delivery

    return Delivery(
        id=id_, subscription=dead.subscription, endpoint=dead.endpoint, payload=dead.payload, created_ms=dead.created_ms
    )


def _shown(dead: DeadLetter, *, with_body: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": dead.id,
        "subscriptionId": dead.subscription,
        "endpoint": dead.endpoint,
        "reason": dead.reason,
        "attempts": dead.attempts,
        "createdAt": _time(dead.created_ms),
        "diedAt": _time(dead.died_ms),
    }
    if with_body:
        try:
            letter = decode_letter(dead.payload)
            shown["headers"] = dict(letter.headers)
            shown["body"] = msgspec.Raw(letter.body)
        except msgspec.DecodeError:
            shown["body"] = None
    return shown


def _time(ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000)) + f".{ms % 1000:03d}Z"
