"""How long a question about one day of the past takes from the lake, against the same from the node's own history.

    python benchmarks/bench_lake.py [--records N] [--json]

Two stores of the same log: one that has kept its history, and one that has let go of it and has the lake, which has one file for
each day, as `hanse lake compact` leaves it. No Spark and no HTTP: what is measured is the question alone, in threads as in a
node. A ratio says how many times as long the lake takes; nothing is asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console

from figures import Figure, show
from hanse.ngsild import operations
from hanse.ngsild.contexts import CORE
from hanse.ngsild.parsing import parse_entity, parse_fragment
from hanse.ngsild.query import EntityQuery, EntitySelector
from hanse.ngsild.representation import View
from hanse.ngsild.temporal_parsing import parse_temporal, to_us
from hanse.node.history import History
from hanse.node.http.log import _arrow
from hanse.node.lake import Lake
from hanse.node.settings import NodeSettings
from hanse.node.store import SaveChange, Store, Writer
from hanse.node.store.log import Wanted, read_page
from hanse.node.store.removed import raise_floor
from hanse.pipeline.lake_files import Table
from hanse.pipeline.schema import Layout

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

RECORDS = 200_000
DAYS = 10
STATIONS = 500
PAGE = 10_000
TIMES = 7
BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
STATION = "urn:ngsi-ld:AirQualityObserved:7"
DAY = {"timerel": "between", "timeAt": "2026-03-05T00:00:00Z", "endTimeAt": "2026-03-06T00:00:00Z"}
HOURLY = {"options": "aggregatedValues", "aggrMethods": "avg,max", "aggrPeriodDuration": "PT1H"}


class LetGo:
    """Of all of the past."""

    def apply(self, connection: Writer, /) -> None:
        connection.flush()
        connection.execute("DELETE FROM instances")
        end = to_us("2027-01-01T00:00:00Z") or 0
        raise_floor(connection, end, end)


async def fill(folder: Path, records: int) -> Store:
    store, rng = Store.open(folder), random.Random(5)
    for number in range(records):
        id_ = f"urn:ngsi-ld:AirQualityObserved:{number % STATIONS}"
        moment = BEGIN + timedelta(days=DAYS) * (number / records)
        now = moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
        quality = {"type": "Property", "value": rng.randrange(50, 100)}
        no2 = {"type": "Property", "value": round(rng.uniform(0, 200), 1), "observedAt": now, "precision": quality}
        old = store.latest(id_)
        if old is None:
            body = {"id": id_, "type": "AirQualityObserved", "no2": no2}
            change = operations.create(parse_entity(body, CORE, now), now)
        else:
            found = operations.append(old, parse_fragment({"no2": no2}, CORE, now), now).change
            assert found is not None
            change = found
        committed = store.submit(SaveChange(change, "upsert"))
        if number % 1000 == 999 or number == records - 1:
            await committed
    return store


def write_lake(store: Store, lake: Path) -> None:
    """As the source makes records, and Spark's sink files of them."""
    layout = Layout(past_of="")
    incoming = lake / "raw" / "incoming"
    (incoming / "_spark_metadata").mkdir(parents=True)
    after = batch = 0
    while (page := read_page(store.reader, after, None, PAGE, Wanted(past=True))).rows:
        with pa.ipc.open_stream(_arrow(page, places=False)) as sent:
            table = pa.Table.from_batches([layout.batch("hanse", one) for one in sent], layout.schema)
        entries, days = ["v1"], pc.strftime(table["at"], "%Y-%m-%d")
        for day in sorted(set(days.to_pylist())):
            file = incoming / f"date={day}" / "type=AirQualityObserved" / f"part-{batch}.parquet"
            file.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table.filter(pc.equal(days, day)).drop_columns(["type"]), file)
            entries.append(json.dumps({"path": file.resolve().as_uri(), "size": 1, "action": "add"}))
        (incoming / "_spark_metadata" / str(batch)).write_text("\n".join(entries) + "\n")
        after, batch = page.read, batch + 1
    Table(lake / "raw").compact()


async def milliseconds(ask: Callable[[], Awaitable[Any]]) -> float:
    await ask()
    took = []
    for _ in range(TIMES):
        began = perf_counter()
        await ask()
        took.append(1000 * (perf_counter() - began))
    return median(took)


async def measured(folder: Path, records: int) -> list[Figure]:
    whole = await fill(folder / "whole", records)
    write_lake(whole, folder / "lake")
    (folder / "part").mkdir()
    await whole.backup(folder / "part" / whole.path.name)
    part = Store.open(folder / "part")
    await part.submit(LetGo())
    lake = Lake(msgspec.convert({"lake": {"path": str(folder / "lake")}}, NodeSettings))
    await lake.start()
    await lake.serve(part, "")
    stations = EntityQuery(selectors=(EntitySelector(types=((CORE.expand_type("AirQualityObserved"),),)),), limit=20)
    day, hourly, figures = parse_temporal(DAY), parse_temporal(DAY | HOURLY), []
    for name, ask in (
        ("a day of one entity", lambda store: History(store).retrieve(STATION, day, View())),
        ("a day of one entity, by the hour", lambda store: History(store).retrieve(STATION, hourly, View())),
        ("a day of a type, 20 entities, by the hour", lambda store: History(store).query(stations, hourly, View())),
    ):
        assert await ask(part) == await ask(whole)
        own, far = [await milliseconds(lambda store=store, ask=ask: ask(store)) for store in (whole, part)]  # type: ignore[misc]
        figures.append(Figure(f"{name}: lake against history", far / own, "times", beside=f"{far:.1f} ms, {own:.1f} ms"))
    lake.close()
    await whole.close()
    await part.close()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        figures = asyncio.run(measured(Path(name), given.records))
    title = f"The past from the lake, {given.records:,} records of {DAYS} days"
    show(figures, Console(stderr=given.json), title, as_json=given.json)


if __name__ == "__main__":
    main()
