"""What came from other nodes for clients here: gathered, stored in one go with what caused it, and then on its way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import structlog

from hanse.ngsild.subscriptions import CLIENT
from hanse.node.federation.changes import change_of
from hanse.node.federation.names import NODE
from hanse.node.metrics import METRICS
from hanse.node.router import now_ms
from hanse.node.store import BuryDelivery, Delivery, PutDelivery
from hanse.routing import messages as m
from hanse.routing.messages import innermost

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hanse.ngsild.entity import Change
    from hanse.node.tenant import Tenant

log = structlog.get_logger("hanse.federation")


class Batch(NamedTuple):
    writes: list[Any]
    deliveries: list[Delivery]
    events: list[tuple[str, bytes]]  # for those who listen to a stream

    @property
    def is_empty(self) -> bool:
        return not any(self)


class Arrivals:
    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._batch = Batch([], [], [])

    @property
    def writes(self) -> list[Any]:
        """More that is to be stored with it."""
        return self._batch.writes

    def take(self) -> Batch:
        batch, self._batch = self._batch, Batch([], [], [])
        batch.writes.extend(map(PutDelivery, batch.deliveries))
        return batch

    def add(self, effects: Iterable[m.Effect]) -> None:
        batch = self._batch
        told: dict[int, tuple[Change, list[m.Effect], dict[str, float]]] = {}
        for effect in effects:
            if isinstance(effect, m.Deliver) and effect.client.startswith(CLIENT):
                change = change_of(effect.notification) if effect.notification.publisher.startswith(NODE) else None
                if change is not None:
                    quality = effect.notification.quality  # as it was when its own node accepted it
                    told.setdefault(id(effect.notification), (change, [], quality))[1].append(effect)
            elif isinstance(effect, m.Dropped):
                self.bury(effect)
            elif isinstance(effect, m.Reject):
                self._tenant.native.refused_late(effect)
        for change, of_change, quality in told.values():
            fired = self._tenant.subscriptions.fired(change, of_change, quality)
            batch.deliveries.extend(fired.deliveries)
            batch.writes.extend(fired.writes)
            batch.events.extend(fired.events)
        post = self._tenant.native.post(effects)
        batch.deliveries.extend(post.deliveries)
        batch.events.extend(post.events)

    def bury(self, dropped: m.Dropped) -> None:
        METRICS.count("federation_dropped", "notification")
        letter = Delivery(
            id=self._tenant.store.next_delivery_id(),
            subscription=dropped.subscription,
            endpoint="",
            payload=msgspec.json.encode(dropped.notification),
            created_ms=now_ms(),
        )
        self._batch.writes.append(BuryDelivery(letter, dropped.reason))

    def give_up(self, peer: str, message: m.BrokerMessage, reason: str) -> None:
        """What cannot be sent to another node: a notification is a dead letter, all else is repaired later."""
        METRICS.count("federation_lost", peer)
        message = innermost(message)
        notification = getattr(message, "notification", None)
        if notification is not None and not isinstance(notification, tuple):
            self.bury(m.Dropped("", f"to {peer}", notification, reason))
        else:
            log.warning("a message is not sent", kind=type(message).__name__, peer=peer, reason=reason)

    def send(self, batch: Batch) -> None:
        """It is stored."""
        if batch.deliveries:
            self._tenant.notifier.dispatch(batch.deliveries)
        self._tenant.notifier.streams.tell(batch.events)
