"""How fast the log of a node gets into the lake, and through a capsule back into a node, and how late a live capsule is.

    python benchmarks/bench_pipeline.py [--records N] [--json]

One node and one Spark session on this machine, `local[3]`: two cores, and a task that waits for the node meanwhile. A record is
a change of an air-quality station: one attribute with a sub-property of quality, the location known from before. Three things are
measured, with Hanse's defaults:

- (a) the source into the raw table of the lake. The node is read under several names, so that there are enough records to go on
  until Java has compiled what it runs often: what the first half takes does not count;
- (b) source, quality, an aggregation by cells and windows, sink: the second half of the second time;
- (c) capsules that run with a trigger of one second, while stations are written to every half second: from when the node has
  the value that closes a window until it has what the capsule made of that window; and from a value to what a filter passes on.
  Both are said by the node's own log.

Where others use the machine, too, the figure by CPU time (of node, Java and Python together, shared by two cores) says more than
the one by the clock. Beside: what reading the table takes, and the same question asked of the same files in DuckDB, as ratios
that have no limit. Nothing is asserted; the last line says which limits hold.
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
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from rich.console import Console

import hanse
from figures import Figure, show
from hanse.ngsild import operations
from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import now_text
from hanse.ngsild.parsing import parse_entity, parse_fragment
from hanse.node.store import SaveChange, Store
from hanse.pipeline.capsules import Aggregation, Capsule, Filtering, Place, Selector, Windows, published
from hanse.pipeline.capsules.screening import Aside
from hanse.pipeline.lake import Lake
from hanse.pipeline.lake_files import tables
from hanse.pipeline.observations import observations
from hanse.pipeline.quality import with_quality

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LAKE_PER_S_MIN = 100_000
CAPSULE_PER_S_MIN = 10_000
LAG_S_MAX = 5.0
RECORDS = 200_000
NAMES = 8  # under which the node is read for the lake
STATIONS = 2_000
ROUND_S = 10.0  # between two values of a station, by what they say of themselves
WINDOW_S = 300
CELL_M = 500
BATCH = 50_000  # records of a micro-batch through the capsule
CORES = 2
LIVE_S_MAX = 120.0
LIVE_WINDOWS = 20  # whose lag is enough for a median
LIVE_ROUNDS = 10  # between two looks at what has come out
LIVE_STATIONS = 20
LIVE_PAUSE_S = 0.5
SEEN_S = 0.05  # between two looks at a stream
TYPE = "AirQualityObserved"
NEVER = datetime.max.replace(tzinfo=UTC)


async def fill(folder: Path, records: int) -> None:
    """A node's store with so many records in its log; the stations have been measuring for some time."""
    store, rng = Store.open(folder), random.Random(5)
    began = datetime.now(UTC) - timedelta(seconds=records / STATIONS * ROUND_S)
    for number in range(records):
        id_, now = f"urn:ngsi-ld:{TYPE}:{number % STATIONS}", now_text()
        observed_at = began + timedelta(seconds=number / STATIONS * ROUND_S)
        body = station(id_, rng.uniform(0, 200), observed_at, rng.randrange(50, 100))
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


def station(id_: str, no2: float, observed_at: datetime, precision: int) -> dict[str, Any]:
    at = observed_at.isoformat(timespec="microseconds").replace("+00:00", "Z")
    quality = {"type": "Property", "value": precision}
    value = {"type": "Property", "value": round(no2, 1), "unitCode": "GQ", "observedAt": at, "precision": quality}
    return {"id": id_, "type": TYPE, "no2": value}


# --- how much time a stream takes ---------------------------------------------------------------------------------------


class Spent(Struct):
    """By the second half of a stream's records."""

    records: int
    seconds: float
    cpu_s: float

    @property
    def per_s(self) -> float:
        return self.records / self.seconds

    @property
    def per_s_by_cpu(self) -> float:
        return CORES * self.records / self.cpu_s


