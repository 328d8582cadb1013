"""What can be written: each write is a value that knows its statements; the store runs many of them in one transaction."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import msgspec
from msgspec import Struct

from hanse.ngsild.entity import (
    NULL,
    VALUE_MEMBER,
    Change,
    Entity,
    Instance,
    decode_entity,
    encode_entity,
)
from hanse.node.store.connection import RECENT_BYTES_MAX, EntityRow, Writer
from hanse.node.store.indexing import follow
from hanse.node.store.inserting import Row
from hanse.node.store.instance_ids import key_of, new_keys
from hanse.node.store.staging import NEVER, NO_TEXT
from hanse.node.store.times import to_us

_Told: TypeAlias = tuple[str, Instance | None, Instance | None]  # of an attribute: what an instance is now, and what it was

_encode = msgspec.json.Encoder().encode


class Write(Protocol):
    def apply(self, connection: Writer, /) -> object:
        """Run its statements; what it returns, if anything, whoever submitted it is told."""


class SaveChange(Struct, frozen=True):
    """An accepted change of one entity: its state, its index rows, its history and its log record."""

    change: Change
    operation: str

    def apply(self, connection: Writer, /) -> None:
        change = self.change
        before, after, at_us = change.before, change.after, to_us(change.at) or 0
        entity = change.entity
        if (before is None or after is None) and entity.id in connection.stage.ids:
            connection.flush()  # one life of an entity after the other
        row = connection.row(entity.id, is_new=before is None)
        if row is not None and (before is None or row.modified_at != before.modified_at):
            _sweep(connection, entity.id)
            row = None
        connection.stage.ids.add(entity.id)
        if row is None:
            before = None
        type_set = connection.type_set(entity.types)
        if after is not None:
            n = _put(connection, row, after, type_set)
            follow(connection, n, before, after, type_set)
        elif row is not None:
            n = row.n
            follow(connection, n, before, None, row.type_set)
            connection.stage.delete(n)
            connection.rows.pop(entity.id, None)
        else:
            n = _lost_life(connection, entity.id)
        _note_past(connection, change, n, at_us, is_new=row is None)
        stage = connection.stage
        seq = stage.next_seq(connection)
        rows = _history(connection, seq, n, _told_to_history(change), at_us)
        scopes = _encode(entity.scopes).decode() if entity.scopes else NO_TEXT
        stage.log.append((at_us, change.kind, self.operation, entity.id, type_set, scopes, len(rows), seq))
        stage.history += rows


def _put(connection: Writer, row: EntityRow | None, entity: Entity, type_set: int) -> int:
    """Stage the entity's own row; gives its number."""
    stage = connection.stage
    expires_us: int | None = NEVER
    if entity.expires_at:
        expires_us = to_us(entity.expires_at)
        connection.any_transient = True
    document = encode_entity(entity)
    if row is None:
        n = connection.entities_next
        connection.entities_next += 1
        stage.create(n, (n, entity.id, type_set, entity.created_at, entity.modified_at, expires_us, document))
    else:
        n = row.n
        stage.update(n, (entity.modified_at, expires_us, document))
        if type_set != row.type_set:
            stage.retype(n, type_set)
    connection.keep_row(entity.id, EntityRow(n, type_set, entity.modified_at))
    if len(document) > RECENT_BYTES_MAX:
        connection.large.add(entity.id)
    return n


def _sweep(connection: Writer, id_: str) -> None:
    """Take away an entity that is not as the change believes: it has expired and nobody has removed it yet."""
    connection.flush()
    n, type_set, document = connection.execute("SELECT n, type_set, document FROM entities WHERE id = ?", (id_,)).fetchone()
    connection.rows.pop(id_, None)
    connection.stage.ids.add(id_)
    follow(connection, n, decode_entity(document), None, type_set)
    connection.stage.delete(n)
    connection.flush()


def _lost_life(connection: Writer, id_: str) -> int:
    """The number of an entity that is deleted and was not there any more."""
    row = connection.execute("SELECT n FROM temporal_entities WHERE id = ?", (id_,)).fetchone()
    if row is not None:
        return int(row[0])
    life = connection.new_life()
    connection.execute("INSERT INTO past_ended VALUES (?)", (life,))
    return life


def _note_past(connection: Writer, change: Change, n: int, at_us: int, *, is_new: bool) -> None:
    """What history says of the entity itself, if that has changed, or its number has."""
    before, after, stage = change.before, change.after, connection.stage
    if after is None:
        stage.ended.append((at_us, change.entity.id))
    elif is_new or before is None or before.types != after.types or before.scopes != after.scopes:
        stage.begun.append((n, after.id, _encode(after.types).decode(), _encode(after.scopes).decode(), at_us, at_us))
    old, new = before.scopes if before is not None else (), after.scopes if after is not None else ()
    if old != new:
        from hanse.node.store.history_writes import scopes_row  # which makes its rows as this module does

        stage.history.append((stage.next_seq(connection), *scopes_row(connection, n, new, change.at)))


def _told_to_history(change: Change) -> list[_Told]:
    """What has happened to instances of attributes. All those of an entity that begins or ends need not be said in the change."""
    if change.attributes or change.kind == "updated":
        return [(each.name, each.after, each.before) for each in change.attributes]
    attributes = change.entity.attributes.items()
    if change.after is not None:
        return [(name, instance, None) for name, instances in attributes for instance in instances]
    return [(name, None, instance) for name, instances in attributes for instance in instances]


def _history(connection: Writer, seq: int, life: int, told: list[_Told], at_us: int) -> list[Row]:
    """The rows from number `seq` on."""
    rows: list[Row] = []
    keys, names = new_keys(), connection.names
    for name, instance, was in told:
        number = names.get(name) or connection.name_id(name)
        if instance is not None:
            get = instance.get
            observed_at, created_at = get("observedAt"), get("createdAt")
            observed_us = to_us(observed_at) if observed_at else NEVER
            created_us = (to_us(created_at) if created_at else None) or at_us
            said = get("instanceId")
            key = key_of(said) if said else next(keys)
            dataset = get("datasetId", NO_TEXT)
            rows.append((seq, life, number, dataset, key, observed_us, created_us, at_us, NEVER, _encode(instance)))
            seq += 1
        elif was is not None:
            gone = _gone(was)
            dataset = gone.get("datasetId", NO_TEXT)
            rows.append((seq, life, number, dataset, next(keys), NEVER, at_us, at_us, at_us, _encode(gone)))
            seq += 1
    return rows


def _gone(instance: Instance) -> Instance:
    """What history says of a deleted attribute: that there is none, in NGSI-LD's own word."""
    kind = instance.get("type", "Property")
    gone = {"type": kind, VALUE_MEMBER.get(kind, "value"): NULL}
    return gone | {"datasetId": instance["datasetId"]} if "datasetId" in instance else gone


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
