"""Collectors on real Spark: files of every form, a folder that grows, and what is wrong in them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bordeaux.measurements import read
from hanse.model import InvalidInput
from hanse.pipeline.collectors import Collected, collect, keep
from hanse.pipeline.mapper import DUPLICATE, EMPTY, NO_TIME, UNREADABLE, WRONG_TYPE
from hanse.pipeline.mapping import load_mapping

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXAMPLE = Path(__file__).parents[2] / "examples" / "bordeaux-air"
DATA = EXAMPLE / "data" / "air-quality-uci.csv"
TEXT = """
[source]
name = "stations"
format = "csv"
[entity]
id = "urn:x:{station}"
type = "Air"
[time]
column = "when"
[[attributes]]
name = "NO2"
column = "no2"
"""
MAPPING = load_mapping(TEXT)


def values(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((row.entity, row.observed_at.isoformat(), row.value) for row in frame.collect())


def test_the_air_of_bordeaux_is_collected_whole(spark: SparkSession) -> None:
    found = collect(spark, load_mapping(EXAMPLE / "mapping.toml"), str(DATA))
    rows = found.observations.cache()
    columns = {"CO": "CO_GT", "NO2": "NO2_GT", "sensorO3": "PT08_S5_O3", "temperature": "T"}
    expected = read()  # by other code
    for attribute, column in columns.items():
        have = {
            row.observed_at: row.value for row in rows.where(rows.attribute == attribute).select("observed_at", "value").collect()
        }
        assert have == {hour.replace(tzinfo=None): row.values[column] for hour, row in expected.items() if column in row.values}
    first = rows.where("attribute = 'NO2'").orderBy("observed_at").first()
    assert first is not None
    assert (first.unit, first.key.rpartition("data/")[2], first.quality["completeness"]) == (
        "GQ",
        "air-quality-uci.csv/2/NO2",
        100.0,
    )
    nothing = sum(1 for row in expected.values() if not row.values.keys() - {"NMHC_GT", "AH"})
    assert found.counts() == {"": len(expected) - nothing} | ({EMPTY: nothing} if nothing else {})
    rows.unpersist()


def test_what_is_wrong_is_kept_aside_with_reason_and_line(spark: SparkSession, tmp_path: Path) -> None:
    lines = [
        b"\xef\xbb\xbfstation,when,no2",
        b"7,2026-01-31T12:00:00Z,41",
        b"7,2026-01-31T12:00:00Z,41",
        b"7,,42",
        b"7,2026-01-31T12:01:00Z,much",
        b"7,2026-01-31T12:02:00Z",
        b"\xff\xfe,2026-01-31T12:03:00Z,1",
        b"",
        b'"7,2026-01-31T12:04:00Z,1',
        b"8,2026-01-31T12:05:00Z,43\r",
    ]
    (tmp_path / "a.csv").write_bytes(b"\n".join(lines))
    with gzip.open(tmp_path / "b.csv.gz", "wb") as file:  # with the columns in another order
        file.write(b"no2,station,when\n44,9,2026-01-31T12:06:00Z\n")
    found = collect(spark, MAPPING, str(tmp_path))
    assert values(found.observations) == [
        ("urn:x:7", "2026-01-31T12:00:00", 41.0),
        ("urn:x:8", "2026-01-31T12:05:00", 43.0),
        ("urn:x:9", "2026-01-31T12:06:00", 44.0),
    ]
    aside = {int(row.position): row for row in found.rejected.collect()}
    assert {number: row.kind for number, row in aside.items()} == {
        3: DUPLICATE,
        4: NO_TIME,
        5: WRONG_TYPE,
        6: UNREADABLE,
        7: UNREADABLE,
        9: UNREADABLE,
    }
    assert [aside[number].line for number in (3, 4, 5, 6, 9)] == [lines[number - 1].decode() for number in (3, 4, 5, 6, 9)]
    assert aside[7].line.encode("latin-1") == lines[6]
    assert "much" in aside[5].reason
    assert found.counts() == {"": 3, DUPLICATE: 1, NO_TIME: 1, WRONG_TYPE: 1, UNREADABLE: 3}


def test_parquet_and_json_lines_say_the_same_as_csv(spark: SparkSession, tmp_path: Path) -> None:
    rows = [("7", "2026-01-31T12:00:00Z", 41.0), ("8", "2026-01-31T12:05:00Z", None), ("9", "later", 1.0)]
    frame = spark.createDataFrame(rows, "station string, when string, no2 double").coalesce(1)
    frame.write.parquet(str(tmp_path / "parquet"))
    frame.write.json(str(tmp_path / "jsonl"))
    for form in ("parquet", "jsonl"):
        found = collect(spark, load_mapping(TEXT.replace('"csv"', f'"{form}"')), str(tmp_path / form))
        assert values(found.observations) == [("urn:x:7", "2026-01-31T12:00:00", 41.0)]
        assert found.counts() == {"": 1, EMPTY: 1, NO_TIME: 1}
        assert len({row.key for row in found.observations.collect()}) == 1


def run(found: Collected, folder: Path) -> None:
    query = keep(found, str(folder / "kept"), checkpoint=str(folder / "checkpoint"), available_now=True)
    query.awaitTermination()


def test_a_folder_that_grows_is_read_once_whatever_is_in_it(spark: SparkSession, tmp_path: Path) -> None:
    incoming = tmp_path / "in"
    incoming.mkdir()
    (incoming / "1.csv").write_text("station,when,no2\n7,2026-01-31T12:00:00Z,41\n7,rubbish\n")
    run(collect(spark, MAPPING, str(incoming), stream=True), tmp_path)
    (incoming / "2.csv").write_text(
        "station,when,no2\n7,2026-01-31T12:00:00Z,41\n7,2026-01-31T12:01:00Z,42\n7,2026-01-31T12:01:00Z,42\n"
    )
    (incoming / "3.csv").write_bytes(b"\x00\x01\x02")
    run(collect(spark, MAPPING, str(incoming), stream=True), tmp_path)
    run(collect(spark, MAPPING, str(incoming), stream=True), tmp_path)  # nothing new
    newest = max((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    for file in (newest, newest.with_name(f".{newest.name}.crc")):
        file.unlink()
    run(collect(spark, MAPPING, str(incoming), stream=True), tmp_path)  # as after a crash before the commit: the batch again
    observed = spark.read.parquet(str(tmp_path / "kept" / "observations"))
    assert values(observed) == [("urn:x:7", "2026-01-31T12:00:00", 41.0), ("urn:x:7", "2026-01-31T12:01:00", 42.0)]
    rejected = spark.read.parquet(str(tmp_path / "kept" / "rejected")).collect()
    assert sorted((Path(row.place).name, row.position, row.kind) for row in rejected) == [
        ("1.csv", "3", UNREADABLE),
        ("2.csv", "2", DUPLICATE),
        ("2.csv", "4", DUPLICATE),
        ("3.csv", "1", UNREADABLE),
    ]


def test_a_place_that_is_not_there_is_refused_in_words(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is nothing at"):
        collect(spark, MAPPING, str(tmp_path / "none"))
    with pytest.raises(InvalidInput, match="is a file"):
        collect(spark, MAPPING, str(DATA), stream=True)


def test_a_folder_that_is_still_empty_is_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    run(collect(spark, MAPPING, str(tmp_path / "in"), stream=True), tmp_path)
    with pytest.raises(InvalidInput, match="no Parquet file yet"):
        collect(spark, load_mapping(TEXT.replace('"csv"', '"parquet"')), str(tmp_path / "in"), stream=True)