def spent(query: StreamingQuery, records: int) -> Spent:
    """Wait for the end of a stream of so many records; what its second half took."""
    ends: dict[int, tuple[float, float]] = {}  # by batch: when it was done, and the CPU time until then
    is_active = True
    while is_active:
        is_active = query.isActive
        progress = query.lastProgress
        if progress is not None and progress.batchId not in ends:
            ends[progress.batchId] = perf_counter(), cpu_seconds()
        time.sleep(SEEN_S)
    query.awaitTermination()
    counts = {progress.batchId: progress.numInputRows for progress in query.recentProgress}
    assert sum(counts.values()) == records
    done, begin, last = 0, 0, max(number for number in ends if counts.get(number))
    for number in sorted(counts):
        done += counts[number]
        if done >= records / 2 and number in ends:
            begin = number
            break
    (began, cpu_began), (ended, cpu_ended) = ends[begin], ends[last]
    return Spent(sum(counts[one] for one in counts if begin < one <= last), ended - began, cpu_ended - cpu_began)


def cpu_seconds() -> float:
    """Of all that this program has started and that is still there."""
    parents, used = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            members = path.read_text().rpartition(")")[2].split()
            parents[path.parent.name], used[path.parent.name] = members[1], int(members[11]) + int(members[12])
    own, ticks = str(os.getpid()), 0
    for process, time_ in used.items():
        above = process
        while above in parents and above != own:
            above = parents[above]
        ticks += time_ if above == own and process != own else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def quickest(work: Callable[[], Any], times: int = 3) -> float:
    found = []
    for _ in range(times):
        began = perf_counter()
        work()
        found.append(perf_counter() - began)
    return min(found)


# --- (a) source to lake -------------------------------------------------------------------------------------------------


def into_lake(spark: SparkSession, url: str, lake: Lake, records: int) -> list[Figure]:
    names = ",".join(f"node{number}={url}" for number in range(NAMES))
    stream = spark.readStream.format("hanse").option("nodes", names).load()
    took = spent(lake.write(stream, trigger={"availableNow": True}), NAMES * records)
    table = lake.table(spark)
    assert table.count() == NAMES * records
    read = quickest(lambda: to_nothing(table))
    per_record_us = 1e6 * took.cpu_s / took.records
    against = took.seconds / took.records * NAMES * records / read
    return [
        Figure("(a) source to raw lake", took.per_s, "records/s", LAKE_PER_S_MIN, at_least=True),
        Figure(
            "… by CPU time", took.per_s_by_cpu, "records/s", LAKE_PER_S_MIN, at_least=True, beside=f"{per_record_us:.1f} µs each"
        ),
        Figure("… against reading the table", against, "times", beside=f"{NAMES * records / read:,.0f} records/s"),
    ]


