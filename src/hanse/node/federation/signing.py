"""Advertisements that their providers have signed: whoever passes one on can neither make it up nor change it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hanse.node.federation import wire
from hanse.node.federation.identity import NotBelieved
from hanse.routing import messages as m

if TYPE_CHECKING:
    from hanse.node.federation.identity import Identity
    from hanse.node.federation.knowledge import Knowledge


class Signing:
    def __init__(self, knowledge: Knowledge, identity: Identity | None) -> None:
        self._knowledge = knowledge
        self._identity = identity

    def signed(self, message: m.BrokerMessage) -> m.BrokerMessage:
        """As it leaves this node: an advertisement of its own with its signature, everything else as it is."""
        if type(message) is not m.PutAdvertisement or self._identity is None or message.provider != self._knowledge.node:
            return message
        return msgspec.structs.replace(message, signature=self._identity.sign(self._said(message)))

    def is_believed(self, message: m.BrokerMessage) -> bool:
        """Raises NotBelieved if it is an advertisement that its provider has not signed.

        False: the provider has not said yet who it is, so nobody can tell. Once it has, all is compared (`Host`), and the
        advertisement comes again.
        """
        if type(message) is not m.PutAdvertisement or self._identity is None:
            return True
        known = self._knowledge.get(message.provider)
        if known is None or known.certificate is None:
            return False
        try:
            known.certificate.verify(self._said(message), message.signature)
        except NotBelieved as error:
            raise NotBelieved(f"an offer in the name of {message.provider!r}: {error}") from None
        return True

    def _said(self, put: m.PutAdvertisement) -> bytes:
        return wire.encode((self._knowledge.terms.federation, put.provider, put.offer, put.version, put.guarantees))
