"""Orders of entities as SQL: by their own columns, or by the values of an attribute (of texts, their first TEXT_MAX letters)."""

from __future__ import annotations

import sqlite3
from typing import Final

from hanse.filters.paths import parse_path
from hanse.ngsild.query import ENTITY_MEMBERS, Order
from hanse.node.store.indexing import BOOLEAN, KINDS, NUMBER, TEXT
from hanse.node.store.sql import Facts, Sql

# ruff: noqa: S608

_COLUMNS: Final = {"id": "e.id", "createdAt": "nullif(e.created_at, '')", "modifiedAt": "nullif(e.modified_at, '')"}


def order_sql(connection: sqlite3.Connection, orders: tuple[Order, ...]) -> Sql | None:
    """What comes behind ORDER BY; None: some order is not for SQL."""
    facts = Facts(connection)
    terms = []
    for order in orders:
        term = _term(facts, order)
        if term is None:
            return None
        terms.append(f"{term} {'DESC' if order.descending else 'ASC'} NULLS LAST")
    return Sql(", ".join([*terms, "e.id"]))


def _term(facts: Facts, order: Order) -> str | None:
    path = parse_path(order.path)
    if order.collation is not None or order.near is not None or path.inner or len(path.names) > 1:
        return None
    name = path.names[0]
    if name in ENTITY_MEMBERS:
        return _COLUMNS.get(name)
    number = facts.number(name)
    if number is None:
        return "NULL"
    base = number * KINDS
    best = "max" if order.descending else "min"
    boolean = f"CASE {best}(value) WHEN 0 THEN x'00' WHEN 1 THEN x'01' END"  # blobs come behind texts, as booleans do
    kinds = [(NUMBER, f"{best}(value)"), (TEXT, f"{best}(value)"), (BOOLEAN, boolean)]
    values = [
        f"(SELECT {value} FROM {table} WHERE key = {base + kind} AND entity = e.n)"
        for kind, value in (reversed(kinds) if order.descending else kinds)
        for table in facts.tables
    ]
    return f"coalesce({', '.join(values)})"
