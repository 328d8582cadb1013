"""Facts on their way into the indexes: filed many at a time, for each by itself would cost several pages of its own.

Those of new entities are in `facts_new`, in order of entities, that is, at its end. `facts_filed` says up to which entity they
have been filed from there: into `facts`, in order of attributes, and into `facts_by_value`. What changes of an entity that is
filed is in `facts` at once, but in `facts_by_value` later: `facts_changed` is the list of what has come and gone meanwhile.
Whoever reads looks at both lists as well (sql.py), so they must not grow long.
"""

from __future__ import annotations

from collections.abc import Collection
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from msgspec import Struct

from hanse.node.store.inserting import Insert, Row, flat

if TYPE_CHECKING:
    import sqlite3

    from hanse.node.store.connection import Writer

FactKey: TypeAlias = tuple[int, int, Any]  # key, entity, value

NEW_MAX: Final = 28_000  # facts of new entities that wait to be filed
CHANGED_MAX: Final = 16_000  # facts of others that came or went
CALM_NEW_MAX: Final = 1_400  # the same, when few changes come at a time: then a write must not take long
CALM_CHANGED_MAX: Final = 400
CALM: Final = 10  # changes written at a time

_UNFILED: Final = """SELECT upto, max(upto, coalesce((SELECT max(n) FROM entities), 0)),
    coalesce((SELECT max(rowid) FROM facts_changed), 0) FROM facts_filed"""
_DROP: Final = "DELETE FROM facts WHERE key = ? AND entity = ? AND value = ?"
_DROP_NEW: Final = "DELETE FROM facts_new WHERE key = ? AND entity = ? AND value = ?"
_ADD: Final = Insert("facts(key, entity, value, type_set, shape)", "(?, ?, ?, ?, ?)")
_ADD_NEW: Final = Insert("facts_new(key, entity, value, type_set, shape)", "(?, ?, ?, ?, ?)")
_DROPPED: Final = Insert("facts_changed(key, entity, value, is_there)", "(?, ?, ?, 0)")
_ADDED: Final = Insert("facts_changed(key, entity, value, is_there)", "(?, ?, ?, 1)")

_FILE_NEW: Final = """INSERT INTO facts(key, entity, value, type_set, shape)
    SELECT key, entity, value, type_set, shape FROM facts_new ORDER BY key, entity, value"""
_FILE_NEW_BY_VALUE: Final = """INSERT INTO facts_by_value(key, value, entity)
    SELECT key, value, entity FROM facts_new ORDER BY key, value, entity"""
_SET_FILED: Final = "UPDATE facts_filed SET upto = ?"
# of each, what became of it last
_CHANGED: Final = """SELECT key, value, entity, is_there, max(rowid) FROM facts_changed
    GROUP BY key, value, entity ORDER BY key, value, entity"""
_DROP_BY_VALUE: Final = "DELETE FROM facts_by_value WHERE key = ? AND value = ? AND entity = ?"
_ADD_BY_VALUE: Final = Insert("facts_by_value(key, value, entity)", "(?, ?, ?)", "ON CONFLICT DO NOTHING")


class Unfiled(NamedTuple):
    upto: int  # the newest entity that is filed
    newest: int  # entity
    changed: int  # facts of those that are filed

    @property
    def new(self) -> int:
        return self.newest - self.upto


def unfiled(connection: sqlite3.Connection) -> Unfiled:
    return Unfiled(*connection.execute(_UNFILED).fetchone())


def write_facts(connection: Writer, dropped: Collection[FactKey], added: Collection[Row], new: list[Any], changes: int) -> None:
    """What so many changes take away and then add; in a transaction of the caller's. `new`: values of rows of new entities."""
    upto, _, changed = unfiled(connection)
    if dropped:
        ordered = sorted(dropped)
        filed = [fact for fact in ordered if fact[1] <= upto]
        if filed:
            connection.executemany(_DROP, filed)
            _DROPPED.run(connection, flat(filed))
            changed += len(filed)
        if len(filed) < len(ordered):
            connection.executemany(_DROP_NEW, [fact for fact in ordered if fact[1] > upto])
            connection.facts_new -= len(ordered) - len(filed)
    if added:
        rows = sorted([row for row in added if row[1] <= upto], key=itemgetter(0))  # neighbours together
        _ADD.run(connection, flat(rows))
        _ADDED.run(connection, flat(row[:3] for row in rows))
        changed += len(rows)
        new = [*flat(row for row in added if row[1] > upto), *new]
    _ADD_NEW.run(connection, new)
    connection.facts_new += len(new) // _ADD_NEW.width
    new_max, changed_max = (CALM_NEW_MAX, CALM_CHANGED_MAX) if changes <= CALM else (NEW_MAX, CHANGED_MAX)
    if connection.facts_new >= new_max or changed >= changed_max:
        file_facts(connection)


def file_facts(connection: Writer) -> None:
    """File what waits for it, if anything does; in a transaction of the caller's."""
    waiting = unfiled(connection)
    if waiting.changed:
        became = connection.execute(_CHANGED).fetchall()
        connection.executemany(_DROP_BY_VALUE, [row[:3] for row in became if not row[3]])
        _ADD_BY_VALUE.run(connection, flat(row[:3] for row in became if row[3]))
        connection.execute("DELETE FROM facts_changed")
    if waiting.new:
        connection.execute(_FILE_NEW)
        connection.execute(_FILE_NEW_BY_VALUE)
        connection.execute("DELETE FROM facts_new")
        connection.facts_new = 0
        connection.execute(_SET_FILED, (waiting.newest,))


class FileFacts(Struct, frozen=True):
    """When nobody writes there is time for it, and whoever reads has less to look at."""

    def apply(self, connection: Writer, /) -> None:
        connection.flush()
        file_facts(connection)
