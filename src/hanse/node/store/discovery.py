"""Which types and attributes there are, answered from the index tables."""

from __future__ import annotations

import sqlite3

import msgspec
from msgspec import Struct

from hanse.node.store.indexing import KINDS, SHAPE_NAMES
from hanse.node.store.times import now_us

# ruff: noqa: S608  only numbers and our own words are put into statements


class TypeInfo(Struct):
    name: str
    entities: int
    attributes: dict[str, set[str]]  # name -> kinds of attribute (Property, Relationship ...)


class AttributeInfo(Struct):
    name: str
    entities: int
    kinds: set[str]
    types: set[str]  # of the entities that have it


_TABLES = ("facts", "facts_new")
_ALIVE = "NOT IN (SELECT n FROM entities WHERE expires_us <= ?)"


def discover_types(connection: sqlite3.Connection) -> list[TypeInfo]:
    found: dict[str, TypeInfo] = {}
    sets = _type_sets(connection)
    for type_set, count in connection.execute(
        f"SELECT type_set, count(*) FROM entities WHERE n {_ALIVE} GROUP BY 1", (now_us(),)
    ):
        for name in sets[type_set]:
            found.setdefault(name, TypeInfo(name, 0, {})).entities += count
    for attribute, type_set, kind in _kinds(connection):
        for name in sets[type_set]:
            found[name].attributes.setdefault(attribute, set()).add(kind)
    return sorted(found.values(), key=lambda info: info.name)


def discover_attributes(connection: sqlite3.Connection) -> list[AttributeInfo]:
    found: dict[str, AttributeInfo] = {}
    sets = _type_sets(connection)
    for attribute, type_set, kind in _kinds(connection):
        info = found.setdefault(attribute, AttributeInfo(attribute, 0, set(), set()))
        info.kinds.add(kind)
        info.types |= sets[type_set]
    for attribute, count in _counts(connection):
        found[attribute].entities = count
    return sorted(found.values(), key=lambda info: info.name)


def _type_sets(connection: sqlite3.Connection) -> dict[int, set[str]]:
    return {id_: set(msgspec.json.decode(types)) for id_, types in connection.execute("SELECT id, types FROM type_sets")}


def _kinds(connection: sqlite3.Connection) -> list[tuple[str, int, str]]:
    """Which attributes, of which kinds, entities with these types have."""
    rows = connection.execute(
        " UNION ".join(
            f"""SELECT a.name, f.type_set, f.shape FROM (SELECT DISTINCT key / {KINDS} AS name, type_set, shape FROM {table}
            WHERE entity {_ALIVE}) AS f JOIN names AS a ON a.id = f.name"""
            for table in _TABLES
        ),
        (now_us(),) * len(_TABLES),
    )
    return [(name, type_set, SHAPE_NAMES.get(shape, "Property")) for name, type_set, shape in rows]


def _counts(connection: sqlite3.Connection) -> list[tuple[str, int]]:
    """How many entities have each attribute."""
    found: dict[int, int] = {}
    for table in _TABLES:  # what an entity has is in one of them
        for number, count in _counts_in(connection, table):
            found[number] = found.get(number, 0) + count
    name = "SELECT name FROM names WHERE id = ?"
    return [(connection.execute(name, (number,)).fetchone()[0], count) for number, count in found.items()]


def _counts_in(connection: sqlite3.Connection, table: str) -> list[tuple[int, int]]:
    """By number of the name: values of one kind are counted as they lie, of several kinds entity by entity."""
    at = now_us()
    rows = connection.execute(
        f"SELECT key, count(*) FROM (SELECT DISTINCT key, entity FROM {table} WHERE entity {_ALIVE}) GROUP BY key", (at,)
    ).fetchall()
    keys: dict[int, list[tuple[int, int]]] = {}
    for key, count in rows:
        keys.setdefault(key // KINDS, []).append((key, count))
    found = []
    for number, counted in keys.items():
        count = counted[0][1]
        if len(counted) > 1:
            listed = ",".join(str(key) for key, _ in counted)
            (count,) = connection.execute(
                f"SELECT count(DISTINCT entity) FROM {table} WHERE key IN ({listed}) AND entity {_ALIVE}", (at,)
            ).fetchone()
        found.append((number, count))
    return found
