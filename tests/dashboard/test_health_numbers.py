"""What the page of health computes of what nodes count."""

from __future__ import annotations

from collections import deque
from math import inf

import pytest

import hanse
from hanse.dashboard.charts import lines
from hanse.dashboard.health import (
    CHARTS,
    NEAR,
    ROLLING,
    Fill,
    answer_times,
    fullest,
    in_words,
    numbers,
    quantile,
    row,
    series,
    together,
    worries,
)
from hanse.dashboard.watching import STEPS, NodeSeen, Point
from tests.serving import serving


def counted(requests: float, *, slow: float = 0.0, pending: float = 0.0, dead: float = 0.0) -> dict[str, float]:
    return {
        "hanse_requests_total{method=GET,status=200}": requests,
        "hanse_requests_total{method=POST,status=201}": requests,
        "hanse_request_seconds_bucket{le=0.01}": 2 * requests,
        "hanse_request_seconds_bucket{le=5.0}": 2 * requests + slow,
        "hanse_request_seconds_bucket{le=+Inf}": 2 * requests + slow,
        "hanse_request_seconds_count": 2 * requests + slow,
        "hanse_request_seconds_sum": 2 * requests * 0.004 + slow * 4,
        "hanse_log_offset_total{tenant=}": 10 * requests,
        "process_resident_memory_bytes": 64 * 2**20,
        "hanse_bound_used{bound=pending_writes,tenant=}": pending,
        "hanse_bound_max{bound=pending_writes,tenant=}": 100.0,
        "hanse_bound_used{bound=dead_letters,tenant=}": dead,
        "hanse_bound_max{bound=dead_letters,tenant=}": 1000.0,
        "hanse_bound_used{bound=streams,tenant=}": 7.0,
        f"{STEPS}{{did=sent}}": requests,
    }


def node(name: str, *points: dict[str, float], problem: str = "", lost: int = 0) -> NodeSeen:
    history = deque(Point(1000.0 + 2 * i, point) for i, point in enumerate(points))
    links = [{"between": [name, "other"], "counts": {"waiting": 3, "lost": lost}}, {"between": ["a", "b"]}]
    return NodeSeen(f"http://{name}", name, {"links": links}, points[-1] if points else {}, history, problem)


def test_rates_and_times_are_of_what_was_added_lately() -> None:
    found = numbers(node("a", counted(10), counted(14), counted(18)))
    assert found.requests == pytest.approx(4.0)  # two methods, two each second
    assert found.changes == pytest.approx(20.0)
    assert found.between == pytest.approx(2.0)
    assert found.mean_ms == pytest.approx(4.0)
    assert found.p95_ms == pytest.approx(9.5)
    assert found.memory_mib == 64
    assert (found.waiting, found.lost, found.dead, found.problem) == (3, 0, 0, "")
    assert row(found)["times"] == "4.0 / 9.5"


def test_a_node_that_has_said_nothing_has_no_times_and_no_rates() -> None:
    found = numbers(node("a", problem="it does not answer"))
    assert found.requests == 0
    assert found.mean_ms is None
    assert row(found)["times"] == "–"
    assert row(found)["state"] == "it does not answer"


def test_all_together_sums_rates_and_takes_the_worst_time() -> None:
    one, other = numbers(node("a", counted(10), counted(14))), numbers(node("b", counted(0), counted(2, slow=4)))
    whole = together([one, other])
    assert whole.requests == pytest.approx(one.requests + other.requests)
    assert whole.mean_ms == other.mean_ms
    assert other.mean_ms is not None
    assert other.mean_ms > 1000
    assert together([numbers(node("a", problem="x")), one]).problem == "1 of 2 do not answer"


@pytest.mark.parametrize(
    ("buckets", "part", "found"),
    [
        ([(1.0, 10.0), (2.0, 10.0), (inf, 10.0)], 0.5, 0.5),
        ([(1.0, 5.0), (2.0, 10.0), (inf, 10.0)], 0.75, 1.5),
        ([(1.0, 0.0), (2.0, 0.0), (inf, 4.0)], 0.95, 2.0),
        ([(1.0, 0.0), (inf, 0.0)], 0.95, None),
        ([], 0.5, None),
    ],
)
def test_quantiles_of_buckets(buckets: list[tuple[float, float]], part: float, found: float | None) -> None:
    assert quantile(buckets, part) == found


def test_times_of_a_history_of_one_point_are_unknown() -> None:
    assert answer_times([Point(1.0, counted(1))], 10.0) == (None, None)


def test_what_is_nearly_full_is_said_first() -> None:
    nodes = [
        node("a", counted(0, pending=20, dead=2)),
        node("b", counted(0, pending=90)),
        node("c", problem="it does not answer"),
    ]
    bounds = fullest(nodes)
    assert [(fill.node, fill.name) for fill in bounds] == [
        ("b", "pending_writes"),
        ("a", "pending_writes"),
        ("a", "dead_letters"),
    ]
    said = worries([numbers(one) for one in nodes], bounds)
    assert said == [
        "c: it does not answer",
        "b: pending writes 90 of 100, 90% full",
        "a has 2 dead letters; look at them below",
    ]
    assert worries([numbers(node("a", counted(0)))], fullest([node("a", counted(0))])) == []
    assert "a has lost 5 messages on its links" in worries([numbers(node("a", counted(0), lost=5))], [])


def test_what_keeps_the_newest_may_be_full() -> None:
    memory = {"hanse_bound_used{bound=log_records,tenant=}": 100.0, "hanse_bound_max{bound=log_records,tenant=}": 100.0}
    bounds = fullest([node("a", counted(0, pending=20) | memory)])
    assert [fill.name for fill in bounds] == ["pending_writes", "log_records"]
    assert worries([], bounds) == []


def test_every_name_of_such_a_bound_is_one_that_a_node_has() -> None:
    with serving() as url, hanse.connect_sync(url) as asked:
        names = {bound["name"] for bound in asked.request("GET", "/hanse/v1/bounds").data}
    assert {name for name in ROLLING if not name.startswith("broker_")} <= names


def test_only_so_many_worries_are_listed() -> None:
    full = [Fill(f"n{i}", "pending_writes", 99, 100) for i in range(20)]
    said = worries([], full)
    assert len(said) == 13
    assert said[-1] == "and 8 more"
    assert full[0].share > NEAR
    assert in_words("pending_writes") == "pending writes"


def test_charts_add_nodes_up_and_times_are_the_worst() -> None:
    histories = [node("a", counted(10), counted(14), counted(18)).history, node("b", counted(0), counted(2), counted(4)).history]
    by_title = {chart.title: chart for chart in CHARTS}
    requests = series(histories, by_title["Requests"])
    assert [value for _, value in requests["answered"]] == [pytest.approx(6.0), pytest.approx(6.0)]
    times = series(histories, by_title["Answers take"])
    assert [round(value, 3) for _, value in times["mean"]] == [4.0, 4.0]
    drawn = lines("Requests", "a second", requests)
    assert drawn["series"][0]["data"][0] == [1_002_000, 6.0]
    assert drawn["legend"]["show"] is False
