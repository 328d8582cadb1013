"""`hanse config`, as typed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Ran

from hanse.node.settings import default_toml


def test_it_prints_a_file_that_it_finds_well_formed(hanse: Callable[..., Ran], tmp_path: Path) -> None:
    printed = hanse("config")
    assert (printed.code, printed.out) == (0, default_toml())
    file = tmp_path / "hanse.toml"
    file.write_text(printed.out.replace("port = 9090", "port = 9091"), encoding="utf-8")
    checked = hanse("config", "check", file)
    assert (checked.code, checked.out) == (0, f"{file} is well-formed; it changes node.port\n")
    assert json.loads(hanse("config", "check", file, "--json").out)["node"]["port"] == 9091


def test_a_mistake_is_one_line_and_exit_code_2(hanse: Callable[..., Ran], tmp_path: Path) -> None:
    file = tmp_path / "hanse.toml"
    file.write_text("[limits]\nbody_byte_max = 1", encoding="utf-8")
    ran = hanse("config", "check", file)
    assert ran.code == 2
    assert ran.err == f"hanse: {file}: [limits]: there is no key 'body_byte_max'; did you mean 'body_bytes_max'? [H0112]\n"


def test_so_it_is_for_the_environment(hanse: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "hanse.toml"
    file.write_text("", encoding="utf-8")
    monkeypatch.setenv("HANSE_NODE__PORT", "x")
    ran = hanse("config", "check", file)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
