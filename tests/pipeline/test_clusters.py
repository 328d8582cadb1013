"""The same pipeline on one log gives the same lake and entities on one machine, executors, a cluster, and by Spark Connect.

`HANSE_CLUSTERS=1` (`make pipeline-clusters`) runs it; the workers' Python has what Hanse needs, and not Hanse: that is sent.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
import venv
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.filling import upsert
from tests.serving import serving, settings_with

import hanse
from hanse.model.ports import free_port
from hanse.pipeline import shipping
from hanse.pipeline.lake_files import Table
from hanse.pipeline.session import environment

if TYPE_CHECKING:
    from hanse.client.sync import SyncNodeClient

SENSORS, ROUNDS = 6, 32
WORKERS = 2
PATIENCE_S = 120.0
MADE = ("StreetAir", "DistrictAir")
TABLES = ("raw", "qualified")
CLUSTERS = pytest.mark.skipif(not os.environ.get("HANSE_CLUSTERS"), reason="takes minutes: make pipeline-clusters")

PIPELINE = """
[source]
nodes = "n={url}"
recordsPerPartition = 40

[sink]
node = "{url}"
entitiesPerRequest = 7

[lake]
folder = "lake"
tables = ["raw", "qualified"]

[spark]
"spark.sql.shuffle.partitions" = 2
"spark.executor.memory" = "768m"
"spark.driver.extraJavaOptions" = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"spark.executor.extraJavaOptions" = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"

[[capsules]]
name = "by-street"
kind = "aggregation"
types = ["AirQualityObserved"]
attributes = ["no2"]
area = '{area}'
quality = "accuracy>=medium"
place = "scope"
window = "1 minute"
late = "10 seconds"
statistics = ["mean", "max", "count"]
expected = 12
output = "StreetAir"
guarantee = "completeness>=50"

