"""A lake of a node's log, for tests without Spark: what the source makes of the log, in files as Spark's sink leaves them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hanse.node.http.log import _arrow
from hanse.node.store import Store
from hanse.node.store.log import Wanted, read_page
from hanse.node.store.times import now_us
from hanse.node.store.upkeep import Upkeep
from hanse.pipeline.schema import Layout

WHOLE = Wanted(places=True, past=True)
MARGIN_US = 60_000_000  # time goes on until it is looked at


def records(store: Store, after: int = 0, node: str = "hanse", tenant: str | None = "") -> pa.Table:
    """The log behind an offset, as the source makes it."""
    page = read_page(store.reader, after, None, 100_000, WHOLE)
    layout = Layout(past_of=tenant)
    with pa.ipc.open_stream(_arrow(page, places=True)) as sent:
        return pa.Table.from_batches([layout.batch(node, batch) for batch in sent], layout.schema)


def land(lake: Path, table: pa.Table, batch: int) -> None:
    """Files in the table raw, by day and type, and their entry in Spark's log."""
    incoming = lake / "raw" / "incoming"
    (incoming / "_spark_metadata").mkdir(parents=True, exist_ok=True)
    days = pc.strftime(table["at"], "%Y-%m-%d")
    entries = ["v1"]
    for day in sorted(set(days.to_pylist())):
        for type_ in sorted(set(table["type"].to_pylist())):
            part = table.filter(pc.and_(pc.equal(days, day), pc.equal(table["type"], type_))).drop_columns(["type"])
            if not len(part):
                continue
            file = incoming / f"date={day}" / f"type={type_}" / f"part-{batch}.parquet"
            file.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(part, file)
            entries.append(json.dumps({"path": file.resolve().as_uri(), "size": 1, "action": "add"}))
    (incoming / "_spark_metadata" / str(batch)).write_text("\n".join(entries) + "\n")


class Writes:
    """Something that is done by the one who writes."""

    def __init__(self, work: Callable[[Any], object]) -> None:
        self._work = work

    def apply(self, connection: Any, /) -> None:
        connection.flush()
        self._work(connection)


async def cut(store: Store, before_us: int, rows: int = 1_000_000) -> None:
    """Let go of the past before a moment, as the retention does; at most of so many rows at the old end."""
    upkeep = Upkeep(store._settings)
    upkeep._history_us = now_us() - before_us + MARGIN_US
    await store.submit(Writes(lambda writer: upkeep._trim_history(writer, rows)))
