"""Names of clients: those that every node gives to its own, as to NGSI-LD's subscriptions, are told apart by the node's name."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from hanse.ngsild.subscriptions import CLIENT
from hanse.node.registrations import CLIENT as SOURCE
from hanse.routing import messages as m

OWN: Final = CLIENT, SOURCE
NODE: Final = "urn:hanse:node:"  # and the name of a node: who tells of its entities


class Names:
    def __init__(self, node: str) -> None:
        self._suffix = f"@{node}"

    def outside(self, request: Any) -> Any:
        """A request as the federation knows its client."""
        if isinstance(request, (m.Subscribe, m.Advertise)):
            (member,) = request.__struct_fields__
            inner = getattr(request, member)
            if inner.client.startswith(OWN):
                return type(request)(msgspec.structs.replace(inner, client=inner.client + self._suffix))
        elif getattr(request, "client", "").startswith(OWN):
            return msgspec.structs.replace(request, client=request.client + self._suffix)
        return request

    def inside(self, effect: Any) -> Any:
        """An effect as this node knows the client that it is for."""
        if type(effect) in (m.Deliver, m.Reject, m.Dropped) and effect.client.startswith(OWN):
            return msgspec.structs.replace(effect, client=self.local(effect.client))
        return effect

    def local(self, client: str) -> str:
        return client.removesuffix(self._suffix) if client.startswith(OWN) else client


def forged(message: Any) -> str:
    """Why a message of another broker is not honest: such clients never leave their node, and only it tells of its entities."""
    if isinstance(message, (m.HandoverRequest, m.Handover)):
        return f"{message.client!r} never moves" if message.client.startswith((*OWN, NODE)) else ""
    client, home = "", str(getattr(message, "home", ""))
    if isinstance(message, m.PutSubscription):
        client = message.subscription.client
    elif isinstance(message, (m.ClientLocation, m.Guest)):
        client = message.client
    elif isinstance(message, (m.Event, m.RestrictedEvent, m.Delivery, m.Waited)):
        client = message.notification.publisher
    if (client.startswith(OWN) and not client.endswith(f"@{home}")) or (client.startswith(NODE) and client != NODE + home):
        return f"{client!r} is no client of {home!r}"
    return ""
