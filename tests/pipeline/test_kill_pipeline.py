"""kill -9 of the driver and of the nodes at random times: then every record is in the lake once, every output in its node once.

`make pipeline-kill` (`HANSE_KILLS=30 HANSE_SEED=1`) kills so often, and a pipeline with capsules and compaction as well.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.pipeline.filling import station, upsert

import hanse
from hanse.model.ports import free_port
from hanse.pipeline.lake_files import Table
from hanse.pipeline.sink import dead_letters

KILLS = int(os.environ.get("HANSE_KILLS", "3"))
SEED = int(os.environ.get("HANSE_SEED", "0"))
LONG = pytest.mark.skipif("HANSE_KILLS" not in os.environ, reason="takes minutes: make pipeline-kill")
LOOK_S = 0.05
PATIENCE_S = 1200.0
DRIVER = Path(__file__).with_name("driver.py")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
WINDOW_S = 10
STATIONS = 10
STREETS = 2


class Process:
    """Something that is started, killed and started again; `ready` begins the line that says that it has started."""

    def __init__(self, command: list[str], ready: str, log: Path) -> None:
        self._command = command
        self._ready = ready
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        with self._log.open("a") as log:
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
        if not self._ready:
            return
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(self._ready):
                return
        raise AssertionError(self._log.read_text())

    def kill(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        self.end()

    def end(self) -> None:
        """Kill it, if it is still there."""
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # all that it has started, the JVM among it
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def kill_and_start(self) -> None:
        self.kill()
        self.start()


def node(port: int, folder: Path) -> Process:
    command = [sys.executable, "-m", "hanse", "serve", "--port", str(port), "--data", str(folder), "--no-mqtt"]
    return Process(command, "Stop it", folder.with_suffix(".log"))


def offsets(table: Table) -> list[int]:
    return [one for file in table.visible() for one in pq.ParquetFile(table.folder / file.path).read()["offset"].to_pylist()]


def patiently(work: Callable[[], Any]) -> Any:
    """A node may be away just now."""
    while True:
        try:
            return work()
        except hanse.NgsiLdClientError as error:
            if error.status:
                raise
            time.sleep(LOOK_S)


@pytest.mark.long
def test_every_record_once_in_the_lake_and_every_output_once_in_its_node(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    ports = free_port(), free_port()
    source, target = f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}"
    nodes = [node(ports[0], tmp_path / "a"), node(ports[1], tmp_path / "b")]
    driver = Process([sys.executable, str(DRIVER), source, target, str(tmp_path)], "ready", tmp_path / "driver.log")
    table = Table(tmp_path / "lake" / "raw")
    sent = 0

    def publish(number: int) -> None:
        nonlocal sent
        with hanse.connect_sync(source) as client:
            for _ in range(number):
                batch = [station(n, sent) for n in range(10)]
                patiently(partial(upsert, client, batch))
                sent += 1

    def log(url: str) -> list[Any]:
        with hanse.connect_sync(url) as client:
            records: list[Any] = []
            while page := patiently(partial(client.log, records[-1]["offset"] if records else 0, limit=10_000)):
                records += page
            return records

    def until(number: int) -> None:
        while len(offsets(table)) < number:
            time.sleep(LOOK_S)

    try:
        publish(4)
        for turn in range(KILLS):
            before = len(offsets(table))
            publish(chance.randint(4, 12))
            until(before + 1)  # it is at work
            time.sleep(chance.random())
            (nodes[0], driver, nodes[1])[turn % 3].kill_and_start()
        end = log(source)[-1]["offset"]
        until(end)
        while len(outputs := [record["entity"] for record in log(target)]) < end:
            time.sleep(LOOK_S)
    finally:
        for process in (driver, *nodes):
            process.end()
    assert sorted(offsets(table)) == list(range(1, end + 1))
    assert Counter(outputs) == Counter(f"urn:derived:{offset}" for offset in range(1, end + 1))
    assert not (tmp_path / "dead").exists()


# --- a pipeline with capsules -----------------------------------------------------------------------------------------------

PIPELINE = """
trigger = 0.3

[source]
nodes = "a={source},b={target}"
maxRecordsPerTrigger = 200
recordsPerPartition = 60

[sink]
node = "{target}"
entitiesPerRequest = 3

[lake]
folder = "lake"
tables = ["raw"]

[spark]
"spark.driver.extraJavaOptions" = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"

