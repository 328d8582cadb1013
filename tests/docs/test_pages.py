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
from tests.docs.pages import PAGES, ROOT, blocks, read
from tests.mosquitto import find_mosquitto

from hanse.model.ports import free_port

FOLLOWED = [page for page in PAGES if any(block.kind == "sh" for block in blocks(read(page)))]
LONG = {  # Spark, or many commands
    "docs/agents.md",
    "docs/collectors.md",
    "docs/federation.md",
    "docs/large-simulation.md",
    "docs/operate.md",
    "docs/pipeline-applications.md",
    "docs/pipeline-cookbook.md",
    "docs/pipeline.md",
    "docs/policies.md",
    "docs/strategies.md",
    "examples/bordeaux-air/README.md",
    "examples/hiking/README.md",
    "examples/olympic-paris/README.md",
    "examples/smart-port/README.md",
}
PAGE_S_MAX = 200  # of one that every run of the tests follows
LONG_PAGE_S_MAX = 1100
# of the node and another one, of its MQTT broker, of Mosquitto, of a receiver, of two linked nodes
PORTS = (9090, 9091, 1884, 1883, 8081, 9111, 9112, 7411, 7412)


def is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def with_free_ports(text: str) -> tuple[str, int]:
    """The page and the node's port; if someone else has a port of the page just now, with another one."""
    ports = {str(port): str(port if is_free(port) else free_port()) for port in PORTS}
    return re.sub(r"\b(?:" + "|".join(ports) + r")\b", lambda found: ports[found[0]], text), int(ports[str(PORTS[0])])


def test_there_are_pages_with_commands() -> None:
    pages = {"quickstart", "operate", "mqtt", "models", "federation", "agents", "collectors", "pipeline-applications"}
    assert {f"docs/{name}.md" for name in pages} <= set(FOLLOWED)
    assert LONG | {"deploy/README.md", "examples/olympic-paris/README.md"} <= set(FOLLOWED)


@pytest.mark.parametrize("page", [pytest.param(page, marks=pytest.mark.long) if page in LONG else page for page in FOLLOWED])
def test_every_command_does_what_the_page_says(page: str, tmp_path: Path) -> None:
    with one_at_a_time():
        follow(page, tmp_path)


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Pages use the same ports; another run of the tests may be at another page."""
    with Path(__file__).open(encoding="utf-8") as here:
        fcntl.flock(here, fcntl.LOCK_EX)
        yield


def environment_of_a_person(port: int, folder: Path) -> dict[str, str]:
    """Nothing of `make` and pytest, which programs in the page would notice; what is installed is found."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "HANSE_", "PYTEST"))}
    programs = (Path(sys.executable).parent, kept["PATH"], Path(find_mosquitto()).parent)
    return kept | {
        "HANSE_URL": f"http://127.0.0.1:{port}",
        "TMPDIR": str(folder),
        "COLUMNS": "200",
        "PATH": ":".join(map(str, programs)),
    }


def follow(name: str, tmp_path: Path) -> None:
    page, port = with_free_ports(read(name))
    # a marker after each block says which block an answer belongs to; what a page leaves running ends with it
    parts = [block for block in blocks(page) if block.kind in {"sh", "text"}]
    script = ["set -eu", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"]
    for number, block in enumerate(parts):
        if block.kind == "sh":
            script += [f"echo '=== {number}'", block.text]
    ran = subprocess.run(
        ["bash", "-m", "-c", "\n".join(script)],  # the shell of a person has job control (%1)
        cwd=ROOT,
        env=environment_of_a_person(port, tmp_path),
        capture_output=True,
        text=True,
        timeout=LONG_PAGE_S_MAX if name in LONG else PAGE_S_MAX,
        check=False,
    )
    said = dict(zip(*[iter(re.split(r"^=== (\d+)\n", ran.stdout, flags=re.MULTILINE)[1:])] * 2, strict=True))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    answer = ""
    for number, block in enumerate(parts):
        answer = said.get(str(number), answer)
        if block.kind == "text":
            for line in block.text.splitlines():
                assert line in answer, f"{line!r} is not in:\n{answer}\n{ran.stderr}"
