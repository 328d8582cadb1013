"""What the temporal API writes to the past of entities. Each write finds out itself whether what it is about is there."""

from __future__ import annotations

import sqlite3
from typing import Final

import msgspec
from msgspec import Struct

from hanse.ngsild.entity import Attributes, Change, Instance
from hanse.ngsild.errors import ResourceNotFound
from hanse.ngsild.temporal import SCOPE, gone, patched
from hanse.ngsild.temporal_parsing import to_text, to_us
from hanse.node.store.connection import Writer
from hanse.node.store.history import BY_DEFAULT, datasets, is_known
from hanse.node.store.writes import new_instance_id

_ADD: Final = """INSERT INTO history
    (entity, attribute, dataset, instance_id, observed_us, created_us, modified_us, deleted_us, instance)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_PUT_ENTITY: Final = """INSERT INTO temporal_entities(id, types, scopes, created_us, modified_us) VALUES (?1, ?2, '[]', ?3, ?3)
    ON CONFLICT(id) DO UPDATE SET types = ?2, modified_us = ?3, deleted_us = NULL"""
_SET_BY_STORE: Final = frozenset({"instanceId", "deletedAt"})
_decode_names = msgspec.json.Decoder(tuple[str, ...]).decode
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


def forget(connection: sqlite3.Connection, id_: str) -> None:
    """Remove everything that is known of an entity's past."""
    connection.execute("DELETE FROM history WHERE entity = ?", (id_,))
    connection.execute("DELETE FROM temporal_entities WHERE id = ?", (id_,))


def follow_scopes(connection: Writer, change: Change) -> None:
    """Note it in the past if a change of the present has changed the scopes."""
    before = change.before.scopes if change.before is not None else ()
    after = change.after.scopes if change.after is not None else ()
    if before != after:
        add_scopes(connection, change.entity.id, after, change.at)


def add_scopes(connection: Writer, id_: str, scopes: tuple[str, ...], at: str) -> None:
    """The scopes from a moment on, which is when they were observed, too; having none any more is a deletion."""
    us = to_us(at)
    instance: Instance = {"type": "Property", "value": list(scopes)}
    if scopes:
        instance["observedAt"] = at
    row = (id_, SCOPE, None, new_instance_id(), us if scopes else None, us, us, None if scopes else us, _encode(instance))
    connection.execute(_ADD, row)


class AddInstances(Struct):
    """Add instances to the past of an entity, or replace those that were observed at the same time; `created`: it had none."""

    id: str
    types: tuple[str, ...]
    attributes: Attributes
    at: str
    may_create: bool = True
    created: bool = False

    def apply(self, connection: Writer, /) -> None:
        at_us = to_us(self.at) or 0
        row = connection.execute("SELECT types FROM temporal_entities WHERE id = ? AND deleted_us IS NULL", (self.id,)).fetchone()
        if row is None and not self.may_create:
            raise _no_entity(self.id)
        self.created = row is None
        types = tuple(dict.fromkeys((*(_decode_names(row[0]) if row else ()), *self.types)))
        connection.execute(_PUT_ENTITY, (self.id, _encode(types).decode(), at_us))
        for name, instances in self.attributes.items():
            for instance in instances:
                self._add(connection, name, instance, at_us)
        if scopes := self.attributes.get(SCOPE):
            newest = max(scopes, key=lambda instance: to_us(instance.get("observedAt", self.at)) or 0)
            value = _encode(newest["value"]).decode()
            connection.execute("UPDATE temporal_entities SET scopes = ? WHERE id = ?", (value, self.id))

    def _add(self, connection: Writer, name: str, instance: Instance, at_us: int) -> None:
        observed_us = to_us(instance.get("observedAt", ""))
        dataset = instance.get("datasetId")
        if observed_us is not None:
            connection.execute(
                f"""DELETE FROM history WHERE entity = ? AND attribute = ? AND dataset IS ? AND {BY_DEFAULT} = ?
                AND observed_us IS NOT NULL AND deleted_us IS NULL""",  # noqa: S608
                (self.id, name, dataset, observed_us),
            )
        row = (self.id, name, dataset, new_instance_id(), observed_us, at_us, at_us, None, _encode(_kept(instance)))
        connection.execute(_ADD, row)


class RemoveEvolution(Struct, frozen=True):
    id: str

    def apply(self, connection: Writer, /) -> None:
        _check_known(connection, self.id)
        forget(connection, self.id)