[[capsules]]
name = "district"
kind = "fusion"
types = ["StreetAir"]
attributes = ["no2"]
place = "everywhere"
window = "2 minutes"
late = "10 seconds"
expected = 2
output = "DistrictAir"
"""
RING = [[-1, 44], [0, 44], [0, 45], [-1, 45], [-1, 44]]
AREA = json.dumps({"type": "Polygon", "coordinates": [RING]})


# --- one log --------------------------------------------------------------------------------------------------------------


def measured(sensor: int, turn: int) -> dict[str, Any]:
    """Each sensor once in ten seconds, two streets; whole numbers, whose sums are exact in any order."""
    seconds = 10 * turn
    at = f"2026-03-01T12:{seconds // 60:02}:{seconds % 60:02}Z"
    accuracy = {"type": "Property", "value": 50 + 10 * (sensor % 5)} if sensor != 4 else {"type": "Property", "value": 10}
    return {
        "id": f"urn:ngsi-ld:AirQualityObserved:{sensor}",
        "type": "AirQualityObserved",
        "scope": f"/town/street{sensor % 2}",
        "location": {"type": "GeoProperty", "value": {"type": "Point", "coordinates": [-0.5 - sensor / 8, 44.5]}},
        "no2": {"type": "Property", "value": (7 * sensor + turn) % 40, "observedAt": at, "unitCode": "GQ", "accuracy": accuracy},
    }


def record(folder: Path) -> None:
    with serving(settings_with(store={"data": str(folder)})) as url, hanse.connect_sync(url) as node:
        for turn in range(ROUNDS):
            upsert(node, [measured(sensor, turn) for sensor in range(SENSORS)])


# --- where it runs --------------------------------------------------------------------------------------------------------


def bare_python(folder: Path) -> str:
    """A Python with all packages of this one, but without Hanse, which is there by a .pth file only."""
    venv.create(folder, symlinks=True)
    own = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    (own / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    program = str(folder / "bin" / "python")
    asked = [program, "-c", "import pyspark, msgspec; import hanse"]
    tried = subprocess.run(asked, env=without_path(os.environ), capture_output=True, text=True, check=False)
    assert "No module named 'hanse'" in tried.stderr
    return program


def without_path(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name != "PYTHONPATH"}


def spark_environment(python: str) -> dict[str, str]:
    import pyspark

    home = str(Path(pyspark.__file__).parent)
    return os.environ | environment() | {"SPARK_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": python}


def answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def daemon(what: str, *words: str, env: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [str(Path(env["SPARK_HOME"], "bin", "spark-class")), what, *words]
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=without_path(env), stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


@contextmanager
def standalone(folder: Path, env: dict[str, str]) -> Iterator[str]:
    """A master and two workers, each a process of its own."""
    folder.mkdir()
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    here = ("--host", "127.0.0.1", "--webui-port", "0")
    with ExitStack() as stack:
        stack.enter_context(
            daemon("org.apache.spark.deploy.master.Master", *here, "--port", str(port), env=env, log=folder / "master.log")
        )
        until(lambda: answers(port), folder / "master.log")
        for number in range(WORKERS):
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{number}"))
            log = folder / f"worker-{number}.log"
            stack.enter_context(daemon("org.apache.spark.deploy.worker.Worker", *here, *size, master, env=env, log=log))
        yield master


def until(is_so: Any, log: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.1)


# --- what comes of it -----------------------------------------------------------------------------------------------------


def result(folder: Path, recorded: Path, master: str, env: dict[str, str]) -> dict[str, Counter[str]]:
    """Run the pipeline on a copy of the log: what is in the lake and in the node afterwards, without what differs by time."""
    folder.mkdir()
    shutil.copytree(recorded, folder / "node")
    with serving(settings_with(store={"data": str(folder / "node")})) as url, hanse.connect_sync(url) as node:
        file = folder / "air.toml"
        file.write_text(PIPELINE.format(url=url, area=AREA))
        command = [sys.executable, "-m", "hanse", "pipeline", "run", str(file), "--once", "--master", master, "--json"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        log = folder / "air.pipeline" / "spark.log"
        assert done.returncode == 0, (done.stdout, done.stderr, log.read_text() if log.exists() else "")
        found = {table: rows(folder / "lake" / table) for table in TABLES}
        for type_ in ("AirQualityObserved", *MADE):
            found[type_] = Counter(json.dumps(entity, sort_keys=True) for entity in entities(node, type_))
        found["written"] = Counter(
            record["entity"]
            for record in node.request("GET", "/hanse/v1/log", params={"limit": 10_000}).data
            if record["types"][0].endswith(MADE)
        )
        return found


def entities(node: SyncNodeClient, type_: str) -> list[dict[str, Any]]:
    params = {"type": type_, "limit": 1000}
    found: list[dict[str, Any]] = node.request("GET", "/ngsi-ld/v1/entities", params=params).data
    return found


def rows(folder: Path) -> Counter[str]:
    import pyarrow.parquet as pq

    table = Table(folder)
    found: list[dict[str, Any]] = []
    for file in table.visible():
        found += pq.ParquetFile(folder / file.path).read().to_pylist()
    for row in found:
        if "attributes" in row:
            row["attributes"] = json.loads(row["attributes"])  # the order of its members says nothing
        if row.get("id", "").split(":")[2:3] != ["AirQualityObserved"] and "offset" in row:
            row |= {"offset": None, "at": None}  # made in this run, in the order of this run
    return Counter(json.dumps(row, sort_keys=True, default=str) for row in found)


def assert_worth_comparing(found: dict[str, Counter[str]]) -> None:
    assert sum(found["raw"].values()) == SENSORS * ROUNDS
    assert sum(found["qualified"].values()) == 2 * SENSORS * ROUNDS
    assert all(found[name] for name in (*TABLES, *MADE))
    assert set(found["written"].values()) == {1}


@contextmanager
def connect(folder: Path, env: dict[str, str]) -> Iterator[str]:
    """A server of Spark Connect, whose Python has Hanse."""
    folder.mkdir()
    port = free_port()
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": 2,
    }
    words = ["--master", "local[2]", *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}"))]
    server = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal")
    env = env | {"PYSPARK_PYTHON": sys.executable}
    with daemon("org.apache.spark.deploy.SparkSubmit", *words, *server, env=env, log=folder / "server.log"):
        until(lambda: answers(port), folder / "server.log")
        yield f"sc://127.0.0.1:{port}"


@CLUSTERS
def test_the_same_lake_and_the_same_entities_wherever_it_runs(tmp_path: Path) -> None:
    record(tmp_path / "recorded")
    env = spark_environment(bare_python(tmp_path / "python"))
    here = result(tmp_path / "local", tmp_path / "recorded", "local[2]", env)
    assert_worth_comparing(here)
    with standalone(tmp_path / "cluster", env) as master:
        on_cluster = result(tmp_path / "standalone", tmp_path / "recorded", master, env)
    assert on_cluster == here
    on_executors = result(tmp_path / "executors", tmp_path / "recorded", "local-cluster[2,1,1024]", env)
    assert on_executors == here
    with connect(tmp_path / "server", env) as master:
        on_connect = result(tmp_path / "connect", tmp_path / "recorded", master, env)
    assert on_connect == here


def test_what_is_shipped_works_without_being_unpacked(tmp_path: Path) -> None:
    """As one may give it to whatever takes zips: the zip itself on the path."""
    made = shipping.package(tmp_path)
    python = bare_python(tmp_path / "python")
    program = (
        "import hanse.pipeline.source, hanse.pipeline.sink, hanse.pipeline.collectors, hanse.pipeline.capsules\n"
        "from hanse.quality import default_registry\n"
        "from hanse.pipeline.schema import context_of\n"
        "assert hanse.__file__.startswith(r'%s')\n"
        "print(len(default_registry().by_name), context_of('').compact_iri('https://uri.etsi.org/ngsi-ld/location'))\n"
    )
    done = subprocess.run(
        [python, "-c", program % made], env=os.environ | {"PYTHONPATH": str(made)}, capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.stdout) == ("", "10 location\n")
