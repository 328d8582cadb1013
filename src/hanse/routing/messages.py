"""Everything that a broker is told, and everything that it wants done.

Requests come from a client (or an operator) of this node, messages from other brokers; both are handled by `Broker.handle`.
Effects are what the host does for the broker: send a message to neighbours, deliver to a client, answer a query.
All are plain values that msgspec can put on a wire.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from hanse.model import Advertisement, Location, Notification, Selector, Subscription

# --- requests of clients and operators -------------------------------------------------------------------------------


class Attach(Struct, frozen=True, tag=True, gc=False):
    """A client comes to this node; `previous` names the node that it comes from, which hands it over.

    `turn` grows with each node that the client goes to; 0 leaves it to the node's clock.
    """

    client: str
    location: Location | None = None
    previous: str | None = None
    turn: int = 0


class Disconnect(Struct, frozen=True, tag=True, gc=False):
    """A client is out of reach for now: what is for it waits here until it attaches again, here or elsewhere."""

    client: str


class Detach(Struct, frozen=True, tag=True, gc=False):
    """A client is gone for good, with its subscriptions and advertisements."""

    client: str


class Locate(Struct, frozen=True, tag=True, gc=False):
    client: str
    location: Location


class Subscribe(Struct, frozen=True, tag=True, gc=False):
    subscription: Subscription


class Unsubscribe(Struct, frozen=True, tag=True, gc=False):
    client: str
    id: str


class Advertise(Struct, frozen=True, tag=True, gc=False):
    advertisement: Advertisement


class Unadvertise(Struct, frozen=True, tag=True, gc=False):
    client: str
    id: str


class Publish(Struct, frozen=True, tag=True, gc=False):
    notification: Notification


class Query(Struct, frozen=True, tag=True, gc=False):
    """A client asks for the entities as they are now, wherever they are kept."""

    id: str
    client: str
    selectors: tuple[Selector, ...] = ()
    q: str = ""


class JoinScope(Struct, frozen=True, tag=True, gc=False):
    """An operator keeps this node in the area of a scope, whether a client needs it or not."""

    dimension: str
    scope: str


class LeaveScope(Struct, frozen=True, tag=True, gc=False):
    dimension: str
    scope: str


class SetVisibility(Struct, frozen=True, tag=True, gc=False):
    """An operator changes the visibility filters of a border, for the whole federation and at once."""

    dimension: str
    scope: str
    superscope: str
    out: str | None = None
    into: str | None = None


class Tick(Struct, frozen=True, tag=True, gc=False):
    """Time has passed: what has expired ends now."""


class Resync(Struct, frozen=True, tag=True, gc=False):
    """State may have been lost on the way (a link overflowed): compare digests with everyone that was told something."""


class Answer(Struct, frozen=True, tag=True, gc=False):
    """The host's answer to a `Lookup`: what this node keeps."""

    query: str
    asker: str
    entities: tuple[Notification, ...]


# --- messages between brokers ----------------------------------------------------------------------------------------


class Redirect(Struct, frozen=True, tag=True, gc=False):
    """A client has gone to where the sender may not pass this notification on: the publisher's broker may."""

    notification: tuple[str, str]  # its key
    subscriptions: tuple[str, ...]
    to: str
    waited: bool = False  # it is the client's already
    recalled: bool = False  # as in the delivery that could not go on
    forwards: int = 0


class Offer(NamedTuple):
    """What a node says that it has: a type, or the topic of what has no type, or (neither) anything; of one entity, if named."""

    type: str | None = None
    topic: str | None = None
    entity: str | None = None


class ClientLocation(Struct, frozen=True, tag=True, gc=False):
    """Of two, the one with the higher version counts, whatever order they come in."""

    client: str
    location: Location | None
    version: int
    home: str


class PutSubscription(Struct, frozen=True, tag=True, gc=False):
    """`home` is the subscriber's broker. Of two versions the higher one counts, whatever order they come in."""

    subscription: Subscription
    home: str
    version: int
    place: ClientLocation | None = None
    region: str = ""  # scoped: the scope area that it floods
    since_ms: int = 0  # when its client last changed it
    stays: tuple[tuple[int, str], ...] = ()  # advertised, where links hide attributes: since when its client was at which node


