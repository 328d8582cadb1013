"""Capsules on Spark: the same as without it, on batches and on streams, late and repeated observations included."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from math import sin
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hanse.model import InvalidInput
from hanse.pipeline.capsules import (
    Aggregation,
    Aside,
    Capsule,
    Filtering,
    Fusion,
    Learned,
    Outliers,
    Place,
    Selector,
    Windows,
    published,
    train,
)
from hanse.pipeline.capsules.places import cell
from hanse.pipeline.observations import SCHEMA
from hanse.pipeline.sink import dead_letters
from hanse.pipeline.state import QueryState, progressed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTES = Windows.of("10 minutes", late="5 minutes")


def row(value: float | None, sensor: int = 0, at_s: float = 0, **more: Any) -> dict[str, Any]:
    at = NOON + timedelta(seconds=at_s)
    made = {
        "source": "n",
        "entity": f"urn:ngsi-ld:Sensor:{sensor}",
        "type": "Sensor",
        "attribute": "no2",
        "value": None if value is None else float(value),
        "text": None,
        "unit": "GQ",
        "observed_at": at,
        "accepted_at": at + timedelta(seconds=2),
        "lat": 44.84,
        "lon": -0.57,
        "scopes": ["/rue"],
        "quality": {"accuracy": 80.0},
        "dated": True,
    } | more
    return made | {"key": f"{sensor}/{at_s}/{made['attribute']}/{value}"}


def frame(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    return spark.createDataFrame(list(rows), SCHEMA)


def results(made: DataFrame) -> list[dict[str, Any]]:
    """The entities in short, by id."""
    found = []
    for one in sorted(made.collect(), key=lambda it: it["id"]):
        entity = json.loads(one["entity"])
        assert entity["id"] == one["id"]
        found.append(entity | {"problem": one["problem"], "quality": one["quality"]})
    return found


def capsule(transform: Any, guarantee: str = "", **selector: Any) -> Capsule:
    return Capsule("c", Selector(**selector), transform, "Out", guarantee)


def test_an_aggregation_by_place_and_window_with_its_quality(spark: SparkSession) -> None:
    rows = [
        row(10, 1, 0, quality={"accuracy": 90.0, "precision": 50.0, "spatialResolution": 5.0}),
        row(20, 2, 60, quality={"accuracy": 70.0, "spatialResolution": 50.0}),
        row(10, 1, 0, quality={"accuracy": 90.0}, accepted_at=NOON + timedelta(seconds=9)),  # again
        row(99, 3, 600, scopes=["/avenue"]),
        row(77, 4, 0, scopes=None),
    ]
    transform = Aggregation(Place.of("scope"), MINUTES, ("no2", "co"), ("mean", "max", "count"), expected=4)
    one, other = reversed(results(published(capsule(transform, "completeness>=50"), frame(spark, *rows))))
    assert one["id"] == "urn:ngsi-ld:Out:c:/rue:20260301T120000Z"
    assert one["no2"] == {
        "type": "Property",
        "value": 15.0,
        "unitCode": "GQ",
        "observedAt": "2026-03-01T12:00:00.000000Z",
        "accuracy": {"type": "Property", "value": 80.0},
        "completeness": {"type": "Property", "value": 50.0},
        "spatialResolution": {"type": "Property", "value": 50.0},
    }
    assert one["no2Max"]["value"] == 20
    assert one["no2Max"]["accuracy"]["value"] == 70
    assert one["no2Count"]["value"] == 2
    assert "unitCode" not in one["no2Count"]
    assert not {"co", "coMax"} & one.keys()
    assert one["quality"]["freshness"] == 600.0
    assert one["problem"] is None
    assert other["problem"] == "below the guarantee: completeness is 25, and completeness>=50 is guaranteed"


def test_statistics_of_a_group_are_sparks(spark: SparkSession) -> None:
    values = [4.0, 8.0, 15.0, 16.0, 23.0, 42.0]
    transform = Aggregation(Place.of("everywhere"), MINUTES, ("no2",), ("mean", "min", "median", "sum", "stddev"))
    (found,) = results(published(capsule(transform), frame(spark, *(row(v, n, n) for n, v in enumerate(values)))))
    got = {name: found[name]["value"] for name in ("no2", "no2Min", "no2Median", "no2Sum", "no2Stddev")}
    assert got == pytest.approx({"no2": 18, "no2Min": 4, "no2Median": 15, "no2Sum": 108, "no2Stddev": 13.490737}, rel=1e-6)


def test_cells_are_those_of_the_plain_function(spark: SparkSession) -> None:
    positions = [(44.84 + n * 0.0031, -0.57 - n * 0.0017) for n in range(6)] + [(-33.9, 151.2), (0.0, 0.0), (-0.0001, -0.0001)]
    rows = [row(n, n, lat=lat, lon=lon) for n, (lat, lon) in enumerate(positions)]
    places = Place.of("cell 500")
    names = frame(spark, *rows).withColumn("place", places.column()).select("lat", "lon", "place").collect()
    assert [one["place"] for one in names] == [cell(one["lat"], one["lon"], 500) for one in names]
    made = results(published(capsule(Aggregation(places, MINUTES, ("no2",))), frame(spark, *rows[:1])))
    assert made[0]["location"]["value"]["coordinates"] == pytest.approx([-0.57, 44.84], abs=0.005)


def test_a_selector_by_type_attribute_scope_area_and_quality(spark: SparkSession) -> None:
    square = {"type": "Polygon", "coordinates": [[[-1, 44], [0, 44], [0, 45], [-1, 45], [-1, 44]]]}
    rows = [
        row(1, 1),
        row(2, 2, type="Other"),
        row(3, 3, attribute="co"),
        row(4, 4, scopes=["/rues"]),
        row(5, 5, scopes=["/rue/12", "/x"]),
        row(6, 6, lat=50.0),
        row(7, 7, quality={"accuracy": 20.0}),
        row(8, 8, lat=None),
        row(9, 9, quality={}),
    ]
    chosen = Selector(("Sensor",), ("no2",), json.dumps(square), ("/rue",), "accuracy>=medium").select(frame(spark, *rows))
    assert sorted(one["value"] for one in chosen.collect()) == [1, 5]


def test_filtering_passes_on_what_is_good_enough(spark: SparkSession) -> None:
    rows = [row(1, 1), row(2, 2, quality={"accuracy": 10.0}), row(None, 3, text="open", attribute="state")]
    made = results(published(capsule(Filtering(), quality="accuracy>=50"), frame(spark, *rows)))
    assert [one["id"] for one in made] == ["urn:ngsi-ld:Out:c:Sensor:1", "urn:ngsi-ld:Out:c:Sensor:3"]
    assert made[0]["no2"]["accuracy"]["value"] == 80
    assert made[0]["no2"]["observedAt"] == "2026-03-01T12:00:00.000000Z"
    assert made[1]["state"]["value"] == "open"


def test_what_is_far_in_the_future_does_not_make_others_late(spark: SparkSession) -> None:
    ahead = row(1, 9, 7 * 86_400, accepted_at=NOON)
    made = published(capsule(Aggregation(Place.of("everywhere"), MINUTES, ("no2",))), frame(spark, row(5), ahead))
    assert [one["no2"]["value"] for one in results(made)] == [5]


def write(folder: Path, number: int, *rows: dict[str, Any]) -> None:
    folder.mkdir(exist_ok=True)
    lines = [{name: value.isoformat() if isinstance(value, datetime) else value for name, value in one.items()} for one in rows]
    file = folder / f"{number:03}.json"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    os.utime(file, (1_000_000_000 + number, 1_000_000_000 + number))  # they are read in this order


def streamed(spark: SparkSession, folder: Path, made: Capsule) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """All files, one after the other, each a batch; what is made, and the progress of the batches."""
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))
    checkpoint = str(folder.parent / "checkpoint")
    writer = (
        published(made, stream, Aside(str(folder.parent / "aside"), checkpoint))
        .writeStream.format("memory")
        .queryName("made")
        .outputMode("append")
    )
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    return results(spark.table("made")), [json.loads(one.json) for one in query.recentProgress]


def test_a_stream_counts_the_late_until_the_watermark_and_the_repeated_once(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write(folder, 0, row(10, 1, 0), row(30, 2, 120, quality={"accuracy": 40.0}))
    write(folder, 1, row(10, 1, 0), row(50, 3, 601))  # a repetition, and the next window
    write(folder, 2, row(80, 4, 310), row(50, 3, 630))  # late, but within five minutes
    write(folder, 3, row(1, 1, 2000))  # moves the watermark past both windows
    write(folder, 4, row(1000, 5, 10), row(2, 1, 2100))  # too late
    made, progress = streamed(spark, folder, capsule(Fusion(Place.of("scope"), MINUTES, expected=4), "completeness>=50"))
    assert [(one["id"][-16:], one["no2"]["value"], one["problem"]) for one in made] == [
        ("20260301T120000Z", pytest.approx((10 * 80 + 30 * 40 + 80 * 80) / 200), None),
        ("20260301T121000Z", 50.0, "below the guarantee: completeness is 25, and completeness>=50 is guaranteed"),
    ]
    assert not any(operator["numRowsDroppedByWatermark"] for one in progress for operator in one["stateOperators"])
    late, again = sorted(dead_letters(tmp_path / "aside"), key=lambda one: one["kind"], reverse=True)
    assert late["reason"] == "late: what was observed up to 2026-03-01T12:28:20+00:00 has been dealt with"
    assert json.loads(late["entity"])["value"] == 1000
    assert (again["kind"], again["id"]) == ("duplicate", "1/0/no2/10")
    told = QueryState(name="made")
    for one in progress:
        progressed(told, one)
    assert (told.late, told.duplicates, told.unplaced, told.ahead, told.wrong) == (1, 1, 0, 0, 0)
    counts = [one["observedMetrics"]["capsule_out"] for one in progress if "capsule_out" in one["observedMetrics"]]
    assert sum(one["made"] for one in counts) == 2
    assert sum(one["below"] for one in counts) == 1


def test_an_aggregation_on_a_stream_is_that_on_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    rows = [row(float(n * 7 % 13), n % 3, n * 20.0, quality={"accuracy": 50.0 + n}) for n in range(40)]
    for number in range(4):
        write(tmp_path / "in", number, *rows[number * 10 : number * 10 + 10])
    write(tmp_path / "in", 9, row(0.0, 0, 9000.0))
    aggregation = capsule(Aggregation(Place.of("entity"), MINUTES, ("no2",), ("mean", "max"), expected=20))
    made, _ = streamed(spark, tmp_path / "in", aggregation)
    assert made == results(published(aggregation, frame(spark, *rows)))
    assert len(made) == 6


def test_outliers_on_spark(spark: SparkSession) -> None:
    rows = [row(10.0 + n % 3, n, n) for n in range(9)] + [row(400.0, 99, 30)]
    (found,) = results(published(capsule(Outliers(Place.of("scope"), MINUTES)), frame(spark, *rows)))
    assert found["anomalyOf"]["value"] == "urn:ngsi-ld:Sensor:99"


def test_a_model_that_was_learned_finds_what_is_off(spark: SparkSession, tmp_path: Path) -> None:
    past = [row(50 + 20 * sin(h / 24 * 6.2831853) + (h * 7 % 5) * 0.1, 1, 3600.0 * h) for h in range(200)]
    model = str(tmp_path / "model")
    with pytest.raises(InvalidInput, match="50 are needed"):
        train(frame(spark, *past[:10]), "no2", model)
    with pytest.raises(InvalidInput, match="there is no model in"):
        published(capsule(Learned("no2", model)), frame(spark, row(1)))
    trained = train(frame(spark, *past), "no2", model)
    assert trained.accuracy > 98
    now = [row(50 + 20 * sin(300 / 24 * 6.2831853), 1, 3600.0 * 300), row(90, 2, 3600.0 * 300)]
    usual, strange = results(published(capsule(Learned("no2", model)), frame(spark, *now)))
    assert (usual["isAnomalous"]["value"], strange["isAnomalous"]["value"]) == (False, True)
    assert usual["no2Expected"]["value"] == pytest.approx(usual["no2"]["value"], abs=1)
    assert usual["no2Expected"]["accuracy"]["value"] == pytest.approx(80 * trained.accuracy / 100, abs=1e-4)
    assert usual["no2"]["accuracy"]["value"] == 80
