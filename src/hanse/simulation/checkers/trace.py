"""What a run leaves for the checkers."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Struct, field

from hanse.model import Notification, Subscription

Key = tuple[str, str]  # client, and the id of its subscription; or publisher, and the id of its notification
# Why a notification may be given up. For any other reason it is missing.
GIVEN_UP_RIGHTLY = ("gone for good", "wait for it already")
# Why a publication may be refused though it was as advertised.
REFUSED_RIGHTLY = ("went on before this could be published",)


class Published(Struct, frozen=True):
    """A notification, the subscriptions that must get it, and those that may (more, while things change)."""

    notification: Notification
    must: frozenset[Key] | set[Key]
    may: frozenset[Key] | set[Key]
    advertised: bool = True
    views: dict[Key, list[Notification]] = {}  # for those that may: all that may be left of it where they are

    def seen_by(self, asked: Key) -> list[Notification]:
        """What a subscription may have got: it all, where nothing is said of that."""
        return self.views.get(asked, [self.notification])


class Got(NamedTuple):
    client: str
    subscription: str
    publisher: str
    notification: str

    @property
    def asked(self) -> Key:
        return self.client, self.subscription

    @property
    def said(self) -> Key:
        return self.publisher, self.notification

    def __str__(self) -> str:
        return f"{self.client} got {self.notification} of {self.publisher} for {self.subscription}"


class Violation(Struct, frozen=True):
    property: str
    what: str


class Trace(Struct):
    published: dict[Key, Published] = field(default_factory=dict)
    delivered: list[Got] = field(default_factory=list)
    shown: list[tuple[Got, Notification]] = field(default_factory=list)  # what was delivered, as it was delivered
    subscribed: dict[Key, list[Subscription]] = field(default_factory=dict)  # every version that a client asked for
    lost: list[Any] = field(default_factory=list)  # what bounded outboxes could not take
    leaked: list[tuple[str, str, Key]] = field(default_factory=list)  # from, to, notification: against a rule or a policy
    refused: list[tuple[str, str, str]] = field(default_factory=list)  # from, to, why: what a broker did not believe
    dropped: list[tuple[Got, str]] = field(default_factory=list)  # with the reason
    rejected: list[tuple[str, str, str]] = field(default_factory=list)  # client, request, reason
    asked: dict[Key, bool] = field(default_factory=dict)  # client, query; whether a reply must come
    replied: list[tuple[str, str, str, tuple[Notification, ...]]] = field(default_factory=list)  # client, query, node, entities
    answered: dict[tuple[str, str, str], list[Notification]] = field(default_factory=dict)  # client, query, node: what it may see


def content(n: Notification) -> tuple[object, ...]:
    """All that a client can tell from a notification, apart from the times that brokers put on it."""
    return n.key, n.types, n.topic, n.entity, n.attributes, n.news, n.quality, n.payload, n.location