def to_nothing(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


# --- (b) through a capsule ----------------------------------------------------------------------------------------------


def by_cell(name: str, output: str, window_s: float) -> Capsule:
    selector = Selector(types=(TYPE,), attributes=("no2",), quality="precision>=50")
    aggregation = Aggregation(Place.of(f"cell {CELL_M}"), Windows.of(window_s, late=1), ("no2",))
    return Capsule(name=name, input=selector, transform=aggregation, output=output)


def begun(
    spark: SparkSession, url: str, folder: Path, capsule: Capsule, trigger: dict[str, Any], options: dict[str, str]
) -> StreamingQuery:
    """A capsule between the log of a node and the node, as a pipeline runs it."""
    log = spark.readStream.format("hanse").options(nodes=url, **capsule.input.source_options(), **options).load()
    made = published(capsule, with_quality(observations(log)), Aside(str(folder / "aside"), str(folder / "checkpoint")))
    writer = made.writeStream.format("hanse").options(node=url, deadLetters=str(folder / "dead")).outputMode("append")
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(**trigger).start()


def through_capsule(spark: SparkSession, url: str, folder: Path, lake: Lake, records: int) -> list[Figure]:
    capsule = by_cell("no2-by-cell", "CellAir", WINDOW_S)
    for turn in ("warm", "measured"):
        query = begun(spark, url, folder / turn, capsule, {"availableNow": True}, {"maxRecordsPerTrigger": str(BATCH)})
        took = spent(query, records)
    duck = quickest(lambda: in_duckdb(lake))
    against = took.seconds / took.records * NAMES * records / duck
    per_record_us = 1e6 * took.cpu_s / took.records
    with hanse.connect_sync(url) as node:
        answer = node.request("GET", "/ngsi-ld/v1/entities", params={"type": "CellAir", "limit": 1, "count": "true"})
    assert int(answer.headers["NGSILD-Results-Count"])
    return [
        Figure("(b) source, quality, aggregation, sink", took.per_s, "records/s", CAPSULE_PER_S_MIN, at_least=True),
        Figure(
            "… by CPU time",
            took.per_s_by_cpu,
            "records/s",
            CAPSULE_PER_S_MIN,
            at_least=True,
            beside=f"{per_record_us:.1f} µs each",
        ),
        Figure("… against the lake in DuckDB", against, "times", beside=f"{NAMES * records / duck:,.0f} records/s"),
    ]


def in_duckdb(lake: Lake) -> None:
    """What the capsule asks, of the files of the raw table."""
    import duckdb

    table = tables(lake.folder)[0]
    files = [str(table.folder / file.path) for file in table.visible()]
    question = f"""SELECT floor(lat * 200), floor(lon * 140), time_bucket(INTERVAL {WINDOW_S} SECONDS, observedAt) AS w,
        avg(value), min(observedAt), count(*), avg(precision)
        FROM (SELECT lat, lon, observedAt, CAST(json_extract(attributes, '$.no2.value') AS DOUBLE) AS value,
            CAST(json_extract(attributes, '$.no2.precision.value') AS DOUBLE) AS precision
            FROM read_parquet({files}, hive_partitioning = true) WHERE type = '{TYPE}')
        WHERE precision >= 50 GROUP BY ALL"""
    with duckdb.connect(config={"threads": CORES}) as connection:
        connection.execute(question).fetchall()


# --- (c) live -----------------------------------------------------------------------------------------------------------


def live(spark: SparkSession, url: str, folder: Path) -> list[Figure]:
    """Two capsules with one second between their batches, while stations report; until enough has come of it."""
    passing = Capsule(name="good", input=Selector(types=(TYPE,), attributes=("no2",)), transform=Filtering(), output="GoodAir")
    capsules = by_cell("live", "LiveAir", 1), passing
    rng, closed, passed = random.Random(7), list[float](), list[float]()
    with hanse.connect_sync(url) as node:
        began = int(node.request("GET", "/hanse/v1/log", params={"limit": 0}).headers["Hanse-Log-End"])
        trigger, options = {"processingTime": "1 second"}, {"startingOffsets": "latest"}
        queries = [begun(spark, url, folder / one.name, one, trigger, options) for one in capsules]
        until, rounds = perf_counter() + LIVE_S_MAX, 0
        try:
            while perf_counter() < until and min(len(closed), len(passed)) < LIVE_WINDOWS:
                now, rounds = datetime.now(UTC), rounds + 1
                ids = [f"urn:ngsi-ld:{TYPE}:{number}" for number in range(LIVE_STATIONS)]
                entities = [station(id_, rng.uniform(0, 200), now, rng.randrange(50, 100)) for id_ in ids]
                node.request("POST", "/ngsi-ld/v1/entityOperations/upsert", json=entities, params={"options": "update"})
                if rounds % LIVE_ROUNDS == 0:
                    closed, passed = lags(url, began)
                time.sleep(LIVE_PAUSE_S)
        finally:
            for query in queries:
                query.stop()
    values = f"{len(passed)} values"
    return [
        Figure("(c) lag, from closing a window", middle(closed), "s", LAG_S_MAX, at_least=False, beside=f"{len(closed)} windows"),
        Figure("… from a value to what a filter passes", middle(passed), "s", LAG_S_MAX, at_least=False, beside=values),
    ]


def lags(url: str, after: int) -> tuple[list[float], list[float]]:
    """Seconds from the value that closes a window to the first that is made of the window; and from values to those passed on.

    What was written before anything came out does not count: the streams were beginning.
    """
    written: list[tuple[datetime, datetime]] = []  # of the stations' values: observed, accepted
    windows: dict[datetime, datetime] = {}  # by their ends: when the first of what was made of them was accepted
    passed: dict[tuple[str, datetime], datetime] = {}
    values: dict[tuple[str, datetime], datetime] = {}
    for type_, at, entity, attributes in records(url, after):
        if type_ == TYPE:
            observed_at = moment(attributes["no2"]["observedAt"])
            written.append((observed_at, at))
            values[entity.rpartition(":")[2], observed_at] = at
        elif type_ == "LiveAir":
            windows.setdefault(moment(attributes["dateObservedTo"]["value"]["@value"]), at)
        elif type_ == "GoodAir":
            passed[entity.rpartition(":")[2], moment(attributes["no2"]["observedAt"])] = at
    late = timedelta(seconds=1)
    closing = {end: min((at for observed, at in written if observed - late >= end), default=NEVER) for end in windows}
    first_window, first_passed = min(windows.values(), default=NEVER), min(passed.values(), default=NEVER)
    closed = [(windows[end] - at).total_seconds() for end, at in closing.items() if first_window < at < NEVER]
    return closed, [
        (at - values[key]).total_seconds() for key, at in passed.items() if first_passed < values.get(key, NEVER) < NEVER
    ]


def records(url: str, after: int) -> Iterator[tuple[str, datetime, str, dict[str, Any]]]:
    """Of the node's log: type, when it was accepted, entity, attributes by their short names."""
    with hanse.connect_sync(url) as node:
        while page := node.log(after, limit=10_000):
            after = page[-1]["offset"]
            for one in page:
                attributes = {said["name"].rpartition("/")[2]: said.get("instance") for said in one["attributes"]}
                yield one["types"][0].rpartition("/")[2], moment(one["at"]), one["entity"], attributes


def middle(lags_s: list[float]) -> float:
    """The median; of nothing, that nothing came out."""
    return median(lags_s) if lags_s else float("inf")


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


# --- all of it ----------------------------------------------------------------------------------------------------------


def measure(url: str, folder: Path, records_: int, console: Console) -> list[Figure]:
    """Each part is told when it is done: a machine that others use as well may take long."""
    from hanse.pipeline import register, session

    spark = session("bench-pipeline", f"local[{CORES + 1}]")
    register(spark)
    lake = Lake(folder / "lake")
    figures: list[Figure] = []
    parts: list[Callable[[], list[Figure]]] = [
        lambda: into_lake(spark, url, lake, records_),
        lambda: through_capsule(spark, url, folder, lake, records_),
        lambda: live(spark, url, folder),
    ]
    try:
        for part in parts:
            figures += (found := part())
            console.print("\n".join(f"{one.name}: {one.value:,.2f} {one.unit} {one.beside}" for one in found))
    finally:
        spark.stop()
    return figures


@contextmanager
def serving(data: Path) -> Iterator[str]:
    """The address of a node in a process of its own."""
    command = [sys.executable, "-m", "hanse", "serve", "--port", "0", "--no-mqtt", "--data", str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        try:
            yield next(found[1] for line in node.stdout if (found := re.search(r"NGSI-LD +(http://\S+)/ngsi-ld/v1", line)))
        finally:
            node.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    console = Console(stderr=given.json)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(fill(folder / "node", given.records))
        with serving(folder / "node") as url:
            figures = measure(url, folder, given.records, console)
    show(figures, console, f"The pipeline, a log of {given.records:,} records, {CORES} cores", as_json=given.json)


if __name__ == "__main__":
    main()
