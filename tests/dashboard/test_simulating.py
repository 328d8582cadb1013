"""The simulator in a process of its own: the same results as here, progress, an end at any moment, and files of results."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from hanse.dashboard.simulating import RUNS_MAX, Kept, Run, Setup, keep, kept_in, made, read
from hanse.dashboard.views.simulator_results import charts, row
from hanse.model import InvalidInput
from hanse.simulation.run import by_kind
from hanse.simulation.run import run as simulate
from tests.dashboard.hands import in_a_loop

SMALL = Setup(strategies=("dht", "grid-quorum"), nodes=5, clients=20, duration_s=60)
LONG = Setup(strategies=("flood-subscriptions",), nodes=50, clients=10_000, duration_s=7_200)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@in_a_loop
async def test_it_gives_what_the_simulator_gives() -> None:
    one = Run(SMALL)
    await one.go()
    assert (one.state, one.problem) == ("done", "")
    assert one.progress == {"dht": 1.0, "grid-quorum": 1.0}
    found = made(SMALL)
    assert one.results == [simulate(found.work, name, field_size_deg=found.field_deg) for name in SMALL.strategies]
    assert Run.running == set()


@in_a_loop
async def test_it_can_be_stopped_and_leaves_no_process() -> None:
    one = Run(LONG)
    going = asyncio.create_task(one.go())
    while one._process is None:  # noqa: ASYNC110
        await asyncio.sleep(0)
    pid = one._process.pid
    one.stop()
    await going
    assert one.state == "stopped"
    assert one.results == []
    assert not is_alive(pid)


@in_a_loop
async def test_only_so_many_run_at_once() -> None:
    runs = [Run(LONG) for _ in range(RUNS_MAX)]
    going = [asyncio.create_task(one.go()) for one in runs]
    await asyncio.sleep(0)
    with pytest.raises(InvalidInput, match=f"{RUNS_MAX} simulations run already"):
        await Run(SMALL).go()
    for task in going:
        task.cancel()
    await asyncio.gather(*going, return_exceptions=True)
    assert Run.running == set()


@in_a_loop
async def test_what_cannot_be_simulated_is_said_in_words() -> None:
    one = Run(Setup(strategies=("dht",), topology="transit-stub", nodes=2, clients=4, duration_s=10))
    await one.go()
    assert one.state == "failed"
    assert one.problem == "a transit-stub topology has 4 to 10000 nodes, not 2"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"strategies": ()}, "choose at least one strategy"),
        ({"topology": "torus"}, "there is no topology 'torus'"),
        ({"workload": "mudebs"}, "there is no workload 'mudebs' here"),
        ({"nodes": 0}, "take 1 to 200 brokers, not 0"),
        ({"clients": 1_000_000}, "take 1 to 10,000 clients, not 1,000,000; hanse simulate run takes more"),
    ],
)
def test_a_setup_is_checked(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Setup(**({"strategies": ("dht",)} | wrong))  # type: ignore[arg-type]


def test_results_are_kept_and_read_again(tmp_path: Path) -> None:
    found = made(SMALL)
    kept = Kept(SMALL, [simulate(found.work, "dht", field_size_deg=found.field_deg)])
    assert kept_in(tmp_path) == []
    file = keep(tmp_path, kept)
    assert kept_in(tmp_path) == [file.name]
    assert read(tmp_path, file.name) == kept
    with pytest.raises(InvalidInput, match="there are no results"):
        read(tmp_path, "../../etc/passwd")
    file.write_text("{")
    with pytest.raises(InvalidInput, match="cannot be read"):
        read(tmp_path, file.name)


def test_charts_have_a_bar_for_each_strategy() -> None:
    found = made(SMALL)
    results = [simulate(found.work, name, field_size_deg=found.field_deg) for name in SMALL.strategies]
    messages, latency, *_ = charts(results)
    assert messages["yAxis"]["data"] == ["dht", "grid-quorum"]
    told = {part["name"]: part["data"] for part in messages["series"]}
    assert told["subscriptions"] == [by_kind(result.messages)["subscriptions"] for result in results]
    assert {part["stack"] for part in messages["series"]} == {"all"}
    assert [part["name"] for part in latency["series"]] == ["mean", "95 of 100"]
    assert row(results[0])["messages"] == f"{results[0].between_brokers:,}"
