"""A node's own policy: what other nodes may see of what is published there.

Nobody but that node knows its policy, so nobody else can decide for it, and nothing that it forbids may leave. A notification
of which some node may see less than all does not take its strategy's way. For each other node its view is made at home, marked as
that node's alone (`only_for`) and sent straight there, to be matched for that node's own clients, whose filters so see no more
than their community may. Whoever comes between could not read it (a live node enciphers it for the one whom it is for). A node
never passes on what was made for it: where its client has gone another view may be due, which only the publisher's node can make.

First comes the policy, for the subscriber's node; what it leaves goes under the export rules of the links to there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from hanse.routing import messages as m

if TYPE_CHECKING:
    from hanse.model import Notification, Subscription
    from hanse.routing.broker import Broker


class Policy(Protocol):
    """What each other node may see.

    Types, topic, id, scopes and geofence of a notification stay as they are, since they lead to it. Of its quality things may be
    taken out, but not changed: what is advertised of it must stay true.
    """

    def view(self, target: str, notification: Notification) -> Notification | None:
        """What a node may see of it now: the same one if that is all of it; None: nothing."""

    def why(self, target: str, notification: Notification) -> str:
        """What in the policy decides so, in words; empty if the node may see all of it."""


class Owner:
    """A broker as the home of what is published at it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._judged: tuple[object, Notification, dict[str, Notification | None], bool] | None = None

    def _views(self, notification: Notification) -> tuple[dict[str, Notification | None], bool]:
        """What each other node may see by the policy, and whether that is less than all for some.

        The policy is asked once while one message is handled, however often this is.
        """
        broker = self.broker
        assert broker.policy is not None
        judged = self._judged
        if judged is not None and judged[0] is broker.effects and judged[1] is notification:
            return judged[2], judged[3]
        views = {node: broker.policy.view(node, notification) for node in broker.federation.others[broker.id]}
        less = any(view is not notification and view != notification for view in views.values())
        self._judged = (broker.effects, notification, views, less)
        return views, less

    @property
    def judged(self) -> tuple[Notification, dict[str, Notification | None]] | None:
        """What was last published here under the policy, and what each other node may see of it."""
        return self._judged[1:3] if self._judged is not None and self._judged[3] else None

    def restricts(self, notification: Notification) -> bool:
        """Whether some other node may see less than all of what is published here."""
        return self.broker.policy is not None and self._views(notification)[1]

    def keeps(self, notification: Notification) -> bool:
        """Whether views of it are made for each node: it is restricted, or was when it was published."""
        broker = self.broker
        if broker.policy is None:
            return False
        was = notification.key in broker.state.restricted and broker.federation.is_open_to(notification)
        return was or self.restricts(notification)

    def view(self, target: str, notification: Notification) -> Notification | None:
        if self.broker.policy is None or target == self.broker.id:
            return notification
        return self._views(notification)[0][target]

    def publish(self, notification: Notification) -> None:
        """Something that is not for everyone: to each node that may see something of it, what that is."""
        broker = self.broker
        if broker.strategy.matches_at_home:
            broker.strategy.published(notification)
            return
        broker.deliver_here(notification, broker.id)
        for node in broker.settings.served:
            view = broker.exported(broker.id, node, notification) if node != broker.id else None
            if view is not None:
                broker.send((node,), m.RestrictedEvent(alone(view, node), broker.id))

    def match(self, notification: Notification, home: str) -> list[Subscription]:
        """Match for all: each home's subscriptions go by what that home may see, so that no filter finds out more."""
        broker, federation = self.broker, self.broker.federation
        if home == broker.id and self.restricts(notification):
            nodes = federation.ids
        elif federation.hides_attributes:
            nodes = tuple(federation.audience(home, notification))
        else:
            return broker.match(notification)
        views: list[tuple[Notification, set[str]]] = []
        for node in nodes:
            view = broker.exported(home, node, notification)
            if view is not None:
                same = next((seen_by for known, seen_by in views if known == view), None)
                if same is None:
                    views.append((view, {node}))
                else:
                    same.add(node)
        return [s for view, seen_by in views for s in broker.match(view) if broker.held[s.id].home in seen_by]


def alone(view: Notification, node: str) -> Notification:
    return msgspec.structs.replace(view, only_for=node)
