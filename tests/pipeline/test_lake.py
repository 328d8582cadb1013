"""The lake: written once, read whatever happens to its files, and in SQL."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Ran
from tests.pipeline.filling import node_with, station, upsert

from hanse.model import InvalidInput
from hanse.pipeline import register
from hanse.pipeline.lake import Lake, typed
from hanse.pipeline.lake_files import Table
from hanse.pipeline.schema import parse_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# --- files: no Spark needed ---------------------------------------------------------------------------------------------


def landed(folder: Path, batch: int, records: range, *, date: str = "2026-03-01", type_: str = "Room", **more: Any) -> None:
    """A file as Spark's file sink leaves it, with its entry in Spark's log."""
    incoming = folder / "incoming"
    place = incoming / f"date={date}" / f"type={type_}"
    place.mkdir(parents=True, exist_ok=True)
    file = place / f"part-{batch}-{records.start}.parquet"
    columns: dict[str, Any] = {"node": ["a"] * len(records), "offset": list(records)}
    columns |= {name: [value] * len(records) for name, value in more.items()}
    pq.write_table(pa.table(columns), file)
    metadata = incoming / "_spark_metadata"
    metadata.mkdir(exist_ok=True)
    entry = json.dumps({"path": file.resolve().as_uri(), "size": 1, "action": "add"})
    (metadata / str(batch)).write_text(f"v1\n{entry}\n")


def offsets(table: Table, files: list[Any] | None = None) -> list[int]:
    found = table.visible() if files is None else files
    return sorted(one for file in found for one in pq.ParquetFile(table.folder / file.path).read()["offset"].to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> Table:
    for batch in range(4):
        landed(tmp_path / "raw", batch, range(10 * batch, 10 * batch + 10))
    return Table(tmp_path / "raw")


def test_what_spark_has_not_committed_does_not_count(table: Table) -> None:
    assert offsets(table) == list(range(40))
    (table.folder / "incoming" / "_spark_metadata" / "3").unlink()
    assert offsets(table) == list(range(30))


def test_sparks_log_may_be_compacted(table: Table) -> None:
    metadata = table.folder / "incoming" / "_spark_metadata"
    lines = [line for n in range(3) for line in (metadata / str(n)).read_text().splitlines()[1:]]
    (metadata / "2.compact").write_text("\n".join(["v1", *lines]))
    (metadata / "2").unlink()
    (metadata / "0").unlink()
    assert offsets(table) == list(range(40))


def test_compaction_keeps_every_record_and_readers_keep_their_files(table: Table) -> None:
    before = table.visible()
    changed = table.compact()
    assert (changed.files_before, changed.files_after, changed.deleted) == (4, 1, 0)
    assert offsets(table) == list(range(40))
    assert offsets(table, before) == list(range(40))  # whoever has begun before goes on
    landed(table.folder, 4, range(40, 50))
    assert offsets(table) == list(range(50))
    table.compact(grace_s=0)
    assert offsets(table) == list(range(50))
    table.compact(grace_s=0)
    files = [path for path in table.folder.rglob("*.parquet") if path.is_file()]
    assert len(files) == 1
    assert offsets(table) == list(range(50))
    assert table.version().covered == ()


def test_places_stay_apart(tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    for batch, (date, type_) in enumerate([("2026-03-01", "A"), ("2026-03-01", "B"), ("2026-03-02", "A")] * 2):
        landed(folder, batch, range(batch, batch + 1), date=date, type_=type_)
    table = Table(folder)
    table.compact()
    assert [(file.date, file.type) for file in table.visible()] == [
        ("2026-03-01", "A"), ("2026-03-01", "B"), ("2026-03-02", "A"),
    ]  # fmt: skip
    assert offsets(table) == list(range(6))


def test_large_files_are_left_alone(table: Table) -> None:
    assert table.compact(small_bytes=10).files_after == 4


def test_files_of_different_schemas_are_not_mixed(tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    for batch, value in enumerate([1, "one", 2, "two"]):
        landed(folder, batch, range(batch, batch + 1), value=value)
    table = Table(folder)
    assert table.compact().files_after == 2
    assert offsets(table) == [0, 1, 2, 3]


def test_old_days_are_let_go(tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    landed(folder, 0, range(5), date="2026-01-01")
    landed(folder, 1, range(5, 10), date="2026-01-02")
    table = Table(folder)
    assert table.expire("2026-01-02").files_after == 1
    assert offsets(table) == list(range(5, 10))
    table.compact(grace_s=0)
    table.compact(grace_s=0)
    assert not (folder / "incoming" / "date=2026-01-01" / "type=Room" / "part-0-0.parquet").exists()
    assert offsets(table) == list(range(5, 10))


def test_two_who_change_it_at_once_do_not_both(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    joined = Table._joined
    other = Table(table.folder)

    def slow(self: Table, group: Any) -> Any:
        made = list(joined(self, group))
        if self is table:
            other.compact()
        return made

    monkeypatch.setattr(Table, "_joined", slow)
    with pytest.raises(InvalidInput, match="somebody else"):
        table.compact()
    assert offsets(table) == list(range(40))


_COMPACTING = """
import sys, time
from pathlib import Path
from hanse.pipeline.lake_files import Table
print("ready", flush=True)
while True:
    Table(Path(sys.argv[1])).compact(small_bytes=2**20, grace_s=0.5)
