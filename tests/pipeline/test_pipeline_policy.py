"""Two communities and a pipeline: what policy keeps from one of them is in nothing that its pipeline reads, keeps or makes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.node.access.town import Town, point, token, town

from hanse.pipeline import register, words
from hanse.pipeline.lake import Lake
from hanse.pipeline.plan import load
from hanse.pipeline.runner import run
from hanse.policies.obfuscation import snapped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POLICIES = """
@id("the laboratory does everything")
permit (principal in Community::"lab", action, resource);
@id("the town sees about how much NO2 there is") @obfuscate("round 10")
permit (principal in Community::"town", action == Action::"read", resource)
when { resource.types.contains("AirQualityObserved") && resource.attribute == "no2" };
@id("the town sees about where that is") @obfuscate("coarsen 1000")
permit (principal in Community::"town", action == Action::"read", resource)
when { resource.types.contains("AirQualityObserved") && resource.attribute == "location" };
@id("the town sees that there are stations")
permit (principal in Community::"town", action == Action::"read", resource)
when { resource.types.contains("AirQualityObserved") && ["", "name"].contains(resource.attribute) };
@id("the town has streets")
permit (principal in Community::"town", action in [Action::"read", Action::"publish", Action::"advertise"], resource)
when { resource.types.contains("StreetAir") };
@id("nobody else hears of the bunker")
forbid (principal in Community::"town", action, resource) when { resource.id == "urn:air:bunker" };
"""
LAB = token("lars", "lab")
TOWN = token("tina", "town")
STATIONS = 4
LON, LAT = 2.3456789, 48.8532109
VALUES = ("urn:patient", "77.7719", "Odile", "bunker", "2.34567", "48.85321", "43.21")
SECRETS = (*VALUES, "Patient", "pm10", "operator")

PIPELINE = """
[source]
nodes = "n={url}"
token = "{source}"

[sink]
node = "{url}"
token = "{sink}"

[lake]
folder = "lake"
tables = ["raw", "derived"]

