"""Queries, answered in a reader's thread by one connection that only reads."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from functools import cmp_to_key
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from hanse.filters.patterns import pattern_search
from hanse.ngsild.entity import Entity, decode_entity
from hanse.ngsild.errors import TooComplexQuery
from hanse.ngsild.ordering import ABSENT, Key, order_key
from hanse.ngsild.quality import Measure
from hanse.ngsild.query import EntityQuery, Order
from hanse.node.store.checks import Check, GeoCheck
from hanse.node.store.ordering import order_sql
from hanse.node.store.plan import Plan, plan
from hanse.node.store.sql import Sql
from hanse.node.store.times import now_us

# ruff: noqa: S608

STEPS_BETWEEN_LOOKS: Final = 20_000  # of SQLite's machine, between two looks at the clock

T = TypeVar("T")


class Found(Struct):
    entities: list[Entity]
    count: int | None = None  # of all that match, if asked for


class Searcher:
    """One reading connection, used by one thread."""

    def __init__(self, connection: sqlite3.Connection, query_ms_max: int) -> None:
        self.connection = connection
        self.query_ms_max = query_ms_max
        self._until = 0.0
        self._check: Check | None = None
        self._geo: GeoCheck | None = None
        self._patterns: list[Callable[[str], bool]] = []
        self._error: Exception | None = None
        connection.create_function("document_matches", 1, self._document_matches)
        connection.create_function("place_matches", 1, self._place_matches)
        connection.create_function("geo_matches", 1, self._geo_matches)
        connection.create_function("text_matches", 2, self._text_matches)
        connection.set_progress_handler(self._is_late, STEPS_BETWEEN_LOOKS)

    def run(self, work: Callable[[], T]) -> T:
        """In one transaction, so on one state of everything; within the time that a query may take."""
        self._until = time.monotonic() + self.query_ms_max / 1000
        self._error = None
        self.connection.execute("BEGIN")
        try:
            return work()
        except sqlite3.OperationalError as error:
            if self._error is not None:
                raise self._error from error
            if "interrupted" in str(error):
                raise self._too_late() from None
            raise
        finally:
            self._check = None
            self._until = float("inf")
            if self.connection.in_transaction:
                self.connection.execute("COMMIT")

    def query(self, query: EntityQuery, measure: Measure) -> Found:
        return self.run(lambda: self._query(query, measure))

    def ids(self, query: EntityQuery, measure: Measure) -> list[str]:
        return self.run(lambda: self._ids(query, measure))

    def _query(self, query: EntityQuery, measure: Measure) -> Found:
        source = self._prepared(query, measure)
        count = None
        if query.count:
            (count,) = self._execute(f"SELECT count(*) FROM ({source.text})", source.values).fetchone()
        if not query.limit:
            return Found([], count)
        if query.order_by:
            page = self._ordered(source, query)
        else:
            rows = self._execute(f"{source.text} LIMIT {query.limit} OFFSET {query.offset}", source.values)
            page = [n for (n,) in rows]
        return Found(self._documents(page), count)

    def _ids(self, query: EntityQuery, measure: Measure) -> list[str]:
        source = self._prepared(query, measure)
        statement = f"SELECT e.id FROM ({source.text}) AS s CROSS JOIN entities AS e ON e.n = s.n ORDER BY s.n"
        return [id_ for (id_,) in self._execute(statement, source.values)]

    def _prepared(self, query: EntityQuery, measure: Measure) -> Sql:
        self._geo = GeoCheck(query.geo) if query.geo is not None else None  # which planning asks already
        made: Plan = plan(self.connection, query, now_us(), measure)
        self._check = made.check
        self._patterns = [pattern_search(pattern) for pattern in made.patterns]
        return made.source

    def _execute(self, statement: str, values: tuple[Any, ...]) -> sqlite3.Cursor:
        return self.connection.execute(statement, values)

    def _documents(self, page: list[int]) -> list[Entity]:
        rows = self._execute(
            "SELECT e.document FROM json_each(?) AS c CROSS JOIN entities AS e ON e.n = c.value",
            (msgspec.json.encode(page).decode(),),
        )
        return [decode_entity(document) for (document,) in rows]

    # --- order --------------------------------------------------------------------------------------------------------

    def _ordered(self, source: Sql, query: EntityQuery) -> list[int]:
        by = order_sql(self.connection, query.order_by)
        if by is not None:
            rows = self._execute(
                f"""SELECT s.n FROM ({source.text}) AS s CROSS JOIN entities AS e ON e.n = s.n
                ORDER BY {by.text} LIMIT {query.limit} OFFSET {query.offset}""",
                source.values + by.values,
            )
            return [n for (n,) in rows]
        keyed = []
        rows = self._execute(
            f"SELECT s.n, e.document FROM ({source.text}) AS s CROSS JOIN entities AS e ON e.n = s.n", source.values
        )
        for n, document in rows:
            entity = decode_entity(document)
            keyed.append((tuple(order_key(order, entity) for order in query.order_by), entity.id, n))
        keyed.sort(key=cmp_to_key(_comparison(query.order_by)))
        return [n for _, _, n in keyed[query.offset : query.offset + query.limit]]

    # --- called by SQLite ---------------------------------------------------------------------------------------------

    def _document_matches(self, document: bytes) -> bool:
        assert self._check is not None
        return self._checked(self._check, document)

    def _geo_matches(self, document: bytes) -> bool:
        assert self._geo is not None
        return self._checked(self._geo.document, document)

    def _place_matches(self, value: bytes) -> bool | None:
        assert self._geo is not None
        return self._geo.place(value)

    def _checked(self, check: Check, document: bytes) -> bool:
        try:
            if time.monotonic() > self._until:  # one check may take as long as many steps
                raise self._too_late()
            return check(document)
        except Exception as error:
            self._error = error
            raise

    def _text_matches(self, number: int, text: str) -> bool:
        return self._patterns[number](text)

    def _too_late(self) -> TooComplexQuery:
        return TooComplexQuery(f"the query took more than {self.query_ms_max} ms; add a condition that few entities meet")

    def _is_late(self) -> int:
        return time.monotonic() > self._until


def _comparison(orders: tuple[Order, ...]) -> Callable[[Any, Any], int]:
    signs = [-1 if order.descending else 1 for order in orders]

    def compare(one: tuple[tuple[Key, ...], str, int], other: tuple[tuple[Key, ...], str, int]) -> int:
        for sign, a, b in zip(signs, one[0], other[0], strict=True):
            if a != b:
                if ABSENT in (a, b):
                    return 1 if a == ABSENT else -1
                return sign if a > b else -sign
        return (one[1] > other[1]) - (one[1] < other[1])

    return compare
