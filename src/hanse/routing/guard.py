"""What a broker does not believe, whoever says it.

Every node knows the whole federation: its nodes, its links with their export rules, its strategy. So a receiver can tell of most
messages whether an honest neighbour could have sent them at all: whether the one who is said to speak lies behind that neighbour
on the way that its messages take, whether it is its part to say such a thing, and whether export rules let a notification come
this way, in this form. A message that could not be honest is refused, with the reason in words; nothing of it is handled.
Nobody knows another's policy; but that what one has left of a notification for some node comes to that node alone, can be told.

What cannot be told here is whether a node speaks the truth about its own clients, or changes what it passes on for others.
Clients' names are the federation's common trust; but what a node says of them gets it nothing that export rules keep from it. Of
what is past (where a client was, who changed a border) any node may be named: it may have left the federation since.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import msgspec

from hanse.filters import compile_quality
from hanse.matching.meaning import check_filters
from hanse.model import InvalidInput
from hanse.routing import messages as m
from hanse.routing.federation import way
from hanse.routing.settings import FORWARDS_MAX, GUARANTEES_MAX, REQUESTS_WAITING_MAX, STAYS_KEPT, WAITING_MAX
from hanse.routing.speakers import SPEAKERS
from hanse.routing.state import client_of
from hanse.scopes.visibility import gate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hanse.model import Notification, Subscription
    from hanse.routing.settings import Settings
    from hanse.scopes import Scopes

VERSION_MAX: Final = 1 << 53  # far above any clock; a clock that follows it still has room
HELD_MAX: Final = 1 << 20  # keys of one comparison of digests, subscriptions of one delivery
POSTPONED: Final = (m.Locate, m.Subscribe, m.Unsubscribe, m.Advertise, m.Unadvertise, m.Publish, m.Detach)


class Trip(NamedTuple):
    """How a message has come: from whom it is, for whom, and over which link; `route` are the hops of a `Routed` that remain."""

    speaker: str
    goal: str
    sender: str
    here: str
    relayed: bool = False
    route: tuple[str, ...] = ()

    @property
    def is_next_door(self) -> bool:
        return not self.relayed and not self.route


Check: TypeAlias = Callable[[Any, Trip], str]


class Guard:
    """For all brokers of a federation alike; it remembers nothing. With `scopes` it also knows which scopes there are."""

    def __init__(self, settings: Settings, scopes: Scopes | None = None) -> None:
        self.settings = settings
        self.scopes = scopes
        self.federation = settings.federation
        self._nodes = settings.federation.by_id.keys()
        self._neighbours = {node: frozenset(others) for node, others in settings.federation.neighbours.items()}
        self._speakers = SPEAKERS[settings.strategy](settings)
        self._checks: dict[type, Check] = {
            m.ClientLocation: self._client_location,
            m.PutSubscription: self._put_subscription,
            m.DropSubscription: self._drop_subscription,
            m.Event: self._event,
            m.RestrictedEvent: self._restricted_event,
            m.Delivery: self._delivery,
            m.Waited: self._waited,
            m.PutAdvertisement: self._offer,
            m.DropAdvertisement: self._offer,
            m.Guest: self._guest,
            m.JoinArea: self._area,
            m.LeaveArea: self._area,
            m.AreaReady: self._area,
            m.VisibilityNews: self._visibility,
            m.Ask: self._ask,
            m.Found: self._found,
            m.Redirect: self._redirect,
            m.Outdated: self._outdated,
            m.HandoverRequest: self._handover_request,
            m.Handover: self._handover,
            m.Digest: self._anything,
            m.DigestDiffers: self._differs,
            m.Resync: self._anything,
        }

    def refusal(self, message: Any, sender: str, here: str) -> str:
        """Why a message that came to `here` from the neighbour `sender` cannot be honest; empty if it can."""
        if sender not in self._neighbours.get(here, ()):
            return f"{sender!r} is no neighbour of {here!r}"
        if type(message) is m.Relay:
            return self._relay(message, sender, here)
        if type(message) is m.Routed:
            return self._routed(message, sender, here)
        return self._inner(message, Trip(sender, here, sender, here))

    # --- how it has come ----------------------------------------------------------------------------------------------

    def _inner(self, message: Any, trip: Trip) -> str:
        check = self._checks.get(type(message))
        if check is None:
            return f"{type(message).__name__} is nothing that one broker says to another"
        return check(message, trip)

    def _relay(self, relay: m.Relay, sender: str, here: str) -> str:
        """It must be on the one way from its source to each of its destinations."""
        if self.federation.is_mesh:
            return "nothing is relayed where every node is linked to every other"
        destinations = relay.destinations
        if not destinations or len(set(destinations)) != len(destinations) or len(destinations) > len(self._nodes):
            return "a relayed message names no destination, or one twice"
        if strange := self._strangers((relay.source, *destinations)):
            return strange
        for destination in destinations:
            if not self._is_on_way(relay.source, destination, sender, here):
                return f"what {relay.source} sends to {destination} does not come from {sender} to {here}"
            reason = self._inner(relay.message, Trip(relay.source, destination, sender, here, relayed=True))
            if reason:
                return reason
        return ""

    def _is_on_way(self, source: str, destination: str, sender: str, here: str) -> bool:
        node = source
        while node != destination:
            after = self.federation.next_hop(node, destination)
            if node == sender:
                return after == here
            node = after
        return False

    def _routed(self, routed: m.Routed, sender: str, here: str) -> str:
        route = routed.route
        if not route or route[0] != here or len(set(route)) != len(route):
            return f"the way of a routed message does not begin at {here}, or is a circle"
        if strange := self._strangers((routed.source, *route)):
            return strange
        if type(routed.message) not in (m.Delivery, m.Waited, m.Found):
            return f"{type(routed.message).__name__} does not travel under export rules"
        return self._inner(routed.message, Trip(routed.source, route[-1], sender, here, route=route))

    def _strangers(self, nodes: Iterable[str]) -> str:
        for node in nodes:
            if node not in self._nodes:
                return f"{node!r} is no node of the federation"
        return ""

    # --- notifications ------------------------------------------------------------------------------------------------

    def _data(self, notification: Notification, home: str, trip: Trip) -> str:
        """A notification in a message to one broker: free to take any way, or on the one that export rules leave it."""
        federation, said = self.federation, f"{notification.id!r} of {notification.publisher!r}"
        if home not in self._nodes:
            return f"{home!r} is no node of the federation"
        if notification.only_for:
            return self._private(notification, home, trip)
        if federation.is_open_to(notification):
            return f"{said} is under no export rule, but travels as if it were" if trip.route else ""
        if trip.relayed:
            return f"{said} is under export rules, but was relayed as if it were not"
        speaker, goal = trip.speaker, trip.goal
        if not federation.may_hear(home, speaker, notification):
            return f"export rules do not let {said}, published at {home}, come to {speaker}, which sends it"
        parents = federation.audience(speaker, notification)
        links = way(parents, goal) if goal in parents else []
        if (trip.sender, trip.here) not in links:
            return f"export rules do not let {said} come from {speaker} to {goal} by way of {trip.sender} and {trip.here}"
        if trip.route and tuple(node for _, node in links[links.index((trip.sender, trip.here)) :]) != trip.route:
            return f"{said} is not on the way from {speaker} to {goal} that export rules leave"
        if federation.exported(home, goal, notification) is not notification:
            return f"{said} has more in it than export rules leave of it at {goal}"
        if not federation.is_all_for(home, speaker, goal, notification):
            return f"only {home} can send {said} to {goal}, since {speaker} has not all of it"
        return ""

    def _private(self, n: Notification, home: str, trip: Trip) -> str:
        """A view that the policy of its publisher's node has made for one node."""
        said = f"{n.id!r} of {n.publisher!r}"
        if n.only_for != trip.goal:
            return f"{said} is only for {n.only_for}, and comes to {trip.goal}"
        if home != trip.speaker or trip.route:
            return f"{said}, which is only for {n.only_for}, does not come straight from {home}, where it was published"
        if self.federation.exported(home, trip.goal, n) is not n:
            return f"{said} has more in it than export rules leave of it at {trip.goal}"
        return ""

    def _event(self, event: m.Event, trip: Trip) -> str:
        if event.home not in self._nodes:
            return f"{event.home!r} is no node of the federation"
        if event.notification.only_for:
            return f"{event.notification.id!r} is only for {event.notification.only_for}, but travels as if it were for all"
        if not self.federation.is_open_to(event.notification):
            return f"{event.notification.id!r} is under export rules, but travels as if it were not"
        return self._speakers.event(event, trip)

    def _restricted_event(self, event: m.RestrictedEvent, trip: Trip) -> str:
        n, home = event.notification, event.home
        if home not in self._nodes:
            return f"{home!r} is no node of the federation"
        if n.only_for:
            if self._speakers.matches_at_home:
                return f"{n.id!r} is matched where it is published, but comes unmatched"
            return self._private(n, home, trip)
        if self._speakers.obeys_export_rules or self.federation.is_open_to(n):
            return f"{n.id!r} travels under export rules, which is not the way for it"
        if not trip.is_next_door or trip.here == home or self.federation.audience(home, n).get(trip.here) != trip.sender:
            return f"export rules do not let {n.id!r} come from {home} to {trip.here} by way of {trip.sender}"
        if self.federation.exported(home, trip.here, n) is not n:
            return f"{n.id!r} has more in it than export rules leave of it at {trip.here}"
        return ""

    def _delivery(self, delivery: m.Delivery, trip: Trip) -> str:
        if reason := self._data(delivery.notification, delivery.home, trip):
            return reason
        if len(delivery.subscriptions) > HELD_MAX or not 0 <= delivery.forwards <= FORWARDS_MAX:
            return "a delivery for too many, or forwarded too often"
        if delivery.forwards:
            return ""  # by a former home of its subscribers, which anyone may be
        return self._speakers.delivery(delivery, trip)

    def _waited(self, waited: m.Waited, trip: Trip) -> str:
        if not waited.notification.only_for and self.federation.is_open_to(waited.notification):
            return f"{waited.notification.id!r} is under no export rule, but travels as if it were"
        if client_of(waited.subscription) != waited.client:
            return f"{waited.subscription!r} is no subscription of {waited.client!r}"
        return self._data(waited.notification, waited.home, trip)

    def _redirect(self, redirect: m.Redirect, trip: Trip) -> str:  # noqa: ARG002
        if len(redirect.subscriptions) > HELD_MAX or not 0 <= redirect.forwards <= FORWARDS_MAX:
            return "a redirect for too many subscriptions, or forwarded too often"
        return self._strangers((redirect.to,))

    # --- subscriptions, places, offers --------------------------------------------------------------------------------

    def _put_subscription(self, put: m.PutSubscription, trip: Trip) -> str:
        place = put.place
        if put.home not in self._nodes:
            return f"{put.home!r} is no node of the federation"
        if reason := self._bad_subscription(put.subscription) or _bad_version(put.version) or _bad_version(put.since_ms):
            return reason
        if len(put.stays) > STAYS_KEPT:
            return "a client with too many stays"
        if place is not None:
            if place.client != put.subscription.client:
                return "a subscription with the place of another client"
            if reason := _bad_version(place.version):
                return reason
        return self._speakers.put(put, trip)

    def _bad_subscription(self, subscription: Subscription) -> str:
        if client_of(subscription.id) != subscription.client:
            return f"{subscription.id!r} is no subscription of {subscription.client!r}"
        s = subscription
        bad = _bad_filters(lambda: check_filters(s.selectors, s.q, s.quality, s.xpath))
        return bad or self._bad_scopes(subscription.scopes.items())

    def _bad_scopes(self, scopes: Iterable[tuple[str, str]]) -> str:
        if self.scopes is not None:
            for dimension, scope in scopes:
                if dimension not in self.scopes.graphs or scope not in self.scopes.graphs[dimension]:
                    return f"dimension {dimension!r} has no scope {scope!r}"
        return ""

    def _drop_subscription(self, drop: m.DropSubscription, trip: Trip) -> str:
        return _bad_version(drop.version) or self._speakers.drop(drop, trip)

    def _outdated(self, outdated: m.Outdated, trip: Trip) -> str:  # noqa: ARG002
        return _bad_version(outdated.version)

    def _client_location(self, place: m.ClientLocation, trip: Trip) -> str:
        if place.home != trip.speaker:
            return f"{trip.speaker} says where a client of {place.home!r} is, which is for that node to say"
        return _bad_version(place.version)

    def _guest(self, guest: m.Guest, trip: Trip) -> str:
        if self.settings.strategy != "geo-subscriber":
            return f"there are no guests in {self.settings.strategy}"
        if guest.home != trip.speaker:
            return f"{trip.speaker} speaks of a client of {guest.home!r}, which is for that node to do"
        return _bad_version(guest.version)

    def _offer(self, said: m.PutAdvertisement | m.DropAdvertisement, trip: Trip) -> str:
        if self.settings.strategy != "advertised":
            return f"nothing is offered in {self.settings.strategy}"
        provider, offer = said.provider, said.offer
        if provider not in self._nodes:
            return f"{provider!r} is no node of the federation"
        parents = self.federation.offer_tree(provider, offer.type or offer.topic, offer.entity)
        if not trip.is_next_door or provider == trip.here or parents.get(trip.here) != trip.sender:
            return f"an offer of {provider} does not come to {trip.here} from {trip.sender}"
        if isinstance(said, m.DropAdvertisement):
            return ""
        if len(said.guarantees) > GUARANTEES_MAX:
            return f"an offer has {len(said.guarantees)} guarantees; {GUARANTEES_MAX} are allowed"
        bad_guarantee = _bad_filters(lambda: [compile_quality(guarantee) for guarantee in said.guarantees])
        return bad_guarantee or _bad_version(said.version)

    def _area(self, said: m.JoinArea | m.LeaveArea | m.AreaReady, trip: Trip) -> str:
        if self.settings.strategy != "scoped":
            return f"there are no areas in {self.settings.strategy}"
        below, above = (trip.here, trip.sender) if isinstance(said, m.AreaReady) else (trip.sender, trip.here)
        anchor = self.settings.anchor(said.region)
        if not trip.is_next_door or not said.region or below == anchor or self.federation.next_hop(below, anchor) != above:
            return f"{above} is not above {below} in the area {said.region!r}"
        dimension, _, root = said.region.partition("\t")
        return self._bad_scopes([(dimension, root)])

    # --- queries, hand-over, borders, repair --------------------------------------------------------------------------

    def _ask(self, ask: m.Ask, trip: Trip) -> str:
        if ask.asker != trip.speaker:
            return f"{trip.speaker} asks in the name of {ask.asker!r}"
        return _bad_filters(lambda: check_filters(ask.query.selectors, ask.query.q, ""))

    def _found(self, found: m.Found, trip: Trip) -> str:
        if found.provider != trip.speaker:
            return f"{trip.speaker} answers in the name of {found.provider!r}"
        if found.total < len(found.entities):
            return "an answer has more entities than it says there are"
        for entity in found.entities:
            if len(found.entities) > 1 and not self._travels_freely(entity):
                return f"{entity.id!r} is under export rules or a policy, and travels by itself"
            if reason := self._data(entity, found.provider, trip):
                return reason
        return ""

    def _handover_request(self, request: m.HandoverRequest, trip: Trip) -> str:
        if request.new_home == trip.goal:
            return f"{trip.goal} is asked to hand over {request.client!r} to itself"
        return self._strangers((request.new_home,)) or _bad_version(request.turn)

    def _handover(self, handover: m.Handover, trip: Trip) -> str:  # noqa: ARG002
        client = handover.client
        for subscription, version, since_ms in handover.subscriptions:
            if subscription.client != client:
                return f"{client!r} is handed over with a subscription of {subscription.client!r}"
            if reason := self._bad_subscription(subscription) or _bad_version(version) or _bad_version(since_ms):
                return reason
        for advertisement in handover.advertisements:
            if reason := self._bad_scopes(advertisement.scopes.items()):
                return reason
        others = [a.client for a in handover.advertisements] + [client_of(id_) for id_, _ in handover.delivered]
        others += [client_of(id_) for id_, _, _ in handover.waiting]
        if other := next((name for name in others if name != client), ""):
            return f"{client!r} is handed over with what is {other!r}'s"
        for number in (handover.turn, handover.clock, handover.stay, handover.overtaken_by):
            if reason := _bad_version(number):
                return reason
        if len(handover.stays) > STAYS_KEPT or len(handover.waiting) > WAITING_MAX:
            return f"{client!r} is handed over with too many stays or notifications"
        for _, notification, _ in handover.waiting:
            if not self._travels_freely(notification):
                return f"{notification.id!r} is under export rules or a policy, and travels by itself"
        return self._postponed(handover)

    def _travels_freely(self, notification: Notification) -> bool:
        return not notification.only_for and self.federation.is_open_to(notification)

    def _postponed(self, handover: m.Handover) -> str:
        if len(handover.requests) > REQUESTS_WAITING_MAX * STAYS_KEPT:
            return f"{handover.client!r} is handed over with too many requests"
        for turn, request in handover.requests:
            if not isinstance(request, POSTPONED):
                return f"{type(request).__name__} is no request that waits for a client's hand-over"
            if _asks(request) != handover.client:
                return f"{handover.client!r} is handed over with a request of {_asks(request)!r}"
            if isinstance(request, m.Publish) and not self.federation.is_open_to(request.notification):
                return (
                    f"{request.notification.id!r} is under export rules, and is published where its publisher was, or not at all"
                )
            if reason := _bad_version(turn):
                return reason
        return ""

    def _visibility(self, news: m.VisibilityNews, trip: Trip) -> str:  # noqa: ARG002
        change = news.change
        if (change.out is None) == (change.into is None):
            return "news of a border are about one way across it"
        return (
            self._bad_scopes(((change.dimension, change.scope), (change.dimension, change.superscope)))
            or _bad_version(news.version)
            or _bad_filters(lambda: gate(change.out or ""))
            or _bad_filters(lambda: gate(change.into or ""))
        )

    def _differs(self, differs: m.DigestDiffers, trip: Trip) -> str:  # noqa: ARG002
        if len(differs.held) > HELD_MAX:
            return f"more than {HELD_MAX} things are held"
        for key, version in differs.held.items():
            if key.startswith("\n["):
                try:
                    msgspec.json.decode(key, type=tuple[str, m.Offer])
                except msgspec.DecodeError:
                    return f"{key[:60]!r} is nothing that can be held"
            elif key.startswith("\nguest ") or not key.startswith(("\n", "area ")):
                number = version.partition(" ")[0]
                if not (number.isascii() and number.isdigit() and len(number) <= len(str(VERSION_MAX))):
                    return f"{version[:60]!r} is no version"
        return ""

    def _anything(self, message: Any, trip: Trip) -> str:  # noqa: ARG002
        return ""


def _bad_version(version: int) -> str:
    return "" if 0 <= version <= VERSION_MAX else f"{version} is no version: a clock does not get there"


def _bad_filters(check: Callable[[], object]) -> str:
    try:
        check()
    except InvalidInput as error:
        return str(error)
    return ""


def _asks(request: m.Request) -> str:
    """Whose request it is."""
    match request:
        case m.Subscribe():
            return request.subscription.client
        case m.Advertise():
            return request.advertisement.client
        case m.Publish():
            return request.notification.publisher
        case _:
            return str(getattr(request, "client", ""))