[[capsules]]
name = "by-street"
kind = "aggregation"
types = ["AirQualityObserved", "Patient"]
attributes = ["no2", "pm10"]
place = "scope"
window = "1 minute"
late = "10 seconds"
output = "StreetAir"
"""


def property_(value: Any, minute: int = 0) -> dict[str, Any]:
    precise = {"type": "Property", "value": 91.25}
    return {"type": "Property", "value": value, "observedAt": f"2026-03-01T12:{minute:02}:00Z", "precision": precise}


def air(id_: str, no2: float, minute: int = 0) -> dict[str, Any]:
    return {
        "id": id_,
        "type": "AirQualityObserved",
        "scope": "/rue",
        "no2": property_(no2, minute),
        "pm10": property_(77.7719, minute),
        "name": {"type": "Property", "value": f"station {id_}"},
        "operator": {"type": "Property", "value": "Odile"},
        "location": {"type": "GeoProperty", "value": point(LON, LAT)},
    }


@pytest.fixture
def node(tmp_path: Path, spark: SparkSession) -> Iterator[Town]:
    register(spark)
    with town(tmp_path, POLICIES) as made:
        stations = [air(f"urn:air:{number}", 43.21 + number) for number in range(STATIONS)]
        patient = air("urn:patient:1", 43.21) | {"type": "Patient"}
        put(made, [*stations, patient, air("urn:air:bunker", 43.21)])
        put(made, [air("urn:air:0", 43.21, 5)])  # so that the first window is over
        yield made


def put(node: Town, entities: list[dict[str, Any]]) -> None:
    answer = node.ask("POST", "/ngsi-ld/v1/entityOperations/upsert", LAB, entities)
    assert answer.status in (201, 204), answer.data


def text_of(frame: DataFrame) -> str:
    return "\n".join(row[0] for row in frame.selectExpr("to_json(struct(*))").collect())


def assert_nothing_hidden(text: str, secrets: tuple[str, ...] = SECRETS) -> None:
    assert not [secret for secret in secrets if secret in text]


def batch(spark: SparkSession, node: Town, who: str, **options: str) -> DataFrame:
    return spark.read.format("hanse").options(nodes=f"n={node.url}", token=who, **options).load()


def stream(spark: SparkSession, node: Town, who: str, folder: Path) -> DataFrame:
    read = spark.readStream.format("hanse").options(nodes=f"n={node.url}", token=who, columns="no2 double, pm10 double").load()
    writer = read.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start(str(folder / "out")).awaitTermination()
    return spark.read.parquet(str(folder / "out"))


def test_what_is_read_once_and_as_a_stream_has_nothing_that_policy_forbids(
    spark: SparkSession, node: Town, tmp_path: Path
) -> None:
    everything = text_of(batch(spark, node, LAB))
    assert [secret for secret in SECRETS if secret in everything] == list(SECRETS)  # there is something to hide
    for frame in (batch(spark, node, TOWN, columns="no2 double, pm10 double"), stream(spark, node, TOWN, tmp_path)):
        rows = frame.collect()
        assert len(rows) == STATIONS + 1
        assert_nothing_hidden(text_of(frame))
        assert {(row.no2, row.pm10) for row in rows} == {(40.0, None), (50.0, None)}  # 43.21 to 46.21
        assert {(row.lon, row.lat) for row in rows} == {snapped(LON, LAT, 1000)}
        assert {tuple(json.loads(row.attributes)) for row in rows} == {("no2", "name", "location")}


def test_filters_go_by_what_is_seen(spark: SparkSession, node: Town) -> None:
    west, south, east, north = LON - 0.001, LAT - 0.001, LON + 0.001, LAT + 0.001
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    here = json.dumps({"type": "Polygon", "coordinates": [ring]})
    asked = ({"area": here}, {"attributes": "pm10"}, {"types": "Patient"}, {"qualityQ": "pm10.precision>=90"})
    for options in asked:
        assert batch(spark, node, LAB, **options).count() > 0, options
        assert batch(spark, node, TOWN, **options).count() == 0, options


@pytest.mark.long
def test_the_lake_and_what_a_capsule_makes_have_nothing_that_policy_forbids(
    spark: SparkSession, node: Town, tmp_path: Path
) -> None:
    file = tmp_path / "town.toml"
    file.write_text(PIPELINE.format(url=node.url, source=TOWN, sink=TOWN))
    state = run(load(file), is_once=True, spark=spark)
    assert (state.status, state.warnings) == ("done", []), state.error
    lake = Lake(tmp_path / "lake")
    assert lake.table(spark, "raw").count() == STATIONS + 1
    for table in ("raw", "derived_by_street"):
        assert lake.table(spark, table).count() > 0
        assert_nothing_hidden(text_of(lake.table(spark, table)))
    (street,) = node.ask("GET", "/ngsi-ld/v1/entities?type=StreetAir", LAB).data
    assert_nothing_hidden(json.dumps(street))
    assert street["no2"]["value"] == (40 * 2 + 50 * 2) / STATIONS
    assert tuple(street["location"]["value"]["coordinates"]) == pytest.approx(snapped(LON, LAT, 1000))
    kept = [path for path in (tmp_path / "town.pipeline").rglob("*") if path.is_file()]
    assert kept
    for path in kept:  # checkpoints, state, logs: words of Spark's own are in them as well
        assert_nothing_hidden(path.read_bytes().decode("latin-1"), VALUES)


def test_without_a_token_and_with_a_wrong_one_the_source_says_what_is_missing(
    spark: SparkSession, node: Town, tmp_path: Path
) -> None:
    remedy = "set the option token, or HANSE_TOKEN, to a token that it accepts"
    missing = f"the node {node.url} refuses: Unauthorized: without a token nothing can be read here; send one (401); {remedy}"
    for who, said in (("", missing), (LAB[:-4] + "AAAA", remedy)):
        with pytest.raises(Exception) as caught:
            batch(spark, node, who).collect()
        assert words(caught.value).endswith(said)
        with pytest.raises(Exception) as caught:
            stream(spark, node, who, tmp_path / str(len(who)))
        assert words(caught.value).endswith(said)


@pytest.mark.long
def test_a_pipeline_that_may_not_publish_says_so_and_keeps_what_it_made(spark: SparkSession, node: Town, tmp_path: Path) -> None:
    file = tmp_path / "town.toml"
    file.write_text(
        PIPELINE.format(url=node.url, source=TOWN, sink=token("nora", "nowhere")).replace('"raw", "derived"', '"raw"')
    )
    state = run(load(file), is_once=True, spark=spark)
    letters = [json.loads(line) for path in tmp_path.rglob("*.jsonl") for line in path.read_text().splitlines()]
    assert [(letter["id"].startswith("urn:ngsi-ld:StreetAir:"), "may not publish" in letter["reason"]) for letter in letters] == [
        (True, True)
    ]
    assert state.status == "done"
    assert "is not advertised" in state.warnings[0]
    assert node.ask("GET", "/ngsi-ld/v1/entities?type=StreetAir", LAB).data == []
