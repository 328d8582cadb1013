"""Inserting many rows with one statement: what a statement costs by itself is then shared by them.

Rows are lists of values, one after the other: to make a tuple of each, and one of all again, would cost as much as the insertion.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

Row: TypeAlias = tuple[Any, ...]

# ruff: noqa: S608  only our own words are put into statements; what others wrote is bound

ROWS_AT_ONCE: Final = (32, 8, 1)


class Insert:
    def __init__(self, into: str, row: str, conflict: str = "") -> None:
        self.width = row.count("?")  # values of a row
        self._statements = [
            (size * self.width, f"INSERT INTO {into} VALUES {', '.join([row] * size)} {conflict}") for size in ROWS_AT_ONCE
        ]

    def run(self, connection: sqlite3.Connection, values: list[Any]) -> None:
        at = 0
        for size, statement in self._statements:
            end = len(values) - (len(values) - at) % size
            if at < end:
                connection.executemany(statement, [values[i : i + size] for i in range(at, end, size)])
                at = end


def flat(rows: Iterable[Row]) -> list[Any]:
    return list(chain.from_iterable(rows))
