"""Pipelines as users run them: a file, a node, and what is in the node afterwards, once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.filling import node_with, upsert

from hanse.client.sync import SyncNodeClient
from hanse.model import InvalidInput
from hanse.pipeline.plan import load
from hanse.pipeline.runner import run
from hanse.pipeline.sink import dead_letters
from hanse.pipeline.state import Lock, State, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PATIENCE_S = 300.0

PIPELINE = """
trigger = "1 second"

[source]
nodes = "n={url}"

[sink]
node = "{url}"

[spark]
"spark.driver.extraJavaOptions" = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"

[[capsules]]
name = "by-street"
kind = "aggregation"
types = ["AirQualityObserved"]
attributes = ["no2"]
quality = "accuracy>=medium"
place = "scope"
window = "1 minute"
late = "10 seconds"
expected = 6
output = "StreetAir"
guarantee = "completeness>=50"
"""

LAKE = """
[lake]
folder = "lake"
tables = ["raw"]
"""

CHAINED = """
[[capsules]]
name = "clean-streets"
kind = "filtering"
types = ["StreetAir"]
attributes = ["no2"]
quality = "completeness>=high"
output = "CleanStreet"
"""


def measured(number: int, street: str = "/rue", accuracy: float = 80) -> dict[str, Any]:
    """One each ten seconds."""
    at = (NOON + timedelta(seconds=10 * number)).isoformat().replace("+00:00", "Z")
    value = {"type": "Property", "value": float(number), "observedAt": at, "accuracy": {"type": "Property", "value": accuracy}}
    return {"id": f"urn:ngsi-ld:AirQualityObserved:{street[1:]}", "type": "AirQualityObserved", "scope": street, "no2": value}


def send(node: SyncNodeClient, numbers: range, street: str = "/rue", accuracy: float = 80) -> None:
    for number in numbers:
        upsert(node, [measured(number, street, accuracy)])


def written(folder: Path, url: str, more: str = "") -> Path:
    file = folder / "air.toml"
    file.write_text(PIPELINE.format(url=url) + more)
    return file


def logged(node: SyncNodeClient, type_: str) -> Counter[str]:
    """How often each entity of a type was written."""
    told = node.request("GET", "/hanse/v1/log", params={"type": type_, "limit": 1000}).data
    return Counter(record["entity"] for record in told)


def street(minute: int, name: str = "rue") -> str:
    return f"urn:ngsi-ld:StreetAir:by-street:/{name}:20260301T12{minute:02}00Z"


def once(file: Path, spark: SparkSession) -> State:
    return run(load(file), file=str(file), is_once=True, spark=spark)


def test_from_the_log_through_capsules_to_the_node_and_again_from_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    with node_with() as (url, node):
        file = written(tmp_path, url, CHAINED)
        send(node, range(15))
        send(node, range(2), "/avenue")
        send(node, range(6), "/dark", accuracy=20)
        state = once(file, spark)
        assert (state.status, [one.status for one in state.queries]) == ("done", ["done"] * 2)
        assert logged(node, "StreetAir") == {street(0): 1, street(1): 1}
        found = node.get(street(1))
        assert found["no2"] == {
            "type": "Property",
            "value": 8.5,
            "observedAt": "2026-03-01T12:01:00.000000Z",
            "accuracy": {"type": "Property", "value": 80.0},
            "completeness": {"type": "Property", "value": 100.0},
        }
        assert found["scope"] == "/rue"
        (letter,) = dead_letters(tmp_path / "air.pipeline" / "set-aside" / "by-street")
        assert letter["id"] == street(0, "avenue")
        assert letter["reason"].startswith("below the guarantee: completeness is 33.3")
        capsule = next(one for one in state.queries if one.name == "capsule-by-street")
        assert (capsule.made, capsule.below, capsule.lag) == (3, 1, 0)
        assert capsule.watermark == "2026-03-01T12:02:10.000Z"
        assert set(logged(node, "CleanStreet").values()) == {1}
        producers = node.request("GET", "/hanse/v1/contracts/producers", params={"type": "StreetAir"}).data
        assert [(one["producer"], one["guarantee"]) for one in producers] == [("capsule-by-street", "completeness>=50")]

        send(node, range(15, 30))
        once(file, spark)
        assert logged(node, "StreetAir") == {street(minute): 1 for minute in range(4)}
        assert node.get(street(2))["no2"]["value"] == 14.5  # with what the first run had read of it
        assert len(logged(node, "CleanStreet")) == 4


@pytest.mark.long
def test_a_node_that_refuses_all_is_told_of_in_words(spark: SparkSession, tmp_path: Path) -> None:
    with node_with() as (url, node):
        send(node, range(15))
        file = written(tmp_path, url, LAKE)
        file.write_text(file.read_text().replace(f'[sink]\nnode = "{url}"', f'[sink]\nnode = "{url}/nowhere"'))
        state = once(file, spark)
    assert state.status == "failed"
    assert state.error is not None
    assert state.error.startswith(f"capsule-by-street: the node {url}/nowhere refuses: ")
    assert "\n" not in state.error
    assert next(one for one in state.queries if one.name == "lake-raw").status == "done"
    assert len(state.warnings) == 1
    assert "is not advertised" in state.warnings[0]


def test_one_pipeline_runs_once_at_a_time(tmp_path: Path) -> None:
    file = written(tmp_path, "http://127.0.0.1:9")
    with Lock(tmp_path / "air.pipeline"), pytest.raises(InvalidInput, match="this pipeline runs already"):
        run(load(file), file=str(file))


MAPPING = """
[source]
name = "stations"
format = "csv"

