"""Links as they are steered at run time: joined, left, and under other export rules than the configuration says.

What someone has said of a link is a document of the store, so that a node that starts again goes on with it. It counts for
more than the configuration: a link that was taken away stays away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from hanse.model import InvalidInput
from hanse.node.federation import wire
from hanse.node.store import DeleteDocument, PutDocument
from hanse.routing import ExportRule
from hanse.routing import messages as m
from hanse.routing.export import export_types

if TYPE_CHECKING:
    from hanse.node.federation.description import Description
    from hanse.node.federation.wire import Record
    from hanse.node.store import Store, Write

KIND: Final = "federation-link"
SAID_MAX: Final = 1_000
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
NOTHING: Final = m.Outdated("", 0)  # of no subscription: whoever hears it does nothing


class Said(Struct, frozen=True, omit_defaults=True):
    """Of the link to a node, or to whoever listens at an address. No rule: there is no such link."""

    to: str = ""
    node: str = ""
    rule: ExportRule | None = None

    @property
    def key(self) -> str:
        return self.node or self.to


class Joining:
    def __init__(self, description: Description) -> None:
        self._description = description
        self._said: dict[str, Said] = {}

    def restore(self, store: Store) -> None:
        self._said = {key: msgspec.json.decode(data, type=Said) for key, data in store.documents(KIND)}

    # --- what follows from it -----------------------------------------------------------------------------------------

    def links(self, records: list[Record]) -> dict[str, ExportRule]:
        """The links that this node wants, given who has said which addresses are its own."""
        links = dict(self._description.own().links)
        for record in records:
            rule = self._description.awaited(record)
            if rule is not None:
                links.setdefault(record.node, rule)
            for said in self._said.values():
                if not said.node and said.rule is not None and said.to in record.listen:
                    links[record.node] = said.rule
        for said in self._said.values():
            if said.node and said.rule is not None:
                links[said.node] = said.rule
            elif said.node:
                links.pop(said.node, None)
        links.pop(self._description.own().node, None)
        return links

    def addresses(self, records: list[Record]) -> list[str]:
        """Where to call: nobody that there is no link to any more."""
        gone = {said.node for said in self._said.values() if said.rule is None}
        theirs = {address for record in records if record.node in gone for address in record.listen}
        called = [*self._description.connect(), *(said.to for said in self._said.values() if said.to and said.rule is not None)]
        return [address for address in dict.fromkeys(called) if address not in theirs]

    # --- saying it ----------------------------------------------------------------------------------------------------

    def join(self, to: str, node: str, rule: ExportRule) -> list[Write]:
        said = Said(to, node, rule)
        if said.key not in self._said and len(self._said) >= SAID_MAX:
            raise InvalidInput(f"{SAID_MAX} links have been joined or left at run time already; put some into the configuration")
        return self._say(said)

    def change(self, node: str, rule: ExportRule) -> list[Write]:
        known = self._said.get(node)
        return self.join(known.to if known is not None else "", node, rule)

    def leave(self, node: str, addresses: tuple[str, ...]) -> list[Write]:
        """Also what was said of whoever listens at these addresses, which are the node's."""
        writes: list[Write] = []
        for key, said in list(self._said.items()):
            if not said.node and said.to in addresses:
                del self._said[key]
                writes.append(DeleteDocument(KIND, key))
        return writes + self._say(Said("", node, None))

    def _say(self, said: Said) -> list[Write]:
        self._said[said.key] = said
        return [PutDocument(KIND, said.key, msgspec.json.encode(said))]


def under_rule(data: bytes, rule: ExportRule) -> bytes:
    """What waits for a neighbour as it may go there under a new rule: a notification without what is hidden now, or none of it.

    In its place goes something harmless, because the numbers of what waits are given already.
    """
    envelope = wire.envelope(data)
    message = _revised(envelope.message, rule)
    return data if message is envelope.message else wire.encode(msgspec.structs.replace(envelope, message=message))


def _revised(message: m.BrokerMessage, rule: ExportRule) -> m.BrokerMessage:
    if isinstance(message, m.Relay | m.Routed):
        inner = _revised(message.message, rule)
        if inner is message.message:
            return message
        return inner if inner is NOTHING else msgspec.structs.replace(message, message=inner)
    if isinstance(message, m.PutAdvertisement):
        name = message.offer.type or message.offer.topic
        return NOTHING if name is not None and not rule.allows_type(name) else message
    if not isinstance(message, m.Event | m.RestrictedEvent | m.Delivery | m.Waited):
        return message
    told = message.notification
    if not rule.allows(export_types(told), told.entity) or not rule.admits(told):
        return NOTHING
    left = rule.stripped(told)
    return message if left is told else msgspec.structs.replace(message, notification=left)


def check_address(address: str, *, is_secure: bool) -> None:
    """Raises InvalidInput unless a link may go there."""
    protocol, slash, place = address.partition("/")
    host, _, port = place.rpartition(":")
    if protocol not in ("tcp", "tls") or not slash or not host or not (port.isascii() and port.isdigit()):
        raise InvalidInput(f"{address[:100]!r} is no address of a node; write tls/host:port, or tcp/127.0.0.1:port")
    if protocol == "tls" and not is_secure:
        raise InvalidInput("tls needs certificate, key and trust; `hanse federation init` makes them", place=address)
    if protocol == "tcp" and host not in LOOPBACK:
        remedy = "take tls" if is_secure else "`hanse federation init` makes some"
        raise InvalidInput(f"without certificates links stay on this machine; {remedy}", place=address)
