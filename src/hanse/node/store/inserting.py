"""Inserting many rows with one statement: what a statement costs by itself is then shared by them."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

Row: TypeAlias = tuple[Any, ...]

# ruff: noqa: S608  only our own words are put into statements; what others wrote is bound

ROWS_AT_ONCE: Final = 32


class Insert:
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
