"""Writes as bytes, on their way to the process that writes.

Nearly all are changes of entities. They go as plain values, or as what they are made of, if nobody has made them plain: `marshal`
takes half the time of `pickle`, which takes the rest. Of an entity that was there and is, only those attributes go that are other
objects than before, and the document of the whole.
"""

from __future__ import annotations

import marshal
import pickle
from collections.abc import Callable, Iterator
from struct import Struct as Layout
from typing import Any, Final, NamedTuple, TypeAlias

from hanse.ngsild.entity import AttributeChange, Attributes, Change, Entity, encode_entity
from hanse.node.store.plain_change import PlainChange
from hanse.node.store.writes import SaveChange, Write

_HEAD: Final = Layout(">I")  # the length of what follows
_ORDER: Final = Layout(">QQ")  # what an order has before its tasks
_PLAIN_CHANGE: Final = len(PlainChange._fields)
_Plain: TypeAlias = tuple[Any, ...]


class Order(NamedTuple):
    """What the node sends."""

    heard: int  # how many reports with failures it has heard when it sent this
    first: int  # the number of the first task
    tasks: list[tuple[Write, ...]]


class Report(NamedTuple):
    """What it hears."""

    upto: int  # all tasks up to this number are settled
    failed: list[tuple[int, Exception]]
    outcomes: list[tuple[int, object]]
    large: set[str]  # entities that are
    dead_letters: int


def tasks_bytes(tasks: list[tuple[Write, ...]]) -> bytes:
    """The tasks of an order."""
    try:
        return _dumped(tasks, _plain)
    except (ValueError, TypeError, RecursionError):  # a value that JSON has no word for
        return _dumped(tasks, _pickled)


def _dumped(tasks: list[tuple[Write, ...]], plain: Callable[[Write], _Plain | bytes]) -> bytes:
    return marshal.dumps([[plain(write) for write in task] for task in tasks])


def order_frame(heard: int, first: int, tasks: bytes) -> bytes:
    """An `Order` whose tasks are bytes already."""
    return _frame(_ORDER.pack(heard, first) + tasks)


def read_order(body: bytes) -> Order:
    heard, first = _ORDER.unpack_from(body)
    tasks = marshal.loads(memoryview(body)[_ORDER.size :])  # noqa: S302  from our own process
    return Order(heard, first, [tuple(map(_write, task)) for task in tasks])


def report_frame(report: Report) -> bytes:
    return _frame(pickle.dumps(tuple(report), pickle.HIGHEST_PROTOCOL))


def read_report(body: bytes) -> Report:
    return Report(*pickle.loads(body))  # noqa: S301  from our own process


def _frame(body: bytes) -> bytes:
    return _HEAD.pack(len(body)) + body


class Frames:
    """Cuts what comes in pieces into what was sent."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def fed(self, data: bytes) -> Iterator[bytes]:
        buffer = self._buffer
        buffer += data
        at = 0
        while len(buffer) - at >= _HEAD.size:
            end = at + _HEAD.size + _HEAD.unpack_from(buffer, at)[0]
            if len(buffer) < end:
                break
            yield bytes(memoryview(buffer)[at + _HEAD.size : end])
            at = end
        del buffer[:at]


def _plain(write: Write) -> _Plain | bytes:
    if not isinstance(write, SaveChange):
        return _pickled(write)
    change = write.change
    if change is None:
        return tuple(write.make_plain())
    before, after = change.before, change.after
    if before is None or after is None:  # all attributes begin, or end
        return write.operation, change.kind, change.at, _plain_entity(before), _plain_entity(after), (), None
    old, new = before.attributes, after.attributes
    if before.types == after.types:  # else the indexes of all follow
        old = {name: known for name, known in old.items() if new.get(name) is not known}
        new = {name: known for name, known in new.items() if before.attributes.get(name) is not known}
    attributes = [(a.name, a.kind, a.before, a.after) for a in change.attributes]
    plain_before, plain_after = _plain_entity(before, old), _plain_entity(after, new)
    return write.operation, change.kind, change.at, plain_before, plain_after, attributes, encode_entity(after)


def _plain_entity(entity: Entity | None, attributes: Attributes | None = None) -> _Plain | None:
    if entity is None:
        return None
    e = entity
    return e.id, e.types, e.scopes, e.attributes if attributes is None else attributes, e.created_at, e.modified_at, e.expires_at


def _pickled(write: Write) -> bytes:
    return pickle.dumps(write, pickle.HIGHEST_PROTOCOL)


def _write(plain: _Plain | bytes) -> Write:
    if isinstance(plain, bytes):
        write: Write = pickle.loads(plain)  # noqa: S301  from our own process
        return write
    if len(plain) == _PLAIN_CHANGE:
        return SaveChange.of(PlainChange(*plain))
    operation, kind, at, before, after, attributes, document = plain
    changes = tuple([AttributeChange(*change) for change in attributes])
    return SaveChange(Change(kind, at, _entity(before), _entity(after), changes), operation, document)


def _entity(plain: _Plain | None) -> Entity | None:
    if plain is None:
        return None
    id_, types, scopes, attributes, created_at, modified_at, expires_at = plain
    return Entity(
        id=id_,
        types=types,
        scopes=scopes,
        attributes=attributes,
        created_at=created_at,
        modified_at=modified_at,
        expires_at=expires_at,
    )
