"""What a node does not believe: what cannot honestly come from there, by the description of the federation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hanse.node.federation.names import forged
from hanse.node.router import now_ms
from hanse.routing import messages as m
from hanse.routing.guard import Guard
from hanse.routing.messages import innermost

if TYPE_CHECKING:
    from collections.abc import Callable

    from hanse.routing import Broker, Settings

FORMER_MS: Final = 60_000  # how long what was honest before the federation changed is still believed


class Guards:
    """One for each plane: what can honestly be said depends on the strategy."""

    def __init__(self, node: str, settings: Callable[[str], Settings], brokers: list[Broker]) -> None:
        self._node = node
        self._settings = settings
        self._former: list[Guard] = []
        self._former_until_ms = 0
        self._guards: list[Guard] = []
        self.renew(brokers)

    def renew(self, brokers: list[Broker]) -> None:
        """The federation has changed. What was honest before is still on its way."""
        self._former, self._former_until_ms = self._guards, now_ms() + FORMER_MS
        self._guards = [Guard(self._settings(broker.settings.strategy), broker.scopes) for broker in brokers]
        self._federation = brokers[0].federation

    def refusal(self, plane: int, message: m.BrokerMessage, sender: str) -> str:
        """Why a message cannot be honest; nothing, if it can. One from further away is judged as if it came along the way."""
        if reason := forged(innermost(message)):
            return reason
        if sender not in self._federation.neighbours[self._node]:
            message, sender = m.Relay(sender, (self._node,), message), self._last_hop(sender)
        reason = self._guards[plane].refusal(message, sender, self._node)
        if reason and plane < len(self._former) and now_ms() < self._former_until_ms:
            return reason if self._former[plane].refusal(message, sender, self._node) else ""
        return reason

    def _last_hop(self, source: str) -> str:
        """The neighbour over which what a node further away says comes here."""
        while (after := self._federation.next_hop(source, self._node)) != self._node:
            source = after
        return source
