"""What can be written: each write is a value that knows its statements; the store runs many of them in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

import msgspec
from msgspec import Struct

from hanse.ngsild.entity import decode_entity, encode_entity
from hanse.node.store.beginning import begin
from hanse.node.store.connection import RECENT_BYTES_MAX, EntityRow, Writer
from hanse.node.store.indexing import Difference, difference, rows, stage_difference
from hanse.node.store.instance_ids import key_of, new_keys
from hanse.node.store.plain_change import TOLD, PlainChange, plain_change
from hanse.node.store.staging import NEVER, NO_TEXT
from hanse.node.store.times import to_us

if TYPE_CHECKING:
    from hanse.ngsild.entity import Change

_encode = msgspec.json.Encoder().encode


class Write(Protocol):
    def apply(self, connection: Writer, /) -> object:
        """Run its statements; what it returns, if anything, whoever submitted it is told."""


class SaveChange:
    """An accepted change of one entity: its state, its index rows, its history and its log record.

    It is made plain where it is written, unless somebody has done so before (`make_plain`).
    """

    __slots__ = ("after", "change", "document", "id", "operation", "plain")

    def __init__(self, change: Change, operation: str, document: bytes | None = None) -> None:
        self.id = change.entity.id
        self.after = change.after  # known only where the change was accepted
        self.change: Change | None = change
        self.document = document  # of the entity as it is after the change, of which the change need not say all then
        self.operation = operation
        self.plain: PlainChange | None = None

    @classmethod
    def of(cls, plain: PlainChange) -> SaveChange:
        made = cls.__new__(cls)
        made.id, made.operation, made.plain = plain.id, plain.operation, plain
        made.after = made.change = made.document = None
        return made

    def make_plain(self) -> PlainChange:
        """At once, while what it is about is at hand; the state before is not kept any longer."""
        if self.plain is None:
            assert self.change is not None
            self.plain = plain_change(self.change, self.operation)
            self.change = None
        return self.plain

    def apply(self, connection: Writer, /) -> None:
        if self.change is not None and begin(connection, self.change, self.operation):
            return
        change = self.plain or plain_change(cast("Change", self.change), self.operation, with_attributes=False)
        id_, ends = change.id, change.attributes is None
        if (change.was is None or ends) and id_ in connection.stage.ids:
            connection.flush()  # one life of an entity after the other
        row = connection.row(id_, is_new=change.was is None)
        if row is not None:
            if row.n >= connection.stage.first_created:
                connection.flush()
            if row.modified_at != change.was:
                _sweep(connection, id_)
                row = None
        connection.stage.ids.add(id_)
        type_set = connection.type_set(change.types)
        if not ends:
            document = self.document or (change.document() if self.after is None else encode_entity(self.after))
            n = _put(connection, row, change, type_set, document)
        elif row is not None:
            n = _end(connection, row, change)
        else:
            n = _lost_life(connection, id_)
        _note_past(connection, change, n, type_set, begins=change.begins or row is None)


def _put(connection: Writer, row: EntityRow | None, change: PlainChange, type_set: int, document: bytes) -> int:
    """Stage the entity's own row, and what indexes say of it; gives its number."""
    stage, index = connection.stage, Difference(*change.indexed)
    expires_us: int | None = NEVER
    if change.expires_at:
        expires_us = to_us(change.expires_at)
        connection.any_transient = True
    if row is None:
        n = connection.new_life()
        stage.create(n, (n, change.id, type_set, change.created_at, change.modified_at, expires_us, document))
        if change.was is not None:  # what it starts from is not there
            index = difference(None, decode_entity(document))
        stage.scopes_added.update((scope, n) for scope in change.scopes)
    else:
        n = row.n
        stage.update(n, (change.modified_at, expires_us, document))
        if type_set != row.type_set:
            stage.retype(n, type_set)
        if change.scopes != change.scopes_before:
            for scope in change.scopes_before:
                stage.drop_scope((scope, n))
            stage.scopes_added.update((scope, n) for scope in change.scopes)
    stage_difference(connection, n, type_set, index, is_new=row is None)
    connection.keep_row(change.id, EntityRow(n, type_set, change.modified_at))
    if len(document) > RECENT_BYTES_MAX:
        connection.large.add(change.id)
    return n


def _end(connection: Writer, row: EntityRow, change: PlainChange) -> int:
    stage_difference(connection, row.n, row.type_set, Difference(*change.indexed))
    for scope in change.scopes_before:
        connection.stage.drop_scope((scope, row.n))
    connection.stage.delete(row.n)
    connection.rows.pop(change.id, None)
    return row.n


def _lost_life(connection: Writer, id_: str) -> int:
    """The number of an entity that is deleted and was not there any more."""
    row = connection.execute("SELECT n FROM temporal_entities WHERE id = ?", (id_,)).fetchone()
    if row is not None:
        return int(row[0])
    life = connection.new_life()
    connection.execute("INSERT INTO past_ended VALUES (?)", (life,))
    return life


def _sweep(connection: Writer, id_: str) -> None:
    """Take away an entity that is not as the change believes: it has expired and nobody has removed it yet."""
    connection.flush()
    n, type_set, document = connection.execute("SELECT n, type_set, document FROM entities WHERE id = ?", (id_,)).fetchone()
    connection.rows.pop(id_, None)
    stage, entity = connection.stage, decode_entity(document)
    stage.ids.add(id_)
    stage_difference(connection, n, type_set, difference(entity, None))
    for scope in entity.scopes:
        stage.drop_scope((scope, n))
    stage.delete(n)
    connection.flush()


def _note_past(connection: Writer, change: PlainChange, n: int, type_set: int, *, begins: bool) -> None:
    """What history and the log say of the change of entity number `n`."""
    stage, at_us = connection.stage, to_us(change.at) or 0
    scopes_text = _encode(change.scopes).decode()
    scopes: tuple[str, ...] = ()
    if change.attributes is None:
        stage.ended.append((at_us, change.id))
    else:
        scopes = change.scopes
        if begins:
            stage.begun += (n, change.id, _encode(change.types).decode(), scopes_text, at_us, at_us)
    if scopes != change.scopes_before:
        from hanse.node.store.history_writes import scopes_row  # which makes its rows as this module does

        stage.history += (stage.next_seq(connection), *scopes_row(connection, n, scopes, change.at))
    seq = stage.next_seq(connection)
    log_scopes = scopes_text if change.scopes else NO_TEXT
    stage.log += (at_us, change.kind, change.operation, change.id, type_set, log_scopes, len(change.told) // TOLD, seq)
    keys, names, history = new_keys(), connection.names, stage.history
    for name, dataset, instance_id, observed_us, created_us, deleted_us, data in rows(change.told, TOLD):
        number = names.get(name) or connection.name_id(name)
        key = key_of(instance_id) if instance_id else next(keys)
        history += (seq, n, number, dataset, key, observed_us, created_us, at_us, deleted_us, data)
        seq += 1


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
