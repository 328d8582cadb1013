"""`hanse` alone tells a newcomer what to try, and a shell completes what is typed."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Ran

from hanse.cli import NOUNS, WELCOME

ISSUED = (
    *("serve", "pub", "sub", "get", "advertise", "scopes", "federation", "pipeline", "lake", "quality", "policy", "simulate"),
    *("study", "bench", "dashboard", "config", "backup", "errors"),
)


def test_without_an_argument_three_things_to_try(hanse: Callable[..., Ran]) -> None:
    ran = hanse()
    assert (ran.code, ran.err) == (0, "")
    assert all(f"\n  {number}. " in ran.out for number in (1, 2, 3))
    assert "hanse --help" in ran.out
    everything = hanse("--help").out
    assert all(noun in everything for noun in NOUNS)


def test_every_command_that_it_names_is_there(hanse: Callable[..., Ran]) -> None:
    named = [shlex.split(line)[1:] for line in WELCOME.splitlines() if line.startswith("       hanse ")]
    assert len(named) == 4
    for words in named:
        verbs = words[:2] if words[0] == "simulate" else words[:1]
        helped = hanse(*verbs, "--help").out
        assert all(word in helped for word in words if word.startswith("--"))
    assert "\ndemo:" in (Path(__file__).parents[2] / "Makefile").read_text(encoding="utf-8")


def test_the_nouns_that_were_promised() -> None:
    assert set(ISSUED) <= set(NOUNS)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["hanse", "simu"], ["simulate"]),
        (["hanse", "advertise", ""], ["list", "remove"]),
        (["hanse", "scopes", "jo"], ["join"]),
        (["hanse", "policy", "override", "st"], ["start"]),
        (["hanse", "generate", "--sp"], ["--speed"]),
        (["hanse", "generate", "--out", "--se"], []),  # a file's name: bash offers files itself
        (["hanse", "sub", "nothing-like-it"], []),
    ],
)
def test_bash_completes(script: str, typed: list[str], offered: list[str]) -> None:
    words = " ".join(map(shlex.quote, typed))
    ask = f'COMP_WORDS=({words}); COMP_CWORD={len(typed) - 1}; _hanse; printf "%s\\n" "${{COMPREPLY[@]}}"; complete -p hanse'
    command = ["bash", "--norc", "-uc", f"source {shlex.quote(script)}; {ask}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    *lines, registered = ran.stdout.splitlines()
    assert (list(filter(None, lines)), ran.stderr) == (offered, "")
    assert registered == "complete -o default -F _hanse hanse"


@pytest.fixture
def script(hanse: Callable[..., Ran], tmp_path: Path) -> str:
    path = tmp_path / "hanse"
    path.write_text(hanse("completion", "bash").out, encoding="utf-8")
    return str(path)


def test_every_shell_knows_every_noun_and_option(hanse: Callable[..., Ran]) -> None:
    levels = json.loads(hanse("completion", "bash", "--json").out)
    assert {level["path"] for level in levels} >= {f"/{noun}" for noun in NOUNS}
    for shell in ("bash", "zsh", "fish"):
        text = hanse("completion", shell).out
        assert all(level["path"] in text for level in levels)
        assert all(flag.lstrip("-") in text for level in levels for option in level["options"] for flag in option["flags"])
    wrong = hanse("completion", "tcsh")
    assert wrong.code == 2
    assert "bash, zsh, fish" in wrong.err
