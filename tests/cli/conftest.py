"""Runs the command as a user would, in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from hanse.cli import main


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def hanse(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    def run(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["hanse", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run
