"""Two examples, hiking and olympic-paris: each is one command that ends with a table and a picture, and says if all is right."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def ran(example: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLES / example / "run.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def test_hikers_hear_what_they_should_live_and_in_the_simulator(tmp_path: Path) -> None:
    done = ran("hiking", "--hikers", 5, "--stages", 3, "--seed", 2, "--out", tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert "Everybody heard what he should have" in done.stdout
    assert " > " in done.stdout  # somebody came to another node
    table = done.stdout.partition("with every strategy:")[2]
    ears = {line.split()[-1] for line in table.splitlines() if line.startswith(("geo-", "flood-", "dht", "scoped"))}
    assert len(ears) == 1
    assert ears != {"0"}
    assert (tmp_path / "hiking.png").read_bytes().startswith(b"\x89PNG")


def test_hikers_have_limits() -> None:
    done = ran("hiking", "--hikers", 1000)
    assert done.returncode == 1
    assert done.stderr == "hiking: 2 to 16 hikers are possible, not 1000\n"


def test_paris_says_who_heard_what_and_why_not(tmp_path: Path) -> None:
    done = ran("olympic-paris", "--out", tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert "- Anne, anywhere in the region: sf is not visible to idf: stopped at sm → idf [out: official==true]." in done.stdout
    assert "Everybody heard what he should have" in done.stdout
    assert b"<svg" in (tmp_path / "scopes.svg").read_bytes()


def test_the_strategy_changes_the_messages_and_not_the_ears(tmp_path: Path) -> None:
    scoped, flooded = (
        json.loads(ran("olympic-paris", "--json", "--out", tmp_path, "--strategy", name).stdout)
        for name in ("scoped", "flood-events")
    )
    assert scoped["stories"] == flooded["stories"]
    assert scoped["right"]
    assert flooded["right"]
    assert scoped["messages"] != flooded["messages"]
