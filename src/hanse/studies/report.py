"""What a study found, told three ways: tables in the terminal, JSON for programs, one HTML page with plots for people.

A study adds sections in the order in which they should be read; `finish` writes them. No plot is drawn and nothing printed
before, so that a study can be run and examined by a test at no cost.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text as RichText

from hanse.studies.charts import write_plot
from hanse.studies.page import page
from hanse.studies.sections import Picture, Plot, Table, Words, paragraphs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hanse.studies.sections import Section

ABSENT = "–"
FILE_WIDTH = 132  # of what is printed where no terminal says how wide it is
COMPARED = ("", "paper", "ours", "difference", "in %", "comment")


class Report:
    def __init__(self, title: str, intro: str) -> None:
        self.title = title
        self.intro = intro
        self.sections: list[Section] = []

    def text(self, heading: str, paragraphs: str) -> None:
        """Words; an empty line parts two paragraphs."""
        self.sections.append(Words(heading, paragraphs.strip()))

    def table(self, heading: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, note: str = "", key: str) -> None:
        """A table; columns that hold only numbers (or None: not known) stand to the right. `key` names it in the JSON."""
        kept = tuple(tuple(row) for row in rows)
        if len(set(columns)) != len(columns):
            raise ValueError(f"table {key!r} has two columns of one name")
        for row in kept:
            if len(row) != len(columns):
                raise ValueError(f"table {key!r} has {len(columns)} columns, but a row of {len(row)}: {row!r}")
        shown = tuple(tuple(_cell(value) for value in row) for row in kept)
        self._add_table(Table(heading, key, tuple(columns), kept, note, shown, _numeric(kept, len(columns))))

    def compare(
        self,
        heading: str,
        rows: Sequence[tuple[str, float | None, float | None, str]],
        *,
        unit: str,
        note: str = "",
        key: str,
    ) -> None:
        """The paper's number beside ours: rows of name, paper, ours, comment; the difference is absolute and in percent."""
        kept: list[tuple[object, ...]] = []
        shown: list[tuple[str, ...]] = []
        for name, paper, ours, comment in rows:
            difference = None if paper is None or ours is None else ours - paper
            percent = None if difference is None or not paper else 100 * difference / paper
            kept.append((name, paper, ours, difference, percent, comment))
            signed = ABSENT if difference is None else _signed(difference)
            relative = ABSENT if percent is None else f"{percent:+.1f} %"
            shown.append((name, _cell(paper), _cell(ours), signed, relative, comment))
        columns = (unit, *COMPARED[1:])
        self._add_table(Table(heading, key, columns, tuple(kept), note, tuple(shown), (False, True, True, True, True, False)))

    def bars(
        self,
        heading: str,
        name: str,
        categories: Sequence[str],
        series: Mapping[str, Sequence[float]],
        *,
        ylabel: str,
        log: bool = False,
        note: str = "",
    ) -> None:
        """Groups of bars, one group a category; files `name`.svg and `name`.png."""
        self._add_plot(Plot(heading, name, "bars", tuple(categories), _tuples(series), "", ylabel, log, note))

    def lines(
        self,
        heading: str,
        name: str,
        categories: Sequence[str | float],
        series: Mapping[str, Sequence[float]],
        *,
        ylabel: str,
        xlabel: str = "",
        log: bool = False,
        log_x: bool = False,
        note: str = "",
    ) -> None:
        """One line a series; categories that are numbers are placed to scale. A value that is `nan` is left out."""
        self._add_plot(Plot(heading, name, "lines", tuple(categories), _tuples(series), xlabel, ylabel, log, note, log_x))

    def picture(self, heading: str, name: str, picture: Path | bytes, *, note: str = "") -> None:
        """A PNG or an SVG, as a file or its bytes; stands in the page, and as file `name`.png or `name`.svg beside it."""
        content = picture.read_bytes() if isinstance(picture, Path) else picture
        self._add_figure(Picture(heading, name, _kind(name, content), content, note))

    def data(self) -> dict[str, object]:
        """All tables by key, each a list of rows by column name, with the words beside them."""
        tables: dict[str, object] = {}
        for section in self.sections:
            if isinstance(section, Table):
                tables[section.key] = [dict(zip(_column_names(section), row, strict=True)) for row in section.rows]
        words = [
            {"heading": section.heading, "text": section.paragraphs} for section in self.sections if isinstance(section, Words)
        ]
        return {"title": self.title, "intro": self.intro, "tables": tables, "words": words}

    def finish(self, out: Path, *, json: bool) -> None:
        """Write plots, pictures and `index.html` into `out`; print the tables and words, or JSON, on standard output."""
        out.mkdir(parents=True, exist_ok=True)
        drawings = {section.name: write_plot(section, out) for section in self.sections if isinstance(section, Plot)}
        for section in self.sections:
            if isinstance(section, Picture):
                (out / _file(section)).write_bytes(section.content)
        written = out / "index.html"
        written.write_text(page(self.title, self.intro, self.sections, drawings), encoding="utf-8")
        if json:
            sys.stdout.write(msgspec.json.format(msgspec.json.encode(self.data()), indent=2).decode() + "\n")
        else:
            self._print(out)
        Console(stderr=True).print(f"The page is {written}", soft_wrap=True, markup=False, highlight=False)

    def _print(self, out: Path) -> None:
        console = Console(highlight=False)
        if not console.is_terminal and "COLUMNS" not in os.environ:
            console.width = FILE_WIDTH
        console.rule(RichText(self.title, style="bold"))
        _print_paragraphs(console, self.intro)
        for section in self.sections:
            console.print()
            match section:
                case Words():
                    console.print(RichText(section.heading, style="bold"))
                    _print_paragraphs(console, section.paragraphs)
                case Table():
                    console.print(_rich_table(section))
                    _print_paragraphs(console, section.note, style="dim")
                case Plot() | Picture():
                    console.print(RichText(f"{section.heading}: {out / _file(section)}", style="cyan"), soft_wrap=True)
                    _print_paragraphs(console, section.note, style="dim")

    def _add_table(self, table: Table) -> None:
        if any(isinstance(section, Table) and section.key == table.key for section in self.sections):
            raise ValueError(f"two tables have the key {table.key!r}")
        self.sections.append(table)

    def _add_plot(self, plot: Plot) -> None:
        for label, values in plot.series.items():
            if len(values) != len(plot.categories):
                raise ValueError(
                    f"plot {plot.name!r} has {len(plot.categories)} categories, but {label!r} has {len(values)} values"
                )
        self._add_figure(plot)

    def _add_figure(self, figure: Plot | Picture) -> None:
        if any(isinstance(section, Plot | Picture) and section.name == figure.name for section in self.sections):
            raise ValueError(f"two plots or pictures have the name {figure.name!r}")
        self.sections.append(figure)