"""


def test_compaction_that_is_killed_again_and_again_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """While a stream writes and readers read."""
    folder = tmp_path / "raw"
    landed(folder, 0, range(10))
    table = Table(folder)
    rounds = int(os.environ.get("HANSE_KILLS", "6"))
    written = 1
    for round_ in range(rounds):
        with subprocess.Popen([sys.executable, "-c", _COMPACTING, str(folder)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            for _ in range(3 + round_ % 3):
                landed(folder, written, range(10 * written, 10 * written + 10))
                written += 1
                assert offsets(table) == list(range(10 * written))
            process.send_signal(signal.SIGKILL)
        assert offsets(table) == list(range(10 * written))
    time.sleep(0.6)
    table.compact(grace_s=0.5)
    assert offsets(table) == list(range(10 * written))


# --- with Spark ---------------------------------------------------------------------------------------------------------


def ingest(spark: SparkSession, lake: Lake, url: str) -> None:
    register(spark)
    stream = spark.readStream.format("hanse").option("nodes", f"a={url}").load()
    lake.write(stream, trigger={"availableNow": True}).awaitTermination()


@pytest.fixture(scope="module")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Three ingestions, with attributes that appear and change their type, and a compaction between them."""
    lake = Lake(tmp_path_factory.mktemp("lake"))
    with node_with([station(n, n) for n in range(5)]) as (url, node):
        ingest(spark, lake, url)
        upsert(node, [station(1, "high"), station(2, 2.5, pm10={"type": "Property", "value": 7})])
        ingest(spark, lake, url)
        lake.compact()
        upsert(node, [{"id": "urn:x:1", "type": "https://example.org/a%20b", "no2": True}])
        ingest(spark, lake, url)
    return lake


def test_the_raw_table_has_every_record_once(spark: SparkSession, filled: Lake) -> None:
    rows = filled.table(spark).orderBy("offset").collect()
    assert [row.offset for row in rows] == list(range(1, 9))
    assert {row.type for row in rows} == {"AirQualityObserved", "https://example.org/a%20b"}
    assert rows[0].date == rows[0]["at"].date()
    (summary,) = filled.summaries()
    assert (summary["records"], summary["files"]) == (8, 2)
    assert summary["types"] == ["AirQualityObserved", "https://example.org/a%20b"]


def test_attributes_that_appear_or_change_their_type_are_read_all_the_same(spark: SparkSession, filled: Lake) -> None:
    rows = filled.table(spark, columns="no2 double, pm10 bigint").orderBy("offset").collect()
    assert [row.no2 for row in rows] == [0.0, 1.0, 2.0, 3.0, 4.0, None, 2.5, None]
    assert [row.pm10 for row in rows] == [None] * 6 + [7, None]
    as_text = filled.table(spark, columns="no2 string").orderBy("offset").collect()
    assert [row.no2 for row in as_text[4:]] == ["4", "high", "2.5", "true"]


def test_views_in_sql(spark: SparkSession, filled: Lake) -> None:
    assert filled.views(spark) == ["raw"]
    row = spark.sql("SELECT max(try_variant_get(attributes, '$.no2.precision.value', 'double')) AS p FROM raw").first()
    assert row is not None
    assert row.p == 90.0


