"""`hanse simulate --engine spark` and `hanse study disgb --engine spark`, as typed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.conftest import Ran, hanse

from hanse.studies.disgb import large
from hanse.studies.disgb.simulation import TABLE_III

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["hanse"]
RECORDED = Path(__file__).parents[1] / "data" / "disgb-1k"
SMALL = ("simulate", "run", "--nodes", 5, "--clients", 80, "--duration", 200, "--strategy", "geo-publisher,dht", "--json")


def test_both_engines_say_the_same(hanse: Callable[..., Ran], spark: SparkSession) -> None:
    ran = hanse(*SMALL, "--engine", "spark")
    assert ran.code == 0, ran.err
    ours, exact = json.loads(ran.out), json.loads(hanse(*SMALL).out)
    for result in (*ours["strategies"].values(), *exact["strategies"].values()):
        for value in result.values():
            if isinstance(value, dict) and value.get("sd") is not None:
                value["sd"] = pytest.approx(value["sd"], rel=1e-11)
    assert ours == exact


def test_the_replay_has_the_authors_counts(hanse: Callable[..., Ran], spark: SparkSession) -> None:
    ran = hanse("simulate", "replay", RECORDED, "--strategy", "geo-subscriber,BrokerDHT", "--engine", "spark")
    assert ran.code == 0, ran.err
    assert ran.out.count("yes") == 2


@pytest.mark.long
def test_the_study_prints_table_iii_beside_the_papers_numbers(
    hanse: Callable[..., Ran],
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    sizes = large.Sizes((large.Size(4, 100), large.Size(4, 100_001), large.Size(4, 100)), (), duration_s=120)
    monkeypatch.setattr(large, "QUICK", sizes)
    ran = hanse("study", "disgb", "--engine", "spark", "--quick", "--clients-max", 1_000, "--out", tmp_path, "--json")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    assert "more than asked for" in json.dumps(told["words"])
    assert [row["paper"] for row in told["tables"]["table_3_25_100000"]] == [paper[0][0] for paper in TABLE_III.values()]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("simulate", "run", "--engine", "flink"), "no engine 'flink'; take exact or spark"),
        (("study", "disgb", "--engine", "flink"), "no engine 'flink'"),
        (("simulate", "run", "--engine", "spark", "--workload", "context"), "runs workload hiking, not context"),
        (("simulate", "run", "--engine", "spark", "--topology", "ring"), "needs topology cities or mesh"),
        (("simulate", "run", "--engine", "spark", "--strategy", "scoped"), "no strategy 'scoped' here"),
        (("simulate", "run", "--engine", "spark", "--master", "locl[2]"), "'locl[2]' is no master"),
        (("simulate", "replay", str(RECORDED), "--engine", "spark", "--deliveries", "out"), "keeps no list of them"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(hanse: Callable[..., Ran], arguments: tuple[str, ...], complaint: str) -> None:
    ran = hanse(*arguments)
    assert ran.code == 2
    assert complaint in ran.err
    assert ran.err.count("\n") == 1
    assert ran.out == ""