@contextmanager
def progress(description: str, total: float) -> Iterator[Callable[[float], None]]:
    """A progress bar on standard error; yields a function that moves it on. Silent when not on a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(description, total=total)
        yield lambda steps: bar.advance(task, steps)


def number(value: float) -> str:
    """A number as people read it: thousands apart, no more digits than it has to say."""
    if isnan(value):
        return ABSENT
    if isinstance(value, int) or value == int(value):
        return f"{int(value):,}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _cell(value: object) -> str:
    match value:
        case None:
            return ABSENT
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return number(value)
        case _:
            return str(value)


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + number(value)


def _numeric(rows: Sequence[Sequence[object]], columns: int) -> tuple[bool, ...]:
    def is_number(value: object) -> bool:
        return value is None or (isinstance(value, int | float) and not isinstance(value, bool))

    def column_is_numeric(column: int) -> bool:
        values = [row[column] for row in rows]
        return any(value is not None for value in values) and all(is_number(value) for value in values)

    return tuple(column_is_numeric(column) for column in range(columns))


def _tuples(series: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, ...]]:
    return {label: tuple(float(value) for value in values) for label, values in series.items()}


def _kind(name: str, content: bytes) -> Literal["png", "svg"]:
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if b"<svg" in content[:2000]:
        return "svg"
    raise ValueError(f"picture {name!r} is neither PNG nor SVG")


def _file(figure: Plot | Picture) -> str:
    return f"{figure.name}.{figure.kind if isinstance(figure, Picture) else 'png'}"


def _column_names(table: Table) -> list[str]:
    """Names of the columns in JSON; the first of a comparison holds names under a unit as its heading."""
    if table.columns[1:] == COMPARED[1:]:
        return ["name", "paper", "ours", "difference", "percent", "comment"]
    return list(table.columns)


# --- terminal -------------------------------------------------------------------------------------------------------------------


def _print_paragraphs(console: Console, paragraphs: str, style: str = "") -> None:
    for paragraph in paragraphs_of(paragraphs):
        console.print(Padding(RichText(paragraph, style=style), (0, 2)))


def _rich_table(table: Table) -> RichTable:
    drawn = RichTable(title=RichText(table.heading, style="bold"), title_justify="left", header_style="bold cyan")
    for at, (column, numeric) in enumerate(zip(table.columns, table.numeric, strict=True)):
        widest = max((len(row[at]) for row in table.shown), default=0)
        drawn.add_column(
            RichText(column), justify="right" if numeric else "left", min_width=widest if numeric else None, overflow="fold"
        )
    for row in table.shown:
        drawn.add_row(*(RichText(cell) for cell in row))
    return drawn
