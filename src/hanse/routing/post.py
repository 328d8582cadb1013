"""Getting messages to other brokers, wherever they are.

The way between two brokers is the same always, so that what one says to another arrives in order. What export rules restrict
goes only along links that let it pass; what a policy restricts goes from the publisher's broker to the one that it is for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.routing import messages as m
from hanse.routing.federation import way
from hanse.routing.policy import alone
from hanse.routing.settings import FORWARDS_MAX
from hanse.routing.state import client_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hanse.model import Notification
    from hanse.routing.broker import Broker


class Post:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.id = broker.id
        self.federation = broker.federation
        self._mesh = broker.federation.is_mesh
        self._strips = "export-attributes" not in broker.settings.ablations

    def send(self, targets: Sequence[str], message: m.BrokerMessage) -> None:
        """To other brokers wherever they are; one copy on each link, however many of them lie behind it."""
        if not targets:
            return
        if self._mesh:
            self.broker.effects.append(m.Send(tuple(targets), message))
            return
        self._forward(self.id, targets, message)

    def _forward(self, source: str, targets: Iterable[str], message: m.BrokerMessage) -> None:
        behind: dict[str, list[str]] = {}
        for target in targets:
            behind.setdefault(self.federation.next_hop(self.id, target), []).append(target)
        for hop, destinations in behind.items():
            if destinations == [hop] and source == self.id:
                self.broker.effects.append(m.Send((hop,), message))
            else:
                self.broker.effects.append(m.Send((hop,), m.Relay(source, tuple(destinations), message)))

    def send_data(
        self, target: str, notification: Notification, home: str, message: Callable[[Notification], m.BrokerMessage]
    ) -> bool:
        """To one broker, along links whose export rules let the notification pass, a message with what it may see of it.

        False where there is no such way, or where something was taken out before that it may see: then `home` has to send it.
        """
        federation = self.federation
        if notification.only_for:
            return False
        if home == self.id and self.broker.owner.keeps(notification):
            private = self.exported(home, target, notification)
            if private is None:
                return False
            self.send((target,), message(alone(private, target)))
            return True
        if federation.is_open_to(notification):
            self.send((target,), message(notification))
            return True
        parents = federation.audience(self.id, notification)
        view = self.exported(home, target, notification)
        if target not in parents or view is None or not federation.is_all_for(home, self.id, target, notification):
            return False
        route = tuple(node for _, node in way(parents, target))
        sent = message(view)
        self.broker.effects.append(m.Send((route[0],), sent if len(route) == 1 else m.Routed(self.id, route, sent)))
        return True

    def exported(self, source: str, target: str, notification: Notification) -> Notification | None:
        """What is left of it for a broker: by the policy, where it was published here, and then by export rules."""
        if source == self.id:
            allowed = self.broker.owner.view(target, notification)
            if allowed is None:
                return None
            notification = allowed
        if self._strips:
            return self.federation.exported(source, target, notification)
        return notification if self.federation.may_hear(source, target, notification) else None

    def is_free(self, notification: Notification, home: str) -> bool:
        """Whether it may take any way: neither export rules nor, as far as is known here, a policy keep any of it from anyone."""
        if notification.only_for or not self.federation.is_open_to(notification):
            return False
        return home != self.id or not self.broker.owner.restricts(notification)

    # --- after clients that have gone ---------------------------------------------------------------------------------

    def forward_delivery(
        self,
        there: str,
        notification: Notification,
        ids: tuple[str, ...],
        home: str,
        forwards: int = 0,
        *,
        recalled: bool = False,
    ) -> None:
        """To where the subscribers have gone; if it may not go there from here, the publisher's broker does it."""
        if forwards >= FORWARDS_MAX:  # two former homes that each believe the other: what they look for has ended
            return
        sent = self.send_data(there, notification, home, lambda view: m.Delivery(view, ids, home, recalled, forwards + 1))
        if not sent and home != self.id:
            self.send((home,), m.Redirect(notification.key, ids, there, recalled=recalled, forwards=forwards))

    def redirect(self, redirect: m.Redirect, _sender: str) -> None:
        broker = self.broker
        notification = broker.state.restricted.get(redirect.notification)
        if notification is None:
            return
        ids, to, recalled, forwards = redirect.subscriptions, redirect.to, redirect.recalled, redirect.forwards + 1
        if redirect.waited:
            for id_ in ids:
                broker.handovers.send_waited(to, m.Waited(client_of(id_), id_, notification, self.id))
        elif to == self.id:
            broker.take_delivery(m.Delivery(notification, ids, self.id, recalled, forwards), "")
        else:
            self.send_data(to, notification, self.id, lambda view: m.Delivery(view, ids, self.id, recalled, forwards))

    # --- hop by hop ---------------------------------------------------------------------------------------------------

    def spread(self, event: m.RestrictedEvent) -> None:
        """To the neighbours that come next on the ways that export rules leave open, each with what may cross the link to it."""
        notification, federation = event.notification, self.federation
        parents = federation.audience(event.home, notification)
        children = tuple(node for node, parent in parents.items() if parent == self.id and node != self.id)
        if not federation.hides_attributes or not self._strips:
            if children:
                self.broker.effects.append(m.Send(children, event))
            return
        for child in children:
            view = federation.rule[self.id, child].stripped(notification)
            self.broker.effects.append(m.Send((child,), m.RestrictedEvent(view, event.home)))

    def relay(self, relay: m.Relay, _sender: str) -> None:
        others = relay.destinations
        if self.id in others:
            others = tuple(node for node in others if node != self.id)
            self.broker.handle_again(relay.message, relay.source)
        if others:
            self._forward(relay.source, others, relay.message)

    def routed(self, routed: m.Routed, _sender: str) -> None:
        if len(routed.route) <= 1:
            self.broker.handle_again(routed.message, routed.source)
        else:
            rest = routed.route[1:]
            self.broker.effects.append(m.Send((rest[0],), m.Routed(routed.source, rest, routed.message)))
