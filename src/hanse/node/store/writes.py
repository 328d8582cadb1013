"""What can be written: each write is a value that knows its statements; the store runs many of them in one transaction."""

from __future__ import annotations

from random import getrandbits
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from hanse.ngsild.entity import (
    NULL,
    VALUE_MEMBER,
    AttributeChange,
    Change,
    Entity,
    Instance,
    Kind,
    decode_entity,
    encode_entity,
)
from hanse.node.store.connection import Writer
from hanse.node.store.indexing import follow
from hanse.node.store.times import to_us

INSTANCE_IDS: Final = "urn:ngsi-ld:Instance:"

_encode = msgspec.json.Encoder().encode

_CREATE = """INSERT INTO entities(id, type_set, created_at, modified_at, expires_us, document)
    VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT(id) DO NOTHING"""
_UPDATE = "UPDATE entities SET modified_at = ?, expires_us = ?, document = ? WHERE n = ?"
_PUT_TEMPORAL = """INSERT INTO temporal_entities(id, types, scopes, created_us, modified_us) VALUES (?1, ?2, ?3, ?4, ?4)
    ON CONFLICT(id) DO UPDATE SET types = ?2, scopes = ?3, modified_us = ?4, deleted_us = NULL"""
_ADD_HISTORY = """INSERT INTO history
    (entity, attribute, dataset, instance_id, observed_us, created_us, modified_us, deleted_us, instance)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_ADD_LOG = "INSERT INTO log(at_us, kind, operation, entity, type_set, scopes, first_seq, rows) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


class Write(Protocol):
    def apply(self, connection: Writer, /) -> None: ...


class SaveChange(Struct, frozen=True):
    """An accepted change of one entity: its state, its index rows, its history and its log record."""

    change: Change
    operation: str

    def apply(self, connection: Writer, /) -> None:
        change = self.change
        before, after, at_us = change.before, change.after, to_us(change.at) or 0
        entity = change.entity
        if after is None:
            _delete(connection, entity.id, before)
        elif before is None or not _update(connection, before, after):
            _create(connection, after)
        _note_past(connection, before, after, at_us)
        if before is None or after is None or before.scopes != after.scopes:
            from hanse.node.store.history_writes import follow_scopes  # which makes its rows as this module does

            follow_scopes(connection, change)
        rows = _history(entity.id, _attribute_changes(change), at_us)
        first_seq: int | None = 0
        if rows:
            first_seq = connection.execute(_ADD_HISTORY, rows[0]).lastrowid
            if len(rows) > 1:
                connection.executemany(_ADD_HISTORY, rows[1:])
        scopes = _encode(entity.scopes).decode() if entity.scopes else None
        type_set = connection.type_set(entity.types)
        connection.execute(_ADD_LOG, (at_us, change.kind, self.operation, entity.id, type_set, scopes, first_seq, len(rows)))


def _create(connection: Writer, entity: Entity) -> None:
    type_set = connection.type_set(entity.types)
    expires_us = to_us(entity.expires_at) if entity.expires_at else None
    values = (entity.id, type_set, entity.created_at, entity.modified_at, expires_us, encode_entity(entity))
    cursor = connection.execute(_CREATE, values)
    if cursor.rowcount == 0:  # one of that id is there: it has expired and nobody has removed it yet
        _delete(connection, entity.id, None)
        cursor = connection.execute(_CREATE, values)
    assert cursor.lastrowid is not None
    connection.keep_row(entity.id, cursor.lastrowid, type_set, entity.modified_at)
    follow(connection, cursor.lastrowid, None, entity, type_set)


def _update(connection: Writer, before: Entity, after: Entity) -> bool:
    """False: the entity is not there as `before` says, and has been taken away whole."""
    row = connection.row(after.id)
    if row is None:
        return False
    n, type_set, modified_at = row
    if modified_at != before.modified_at:
        _delete(connection, after.id, None)
        return False
    expires_us = to_us(after.expires_at) if after.expires_at else None
    connection.execute(_UPDATE, (after.modified_at, expires_us, encode_entity(after), n))
    if after.types != before.types:
        type_set = connection.type_set(after.types)
        connection.execute("UPDATE entities SET type_set = ? WHERE n = ?", (type_set, n))
    connection.keep_row(after.id, n, type_set, after.modified_at)
    follow(connection, n, before, after, type_set)
    return True


def _delete(connection: Writer, id_: str, before: Entity | None) -> None:
    row = connection.execute("SELECT n, type_set, modified_at, document FROM entities WHERE id = ?", (id_,)).fetchone()
    if row is None:
        return
    connection.rows.pop(id_, None)
    n, type_set, modified_at, document = row
    if before is None or before.modified_at != modified_at:
        before = decode_entity(document)
    follow(connection, n, before, None, type_set)
    connection.execute("DELETE FROM entities WHERE n = ?", (n,))


def _note_past(connection: Writer, before: Entity | None, after: Entity | None, at_us: int) -> None:
    """What history says of the entity itself, if that has changed."""
    if after is None:
        assert before is not None
        connection.execute("UPDATE temporal_entities SET deleted_us = ? WHERE id = ?", (at_us, before.id))
    elif before is None or before.types != after.types or before.scopes != after.scopes:
        types, scopes = _encode(after.types).decode(), _encode(after.scopes).decode()
        connection.execute(_PUT_TEMPORAL, (after.id, types, scopes, at_us))


def _attribute_changes(change: Change) -> tuple[AttributeChange, ...]:
    if change.attributes or change.kind == "updated":
        return change.attributes
    is_new = change.after is not None
    kind: Kind = "created" if is_new else "deleted"
    return tuple(
        AttributeChange(name, kind, None if is_new else instance, instance if is_new else None)
        for name, instances in change.entity.attributes.items()
        for instance in instances
    )


def _history(id_: str, changes: tuple[AttributeChange, ...], at_us: int) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for change in changes:
        name = change.name
        instance = change.after
        if instance is not None:
            get = instance.get
            observed_at, created_at = get("observedAt"), get("createdAt")
            observed_us = to_us(observed_at) if observed_at else None
            created_us = (to_us(created_at) if created_at else None) or at_us
            instance_id = get("instanceId") or new_instance_id()
            rows.append((id_, name, get("datasetId"), instance_id, observed_us, created_us, at_us, None, _encode(instance)))
        elif change.before is not None:
            instance = _gone(change.before)
            dataset = instance.get("datasetId")
            rows.append((id_, name, dataset, new_instance_id(), None, at_us, at_us, at_us, _encode(instance)))
    return rows


def _gone(instance: Instance) -> Instance:
    """What history says of a deleted attribute: that there is none, in NGSI-LD's own word."""
    kind = instance.get("type", "Property")
    gone = {"type": kind, VALUE_MEMBER.get(kind, "value"): NULL}
    return gone | {"datasetId": instance["datasetId"]} if "datasetId" in instance else gone


def new_instance_id() -> str:
    return f"{INSTANCE_IDS}{getrandbits(96):024x}"


class PutDocument(Struct, frozen=True):
    """Anything else that the node keeps: a subscription, a registration, a context ..."""

    kind: str
    id: str
    data: bytes

    def apply(self, connection: Writer, /) -> None:
        connection.execute(
            "INSERT INTO documents(kind, id, data) VALUES (?, ?, ?) ON CONFLICT(kind, id) DO UPDATE SET data = excluded.data",
            (self.kind, self.id, self.data),
        )


class DeleteDocument(Struct, frozen=True):
    kind: str
    id: str

    def apply(self, connection: Writer, /) -> None:
        connection.execute("DELETE FROM documents WHERE kind = ? AND id = ?", (self.kind, self.id))