class DropSubscription(Struct, frozen=True, tag=True, gc=False):
    """Hold this version no more, nor older ones. One that has not ended may come again."""

    id: str
    version: int
    region: str = ""
    ended: bool = True


class Outdated(Struct, frozen=True, tag=True, gc=False):
    """A subscription came with a version that had ended before: its home has to give it a higher one."""

    id: str
    version: int


class Event(Struct, frozen=True, tag=True, gc=False):
    """A notification on its way to where it is matched. `home` is the publisher's broker."""

    notification: Notification
    home: str
    forwarded: bool = False
    seek: tuple[str, ...] = ()  # scoped: the scope areas that it has yet to reach


class RestrictedEvent(Struct, frozen=True, tag=True, gc=False):
    """A notification that export rules keep from some nodes: matched at each node that may hear of it, for its own clients.

    What a policy keeps from some travels so, too, as a view that is only for the node it is sent to, and is not passed on.
    """

    notification: Notification
    home: str


class Delivery(Struct, frozen=True, tag=True, gc=False):
    """A matched notification for clients of the receiving broker."""

    notification: Notification
    subscriptions: tuple[str, ...]
    home: str  # the publisher's broker
    recalled: bool = False  # published before the subscription came to where it is matched: look where its client was then
    forwards: int = 0  # by how many former homes, which may know less than the present one: look again


class Waited(Struct, frozen=True, tag=True, gc=False):
    """A notification that waited for a client at a former home and is the client's already, but travels under export rules."""

    client: str
    subscription: str
    notification: Notification
    home: str  # the publisher's broker


class PutAdvertisement(Struct, frozen=True, tag=True, gc=False):
    """`provider` has what it offers (with ids, where a federation advertises ids), in one of the qualities that it guarantees.

    Of two, the one with the higher version counts. The signature is the provider's, over all the rest; hosts see to it.
    """

    provider: str
    offer: Offer
    version: int = 0
    guarantees: tuple[str, ...] = ()  # none: of any quality
    signature: bytes = b""


class DropAdvertisement(Struct, frozen=True, tag=True, gc=False):
    provider: str
    offer: Offer


class Guest(Struct, frozen=True, tag=True, gc=False):
    """A client that is in the receiver's area but attached elsewhere; no location: not any more."""

    client: str
    home: str
    location: Location | None
    version: int


class JoinArea(Struct, frozen=True, tag=True, gc=False):
    """The sender joins the area of a scope below the receiver, which tells it what it knows there."""

    region: str


class AreaReady(Struct, frozen=True, tag=True, gc=False):
    """All that the sender knew of the area when the receiver joined has been told."""

    region: str


class LeaveArea(Struct, frozen=True, tag=True, gc=False):
    region: str


class VisibilityNews(Struct, frozen=True, tag=True, gc=False):
    change: SetVisibility
    version: int
    origin: str


class Ask(Struct, frozen=True, tag=True, gc=False):
    query: Query
    asker: str


class Found(Struct, frozen=True, tag=True, gc=False):
    """Some of the `total` entities that a provider has for a query."""

    query: str
    provider: str
    entities: tuple[Notification, ...]
    total: int


class HandoverRequest(Struct, frozen=True, tag=True, gc=False):
    client: str
    new_home: str
    turn: int
    is_guess: bool = False  # the turn is by the new home's clock: believe that it is the latest


