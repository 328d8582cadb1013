"""The study of the INCOME paper: its documents and filters are the paper's, and its words follow from its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from hanse.filters import compile_xpath
from hanse.model import parse_xml
from hanse.quality.xml_form import from_xml
from hanse.studies.income.documents import CONTEXT_CONSTRAINT, criterion_constraint, notification, value_constraint
from hanse.studies.income.findings import line_share, slope, statements, tell
from hanse.studies.income.results import FULL, QUICK, Filtered, Length, Results, Sizes, emptied, run

if TYPE_CHECKING:
    from pathlib import Path

    from hanse.studies.report import Report

TINY = Sizes(indicators=(1, 3, 9), constraints=(1, 2), runs=2)
LISTING = (
    "//qocindicator[@id='10' and qoccriterion[@id='[10.1]']/qocmetricdefinition[@id='10.1'] and qocmetricvalue[@value >= '40']]"
)


def made(rise: float, start: float, constraint: float) -> Results:
    """Numbers as on a line: so many microseconds for an indicator and a constraint, and to begin with."""

    def line(counts: tuple[int, ...], each: float) -> dict[int, Filtered]:
        return {n: Filtered(start + each * n, 1.0 + each * n, start + 2 * each * n) for n in counts}

    return Results(
        sizes=FULL,
        context=Filtered(start, 1.0, start),
        criterion=line(FULL.indicators, rise),
        value=line(FULL.indicators, rise),
        constraints=line(FULL.constraints, constraint),
        observation=Length(400, 590),
        indicator=Length(440, 810),
        lengths={n: 590 + 810 * n for n in FULL.indicators},
    )


def holds(results: Results) -> dict[str, str]:
    return {name: held for name, _, _, held in statements(results)}


def rows(report: Report, key: str) -> list[dict[str, Any]]:
    return cast("dict[str, list[dict[str, Any]]]", report.data()["tables"])[key]


def test_the_constraint_is_that_of_listing_1() -> None:
    assert value_constraint() == LISTING


@pytest.mark.parametrize("indicators", [1, 2, 17, 256])
def test_a_notification_has_what_the_filters_ask_for(indicators: int) -> None:
    document = parse_xml(notification(indicators))
    (observation,) = from_xml(document)
    assert len(observation.quality) == indicators
    for constraint in (CONTEXT_CONSTRAINT, criterion_constraint(indicators - 1), value_constraint(indicators - 1, 80)):
        assert compile_xpath(constraint).matches(document)
    assert not compile_xpath(criterion_constraint(indicators)).matches(document)
    assert not compile_xpath(value_constraint(0, 81)).matches(document)


def test_what_is_emptied_has_the_structure_left() -> None:
    assert emptied("<a b='1'>x<c d='2' e='3'/></a>") == '<a b=""><c d="" e=""/></a>'


def test_everything_is_measured() -> None:
    results = run(TINY)
    assert tuple(results.value) == tuple(results.criterion) == tuple(results.lengths) == TINY.indicators
    assert tuple(results.constraints) == TINY.constraints
    assert results.observation.empty < results.observation.real == len(notification(0))
    assert results.lengths[9] == len(notification(9))
    assert abs(results.observation.real + 9 * results.indicator.real - results.lengths[9]) < results.indicator.real


def test_both_sizes_have_the_numbers_that_the_paper_speaks_of() -> None:
    for sizes in (FULL, QUICK):
        assert {1, 8, 64, 256} <= set(sizes.indicators)
        assert {1, 8, 16, 32} <= set(sizes.constraints)
    assert FULL.runs == 500


def test_where_all_is_as_in_the_paper_all_statements_hold() -> None:
    paper = made(rise=0.6, start=41.4, constraint=2.2)  # 42 for one indicator, 10 % more for 8
    assert set(holds(paper).values()) == {"yes"}


def test_where_indicators_cost_most_the_statements_say_so() -> None:
    ours = made(rise=6.0, start=9.0, constraint=3.0)
    held = holds(ours)
    assert held["the time is linear in the indicators"] == "yes"
    assert held["a constraint costs more than an indicator"] == "no"
    assert held["8 indicators cost 10 % more than one"] == "no"
    assert held["64 indicators take less than two context-based filters"] == "no"
    words = str(tell(ours).data()["words"])
    assert "does not hold here" in words
    assert "15 µs with one indicator and 57 µs with 8" in words


def test_a_curve_is_not_called_a_line() -> None:
    square = {n: float(n * n) for n in (1, 2, 4, 8, 16, 32, 64)}
    assert line_share(square) < 0.99
    assert (slope({1: 3.0, 2: 5.0, 3: 7.0}), line_share({1: 3.0, 2: 5.0, 3: 7.0})) == (2.0, 1.0)


def test_the_page_has_both_figures_and_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tell(made(rise=6.0, start=9.0, constraint=3.0))
    report.finish(tmp_path, json=True)
    assert '"table_1"' in capsys.readouterr().out
    for name in ("figure-4.svg", "figure-5.svg", "index.html"):
        assert (tmp_path / name).stat().st_size > 1000
    assert [row["paper"] for row in rows(report, "table_1")] == [426, 444, 600, 800]
    assert rows(report, "formula")[0]["paper"] == 1400
    assert len(rows(report, "figure_4")) == len(FULL.indicators)
