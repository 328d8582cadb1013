"""The scenarios of the muDEBS paper: our numbers beside its, and nothing lost by the product's own routing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from hanse.routing import STRATEGIES
from hanse.simulation.topologies import transit_stub
from hanse.studies.mudebs.cases import LEVELS, PARTITIONS, around, partition, scenario_1, scenario_2
from hanse.studies.mudebs.findings import PAPER_SCENARIO_1, tell
from hanse.studies.mudebs.results import Results, Sizes
from hanse.studies.mudebs.run import OURS, UPDOWN, UPWARD, WAYS, run
from hanse.studies.sections import Plot

if TYPE_CHECKING:
    from pathlib import Path

    from hanse.studies.report import Report

TINY = Sizes(nets=(16, 52), dimensions=(1,), levels=(3,), without_top=("P1",), publications=4, alone=(4, 12))


@pytest.fixture(scope="module")
def results() -> Results:
    return Results(TINY, seed=1)


@pytest.fixture(scope="module")
def report(results: Results) -> Report:
    return tell(results)


def rows(report: Report, key: str) -> list[dict[str, Any]]:
    return cast("dict[str, list[dict[str, Any]]]", report.data()["tables"])[key]


def test_who_calls_join_scope_learns_it_and_so_do_neighbours_that_know_the_superscope() -> None:
    known = partition(transit_stub(52), "d")
    assert known["d"] == ("s1", "s2", "s3")
    assert (known["d1"], known["d2"]) == (("s2", "s4"), ("s3", "s5"))
    assert (known["d1.2"], known["d2.3"]) == (("s4",), ("s5",))
    assert set(known) == {"d", *(f"d{i}{rest}" for i in (1, 2) for rest in ("", ".2", ".3", ".4"))}


def test_scenario_2_has_its_leaves_at_the_gateways_beside_the_root() -> None:
    known = around(transit_stub(16), "d")
    assert (known["d"], known["c"], known["a"]) == (("s1",), ("s1", "s2"), ("s1", "s3"))
    assert (known["c3"], known["a1"]) == (("s1", "s2", "s4"), ("s1", "s3", "s5"))
    assert not {"b", "b1", "d1", "d2"} & set(known)


def test_no_scoping_costs_what_flooding_costs(results: Results) -> None:
    assert [results.flood(nodes) for nodes in (16, 52)] == [17, 77]
    assert results.outcomes["Net52, no scoping", OURS].subscribe_messages == 51


def test_scenario_1_comes_as_near_to_the_paper_as_the_best_reading_known(results: Results) -> None:
    ours = [results.subscribing(name, UPWARD) for name in PARTITIONS]
    assert ours == pytest.approx([54.417, 33.401, 16.683], abs=0.001)
    assert ours == pytest.approx(list(PAPER_SCENARIO_1.values()), abs=2.5)
    first = [100 * results.outcomes[name, UPWARD].first_receptions / 51 for name in PARTITIONS]
    assert first == pytest.approx([54.669, 34.573, 19.468], abs=0.001)


def test_up_and_down_costs_more(results: Results) -> None:
    assert [results.subscribing(name, UPDOWN) for name in PARTITIONS] == pytest.approx([61.823, 55.409, 67.890], abs=0.001)


def test_most_of_the_cost_of_p1_is_calls_without_scopes(results: Results) -> None:
    assert results.subscribing("P1 without ⊤", UPWARD) == pytest.approx(6.043, abs=0.001)


@pytest.mark.parametrize("nodes", TINY.nets)
def test_the_higher_the_shut_border_the_fewer_notifications(results: Results, nodes: int) -> None:
    one, two, three, open_ = (results.messages(level, UPWARD, nodes=nodes) for level in (1, 2, 3, 0))
    assert one < two < three < open_ == results.flood(nodes)


def test_scenario_2_at_net52(results: Results) -> None:
    assert [results.notifying(level, UPWARD) for level in (1, 2, 3)] == pytest.approx([72.5, 82.1, 92.3], abs=0.1)


def test_the_product_delivers_all_that_is_promised_in_every_scenario(results: Results) -> None:
    for (name, way), outcome in results.outcomes.items():
        assert outcome.unpromised == 0, (name, way)
        if way == OURS:
            assert outcome.arrived == outcome.promised > 0, name
            assert outcome.alone.arrived == outcome.alone.promised, name


def test_the_readings_of_the_paper_do_not(results: Results) -> None:
    alone = {way: results.outcomes["P1 without ⊤", way].alone for way in WAYS}
    assert alone[UPWARD].arrived_near < alone[UPWARD].promised_near
    assert alone[UPDOWN].arrived_near == alone[UPDOWN].promised_near
    assert alone[UPDOWN].arrived < alone[UPDOWN].promised


@pytest.mark.parametrize("level", LEVELS)
def test_the_product_delivers_in_three_dimensions_with_filters(level: int) -> None:
    outcome = run(scenario_2(16, level, "dcb"), OURS, seed=3, publications=40, alone=(5, 20))
    assert outcome.arrived == outcome.promised > 0
    assert outcome.alone.arrived == outcome.alone.promised > 0
    assert outcome.unpromised == 0


def test_only_the_study_is_offered_the_routing_of_the_paper(results: Results) -> None:
    assert not [name for name in STRATEGIES if name.startswith("mudebs")]
    assert results.outcomes


def test_the_same_seed_gives_the_same_outcome() -> None:
    case = scenario_1("P1")
    one, two, other = (run(case, UPDOWN, seed=seed, publications=5, alone=(5, 10)) for seed in (1, 1, 2))
    assert one == two
    assert other.subscribe_messages == one.subscribe_messages
    assert other != one


def test_the_page_puts_the_paper_beside_ours(report: Report) -> None:
    compared = rows(report, "scenario_1")
    assert [(row["name"], row["paper"]) for row in compared] == [("P1", 55.0), ("P2", 33.0), ("P3", 19.0)]
    assert all(abs(row["difference"]) < 2.5 for row in compared)
    assert rows(report, "scenario_3")[0]["paper"] == 91.0


def test_the_page_says_which_statements_hold(report: Report) -> None:
    fails = [row["statement"] for row in rows(report, "statements") if not row["holds"]]
    assert fails == ["The same, in percent of no scoping, as figure 5 is drawn"]


def test_the_page_counts_promises_and_arrivals(report: Report) -> None:
    for key in ("delivery_together", "delivery_alone", "delivery_alone_same_dimension"):
        for row in rows(report, key):
            assert row["scoped"] == row["promised"] >= row["up-down"] >= row["upward"]


def test_a_caption_claims_only_what_its_bars_show(report: Report, results: Results) -> None:
    notes = {section.name: section.note for section in report.sections if isinstance(section, Plot)}
    for way, name in ((UPWARD, "figure-5"), (OURS, "figure-5-hanse")):
        shown = results.messages(2, way, nodes=16) < results.messages(1, way, nodes=16)
        assert ("At Net16" in notes[name]) == shown


def test_plots_and_map_are_written(report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report.finish(tmp_path, json=True)
    assert {f"figure-{name}.png" for name in ("4", "5", "6", "5-hanse", "6-hanse")} <= {file.name for file in tmp_path.iterdir()}
    assert (tmp_path / "net52-scopes.svg").read_bytes().startswith(b"<?xml")
    assert '<img alt="The overlay Net52' in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert '"scenario_1"' in capsys.readouterr().out
