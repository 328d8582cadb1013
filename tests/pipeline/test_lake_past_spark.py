"""The lake as Spark writes it: a node answers from it, and its tables may have other formats."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.conftest import Ran
from tests.node.laking import cut
from tests.pipeline.filling import station, upsert
from tests.serving import serving, settings_with

import hanse
from hanse.model import InvalidInput
from hanse.node.store import Store
from hanse.node.store.times import now_us
from hanse.pipeline import register
from hanse.pipeline.lake import Lake
from hanse.pipeline.plan import InLake, load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hanse.client.sync import SyncNodeClient

PAST = "/ngsi-ld/v1/temporal/entities"


def log_of(spark: SparkSession, url: str, **options: str) -> DataFrame:
    register(spark)
    return spark.readStream.format("hanse").options(nodes=f"hanse={url}", **options).load()


def asked(node: SyncNodeClient) -> list[Any]:
    id_ = "urn:ngsi-ld:AirQualityObserved:1"
    everything = {"timerel": "after", "timeAt": "2020-01-01T00:00:00Z", "type": "AirQualityObserved", "options": "sysAttrs"}
    summed = {"options": "aggregatedValues", "aggrMethods": "sum,totalCount"}
    deleted = everything | {"timeproperty": "deletedAt"}
    return [
        node.request("GET", path, params=params).data
        for path, params in (
            (f"{PAST}/{id_}", {"options": "sysAttrs"}),
            (f"{PAST}/{id_}", summed),
            (f"{PAST}/{id_}", {"lastN": "2"}),
            (PAST, everything),
            (PAST, deleted),
            (PAST, everything | {"q": "no2>40"}),
        )
    ]


def test_a_node_answers_from_what_spark_has_written(tmp_path: Path, spark: SparkSession) -> None:
    kept = {"store": {"data": str(tmp_path / "node")}}
    with serving(settings_with(**kept)) as url, hanse.connect_sync(url) as node:
        for value in (39, 40, 41, 42):
            note = {"type": "Property", "value": "x", "datasetId": "urn:d"}
            upsert(node, [station(1, value), station(2, value + 1, note=note)])
        answer = node.request("DELETE", "/ngsi-ld/v1/entities/urn:ngsi-ld:AirQualityObserved:2/attrs/note?deleteAll=true")
        assert answer.status == 204
        Lake(tmp_path / "lake").write(log_of(spark, url, past="true"), trigger={"availableNow": True}).awaitTermination()
        before = asked(node)
    assert len(before[3]) == 2

    async def let_go() -> None:
        store = Store.open(tmp_path / "node")
        await cut(store, now_us() + 3_600_000_000)
        assert store.reader.execute("SELECT count(*) FROM history").fetchone() == (0,)
        await store.close()

    asyncio.run(let_go())
    with serving(settings_with(**kept, lake={"path": str(tmp_path / "lake")})) as url, hanse.connect_sync(url) as node:
        assert asked(node) == before
    Lake(tmp_path / "lake").compact()
    with serving(settings_with(**kept, lake={"path": str(tmp_path / "lake")})) as url, hanse.connect_sync(url) as node:
        assert asked(node) == before


def test_another_format_goes_through_spark(tmp_path: Path, spark: SparkSession) -> None:
    """ORC comes with Spark: what holds for it holds for what needs jars, as far as that can be tried without them."""
    with serving() as url, hanse.connect_sync(url) as node:
        for value in (41, 42):
            upsert(node, [station(1, value)])
        Lake(tmp_path / "lake", format="orc").write(log_of(spark, url), trigger={"availableNow": True}).awaitTermination()
        with pytest.raises(InvalidInput, match="is there as orc"):
            Lake(tmp_path / "lake").write(log_of(spark, url), "raw")
    read = Lake(tmp_path / "lake")
    assert read.names() == ["raw"]
    assert [row.no2 for row in read.table(spark, "raw", "no2 double").orderBy("offset").collect()] == [41.0, 42.0]
    assert read.views(spark) == ["raw"]
    assert spark.sql("SELECT max(attributes:no2.value::double) AS most FROM raw").collect()[0].most == 42.0
    with pytest.raises(InvalidInput, match="raw is kept as orc"):
        read.compact(["raw"])
    assert read.compact() == {}


@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_a_format_whose_jars_are_missing_says_so(tmp_path: Path, spark: SparkSession, name: str) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("timestamp AS at", "'Room' AS type", "value")
    with pytest.raises(InvalidInput, match=f"Spark does not know the format {name}: it needs .*{name}.* in spark.jars.packages"):
        Lake(tmp_path / "lake", format=name).write(stream, "raw", trigger={"availableNow": True})
    (tmp_path / "lake" / "derived" / name).mkdir(parents=True)
    with pytest.raises(InvalidInput, match=f"Spark does not know the format {name}"):
        Lake(tmp_path / "lake").table(spark, "derived")


def test_a_format_has_a_name() -> None:
    for wrong in ("", "Delta Lake", "incoming", "../x"):
        with pytest.raises(InvalidInput, match="a format is a name that Spark knows"):
            InLake("lake", format=wrong)


def test_a_pipeline_writes_in_the_format_that_the_command_names(tmp_path: Path, hanse: Callable[..., Ran]) -> None:
    (tmp_path / "p.toml").write_text('[source]\nnodes = "http://127.0.0.1:1"\n[lake]\nfolder = "lake"\n')
    pipeline = load(tmp_path / "p.toml")
    assert pipeline.lake is not None
    assert pipeline.lake.format == "parquet"
    changed = pipeline.with_format("delta").lake
    assert changed is not None
    assert changed.format == "delta"
    ran = hanse("pipeline", "run", str(tmp_path / "p.toml"), "--format", "Delta Lake")
    assert ran.code == 2
    assert "a format is a name that Spark knows" in ran.err
