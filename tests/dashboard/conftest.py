"""The smart port as processes of this machine at free ports, and a dashboard that was told of one of its nodes.

They end with the tests of this folder: eight nodes that nobody looks at any more still take their part of the processors.
"""

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
from typing import IO

import pytest

import hanse
from hanse.model.ports import free_port
from hanse.node.federation.local import LocalFederation
from tests.node.federation.linked import seen, until

EXAMPLE = Path(__file__).parents[2] / "examples" / "smart-port"
WAIT_S = 60.0
ADDRESS = re.compile(r"The page is (http://\S+)")


@pytest.fixture(scope="package")
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


@pytest.fixture(scope="package")
def dashboard(smart_port: LocalFederation) -> Iterator[str]:
    """The address of the pages; every node of the smart port has been asked."""
    with dashboard_of(smart_port.url("port")) as url:
        yield url


@contextmanager
def dashboard_of(*nodes: str) -> Iterator[str]:
    """A `hanse dashboard` process, which ends with the block; gives its address."""
    command = [sys.executable, "-m", "hanse", "dashboard", *nodes, "--port", "0", "--no-open"]
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}  # nicegui looks for it
    with tempfile.TemporaryFile() as said, subprocess.Popen(command, stdout=said, stderr=said, env=env) as process:
        try:
            end = time.monotonic() + WAIT_S
            while not ((found := ADDRESS.search(_text(said))) and _is_ready(found[1])):
                assert process.poll() is None, _text(said)
                assert time.monotonic() < end, "the dashboard does not answer"
                time.sleep(0.05)  # a process that starts says nothing before it answers
            yield found[1]
        finally:
            process.terminate()
            process.wait(WAIT_S)


def _text(said: IO[bytes]) -> str:
    """From its beginning; where the process goes on writing stays as it is."""
    return os.pread(said.fileno(), 1 << 20, 0).decode()


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=WAIT_S):
            return True
    except (urllib.error.URLError, ConnectionError):
        return False
