"""The evaluation of the ComDeX paper: messages that can be counted by hand, real nodes on loopback, and the page."""

from __future__ import annotations

import asyncio
from collections import Counter
from math import isnan
from typing import TYPE_CHECKING, Any, cast

import pytest

from hanse.simulation.smart_port import KINDS, Device, Made, Message, Port, smart_port
from hanse.studies.comdex.federations import NODES, TOPOLOGIES, TOPS, chain, running
from hanse.studies.comdex.findings import statements, tell
from hanse.studies.comdex.latency import Samples, measure
from hanse.studies.comdex.messages import GRANULARITIES, PHASES, Counted, count
from hanse.studies.comdex.results import Check, Results, Sizes, Timed, check_live, counts
from hanse.studies.sections import Plot

if TYPE_CHECKING:
    from pathlib import Path

TINY = Sizes(
    widths=(1, 2), entities=20, rounds=1, normal=3, worst=2, scale=0.005, seconds=30.0, live_scale=0.002, live_messages=5
)
LAMP = Device("urn:ngsi-ld:Device:1", "port-a", KINDS[0])
PORT = Port(
    [
        Made("port-a", {"id": LAMP.id, "type": "Device"}),
        Made("port-a", {"id": "urn:ngsi-ld:Device:2", "type": "Device"}),
        Made("fire", {"id": "urn:ngsi-ld:Building:1", "type": "Building"}),
    ],
    [LAMP],
)
SAID = [Message(1, LAMP, {}), Message(2, LAMP, {})]


@pytest.mark.parametrize(
    ("topology", "by_type", "by_id", "said"),
    [
        # an offer goes to the six others; a subscription of each of three tops to port-a; what is said, from there to each
        ("mesh", 6 + 6, 3 * 6, 3),
        # port-a tells port, which tells bus and fire; fire tells port and bus. What is said: up for each, across for two
        ("hybrid", 3 + 2, 2 * 3 + 2, 3 + 2),
        ("hybrid, both ways", 6 + 6, 3 * 6, 3 + 2),
        ("single", 0, 0, 0),
    ],
)
def test_messages_of_a_small_port_are_those_counted_by_hand(topology: str, by_type: int, by_id: int, said: int) -> None:
    for granularity, expected in (("type", by_type), ("id", by_id)):
        counted = count(topology, granularity, PORT, SAID)
        assert [counted.total(phase) for phase in PHASES] == [expected, said, said * len(SAID)]
        assert counted.delivered == len(TOPS) * len(SAID)
        assert counted.offers_known == expected
        assert counted.held_between == 0


def test_the_hybrid_hierarchy_tells_sub_brokers_nothing() -> None:
    links = count("hybrid", "type", PORT, SAID).by_phase["creation"]
    assert links == {("port-a", "port"): 1, ("port", "bus"): 1, ("port", "fire"): 1, ("fire", "port"): 1, ("fire", "bus"): 1}


def test_the_busiest_link_is_counted_in_both_directions() -> None:
    some = Counter({("a", "b"): 2, ("b", "a"): 3, ("b", "c"): 4})
    counted = Counted(
        topology="",
        granularity="",
        by_phase={"creation": some},
        entities=0,
        offers=0,
        offers_known=0,
        held_between=0,
        delivered=0,
    )
    assert counted.busiest("creation") == 5


def test_every_topology_has_the_nodes_of_the_port() -> None:
    for name, plan in TOPOLOGIES.items():
        assert plan.nodes == (("port",) if name == "single" else NODES)
        assert plan.federation().ids == plan.nodes


@pytest.mark.parametrize(
    "granularity", [pytest.param(each, marks=() if each == "type" else pytest.mark.long) for each in GRANULARITIES]
)
def test_real_links_carry_what_the_simulator_says(granularity: str) -> None:
    check = check_live(TINY, 1, granularity)
    assert check.agrees, [row for row in check.rows() if row[2] != row[3]]
    assert check.live_delivered == len(TOPS) * TINY.live_messages


def test_a_check_that_fails_says_so() -> None:
    simulated = count("hybrid", "type", PORT, SAID)
    live = {phase: links.copy() for phase, links in simulated.by_phase.items()}
    assert Check(simulated, live, simulated.delivered).agrees
    assert not Check(simulated, live, simulated.delivered - 1).agrees
    live["creation"]["bus", "port"] += 1
    assert not Check(simulated, live, simulated.delivered).agrees


def test_times_of_a_chain_of_two_nodes() -> None:
    with running(chain(2)) as federation:
        measuring = measure({2: federation}, entities=20, rounds=1, normal=3, worst=2, seed=1)
        measured = asyncio.run(measuring)[2]
        samples = (measured.normal, measured.worst, measured.installed)
        assert [len(some.ms) for some in samples] == [3, 2, 2]
        assert all(0 < ms < 60_000 for some in samples for ms in some.ms)
        assert measured.rediscoveries() == 2


def test_quantiles() -> None:
    samples = Samples([float(i) for i in range(101)])
    assert (samples.median_ms, samples.p95_ms) == (50, 95)


def timed(normal: float, worst: float, installed: float) -> Timed:
    return Timed(Samples([normal]), Samples([worst]), Samples([installed]), rediscoveries=1)


@pytest.fixture(scope="module")
def results() -> Results:
    counted = counts(TINY, 1, lambda _: None)
    simulated = counted["hybrid", "type"]
    by_width = {1: timed(5, 5, 1), 2: timed(6, 12, 4), 6: timed(20, 40, 15)}
    return Results(TINY, by_width, None, counted, {"type": Check(simulated, simulated.by_phase, simulated.delivered)})


def test_statements_are_judged_by_the_numbers(results: Results) -> None:
    found = {what: (holds, here) for what, _, holds, here in statements(results)}
    near, far, *others = found.values()
    assert near == (False, "6 nodes take 4.00 times as long as 1 (limit 1.2)")
    assert far == (False, "6 nodes take 3.33 times as long as two, which are one hop (limit 1.2)")
    assert all(holds for holds, _ in others)
    entities = len(smart_port(scale=TINY.scale).entities)
    assert any(f"{6 * entities} messages for {entities} entities" in here for _, here in found.values())


def test_the_page_has_everything(results: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tell(results)
    tables = cast("dict[str, list[dict[str, Any]]]", report.data()["tables"])
    assert tables.keys() == {"latency", "prototype", "installation", "messages", "devices", "live", "statements"}
    assert [row["agree"] for row in tables["live"]] == [True] * len(tables["live"])
    assert len(tables["messages"]) == 8
    for section in report.sections:
        if isinstance(section, Plot):
            assert not any(isnan(value) for values in section.series.values() for value in values)
    report.finish(tmp_path, json=False)
    page = (tmp_path / "index.html").read_text()
    printed = capsys.readouterr().out
    for heading in ("Notification latency by width", "What the paper says", "What differs, and why"):
        assert heading in page
        assert heading in printed
    assert {path.name for path in tmp_path.glob("*.png")} == {
        "figure-12.png",
        "figure-13.png",
        "messages-creation.png",
        "messages-devices.png",
    }
