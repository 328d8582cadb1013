"""The smart port as processes of this machine at free ports, and a dashboard that was told of one of its nodes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.mosquitto import free_port
from tests.node.federation.linked import seen, until

import hanse
from hanse.node.federation.local import LocalFederation

EXAMPLE = Path(__file__).parents[2] / "examples" / "smart-port"
WAIT_S = 60.0


@pytest.fixture(scope="session")
def smart_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFederation]:
    folder = tmp_path_factory.mktemp("smart-port")
    text = (EXAMPLE / "federation.toml").read_text()
    (folder / "federation.toml").write_text(re.sub(r"127\.0\.0\.1:\d+", lambda _: f"127.0.0.1:{free_port()}", text))
    shutil.copy(EXAMPLE / "scopes.toml", folder)
    with LocalFederation(folder / "federation.toml", folder / "nodes") as federation:
        federation.start()
        for node in federation.nodes:
            until(lambda node=node: _sees_all(federation, node), f"{node} sees all others")  # type: ignore[misc]
        yield federation


def _sees_all(federation: LocalFederation, node: str) -> bool:
    with hanse.connect_sync(federation.url(node)) as client:
        return seen(client) >= set(federation.nodes)


@pytest.fixture(scope="session")
def dashboard(smart_port: LocalFederation) -> Iterator[str]:
    """The address of the pages; every node of the smart port has been asked."""
    with dashboard_of(smart_port.url("port")) as url:
        yield url


@contextmanager
def dashboard_of(*nodes: str) -> Iterator[str]:
    """A `hanse dashboard` process, which ends with the block; gives its address."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    command = [sys.executable, "-m", "hanse", "dashboard", *nodes, "--port", str(port), "--no-open"]
    env = {
        name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"
    }  # nicegui would play a test of its own
    with tempfile.TemporaryFile() as said, subprocess.Popen(command, stdout=said, stderr=said, env=env) as process:
        try:
            end = time.monotonic() + WAIT_S
            while not _is_ready(url):
                said.seek(0)
                assert process.poll() is None, said.read().decode()
                assert time.monotonic() < end, "the dashboard does not answer"
                time.sleep(0.05)  # a process that starts says nothing before it answers
            yield url
        finally:
            process.terminate()
            process.wait(WAIT_S)


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=WAIT_S):
            return True
    except (urllib.error.URLError, ConnectionError):
        return False
