"""`hanse quality`, as typed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Ran

from hanse.quality import default_registry

OWN = """
[[criteria]]
id = "30"
name = "reliability"
description = "How far it can be relied upon."
rule = "weighted mean"
parts = ["trust", "accuracy"]
weights = [2, 1]
[[criteria.definitions]]
id = "30.1"
unit = "percent"
min = 0
max = 100
levels = { medium = 50, high = 80 }

[[criteria]]
id = "12"
name = "trust"
[[criteria.definitions]]
id = "12.9"
min = 0
max = 1
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "own.toml").write_text(OWN, encoding="utf-8")
    return tmp_path / "own.toml"


def test_all_criteria_are_listed(hanse: Callable[..., Ran]) -> None:
    ran = hanse("quality", "criteria")
    assert ran.code == 0
    for name in default_registry().names:
        assert f"\n {name} " in "\n" + ran.out
    assert "≤ 600" in ran.out
    found = json.loads(hanse("quality", "criteria", "--json").out)
    assert [one["name"] for one in found] == list(default_registry().names)


def test_one_is_explained(hanse: Callable[..., Ran]) -> None:
    ran = hanse("quality", "criteria", "precision")
    assert ran.code == 0
    for words in (
        "precision: How finely",
        "a number from 0 to 100, in percent; higher is better",
        "medium ≥ 40, high ≥ 80",
        "unitCode P1",
        "in XML: indicator 10, criterion [10.1]",
        "or http://www.w3.org/ns/dqv#precision",
    ):
        assert words in ran.out
    found = json.loads(hanse("quality", "criteria", "precision", "--json").out)
    assert (found["id"], found["criterion_id"], found["definitions"][0]["id"]) == ("10", "[10.1]", "10.1")


def test_a_file_of_ones_own(hanse: Callable[..., Ran], own: Path) -> None:
    ran = hanse("quality", "check", own)
    assert (ran.code, ran.out) == (
        0,
        f"{own}: it can be used, and there are 11 criteria with it\nadded: reliability\nreplaced: trust\n",
    )
    found = json.loads(hanse("quality", "check", own, "--json").out)
    assert (found["added"], found["replaced"], len(found["criteria"])) == (["reliability"], ["trust"], 11)
    explained = hanse("quality", "criteria", "reliability", "--file", own).out
    assert "computed as the weighted mean of trust (2), accuracy (1)" in explained
    assert "a number from 0 to 1; higher is better" in hanse("quality", "criteria", "trust", "--file", own).out
    assert "reliability" in hanse("quality", "criteria", "--file", own).out


def test_what_is_wrong_is_one_line(hanse: Callable[..., Ran], tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(OWN.replace('"accuracy"', '"accurate"'), encoding="utf-8")
    for arguments, says in (
        (("criteria", "presision"), "there is no criterion 'presision'; do you mean precision?"),
        (("check", wrong), "wrong.toml: criterion 'reliability': its part 'accurate' is no criterion"),
        (("criteria", "--file", tmp_path / "none.toml"), "cannot be read"),
    ):
        ran = hanse("quality", *arguments)
        assert (ran.code, ran.err.count("\n")) == (2, 1)
        assert says in ran.err


def test_every_command_has_an_example(hanse: Callable[..., Ran]) -> None:
    for verb in ("criteria", "check"):
        assert f"Example: hanse quality {verb}" in " ".join(hanse("quality", verb, "--help").out.split())
