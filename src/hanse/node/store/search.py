"""Queries, answered in a reader's thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from hanse.ngsild.entity import Entity, decode_entity
from hanse.ngsild.query import EntityQuery

T = TypeVar("T")


class Found(Struct):
    entities: list[Entity]
    count: int | None = None  # of all that match, if asked for


class Searcher:
    """One reading connection, used by one thread."""

    def __init__(self, connection: sqlite3.Connection, query_ms_max: int) -> None:
        self.connection = connection
        self.query_ms_max = query_ms_max

    def run(self, work: Callable[[], T]) -> T:
        self.connection.execute("BEGIN")
        try:
            return work()
        finally:
            self.connection.execute("COMMIT")

    def query(self, query: EntityQuery) -> Found:
        found = self._all(query)
        return Found(found[query.offset : query.offset + query.limit], len(found) if query.count else None)

    def ids(self, query: EntityQuery) -> list[str]:
        return [entity.id for entity in self._all(query)]

    def _all(self, query: EntityQuery) -> list[Entity]:
        from hanse.ngsild.query import matches

        found = [decode_entity(document) for (document,) in self.connection.execute("SELECT document FROM entities ORDER BY n")]
        return [entity for entity in found if matches(query, entity)]
