"""`hanse serve` as a process: it starts, says where it is, and ends cleanly."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.node_process import HANSE, served

import hanse


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_cleanly_when_told(sign: signal.Signals, tmp_path: Path) -> None:
    with served("--data", tmp_path / "data") as (process, url):
        with hanse.connect_sync(url) as node:
            node.create({"id": "urn:ngsi-ld:Room:1", "type": "Room"})
            with node.subscribe(type="Room"):  # an open stream does not hold it up
                process.send_signal(sign)
                out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (0, "", "")
    with served("--data", tmp_path / "data") as (_, url), hanse.connect_sync(url) as node:
        assert node.get("urn:ngsi-ld:Room:1")["type"] == "Room"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*HANSE, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


def test_it_ends_by_itself_after_its_time() -> None:
    ran = run("serve", "--port", 0, "--no-mqtt", "--seconds", 0.1)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("Hanse node 'hanse' is ready.\n")


def test_what_keeps_it_from_starting_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = run("serve", "--port", port, "--no-mqtt")
        assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
        assert f"127.0.0.1:{port}: cannot listen there" in ran.stderr
    with served("--data", tmp_path):
        ran = run("serve", "--port", 0, "--no-mqtt", "--data", tmp_path)
        assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
        assert "in use by another process" in ran.stderr
    (tmp_path / "map.json").write_text('{"http://example.org/c": "missing.jsonld"}', encoding="utf-8")
    ran = run("serve", "--contexts", tmp_path / "map.json")
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert "which is no file" in ran.stderr


def test_contexts_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "c.jsonld").write_text('{"@context": {"warmth": "http://example.org/warmth"}}', encoding="utf-8")
    (tmp_path / "map.json").write_text(json.dumps({"http://example.invalid/c": "c.jsonld"}), encoding="utf-8")
    with (
        served("--contexts", tmp_path / "map.json") as (_, url),
        hanse.connect_sync(url, context="http://example.invalid/c") as node,
        hanse.connect_sync(url) as plain,
    ):
        node.create({"id": "urn:ngsi-ld:Room:1", "type": "Room", "warmth": 3})
        assert plain.get("urn:ngsi-ld:Room:1", format="simplified")["http://example.org/warmth"] == 3


def test_it_imports_nothing_that_a_node_does_not_need() -> None:
    code = "import hanse.cli, hanse.cli.serve, hanse.node.server, hanse.node.http.app, sys; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(ran.stdout.split())
    for name in ("matplotlib", "pyarrow", "networkx", "hanse.studies", "hanse.simulation", "hanse.cli.simulate"):
        assert name not in loaded, name
