"""The log of changes: what happened to which entity, in order, by offset.

A log row says who and when; what the attributes became is in history already, so the row names the rows there. A record whose
history is gone, by age or because someone deleted it, still says that there was a change, but not what it was.
"""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct

from hanse.ngsild.entity import Instance, Kind


class LoggedAttribute(Struct, frozen=True, omit_defaults=True):
    name: str
    instance: Instance | None = None  # as it became; None: deleted
    dataset: str | None = None


class LogRecord(Struct, frozen=True):
    offset: int
    at: str
    kind: Kind
    operation: str
    entity: str
    types: tuple[str, ...]
    scopes: tuple[str, ...]
    attributes: list[LoggedAttribute]


_RECORDS = """SELECT l.offset, l.at_us, l.kind, l.operation, l.entity, t.types, l.scopes, l.first_seq, l.rows
    FROM log AS l JOIN type_sets AS t ON t.id = l.type_set WHERE l.offset > ? ORDER BY l.offset LIMIT ?"""
_ROWS = "SELECT attribute, dataset, deleted_us, instance FROM history WHERE seq >= ? AND seq < ? ORDER BY seq"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_texts = msgspec.json.Decoder(tuple[str, ...]).decode
_instance = msgspec.json.Decoder(dict[str, Any]).decode


def read_records(connection: sqlite3.Connection, after: int, limit: int) -> list[LogRecord]:
    """What happened after an offset, oldest first."""
    found: list[LogRecord] = []
    for offset, at_us, kind, operation, entity, types, scopes, first, rows in connection.execute(_RECORDS, (after, limit)):
        attributes = []
        if rows:
            for name, dataset, deleted_us, instance in connection.execute(_ROWS, (first, first + rows)):
                attributes.append(LoggedAttribute(name, None if deleted_us is not None else _instance(instance), dataset))
        at = (_EPOCH + timedelta(microseconds=at_us)).isoformat(timespec="microseconds")[:-6] + "Z"
        found.append(LogRecord(offset, at, kind, operation, entity, _texts(types), _texts(scopes) if scopes else (), attributes))
    return found
