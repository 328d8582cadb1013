"""`hanse bench` measures a real node beside a bare server, and leaves nothing behind at it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Ran
from tests.serving import serving

import hanse as library
from hanse.cli.bench_load import Result

STEPS = ["create", "patch", "retrieve", "notifications by stream", "from patch to notification"]


def test_a_node_beside_a_bare_server(hanse: Callable[..., Ran]) -> None:
    with serving() as url:
        ran = hanse("bench", url, "--requests", 40, "--clients", 4, "--json")
        assert ran.code == 0, ran.err
        told = json.loads(ran.out)
        assert [figure["name"] for figure in told["figures"]] == STEPS
        assert all(figure["value"] > 0 and figure["bare"] > 0 and figure["ratio"] > 0 for figure in told["figures"])
        with library.connect_sync(url) as node:
            assert node.count(type="BenchProbe") == 0
            assert list(node.subscriptions()) == []
            changes = node.log(0, limit=1000)
        assert len(changes) == 3 * 40 + 40 + 40  # created, patched, patched for streams; patched one by one; deleted


def test_a_node_of_its_own(hanse: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ran = hanse("bench", "--requests", 10, "--clients", 2)
    assert ran.code == 0, ran.err
    assert all(step in ran.out for step in STEPS)
    assert list(tmp_path.iterdir()) == []


def test_nobody_there_and_no_url(hanse: Callable[..., Ran]) -> None:
    away = hanse("bench", "http://127.0.0.1:1", "--requests", 10)
    assert (away.code, away.err.count("\n")) == (1, 1)
    assert hanse("bench", "ftp://127.0.0.1", "--requests", 10).code == 2


def test_what_is_refused_is_no_measurement() -> None:
    result = Result(3, 1.0, [0.1, 0.1, 0.1], {204: 2, 429: 1}, b"slow down")
    with pytest.raises(library.NgsiLdClientError, match="1 of 3 requests were refused: slow down"):
        result.check(204)
