"""kill -9 of the driver and of the nodes at random times: then every record is in the lake once, every output in its node once.

`HANSE_KILLS=20` kills more often.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from tests.pipeline.filling import station, upsert

import hanse
from hanse.pipeline.lake_files import Table

KILLS = int(os.environ.get("HANSE_KILLS", "3"))
LOOK_S = 0.05
DRIVER = Path(__file__).with_name("driver.py")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Process:
    """Something that is started, killed and started again."""

    def __init__(self, command: list[str], ready: str, log: Path) -> None:
        self._command = command
        self._ready = ready
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        with self._log.open("a") as log:
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(self._ready):
                return
        raise AssertionError(self._log.read_text())

    def kill(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
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


def test_every_record_once_in_the_lake_and_every_output_once_in_its_node(tmp_path: Path) -> None:
    chance = random.Random(KILLS)
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
        for process in (driver, *nodes):
            process.kill()
    except BaseException:
        for process in (driver, *nodes):
            if process._process is not None and process._process.poll() is None:
                process.kill()
        raise
    assert sorted(offsets(table)) == list(range(1, end + 1))
    assert Counter(outputs) == Counter(f"urn:derived:{offset}" for offset in range(1, end + 1))
    assert not (tmp_path / "dead").exists()
