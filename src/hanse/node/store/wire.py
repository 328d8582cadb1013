"""Writes as bytes, on their way to the process that writes.

Nearly all are changes of entities, which are plain values: `marshal` takes half the time of `pickle`, which takes the rest.
"""

from __future__ import annotations

import marshal
import pickle
from collections.abc import Iterator
from struct import Struct as Layout
from typing import Any, Final, NamedTuple, TypeAlias

from hanse.node.store.plain_change import PlainChange
from hanse.node.store.writes import SaveChange, Write

_HEAD: Final = Layout(">I")  # the length of what follows
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


def tasks_part(tasks: list[tuple[Write, ...]]) -> bytes:
    """Some of the tasks of an order."""
    return marshal.dumps([[_plain(write) for write in task] for task in tasks])


def order_frame(heard: int, first: int, parts: list[bytes]) -> bytes:
    """An `Order` whose tasks are in parts."""
    return _frame(marshal.dumps((heard, first, parts)))


def read_order(body: bytes) -> Order:
    heard, first, parts = marshal.loads(body)  # noqa: S302  from our own process
    tasks = [tuple(map(_write, task)) for part in parts for task in marshal.loads(part)]  # noqa: S302
    return Order(heard, first, tasks)


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
    return tuple(write.plain) if isinstance(write, SaveChange) else pickle.dumps(write, pickle.HIGHEST_PROTOCOL)


def _write(plain: _Plain | bytes) -> Write:
    if isinstance(plain, tuple):
        return SaveChange.of(PlainChange(*plain))
    write: Write = pickle.loads(plain)  # noqa: S301  from our own process
    return write
