"""What a federated node stores so that a crash changes nothing: what its brokers handled, what its links owe, and where each
link is.

A broker is a pure function of what it was told. So its state is stored whole from time to time, and in between only what it
was told since; after a crash it is told that again, and what it then wants done has been done already.
"""

from __future__ import annotations

import sqlite3

import msgspec
from msgspec import Struct, field

from hanse.node.store import Writer
from hanse.routing.link import LinkState

WHOLE = "federation"  # the kind of document that has the state of the brokers


class Told(Struct, frozen=True, array_like=True):
    """Something that a broker has handled; no sender: a request of a client."""

    n: int
    plane: int
    at_ms: int
    sender: str
    message: bytes


class Owed(Struct, array_like=True):
    """A message in the outbox of a link. `keep`: nobody could say it again."""

    n: int
    peer: str
    keep: bool
    message: bytes


class LinkNumbers(Struct, frozen=True, array_like=True):
    """Where a link is: all of its state but the messages."""

    session: int
    first: int
    peer_session: int
    received: int
    overflowed: bool


class Whole(Struct, frozen=True):
    """The state of all brokers, and the last thing in the journal that it has in it."""

    journal: int
    planes: dict[str, bytes]
    scopes: str = ""  # the digest of the characterisation that they knew


class _Until(Struct):
    """Of what is whole: how much of the journal it has."""

    journal: int


class SaveFederation(Struct):
    """All that one handled message changes, in one transaction with whatever else it causes.

    It builds on all that was saved before. If that was refused, so is this: a link would acknowledge what nobody remembers.
    """

    told: list[Told] = field(default_factory=list)
    owed: list[Owed] = field(default_factory=list)
    revised: list[Owed] = field(default_factory=list)  # of what was owed: something else is
    settled: list[int] = field(default_factory=list)  # of what was owed
    links: dict[str, LinkNumbers] = field(default_factory=dict)
    whole: Whole | None = None
    journal: int | None = None  # the last thing that the brokers had been told by then

    @property
    def is_empty(self) -> bool:
        return not (self.told or self.owed or self.revised or self.settled or self.links or self.whole)

    def apply(self, connection: Writer, /) -> None:
        if self.journal is not None and self.journal != _last_told(connection) + len(self.told):
            raise ValueError("something that the brokers were told before is not stored, so this cannot be either")
        if self.told:
            rows = [(t.n, t.plane, t.at_ms, t.sender, t.message) for t in self.told]
            connection.executemany("INSERT INTO broker_journal(n, plane, at_ms, sender, message) VALUES (?, ?, ?, ?, ?)", rows)
        if self.owed:
            connection.executemany(
                "INSERT INTO link_outbox(n, peer, keep, message) VALUES (?, ?, ?, ?)",
                [(o.n, o.peer, o.keep, o.message) for o in self.owed],
            )
        if self.revised:
            rows_of = [(o.message, o.n) for o in self.revised]
            connection.executemany("UPDATE link_outbox SET message = ? WHERE n = ?", rows_of)
        if self.settled:
            connection.executemany("DELETE FROM link_outbox WHERE n = ?", [(n,) for n in self.settled])
        if self.links:
            connection.executemany(
                "INSERT INTO links(peer, state) VALUES (?, ?) ON CONFLICT(peer) DO UPDATE SET state = excluded.state",
                [(peer, msgspec.msgpack.encode(numbers)) for peer, numbers in self.links.items()],
            )
        if self.whole is not None:
            connection.execute(
                """INSERT INTO documents(kind, id, data) VALUES (?, '', ?)
                ON CONFLICT(kind, id) DO UPDATE SET data = excluded.data""",
                (WHOLE, msgspec.msgpack.encode(self.whole)),
            )
            connection.execute("DELETE FROM broker_journal WHERE n <= ?", (self.whole.journal,))


def _last_told(connection: Writer) -> int:
    (last,) = connection.execute("SELECT max(n) FROM broker_journal").fetchone()
    if last is None:  # all of it is in what was stored whole
        row = connection.execute("SELECT data FROM documents WHERE kind = ? AND id = ''", (WHOLE,)).fetchone()
        last = msgspec.msgpack.decode(row[0], type=_Until).journal if row else 0
    return int(last)


def numbers(state: LinkState) -> LinkNumbers:
    return LinkNumbers(state.session, state.first, state.peer_session, state.received, state.overflowed)


def read_whole(connection: sqlite3.Connection) -> Whole | None:
    row = connection.execute("SELECT data FROM documents WHERE kind = ? AND id = ''", (WHOLE,)).fetchone()
    return msgspec.msgpack.decode(row[0], type=Whole) if row else None


def read_told(connection: sqlite3.Connection, after: int) -> list[Told]:
    rows = connection.execute("SELECT n, plane, at_ms, sender, message FROM broker_journal WHERE n > ? ORDER BY n", (after,))
    return [Told(*row) for row in rows]


def read_owed(connection: sqlite3.Connection) -> list[Owed]:
    rows = connection.execute("SELECT n, peer, keep, message FROM link_outbox ORDER BY n")
    return [Owed(n, peer, bool(keep), bytes(message)) for n, peer, keep, message in rows]


def read_links(connection: sqlite3.Connection) -> dict[str, LinkNumbers]:
    rows = connection.execute("SELECT peer, state FROM links")
    return {peer: msgspec.msgpack.decode(state, type=LinkNumbers) for peer, state in rows}
