"""Table III at the paper's sizes: how it is told, with runs of the exact simulator in the place of large ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from hanse.simulation.run import run
from hanse.simulation.topologies import topology
from hanse.simulation.workloads import workload
from hanse.studies.disgb import large
from hanse.studies.disgb.large import Ran, Size
from hanse.studies.disgb.runs import NAMES
from hanse.studies.disgb.simulation import TABLE_III
from hanse.studies.report import Report

SIZES = large.Sizes((Size(25, 60), Size(25, 120), Size(49, 60)), (Size(9, 60),), duration_s=120)


def runs(size: Size) -> dict[str, Ran]:
    federation = topology("cities", nodes=size.brokers, seed=1, clients=size.clients)
    work = workload("hiking", federation, clients=size.clients, duration_s=SIZES.duration_s, seed=1, field_deg=3.0)
    return {name: Ran(run(work, name, flood_locations=True, field_size_deg=3.0), 1.5) for name in NAMES}


@pytest.fixture(scope="module")
def report() -> Report:
    left_out = SIZES.columns[1]
    return large.report_of(SIZES, {size: runs(size) for size in SIZES.every if size != left_out})


def test_the_papers_means_stand_beside_ours(report: Report) -> None:
    tables = report.data()["tables"]
    assert isinstance(tables, dict)
    for column, key in ((0, "table_3_25_100000"), (2, "table_3_256_100000")):
        rows = tables[key]
        assert [row["paper"] for row in rows] == [paper[column][0] for paper in TABLE_III.values()]
        assert all(row["ours"] >= 10 for row in rows)
        assert f"sd: paper {TABLE_III['dht'][column][1]}" in rows[1]["comment"]
    assert "table_3_25_1000000" not in tables
    assert "Left out: 120 clients" in str(report.data()["words"])


def test_messages_and_statements_are_told_for_each_size(report: Report) -> None:
    tables = report.data()["tables"]
    assert isinstance(tables, dict)
    assert [row["strategy"] for row in tables["messages_9_60"]] == list(NAMES.values())
    sizes = {row["size"] for row in tables["statements"]}
    assert sizes == {"9 brokers, 60 clients", "25 brokers, 60 clients", "49 brokers, 60 clients"}


def test_cost_is_plotted_against_brokers_and_clients(report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report.finish(tmp_path, json=False)
    assert "Table III: mean event delivery latency, 25 brokers, 100,000 clients" in capsys.readouterr().out.replace("\n", " ")
    for name in ("messages-by-brokers.svg", "seconds-by-brokers.png"):
        assert (tmp_path / name).stat().st_size > 1000
    assert not (tmp_path / "messages-by-clients.svg").exists(), "one number of clients is no line"


def test_the_sizes_are_the_papers() -> None:
    assert [(size.brokers, size.clients) for size in large.FULL.columns] == [(25, 100_000), (25, 1_000_000), (256, 100_000)]
    assert large.FULL.every[-1].clients == 1_000_000
    assert max(size.clients for size in large.QUICK.every) <= 5_000
