"""Pipelines and lakes in words and as graphs, read from their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from hanse.dashboard.lakes import ROWS, preview, summaries
from hanse.dashboard.pipelines import Told, delivered, graph, look, options, promises, size_px, streams, troubles
from hanse.model import InvalidInput
from hanse.pipeline.state import KILLED, RUNNING, Lock
from tests.dashboard.lake_of import pipeline_in, state_in, table_in

RAW = [{"offset": i, "id": f"urn:station:{i}", "attributes": "x" * 500} for i in range(30)]


def arrows(told: Told) -> set[tuple[str, str]]:
    return {(arrow.source, arrow.target) for arrow in graph(told).arrows}


def test_capsules_are_chained_by_the_types_that_they_make(tmp_path: Path) -> None:
    told = look(str(pipeline_in(tmp_path)))
    assert told.problem.startswith("no pipeline has run in")
    assert told.name == "air"
    assert arrows(told) == {
        ("source", "capsule-by-street"),
        ("capsule-by-street", "capsule-clean-streets"),
        ("capsule-by-street", "sink"),
        ("capsule-clean-streets", "sink"),
        ("source", "lake-raw"),
        ("capsule-by-street", "lake-derived_by_street"),
        ("capsule-clean-streets", "lake-derived_clean_streets"),
    }
    found = graph(told)
    assert [[box.id for box in column] for column in found.columns[:3]] == [
        ["source"],
        ["capsule-by-street"],
        ["capsule-clean-streets"],
    ]
    by_ends = {(arrow.source, arrow.target): arrow.text for arrow in found.arrows}
    assert by_ends["source", "capsule-by-street"] == "AirQualityObserved\naccuracy>=medium"
    assert by_ends["capsule-by-street", "sink"] == "StreetAir\ncompleteness>=50"
    drawn = options(found)["series"][0]
    assert {node["name"] for node in drawn["data"]} == set(found.boxes)
    assert all({link["source"], link["target"]} <= set(found.boxes) for link in drawn["links"])
    assert size_px(found)[0] > size_px(graph(Told("x")))[0]


def test_a_circle_of_capsules_is_drawn_all_the_same(tmp_path: Path) -> None:
    file = pipeline_in(tmp_path)
    file.write_text(file.read_text().replace('types = ["AirQualityObserved"]', 'types = ["CleanStreet"]'))
    told = look(str(file))
    assert ("capsule-clean-streets", "capsule-by-street") in arrows(told)
    assert len(graph(told).boxes) == 7


def test_what_streams_tell_is_shown(tmp_path: Path) -> None:
    file = pipeline_in(tmp_path)
    with Lock(state_in(tmp_path)):
        told = look(str(file))
    assert told.state is not None
    assert told.state.status == RUNNING
    first = streams(told)[0]
    assert (first["name"], first["rate"], first["lag"], first["made"]) == ("capsule-by-street", "40.0", "17", "60")
    assert first["aside"] == "4 below the guarantee, 3 late"
    assert graph(told).boxes["capsule-by-street"].lines == (
        "by-street",
        "aggregation",
        "40 rows/s, 17 behind",
        "made 60, aside 7",
    )
    assert troubles(told) == ["capsule-clean-streets: the node is away (begun again 2 times)"]
    colors = {node["name"]: node["itemStyle"]["color"] for node in options(graph(told))["series"][0]["data"]}
    assert colors["capsule-clean-streets"] != colors["capsule-by-street"]
    assert [(row["asks"], row["promises"]) for row in promises(told)] == [
        ("accuracy>=medium", "completeness>=50"),
        ("completeness>=high", "nothing"),
    ]


def test_one_whose_process_is_gone_is_said_to_be_killed(tmp_path: Path) -> None:
    pipeline_in(tmp_path)
    told = look(str(state_in(tmp_path, queries=[], warnings=["by-street is not advertised"])))
    assert told.plan is not None  # the folder tells of the file
    assert told.state is not None
    assert told.state.status == KILLED
    assert troubles(told) == [
        "Its process has ended without a word: hanse pipeline run goes on from there.",
        "warning: by-street is not advertised",
    ]


def test_without_its_file_a_folder_still_shows_its_streams(tmp_path: Path) -> None:
    told = look(str(state_in(tmp_path)))
    assert told.plan is None
    assert promises(told) == []
    assert arrows(told) == {
        ("source", "capsule-by-street"),
        ("source", "capsule-clean-streets"),
        ("capsule-by-street", "sink"),
        ("capsule-clean-streets", "sink"),
        ("source", "lake-raw"),
    }


def test_a_python_file_that_only_a_folder_names_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "air.py").write_text("raise SystemExit('it was run')")
    assert look(str(state_in(tmp_path, file=str(tmp_path / "air.py")))).plan is None


def test_a_python_file_that_is_named_is_run_once_for_each_change(tmp_path: Path) -> None:
    file, runs = tmp_path / "air.py", tmp_path / "runs"
    file.write_text(f"with open({str(runs)!r}, 'a') as runs:\n    runs.write('x')\n")
    told = [look(str(file)).problem for _ in range(3)]
    assert len(set(told)) == 1
    assert "it defines no `pipeline" in told[0]
    assert runs.read_text() == "x"


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    assert "there is no folder" in look(str(tmp_path / "none.toml")).problem
    file = pipeline_in(tmp_path)
    file.write_text("[source")
    assert "cannot be read" in look(str(file)).problem
    folder = state_in(tmp_path)
    (folder / "state.json").write_text("{")
    assert "state.json cannot be read" in look(str(folder)).problem
    assert troubles(look(str(folder))) == [look(str(folder)).problem]


def test_delivered_quality_is_what_the_attributes_state() -> None:
    def air(completeness: float) -> dict[str, object]:
        stated = {"type": "Property", "value": 41.0, "completeness": {"type": "Property", "value": completeness}}
        return {"id": "urn:a", "type": "StreetAir", "no2": [stated], "name": {"type": "Property", "value": "rue"}}

    assert delivered([air(50), air(87.5)]) == "completeness 50 to 87.5"
    assert delivered([air(50)]) == "completeness 50"
    assert delivered([{"id": "urn:a", "no2": {"type": "Property", "value": 1, "note": {"value": 3}}}]) == ""


def test_a_lake_has_tables_with_days_and_rows(tmp_path: Path) -> None:
    table_in(tmp_path / "lake", "raw", {"2026-03-01": RAW, "2026-03-02": RAW[:5]})
    lake = str(tmp_path / "lake")
    assert [(row["table"], row["records"], row["files"], row["days"], row["types"]) for row in summaries(lake)] == [
        ("raw", "35", "2 (2 small)", "2026-03-01 to 2026-03-02", "AirQualityObserved")
    ]
    found = preview(lake, "raw")
    assert found.columns == ("date", "type", "offset", "id", "attributes")
    assert [row[0] for row in found.rows] == ["2026-03-02"] * 5 + ["2026-03-01"] * 15
    assert len(found.rows) == ROWS
    assert all(len(cell) <= 200 for row in found.rows for cell in row)
    assert found.says == "20 rows of the newest of 2 files"


def test_a_lake_that_is_not_there_or_broken_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no lake at"):
        summaries(str(tmp_path / "none"))
    table_in(tmp_path / "lake", "raw", {"2026-03-01": RAW})
    with pytest.raises(InvalidInput, match="there is no table 'other'"):
        preview(str(tmp_path / "lake"), "other")
    next((tmp_path / "lake" / "raw" / "data").rglob("*.parquet")).write_bytes(b"no parquet")
    with pytest.raises(InvalidInput, match="cannot be read"):
        preview(str(tmp_path / "lake"), "raw")
    assert summaries(str(tmp_path / "lake"))[0]["days"].startswith("cannot be read")
