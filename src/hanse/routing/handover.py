"""Clients that go from one broker to another, with no notification lost or doubled and nothing they asked for forgotten.

The new home asks the old one, which sends all that belongs to the client and from then on forwards what still comes for it.
Three windows could lose a notification, and each is closed:
- matched somewhere with the old home on record: it comes to the old home, which forwards it (`Moved`, for a while);
- matched at the new home before the client's subscriptions came: the new home keeps what it matched meanwhile and looks again;
- matched at the new home before the client came at all, and at the old one after it left: the old home still holds the
  subscriptions and forwards what they match.
What is seen twice on these ways is delivered once, since the old home also sends what it delivered lately.

A client may go on before its state has come, even back to where the state still is. Each stay has a number, its *turn*. A broker
that is asked for a client on behalf of an earlier turn than it has seen itself answers that the asker has been overtaken. Such
a one keeps what the client asked of it until the client's next home asks in turn. Whoever waits for several answers puts all
requests in the order of their turns before it carries them out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hanse.matching import satisfies
from hanse.model import WORLD
from hanse.routing import messages as m
from hanse.routing.recent import remember
from hanse.routing.settings import DELIVERED_KEPT, REQUESTS_WAITING_MAX, STAYS_KEPT, WAITING_MAX
from hanse.routing.state import Client, Moved, given_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hanse.model import Location, Notification, Subscription
    from hanse.routing.broker import Broker


class Handovers:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    # --- the client -------------------------------------------------------------------------------------------------

    def attach(self, attach: m.Attach, _sender: str) -> None:
        broker = self.broker
        name, previous = attach.client, attach.previous
        if previous is not None and previous not in broker.federation.by_id:
            broker.reject(name, f"{previous!r}, where the client says it comes from, is no node of the federation")
            return
        is_new = name not in broker.clients
        client = broker.client(name)
        client.turn = max(attach.turn or broker.now_ms, client.turn + 1)
        client.connected = True
        client.overtaken_by = 0
        self._answer_overtaken(client)
        if previous is not None and previous != broker.id:
            client.awaiting[client.turn] = previous
            broker.state.arriving.add(name)
            broker.send((previous,), m.HandoverRequest(name, broker.id, client.turn, is_guess=not attach.turn))
        elif client.is_settled:
            self._catch_up(name, client)
        if attach.location is not None:
            broker.handle_again(m.Locate(name, attach.location), "")
        elif is_new and not client.awaiting and name in broker.state.locations:  # of an earlier life
            broker.locate(name, client, None)

    def disconnect(self, disconnect: m.Disconnect, _sender: str) -> None:
        client = self.broker.clients.get(disconnect.client)
        if client is not None:
            client.connected = False

    def postpone(self, name: str, client: Client, request: m.Request) -> None:
        """Until the client is settled here, what it asks for waits."""
        if len(client.requests) >= REQUESTS_WAITING_MAX:
            self.broker.reject(name, f"{REQUESTS_WAITING_MAX} requests wait for the client's hand-over already: try again later")
        else:
            client.requests.append((client.turn, request))

    def _catch_up(self, name: str, client: Client) -> None:
        """A client of this node is within reach again, and gets what has waited for it."""
        waiting, client.waiting = client.waiting, []
        for id_, notification, _ in waiting:
            self.broker.effects.append(m.Deliver(name, given_id(id_), notification))

    # --- the old home -----------------------------------------------------------------------------------------------

    def requested(self, request: m.HandoverRequest, _sender: str) -> None:
        broker = self.broker
        name, turn = request.client, request.turn
        client = broker.clients.get(name)
        if client is None:
            moved = broker.state.moved.get(name)
            if moved is not None and moved.to != request.new_home:
                broker.send((moved.to,), request)
            else:
                broker.send((request.new_home,), m.Handover(name, turn, broker.state.clock))
        elif client.turn > turn and not (request.is_guess and client.is_settled):
            broker.send((request.new_home,), m.Handover(name, turn, broker.state.clock, overtaken_by=client.turn))
        elif client.awaiting:
            client.asked.append(request)
        else:
            self._hand_over(request, client)

    def _answer_overtaken(self, client: Client) -> None:
        """Those who asked on behalf of an earlier turn need not wait any longer."""
        late = [request for request in client.asked if request.turn < client.turn]
        client.asked = [request for request in client.asked if request.turn >= client.turn]
        for request in late:
            self.requested(request, "")

    def _hand_over(self, request: m.HandoverRequest, client: Client) -> None:
        broker = self.broker
        name = request.client
        new_home = request.new_home
        subscriptions = tuple((s, broker.held[s.id].version, broker.held[s.id].since_ms) for s in client.subscriptions.values())
        waiting: list[tuple[str, Notification, str]] = []
        guarded: list[tuple[str, Notification, str]] = []
        for item in client.waiting:
            (waiting if broker.is_free(item[1], item[2]) else guarded).append(item)
        mine = client.subscriptions.keys()
        not_given = {(id_, n.key) for id_, n, _ in client.waiting}
        delivered = [
            (id_, key) for key, got in broker.state.delivered.items() for id_ in got & mine if (id_, key) not in not_given
        ]
        handover = m.Handover(
            client=name,
            turn=request.turn,
            clock=broker.state.clock,
            known=not client.overtaken_by or bool(subscriptions or client.advertisements or client.location),
            overtaken_by=client.overtaken_by,
            stay=client.turn + 1,
            location=client.location,
            stays=tuple(client.stays),
            subscriptions=subscriptions,
            advertisements=tuple(client.advertisements.values()),
            delivered=tuple(delivered),
            waiting=tuple(waiting),
            requests=tuple(self._may_travel(name, client.requests)),
        )
        broker.send((new_home,), handover)
        for id_, key in not_given:  # given away, so not delivered here
            broker.state.delivered[key].discard(id_)
        left = [(s, version, broker.placed.pop(s.id, ())) for s, version, _ in subscriptions]
        before = broker.state.moved.get(name)
        if before is not None:  # still forwarding what an earlier stay left behind
            ids = {s.id for s, _, _ in left}
            left.extend(item for item in before.left_behind if item[0].id not in ids)
        broker.state.moved[name] = Moved(new_home, broker.now_ms + broker.settings.handover_grace_ms, left)
        del broker.clients[name]
        for id_, notification, home in guarded:  # export rules and policies decide over these one by one
            self.send_waited(new_home, m.Waited(name, id_, notification, home))
        for advertisement in client.advertisements.values():
            broker.strategy.unadvertised(advertisement)

    def _may_travel(self, name: str, requests: list[tuple[int, m.Request]]) -> Iterator[tuple[int, m.Request]]:
        """What a client asked for goes with it; but not what it wanted to publish under the rules or the policy of this node."""
        for turn, request in requests:
            if isinstance(request, m.Publish):
                n = msgspec.structs.replace(request.notification, only_for="")
                if not self.broker.is_free(n, self.broker.id):
                    self.broker.reject(name, "the client went on before this could be published here", n.id)
                    continue
            yield turn, request

    def gone_to(self, subscription: str) -> str | None:
        """Where a subscription went with its client, as far as this node remembers."""
        for moved in self.broker.state.moved.values():
            if any(left.id == subscription for left, _, _ in moved.left_behind):
                return moved.to
        return None

    # --- the new home -----------------------------------------------------------------------------------------------

    def arrived(self, handover: m.Handover, _sender: str) -> None:
        broker = self.broker
        name = handover.client
        client = broker.clients.get(name)
        if client is None or client.awaiting.pop(handover.turn, None) is None:
            return
        broker.heard_version(handover.clock)
        if handover.known:
            client.turn = max(client.turn, handover.stay)
        client.requests.extend(handover.requests)
        if handover.overtaken_by > client.turn:
            client.overtaken_by = handover.overtaken_by
        if handover.known:
            self._take_over(name, client, handover)
        if client.awaiting:
            return
        broker.state.arriving.discard(name)
        if not broker.state.arriving:
            broker.state.meanwhile.clear()
        if client.overtaken_by:
            self._answer(client)
            return
        if not handover.known and not handover.overtaken_by and client.location is None and name in broker.state.locations:
            broker.locate(name, client, None)  # nobody knows it: what is known here is of an earlier life
        self._settle(name, client)

    def _take_over(self, name: str, client: Client, handover: m.Handover) -> None:
        broker = self.broker
        self._take_up(name, handover)
        if handover.location is not None or name in broker.state.locations:  # there may be one of an earlier stay
            broker.locate(name, client, handover.location)
        client.stays = [*handover.stays[1 - STAYS_KEPT :], (broker.now_ms, broker.id, handover.location)]
        for id_, key in handover.delivered:
            if (got := broker.state.delivered.get(key)) is not None:
                got.add(id_)
            else:
                remember(broker.state.delivered, key, {id_}, DELIVERED_KEPT)
        for subscription, version, since_ms in handover.subscriptions:
            client.subscriptions[subscription.id] = subscription
            broker.heard_version(version)
            broker.index.add(subscription)
            broker.install(subscription, since_ms)
        for advertisement in handover.advertisements:
            client.advertisements[advertisement.id] = advertisement
            broker.strategy.advertised(advertisement)
        waiting, client.waiting = (*handover.waiting, *client.waiting), []
        for id_, notification, home in waiting:
            if id_ in client.subscriptions:
                self._give(m.Waited(name, id_, notification, home), client)
        self._look_again(client)

    def send_waited(self, to: str, waited: m.Waited) -> None:
        """As export rules and policies let it: from here, or else from the publisher's broker; or else not at all."""
        broker, n = self.broker, waited.notification
        if to == broker.id:
            self.waited(waited, "")
        elif broker.send_data(to, n, waited.home, lambda view: msgspec.structs.replace(waited, notification=view)):
            pass
        elif waited.home != broker.id and (n.only_for or broker.federation.may_hear(waited.home, to, n)):
            broker.send((waited.home,), m.Redirect(n.key, (waited.subscription,), to, waited=True))
        else:
            why = "a policy does" if n.only_for or broker.owner.view(to, n) is None else "export rules do"
            broker.drop(waited.client, waited.subscription, n, f"{why} not let it follow the client to {to}")

    def waited(self, waited: m.Waited, _sender: str) -> None:
        broker = self.broker
        client = broker.clients.get(waited.client)
        if client is None and (moved := broker.state.moved.get(waited.client)) is not None:
            self.send_waited(moved.to, waited)
        elif client is not None and waited.subscription in client.subscriptions:
            self._give(waited, client)
        elif client is not None and client.awaiting and len(client.waiting) < WAITING_MAX:
            client.waiting.append((waited.subscription, waited.notification, waited.home))
        else:
            broker.drop(waited.client, waited.subscription, waited.notification, "the subscription has ended")

    def _give(self, waited: m.Waited, client: Client) -> None:
        """What waited is the client's; but where less or more of it may be seen, that must be what the client asked for."""
        broker, subscription, n = self.broker, client.subscriptions[waited.subscription], waited.notification
        is_home = waited.home == broker.id and broker.policy is not None
        is_other = n.only_for or is_home or broker.federation.hides_attributes
        anywhere = msgspec.structs.replace(n, geofence=WORLD)  # where the client was then, it was in its geofence
        if not is_other or satisfies(subscription, anywhere, broker.publisher_location(n), None):
            broker.deliver(subscription, n, waited.home)
        else:
            why = "a policy leaves" if n.only_for or is_home else "export rules leave"
            broker.drop(waited.client, waited.subscription, n, f"what {why} of it at {broker.id} is not what it asked for")

    def _settle(self, name: str, client: Client) -> None:
        """All that belongs to the client is here: do what it asked for meanwhile, in the order in which it asked."""
        requests = sorted(client.requests, key=lambda item: item[0])
        client.requests = []
        if client.connected:
            self._catch_up(name, client)
        for _, request in requests:
            self.broker.handle_again(request, "")
        self._answer(client)

    def _answer(self, client: Client) -> None:
        asked, client.asked = client.asked, []
        for request in sorted(asked, key=lambda request: request.turn):
            self.requested(request, "")

    def _take_up(self, name: str, handover: m.Handover) -> None:
        """The client was here before: what it left behind is its own again, or has ended elsewhere."""
        broker = self.broker
        moved = broker.state.moved.pop(name, None)
        if moved is None:
            return
        alive = {subscription.id for subscription, _, _ in handover.subscriptions}
        for subscription, version, targets in moved.left_behind:
            if subscription.id not in alive:
                self._end(subscription, version, targets)
            elif targets:
                broker.placed[subscription.id] = targets

    def remember(self, notification: Notification, home: str) -> None:
        """A client is arriving: keep what is matched here, its subscriptions may want it."""
        remember(self.broker.state.meanwhile, notification.key, (notification, home), WAITING_MAX)

    def _look_again(self, client: Client) -> None:
        where = next((r.location for _, r in reversed(client.requests) if isinstance(r, m.Locate)), client.location)
        for notification, home in self.broker.state.meanwhile.values():
            for subscription in client.subscriptions.values():
                is_older = self.broker.held[subscription.id].since_ms <= notification.accepted_at_ms
                if is_older and self.still_wants(subscription, notification, home, where):
                    self.broker.deliver(subscription, notification, home)

    def still_wants(
        self, subscription: Subscription, notification: Notification, home: str, where: Location | None = None
    ) -> bool:
        """Whether a subscription matches a notification as things stand here now (with its client at `where`, if given)."""
        broker = self.broker
        if where is None:
            where = broker.index.location(subscription.client)
        return (
            satisfies(subscription, notification, broker.publisher_location(notification), where)
            and (subscription.expires_at_ms is None or subscription.expires_at_ms > notification.accepted_at_ms)
            and broker.scopes.visible(notification.scopes, subscription.scopes, notification.attributes)
            and broker.federation.may_hear(home, broker.id, notification)
        )

    # --- time -------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        for name, moved in list(self.broker.state.moved.items()):
            if moved.until_ms <= self.broker.now_ms:
                del self.broker.state.moved[name]
                if name not in self.broker.clients:
                    self.broker.strategy.left(name)
                for subscription, version, targets in moved.left_behind:
                    self._end(subscription, version, targets)

    def _end(self, subscription: Subscription, version: int, targets: tuple[str, ...]) -> None:
        """A subscription that this node is not the home of any more is not needed here, nor where this node had placed it."""
        broker = self.broker
        broker.send(targets, m.DropSubscription(subscription.id, version))
        broker.strategy.released(subscription)
        held = broker.held.get(subscription.id)
        if held is not None and held.home == broker.id and held.version <= version:
            broker.forget(subscription.id, version)
