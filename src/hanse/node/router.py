"""The way to the broker, for everything in a node that has a request: of one that is alone here, of one among others in
`federation`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

if TYPE_CHECKING:
    from hanse.model import Notification, Subscription
    from hanse.ngsild.entity import Change
    from hanse.node.federation.reading import Reading
    from hanse.node.store import Write
    from hanse.routing import Broker
    from hanse.routing import messages as m


class Pending(Struct):
    """What a request has caused: to be stored with it, and to be done once it is."""

    writes: list[Write] = field(default_factory=list)
    after: list[Callable[[], None]] = field(default_factory=list)


class Router(Protocol):
    is_federated: bool
    reading: Reading | None  # what others have, too

    @property
    def broker(self) -> Broker:
        """To look at: where scopes, clients and subscriptions are."""

    def handle(self, request: m.Request) -> list[m.Effect]:
        """What the broker says to a request. What it causes is stored soon, or with whatever the caller stores: `take`."""

    def take(self) -> Pending | None:
        """What the requests since the last call have caused; None: nothing."""

    def failed(self) -> None:
        """What was taken could not be stored."""

    def changed(self, change: Change, notification: Notification) -> list[m.Effect]:
        """An entity has changed, for all of the federation: what is told of it here."""

    def core(self, subscription: Subscription) -> Subscription:
        """What the broker holds of a subscription."""

    def restore(self) -> None:
        """Before anything else is told to the broker."""

    def keep_only(self, clients: set[str]) -> None:
        """Of the clients that stand for NGSI-LD's subscriptions and sources, these are the ones that there are."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Alone:
    """A node that is not federated: nothing of its broker outlives it, because everything is told to it again."""

    is_federated = False
    reading: Reading | None = None

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def handle(self, request: m.Request) -> list[m.Effect]:
        return self.broker.handle(request, now_ms=now_ms())

    def take(self) -> Pending | None:
        return None

    def failed(self) -> None: ...

    def changed(self, change: Change, notification: Notification) -> list[m.Effect]:
        raise NotImplementedError  # a change here is an ordinary publication

    def core(self, subscription: Subscription) -> Subscription:
        return subscription

    def restore(self) -> None: ...

    def keep_only(self, clients: set[str]) -> None: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def now_ms() -> int:
    return time.time_ns() // 1_000_000