def test_columns_that_change_their_type_are_merged(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "derived"
    landed(folder, 0, range(1), value=1)
    landed(folder, 1, range(1, 2), value=1.5)
    landed(folder, 2, range(2, 3), value="high", note="x")
    landed(folder, 3, range(3, 4), value=[{"a": 1}])
    rows = Lake(tmp_path).table(spark, "derived").orderBy("offset").collect()
    assert [row.value for row in rows] == ["1.0", "1.5", "high", '[{"a":1}]']
    assert [row.note for row in rows] == [None, None, "x", None]
    shutil.rmtree(folder)
    landed(folder, 0, range(1), value=1)
    landed(folder, 1, range(1, 2), value=1.5)
    frame = Lake(tmp_path).table(spark, "derived")
    assert dict(frame.dtypes)["value"] == "double"


def test_typed_columns_of_other_kinds(spark: SparkSession) -> None:
    open_part = {
        "when": {"value": {"@type": "DateTime", "@value": "2026-03-01T12:00:00Z"}},
        "on": {"value": True},
        "n": {"value": 3},
    }
    frame = spark.createDataFrame([(json.dumps(open_part),), ('{"on": {"value": 1}, "n": null}',)], "attributes string")
    rows = typed(frame, parse_columns("when timestamp, on boolean, n string")).collect()
    assert rows[0].when.isoformat() == "2026-03-01T12:00:00"
    assert [(row.on, row.n) for row in rows] == [(True, "3"), (None, None)]


def test_a_table_whose_checkpoint_is_gone_is_not_written(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    landed(tmp_path / "raw", 0, range(3))
    stream = spark.readStream.format("rate").load().selectExpr("timestamp AS at", "'A' AS type")
    with pytest.raises(InvalidInput, match=r"its checkpoint .* is gone"):
        lake.write(stream)
    with pytest.raises(InvalidInput, match="'Raw Table' is none"):
        lake.write(stream, "Raw Table")
    with pytest.raises(InvalidInput, match="type is missing"):
        lake.write(stream.drop("type"), "other")


# --- as typed -----------------------------------------------------------------------------------------------------------


def test_the_commands(hanse: Callable[..., Ran], filled: Lake) -> None:
    statement = "SELECT count(*) AS n, max(attributes:no2.precision.value::int) AS p FROM raw WHERE no2 >= 2"
    listed = hanse("lake", "tables", "--lake", filled.folder, "--json")
    assert json.loads(listed.out)[0]["records"] == 8
    assert "raw: 8 records of 20" in hanse("lake", "tables", "--lake", filled.folder).out
    asked = hanse("lake", "sql", statement, "--lake", filled.folder, "--columns", "no2 double", "--json")
    assert json.loads(asked.out) == [{"n": 4, "p": 90}]
    assert asked.err == ""
    shown = hanse("lake", "sql", "SELECT 'urn:station:[b]' AS id, attributes FROM raw", "--lake", filled.folder, "--rows", "2")
    assert len(shown.out.splitlines()) == 3
    assert "urn:station:[b]" in shown.out  # as it is
    assert shown.err.startswith("there are more")
    wrong = hanse("lake", "sql", "SELECT colour FROM raw", "--lake", filled.folder)
    assert wrong.code == 2
    assert wrong.err.startswith("hanse: A column, variable, or function parameter with name `colour` cannot be resolved")
    assert len(wrong.err.splitlines()) == 1
    nowhere = hanse("lake", "sql", "SELECT 1", "--lake", filled.folder / "nowhere")
    assert (nowhere.code, nowhere.err.startswith("hanse: there is no lake at")) == (2, True)


def test_the_commands_that_change(hanse: Callable[..., Ran], tmp_path: Path) -> None:
    for batch in range(3):
        landed(tmp_path / "raw", batch, range(10 * batch, 10 * batch + 10))
    assert hanse("lake", "compact", "--lake", tmp_path).out == "raw: 3 files before, 1 now; 0 old ones deleted\n"
    told = json.loads(hanse("lake", "expire", "--keep-days", 0, "--lake", tmp_path, "--json").out)
    assert told["raw"]["files_after"] == 0
    assert "there is no table 'cooked'" in hanse("lake", "compact", "--lake", tmp_path, "--table", "cooked").err
