"""`hanse simulate`, as typed."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Ran

from hanse.routing import STRATEGIES

RECORDED = Path(__file__).parents[1] / "data" / "disgb-1k"


def test_all_strategies_deliver_the_same(hanse: Callable[..., Ran], tmp_path: Path) -> None:
    table = tmp_path / "out" / "messages.csv"
    ran = hanse(
        "simulate", "run", "--nodes", 4, "--clients", 12, "--duration", 120, "--csv", table, "--plots", tmp_path, "--json"
    )
    assert ran.code == 0
    result = json.loads(ran.out)
    strategies = result["strategies"]
    assert set(strategies) == set(STRATEGIES)
    assert len({s["deliveries"] for s in strategies.values()}) == 1
    assert sum(strategies["flood-events"]["messages"].values()) == 3 * strategies["flood-events"]["requests"]["Publish"]
    with table.open() as file:
        rows = list(csv.DictReader(file))
    events = sum(int(row["count"]) for row in rows if row["strategy"] == "flood-events" and row["kind"] == "link")
    assert events == strategies["flood-events"]["messages"]["Event"]
    for name in ("messages.png", "messages.svg", "latency.png", "latency.svg"):
        assert (tmp_path / name).stat().st_size > 1000


@pytest.mark.parametrize(
    ("topology", "nodes", "workload"),
    [
        ("hybrid", 7, "smart-port"),
        ("transit-stub", 16, "random"),
        ("ring", 5, "environmental"),
        ("star", 5, "context"),
        ("tree", 7, "hiking"),
    ],
)
def test_any_topology_carries_any_workload(hanse: Callable[..., Ran], topology: str, nodes: int, workload: str) -> None:
    ran = hanse(
        "simulate", "run", "-t", topology, "-n", nodes, "-w", workload, "-c", 20, "-d", 60, "-s", "advertised,scoped,flood-events"
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert "needs the fewest messages" in ran.out


def test_the_same_seed_gives_the_same_result(hanse: Callable[..., Ran]) -> None:
    arguments = ("simulate", "run", "-n", 3, "-c", 8, "-d", 60, "-s", "dht", "--seed", 5, "--json")
    assert hanse(*arguments).out == hanse(*arguments).out


def test_replay_gives_the_authors_counts(hanse: Callable[..., Ran], tmp_path: Path) -> None:
    ran = hanse("simulate", "replay", RECORDED, "--strategy", "dht,BrokerDisGBEvents", "--json", "--deliveries", tmp_path)
    expected = json.loads((RECORDED / "expected.json").read_text())["strategies"]
    result = json.loads(ran.out)["strategies"]
    assert set(result) == {"BrokerDHT", "BrokerDisGBEvents"}
    for name, ours in result.items():
        assert ours["message_counts"] == expected[name]["message_counts"]
        assert ours["event_delivery_latency_ms"]["mean"] == pytest.approx(expected[name]["event_delivery_latency_ms"]["mean"])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "deliveries_BrokerDHT.csv.gz",
        "deliveries_BrokerDisGBEvents.csv.gz",
    ]
    assert "yes" in hanse("simulate", "replay", RECORDED, "--strategy", "geo-publisher").out


def test_faults_find_nothing_where_nothing_is_wrong(hanse: Callable[..., Ran]) -> None:
    ran = hanse("simulate", "faults", "--seeds", 4, "--strategy", "scoped", "--json")
    result = json.loads(ran.out)
    assert ran.code == 0
    assert result["strategies"]["scoped"]["violations"] == 0
    assert result["violations"] == []


def test_faults_find_a_mechanism_that_is_missing(hanse: Callable[..., Ran]) -> None:
    ran = hanse("simulate", "faults", "--seeds", 20, "--strategy", "grid-quorum", "--without", "dedup")
    assert ran.code == 1
    assert "Again: hanse simulate faults --strategy grid-quorum --seeds 1 --seed" in ran.out
    assert "violates 'at most once'" in ran.out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("run", "--strategy", "magic"), "no strategy 'magic'"),
        (("run", "--strategy", ","), "names no strategy"),
        (("run", "--topology", "moebius"), "moebius"),
        (("run", "--workload", "idling"), "no workload 'idling'"),
        (("run", "--topology", "transit-stub", "--nodes", "3"), "transit"),
        (("replay", "nowhere"), "nowhere: no such folder"),
        (("replay", str(RECORDED), "--strategy", "scoped"), "no strategy 'scoped' here"),
        (("faults", "--without", "luck"), "'luck' cannot be switched off"),
        (("run", "--clients", "3", "--nodes", "2", "--csv", "/proc/none/x.csv"), "cannot be written"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(hanse: Callable[..., Ran], arguments: tuple[str, ...], complaint: str) -> None:
    ran = hanse("simulate", *arguments)
    assert ran.code == 2
    assert complaint in ran.err
    assert ran.err.count("\n") == 1
    assert ran.out == ""


@pytest.mark.parametrize("command", ["run", "replay", "faults"])
def test_help_has_an_example(hanse: Callable[..., Ran], command: str) -> None:
    assert "Example: hanse simulate" in hanse("simulate", command, "--help").out
