"""A report says the same in the terminal, as JSON and on its page, whatever the numbers and words are."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from math import nan
from typing import TYPE_CHECKING

import pytest

from hanse.studies.report import Report, number, progress

if TYPE_CHECKING:
    from pathlib import Path

PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><circle id="c" r="1"/></svg>'


@pytest.fixture
def report() -> Report:
    report = Report("A study", "First words.\n\nSecond words.")
    report.text("Why", "Because x < y & [bold]z.")
    report.table("Counts", ("name", "n", "held"), [("a", 12345, True), ("b", None, False)], note="A note.", key="counts")
    report.compare("Beside", [("E", 200, 150.0, "fewer"), ("S", None, 3, ""), ("Z", 0, 5, "")], unit="messages", key="beside")
    report.bars("Bars", "bars", ["x", "y"], {"paper": [1, 20], "ours": [3, nan]}, ylabel="messages", log=True)
    report.lines(
        "Lines", "lines", [1000, 10_000], {"ours": [1.0, nan], "paper": [2.0, 3.0]}, ylabel="ms", xlabel="clients", log_x=True
    )
    return report


def test_the_terminal_shows_tables_and_words(report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report.finish(tmp_path / "out", json=False)
    shown, told = capsys.readouterr()
    for text in (
        "A study",
        "Second words.",
        "Because x < y & [bold]z.",
        "12,345",
        "A note.",
        "-50",
        "-25.0 %",
        "fewer",
        "bars.png",
    ):
        assert text in shown
    assert str(tmp_path / "out" / "index.html") in told


def test_json_has_every_table_by_its_key(report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report.finish(tmp_path, json=True)
    shown, told = capsys.readouterr()
    tables = json.loads(shown)["tables"]
    assert tables["counts"] == [{"name": "a", "n": 12345, "held": True}, {"name": "b", "n": None, "held": False}]
    assert tables["beside"][0] == {
        "name": "E",
        "paper": 200,
        "ours": 150.0,
        "difference": -50.0,
        "percent": -25.0,
        "comment": "fewer",
    }
    assert tables["beside"][1]["difference"] is None
    assert tables["beside"][2]["percent"] is None
    assert "index.html" in told


def test_the_page_stands_alone_with_its_drawings(report: Report, tmp_path: Path) -> None:
    report.finish(tmp_path, json=True)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2
    assert "Because x &lt; y &amp; [bold]z." in page
    assert '<td class="number">12,345</td>' in page
    assert "src=" not in page
    ids = [piece.split('"')[0] for piece in page.split(' id="')[1:]]
    assert len(ids) == len(set(ids))
    assert {path.name for path in tmp_path.iterdir()} == {"index.html", "bars.png", "bars.svg", "lines.png", "lines.svg"}


def test_a_picture_stands_in_the_page_and_is_named_in_the_terminal(
    report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "drawn.png"
    source.write_bytes(PNG)
    report.picture("A map", "map", source, note="Seen from above.")
    report.picture("A <drawing>", "drawing", SVG)
    out = tmp_path / "out"
    report.finish(out, json=False)
    page = (out / "index.html").read_text(encoding="utf-8")
    assert f'<img alt="A map" src="data:image/png;base64,{b64encode(PNG).decode()}">' in page
    assert f'<img alt="A &lt;drawing&gt;" src="data:image/svg+xml;base64,{b64encode(SVG).decode()}">' in page
    assert page.count("src=") == page.count('src="data:') == 2
    assert "Seen from above." in page
    assert ((out / "map.png").read_bytes(), (out / "drawing.svg").read_bytes()) == (PNG, SVG)
    shown = capsys.readouterr().out
    assert str(out / "map.png") in shown
    assert str(out / "drawing.svg") in shown
    assert "Seen from above." in shown


def test_a_table_and_its_plot_share_one_heading(tmp_path: Path) -> None:
    report = Report("A study", "")
    report.table("Shared", ("a",), [(1,)], key="a", note="As `scoped` does.")
    report.bars("Shared", "shared", ["x"], {"ours": [1]}, ylabel="messages")
    report.finish(tmp_path, json=True)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert page.count(">Shared</h2>") == page.count(">Shared</a>") == 1
    assert "As <code>scoped</code> does." in page


def test_the_same_report_gives_the_same_files(report: Report, tmp_path: Path) -> None:
    report.finish(tmp_path / "a", json=True)
    report.finish(tmp_path / "b", json=True)
    for name in ("index.html", "bars.svg", "lines.svg"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_what_does_not_fit_together_is_refused(report: Report) -> None:
    with pytest.raises(ValueError, match="two tables have the key 'counts'"):
        report.table("Again", ("a",), [], key="counts")
    with pytest.raises(ValueError, match="2 columns, but a row of 1"):
        report.table("Short", ("a", "b"), [("x",)], key="short")
    with pytest.raises(ValueError, match="two columns of one name"):
        report.table("Twice", ("a", "a"), [], key="twice")
    with pytest.raises(ValueError, match="two plots or pictures have the name 'bars'"):
        report.bars("Again", "bars", [], {}, ylabel="")
    with pytest.raises(ValueError, match="two plots or pictures have the name 'bars'"):
        report.picture("Again", "bars", SVG)
    with pytest.raises(ValueError, match="'words' is neither PNG nor SVG"):
        report.picture("Words", "words", b"words")
    with pytest.raises(ValueError, match="2 categories, but 'a' has 1 values"):
        report.bars("Short", "short", ["x", "y"], {"a": [1]}, ylabel="")


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1234567, "1,234,567"), (42.0, "42"), (0.5, "0.50"), (-3.14159, "-3.14"), (31.4159, "31.4"), (314.159, "314"), (nan, "–")],
)
def test_numbers_are_shown_with_the_digits_that_matter(value: float, shown: str) -> None:
    assert number(value) == shown


def test_progress_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("working", 3) as step:
        step(1)
    assert capsys.readouterr() == ("", "")
