"""Connections to a tenant's database: the one that writes, and those that read.

The writer remembers the numbers of names and sets of types, so that a change of an entity looks up none of them. What it
remembers may have been rolled back with its transaction: then it is forgotten.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from hanse.node.store.staging import Stage

NAMES_REMEMBERED_MAX: Final = 20_000
ROWS_REMEMBERED_MAX: Final = 20_000
STATEMENTS_REMEMBERED: Final = 256
WRITER_CACHE_KIB: Final = 16_384
READER_CACHE_KIB: Final = 8_192

CHECKPOINT_PAGES: Final = 32_000  # in a commit, should the thread that does it not come to it (checkpoint.py)
WAL_BYTES_KEPT: Final = 64 << 20


RECENT_BYTES_MAX: Final = 8_192  # of an entity that the node keeps decoded


class EntityRow(NamedTuple):
    n: int
    type_set: int
    modified_at: str


_ROW: Final = "SELECT n, type_set, modified_at FROM entities WHERE id = ?"
# no life has a number that there are instances of already, and no entity one up to which facts are filed
_NEXT: Final = """SELECT 1 + max(coalesce((SELECT max(n) FROM entities), 0), coalesce((SELECT max(n) FROM temporal_entities), 0),
    coalesce((SELECT max(n) FROM past_ended), 0), coalesce((SELECT max(life) FROM instances), 0),
    (SELECT upto FROM facts_filed))"""
_LIFE: Final = """SELECT coalesce((SELECT n FROM temporal_entities WHERE id = ?1 AND deleted_us IS NULL),
    (SELECT n FROM entities WHERE id = ?1))"""


class Writer(sqlite3.Connection):
    """Used by one thread at a time: by the event loop's, or by that of the commit while it runs."""

    names: dict[str, int]
    type_sets: dict[tuple[str, ...], int]
    rows: dict[str, EntityRow]  # of entities changed lately
    entities_next: int  # the next number of an entity, or of a past without one
    any_transient: bool  # only then can an entity be there, expired, that nobody sees any more
    stage: Stage
    large: set[str]  # entities written lately that are larger than RECENT_BYTES_MAX
    dead_letters: int
    dead_letters_max: int
    facts_new: int  # rows of that table

    def remember(self) -> None:
        """Start from what is committed."""
        self.names = {}
        self.type_sets = {}
        self.rows = {}
        self.stage = Stage()
        self.large = set()
        (self.any_transient,) = self.execute("SELECT EXISTS (SELECT 1 FROM entities WHERE expires_us IS NOT NULL)").fetchone()
        (self.entities_next,) = self.execute(_NEXT).fetchone()
        (self.facts_new,) = self.execute("SELECT count(*) FROM facts_new").fetchone()
        (self.dead_letters,) = self.execute("SELECT count(*) FROM dead_letters").fetchone()

    def flush(self) -> None:
        """Write what is staged."""
        if self.stage.ids:
            stage, self.stage = self.stage, Stage()
            stage.write(self)

    def rollback_all(self) -> None:
        if self.in_transaction:
            self.execute("ROLLBACK")
        self.remember()

    def row(self, id_: str, *, is_new: bool) -> EntityRow | None:
        """What is known of an entity's row by now; of a new entity there is none, unless an expired one is in the way."""
        row = self.rows.get(id_)
        if row is None and (self.any_transient or not is_new):
            found = self.execute(_ROW, (id_,)).fetchone()
            return EntityRow(*found) if found is not None else None
        return row

    def keep_row(self, id_: str, row: EntityRow) -> None:
        if len(self.rows) >= ROWS_REMEMBERED_MAX:  # what is staged is not in the tables yet
            self.rows = {staged: self.rows[staged] for staged in self.stage.ids if staged in self.rows}
        self.rows[id_] = row

    def life(self, id_: str) -> int:
        """The number of the life whose past is written: that of a past that is not over, that of the entity, or a new one. Asked
        when nothing is staged.
        """
        (life,) = self.execute(_LIFE, (id_,)).fetchone()
        return self.new_life() if life is None else int(life)

    def new_life(self) -> int:
        life = self.entities_next
        self.entities_next += 1
        return life

    def name_id(self, name: str) -> int:
        number = self.names.get(name)
        if number is None:
            row = self.execute("SELECT id FROM names WHERE name = ?", (name,)).fetchone()
            if row is None:
                row = (self.execute("INSERT INTO names(name) VALUES (?)", (name,)).lastrowid,)
            if len(self.names) >= NAMES_REMEMBERED_MAX:
                self.names.clear()
            number = self.names[name] = int(row[0])
        return number

    def type_set(self, types: tuple[str, ...]) -> int:
        number = self.type_sets.get(types)
        if number is None:
            sorted_types = sorted(set(types))
            text = msgspec.json.encode(sorted_types).decode()
            row = self.execute("SELECT id FROM type_sets WHERE types = ?", (text,)).fetchone()
            if row is None:
                row = (self.execute("INSERT INTO type_sets(types) VALUES (?)", (text,)).lastrowid,)
                self.executemany(
                    "INSERT INTO type_set_members(type, type_set) VALUES (?, ?)",
                    [(self.name_id(name), row[0]) for name in sorted_types],
                )
            if len(self.type_sets) >= NAMES_REMEMBERED_MAX:
                self.type_sets.clear()
            number = self.type_sets[types] = int(row[0])
        return number


def open_writer(path: Path, *, durable: bool) -> Writer:
    connection = sqlite3.connect(
        path, factory=Writer, isolation_level=None, check_same_thread=False, cached_statements=STATEMENTS_REMEMBERED
    )
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'OFF'}")
    connection.execute("PRAGMA secure_delete=OFF")
    connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit={WAL_BYTES_KEPT}")
    _set_up(connection, WRITER_CACHE_KIB)
    return connection


def open_checkpointer(path: Path, *, durable: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'OFF'}")
    connection.execute("PRAGMA cache_size=-64")
    return connection


def open_reader(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=STATEMENTS_REMEMBERED)
    connection.execute("PRAGMA query_only=ON")
    _set_up(connection, READER_CACHE_KIB)
    return connection


def _set_up(connection: sqlite3.Connection, cache_kib: int) -> None:
    connection.execute(f"PRAGMA cache_size=-{cache_kib}")
    connection.execute("PRAGMA temp_store=MEMORY")
    connection.execute("PRAGMA busy_timeout=10000")