[[capsules]]
name = "by-street"
kind = "aggregation"
types = ["AirQualityObserved"]
attributes = ["no2"]
place = "scope"
window = "{window} seconds"
late = "3 seconds"
statistics = ["mean", "count"]
output = "StreetAir"

[[capsules]]
name = "again"
kind = "filtering"
types = ["StreetAir"]
attributes = ["no2"]
output = "AgainAir"
newest_only = false
"""


def measured(number: int, second: int) -> dict[str, Any]:
    at = (NOON + timedelta(seconds=second)).isoformat().replace("+00:00", "Z")
    return {
        "id": f"urn:ngsi-ld:AirQualityObserved:{number}",
        "type": "AirQualityObserved",
        "scope": f"/street{number % STREETS}",
        "no2": {"type": "Property", "value": (7 * number + 3 * second) % 50, "observedAt": at},
    }


def expected_windows(seconds: int) -> dict[str, tuple[float, int]]:
    """What the capsule should have made of whole windows: the mean and the count, by id; without Spark."""
    values: dict[str, list[int]] = {}
    for second in range(seconds):
        start = (NOON + timedelta(seconds=second - second % WINDOW_S)).strftime("%Y%m%dT%H%M%SZ")
        for number in range(STATIONS):
            id_ = f"urn:ngsi-ld:StreetAir:by-street:/street{number % STREETS}:{start}"
            values.setdefault(id_, []).append(measured(number, second)["no2"]["value"])
    return {id_: (round(sum(many) / len(many), 6), len(many)) for id_, many in values.items()}


def records_of(url: str) -> list[Any]:
    with hanse.connect_sync(url) as client:
        found: list[Any] = []
        while page := patiently(partial(client.log, found[-1]["offset"] if found else 0, limit=10_000)):
            found += page
        return found


def written(url: str, type_: str) -> Counter[str]:
    return Counter(record["entity"] for record in records_of(url) if record["types"][0].endswith(f"/{type_}"))


def in_lake(table: Table) -> Counter[tuple[str, int]]:
    found: Counter[tuple[str, int]] = Counter()
    for file in table.visible():
        rows = pq.ParquetFile(table.folder / file.path).read(["node", "offset"])
        found.update(zip(rows["node"].to_pylist(), rows["offset"].to_pylist(), strict=True))
    return found


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.5)


@LONG
def test_every_output_of_capsules_once_whatever_is_killed(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    ports = free_port(), free_port()
    source, target = f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}"
    (tmp_path / "air.toml").write_text(PIPELINE.format(source=source, target=target, window=WINDOW_S))
    command = [sys.executable, "-m", "hanse", "pipeline", "run", str(tmp_path / "air.toml"), "--master", "local[2]", "--json"]
    compacting = [sys.executable, "-m", "hanse", "lake", "compact", "--lake", str(tmp_path / "lake")]
    nodes = [node(ports[0], tmp_path / "a"), node(ports[1], tmp_path / "b")]
    driver = Process(command, "", tmp_path / "driver.log")
    table = Table(tmp_path / "lake" / "raw")
    second = 0
    killed: Counter[str] = Counter()

    def publish(seconds: int) -> None:
        nonlocal second
        with hanse.connect_sync(source) as client:
            for _ in range(seconds):
                patiently(partial(upsert, client, [measured(number, second) for number in range(STATIONS)]))
                second += 1

    def pause() -> None:
        """Sometimes anything may be under way, sometimes the pipeline is at work for certain."""
        if chance.random() < 0.5:
            before = len(in_lake(table))
            wait_until(lambda: len(in_lake(table)) > before, "the pipeline does not go on")
        time.sleep(chance.uniform(0, 5))

    try:
        wait_until((tmp_path / "lake" / "raw" / "incoming").exists, "the pipeline does not begin")
        victims = ["driver", "source", "target", "compaction"] * (KILLS // 4 + 1)
        chance.shuffle(victims)
        for victim in victims[:KILLS]:
            publish(chance.randint(5, 25))
            pause()
            if victim == "compaction":
                compaction = Process(compacting, "", tmp_path / "compaction.log")
                time.sleep(chance.uniform(0.3, 3))
                compaction.end()
            else:
                {"driver": driver, "source": nodes[0], "target": nodes[1]}[victim].kill_and_start()
            killed[victim] += 1
            print(f"killed {victim}; {second} s published", flush=True)
        publish(WINDOW_S - second % WINDOW_S)
        expected = expected_windows(second)
        with hanse.connect_sync(source) as client:
            patiently(partial(upsert, client, [measured(0, second + 3600)]))  # all windows before are over
        wait_until(lambda: len(written(target, "AgainAir")) >= len(expected), "windows are missing")
        wait_until(lambda: len(in_lake(table)) == sum(len(records_of(url)) for url in (source, target)), "records are missing")
        assert written(target, "StreetAir") == Counter(dict.fromkeys(expected, 1))
        assert set(written(target, "AgainAir").values()) == {1}
        assert len(written(target, "AgainAir")) == len(expected)
        with hanse.connect_sync(target) as client:
            made = {id_: client.get(id_) for id_ in expected}
        assert {id_: (one["no2"]["value"], one["no2Count"]["value"]) for id_, one in made.items()} == expected
        logged = [("a", source), ("b", target)]
        assert in_lake(table) == Counter((name, record["offset"]) for name, url in logged for record in records_of(url))
        assert dead_letters(tmp_path / "air.pipeline" / "set-aside") == []
        print(f"seed {SEED}: {dict(killed)}; {len(expected)} windows and {len(in_lake(table)):,} records, each once")
    finally:
        for process in (driver, *nodes):
            process.end()


# --- compaction and letting go ------------------------------------------------------------------------------------------------

DAYS = ("2026-01-01", "2026-02-01", "2026-03-01")
CHANGING = """
import sys
from pathlib import Path
from hanse.pipeline.lake_files import Table
import pyarrow.parquet
table = Table(Path(sys.argv[1]))
print("ready", flush=True)
print(eval(sys.argv[2]), flush=True)
"""


def incoming(folder: Path, batch: int) -> list[tuple[int, str]]:
    """What a stream would have written in a batch: a small file for each day, and Spark's word that they count."""
    import pyarrow as pa

    told, rows = ["v1"], []
    for day in DAYS:
        path = folder / "incoming" / f"date={day}" / "type=Air" / f"part-{batch}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        numbers = [10 * batch + number for number in range(10)]
        pq.write_table(pa.table({"node": ["n"] * 10, "offset": numbers}), path)
        told.append(json.dumps({"path": path.as_uri(), "size": path.stat().st_size, "action": "add"}))
        rows += [(number, day) for number in numbers]
    log = folder / "incoming" / "_spark_metadata" / str(batch)
    log.parent.mkdir(exist_ok=True)
    log.write_text("\n".join(told))
    return rows


