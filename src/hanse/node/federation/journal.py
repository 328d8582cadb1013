"""What the brokers were told, in order: stored with what it caused, and told to them again after a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from hanse.node.federation import keeping, wire
from hanse.node.federation.keeping import Told, Whole

if TYPE_CHECKING:
    import sqlite3

    from hanse.node.federation.planes import Planes

LENGTH_MAX: Final = 5_000  # after which the state of the brokers is stored whole

log = structlog.get_logger("hanse.federation")


class Journal:
    def __init__(self, planes: Planes, scopes: str) -> None:
        """`scopes`: a digest of the federation's characterisation."""
        self._planes = planes
        self._scopes = scopes
        self._since = 0  # how much was told since the brokers were last stored whole
        self.last = 0

    @property
    def is_long(self) -> bool:
        return self._since >= LENGTH_MAX

    def add(self, plane: int, at_ms: int, sender: str, message: bytes) -> Told:
        self.last += 1
        self._since += 1
        return Told(self.last, plane, at_ms, sender, message)

    def whole(self) -> Whole:
        """The brokers as they are, in the place of all that they were told so far."""
        self._since = 0
        return Whole(self.last, self._planes.dump(), self._scopes)

    def replay(self, connection: sqlite3.Connection) -> int:
        """The brokers as they were when the node ended; gives how much they were told again."""
        planes = self._planes
        whole = keeping.read_whole(connection)
        planes.restore(whole.planes if whole is not None else {})
        if whole is not None and whole.scopes != self._scopes:
            planes.characterise()
        self.last = whole.journal if whole is not None else 0
        told = keeping.read_told(connection, self.last)
        names = tuple(whole.planes) if whole is not None else planes.names  # whose numbers the journal has
        for entry in told:
            self.last = entry.n
            if entry.plane < len(names) and names[entry.plane] in planes.names:
                self._tell_again(planes.names.index(names[entry.plane]), entry)
        self._since = len(told)
        return self._since

    def _tell_again(self, plane: int, entry: Told) -> None:
        try:
            self._planes.brokers[plane].handle(wire.message(entry.message), entry.sender, entry.at_ms)
        except Exception:  # a node that does not start for it would lose more
            log.exception("what a broker was told before the node ended cannot be told again", n=entry.n, sender=entry.sender)
