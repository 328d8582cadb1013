"""What the temporal API writes to the past of entities.

Each write finds out itself whether what it is about is there. A write that fails costs the others of its batch time, so `check`
asks the same beforehand, of a reader; it also finds the row that is meant, which may take long, so that `apply` need not.
"""

from __future__ import annotations

import sqlite3
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from hanse.ngsild.entity import Attributes, Instance
from hanse.ngsild.errors import ResourceNotFound
from hanse.ngsild.temporal import SCOPE, gone, patched
from hanse.ngsild.temporal_parsing import to_text, to_us
from hanse.node.store.connection import Writer
from hanse.node.store.history import BY_DEFAULT, datasets, is_known
from hanse.node.store.instance_ids import new_key, text_of
from hanse.node.store.removed import forget_removed, note_instances, note_series
from hanse.node.store.staging import LAST_SEQ
from hanse.node.store.writes import Write

_ADD: Final = f"""INSERT INTO instances
    (seq, life, name, dataset, instance_id, observed_us, created_us, modified_us, deleted_us, instance)
    VALUES (1 + ({LAST_SEQ}), ?, ?, ?, ?, ?, ?, ?, ?, ?)"""  # noqa: S608
_PUT_ENTITY: Final = """INSERT INTO temporal_entities(n, id, types, scopes, created_us, modified_us)
    VALUES (?1, ?2, ?3, '[]', ?4, ?4)
    ON CONFLICT(id) DO UPDATE SET n = ?1, types = ?3, modified_us = ?4, deleted_us = NULL"""
_SET_BY_STORE: Final = frozenset({"instanceId", "deletedAt"})
_decode_names = msgspec.json.Decoder(tuple[str, ...]).decode
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


def forget(connection: sqlite3.Connection, id_: str) -> None:
    """Remove everything that is known of an entity's past."""
    connection.execute("DELETE FROM instances WHERE life = (SELECT n FROM temporal_entities WHERE id = ?)", (id_,))
    connection.execute("DELETE FROM temporal_entities WHERE id = ?", (id_,))
    forget_removed(connection, id_)


def scopes_row(connection: Writer, life: int, scopes: tuple[str, ...], at: str) -> tuple[object, ...]:
    """The scopes of an entity from a moment on, which is when they were observed, too; having none any more is a deletion."""
    us = to_us(at)
    instance: Instance = {"type": "Property", "value": list(scopes)}
    if scopes:
        instance["observedAt"] = at
    name, observed_us, deleted_us = connection.name_id(SCOPE), us if scopes else None, None if scopes else us
    return life, name, None, new_key(), observed_us, us, us, deleted_us, _encode(instance)


class CheckedWrite(Write, Protocol):
    def check(self, connection: sqlite3.Connection) -> None:
        """Raises ResourceNotFound, and BadRequestData, if the write would."""


