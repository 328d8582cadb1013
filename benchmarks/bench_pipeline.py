"""How fast the log of a node gets into the lake, and how fast the lake answers, against the same in DuckDB in the same run.

    python benchmarks/bench_pipeline.py [--records N] [--json]

One node and one Spark session on this machine, `local[2]`; everything is warmed up before. A record is a change of an air-quality
station: one attribute with a sub-property of quality, the location known from before. Where others use the machine, too, the
figure by CPU time (of node, Java and Python together, shared by two cores) says more than the one by the clock. Nothing is
asserted; the last line says which limits hold.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rich.console import Console

from figures import Figure, show
from hanse.ngsild import operations
from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import now_text
from hanse.ngsild.parsing import parse_entity, parse_fragment
from hanse.node.store import SaveChange, Store
from hanse.pipeline.lake import Lake
from hanse.pipeline.lake_files import tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

RECORDS_PER_S_MIN = 100_000
READ_RATIO_MAX = 25  # how much longer than reading the same records from the table it may take to get them there
DUCKDB_RATIO_MAX = 25  # and a small question to Spark than to DuckDB, which runs in this process
RECORDS = 400_000
STATIONS = 2_000
CORES = 2
ENTITIES = 20_000  # that are written back
WARM = 2  # times that the same is done before it counts: Java gets quicker


async def fill(folder: Path, records: int) -> None:
    """A node's store with so many records in its log."""
    store, rng = Store.open(folder), random.Random(5)
    for number in range(records):
        id_, now = f"urn:ngsi-ld:AirQualityObserved:{number % STATIONS}", now_text()
        body: dict[str, Any] = {"id": id_, "type": "AirQualityObserved"}
        quality = {"type": "Property", "value": rng.randrange(50, 100)}
        value = round(rng.uniform(0, 200), 1)
        body["no2"] = {"type": "Property", "value": value, "unitCode": "GQ", "observedAt": now, "precision": quality}
        old = store.latest(id_)
        if old is None:
            place = {"type": "Point", "coordinates": [rng.uniform(-0.7, -0.5), rng.uniform(44.8, 44.9)]}
            body["location"] = {"type": "GeoProperty", "value": place}
            change = operations.create(parse_entity(body, CORE, now), now)
        else:
            found = operations.append(old, parse_fragment(body, CORE, now), now).change
            assert found is not None
            change = found
        committed = store.submit(SaveChange(change, "upsert"))
        if number % 1000 == 999 or number == records - 1:
            await committed
    await store.close()


def seconds(work: Callable[[], Any]) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began


def cpu_seconds() -> float:
    """Of all that this program has started and that is still there."""
    parents, used = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            members = path.read_text().rpartition(")")[2].split()
            parents[path.parent.name], used[path.parent.name] = members[1], int(members[11]) + int(members[12])
    own, ticks = str(os.getpid()), 0
    for process, time in used.items():
        above = process
        while above in parents and above != own:
            above = parents[above]
        ticks += time if above == own and process != own else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def ingest(spark: SparkSession, url: str, lake: Lake) -> None:
    stream = spark.readStream.format("hanse").option("nodes", f"a={url}").load()
    lake.write(stream, trigger={"availableNow": True}).awaitTermination()


def to_nothing(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def measure(url: str, folder: Path, records: int, console: Console) -> list[Figure]:
    import duckdb

    from hanse.pipeline import register, session

    spark = session("bench-pipeline", "local[2]")
    register(spark)
    times = []
    for turn in range(WARM + 1):
        lake = Lake(folder / f"lake-{turn}")
        before_s = cpu_seconds()
        times.append(seconds(lambda lake=lake: ingest(spark, url, lake)))  # type: ignore[misc]
        cpu_s = cpu_seconds() - before_s
    written = times[-1]
    source = min(seconds(lambda: to_nothing(spark.read.format("hanse").option("nodes", url).load())) for _ in range(2))
    table = lake.table(spark)
    assert table.count() == records
    read = min(seconds(lambda: to_nothing(table)) for _ in range(3))
    table.createOrReplaceTempView("records")
    question = "SELECT type, count(*), avg(CAST({value} AS DOUBLE)) FROM {files} GROUP BY type"
    in_spark = question.format(value="get_json_object(attributes, '$.no2.value')", files="records")
    asked = min(seconds(lambda: spark.sql(in_spark).collect()) for _ in range(3))
    files = [str(folder / f"lake-{WARM}" / "raw" / file.path) for file in tables(lake.folder)[0].visible()]
    in_duckdb = question.format(
        value="json_extract(attributes, '$.no2.value')", files=f"read_parquet({files}, hive_partitioning = true)"
    )
    connection = duckdb.connect(config={"threads": 2})
    duck = min(seconds(lambda: connection.execute(in_duckdb).fetchall()) for _ in range(3))
    few = spark.range(ENTITIES).selectExpr("concat('urn:hot:', id) AS id", "'HotSpot' AS type", "id * 1.5D AS no2")
    sink = few.write.format("hanse").mode("append").options(node=url, deadLetters=str(folder / "dead"))
    back = seconds(sink.save)
    spark.stop()
    first, alone = records / times[0], records / source
    console.print(f"first time, with nothing compiled: {first:,.0f} records/s; the source alone: {alone:,.0f} records/s")
    console.print(f"entities to the node: {ENTITIES / back:,.0f}/s")
    return [
        Figure("source to raw lake", records / written, "records/s", RECORDS_PER_S_MIN, at_least=True),
        Figure("… by CPU time of two cores", CORES * records / cpu_s, "records/s", RECORDS_PER_S_MIN, at_least=True),
        Figure("… against reading the table", written / read, "times", READ_RATIO_MAX, at_least=False, beside=f"{read:.2f} s"),
        Figure("a question, against DuckDB", asked / duck, "times", DUCKDB_RATIO_MAX, at_least=False, beside=f"{duck:.2f} s"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    console = Console(stderr=given.json)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(fill(folder / "node", given.records))
        command = [sys.executable, "-m", "hanse", "serve", "--port", "0", "--no-mqtt", "--data", str(folder / "node")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as node:
            assert node.stdout is not None
            url = next(found[1] for line in node.stdout if (found := re.search(r"NGSI-LD +(http://\S+)/ngsi-ld/v1", line)))
            try:
                figures = measure(url, folder, given.records, console)
            finally:
                node.terminate()
    show(figures, console, f"The pipeline, {given.records:,} records, two cores", as_json=given.json)


if __name__ == "__main__":
    main()