def test_compaction_and_letting_go_that_are_killed_change_all_or_nothing(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    folder = tmp_path / "raw"
    table = Table(folder)
    expected: Counter[tuple[int, str]] = Counter()
    kept = list(DAYS)

    def rows() -> Counter[tuple[int, str]]:
        found: Counter[tuple[int, str]] = Counter()
        for file in table.visible():
            found.update((number, file.date) for number in pq.ParquetFile(folder / file.path).read()["offset"].to_pylist())
        return found

    for turn in range(2 * KILLS):
        for part in range(5):
            expected.update(row for row in incoming(folder, 5 * turn + part) if row[1] in kept)
        is_letting_go = turn == KILLS
        work = f"table.expire({DAYS[1]!r}, grace_s=0)" if is_letting_go else "table.compact(grace_s=0)"
        process = subprocess.Popen(
            [sys.executable, "-c", CHANGING, str(folder), work], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0, 0.1))
        process.kill()
        process.communicate()
        remaining = Counter({row: number for row, number in expected.items() if row[1] != DAYS[0]})
        assert rows() in ((expected, remaining) if is_letting_go else (expected,))
        expected = rows()
    changed = table.compact(grace_s=0)
    assert rows() == expected
    assert changed.files_after <= len(DAYS) + 1
    table.expire(DAYS[2], grace_s=0)
    assert set(rows()) == {row for row in expected if row[1] == DAYS[2]}
    assert len(list(folder.glob("data/**/.*"))) == 0


def test_what_is_put_together_stays_until_that_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is killed in the moment before a version holds has deleted nothing, however short the grace."""
    folder = tmp_path / "raw"
    table = Table(folder)
    for batch in range(3):
        incoming(folder, batch)
    before = table.visible()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", killed)
        with pytest.raises(KeyboardInterrupt):
            table.compact(grace_s=0)
        with pytest.raises(KeyboardInterrupt):
            table.expire(DAYS[2], grace_s=0)
    assert table.visible() == before
    assert table.compact(grace_s=0).deleted >= len(before)
    assert not any((folder / file.path).exists() for file in before)
