"""Records of the lake, as rows of the history that they were made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from hanse.ngsild.temporal import gone
from hanse.node.store.beside import Row
from hanse.node.store.history_search import Head
from hanse.node.store.removed import Removed
from hanse.node.store.times import to_us

ROWS_OF_RECORD: Final = 1 << 20
_BEFORE_ALL: Final = -(1 << 62)  # what the lake has came before what the history still has


class Record(NamedTuple):
    offset: int
    at_us: int
    kind: str
    entity: str
    past: str  # JSON, as the node's log says it


class _Attribute(Struct):
    """What the log says of an attribute if it is asked for the past; see `LoggedAttribute`."""

    name: str
    id: str = ""
    instance: msgspec.Raw = msgspec.Raw()  # nothing: it was deleted
    dataset: str | None = None
    kind: str = "Property"


class _Times(Struct):
    observed_at: str | None = msgspec.field(default=None, name="observedAt")
    created_at: str | None = msgspec.field(default=None, name="createdAt")


_attributes = msgspec.json.Decoder(list[_Attribute]).decode
_times = msgspec.json.Decoder(_Times).decode
_encode = msgspec.json.Encoder().encode


def rows(
    records: Iterable[Record], heads: Mapping[str, Head], removed: Mapping[str, Sequence[Removed]], upto_us: int
) -> Iterator[Row]:
    """What entities that are here have as their past, of what happened before a moment."""
    for record in _alive(records, heads):
        if record.at_us >= upto_us:
            continue
        without = removed.get(record.entity, ())
        for number, one in enumerate(_attributes(record.past)):
            if one.id and not any(_is_meant(some, one, record.offset) for some in without):
                yield _row(record, number, one)


def _alive(records: Iterable[Record], heads: Mapping[str, Head]) -> Iterator[Record]:
    """Not those of entities that were there before others of the same id, even if that was in the same microsecond."""
    at_birth: dict[str, list[Record]] = {}
    for record in records:
        born_us = heads[record.entity].created_us
        if record.at_us == born_us:
            at_birth.setdefault(record.entity, []).append(record)
        elif record.at_us > born_us:
            yield record
    for some in at_birth.values():
        first = max((one.offset for one in some if one.kind == "created"), default=0)
        yield from (one for one in some if one.offset >= first and one.kind != "deleted")


def _is_meant(removed: Removed, one: _Attribute, offset: int) -> bool:
    if removed.instance_id is not None:
        return removed.instance_id == one.id
    return removed.attribute == one.name and offset <= removed.upto and (removed.every or removed.dataset == one.dataset)


def _row(record: Record, number: int, one: _Attribute) -> Row:
    at_us = record.at_us
    seq = _BEFORE_ALL + record.offset * ROWS_OF_RECORD + number
    instance = bytes(one.instance)
    if not instance:
        instance = _encode(gone(one.kind, one.dataset))
        return Row(seq, record.entity, one.name, one.dataset, one.id, None, at_us, at_us, at_us, instance)
    times = _times(instance)
    observed_us = to_us(times.observed_at) if times.observed_at else None
    created_us = (to_us(times.created_at) if times.created_at else None) or at_us
    return Row(seq, record.entity, one.name, one.dataset, one.id, observed_us, created_us, at_us, None, instance)
