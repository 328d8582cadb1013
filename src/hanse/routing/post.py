"""Getting messages to other brokers, wherever they are.

The way between two brokers is the same always, so that what one says to another arrives in order. What export rules restrict
goes only along links that let it pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.routing import messages as m
from hanse.routing.federation import export_types

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hanse.model import Notification
    from hanse.routing.broker import Broker


class Post:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.id = broker.id
        self.federation = broker.federation
        self._mesh = broker.federation.is_mesh

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

    def send_data(self, target: str, message: m.BrokerMessage, notification: Notification) -> bool:
        """To one broker, along links whose export rules let the notification pass; False where there is no such way."""
        types = export_types(notification)
        if self.federation.is_open_to(types, notification.entity):
            self.send((target,), message)
            return True
        parents = self.federation.audience(self.id, types, notification.entity)
        if target not in parents:
            return False
        route = [target]
        while parents[route[-1]] != self.id:
            route.append(parents[route[-1]])
        route.reverse()
        self.broker.effects.append(m.Send((route[0],), message if len(route) == 1 else m.Routed(self.id, tuple(route), message)))
        return True

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