class RemoveAttribute(Struct, frozen=True):
    """Remove a series, or with `every` all series of an attribute."""

    id: str
    attribute: str
    dataset: str | None = None
    every: bool = False

    def apply(self, connection: Writer, /) -> None:
        _check_known(connection, self.id)
        which, values = ("", ()) if self.every else (" AND dataset IS ?", (self.dataset,))
        found = connection.execute(
            f"DELETE FROM history WHERE entity = ? AND attribute = ?{which}",  # noqa: S608
            (self.id, self.attribute, *values),
        )
        if found.rowcount == 0:
            raise _no_attribute(self.id)


class EndAttribute(Struct, frozen=True):
    """Note that an attribute is deleted now, for an entity that has a past and no present."""

    id: str
    attribute: str
    at: str
    dataset: str | None = None
    every: bool = False

    def apply(self, connection: Writer, /) -> None:
        _check_known(connection, self.id)
        at_us = to_us(self.at)
        ended = False
        for dataset in datasets(connection, self.id, self.attribute) if self.every else (self.dataset,):
            kind = _kind_now(connection, self.id, self.attribute, dataset)
            if kind is None:
                continue
            ended = True
            if self.attribute == SCOPE:
                add_scopes(connection, self.id, (), self.at)
                connection.execute("UPDATE temporal_entities SET scopes = '[]' WHERE id = ?", (self.id,))
            else:
                instance = _encode(gone(kind, dataset))
                row = (self.id, self.attribute, dataset, new_instance_id(), None, at_us, at_us, at_us, instance)
                connection.execute(_ADD, row)
        if not ended:
            raise _no_attribute(self.id)


def _kind_now(connection: sqlite3.Connection, id_: str, attribute: str, dataset: str | None) -> str | None:
    """What kind of attribute the end of a series is; None: it has been deleted, or there is none."""
    row = connection.execute(
        """SELECT instance, deleted_us FROM history WHERE entity = ? AND attribute = ? AND dataset IS ?
        ORDER BY seq DESC LIMIT 1""",
        (id_, attribute, dataset),
    ).fetchone()
    return None if row is None or row[1] is not None else msgspec.json.decode(_decode(row[0])["type"], type=str)


class ChangeInstance(Struct, frozen=True):
    """Change one instance, which keeps its id, its datasetId and the time of its creation: members that are said, no others."""

    id: str
    attribute: str
    instance_id: str
    patch: Instance
    at: str

    def apply(self, connection: Writer, /) -> None:
        seq, created_us, dataset = _place(connection, self.id, self.attribute, self.instance_id)
        (raw,) = connection.execute("SELECT instance FROM history WHERE seq = ?", (seq,)).fetchone()
        instance = patched(msgspec.json.decode(raw), self.patch) | {"createdAt": to_text(created_us), "modifiedAt": self.at}
        instance.pop("datasetId", None)
        if dataset is not None:
            instance["datasetId"] = dataset
        connection.execute(
            "UPDATE history SET observed_us = ?, modified_us = ?, deleted_us = NULL, instance = ? WHERE seq = ?",
            (to_us(instance.get("observedAt", "")), to_us(self.at), _encode(_kept(instance)), seq),
        )


class RemoveInstance(Struct, frozen=True):
    id: str
    attribute: str
    instance_id: str

    def apply(self, connection: Writer, /) -> None:
        seq, _, _ = _place(connection, self.id, self.attribute, self.instance_id)
        connection.execute("DELETE FROM history WHERE seq = ?", (seq,))


def _place(connection: sqlite3.Connection, id_: str, attribute: str, instance_id: str) -> tuple[int, int, str | None]:
    """Number, creation and dataset of one instance."""
    _check_known(connection, id_)
    found: tuple[int, int, str | None] | None = connection.execute(
        "SELECT seq, created_us, dataset FROM history WHERE entity = ? AND attribute = ? AND instance_id = ?",
        (id_, attribute, instance_id),
    ).fetchone()
    if found is None:
        raise ResourceNotFound(f"the past of {id_!r} has no instance {instance_id!r} of this attribute")
    return found


def _kept(instance: Instance) -> Instance:
    return {name: value for name, value in instance.items() if name not in _SET_BY_STORE}


def _check_known(connection: sqlite3.Connection, id_: str) -> None:
    if not is_known(connection, id_):
        raise _no_entity(id_)


def _no_entity(id_: str) -> ResourceNotFound:
    return ResourceNotFound(f"nothing is known of the past of {id_!r}")


def _no_attribute(id_: str) -> ResourceNotFound:
    return ResourceNotFound(f"the past of {id_!r} has no such attribute, or none with this datasetId")
