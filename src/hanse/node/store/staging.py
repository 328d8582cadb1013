"""Changes of entities, gathered over a batch and written table by table.

One statement run over many rows in order costs a fraction of the same rows one statement at a time, and what a batch does and
undoes again costs nothing. So a change is first staged: it says what its rows become. `Writer.flush` writes them all, in the
transaction of the batch. Whatever reads these tables through the writer, or writes them directly, flushes first.

Facts are in `facts` at once. In `facts_by_value`, where those of one entity are far apart and each would cost a page of its own,
numbers and texts of new entities come later, those of many entities together; `facts_filed` says up to which entity they are
there. Blobs, which are points and moments, are there at once.
"""

from __future__ import annotations

from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

# ruff: noqa: S608  only our own words are put into statements; what others wrote is bound

FactKey: TypeAlias = tuple[int, int, Any]  # key, entity, value
Row: TypeAlias = tuple[Any, ...]

ROWS_AT_ONCE: Final = 32  # that one statement inserts
UNFILED_MAX: Final = 2_000  # new entities whose facts wait to be filed by value
UNFILED_CALM_MAX: Final = 200  # the same, when few changes come at a time
CALM: Final = 10  # changes written at a time

# what stands for None in a row that is inserted: binding None costs more than the rest of the row. None may be given all the same
NEVER: Final = -(1 << 62)
NO_TEXT: Final = ""


