"""A person follows README.md: makes the demo, and in another terminal does what it says, word by word; then the rest of it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.docs.pages import ROOT
from tests.docs.test_pages import is_free, one_at_a_time

from hanse.model.ports import free_port
from hanse.pipeline import state

README = (ROOT / "README.md").read_text(encoding="utf-8")
FIRST = ("Two commands", "First steps", "A node of your own")
WAIT_S = 200.0
END_S = 100.0


def blocks(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^```(sh|text)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)\n", README, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def environment() -> dict[str, str]:
    """What a person has who knows nothing of it: no virtual environment, no settings of ours."""
    ours = ("MAKE", "MFLAGS", "HANSE_", "PYTEST", "SPARK_", "PYSPARK_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | {"COLUMNS": "200", "TERM": "dumb"}


class City:
    """`make demo` in a terminal of its own."""

    def __init__(self, command: str) -> None:
        self.said = ""
        mine, its = pty.openpty()
        self._terminal = mine
        self._process = subprocess.Popen(
            ["setsid", "--ctty", "bash", "-c", f"exec {command}"],  # Ctrl-C reaches who has the terminal
            cwd=ROOT,
            env=environment(),
            stdin=its,
            stdout=its,
            stderr=its,
        )
        os.close(its)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):  # the other end is closed when it has ended
            while data := os.read(self._terminal, 65_536):
                self.said += data.decode(errors="replace")

    def hear(self, word: str) -> None:
        end = time.monotonic() + WAIT_S
        while word not in self.said:
            assert self._process.poll() is None, self.said
            assert time.monotonic() < end, f"{word!r} did not come:\n{self.said}"
            time.sleep(0.1)

    def end_with_ctrl_c(self) -> int:
        os.write(self._terminal, b"\x03")
        code = self._process.wait(END_S)
        self._reader.join(END_S)
        return code

    def end(self) -> None:
        if self._process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                self.end_with_ctrl_c()
        if self._process.poll() is None:
            os.killpg(self._process.pid, 9)
            self._process.wait()
        os.close(self._terminal)


@contextmanager
def city(command: str) -> Iterator[City]:
    made = City(command)
    try:
        yield made
    finally:
        made.end()


class Shell:
    """Another terminal: a shell that gets one block after the other, as a person types them."""

    def __init__(self) -> None:
        self._said = ""
        self._shell = subprocess.Popen(
            ["bash", "-m"],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._number = 0
        self._from = 0

    def _read(self) -> None:
        assert self._shell.stdout is not None
        for line in self._shell.stdout:
            self._said += line

    def run(self, block: str) -> str:
        """What the block says, when it is through; each of its commands has to succeed."""
        assert self._shell.stdin is not None
        self._number += 1
        began = len(self._said)
        self._shell.stdin.write(f"trap 'echo \"=== failed: $BASH_COMMAND\"' ERR\n{block}\necho '=== {self._number}'\n")
        self._shell.stdin.flush()
        self.hear(f"=== {self._number}\n", began)
        if block.rstrip().endswith("&"):
            self.hear("subscribed:", began)
        said = self._said[began:]
        assert "=== failed" not in said, said
        return said

    def hear(self, word: str, began: int) -> None:
        end = time.monotonic() + WAIT_S * 3
        while word not in self._said[began:]:
            assert self._shell.poll() is None, self._said[began:]
            assert time.monotonic() < end, f"{word!r} did not come:\n{self._said[began:]}"
            time.sleep(0.05)

    def end(self) -> None:
        """What it left running in the background ends with it."""
        if self._shell.stdin is not None:
            with suppress(BrokenPipeError):
                self._shell.stdin.write("kill $(jobs -p) 2>/dev/null\nexit\n")
                self._shell.stdin.close()
        self._shell.wait(END_S)
        self._reader.join(END_S)
        assert self._shell.stdout is not None
        self._shell.stdout.close()


@contextmanager
def shell() -> Iterator[Shell]:
    made = Shell()
    try:
        yield made
    finally:
        made.end()


def follow(text: str, terminal: Shell) -> None:
    said = ""
    for kind, block in blocks(text):
        if kind == "sh":
            said = terminal.run(block)
        else:
            missing = [line for line in block.splitlines() if line not in said]
            assert not missing, f"{missing} is not in:\n{said}"


def as_the_city_is(text: str, said: str) -> str:
    """With the addresses that the city names, where somebody else had those of the README."""
    named = re.search(r"The nodes: (.+)", said)
    assert named is not None
    for number, address in enumerate(re.findall(r"http://127\.0\.0\.1:\d+", named[1]), 1):
        text = text.replace(f"http://127.0.0.1:{9100 + number}", address)
    return text


def with_own_port(text: str) -> str:
    return text if is_free(9090) else text.replace("9090", str(free_port()))


def files_outside(folder: Path) -> set[Path]:
    return {path for path in ROOT.iterdir() if path != folder}


def processes() -> str:
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


@pytest.mark.long
def test_who_knows_nothing_gets_along_with_the_readme_alone() -> None:
    parts = sections()
    (command,) = [block for _, block in blocks(parts["Two commands"])]
    before = files_outside(ROOT / "out")
    with one_at_a_time(), city(command) as live:
        live.hear("Ctrl-C ends it.")
        steps, lake = as_the_city_is(parts["First steps"], live.said).split("**Ask the past.**")
        with shell() as terminal:
            follow(steps, terminal)
            wait_for_the_lake()
            follow(lake, terminal)
            follow(with_own_port(parts["A node of your own"]), terminal)
            wait_for_the_capsule(as_the_city_is("http://127.0.0.1:9103", live.said))
        assert live.end_with_ctrl_c() in (0, -signal.SIGINT), live.said  # make itself ends by the signal
        told = live.said.partition("What happened")[2]
        assert re.search(r"alarms, wherever they are \(at fire\): [\d,]*[1-9]", told), live.said
        assert "messages crossed links" in told
        assert "the capsule on Spark has made" in told
        assert "nothing yet" not in told
    assert state.read(ROOT / "out" / "city" / "city.pipeline").status == state.STOPPED
    assert "Traceback" not in (ROOT / "out" / "city" / "pipeline.log").read_text()
    assert files_outside(ROOT / "out") == before
    assert str(ROOT / "examples" / "smart-port" / "city.py") not in processes()


def wait_for_the_lake() -> None:
    """Until Spark has kept something, as one sees on the page."""
    end = time.monotonic() + WAIT_S
    while not list((ROOT / "out" / "city" / "lake" / "raw").glob("**/*.parquet")):
        assert time.monotonic() < end, (ROOT / "out" / "city" / "pipeline.log").read_text()
        time.sleep(0.5)


def wait_for_the_capsule(node: str) -> None:
    """Until what it makes is in the node: a window has to end, and who is late is waited for."""
    end = time.monotonic() + WAIT_S
    while True:
        with urllib.request.urlopen(f"{node}/ngsi-ld/v1/entities?type=DistrictAir&local=true", timeout=30) as answer:
            if json.load(answer):
                return
        assert time.monotonic() < end, (ROOT / "out" / "city" / "pipeline.log").read_text()
        time.sleep(0.5)


@pytest.mark.long
def test_all_else_that_the_readme_says_works() -> None:
    with one_at_a_time(), shell() as terminal:
        terminal.run(". .venv/bin/activate")
        for name, text in sections().items():
            if name not in FIRST:
                follow(with_own_port(text), terminal)


def test_the_targets_that_the_readme_names_exist() -> None:
    named = set(re.findall(r"\bmake ([a-z-]+)", README))
    assert {"demo", "test", "tour", "check"} <= named
    for target in sorted(named):
        done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_sections_are_followed_whether_first_or_later() -> None:
    assert set(FIRST) <= sections().keys()
    assert not re.search(r"^ {4}(hanse|python|make|curl) ", README, flags=re.MULTILINE)
    assert sys.version_info >= (3, 11)
