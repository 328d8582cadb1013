"""The logs of nodes in Spark, read once and as a stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.filling import at, node_with, station, upsert
from tests.serving import serving, settings_with

from hanse.pipeline import register, words
from hanse.pipeline.schema import with_variant

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(autouse=True)
def known(spark: SparkSession) -> None:
    register(spark)


def reading(spark: SparkSession, url: str, **options: Any) -> DataFrame:
    return spark.read.format("hanse").options(nodes=url, **options).load()


def drain(spark: SparkSession, url: str, folder: Path, **options: Any) -> list[Any]:
    """Everything that a query has read into a folder, going on from its checkpoint."""
    stream = spark.readStream.format("hanse").options(nodes=url, **options).load()
    writer = stream.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "out"))
    query.awaitTermination()
    return spark.read.parquet(str(folder / "out")).orderBy("node", "offset").collect()


def test_the_columns_of_a_record(spark: SparkSession) -> None:
    full = station(1, 41.5, location=at(-0.57, 44.84), scope=["/bordeaux/centre"])
    with node_with([full], [station(1, 43)]) as (url, node):
        node.delete(full["id"])
        rows = reading(spark, f"fire={url}", columns="no2 double, name string").orderBy("offset").collect()
    created, updated, deleted = rows
    assert [row.offset for row in rows] == [1, 2, 3]
    assert {row.node for row in rows} == {"fire"}
    assert [row.kind for row in rows] == ["created", "updated", "deleted"]
    assert (created.operation, deleted.operation) == ("upsert", "delete")
    assert (created.id, created.type, created.types) == (full["id"], "AirQualityObserved", ["AirQualityObserved"])
    assert created.scopes == ["/bordeaux/centre"]
    assert json.loads(updated.location)["coordinates"] == [-0.57, 44.84]
    assert (updated.lon, updated.lat) == (-0.57, 44.84)
    assert deleted.lon is None
    assert [row.no2 for row in rows] == [41.5, 43.0, None]
    assert updated.observedAt.isoformat() == "2026-03-01T12:00:00"
    assert json.loads(updated.attributes) == {"no2": station(1, 43)["no2"]}
    assert json.loads(deleted.attributes) == {"no2": None, "location": None}
    assert created.name is None


def test_the_open_part_is_reached_as_variant(spark: SparkSession) -> None:
    with node_with([station(1, 41.5)]) as (url, _):
        frame = with_variant(reading(spark, url))
        row = frame.selectExpr("attributes:no2.value::double AS v", "attributes:no2.precision.value::int AS p").first()
    assert row is not None
    assert (row.v, row.p) == (41.5, 90)


def test_values_of_another_type_leave_the_typed_column_empty_and_stay_in_the_open_part(spark: SparkSession) -> None:
    with node_with([station(1, "high"), station(2, 7), station(3, True), station(4, [1, 2])]) as (url, _):
        rows = reading(spark, url, columns="no2 double").orderBy("offset").collect()
    assert [row.no2 for row in rows] == [None, 7.0, None, None]
    assert [json.loads(row.attributes)["no2"]["value"] for row in rows] == ["high", 7, True, [1, 2]]


def test_typed_columns_of_a_data_model(spark: SparkSession, tmp_path: Path) -> None:
    model = {
        "type": "object",
        "allOf": [{"properties": {"no2": {"type": "number"}, "checkedAt": {"type": "string", "format": "date-time"}}}],
        "properties": {"id": {"type": "string"}, "count": {"type": "integer"}, "tags": {"type": "array"}},
    }
    file = tmp_path / "model.json"
    file.write_text(json.dumps(model))
    more = {"count": 3, "tags": ["a"], "checkedAt": "2026-03-01T12:00:00Z"}
    with node_with([station(1, 2, **more)]) as (url, _):
        frame = reading(spark, url, model=str(file))
        row = frame.select("no2", "count", "tags", "checkedAt").first()
        assert dict(frame.dtypes)["checkedAt"] == "timestamp"
    assert row is not None
    assert (row.no2, row["count"], row.tags, row.checkedAt.isoformat()) == (2.0, 3, '["a"]', "2026-03-01T12:00:00")


def test_what_is_asked_for(spark: SparkSession) -> None:
    near, far = station(1, 10, location=at(-0.57, 44.84)), station(2, 90, location=at(2.35, 48.85), scope="/paris")
    other = {"id": "urn:ngsi-ld:Street:1", "type": "Street", "name": "Rue"}
    good = station(3, 5)
    good["no2"]["precision"]["value"] = 99
    with node_with([near, far, other, good]) as (url, _):

        def offsets(**options: str) -> list[int]:
            return sorted(row.offset for row in reading(spark, url, **options).select("offset").collect())

        assert offsets() == [1, 2, 3, 4]
        assert offsets(types="Street") == [3]
        assert offsets(attributes="name,location") == [1, 2, 3]
        assert offsets(scopes="/paris") == [2]
        assert offsets(area='{"type": "Point", "coordinates": [2.35, 48.85], "radius": 5000}') == [2]
        assert offsets(qualityQ="no2.precision>=95") == [4]
        assert offsets(until="2020-01-01") == []
        assert offsets(**{"from": "2020-01-01"}) == [1, 2, 3, 4]


def test_names_by_a_context_of_ones_own(spark: SparkSession, tmp_path: Path) -> None:
    context = {"@context": {"NO2": "https://example.org/no2", "Station": "https://example.org/Station"}}
    file = tmp_path / "context.jsonld"
    file.write_text(json.dumps(context))
    entity = {"id": "urn:s:1", "type": "https://example.org/Station", "https://example.org/no2": 3}
    with node_with([entity]) as (url, _):
        row = reading(spark, url, context=str(file), types="Station", columns="NO2 double").first()
    assert row is not None
    assert (row.type, row.NO2) == ("Station", 3.0)


def test_a_stream_goes_on_from_its_checkpoint_and_reads_each_record_once(spark: SparkSession, tmp_path: Path) -> None:
    with node_with([station(n, n) for n in range(25)]) as (url, node), node_with([station(n, n) for n in range(7)]) as (other, _):
        both = f"a={url},b={other}"
        first = drain(spark, both, tmp_path, maxRecordsPerTrigger=10, recordsPerPartition=4)
        assert [(row.node, row.offset) for row in first] == [
            *(("a", offset) for offset in range(1, 26)),
            *(("b", offset) for offset in range(1, 8)),
        ]
        upsert(node, [station(n, n + 1) for n in range(5)])
        second = drain(spark, both, tmp_path, maxRecordsPerTrigger=10, recordsPerPartition=4)
    assert [row.offset for row in second if row.node == "a"] == list(range(1, 31))
    assert len(second) == 37


def test_no_micro_batch_is_larger_than_asked(spark: SparkSession, tmp_path: Path) -> None:
    with node_with([station(n, n) for n in range(25)]) as (url, _):
        stream = spark.readStream.format("hanse").options(nodes=url, maxRecordsPerTrigger=10).load()
        sizes: list[int] = []
        query = (
            stream.writeStream.foreachBatch(lambda frame, _: sizes.append(frame.count()))
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    assert sizes == [10, 10, 5]


def test_a_node_that_is_added_later_is_read_from_its_beginning(spark: SparkSession, tmp_path: Path) -> None:
    with node_with([station(1, 1)]) as (url, _), node_with([station(2, 2)]) as (other, _):
        drain(spark, f"a={url}", tmp_path)
        rows = drain(spark, f"a={url},b={other}", tmp_path)
    assert [(row.node, row.offset) for row in rows] == [("a", 1), ("b", 1)]


def test_from_the_latest_offset(spark: SparkSession, tmp_path: Path) -> None:
    with node_with([station(1, 1)]) as (url, node):
        stream = spark.readStream.format("hanse").options(nodes=url, startingOffsets="latest").load()
        writer = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.start(str(tmp_path / "out"))
        query.processAllAvailable()
        upsert(node, [station(1, 2)])
        query.processAllAvailable()
        query.stop()
    assert [row.offset for row in spark.read.parquet(str(tmp_path / "out")).collect()] == [2]


def test_records_that_were_removed_before_they_were_read_are_named(spark: SparkSession, tmp_path: Path) -> None:
    settings = settings_with(store={"log_records_max": 10, "data": str(tmp_path / "node")})
    import hanse

    with serving(settings) as url, hanse.connect_sync(url) as node:
        upsert(node, [station(1, 1), station(2, 2)])
        drain(spark, f"a={url}", tmp_path)
        for _ in range(20):
            upsert(node, [station(n, n) for n in range(50)])
        with pytest.raises(Exception) as caught:
            drain(spark, f"a={url}", tmp_path)
        start = int(node.request("GET", "/hanse/v1/log", params={"limit": 0}).headers["Hanse-Log-Start"])
        said = words(caught.value)
        assert said.startswith(f"the log of a begins at offset {start}: its records 3 to {start - 1} ({start - 3}) were removed")
        assert "failOnDataLoss" in said
        rows = drain(spark, f"a={url}", tmp_path, failOnDataLoss="false")
    assert [row.offset for row in rows] == [1, 2, *range(start, 1003)]


def test_a_log_that_has_become_shorter_is_told(spark: SparkSession, tmp_path: Path) -> None:
    with node_with([station(n, 1) for n in range(5)]) as (url, _):
        drain(spark, f"a={url}", tmp_path)
    with node_with([station(n, 1) for n in range(3)]) as (url, node):
        with pytest.raises(Exception) as caught:
            drain(spark, f"a={url}", tmp_path)
        assert words(caught.value).startswith("the log of a ends at offset 3, and this query had read it up to 5")
        drain(spark, f"a={url}", tmp_path, failOnDataLoss="false")
        upsert(node, [station(9, 1)])
        rows = drain(spark, f"a={url}", tmp_path, failOnDataLoss="false")
    assert [row.id.rpartition(":")[2] for row in rows if row.offset == 4] == ["3", "9"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "the option nodes is missing"),
        ({"nodes": "http://127.0.0.1:9", "tipes": "Room"}, "there is no option 'tipes'"),
        ({"nodes": "http://127.0.0.1:9", "columns": "no2 money"}, "'no2 money' is no typed column"),
        ({"nodes": "http://127.0.0.1:9", "columns": "offset double"}, "there is a column 'offset' already"),
        ({"nodes": "http://127.0.0.1:9", "area": "here"}, "the geofence is not JSON"),
        ({"nodes": "http://127.0.0.1:9", "from": "yesterday"}, "from is a time such as"),
        ({"nodes": "http://127.0.0.1:9", "maxRecordsPerTrigger": "0"}, "maxRecordsPerTrigger is a number greater than 0"),
        ({"nodes": "http://127.0.0.1:9,http://127.0.0.1:9"}, "the option nodes has a node twice"),
        ({"nodes": "http://127.0.0.1:9", "context": "/nowhere.jsonld"}, "the option context names a file"),
        ({"nodes": "http://127.0.0.1:9", "patience": "0"}, "the node http://127.0.0.1:9 does not answer"),
    ],
)
def test_options_that_cannot_be_used(spark: SparkSession, options: dict[str, str], complaint: str) -> None:
    with pytest.raises(Exception) as caught:
        spark.read.format("hanse").options(**options).load().count()
    assert words(caught.value).startswith(complaint)


def test_what_a_node_refuses_is_in_its_words(spark: SparkSession) -> None:
    with node_with([station(1, 1)]) as (url, _), pytest.raises(Exception) as caught:
        reading(spark, url, qualityQ="prezision>=3").count()
    assert "prezision" in words(caught.value)
    assert words(caught.value).startswith(f"the node {url} refuses")
