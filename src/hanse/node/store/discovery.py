"""Which types and attributes there are, answered from the index tables."""

from __future__ import annotations

import sqlite3

import msgspec
from msgspec import Struct

from hanse.node.store.indexing import KINDS, SHAPE_NAMES
from hanse.node.store.times import now_us


class TypeInfo(Struct):
    name: str
    entities: int
    attributes: dict[str, set[str]]  # name -> kinds of attribute (Property, Relationship ...)


class AttributeInfo(Struct):
    name: str
    entities: int
    kinds: set[str]
    types: set[str]  # of the entities that have it


_COUNT = "SELECT type_set, count(*) FROM entities WHERE n NOT IN (SELECT n FROM entities WHERE expires_us <= ?) GROUP BY type_set"
_ATTRIBUTES = f"""SELECT key / {KINDS} AS name, type_set, shape, count(DISTINCT entity) FROM facts
    WHERE key >= ? AND key < ? AND entity NOT IN (SELECT n FROM entities WHERE expires_us <= ?) GROUP BY type_set, shape"""  # noqa: S608


def discover_types(connection: sqlite3.Connection) -> list[TypeInfo]:
    found: dict[str, TypeInfo] = {}
    sets = _type_sets(connection)
    for type_set, count in connection.execute(_COUNT, (now_us(),)):
        for name in sets[type_set]:
            info = found.setdefault(name, TypeInfo(name, 0, {}))
            info.entities += count
    for attribute, type_set, shape, _ in _attributes(connection):
        for name in sets[type_set]:
            found[name].attributes.setdefault(attribute, set()).add(SHAPE_NAMES.get(shape, "Property"))
    return sorted(found.values(), key=lambda info: info.name)


def discover_attributes(connection: sqlite3.Connection) -> list[AttributeInfo]:
    found: dict[str, AttributeInfo] = {}
    sets = _type_sets(connection)
    for attribute, type_set, shape, count in _attributes(connection):
        info = found.setdefault(attribute, AttributeInfo(attribute, 0, set(), set()))
        info.entities += count
        info.kinds.add(SHAPE_NAMES.get(shape, "Property"))
        info.types |= sets[type_set]
    return sorted(found.values(), key=lambda info: info.name)


def _type_sets(connection: sqlite3.Connection) -> dict[int, set[str]]:
    return {id_: set(msgspec.json.decode(types)) for id_, types in connection.execute("SELECT id, types FROM type_sets")}


def _attributes(connection: sqlite3.Connection) -> list[tuple[str, int, int, int]]:
    at = now_us()
    found = []
    for id_, name in connection.execute("SELECT id, name FROM names").fetchall():
        for _, type_set, shape, count in connection.execute(_ATTRIBUTES, (id_ * KINDS, (id_ + 1) * KINDS, at)):
            found.append((name, type_set, shape, count))
    return found
