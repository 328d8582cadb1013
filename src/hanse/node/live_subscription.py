"""A subscription at work: what the store has of it, and what it is about to send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from hanse.filters import compile_q
from hanse.model import WORLD
from hanse.ngsild.contexts import CORE, Context
from hanse.ngsild.entity import Change
from hanse.ngsild.subscription_members import STREAM_URI, instant_ms
from hanse.ngsild.subscriptions import Counters, NgsiSubscription
from hanse.node import throttled
from hanse.node.store import Delivery, PutDocument, Write

if TYPE_CHECKING:
    import asyncio

    from hanse.model import Subscription
    from hanse.ngsild.entity import Entity
    from hanse.ngsild.notifications import Writer
    from hanse.node.access.views import Sight

KIND: Final = "subscription"
HELD_MAX: Final = 1_000  # entities whose last change waits for the end of a throttling interval


class Kept(Struct, frozen=True):
    """What the store has of a subscription."""

    subscription: NgsiSubscription
    counters: Counters


_encode = msgspec.json.Encoder().encode
decode_kept = msgspec.json.Decoder(Kept).decode


class Live:
    """A subscription at work."""

    __slots__ = ("context", "counters", "held", "is_kept", "next_ms", "sight", "skipped", "subscription", "timer", "writer")

    def __init__(self, subscription: NgsiSubscription, counters: Counters, *, is_kept: bool = True) -> None:
        self.subscription = subscription
        self.counters = counters
        self.is_kept = is_kept  # False: it lives as long as the stream that has made it
        self.context: Context = CORE
        self.sight: Sight | None = None  # what its owner may see; None: everything
        self.writer: Writer | None = None
        self.next_ms = 0  # throttling: not before this
        self.held: dict[str, Change] = {}
        self.skipped = 0  # changes that a later one of the same entity, or the bound, has taken the place of
        self.timer: asyncio.TimerHandle | asyncio.Task[None] | None = None

    def stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def seen(self, change: Change) -> Change | None:
        """A change as its owner sees it now; None: he sees nothing of it."""
        return change if self.sight is None else self.sight.change(change)

    def seen_entities(self, entities: list[Entity]) -> list[Entity]:
        if self.sight is None:
            return entities
        return [seen for entity in entities if (seen := self.sight.entity(entity)) is not None]

    def loosened(self, core: Subscription) -> Subscription:
        """What the broker holds, so that it finds whatever would fire on what the owner sees.

        Something that is hidden can only keep a plain comparison from holding; a value that is changed, or something that must
        not be there, may make a filter hold for him that does not hold for what is stored.
        """
        if self.sight is None:
            return core
        changes = self.sight.policies.changes_values
        keeps_q = not changes and compile_q(core.q).residual is None
        return msgspec.structs.replace(
            core, q=core.q if keeps_q else "", quality="", geofence=WORLD if changes else core.geofence
        )

    def hold(self, change: Change) -> list[Write]:
        """Until the interval is over, in the place of an earlier change of the entity; gives what is to be written."""
        id_, entity, held = self.subscription.id, change.entity.id, self.held
        writes: list[Write] = []
        if held.pop(entity, None) is not None:
            self.skipped += 1
        elif len(held) >= HELD_MAX:
            oldest = next(iter(held))
            del held[oldest]
            self.skipped += 1
            writes += throttled.drop(id_, (oldest,))
        held[entity] = change
        if self.is_kept and not self.is_stream:
            writes.append(throttled.put(id_, self.next_ms, change))
        return writes

    @property
    def is_stream(self) -> bool:
        return self.subscription.notification.endpoint.uri == STREAM_URI

    @property
    def interval_ms(self) -> int:
        return int((self.subscription.throttling_s or 0.0) * 1000)

    @property
    def last_ms(self) -> int:
        """When it was last told something; 0: never."""
        last = self.counters.last_notification
        return 0 if last is None else instant_ms(last, "lastNotification")

    def kept(self) -> PutDocument:
        return PutDocument(KIND, self.subscription.id, _encode(Kept(self.subscription, self.counters)))


class Fired(Struct):
    """What a change means for subscribers: letters, and what is written of changes that are held back, to be stored with it;
    and what those who listen hear once it is.
    """

    deliveries: list[Delivery]
    writes: list[Write]
    events: list[tuple[str, bytes]]  # with the names of the subscriptions
    held: list[tuple[Live, Change | None]]  # by whom, and in the place of which earlier change of the entity

    def undo(self, change: Change) -> None:
        """The change was not stored after all: nobody is to be told of it when an interval is over."""
        entity = change.entity.id
        for live, before in self.held:
            if live.held.get(entity) is change:
                del live.held[entity]
                if before is not None:
                    live.held[entity] = before


NOTHING_FIRED: Final = Fired([], [], [], [])
