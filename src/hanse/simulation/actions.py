"""What clients do, and when: what a workload is made of and what any strategy can be given to run."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from hanse.model import TOP, Advertisement, Location, Notification, Subscription


class Attach(Struct, frozen=True, gc=False, tag="attach"):
    """The client comes to this node: new, or from another one, which hands it over with all that it has there."""

    previous: str | None = None


class Detach(Struct, frozen=True, gc=False, tag="detach"):
    """The client leaves for good, and what it has at its node with it."""


class Locate(Struct, frozen=True, gc=False, tag="locate"):
    location: Location


class Subscribe(Struct, frozen=True, gc=False, tag="subscribe"):
    """A new subscription, or an update of the one with the same id."""

    subscription: Subscription


class Unsubscribe(Struct, frozen=True, gc=False, tag="unsubscribe"):
    id: str


class Advertise(Struct, frozen=True, gc=False, tag="advertise"):
    advertisement: Advertisement


class Unadvertise(Struct, frozen=True, gc=False, tag="unadvertise"):
    id: str


class Publish(Struct, frozen=True, gc=False, tag="publish"):
    notification: Notification


class JoinScope(Struct, frozen=True, gc=False, tag="join-scope"):
    """The node of this client learns that `scope` is a subscope of `superscope`. No workload here makes one; scenarios do."""

    dimension: str
    scope: str
    superscope: str = TOP


Deed: TypeAlias = Attach | Detach | Locate | Subscribe | Unsubscribe | Advertise | Unadvertise | Publish | JoinScope


class Action(Struct, frozen=True, gc=False):
    at_ms: int
    node: str
    client: str
    do: Deed
