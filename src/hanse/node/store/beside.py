"""Connections on which `history` is what the store has, and beside it what a question has got from elsewhere.

These other rows are in a table of the connection's own, which is empty between questions. Who reads `history` by its plain name
reads both; with policies, both pass what a principal may see.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from hanse.node.store.search import Searcher


class Row(NamedTuple):
    """A row of history."""

    seq: int
    entity: str
    attribute: str
    dataset: str | None
    instance_id: str
    observed_us: int | None
    created_us: int
    modified_us: int
    deleted_us: int | None
    instance: bytes


_COLUMNS: Final = ", ".join(Row._fields)
_OWN: Final = """DELETE FROM temp.other_rows WHERE EXISTS (SELECT 1 FROM main.history AS h WHERE h.entity = other_rows.entity
    AND h.attribute = other_rows.attribute AND h.dataset IS other_rows.dataset
    AND coalesce(h.observed_us, h.modified_us) = coalesce(other_rows.observed_us, other_rows.modified_us)
    AND h.instance_id = other_rows.instance_id)"""
_TABLES: Final = (
    """CREATE TEMP TABLE other_rows(seq INTEGER, entity TEXT, attribute TEXT, dataset TEXT, instance_id TEXT UNIQUE,
    observed_us INTEGER, created_us INTEGER, modified_us INTEGER, deleted_us INTEGER, instance BLOB, life INTEGER)""",
    """CREATE INDEX temp.other_rows_by_time ON other_rows(entity, attribute, dataset, coalesce(observed_us, modified_us))""",
    f"""CREATE TEMP VIEW whole_history AS SELECT {_COLUMNS}, life FROM main.history
    UNION ALL SELECT {_COLUMNS}, life FROM temp.other_rows""",  # noqa: S608
)
WHOLE: Final = "temp.whole_history"


def prepare(connection: sqlite3.Connection, *views: str) -> None:
    with _writable(connection):
        for statement in (*_TABLES, *views):
            connection.execute(statement)


@contextmanager
def beside(connection: sqlite3.Connection, rows: Sequence[Row]) -> Iterator[None]:
    """With these rows, but for those that the store has itself; each once, however often they come."""
    with _writable(connection):
        connection.executemany(f"INSERT OR IGNORE INTO temp.other_rows({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)  # noqa: S608
        connection.execute(_OWN)
    try:
        yield
    finally:
        with _writable(connection):
            connection.execute("DELETE FROM temp.other_rows")


@contextmanager
def _writable(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("PRAGMA query_only=OFF")
    try:
        yield
    finally:
        connection.execute("PRAGMA query_only=ON")


class WholeSearcher(Searcher):
    """Sees everything."""

    def __init__(self, connection: sqlite3.Connection, query_ms_max: int) -> None:
        super().__init__(connection, query_ms_max)
        prepare(connection, f"CREATE TEMP VIEW history AS SELECT {_COLUMNS}, life FROM {WHOLE}")  # noqa: S608
