"""The log of changes: what happened to which entity, in order, by offset."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from hanse.ngsild.entity import Kind


class LoggedAttribute(Struct, frozen=True, omit_defaults=True):
    name: str
    kind: Kind
    instance: msgspec.Raw | None = None  # as it is now; None: deleted
    dataset: str | None = None  # of a deleted one


class Logged(Struct, frozen=True, omit_defaults=True):
    """The `record` of a log row. Together, the records of an entity say what it is now."""

    kind: Kind
    at: str
    scopes: tuple[str, ...] = ()
    attributes: tuple[LoggedAttribute, ...] | list[LoggedAttribute] = ()


class LogRecord(Struct, frozen=True):
    offset: int
    at_ms: int
    operation: str
    entity: str
    types: tuple[str, ...]
    record: bytes  # JSON of a `Logged`


READ_LOG = "SELECT offset, at_ms, operation, entity, types, record FROM log WHERE offset > ? ORDER BY offset LIMIT ?"
_decode_types = msgspec.json.Decoder(tuple[str, ...]).decode


def log_record(row: tuple[int, int, str, str, str, bytes]) -> LogRecord:
    offset, at_ms, operation, entity, types, record = row
    return LogRecord(offset, at_ms, operation, entity, _decode_types(types), record)
