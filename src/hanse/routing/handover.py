"""Clients that go from one broker to another, with no notification lost or doubled.

The new home asks the old one, which sends all that belongs to the client and from then on forwards what still comes for it.
Three windows could lose a notification, and each is closed:
- matched somewhere with the old home on record: it comes to the old home, which forwards it (`Moved`, for a while);
- matched at the new home before the client's subscriptions came: the new home keeps what it matched meanwhile and looks again;
- matched at the new home before the client came at all, and at the old one after it left: the old home still holds the
  subscriptions and forwards what they match.
What is seen twice on these ways is delivered once, since the old home also sends what it delivered lately.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.matching import satisfies
from hanse.routing import messages as m
from hanse.routing.settings import HANDOVER_GRACE_MS, REQUESTS_WAITING_MAX, WAITING_MAX
from hanse.routing.state import Client, Moved

if TYPE_CHECKING:
    from hanse.model import Notification, Subscription
    from hanse.routing.broker import Broker


class Handovers:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def attach(self, attach: m.Attach, _sender: str) -> None:
        broker = self.broker
        name = attach.client
        client = broker.clients.get(name)
        elsewhere = attach.previous is not None and attach.previous != broker.id
        if client is not None and client.is_settling:
            client.connected = True
            if attach.location is not None:
                self.postpone(name, client, m.Locate(name, attach.location))
        elif elsewhere:
            if client is None:
                client = self._expect(name, str(attach.previous))
            else:
                # it was away, and the node where it was has yet to ask for it: let that happen first, then take it back
                client.back_from = attach.previous
            if attach.location is not None:
                self.postpone(name, client, m.Locate(name, attach.location))
            broker.send((str(attach.previous),), m.HandoverRequest(name, broker.id))
        else:
            self._welcome(name, broker.client(name))
            if attach.location is not None:
                broker.handle_again(m.Locate(name, attach.location), "")

    def _expect(self, name: str, previous: str) -> Client:
        client = self.broker.clients[name] = Client(arriving_from=previous)
        self.broker.state.arriving += 1
        return client

    def _welcome(self, name: str, client: Client) -> None:
        """A client of this node is within reach again, and gets what has waited for it."""
        client.connected = True
        waiting, client.waiting = client.waiting, []
        for id_, notification in waiting:
            self.broker.effects.append(m.Deliver(name, id_, notification))

    def disconnect(self, disconnect: m.Disconnect, _sender: str) -> None:
        client = self.broker.clients.get(disconnect.client)
        if client is not None:
            client.connected = False

    def postpone(self, name: str, client: Client, message: m.Message, sender: str = "") -> None:
        """Until the client's hand-over is complete, what it asks for waits."""
        if len(client.requests) >= REQUESTS_WAITING_MAX:
            self.broker.reject(name, f"{REQUESTS_WAITING_MAX} requests wait for the client's hand-over already: try again later")
        else:
            client.requests.append((message, sender))

    def requested(self, request: m.HandoverRequest, sender: str) -> None:
        broker = self.broker
        name = request.client
        client = broker.clients.get(name)
        if client is not None and client.arriving_from is not None:
            self.postpone(name, client, request, sender)
            return
        if client is None:
            moved = broker.state.moved.get(name)
            if moved is not None and moved.to != request.new_home:
                broker.send((moved.to,), request)
            else:
                broker.send((request.new_home,), m.Handover(name, False, broker.state.clock))
            return
        subscriptions = tuple((s, broker.held[s.id].version) for s in client.subscriptions.values())
        waiting = {(id_, n.id) for id_, n in client.waiting}
        delivered = tuple(key for key in broker.state.delivered if key[0] in client.subscriptions and key not in waiting)
        broker.send(
            (request.new_home,),
            m.Handover(name, True, broker.state.clock, client.location, subscriptions, tuple(client.advertisements.values()), delivered, tuple(client.waiting)),
        )
        for key in waiting:  # given away, so not delivered here
            broker.state.delivered.pop(key, None)
        left = [(s, version, broker.placed.pop(s.id, ())) for s, version in subscriptions]
        broker.state.moved[name] = Moved(request.new_home, broker.now_ms + HANDOVER_GRACE_MS, left)
        del broker.clients[name]
        broker.strategy.left(name)
        for advertisement in client.advertisements.values():
            broker.strategy.unadvertised(advertisement)
        if client.back_from is not None:  # the request to take it back is under way already
            again = self._expect(name, client.back_from)
            again.requests = client.requests

    def arrived(self, handover: m.Handover, _sender: str) -> None:
        broker = self.broker
        name = handover.client
        client = broker.clients.get(name)
        if client is None or not client.is_settling:
            return
        if client.back_from is not None:  # nobody has asked for it, nor ever will: it never left
            client.back_from = None
            self._welcome(name, client)
            self._go_on(client)
            return
        client.arriving_from = None
        broker.state.arriving -= 1
        broker.state.clock = max(broker.state.clock, handover.clock)
        self._take_up(name, handover)
        if handover.location is not None:
            broker.handle_again(m.Locate(name, handover.location), "")
        for key in handover.delivered:
            broker.state.delivered.setdefault(key)
        for subscription, version in handover.subscriptions:
            held = broker.held.get(subscription.id)
            client.subscriptions[subscription.id] = subscription
            broker.index.add(subscription)
            broker.install(subscription, max(version, held.version if held else 0, broker.state.tombstones.get(subscription.id, 0)))
        for advertisement in handover.advertisements:
            client.advertisements[advertisement.id] = advertisement
            broker.strategy.advertised(advertisement)
        for id_, notification in handover.waiting:
            broker.deliver(client.subscriptions[id_], notification, broker.id)
        self._look_again(client)
        if not broker.state.arriving:
            broker.state.meanwhile.clear()
        self._go_on(client)

    def _take_up(self, name: str, handover: m.Handover) -> None:
        """The client was here before: what it left behind is its own again, or has ended elsewhere."""
        broker = self.broker
        moved = broker.state.moved.pop(name, None)
        if moved is None:
            return
        alive = {subscription.id for subscription, _ in handover.subscriptions}
        for subscription, version, targets in moved.left_behind:
            if subscription.id in alive:
                if targets:
                    broker.placed[subscription.id] = targets
            else:
                self._end(subscription, version, targets)

    def _end(self, subscription: Subscription, version: int, targets: tuple[str, ...]) -> None:
        broker = self.broker
        broker.send(targets, m.DropSubscription(subscription.id, version))
        broker.strategy.released(subscription)
        held = broker.held.get(subscription.id)
        if held is not None and held.home == broker.id and held.version <= version:
            broker.forget(subscription.id, version)

    def _go_on(self, client: Client) -> None:
        requests, client.requests = client.requests, []
        for message, sender in requests:
            self.broker.handle_again(message, sender)

    def remember(self, notification: Notification, home: str) -> None:
        """A client is arriving: keep what is matched here, its subscriptions may want it."""
        meanwhile = self.broker.state.meanwhile
        meanwhile[notification.id] = (notification, home)
        if len(meanwhile) > WAITING_MAX:
            del meanwhile[next(iter(meanwhile))]

    def _look_again(self, client: Client) -> None:
        broker = self.broker
        where = next((r.location for r, _ in reversed(client.requests) if isinstance(r, m.Locate)), client.location)
        for notification, home in broker.state.meanwhile.values():
            location = broker.publisher_location(notification)
            for subscription in client.subscriptions.values():
                if (
                    satisfies(subscription, notification, location, where)
                    and (subscription.expires_at_ms is None or subscription.expires_at_ms > notification.published_at_ms)
                    and broker.scopes.visible(notification.scopes, subscription.scopes, notification.attributes)
                    and broker.federation.may_hear(home, broker.id, notification)
                ):
                    broker.deliver(subscription, notification, home)

    def tick(self) -> None:
        broker = self.broker
        for name, moved in list(broker.state.moved.items()):
            if moved.until_ms > broker.now_ms:
                continue
            del broker.state.moved[name]
            for subscription, version, targets in moved.left_behind:
                self._end(subscription, version, targets)
