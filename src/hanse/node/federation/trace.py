"""What this node did with a notification: for whoever asks why it came, or did not. The latest are remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from hanse.node.router import now_ms
from hanse.routing import messages as m
from hanse.routing.messages import innermost
from hanse.routing.recent import remember

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hanse.model import Notification

KEPT: Final = 5_000
STEPS_MAX: Final = 64


class Step(Struct, frozen=True, omit_defaults=True):
    """One thing that a node did."""

    node: str
    at_ms: int
    did: str  # published, heard, sent, delivered, stopped, dropped; by the node's policy: withheld, or shown in part (reduced)
    other: str = ""  # from or to whom
    how: str = ""  # by which message, or why


class Traces:
    def __init__(self, node: str) -> None:
        self._node = node
        self._steps: dict[tuple[str, str], list[Step]] = {}
        self._kept: dict[tuple[str, str], Notification] = {}

    def of(self, key: tuple[str, str]) -> list[Step]:
        return list(self._steps.get(key, ()))

    def notification(self, key: tuple[str, str]) -> Notification | None:
        return self._kept.get(key)

    def recent(self, limit: int = 50) -> list[Notification]:
        return list(self._kept.values())[-limit:]

    def came(self, message: Any, sender: str) -> None:
        inner = innermost(message)
        notification = getattr(inner, "notification", None)
        if notification is not None and not isinstance(notification, tuple):
            if sender:
                self._add(notification, "heard", sender, type(inner).__name__)
            else:
                self._add(notification, "published", notification.publisher)

    def kept_back(self, notification: Notification, views: Mapping[str, Notification | None]) -> None:
        """What the node's policy keeps from others of what is published here. Which policies do, is said when it is asked for."""
        for node, view in views.items():
            if view is not notification and view != notification:
                self._add(notification, "withheld" if view is None else "reduced", node)

    def done(self, effects: Iterable[m.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, m.Deliver):
                self._add(effect.notification, "delivered", effect.client, effect.subscription)
            elif isinstance(effect, m.Dropped):
                self._add(effect.notification, "dropped", effect.client, effect.reason)

    def sent(self, message: Any, to: tuple[str, ...]) -> None:
        inner = innermost(message)
        notification = getattr(inner, "notification", None)
        if notification is not None and not isinstance(notification, tuple):
            for peer in to:
                self._add(notification, "sent", peer, type(inner).__name__)

    def stopped(self, message: Any, sender: str, reason: str) -> None:
        notification = getattr(innermost(message), "notification", None)
        if notification is not None and not isinstance(notification, tuple):
            self._add(notification, "stopped", sender, reason)

    def _add(self, notification: Notification, did: str, other: str, how: str = "") -> None:
        key = notification.key
        steps = self._steps.get(key)
        if steps is None:
            steps = []
            remember(self._steps, key, steps, KEPT)
            remember(self._kept, key, notification, KEPT)
        if len(steps) < STEPS_MAX:
            steps.append(Step(self._node, now_ms(), did, other, how))
