"""The broker: a pure state machine that a live node and a simulator drive alike.

`handle(message, sender, now_ms)` returns effects and has no other way to touch the world: no socket, clock, thread or file.
The host makes each call one transaction: the state after it and the effects are stored together before any effect leaves.

Four things happen here, whatever the strategy:
- the requests of this node's own clients are checked and remembered (this node is then their *home*);
- policy: a notification that some export rule would stop anywhere leaves only along links that let it pass, and is matched at
  each node that it reaches (`RestrictedEvent`), so that no rendezvous point ever sees what it must not; what this node's own
  policy keeps from someone goes to each of the others straight (`policy`);
- delivery: at most once for each subscription and notification, to the client, or to where the client has gone;
- messages for brokers that are not neighbours are relayed.
The strategy decides the rest: where subscriptions, locations and notifications travel, and who matches.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from hanse.matching import MatchIndex
from hanse.matching.meaning import check_filters, lies_in
from hanse.model import InvalidInput, Location, Notification, Subscription, check_payload
from hanse.routing import messages as m
from hanse.routing.borders import Borders
from hanse.routing.handover import Handovers
from hanse.routing.policy import Owner, Policy
from hanse.routing.post import Post
from hanse.routing.promises import Broken, promised
from hanse.routing.queries import Queries
from hanse.routing.recent import remember
from hanse.routing.repair import Repair
from hanse.routing.settings import (
    DELIVERED_KEPT,
    RESTRICTED_KEPT,
    STAYS_KEPT,
    TOMBSTONES_KEPT,
    WAITING_MAX,
    Settings,
)
from hanse.routing.state import BrokerState, Client, Held, given_id, own_id
from hanse.routing.strategies import STRATEGIES, STUDIED
from hanse.scopes import Scopes, ScopesState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class _Dump(Struct):
    state: BrokerState
    scopes: ScopesState
    strategy: msgspec.Raw


class Broker:
    def __init__(self, node: str, settings: Settings, scopes: Scopes | None = None, policy: Policy | None = None) -> None:
        if node not in settings.federation.by_id:
            raise InvalidInput(f"{node!r} is no node of the federation")
        self.id = node
        self.settings = settings
        self.federation = settings.federation
        self.scopes = scopes if scopes is not None else Scopes()
        self.policy = policy if "policies" not in settings.ablations else None
        self.now_ms = 0
        self.effects: list[m.Effect] = []
        self.index = MatchIndex()
        self._use(BrokerState())
        if (strategy := STRATEGIES.get(settings.strategy) or STUDIED.get(settings.strategy)) is None:
            raise InvalidInput(f"there is no strategy {settings.strategy!r}; take one of {', '.join(STRATEGIES)}")
        post, borders = Post(self), Borders(self)
        self.send = post.send
        self.send_data = post.send_data
        self.exported = post.exported
        self.is_free = post.is_free
        self.forward_delivery = post.forward_delivery
        self._spread = post.spread
        self.owner = Owner(self)
        self.strategy = strategy(self)
        self.handovers = Handovers(self)
        self.queries = Queries(self)
        self.repair = Repair(self)
        self._flood_locations = settings.flood_locations
        self._match_known_locations = settings.match_known_locations
        self._deduplicates = "dedup" not in settings.ablations
        self._handlers: dict[type, Callable[[Any, str], None]] = {
            m.Locate: self._locate,
            m.Subscribe: self._subscribe,
            m.Unsubscribe: self._unsubscribe,
            m.Advertise: self._advertise,
            m.Unadvertise: self._unadvertise,
            m.Publish: self._publish,
            m.Attach: self.handovers.attach,
            m.Disconnect: self.handovers.disconnect,
            m.Detach: self._detach,
            m.SetVisibility: borders.set,
            m.JoinScope: self._join_scope,
            m.LeaveScope: self._leave_scope,
            m.Tick: self._tick,
            m.Query: self.queries.query,
            m.Answer: self.queries.answer,
            m.Ask: self.queries.ask,
            m.Found: self.queries.found,
            m.ClientLocation: self._client_location,
            m.PutSubscription: self.strategy.put,
            m.DropSubscription: self.strategy.drop,
            m.Event: self.strategy.event,
            m.Delivery: self.take_delivery,
            m.RestrictedEvent: self._restricted_event,
            m.VisibilityNews: borders.heard,
            m.Redirect: post.redirect,
            m.Outdated: self._outdated,
            m.Waited: self.handovers.waited,
            m.HandoverRequest: self.handovers.requested,
            m.Handover: self.handovers.arrived,
            m.Resync: self.repair.resync,
            m.Digest: self.repair.digest,
            m.DigestDiffers: self.repair.differs,
            m.Relay: post.relay,
            m.Routed: post.routed,
            **self.strategy.handlers(),
        }
        if node not in settings.served:
            self._handlers |= dict.fromkeys((m.Attach, m.Locate, m.Subscribe, m.Advertise, m.Publish, m.Query), self._refuse)

    def _use(self, state: BrokerState) -> None:
        self.state = state
        self.clients = state.clients
        self.held = state.held
        self.placed = state.placed
        self._held_of = Counter(held.subscription.client for held in state.held.values())

    # --- the one way in, and storing --------------------------------------------------------------------------------

    def handle(self, message: m.Message, sender: str = "", now_ms: int = 0) -> list[m.Effect]:
        """What follows from a message of a neighbour (`sender`), or from a request of a client or operator (no sender)."""
        self.now_ms = now_ms
        effects: list[m.Effect] = []
        self.effects = effects
        self._handlers[type(message)](message, sender)
        return effects

    def handle_again(self, message: m.Message, sender: str) -> None:
        """A message that had to wait, as part of what is being handled now."""
        self._handlers[type(message)](message, sender)

    def dump(self) -> bytes:
        """Everything that must outlive a crash."""
        strategy = msgspec.Raw(msgspec.msgpack.encode(self.strategy.state))
        return msgspec.msgpack.encode(_Dump(self.state, self.scopes.to_struct(), strategy))

    @classmethod
    def restore(cls, node: str, settings: Settings, dumped: bytes, policy: Policy | None = None) -> Broker:
        kept = msgspec.msgpack.decode(dumped, type=_Dump)
        broker = cls(node, settings, Scopes.from_struct(kept.scopes), policy)
        broker._use(kept.state)
        broker.strategy.state = msgspec.msgpack.decode(kept.strategy, type=type(broker.strategy.state))
        for held in broker.held.values():
            broker.index.add(held.subscription)
        for client, place in kept.state.locations.items():
            broker.index.move(client, place.location)
        return broker

    # --- matching and delivery --------------------------------------------------------------------------------------

    def match(self, notification: Notification) -> list[Subscription]:
        """The subscriptions held here that the notification satisfies, visibility and expiry included."""
        found = self.index.match(notification, self.publisher_location(notification))
        if found:
            accepted_ms = notification.accepted_at_ms
            scopes, visible = notification.scopes, self.scopes.visible
            found = [
                s
                for s in found
                if (s.expires_at_ms is None or s.expires_at_ms > accepted_ms)
                and (not s.scopes or not scopes or visible(scopes, s.scopes, notification.attributes))
            ]
        return found

    def publisher_location(self, notification: Notification) -> Location | None:
        """Where the publisher was: as the notification says, unless a simulation wants to know what this broker knows."""
        return self.index.location(notification.publisher) if self._match_known_locations else notification.location

    def deliver_here(self, notification: Notification, home: str) -> None:
        """Match, and deliver to this node's own clients only."""
        self.deliver_everywhere(notification, home, only=())

    def deliver_everywhere(self, notification: Notification, home: str, only: Iterable[str] | None = None) -> None:
        """Match, deliver to own clients, and tell the homes of the others (those in `only`, if given)."""
        remote: dict[str, list[str]] = {}
        gone: dict[str, list[str]] = {}
        moved = self.state.moved
        for subscription in self.match(notification) if only is not None else self.owner.match(notification, home):
            there = self.held[subscription.id].home
            if there == self.id:
                self.deliver(subscription, notification, home)
            elif only is None or there in only:
                remote.setdefault(there, []).append(subscription.id)
            elif subscription.client in moved:
                gone.setdefault(there, []).append(subscription.id)
        for there, ids in remote.items():
            self.send_data(there, notification, home, partial(_delivery_of, tuple(ids), home))
        for there, ids in gone.items():
            self.forward_delivery(there, notification, tuple(ids), home)
        if self.state.arriving:
            self.handovers.remember(notification, home)

    def deliver(
        self, subscription: Subscription, notification: Notification, home: str, forwards: int = 0, *, recalled: bool = False
    ) -> None:
        """To a client that has (or had) its home here; once, whatever brought the notification here."""
        delivered = self.state.delivered
        key = notification.key
        got = delivered.get(key)
        if got is not None and subscription.id in got and self._deduplicates:
            return
        client = self.clients.get(subscription.client)
        if client is None or subscription.id not in client.subscriptions:
            moved = self.state.moved.get(subscription.client)
            if moved is not None:
                self.forward_delivery(moved.to, notification, (subscription.id,), home, forwards, recalled=recalled)
            return
        if got is None:
            remember(delivered, key, {subscription.id}, DELIVERED_KEPT)
        else:
            got.add(subscription.id)
        if client.connected:
            self.effects.append(m.Deliver(subscription.client, given_id(subscription.id), notification))
        elif len(client.waiting) < WAITING_MAX:
            client.waiting.append((subscription.id, notification, home))
        else:
            self.drop(
                subscription.client, subscription.id, notification, f"the client is out of reach and {WAITING_MAX} wait already"
            )

    def drop(self, client: str, id_: str, notification: Notification, reason: str) -> None:
        self.effects.append(m.Dropped(client, given_id(id_), notification, reason))

    def take_delivery(self, delivery: m.Delivery, _sender: str) -> None:
        notification = delivery.notification
        elsewhere: dict[str, list[str]] = {}
        for id_ in delivery.subscriptions:
            held = self.held.get(id_)
            if held is None:
                there = self.handovers.gone_to(id_)
                if there is not None:
                    elsewhere.setdefault(there, []).append(id_)
                elif self.state.arriving:  # perhaps on its way here with its client; else it ended meanwhile
                    self.handovers.remember(notification, delivery.home)
            elif held.home != self.id:
                elsewhere.setdefault(held.home, []).append(id_)
            elif delivery.recalled and not self._was_for(held.subscription.client, notification, delivery.home):
                pass
            elif not delivery.forwards or self.handovers.still_wants(held.subscription, notification, delivery.home):
                self.deliver(held.subscription, notification, delivery.home, delivery.forwards, recalled=delivery.recalled)
        for there, ids in elsewhere.items():
            self.forward_delivery(there, notification, tuple(ids), delivery.home, delivery.forwards, recalled=delivery.recalled)

    def _was_for(self, name: str, notification: Notification, home: str) -> bool:
        """Whether a client was where it could get a notification when that was published: in its geofence, and at such a node."""
        client = self.clients.get(name)
        if client is None:
            return True  # it has gone on; its next home decides
        stay = client.stay_at(notification.accepted_at_ms)
        if stay is None:
            return False
        node, location = stay
        return lies_in(location, notification.geofence) and self.federation.may_hear(home, node, notification)

    # --- requests of clients ----------------------------------------------------------------------------------------

    def _refuse(self, _request: Any, _sender: str) -> None:
        self.reject("", f"{self.id} serves no clients: it is the cloud of the broadcast groups")

    def client(self, name: str) -> Client:
        client = self.clients.get(name)
        if client is None:
            client = self.clients[name] = Client(stays=[(self.now_ms, self.id, None)])
        return client

    def reject(self, client: str, reason: str, request: str = "") -> None:
        self.effects.append(m.Reject(client, reason, request))

    def _locate(self, locate: m.Locate, _sender: str) -> None:
        client = self.client(locate.client)
        if not client.is_settled:
            self.handovers.postpone(locate.client, client, locate)
            return
        self.locate(locate.client, client, locate.location)

    def locate(self, name: str, client: Client, location: Location | None) -> None:
        """One of this node's own clients is there; whoever needs to know is told."""
        client.location = location
        client.stays.append((self.now_ms, self.id, location))
        del client.stays[:-STAYS_KEPT]
        place = m.ClientLocation(name, location, self.next_version(), self.id)
        self.place(place)
        if self._flood_locations:
            self.send(self.federation.others[self.id], place)
        if location is not None:
            self.strategy.located(client, place)

    def next_version(self) -> int:
        """A logical clock that also follows the time: what is said later has the higher version, whichever broker says it."""
        version = self.state.clock = max(self.state.clock + 1, self.now_ms)
        return version

    def heard_version(self, version: int) -> None:
        self.state.clock = max(self.state.clock, version)

    def place(self, place: m.ClientLocation) -> None:
        """Remember where a client is, for the geo checks."""
        own = self.clients.get(place.client)
        if place.home != self.id and own is not None and own.is_settled:
            self.heard_version(place.version)  # said in an earlier life, and late: where it is now is for this node to say
            return
        locations = self.state.locations
        known = locations.get(place.client)
        if known is None or known.version <= place.version:
            locations[place.client] = place
            self.index.move(place.client, place.location)
            self.heard_version(place.version)

    def place_of(self, client: str) -> m.ClientLocation:
        """Where one of this node's own clients is; that this is not known counts, too, against what was known before."""
        place = self.state.locations.get(client)
        if place is None:
            place = self.state.locations[client] = m.ClientLocation(client, None, self.next_version(), self.id)
        return place

    def _client_location(self, message: m.ClientLocation, _sender: str) -> None:
        self.place(message)

    def _subscribe(self, subscribe: m.Subscribe, _sender: str) -> None:
        subscription = subscribe.subscription
        client = self.client(subscription.client)
        if not client.is_settled:
            self.handovers.postpone(subscription.client, client, subscribe)
            return
        if reason := self._unknown_scope(subscription.scopes):
            self.reject(subscription.client, reason, subscription.id)
            return
        given = subscription.id
        subscription = msgspec.structs.replace(subscription, id=own_id(subscription.client, given))
        try:
            self.index.add(subscription)
        except InvalidInput as error:
            self.reject(subscription.client, str(error), given)
            return
        client.subscriptions[subscription.id] = subscription
        self.install(subscription, self.now_ms)

    def install(self, subscription: Subscription, since_ms: int) -> None:
        """Make this node the home of a subscription that the index has, newer than any other copy of it."""
        old = self.held.get(subscription.id)
        self.heard_version(max(old.version if old is not None else 0, self.state.tombstones.get(subscription.id, 0)))
        held = Held(subscription, self.id, self.next_version(), since_ms)
        self.hold(held)
        self.strategy.subscribed(held, old)

    def hold(self, held: Held) -> None:
        """Match a subscription here, in the place of any other version of it. The index has it already."""
        id_ = held.subscription.id
        if id_ not in self.held:
            self._held_of[held.subscription.client] += 1
        self.held[id_] = held

    def _outdated(self, outdated: m.Outdated, _sender: str) -> None:
        held = self.held.get(outdated.id)
        if held is not None and held.home == self.id and held.version <= outdated.version:
            self.heard_version(outdated.version)
            self.install(held.subscription, held.since_ms)

    def _unknown_scope(self, scopes: dict[str, str]) -> str:
        for dimension, scope in scopes.items():
            graph = self.scopes.graphs.get(dimension)
            if graph is None or scope not in graph:
                return f"dimension {dimension!r} has no scope {scope!r}"
        return ""

    def _unsubscribe(self, unsubscribe: m.Unsubscribe, _sender: str) -> None:
        client = self.clients.get(unsubscribe.client)
        if client is not None and not client.is_settled:
            self.handovers.postpone(unsubscribe.client, client, unsubscribe)
            return
        id_ = own_id(unsubscribe.client, unsubscribe.id)
        if client is None or id_ not in client.subscriptions:
            self.reject(unsubscribe.client, f"there is no subscription {unsubscribe.id!r} of this client", unsubscribe.id)
            return
        self.end_subscription(client, id_)

    def end_subscription(self, client: Client, id_: str) -> None:
        del client.subscriptions[id_]
        held = self.held[id_]
        self.strategy.unsubscribed(held.subscription, held.version)
        self.forget(id_, held.version)
        for waiting_id, notification, _ in client.waiting:
            if waiting_id == id_:
                self.drop(held.subscription.client, id_, notification, "the subscription has ended")
        client.waiting = [item for item in client.waiting if item[0] != id_]

    def let_go(self, id_: str) -> None:
        """Hold a subscription no more; a copy of it may come again."""
        held = self.held.pop(id_, None)
        self.placed.pop(id_, None)
        if held is None:
            return
        self.index.remove(id_)
        client = held.subscription.client
        self._held_of[client] -= 1
        if not self._held_of[client]:
            del self._held_of[client]
            if client not in self.clients and not self._flood_locations:  # nobody here asks where it is any more
                self.state.locations.pop(client, None)
                self.index.move(client, None)

    def forget(self, id_: str, version: int) -> None:
        """Hold a subscription no more, nor any copy of it up to this version that is still on its way."""
        self.let_go(id_)
        tombstones = self.state.tombstones
        remember(tombstones, id_, max(version, tombstones.pop(id_, 0)), TOMBSTONES_KEPT)

    def _advertise(self, advertise: m.Advertise, _sender: str) -> None:
        advertisement = advertise.advertisement
        client = self.client(advertisement.client)
        if not client.is_settled:
            self.handovers.postpone(advertisement.client, client, advertise)
            return
        try:
            check_filters(advertisement.selectors, advertisement.q, advertisement.quality, advertisement.xpath)
        except InvalidInput as error:
            self.reject(advertisement.client, str(error), advertisement.id)
            return
        if reason := self._unknown_scope(advertisement.scopes):
            self.reject(advertisement.client, reason, advertisement.id)
            return
        old = client.advertisements.get(advertisement.id)
        client.advertisements[advertisement.id] = advertisement
        self.strategy.advertised(advertisement)
        if old is not None:
            self.strategy.unadvertised(old)

    def _unadvertise(self, unadvertise: m.Unadvertise, _sender: str) -> None:
        client = self.clients.get(unadvertise.client)
        if client is not None and not client.is_settled:
            self.handovers.postpone(unadvertise.client, client, unadvertise)
            return
        advertisement = client.advertisements.pop(unadvertise.id, None) if client is not None else None
        if advertisement is None:
            self.reject(unadvertise.client, f"there is no advertisement {unadvertise.id!r} of this client", unadvertise.id)
        else:
            self.strategy.unadvertised(advertisement)

    def _publish(self, publish: m.Publish, _sender: str) -> None:
        notification = publish.notification
        client = self.client(notification.publisher)
        if not client.is_settled:
            self.handovers.postpone(notification.publisher, client, publish)
            return
        if notification.advertisement is not None or self.settings.require_advertisements:
            kept = promised(notification, client.advertisements, self.now_ms)
            if isinstance(kept, Broken):
                self.effects.append(m.Reject(notification.publisher, kept.reason, notification.id, kept.below))
                return
            if kept.scopes and not notification.scopes:
                notification = msgspec.structs.replace(notification, scopes=kept.scopes)
        if notification.scopes and (reason := self._unknown_scope(notification.scopes)):
            self.reject(notification.publisher, reason, notification.id)
            return
        try:
            check_payload(notification)
        except InvalidInput as error:
            self.reject(notification.publisher, str(error), notification.id)
            return
        notification = msgspec.structs.replace(
            notification,
            accepted_at_ms=self.now_ms,
            published_at_ms=notification.published_at_ms or self.now_ms,
            location=notification.location or client.location,
            only_for="",
        )
        is_kept_back = self.policy is not None and self.owner.restricts(notification)
        if not is_kept_back and self.federation.is_open_to(notification):
            self.strategy.published(notification)
            return
        remember(self.state.restricted, notification.key, notification, RESTRICTED_KEPT)
        if is_kept_back:
            self.owner.publish(notification)
        elif self.strategy.obeys_export_rules:
            self.strategy.published(notification)
        else:
            self._restricted_event(m.RestrictedEvent(notification, self.id), "")

    def _restricted_event(self, event: m.RestrictedEvent, _sender: str) -> None:
        self.deliver_here(event.notification, event.home)
        if not event.notification.only_for:
            self._spread(event)

    def _detach(self, detach: m.Detach, _sender: str) -> None:
        client = self.clients.get(detach.client)
        if client is None:
            return
        if not client.is_settled:
            self.handovers.postpone(detach.client, client, detach)
            return
        for id_, notification, _ in client.waiting:
            self.drop(detach.client, id_, notification, "the client has gone for good")
        client.waiting.clear()
        for id_ in list(client.subscriptions):
            self.end_subscription(client, id_)
        for advertisement in client.advertisements.values():
            self.strategy.unadvertised(advertisement)
        self.strategy.left(detach.client)
        self.queries.forget(detach.client)
        del self.clients[detach.client]
        self.locate(detach.client, client, None)

    # --- operators and time -----------------------------------------------------------------------------------------

    def _join_scope(self, join: m.JoinScope, _sender: str) -> None:
        if reason := self._unknown_scope({join.dimension: join.scope}):
            self.reject("", reason)
        else:
            self.strategy.joined(join.dimension, join.scope)

    def _leave_scope(self, leave: m.LeaveScope, _sender: str) -> None:
        self.strategy.left_scope(leave.dimension, leave.scope)

    def _tick(self, _tick: m.Tick, _sender: str) -> None:
        now = self.now_ms
        # ticks are frequent and clients may be many: look only at those to whom something may happen
        expiring = {
            held.subscription.client
            for held in self.held.values()
            if (expiry := held.subscription.expires_at_ms) is not None and expiry <= now
        }
        for client in [client for name, client in self.clients.items() if client.advertisements or name in expiring]:
            for subscription in list(client.subscriptions.values()):
                if subscription.expires_at_ms is not None and subscription.expires_at_ms <= now:
                    self.end_subscription(client, subscription.id)
            for advertisement in list(client.advertisements.values()):
                if advertisement.expires_at_ms is not None and advertisement.expires_at_ms <= now:
                    del client.advertisements[advertisement.id]
                    self.strategy.unadvertised(advertisement)
        long_ago = now - self.settings.handover_grace_ms  # versions follow the time
        unknown = [name for name, place in self.state.locations.items() if place.location is None and place.version < long_ago]
        for name in unknown:
            if name not in self.clients and name not in self._held_of:
                del self.state.locations[name]
        for name in [name for name, client in self.clients.items() if not client.connected and client.is_forgettable]:
            del self.clients[name]
        self.handovers.tick()
        self.queries.tick()
        self.strategy.tick()


def _delivery_of(ids: tuple[str, ...], home: str, view: Notification) -> m.Delivery:
    return m.Delivery(view, ids, home)
