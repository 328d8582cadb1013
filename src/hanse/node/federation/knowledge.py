"""What every node knows of all: the records that each node signs of itself, and the federation that they make up.

Records spread from node to node; of two the newer one counts, so that all come to know the same, in whatever order they
hear it. A link is there when both of its ends say so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
import structlog
from msgspec import Struct

from hanse.model import InvalidInput
from hanse.node.federation import wire
from hanse.node.federation.identity import Certificate, Identity, NotBelieved
from hanse.node.federation.wire import Record, Signed, Terms
from hanse.routing import Federation, Group, Link, Node, Settings

AHEAD_MS: Final = 86_400_000  # how far a clock may be ahead: a version beyond would never be replaced

log = structlog.get_logger("hanse.federation")


class Known(Struct, frozen=True):
    record: Record
    signed: Signed | None  # None: someone described it beforehand, it has not spoken yet
    certificate: Certificate | None


class Knowledge:
    def __init__(self, node: str, terms: Terms, identity: Identity | None) -> None:
        self.node = node
        self.terms = terms
        self._identity = identity
        self._known: dict[str, Known] = {}

    def sign(self, record: Record) -> Signed:
        data = wire.encode(record)
        return Signed(data, self._identity.sign(data) if self._identity is not None else b"")

    def describe(self, record: Record) -> None:
        """What is expected of a node until it speaks for itself."""
        self._known[record.node] = Known(msgspec.structs.replace(record, version=0), None, None)

    def take(self, signed: Signed, now_ms: int) -> Record | None:
        """Remember a record, if it is news; gives it then. Raises NotBelieved with the reason."""
        record = wire.record(signed.record)
        known = self._known.get(record.node)
        if known is not None and known.record.version >= record.version:
            return None
        if difference := self.terms.difference(record.terms):
            raise NotBelieved(
                f"{record.node!r} does not agree with this node: {difference}; all nodes need the same [federation]"
            )
        if record.version > now_ms + AHEAD_MS:
            raise NotBelieved(f"the record of {record.node!r} is from the future; set its clock")
        if known is None and len(self._known) >= wire.RECORDS_MAX:
            raise NotBelieved(f"there are {wire.RECORDS_MAX} nodes already")
        self._known[record.node] = Known(record, signed, self._certificate(record, signed))
        return record

    def _certificate(self, record: Record, signed: Signed) -> Certificate | None:
        if self._identity is None:
            return None
        certificate = self._identity.believe(record.certificate)
        if (certificate.node, certificate.community) != (record.node, record.community):
            raise NotBelieved(
                f"the record of {record.node!r} of {record.community!r} has the certificate of {certificate.node!r}"
                f" of {certificate.community!r}"
            )
        certificate.verify(signed.record, signed.signature)
        return certificate

    def get(self, node: str) -> Known | None:
        return self._known.get(node)

    def listens(self, node: str) -> tuple[str, ...]:
        """Where a node says that it can be called."""
        known = self._known.get(node)
        return () if known is None else known.record.listen

    def records(self) -> list[Record]:
        return [self._known[node].record for node in sorted(self._known)]

    def versions(self) -> dict[str, int]:
        return {node: known.record.version for node, known in self._known.items() if known.signed is not None}

    def newer_than(self, versions: dict[str, int]) -> list[Signed]:
        spoken = [(node, known) for node, known in self._known.items() if known.signed is not None]
        return [known.signed for node, known in spoken if known.signed and known.record.version > versions.get(node, 0)]

    def lacks(self, versions: dict[str, int]) -> bool:
        """Whether someone who knows these versions has something to tell."""
        own = self.versions()
        return any(version > own.get(node, 0) for node, version in versions.items())

    def federation(self) -> Federation:
        """The nodes within reach of this one, in links that both ends want."""
        records = {record.node: record for record in self.records() if not record.left}
        wanted = {
            (node, other)
            for node, record in records.items()
            for other in record.links
            if other in records and node in records[other].links and other != node
        }
        reached, ring = {self.node}, [self.node]
        while ring:
            ring = [other for node, other in sorted(wanted) if node in ring and other not in reached]
            reached.update(ring)
        nodes = tuple(
            Node(node, location=record.location, community=record.community)
            for node, record in records.items()
            if node in reached
        )
        links = tuple(Link(a, b, records[a].links[b]) for a, b in sorted(wanted) if a in reached)
        return Federation(nodes, links)

    def possible(self, strategies: Iterable[str], before: Federation) -> Federation:
        """The federation as all say; as it was before, if some strategy could not work in that."""
        federation = self.federation()
        try:
            for strategy in strategies:
                self.settings(federation, strategy)
        except InvalidInput as error:
            log.error("the federation cannot be what its nodes say; this one goes on as before", reason=str(error))  # noqa: TRY400
            return before
        return federation

    def settings(self, federation: Federation, strategy: str) -> Settings:
        """Raises InvalidInput if the strategy cannot work in such a federation."""
        terms = self.terms
        groups = (tuple(node for node in group if node in federation.by_id) for group in terms.groups)
        return Settings(
            strategy,
            federation,
            advertise_ids=terms.advertise_ids,
            cloud=terms.cloud or "cloud",
            groups=tuple(Group(group[0], group[1:]) for group in groups if group),
            territories={record.node: record.area for record in self.records() if record.area is not None},
        )