class Insert:
    """A statement, and the same for many rows: what a statement costs by itself is then shared by them."""

    def __init__(self, into: str, row: str, conflict: str = "") -> None:
        self._one = f"INSERT INTO {into} VALUES {row} {conflict}"
        self._many = f"INSERT INTO {into} VALUES {', '.join([row] * ROWS_AT_ONCE)} {conflict}"

    def run(self, connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
        whole = len(rows) - len(rows) % ROWS_AT_ONCE
        if whole:
            starts = range(0, whole, ROWS_AT_ONCE)
            connection.executemany(self._many, [tuple(chain.from_iterable(rows[i : i + ROWS_AT_ONCE])) for i in starts])
        if whole < len(rows):
            connection.executemany(self._one, rows[whole:])


_NUMBER: Final = f"nullif(?, {NEVER})"
_TEXT: Final = f"nullif(?, '{NO_TEXT}')"

_DELETE: Final = "DELETE FROM entities WHERE n = ?"
_CREATE: Final = Insert(
    "entities(n, id, type_set, created_at, modified_at, expires_us, document)", f"(?, ?, ?, ?, ?, {_NUMBER}, ?)"
)
_UPDATE: Final = f"UPDATE entities SET modified_at = ?, expires_us = {_NUMBER}, document = ? WHERE n = ?"
_RETYPE: Final = "UPDATE entities SET type_set = ? WHERE n = ?"
_DROP_FACT: Final = "DELETE FROM facts WHERE key = ? AND entity = ? AND value = ?"
_ADD_FACT: Final = Insert("facts(key, entity, value, type_set, shape)", "(?, ?, ?, ?, ?)")
_DROP_BY_VALUE: Final = "DELETE FROM facts_by_value WHERE key = ? AND value = ? AND entity = ?"
_ADD_BY_VALUE: Final = Insert("facts_by_value(key, value, entity)", "(?, ?, ?)")
_FILED: Final = "SELECT upto, coalesce((SELECT max(n) FROM entities), 0) FROM facts_filed"
# each key is found by a step in the index: there are few
_FILE: Final = """WITH RECURSIVE keys(key) AS (SELECT min(key) FROM facts UNION ALL
    SELECT (SELECT min(f.key) FROM facts AS f WHERE f.key > keys.key) FROM keys WHERE keys.key IS NOT NULL)
    INSERT INTO facts_by_value SELECT f.key, f.value, f.entity FROM keys CROSS JOIN facts AS f
    WHERE f.key = keys.key AND f.entity > ? AND typeof(f.value) <> 'blob' ORDER BY 1, 2"""
_SET_FILED: Final = "UPDATE facts_filed SET upto = ?"
_DROP_PLACE: Final = "DELETE FROM places WHERE id = ?"
_ADD_PLACE: Final = "INSERT INTO places VALUES (?, ?, ?, ?, ?, ?, ?)"
_DROP_SCOPE: Final = "DELETE FROM scopes WHERE scope = ? AND entity = ?"
_ADD_SCOPE: Final = "INSERT OR IGNORE INTO scopes VALUES (?, ?)"
_END_PAST: Final = "UPDATE temporal_entities SET deleted_us = ? WHERE id = ?"
_PUT_PAST: Final = Insert(
    "temporal_entities(id, types, scopes, created_us, modified_us)",
    "(?, ?, ?, ?, ?)",
    """ON CONFLICT(id) DO UPDATE SET types = excluded.types, scopes = excluded.scopes,
        modified_us = excluded.modified_us, deleted_us = NULL""",
)
_LAST_SEQ: Final = """SELECT max(coalesce((SELECT max(seq) FROM history), 0),
    coalesce((SELECT first_seq + rows - 1 FROM log ORDER BY offset DESC LIMIT 1), 0))"""
_ADD_HISTORY: Final = Insert(
    "history(seq, entity, attribute, dataset, instance_id, observed_us, created_us, modified_us, deleted_us, instance)",
    f"(?, ?, ?, {_TEXT}, ?, {_NUMBER}, ?, ?, {_NUMBER}, ?)",
)
_ADD_LOG: Final = Insert(
    "log(at_us, kind, operation, entity, type_set, scopes, rows, first_seq)", f"(?, ?, ?, ?, ?, {_TEXT}, ?, ?)"
)


def file_facts(connection: sqlite3.Connection, waiting: int = 1) -> None:
    """File the facts of new entities by value, if so many wait for it; in a transaction of the caller's."""
    filed, newest = connection.execute(_FILED).fetchone()
    if newest - filed >= waiting:
        connection.execute(_FILE, (filed,))
        connection.execute(_SET_FILED, (newest,))


class Stage(Struct):
    ids: set[str] = set()  # of the entities that are staged
    created: dict[int, Row] = {}  # by number
    updated: dict[int, Row] = {}
    retyped: dict[int, int] = {}
    deleted: list[tuple[int]] = []
    facts_dropped: set[FactKey] = set()
    facts_added: dict[FactKey, Row] = {}
    places_dropped: set[int] = set()
    places_added: dict[int, Row] = {}
    scopes_dropped: set[tuple[str, int]] = set()
    scopes_added: set[tuple[str, int]] = set()
    ended: list[tuple[int, str]] = []  # pasts that end
    begun: list[Row] = []  # pasts that begin, or whose types or scopes change
    history: list[Row] = []  # with their numbers
    log: list[Row] = []
    first_seq: int = 0  # the number of the first row of `history`; 0: not asked for yet

    def next_seq(self, connection: sqlite3.Connection) -> int:
        """The number of the next row of history. Asked first when nothing is staged: what is written is all there is then."""
        if not self.first_seq:
            self.first_seq = connection.execute(_LAST_SEQ).fetchone()[0] + 1
        return self.first_seq + len(self.history)

    def create(self, n: int, row: Row) -> None:
        self.created[n] = row

    def update(self, n: int, values: Row) -> None:
        """`values`: modified_at, expires_us, document."""
        made = self.created.get(n)
        if made is None:
            self.updated[n] = values
        else:
            self.created[n] = (*made[:4], *values)

    def retype(self, n: int, type_set: int) -> None:
        made = self.created.get(n)
        if made is None:
            self.retyped[n] = type_set
        else:
            self.created[n] = (*made[:2], type_set, *made[3:])

    def delete(self, n: int) -> None:
        if self.created.pop(n, None) is None:
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

    def write(self, connection: sqlite3.Connection) -> None:
        many = connection.executemany
        if self.deleted:
            many(_DELETE, self.deleted)
        if self.created:
            _CREATE.run(connection, list(self.created.values()))
        if self.updated:
            many(_UPDATE, [(*values, n) for n, values in sorted(self.updated.items())])
        if self.retyped:
            many(_RETYPE, [(type_set, n) for n, type_set in self.retyped.items()])
        self._write_facts(connection)
        if self.places_dropped:
            many(_DROP_PLACE, [(id_,) for id_ in self.places_dropped])
        if self.places_added:
            many(_ADD_PLACE, self.places_added.values())
        if self.scopes_dropped:
            many(_DROP_SCOPE, self.scopes_dropped)
        if self.scopes_added:
            many(_ADD_SCOPE, self.scopes_added)
        self._write_past(connection)

    def _write_facts(self, connection: sqlite3.Connection) -> None:
        filed, newest = connection.execute(_FILED).fetchone()  # numbers of entities
        if self.facts_dropped:
            dropped = sorted(self.facts_dropped)
            connection.executemany(_DROP_FACT, dropped)
            by_value = [(key, value, n) for key, n, value in dropped if n <= filed or value.__class__ is bytes]
            connection.executemany(_DROP_BY_VALUE, by_value)
        if self.facts_added:
            added = sorted(self.facts_added.values(), key=itemgetter(0))  # neighbours together
            _ADD_FACT.run(connection, added)
            by_value = [(key, value, n) for key, n, value, _, _ in added if n <= filed or value.__class__ is bytes]
            _ADD_BY_VALUE.run(connection, by_value)
        if newest > filed:
            file_facts(connection, UNFILED_CALM_MAX if len(self.log) <= CALM else UNFILED_MAX)

    def _write_past(self, connection: sqlite3.Connection) -> None:
        """Pasts begin and end before their rows come: what begins anew leaves its old rows behind."""
        if self.ended:
            connection.executemany(_END_PAST, self.ended)
        if self.begun:
            _PUT_PAST.run(connection, self.begun)
        if self.history:
            _ADD_HISTORY.run(connection, self.history)
        _ADD_LOG.run(connection, self.log)
