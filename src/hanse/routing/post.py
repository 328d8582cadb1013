"""Getting messages to other brokers, wherever they are.

The way between two brokers is the same always, so that what one says to another arrives in order. What export rules restrict
goes only along links that let it pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.routing import messages as m
from hanse.routing.federation import way

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
        """What export rules leave of it for a broker."""
        if self._strips:
            return self.federation.exported(source, target, notification)
        return notification if self.federation.may_hear(source, target, notification) else None

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
