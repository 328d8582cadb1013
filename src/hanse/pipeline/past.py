"""What a node needs of its records to answer from the lake as if it still had them: columns that the option `past` adds.

| column | type | |
| --- | --- | --- |
| tenant | string | whose log it is; empty: the default tenant's |
| typeId | string | the first of the entity's types by its whole name, whatever short names the table has |
| pastFrom, pastUntil | timestamp | the earliest and the latest time of its attributes: observedAt, or when they were accepted |
| past | string | JSON: the attributes as the node keeps them, by whole names, with the ids of their instances |

They double what a record takes, so that only those tables have them that a node is to answer from (`[lake]` in its settings).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from hanse.ngsild.temporal_parsing import to_us

if TYPE_CHECKING:
    import pyarrow as pa

PAST: Final = {
    "tenant": "string",
    "typeId": "string",
    "pastFrom": "timestamp",
    "pastUntil": "timestamp",
    "past": "string",
}


class _Observed(Struct):
    observed_at: str | None = msgspec.field(default=None, name="observedAt")


class _Attribute(Struct):
    instance: _Observed | None = None


_attributes = msgspec.json.Decoder(list[_Attribute]).decode


def past_columns(sent: pa.RecordBatch, tenant: str) -> list[Any]:
    """Of what a node has sent that was asked for `past`; in the order of `PAST`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    joined = pc.binary_join(sent.column("types"), "\n").dictionary_encode()
    first = pa.array([min(text.split("\n")) for text in joined.dictionary.to_pylist()], pa.string()).take(joined.indices)
    low, high = [], []
    for at_us, text in zip(sent.column("at").cast(pa.int64()).to_pylist(), sent.column("attributes").to_pylist(), strict=True):
        times = [_us(one.instance, at_us) for one in _attributes(text)]
        low.append(min(times, default=at_us))
        high.append(max(times, default=at_us))
    moment = pa.timestamp("us", tz="UTC")
    return [
        pa.repeat(pa.scalar(tenant, pa.string()), len(sent)),
        first,
        pa.array(low, pa.int64()).cast(moment),
        pa.array(high, pa.int64()).cast(moment),
        sent.column("attributes"),
    ]


def _us(instance: _Observed | None, at_us: int) -> int:
    """As the node has it: a time that is none does not count."""
    observed_us = to_us(instance.observed_at) if instance is not None and instance.observed_at else None
    return at_us if observed_us is None else observed_us
