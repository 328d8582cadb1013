"""Policies between nodes, if this node has any: the brokers obey them, and what waits to be sent obeys them, too.

Policies may change at any time, and overrides begin and end. What is published is judged by those of that moment. What is still
in the outbox of a link then is looked at again before it is sent again; and so it is when a node says that it is of another
community.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from hanse.node.federation import wire
from hanse.node.federation.joining import NOTHING
from hanse.routing import messages as m
from hanse.routing.messages import innermost
from hanse.routing.policy import alone

if TYPE_CHECKING:
    from hanse.model import Notification
    from hanse.node.federation.host import Host
    from hanse.node.federation.node_policy import NodePolicy
    from hanse.node.store import Store


class Communities:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._seen: tuple[object, object] | None = None  # policies and federation when outboxes were last looked at
        self.policy: NodePolicy | None = None
        access = host.tenant.access
        if access is not None:
            from hanse.node.federation.node_policy import NodePolicy  # slow to load, and needed only for this

            self.policy = NodePolicy(host, access)
            host.planes.obey(self.policy)
            access.on_change.append(self.look)

    def store(self, node: str) -> Store:
        """What is kept here, as far as policies let another node see it."""
        return self._host.tenant.store if self.policy is None else self.policy.store(node)

    def handled(self, plane: int, message: m.Message) -> None:
        """A broker has handled something: if it was published here, what was kept from whom is remembered."""
        if type(message) is m.Publish and self.policy is not None:
            judged = self._host.planes.brokers[plane].owner.judged
            if judged is not None and judged[0].key == message.notification.key:
                self._host.traces.kept_back(*judged)

    def why(self, node: str, notification: Notification) -> str:
        """Which policies have kept something from a node, as far as it is due to those that there are now."""
        words = self.policy.why(node, notification) if self.policy is not None else ""
        return words or "policies have changed since"

    def seen_by(self, node: str, notification: Notification) -> Notification | None:
        """What a node may see, now, of what is published here."""
        allowed = notification if self.policy is None else self.policy.view(node, notification)
        return None if allowed is None else self._host.federation.exported(self._host.node, node, allowed)

    # --- what waits ---------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """If policies have changed, or who is of which community: what waits for others goes as it may now, or not at all."""
        if self.policy is None:
            return
        now = self.policy.policies, self._host.federation
        if self._seen is None or self._seen[0] is not now[0] or self._seen[1] is not now[1]:
            self._seen = now
            for peer in self._host.links.waiting():
                self._host.links.revise(peer, partial(self._revised, peer))

    def _revised(self, peer: str, data: bytes) -> bytes:
        envelope = wire.envelope(data)
        message = self._allowed(peer, envelope.message)
        return data if message is envelope.message else wire.encode(msgspec.structs.replace(envelope, message=message))

    def _allowed(self, peer: str, message: m.BrokerMessage) -> m.BrokerMessage:
        """A message as it may go to a neighbour: one that was published here, as the neighbour may see it; or nothing.

        What was on its way to others through the neighbour is lost then: nobody has allowed it to be read on the way.
        """
        assert self.policy is not None
        here, inner = self._host.node, innermost(message)
        if isinstance(inner, m.Handover):
            waiting = tuple(item for item in inner.waiting if item[2] != here or self.policy.view(peer, item[1]) == item[1])
            return message if len(waiting) == len(inner.waiting) else msgspec.structs.replace(inner, waiting=waiting)
        if not isinstance(inner, m.Event | m.RestrictedEvent | m.Delivery | m.Waited) or inner.home != here:
            return message
        n = inner.notification
        readers = message.route if isinstance(message, m.Routed) else (peer,)
        views = [self.policy.view(node, n) for node in readers]
        if all(view == n for view in views):
            return message
        (view, *others) = views
        if others or view is None:
            return NOTHING
        if isinstance(inner, m.Event):
            return m.RestrictedEvent(alone(view, peer), here)
        return msgspec.structs.replace(inner, notification=alone(view, peer))
