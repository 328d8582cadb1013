"""A change of an entity in plain values: what the tables will say of it.

Whoever writes it has nothing of it to look at again. Of a batch it is made where the change is accepted, and at once, while what
it is about is at hand: soon that would have left the processor's caches, and would be held in memory all the while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw, Struct

from hanse.ngsild.entity import NULL, VALUE_MEMBER
from hanse.node.store.indexing import Difference, difference, rows, scalar_fact
from hanse.node.store.staging import NEVER, NO_TEXT
from hanse.node.store.times import to_us

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hanse.ngsild.entity import Change, Entity, Instance, Kind

# an attribute's name, datasetId, instanceId ("": none yet), when it was observed, created and deleted, and the instance in JSON
_Told: TypeAlias = tuple[str, str, str, int | None, int, int, bytes]

TOLD: Final = 7  # values

_encode: Final = msgspec.json.Encoder().encode


class PlainChange(NamedTuple):
    id: str
    kind: Kind
    operation: str
    at: str
    types: tuple[str, ...]
    scopes: tuple[str, ...]  # now; of an entity that ends, those that it had
    scopes_before: tuple[str, ...]
    begins: bool  # as an entity, or with other types or scopes
    was: str | None  # when the state before was made; None: there was none
    created_at: str
    modified_at: str
    expires_at: str | None
    attributes: list[Any] | None  # name, and its instances in JSON with commas between them; None: the entity ends
    told: list[Any]  # to history: `_Told`, one value after the other
    indexed: tuple[list[Any], ...]  # a `Difference`

    def document(self) -> bytes:
        """The entity as it is now, in the very bytes of `encode_entity`."""
        return _encode(
            _Document(
                id=self.id,
                types=self.types,
                scopes=self.scopes,
                attributes={name: Raw(b"[%b]" % instances) for name, instances in rows(self.attributes or [], 2)},
                created_at=self.created_at,
                modified_at=self.modified_at,
                expires_at=self.expires_at,
            )
        )


class _Document(Struct, kw_only=True, omit_defaults=True, gc=False):
    """An `Entity` whose attributes are in JSON already."""

    id: str
    types: tuple[str, ...]
    scopes: tuple[str, ...] = ()
    attributes: dict[str, Raw] = {}
    created_at: str = ""
    modified_at: str = ""
    expires_at: str | None = None


def plain_change(change: Change, operation: str, *, with_attributes: bool = True) -> PlainChange:
    """`with_attributes`: so that `document` can be asked for."""
    before, after, entity = change.before, change.after, change.entity
    attributes: list[Any] | None = None
    if before is None and after is not None and (begun := _begun(after, to_us(change.at) or 0)) is not None:
        attributes, told, indexed = begun
    else:
        known: dict[int, bytes] = {}
        if after is not None:
            attributes = _in_json(after, known) if with_attributes else []
        told, indexed = _told(change, known), difference(before, after)
    return PlainChange(
        entity.id,
        change.kind,
        operation,
        change.at,
        entity.types,
        entity.scopes,
        before.scopes if before is not None else (),
        after is not None and (before is None or before.types != after.types or before.scopes != after.scopes),
        before.modified_at if before is not None else None,
        entity.created_at,
        entity.modified_at,
        entity.expires_at,
        attributes,
        told,
        tuple(indexed),
    )


def _begun(entity: Entity, at_us: int) -> tuple[list[Any], list[Any], Difference] | None:
    """All of a new entity whose attributes are as nearly all are, in one go; None: look closer."""
    attributes: list[Any] = []
    told: list[Any] = []
    facts: list[Any] = []
    for name, instances in entity.attributes.items():
        fact = scalar_fact(instances)
        if fact is None:
            return None
        data = _encode(instances[0])
        attributes += (name, data)
        told += _told_of(name, instances[0], at_us, data)
        facts += (name, *fact)
    return attributes, told, Difference([], facts, [], [])


def _in_json(entity: Entity, known: dict[int, bytes]) -> list[Any]:
    """The attributes of an entity; `known` gets each of their instances, by its identity."""
    attributes: list[Any] = []
    for name, instances in entity.attributes.items():
        some = []
        for instance in instances:
            data = known[id(instance)] = _encode(instance)
            some.append(data)
        attributes += (name, b",".join(some))
    return attributes


def _told(change: Change, known: dict[int, bytes]) -> list[Any]:
    at_us = to_us(change.at) or 0
    told: list[Any] = []
    for name, instance, was in _instances(change):
        if instance is not None:
            told += _told_of(name, instance, at_us, known.get(id(instance)) or _encode(instance))
        elif was is not None:
            gone = _gone(was)
            told += (name, gone.get("datasetId", NO_TEXT), NO_TEXT, NEVER, at_us, at_us, _encode(gone))
    return told


def _told_of(name: str, instance: Instance, at_us: int, data: bytes) -> _Told:
    get = instance.get
    observed_at, created_at = get("observedAt"), get("createdAt")
    observed_us = to_us(observed_at) if observed_at else NEVER
    created_us = (to_us(created_at) if created_at else None) or at_us
    return name, get("datasetId", NO_TEXT), get("instanceId", NO_TEXT), observed_us, created_us, NEVER, data


def _instances(change: Change) -> Iterator[tuple[str, Instance | None, Instance | None]]:
    """What has happened to instances of attributes: its name, what it is now, and what it was. All those of an entity that begins
    or ends need not be said in the change.
    """
    if change.attributes or change.kind == "updated":
        return ((each.name, each.after, each.before) for each in change.attributes)
    attributes = change.entity.attributes.items()
    if change.after is not None:
        return ((name, instance, None) for name, instances in attributes for instance in instances)
    return ((name, None, instance) for name, instances in attributes for instance in instances)


def _gone(instance: Instance) -> Instance:
    """What history says of a deleted attribute: that there is none, in NGSI-LD's own word."""
    kind = instance.get("type", "Property")
    gone = {"type": kind, VALUE_MEMBER.get(kind, "value"): NULL}
    return gone | {"datasetId": instance["datasetId"]} if "datasetId" in instance else gone
