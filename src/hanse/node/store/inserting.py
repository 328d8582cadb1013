"""Inserting many rows with one statement: what a statement costs by itself is then shared by them."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

Row: TypeAlias = tuple[Any, ...]

# ruff: noqa: S608  only our own words are put into statements; what others wrote is bound

ROWS_AT_ONCE: Final = (32, 8, 1)


class Insert:
    def __init__(self, into: str, row: str, conflict: str = "") -> None:
        self._statements = [(size, f"INSERT INTO {into} VALUES {', '.join([row] * size)} {conflict}") for size in ROWS_AT_ONCE]

    def run(self, connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
        at = 0
        for size, statement in self._statements:
            end = len(rows) - (len(rows) - at) % size
            if at < end:
                connection.executemany(statement, [tuple(chain.from_iterable(rows[i : i + size])) for i in range(at, end, size)])
                at = end
