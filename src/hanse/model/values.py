"""What travels through a federation, as frozen values that are checked when they are made or decoded.

A client's name is its own in the whole federation; the ids of its subscriptions, advertisements and notifications are its own
only among those of the same client.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from hanse.model.errors import InvalidInput
from hanse.model.geofence import WORLD, Geofence, Location

MAX_NAME = 2048
MAX_SELECTORS = 64
MAX_PAYLOAD = 1 << 20
MAX_XPATHS = 32  # constraints of one subscription or advertisement
MAX_XPATH_LENGTH = 4096
JSON: Final = "application/json"
XML: Final = "application/xml"
MEDIA_TYPES: Final = (JSON, XML)
TOP: Final = "⊤"  # stands in for the scope that a subscription leaves unstated
UNIT: Final = "\x1f"  # between client and id, where a broker has made the id of a subscription unique in the federation
BOTTOM: Final = "⊥"  # stands in for the scope that an advertisement leaves unstated


def _name(value: str, what: str) -> None:
    if not value:
        raise InvalidInput(f"{what} is empty")
    if len(value) > MAX_NAME:
        raise InvalidInput(f"{what} is longer than {MAX_NAME} characters")
    if not value.isprintable():
        raise InvalidInput(f"{what} has a control character in it: {value[:40]!r}")


class ScopePath(Struct, frozen=True):
    """The scopes that a notification or a subscription has passed in one dimension, first one first."""

    dimension: str
    scopes: tuple[str, ...]

    def __post_init__(self) -> None:
        _name(self.dimension, "the dimension of a scope path")
        if not self.scopes:
            raise InvalidInput(f"the scope path in dimension {self.dimension!r} names no scope")
        for scope in self.scopes:
            _name(scope, f"a scope of the path in dimension {self.dimension!r}")


class Selector(Struct, frozen=True, omit_defaults=True):
    """Which entities: every member that is given must fit. An empty selector fits everything."""

    type: str | None = None
    id: str | None = None
    id_pattern: str | None = None
    topic: str | None = None

    def __post_init__(self) -> None:
        for member in ("type", "id", "id_pattern", "topic"):
            value = getattr(self, member)
            if value is not None:
                _name(value, f"the {member} of a selector")


def _check_scopes(scopes: dict[str, str]) -> None:
    for dimension, scope in scopes.items():
        _name(dimension, "a dimension")
        _name(scope, f"the scope in dimension {dimension!r}")
        if scope in (TOP, BOTTOM):
            raise InvalidInput(f"{scope} is not stated: leave dimension {dimension!r} out instead")


def _check_selectors(selectors: tuple[Selector, ...]) -> None:
    if len(selectors) > MAX_SELECTORS:
        raise InvalidInput(f"more than {MAX_SELECTORS} selectors")


def _check_xpaths(xpaths: tuple[str, ...]) -> None:
    if len(xpaths) > MAX_XPATHS:
        raise InvalidInput(f"more than {MAX_XPATHS} XPath constraints")
    for xpath in xpaths:
        if not xpath.strip():
            raise InvalidInput("an XPath constraint is empty; leave it out")
        if len(xpath) > MAX_XPATH_LENGTH:
            raise InvalidInput(f"an XPath constraint has {len(xpath)} characters; {MAX_XPATH_LENGTH} are allowed")


class Notification(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened: what filters see (`attributes`, `quality`), where, for which scopes, and the payload as it is."""

    id: str
    publisher: str
    topic: str | None = None
    types: tuple[str, ...] = ()
    entity: str | None = None
    attributes: dict[str, Any] = {}
    news: tuple[str, ...] = ()  # what has changed or happened, by names that subscriptions wait for
    quality: dict[str, float] = {}
    payload: str = ""
    media_type: str = "application/json"
    location: Location | None = None
    geofence: Geofence = WORLD
    scopes: dict[str, str] = {}
    advertisement: str | None = None
    published_at_ms: int = 0  # as its publisher says
    accepted_at_ms: int = 0  # as its publisher's node says
    only_for: str = ""  # the node that a policy has made it for as it is, and that passes it on to no other

    @property
    def key(self) -> tuple[str, str]:
        """What names it in a whole federation: ids are the publisher's own."""
        return self.publisher, self.id

    def __post_init__(self) -> None:
        _name(self.id, "the id of a notification")
        _name(self.publisher, "the publisher of a notification")
        if self.topic is not None:
            _name(self.topic, "the topic of a notification")
        if self.entity is not None:
            _name(self.entity, "the entity of a notification")
        for name in self.types:
            _name(name, "a type of a notification")
        if self.media_type not in MEDIA_TYPES:
            raise InvalidInput(f"media type {self.media_type!r} is not one of {', '.join(MEDIA_TYPES)}")
        if len(self.payload) > MAX_PAYLOAD:
            raise InvalidInput(f"the payload has more than {MAX_PAYLOAD} characters")
        if self.scopes:
            _check_scopes(self.scopes)


class Subscription(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a client wants to hear of. A second one with the same id takes the place of the first."""

    id: str
    client: str
    selectors: tuple[Selector, ...] = ()  # any of them; none: every entity
    attributes: tuple[str, ...] = ()  # at least one of them is carried; none: whatever is carried
    news: tuple[str, ...] = ()  # at least one of them is told; none: whatever is told, or nothing
    q: str = ""
    quality: str = ""
    geofence: Geofence = WORLD
    scopes: dict[str, str] = {}
    expires_at_ms: int | None = None
    xpath: tuple[str, ...] = ()  # all of them hold for the payload, which is XML

    def __post_init__(self) -> None:
        for part in self.id.split(UNIT):
            _name(part, "the id of a subscription")
        _name(self.client, "the client of a subscription")
        _check_selectors(self.selectors)
        if self.scopes:
            _check_scopes(self.scopes)
        if self.xpath:
            _check_xpaths(self.xpath)


class Advertisement(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a client is going to publish. `quality` is its guarantee: notifications below it stay at its own node."""

    id: str
    client: str
    selectors: tuple[Selector, ...] = ()
    q: str = ""
    quality: str = ""
    scopes: dict[str, str] = {}
    expires_at_ms: int | None = None
    xpath: tuple[str, ...] = ()  # all of them hold for the payload of whatever is published under it

    def __post_init__(self) -> None:
        _name(self.id, "the id of an advertisement")
        _name(self.client, "the client of an advertisement")
        _check_selectors(self.selectors)
        if self.scopes:
            _check_scopes(self.scopes)
        if self.xpath:
            _check_xpaths(self.xpath)