[entity]
id = "urn:ngsi-ld:AirQualityObserved:{{station}}"
type = "AirQualityObserved"

[time]
column = "time"
format = "iso"

[[attributes]]
name = "no2"
column = "no2"
unit = "GQ"
"""

COLLECTING = """
[sink]
node = "{url}"

[[collectors]]
name = "stations"
mapping = "stations.toml"
path = "incoming"
"""


def test_what_is_collected_is_in_the_node_and_what_is_wrong_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "stations.toml").write_text(MAPPING.replace("{{", "{").replace("}}", "}"))
    (tmp_path / "incoming").mkdir()
    lines = ["station,time,no2", "a,2026-03-01T12:00:00Z,41.5", "b,whenever,40", "c,2026-03-01T12:00:00Z,38"]
    (tmp_path / "incoming" / "one.csv").write_text("\n".join(lines) + "\n")
    with node_with() as (url, node):
        file = tmp_path / "collecting.toml"
        file.write_text(COLLECTING.format(url=url))
        state = once(file, spark)
        assert state.status == "done", state.error
        assert node.get("urn:ngsi-ld:AirQualityObserved:a")["no2"]["value"] == 41.5
        assert set(logged(node, "AirQualityObserved")) == {f"urn:ngsi-ld:AirQualityObserved:{name}" for name in "ac"}
    rejected = spark.read.parquet(str(tmp_path / "collecting.pipeline" / "rejected" / "stations")).collect()
    assert [(row["kind"], row["line"]) for row in rejected] == [("no time", lines[2])]


# --- as a process of its own ----------------------------------------------------------------------------------------------


def start(file: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "hanse", "pipeline", "run", str(file), "--master", "local[2]"]
    with (file.parent / "out.log").open("ab") as out:
        return subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)


def until(reached: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while not reached():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.1)


def asked(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "hanse", "pipeline", *words], capture_output=True, text=True, check=False)


@pytest.mark.long
def test_a_driver_that_is_killed_makes_each_output_once(tmp_path: Path) -> None:
    with node_with() as (url, node):
        file = written(tmp_path, url)
        folder, log = tmp_path / "air.pipeline", tmp_path / "out.log"
        send(node, range(15))
        process = start(file)
        try:
            until(lambda: street(1) in logged(node, "StreetAir"), process, log)
            assert read(folder).status == "running"
            send(node, range(15, 27))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert read(folder).status == "killed"
        assert asked("status", str(file)).returncode == 1
        send(node, range(27, 60))
        process = start(file)
        try:
            until(lambda: street(8) in logged(node, "StreetAir"), process, log)
            shown = json.loads(asked("status", str(file), "--json").stdout)
            assert (shown["status"], shown["pid"]) == ("running", process.pid)
            stopped = asked("stop", str(file))
            assert (stopped.stdout, stopped.stderr) == ("air is stopped\n", "")
            assert process.wait() == 0
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        assert logged(node, "StreetAir") == {street(minute): 1 for minute in range(9)}
        assert [node.get(street(minute))["no2"]["value"] for minute in range(9)] == [6 * minute + 2.5 for minute in range(9)]
    assert "Traceback" not in log.read_text()
    assert "Exception" not in log.read_text()
    assert asked("list", str(tmp_path)).stdout.count("stopped") == 1
    assert asked("stop", str(file)).stderr == "hanse: air does not run; it is stopped [H0101]\n"