class AddInstances(Struct, frozen=True):
    """Add instances to the past of an entity, or replace those that were observed at the same time; tells whether it had none."""

    id: str
    types: tuple[str, ...]
    attributes: Attributes
    at: str
    may_create: bool = True

    def check(self, connection: sqlite3.Connection) -> None:
        if not self.may_create:
            _check_known(connection, self.id)

    def apply(self, connection: Writer, /) -> bool:
        connection.flush()
        self.check(connection)
        at_us = to_us(self.at) or 0
        row = connection.execute("SELECT types FROM temporal_entities WHERE id = ? AND deleted_us IS NULL", (self.id,)).fetchone()
        types = tuple(dict.fromkeys((*(_decode_names(row[0]) if row else ()), *self.types)))
        life = connection.life(self.id)
        connection.execute(_PUT_ENTITY, (life, self.id, _encode(types).decode(), at_us))
        for name, instances in self.attributes.items():
            for instance in instances:
                self._add(connection, life, name, instance, at_us)
        if scopes := self.attributes.get(SCOPE):
            newest = max(scopes, key=lambda instance: to_us(instance.get("observedAt", self.at)) or 0)
            value = _encode(newest["value"]).decode()
            connection.execute("UPDATE temporal_entities SET scopes = ? WHERE id = ?", (value, self.id))
        return row is None

    def _add(self, connection: Writer, life: int, name: str, instance: Instance, at_us: int) -> None:
        number = connection.name_id(name)
        observed_us = to_us(instance.get("observedAt", ""))
        dataset = instance.get("datasetId")
        if observed_us is not None:
            replaced = connection.execute(
                f"""DELETE FROM instances WHERE life = ? AND name = ? AND dataset IS ? AND {BY_DEFAULT} = ?
                AND observed_us IS NOT NULL AND deleted_us IS NULL RETURNING instance_id""",  # noqa: S608
                (life, number, dataset, observed_us),
            ).fetchall()
            note_instances(connection, self.id, name, (text_of(key) for (key,) in replaced))
        row = (life, number, dataset, new_key(), observed_us, at_us, at_us, None, _encode(_kept(instance)))
        connection.execute(_ADD, row)


class RemoveEvolution(Struct, frozen=True):
    id: str

    def check(self, connection: sqlite3.Connection) -> None:
        _check_known(connection, self.id)

    def apply(self, connection: Writer, /) -> None:
        connection.flush()
        self.check(connection)
        forget(connection, self.id)


class RemoveAttribute(Struct, frozen=True):
    """Remove a series, or with `every` all series of an attribute."""

    id: str
    attribute: str
    dataset: str | None = None
    every: bool = False

    def check(self, connection: sqlite3.Connection) -> None:
        _check_known(connection, self.id)
        if connection.execute(f"SELECT 1 FROM history WHERE {self._which} LIMIT 1", self._values).fetchone() is None:  # noqa: S608
            raise _no_attribute(self.id)

    def apply(self, connection: Writer, /) -> None:
        connection.flush()
        self.check(connection)
        connection.execute(f"DELETE FROM instances WHERE seq IN (SELECT seq FROM history WHERE {self._which})", self._values)  # noqa: S608
        note_series(connection, self.id, self.attribute, self.dataset, every=self.every)

    @property
    def _which(self) -> str:
        return "entity = ? AND attribute = ?" + ("" if self.every else " AND dataset IS ?")

    @property
    def _values(self) -> tuple[str | None, ...]:
        return (self.id, self.attribute) if self.every else (self.id, self.attribute, self.dataset)


class EndAttribute(Struct, frozen=True):
    """Note that an attribute is deleted now, for an entity that has a past and no present."""

    id: str
    attribute: str
    at: str
    dataset: str | None = None
    every: bool = False

    def check(self, connection: sqlite3.Connection) -> None:
        _check_known(connection, self.id)
        if not self._kinds(connection):
            raise _no_attribute(self.id)

    def apply(self, connection: Writer, /) -> None:
        connection.flush()
        self.check(connection)
        at_us, life, name = to_us(self.at), connection.life(self.id), connection.name_id(self.attribute)
        for dataset, kind in self._kinds(connection).items():
            if self.attribute == SCOPE:
                connection.execute(_ADD, scopes_row(connection, life, (), self.at))
                connection.execute("UPDATE temporal_entities SET scopes = '[]' WHERE id = ?", (self.id,))
            else:
                instance = _encode(gone(kind, dataset))
                connection.execute(_ADD, (life, name, dataset, new_key(), None, at_us, at_us, at_us, instance))

    def _kinds(self, connection: sqlite3.Connection) -> dict[str | None, str]:
        """Which datasets are meant that are not over yet, and what kind of attribute each is."""
        meant = datasets(connection, self.id, self.attribute) if self.every else (self.dataset,)
        kinds = {dataset: _kind_now(connection, self.id, self.attribute, dataset) for dataset in meant}
        return {dataset: kind for dataset, kind in kinds.items() if kind is not None}


