"""The DisGB study: what must hold exactly holds exactly, and a small study has every table and plot of the large one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from hanse.model import WORLD, Circle, Location
from hanse.routing import Federation, Node
from hanse.routing.federation import both_ways
from hanse.simulation.groups import form_groups
from hanse.simulation.run import field_size
from hanse.simulation.topologies import topology
from hanse.studies import disgb
from hanse.studies.disgb import experiment, simulation
from hanse.studies.disgb.analysis import table_1
from hanse.studies.disgb.circles import touched
from hanse.studies.disgb.runs import NAMES, SCENARIOS, Task, run, run_all, spread

if TYPE_CHECKING:
    from pathlib import Path

    from hanse.studies.report import Report

TINY = disgb.Sizes(
    experiment.Sizes(clients=36, duration_s=120, seeds=2),
    simulation.Sizes(
        brokers=9, many=16, clients=100, many_clients=60, trend=(20, 100), many_trend=(60,), draws=2, duration_s=300
    ),
)


@pytest.fixture(scope="module")
def report() -> Report:
    return disgb.study_of(TINY, seed=1, at_once=1)


@pytest.fixture(scope="module")
def tables(report: Report) -> dict[str, Any]:
    tables = report.data()["tables"]
    assert isinstance(tables, dict)
    return tables


def test_table_1_by_formula_is_table_1_by_counting_messages() -> None:
    cases = table_1()
    assert {(case.action, case.strategy, case.symbol) for case in cases} == {
        ("subscriber location update", "geo-subscriber", "1"),
        ("subscriber location update", "geo-publisher", "|∪Si|"),
        ("subscription update", "geo-subscriber", "1"),
        ("subscription update", "geo-publisher", "|Si|"),
        ("publisher location update", "geo-subscriber", "1"),
        ("publisher location update", "geo-publisher", "1"),
        ("event", "geo-subscriber", "|E|"),
        ("event", "geo-publisher", "1"),
    }
    assert [(case, case.counted) for case in cases] == [(case, case.formula) for case in cases]
    assert {case.formula for case in cases} == {1, 2, 3, 4}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_brokers_of_the_experiment_send_what_the_formulas_say(scenario: str) -> None:
    def task(strategy: str) -> Task:
        flooding = strategy == "flood-subscriptions"
        return Task(workload=scenario, strategy=strategy, clients=90, duration_s=60, seed=3, flood_locations=flooding)

    calculated = run(task("")).messages
    for strategy in ("geo-subscriber", "geo-publisher", "flood-events", "flood-subscriptions"):
        outcome = run(task(strategy))
        assert outcome.between - outcome.messages.get("Delivery", 0) == calculated.get(strategy, 0)
        assert outcome.latency.count > 0


def test_circles_that_nearly_touch_let_more_events_over_than_fields_with_a_gap() -> None:
    assert touched(Circle(49.5, 5.5, 0.5), "Paris") == {"Frankfurt"}
    assert touched(Circle(48.9, 2.4, 0.5), "Paris") == set()
    assert touched(WORLD, "Paris") == {"Frankfurt", "Columbus"}
    task = Task(workload="environmental", strategy="", clients=900, duration_s=60, seed=1, circles=True)
    messages = run(task).messages
    assert 0 < messages["matched events"] < messages["geo-publisher"]
    assert messages["geo-subscriber"] == 2 * run(task).counted.events


def test_every_strategy_delivers_the_same_number_and_disgb_as_fast_as_flooding() -> None:
    tasks = [
        Task(workload="hiking", strategy=strategy, clients=600, duration_s=60, seed=2, brokers=25, flood_locations=True)
        for strategy in NAMES
    ]
    outcomes = {task.strategy: outcome for task, outcome in run_all(tasks, "test", at_once=1).items()}
    assert len({(outcome.latency.count, outcome.to_themselves, outcome.across) for outcome in outcomes.values()}) == 1
    assert outcomes["geo-subscriber"].across > 0
    direct = ("geo-subscriber", "geo-publisher", "flood-events", "flood-subscriptions")
    assert len({outcomes[strategy].latency for strategy in direct}) == 1
    assert outcomes["dht"].latency.mean > 5 * outcomes["geo-subscriber"].latency.mean
    assert outcomes["geo-subscriber"].without_locations < outcomes["flood-events"].without_locations / 3


def test_runs_in_other_processes_give_the_same() -> None:
    tasks = [Task(workload="context", strategy="geo-publisher", clients=90, duration_s=60, seed=seed) for seed in (1, 2)]
    here, there = run_all(tasks, "test", at_once=1), run_all(tasks, "test", at_once=2)
    for task in tasks:
        assert here[task].messages == there[task].messages
        assert here[task].latency == there[task].latency


def test_brokers_with_most_clients_lead_and_others_join_the_nearest() -> None:
    places = {
        "lyon": (45.8, 4.8, 5),
        "paris": (48.9, 2.4, 9),
        "tokyo": (35.7, 139.7, 7),
        "osaka": (34.7, 135.5, 8),
        "lima": (-12.0, -77.0, 1),
    }
    nodes = tuple(Node(name, Location(lat, lon), clients=clients) for name, (lat, lon, clients) in places.items())
    groups = form_groups(nodes)
    assert {group.leader: group.members for group in groups} == {"paris": ("lyon",), "osaka": ("tokyo",), "lima": ()}


def test_fields_are_as_large_as_all_brokers_having_one_allows() -> None:
    assert field_size(topology("cities", nodes=25, seed=1)) == 6.0
    close = tuple(Node(name, Location(0.0, lon)) for name, lon in (("a", 0.0), ("b", 1.0), ("c", 2.0)))
    assert field_size(Federation(close, both_ways([("a", "b"), ("b", "c")]))) < 6.0


def test_expected_latency_of_dht_is_what_is_measured() -> None:
    clients = 400
    task = Task(workload="hiking", strategy="dht", clients=clients, duration_s=300, seed=4, brokers=9, flood_locations=True)
    expected = simulation.expected_dht_ms(topology("cities", nodes=9, seed=4, clients=clients))
    assert run(task).latency.mean == pytest.approx(expected, rel=0.05)


def test_the_authors_own_small_run_explains_the_means_of_table_iii() -> None:
    for clients, (mean, _) in zip((100_000, 1_000_000), simulation.TABLE_III["geo-subscriber"], strict=False):
        assert simulation.AUTHORS.mean_ms(clients) == pytest.approx(mean, abs=1.0)


def test_spread_is_exact() -> None:
    found = spread(Counter({10: 3, 20: 1}))
    assert (found.count, found.mean, found.sd, found.quartiles, found.greatest) == (4, 12.5, 5.0, (10.0, 10.0, 10.0), 20.0)
    assert spread(Counter()).count == 0


def test_a_study_has_every_table_of_the_paper(tables: dict[str, Any]) -> None:
    assert set(tables) == {
        "table_1", "table_2", "figure_5", "figure_6", "figure_7", "seeds", "figure_9", "figure_10", "table_3_9", "figure_11",
        "table_3_16", "figure_12", "statements", "draws", "trend",
    }  # fmt: skip
    assert [row["name"] for row in tables["table_3_9"]] == list(NAMES.values())
    assert [row["paper"] for row in tables["table_3_9"]] == [22, 353, 16, 16, 16, 16, 31]
    assert len(tables["table_2"]) == 15


def test_the_paper_is_scaled_to_the_size_of_the_study(tables: dict[str, Any]) -> None:
    scale = 36 * 120 / (3600 * 900)
    assert [row["paper"] for row in tables["figure_5"]] == [round(n * scale) for n in (432_058, 7_604, 432_058, 164_736)]


def test_the_quick_study_is_smaller_and_the_full_one_as_large_as_the_experiment() -> None:
    assert disgb.FULL.experiment.scale == 1
    assert disgb.QUICK.experiment.scale == pytest.approx(0.1)
    assert disgb.QUICK.simulation.clients < disgb.FULL.simulation.clients
    assert disgb.FULL.simulation.fewer == 1_000


def test_the_page_of_a_study_is_written(report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report.finish(tmp_path, json=False)
    shown = " ".join(capsys.readouterr().out.split())
    assert "Formula and count agree in every case." in shown
    assert "exactly as many messages as the formulas of table I" in shown
    for name in ("figure-5", "figure-6", "figure-7", "figure-9", "figure-10", "figure-11", "figure-12", "latency-by-clients"):
        assert (tmp_path / f"{name}.png").stat().st_size > 5_000
