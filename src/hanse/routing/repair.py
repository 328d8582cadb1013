"""Repair after a long cut: what was told to another broker is compared by digest, and only the difference is sent again.

A link whose bounded outbox overflowed has lost messages. Once it works again its broker asks everyone to resync. Each broker
then sends a digest to all that it has told something; where a digest differs, the receiver answers with what it holds, and
the sender puts right what is missing, old or no longer true. A notification that was lost cannot be repaired here: the link
reports it.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from hanse.routing import messages as m

if TYPE_CHECKING:
    from hanse.routing.broker import Broker


def digest_of(items: dict[str, str]) -> str:
    digest = blake2b(digest_size=16)
    for key in sorted(items):
        digest.update(f"{key}\n{items[key]}\n".encode())
    return digest.hexdigest()


class Repair:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def resync(self, resync: m.Resync, sender: str) -> None:
        broker = self.broker
        if not sender:
            broker.strategy.settle()
            broker.send(broker.federation.others[broker.id], resync)
        for news in broker.state.borders.values():
            broker.send(broker.federation.others[broker.id], news)
        told = broker.strategy.told()
        for other in broker.strategy.peers():
            broker.send((other,), m.Digest(digest_of({key: version for key, (version, _) in told.get(other, {}).items()})))

    def digest(self, digest: m.Digest, sender: str) -> None:
        held = self.broker.strategy.heard(sender)
        if digest_of(held) != digest.value:
            self.broker.send((sender,), m.DigestDiffers(held))

    def differs(self, differs: m.DigestDiffers, sender: str) -> None:
        broker = self.broker
        told = broker.strategy.told().get(sender, {})
        for key in differs.held.keys() - told.keys():
            broker.strategy.untell(sender, key, differs.held[key])
        for key, (version, message) in told.items():
            if differs.held.get(key) != version:
                broker.send((sender,), message)
