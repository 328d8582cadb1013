"""Changes of entities, gathered over a batch and written table by table.

One statement run over many rows in order costs a fraction of the same rows one statement at a time, and what a batch does and
undoes again costs nothing. So a change is first staged: it says what its rows become. `Writer.flush` writes them all, in the
transaction of the batch. Whatever reads these tables through the writer, or writes them directly, flushes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from hanse.node.store.filing import FactKey, write_facts
from hanse.node.store.inserting import Insert, Row

if TYPE_CHECKING:
    import sqlite3

    from hanse.node.store.connection import Writer

# ruff: noqa: S608  only our own words are put into statements; what others wrote is bound

# what stands for None in a row that is inserted: binding None costs more than the rest of the row. None may be given all the same
NEVER: Final = -(1 << 62)
NO_TEXT: Final = ""


_NUMBER: Final = f"nullif(?, {NEVER})"
_TEXT: Final = f"nullif(?, '{NO_TEXT}')"

_DELETE: Final = "DELETE FROM entities WHERE n = ?"
_CREATE: Final = Insert(
    "entities(n, id, type_set, created_at, modified_at, expires_us, document)", f"(?, ?, ?, ?, ?, {_NUMBER}, ?)"
)
_UPDATE: Final = f"UPDATE entities SET modified_at = ?, expires_us = {_NUMBER}, document = ? WHERE n = ?"
_RETYPE: Final = "UPDATE entities SET type_set = ? WHERE n = ?"
_DROP_PLACE: Final = "DELETE FROM places WHERE id = ?"
_ADD_PLACE: Final = "INSERT INTO places VALUES (?, ?, ?, ?, ?, ?, ?)"
_DROP_SCOPE: Final = "DELETE FROM scopes WHERE scope = ? AND entity = ?"
_ADD_SCOPE: Final = "INSERT OR IGNORE INTO scopes VALUES (?, ?)"
_END_PAST: Final = "UPDATE temporal_entities SET deleted_us = ? WHERE id = ?"
_PUT_PAST: Final = Insert(
    "temporal_entities(n, id, types, scopes, created_us, modified_us)",
    "(?, ?, ?, ?, ?, ?)",
    """ON CONFLICT(id) DO UPDATE SET n = excluded.n, types = excluded.types, scopes = excluded.scopes,
        modified_us = excluded.modified_us, deleted_us = NULL""",
)
# of the past, also if it was removed and the log still tells of it
LAST_SEQ: Final = """SELECT max(coalesce((SELECT max(seq) FROM instances), 0),
    coalesce((SELECT first_seq + rows - 1 FROM log ORDER BY offset DESC LIMIT 1), 0))"""
_ADD_HISTORY: Final = Insert(
    "instances(seq, life, name, dataset, instance_id, observed_us, created_us, modified_us, deleted_us, instance)",
    f"(?, ?, ?, {_TEXT}, ?, {_NUMBER}, ?, ?, {_NUMBER}, ?)",
)
_ADD_LOG: Final = Insert(
    "log(at_us, kind, operation, entity, type_set, scopes, rows, first_seq)", f"(?, ?, ?, ?, ?, {_TEXT}, ?, ?)"
)


class Stage(Struct):
    """What is inserted are values, row by row, one after the other."""

    ids: set[str] = set()  # of the entities that are staged
    created: list[Any] = []  # entities
    first_created: int = 1 << 62  # their first number
    facts_created: list[Any] = []  # and theirs
    updated: dict[int, Row] = {}  # by number
    retyped: dict[int, int] = {}
    deleted: list[tuple[int]] = []
    facts_dropped: set[FactKey] = set()
    facts_added: dict[FactKey, Row] = {}
    places_dropped: set[int] = set()
    places_added: dict[int, Row] = {}
    scopes_dropped: set[tuple[str, int]] = set()
    scopes_added: set[tuple[str, int]] = set()
    ended: list[tuple[int, str]] = []  # pasts that end
    begun: list[Any] = []  # pasts that begin, or whose types or scopes change
    history: list[Any] = []  # with their numbers
    log: list[Any] = []
    first_seq: int = 0  # the number of the first row of `history`; 0: not asked for yet

    def next_seq(self, connection: sqlite3.Connection) -> int:
        """The number of the next row of history. Asked first when nothing is staged: what is written is all there is then."""
        if not self.first_seq:
            self.first_seq = connection.execute(LAST_SEQ).fetchone()[0] + 1
        return self.first_seq + len(self.history) // _ADD_HISTORY.width

    def create(self, n: int, row: Row) -> None:
        """An entity; before anything else happens to it, this has to be written."""
        self.created += row
        self.first_created = min(self.first_created, n)

    def update(self, n: int, values: Row) -> None:
        """`values`: modified_at, expires_us, document."""
        self.updated[n] = values

    def retype(self, n: int, type_set: int) -> None:
        self.retyped[n] = type_set

    def delete(self, n: int) -> None:
        self.updated.pop(n, None)
        self.retyped.pop(n, None)
        self.deleted.append((n,))

    def drop_fact(self, fact: FactKey) -> None:
        if self.facts_added.pop(fact, None) is None:
            self.facts_dropped.add(fact)

    def drop_place(self, id_: int) -> None:
        if self.places_added.pop(id_, None) is None:
            self.places_dropped.add(id_)

    def drop_scope(self, scope: tuple[str, int]) -> None:
        if scope in self.scopes_added:
            self.scopes_added.discard(scope)
        else:
            self.scopes_dropped.add(scope)

    def write(self, connection: Writer) -> None:
        many = connection.executemany
        if self.deleted:
            many(_DELETE, self.deleted)
        if self.created:
            _CREATE.run(connection, self.created)
        if self.updated:
            many(_UPDATE, [(*values, n) for n, values in sorted(self.updated.items())])
        if self.retyped:
            many(_RETYPE, [(type_set, n) for n, type_set in self.retyped.items()])
        changes = len(self.log) // _ADD_LOG.width
        write_facts(connection, self.facts_dropped, self.facts_added.values(), self.facts_created, changes)
        if self.places_dropped:
            many(_DROP_PLACE, [(id_,) for id_ in self.places_dropped])
        if self.places_added:
            many(_ADD_PLACE, self.places_added.values())
        if self.scopes_dropped:
            many(_DROP_SCOPE, self.scopes_dropped)
        if self.scopes_added:
            many(_ADD_SCOPE, self.scopes_added)
        self._write_past(connection)

    def _write_past(self, connection: sqlite3.Connection) -> None:
        """Pasts begin and end before their rows come: these belong to what has begun."""
        if self.ended:
            connection.executemany(_END_PAST, self.ended)
        if self.begun:
            _PUT_PAST.run(connection, self.begun)
        if self.history:
            _ADD_HISTORY.run(connection, self.history)
        _ADD_LOG.run(connection, self.log)
