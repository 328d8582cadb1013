"""The pages work as they are written: the commands of each run in one shell, and answer what the page says they answer."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = sorted(page.name for page in (ROOT / "docs").glob("*.md") if "\n```sh\n" in page.read_text(encoding="utf-8"))
LONG = {"pipeline.md", "policies.md", "operate.md", "agents.md"}  # Spark, or many commands
PORTS = (9090, 1884, 8081, 9111, 9112, 7411, 7412)  # of the node, of its MQTT broker, of a receiver, of two linked nodes


def blocks(page: str) -> list[tuple[str, str]]:
    return [(found[1], found[2]) for found in BLOCK.finditer(page)]


def is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def with_free_ports(text: str) -> tuple[str, int]:
    """The page and the node's port; if someone else has a port of the page just now, with another one."""
    ports = []
    for port in PORTS:
        ports.append(port if is_free(port) else free_port())
        text = text.replace(str(port), str(ports[-1]))
    return text, ports[0]


def test_there_are_pages_with_commands() -> None:
    assert {"quickstart.md", "operate.md", "mqtt.md", "models.md", "federation.md", "agents.md"} <= set(PAGES)


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long) if name in LONG else name for name in PAGES])
def test_every_command_does_what_the_page_says(name: str, tmp_path: Path) -> None:
    with one_at_a_time():
        follow(name, tmp_path)


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Pages use the same ports; another run of the tests may be at another page."""
    with Path(__file__).open(encoding="utf-8") as here:
        fcntl.flock(here, fcntl.LOCK_EX)
        yield


def follow(name: str, tmp_path: Path) -> None:
    page, port = with_free_ports((ROOT / "docs" / name).read_text(encoding="utf-8"))
    # a marker after each block says which block an answer belongs to; what a page leaves running ends with it
    parts = blocks(page)
    script = ["set -u", "trap 'kill $(jobs -p) 2>/dev/null' EXIT"]
    for number, (kind, text) in enumerate(parts):
        if kind == "sh":
            script += [f"echo '=== {number}'", text]
    # the shell of a person has job control (%1); the environment of `make` is not passed on to the `make` in the page
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "HANSE_"))}
    environment["HANSE_URL"] = f"http://127.0.0.1:{port}"
    environment["TMPDIR"] = str(tmp_path)
    environment["COLUMNS"] = "200"
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    ran = subprocess.run(
        ["bash", "-m", "-c", "\n".join(script)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    said = dict(zip(*[iter(re.split(r"^=== (\d+)\n", ran.stdout, flags=re.MULTILINE)[1:])] * 2, strict=True))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for number, (kind, expected) in enumerate(parts):
        if kind == "text":
            for line in expected.splitlines():
                assert line in said[str(number - 1)], f"{line!r} is not in:\n{said[str(number - 1)]}\n{ran.stderr}"