def _kind_now(connection: sqlite3.Connection, id_: str, attribute: str, dataset: str | None) -> str | None:
    """What kind of attribute the end of a series is; None: it has been deleted, or there is none."""
    row = connection.execute(
        f"""SELECT instance, deleted_us FROM history WHERE entity = ? AND attribute = ? AND dataset IS ?
        ORDER BY {BY_DEFAULT} DESC, seq DESC LIMIT 1""",  # noqa: S608
        (id_, attribute, dataset),
    ).fetchone()
    return None if row is None or row[1] is not None else msgspec.json.decode(_decode(row[0])["type"], type=str)


class ChangeInstance(Struct):
    """Change one instance, which keeps its id, its datasetId and the time of its creation: members that are said, no others."""

    id: str
    attribute: str
    instance_id: str
    patch: Instance
    at: str
    seq: int | None = None

    def check(self, connection: sqlite3.Connection) -> None:
        self.seq = _found(connection, self.id, self.attribute, self.instance_id, self.seq)
        self._changed(connection)

    def apply(self, connection: Writer, /) -> None:
        connection.flush()
        self.check(connection)
        instance = self._changed(connection)
        connection.execute(
            "UPDATE instances SET observed_us = ?, modified_us = ?, deleted_us = NULL, instance = ? WHERE seq = ?",
            (to_us(instance.get("observedAt", "")), to_us(self.at), _encode(instance), self.seq),
        )
        note_instances(connection, self.id, self.attribute, (self.instance_id,))

    def _changed(self, connection: sqlite3.Connection) -> Instance:
        created_us, dataset, raw = connection.execute(
            "SELECT created_us, dataset, instance FROM main.instances WHERE seq = ?", (self.seq,)
        ).fetchone()
        instance = _kept(patched(msgspec.json.decode(raw), self.patch))
        instance |= {"createdAt": to_text(created_us), "modifiedAt": self.at}
        instance.pop("datasetId", None)
        return instance if dataset is None else instance | {"datasetId": dataset}


class RemoveInstance(Struct):
    id: str
    attribute: str
    instance_id: str
    seq: int | None = None

    def check(self, connection: sqlite3.Connection) -> None:
        self.seq = _found(connection, self.id, self.attribute, self.instance_id, self.seq)

    def apply(self, connection: Writer, /) -> None:
        connection.flush()
        self.check(connection)
        connection.execute("DELETE FROM instances WHERE seq = ?", (self.seq,))
        note_instances(connection, self.id, self.attribute, (self.instance_id,))


def _found(connection: sqlite3.Connection, id_: str, attribute: str, instance_id: str, seq: int | None) -> int:
    """The number of an instance, which is known already if `seq` is given. Raises ResourceNotFound."""
    _check_known(connection, id_)
    known = "" if seq is None else " AND seq = ?"
    row = connection.execute(
        f"SELECT seq FROM history WHERE entity = ? AND attribute = ? AND instance_id = ?{known}",  # noqa: S608
        (id_, attribute, instance_id) if seq is None else (id_, attribute, instance_id, seq),
    ).fetchone()
    if row is None:
        raise ResourceNotFound(f"the past of {id_!r} has no instance {instance_id!r} of this attribute")
    return int(row[0])


def _kept(instance: Instance) -> Instance:
    return {name: value for name, value in instance.items() if name not in _SET_BY_STORE}


def _check_known(connection: sqlite3.Connection, id_: str) -> None:
    if not is_known(connection, id_):
        raise _no_entity(id_)


def _no_entity(id_: str) -> ResourceNotFound:
    return ResourceNotFound(f"nothing is known of the past of {id_!r}")


def _no_attribute(id_: str) -> ResourceNotFound:
    return ResourceNotFound(f"the past of {id_!r} has no such attribute, or none with this datasetId")
