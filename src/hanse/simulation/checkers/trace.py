"""What a run leaves for the checkers."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from hanse.model import Notification, Subscription


class Published(Struct, frozen=True):
    """A notification, the subscriptions that must get it, and those that may (more, while a client moves)."""

    notification: Notification
    must: frozenset[str] | set[str]
    may: frozenset[str] | set[str]
    advertised: bool = True


class Violation(Struct, frozen=True):
    property: str
    what: str


class Trace(Struct):
    published: dict[str, Published] = field(default_factory=dict)
    delivered: list[tuple[str, str, str]] = field(default_factory=list)  # client, subscription, notification
    subscribed: dict[str, list[Subscription]] = field(default_factory=dict)  # every version that a client asked for
    lost: list[Any] = field(default_factory=list)  # what bounded outboxes could not take
    dropped: list[Any] = field(default_factory=list)
    rejected: list[Any] = field(default_factory=list)
