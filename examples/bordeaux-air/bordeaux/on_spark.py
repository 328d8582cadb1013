"""What the example does on Spark: collect, publish, run the pipeline, and ask the lake; each step says what it has done."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from bordeaux.collected import sensor_observations
from bordeaux.measurements import FILE
from hanse.pipeline import register, session
from hanse.pipeline.capsules import Place
from hanse.pipeline.collectors import Collected, collect
from hanse.pipeline.lake import Lake
from hanse.pipeline.mapping import load_mapping
from hanse.pipeline.observations import entities
from hanse.pipeline.plan import InLake, load
from hanse.pipeline.quality import with_quality
from hanse.pipeline.reports import (
    Days,
    HotSpot,
    ProducerDay,
    Promise,
    Side,
    daily_quality,
    encounters,
    hot_spots,
    lake_observations,
)
from hanse.pipeline.runner import run
from hanse.pipeline.session import is_running
from hanse.pipeline.sink import dead_letters
from hanse.pipeline.state import DONE, State

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE: Final = Path(__file__).resolve().parents[1]
MAPPING: Final = HERE / "mapping.toml"
PIPELINE: Final = HERE / "pipeline.toml"
QUICK_JAVA: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # half the time to start
NEAR_M: Final = 1_000.0  # streets that are neighbours
MET_M: Final = 300.0
MET_S: Final = 3_600.0


class Exposure(Struct, frozen=True):
    """What a bus has gone through."""

    bus: str
    positions: int  # at which a street said something of its NO2
    mean: float
    most: float
    worst_street: str


class Asked(Struct, frozen=True):
    """What the lake says."""

    daily: list[ProducerDay]
    hot_spots: list[HotSpot]
    buses: list[Exposure]


@contextmanager
def spark_session(master: str, folder: Path) -> Iterator[SparkSession]:
    """A session whose workers have this package; it is stopped at the end, unless it was there before."""
    is_ours = not is_running()
    spark = session("bordeaux-air", master, **{"spark.driver.extraJavaOptions": QUICK_JAVA})
    try:
        register(spark)
        folder.mkdir(parents=True, exist_ok=True)
        package = shutil.make_archive(str(folder / "bordeaux"), "zip", HERE, "bordeaux")
        spark.sparkContext.addPyFile(package)
        yield spark
    finally:
        if is_ours:
            spark.stop()


def publish(spark: SparkSession, url: str, since: datetime, until: datetime, folder: Path, say: Callable[[str], None]) -> int:
    """Collect the file, let the boxes work, publish what they say; how many hours of sensors the node has been told of."""
    mapping = load_mapping(MAPPING)
    found = Collected(collect(spark, mapping, str(FILE)).records.cache())
    counts = found.counts()
    aside = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()) if kind)
    say(f"collected {counts.get('', 0):,} hours of {FILE.name}" + (f"; kept aside: {aside}" if aside else ""))
    told = entities(with_quality(sensor_observations(found.observations, mapping, since, until))).cache()
    number = told.count()
    letters = folder / "refused"
    told.write.format("hanse").option("node", url).option("deadLetters", str(letters)).mode("append").save()
    told.unpersist()
    found.records.unpersist()
    if refused := dead_letters(letters):
        raise RuntimeError(f"the node refuses a sensor: {refused[0]['reason']}")
    return number


def process(spark: SparkSession, city: str, transport: str, folder: Path, say: Callable[[str], None]) -> None:
    """Run pipeline.toml until everything is done: the capsules first, so that the lake gets what they have published, too."""
    plan = load(PIPELINE)
    assert plan.lake is not None
    here = msgspec.structs.replace(
        plan,
        source={"nodes": f"city={city},transport={transport}"},
        sink={"node": city},
        folder=str(folder / "run"),
        lake=InLake(str(folder / "lake"), plan.lake.tables),
    )
    telling = Telling(say)
    for part in (msgspec.structs.replace(here, lake=None), msgspec.structs.replace(here, capsules=())):
        state = run(part, file=str(PIPELINE), is_once=True, spark=spark, told=telling.told)
        if state.status != DONE:
            raise RuntimeError(state.error or f"the pipeline is {state.status}")


class Telling:
    """A line for each stream that has done something."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: set[tuple[str, str]] = set()
        self._since = time.perf_counter()

    def told(self, state: State) -> None:
        for one in state.queries:
            if one.status == DONE and one.rows and (state.started, one.name) not in self._said:
                self._said.add((state.started, one.name))
                made = f", {one.made} made" + (f", {one.below} below the guarantee" if one.below else "") if one.made else ""
                self._say(f"{one.name:<28}{one.rows:>8} records{made}   ({time.perf_counter() - self._since:.1f} s)")
                self._since = time.perf_counter()


def ask(spark: SparkSession, folder: Path, promises: list[Promise], days: Days) -> Asked:
    """The applications: the daily report, the hot spots, and the buses in the air of another community."""
    from pyspark.sql import functions as f

    observed = lake_observations(spark, Lake(folder / "lake")).cache()
    try:
        of_days = observed.where(days.column())
        daily = daily_quality(observed, promises, days=days)
        spots = hot_spots(of_days.where("type = 'StreetGases'"), "NO2", where=Place.of("scope"), near_m=NEAR_M)
        buses, air = Side.of("Bus.location@transport"), Side.of("StreetGases.NO2@city")
        met = encounters(of_days, buses, air, within_m=MET_M, within_s=MET_S)
        gone_through: list[Any] = (
            met.groupBy("entity")
            .agg(
                f.count(f.lit(1)).alias("positions"),
                f.avg("other_value").alias("mean"),
                f.max("other_value").alias("most"),
                f.max_by("other_entity", "other_value").alias("where"),
            )
            .orderBy("entity")
            .collect()
        )
    finally:
        observed.unpersist()
    exposures = [
        Exposure(row["entity"], row["positions"], row["mean"], row["most"], row["where"].split("/")[-1].split(":")[0])
        for row in gone_through
    ]
    return Asked(daily, spots, exposures)
