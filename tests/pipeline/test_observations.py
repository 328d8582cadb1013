"""The long form: what records say becomes rows, and rows become entities that say the same."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from hanse.ngsild.contexts import CORE
from hanse.pipeline.entities import documents
from hanse.pipeline.observations import COLUMNS, SCHEMA, criterion_names, entities, observations, of_record
from hanse.pipeline.schema import ddl
from hanse.quality import default_registry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AT = datetime(2026, 1, 31, 12, 0, 5, tzinfo=UTC)
OBSERVED = datetime(2026, 1, 31, 12, 0, 0, 250_000, tzinfo=UTC)
NO2 = {
    "type": "Property",
    "value": 41,
    "unitCode": "GQ",
    "observedAt": "2026-01-31T12:00:00.25Z",
    "precision": {"type": "Property", "value": 80},
}
KNOWN = criterion_names(default_registry(), CORE.compact_iri)


def record(offset: int, attributes: dict[str, Any], **others: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "node": "fire",
        "offset": offset,
        "at": AT,
        "operation": "upsert",
        "kind": "updated",
        "id": "urn:x:1",
        "type": "Air",
        "types": ["Air"],
        "scopes": ["/town/north"],
        "location": None,
        "lon": -0.57,
        "lat": 44.84,
        "observedAt": None,
        "attributes": msgspec.json.encode(attributes).decode(),
    }
    return made | others


def frame(spark: SparkSession, *records: dict[str, Any]) -> DataFrame:
    return spark.createDataFrame([tuple(one.values()) for one in records], ddl())


def said(attributes: dict[str, Any]) -> list[Any]:
    return list(of_record(msgspec.json.encode(attributes).decode(), default_registry(), KNOWN))


def test_each_value_becomes_a_row(spark: SparkSession) -> None:
    place = {"type": "GeoProperty", "value": {"type": "Point", "coordinates": [1, 2]}}
    records = frame(
        spark,
        record(7, {"no2": NO2, "name": {"type": "Property", "value": "Quai"}, "gone": None}),
        record(8, {"location": place}),
    )
    rows = {row.key: row for row in observations(records).collect()}
    assert sorted(rows) == ["fire/7/name/", "fire/7/no2/", "fire/8/location/"]
    no2, name = rows["fire/7/no2/"], rows["fire/7/name/"]
    assert list(no2.asDict()) == list(COLUMNS)
    assert (no2.source, no2.entity, no2.type, no2.attribute) == ("fire", "urn:x:1", "Air", "no2")
    assert (no2.value, no2.text, no2.unit, no2.lat, no2.lon, no2.scopes) == (41.0, None, "GQ", 44.84, -0.57, ["/town/north"])
    assert no2.quality == {"precision": 80.0}
    assert (no2.observed_at.replace(tzinfo=UTC), no2.accepted_at.replace(tzinfo=UTC), no2.dated) == (OBSERVED, AT, True)
    assert (name.value, name.text, name.quality, name.dated, name.observed_at) == (None, "Quai", {}, False, name.accepted_at)
    assert msgspec.json.decode(rows["fire/8/location/"].text) == place["value"]


def test_instances_of_several_data_sets_have_keys_of_their_own(spark: SparkSession) -> None:
    records = frame(spark, record(1, {"no2": [NO2, NO2 | {"value": 43, "datasetId": "urn:d:2"}]}))
    assert {row.key: row.value for row in observations(records).collect()} == {"fire/1/no2/": 41.0, "fire/1/no2/urn:d:2": 43.0}


@pytest.mark.parametrize(
    ("member", "value", "expected"),
    [
        ("precision", 80, {"precision": 80.0}),
        ("http://www.w3.org/ns/dqv#precision", 12.5, {"precision": 12.5}),
        ("refreshRate", 2, {"refreshRate": 2.0}),
        ("precision", 120, {}),  # of 100
        ("precision", "good", {}),
        ("precision", True, {}),
        ("mood", 3, {}),
    ],
)
def test_quality_is_what_sub_properties_state(member: str, value: Any, expected: dict[str, float]) -> None:
    (one,) = said({"no2": {"type": "Property", "value": 1, member: {"type": "Property", "value": value}}})
    assert one.quality == expected


def test_of_several_statements_the_worst_counts() -> None:
    several = [{"type": "Property", "value": 60}, {"type": "Property", "value": 50, "datasetId": "urn:d:2"}]
    uri = {"http://www.w3.org/ns/dqv#precision": {"type": "Property", "value": 55}}
    (one,) = said({"no2": {"type": "Property", "value": 1, "precision": several, **uri}})
    assert one.quality == {"precision": 50.0}


def row(attribute: str, key: str, **others: Any) -> tuple[Any, ...]:
    made = dict.fromkeys(COLUMNS) | {
        "source": "fire",
        "entity": "urn:x:1",
        "type": "Air",
        "attribute": attribute,
        "observed_at": OBSERVED,
        "accepted_at": AT,
        "lat": 44.84,
        "lon": -0.57,
        "scopes": ["/town/north"],
        "quality": {},
        "key": key,
        "dated": True,
    }
    return tuple((made | others).values())


def published(made: DataFrame) -> list[dict[str, Any]]:
    return sorted((msgspec.json.decode(one.body) for batch in made.toArrow().to_batches() for one in documents(batch)), key=str)


def test_what_is_observed_at_one_time_is_one_entity(spark: SparkSession) -> None:
    rows = [
        row("no2", "1", value=41.0, unit="GQ", quality={"precision": 80.0, "freshness": 5.0}),
        row("note", "2", text='quite "loud" \u00e9\n'),
        row("nothing", "3"),
        row("not a number", "4", value=float("nan")),
    ]
    (entity,) = published(entities(spark.createDataFrame(rows, SCHEMA)))
    at = "2026-01-31T12:00:00.250000Z"
    assert entity == {
        "id": "urn:x:1",
        "type": "Air",
        "scope": ["/town/north"],
        "location": {"type": "GeoProperty", "value": {"type": "Point", "coordinates": [-0.57, 44.84]}},
        "no2": {
            "type": "Property",
            "value": 41.0,
            "unitCode": "GQ",
            "observedAt": at,
            "precision": {"type": "Property", "value": 80.0},
        },
        "note": {"type": "Property", "value": 'quite "loud" \u00e9\n', "observedAt": at},
    }


def test_two_values_of_one_attribute_are_both_published(spark: SparkSession) -> None:
    rows = [row("no2", "1", value=41.0), row("no2", "2", value=43.0)]
    made = published(entities(spark.createDataFrame(rows, SCHEMA)))
    assert [one["no2"]["value"] for one in made] == [41.0, 43.0]


def test_a_place_is_published_as_it_was_observed(spark: SparkSession) -> None:
    line = {"type": "LineString", "coordinates": [[1.0, 2.0], [3.0, 4.0]]}
    rows = [row("location", "1", text=msgspec.json.encode(line).decode(), lat=None, lon=None)]
    (entity,) = published(entities(spark.createDataFrame(rows, SCHEMA)))
    assert entity["location"]["value"] == line


def test_a_stream_gives_the_same_row_by_row(spark: SparkSession, tmp_path: Path) -> None:
    frame(spark, record(7, {"no2": NO2, "pm10": NO2 | {"value": 9}})).write.json(str(tmp_path / "in"))
    records = spark.readStream.schema(ddl()).json(str(tmp_path / "in"))
    query = (
        entities(observations(records))
        .writeStream.format("memory")
        .queryName("long_form")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    made = published(spark.table("long_form"))
    assert [sorted(one.keys() & {"no2", "pm10"}) for one in made] == [["no2"], ["pm10"]]
    assert [one["no2"]["observedAt"] for one in made if "no2" in one] == ["2026-01-31T12:00:00.250000Z"]