class Handover(Struct, frozen=True, tag=True, gc=False):
    """The answer to a request: a client with all that belongs to it, or that it is not here.

    `overtaken_by`: the turn of a later stay, where the client's state is; whoever asked for an earlier one is not its home.
    """

    client: str
    turn: int
    clock: int
    known: bool = False
    overtaken_by: int = 0
    location: Location | None = None
    stays: tuple[tuple[int, str, Location | None], ...] = ()  # since when it was at which node, and where
    stay: int = 0  # the turn that this stay has at the least
    subscriptions: tuple[tuple[Subscription, int, int], ...] = ()  # with version, and since when it is as it is
    advertisements: tuple[Advertisement, ...] = ()
    delivered: tuple[tuple[str, tuple[str, str]], ...] = ()  # subscription, notification's key: recently given to the client
    waiting: tuple[tuple[str, Notification, str], ...] = ()  # subscription, notification, its home: not yet given to it
    requests: tuple[tuple[int, Request], ...] = ()  # turn, request: what it asked for and nobody could do yet


class Digest(Struct, frozen=True, tag=True, gc=False):
    """A hash over all that the sender has told the receiver and still holds true."""

    value: str


class DigestDiffers(Struct, frozen=True, tag=True, gc=False):
    """What the sender holds of the receiver's, by key: the receiver mends the difference."""

    held: dict[str, str]


class Relay(Struct, frozen=True, tag=True, gc=False):
    """A message from a broker that is not a neighbour, for brokers further on."""

    source: str
    destinations: tuple[str, ...]
    message: BrokerMessage


class Routed(Struct, frozen=True, tag=True, gc=False):
    """A message that must keep to the links that export rules leave open for it: the hops that remain, last one the goal."""

    source: str
    route: tuple[str, ...]
    message: BrokerMessage


Request: TypeAlias = (
    Attach | Disconnect | Detach | Locate | Subscribe | Unsubscribe | Advertise | Unadvertise | Publish | Query
    | JoinScope | LeaveScope | SetVisibility | Tick | Resync | Answer
)  # fmt: skip
BrokerMessage: TypeAlias = (
    ClientLocation | PutSubscription | DropSubscription | Event | RestrictedEvent | Delivery | PutAdvertisement
    | DropAdvertisement | Waited | Outdated | Redirect
    | Guest | JoinArea | AreaReady | LeaveArea | VisibilityNews | Ask | Found | HandoverRequest
    | Handover | Digest | DigestDiffers | Relay | Routed | Resync
)  # fmt: skip
Message: TypeAlias = Request | BrokerMessage


# What nobody could say again: a full outbox still takes these. All other state is repaired by comparing digests.
IRREPLACEABLE = (
    HandoverRequest, Handover, Redirect, Outdated, VisibilityNews, Ask, Found,
    JoinArea, AreaReady, LeaveArea, Digest, DigestDiffers, Resync
)  # fmt: skip


def innermost(message: Any) -> Any:
    """The message itself, without the wrapping that carries it past other brokers."""
    while type(message) is Relay or type(message) is Routed:
        message = message.message
    return message


# --- effects ---------------------------------------------------------------------------------------------------------


class Send(Struct, frozen=True, tag=True, gc=False):
    """To each of these neighbours."""

    to: tuple[str, ...]
    message: BrokerMessage


class Deliver(Struct, frozen=True, tag=True, gc=False):
    client: str
    subscription: str
    notification: Notification


class Reject(Struct, frozen=True, tag=True, gc=False):
    """A request that is refused, with the reason in the client's words."""

    client: str
    reason: str
    request: str = ""
    below: str = ""  # the advertisement whose guarantee a notification does not keep


class Dropped(Struct, frozen=True, tag=True, gc=False):
    """A notification that a client will not get, with the reason: for the dead letters."""

    client: str
    subscription: str
    notification: Notification
    reason: str


class Lookup(Struct, frozen=True, tag=True, gc=False):
    """The host looks in its store and answers with `Answer`.

    For another node's query it may be asked for more than that node wants: what export rules hide must not decide (`queries`).
    """

    query: Query
    asker: str


class Reply(Struct, frozen=True, tag=True, gc=False):
    """The answer to a query; `silent` did not answer in time."""

    client: str
    query: str
    entities: tuple[Notification, ...]
    silent: tuple[str, ...] = ()


Effect: TypeAlias = Send | Deliver | Reject | Dropped | Lookup | Reply
