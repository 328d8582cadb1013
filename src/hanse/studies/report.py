"""What a study found, told three ways: tables in the terminal, JSON for programs, one HTML page with plots for people.

A study adds sections in the order in which they should be read; `finish` writes them. Nothing is drawn or printed before, so that
a study can be run and examined by a test at no cost.
"""

from __future__ import annotations

import html
import io
import os
import re
import sys
from contextlib import contextmanager
from math import isnan
from typing import TYPE_CHECKING, Literal

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text as RichText

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito: eight colours that people with any kind of colour vision tell apart.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7A7A7A", "#F0E442")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":")
HATCHES = ("", "///", "...", "\\\\\\", "xx", "++", "oo", "--")
ABSENT = "–"
LEGEND_WIDTH = 92  # letters
FILE_WIDTH = 132  # of what is printed where no terminal says how wide it is
COMPARED = ("", "paper", "ours", "difference", "in %", "comment")


class Words(msgspec.Struct, frozen=True):
    heading: str
    paragraphs: str


class Table(msgspec.Struct, frozen=True):
    heading: str
    key: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    note: str
    shown: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]


class Plot(msgspec.Struct, frozen=True):
    heading: str
    name: str
    kind: Literal["bars", "lines"]
    categories: tuple[str | float, ...]
    series: dict[str, tuple[float, ...]]
    xlabel: str
    ylabel: str
    log: bool
    note: str
    log_x: bool = False


Section = Words | Table | Plot


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
        """Write the plots and `index.html` into `out`; print the tables and words, or JSON, on standard output."""
        out.mkdir(parents=True, exist_ok=True)
        drawings = {section.name: _write_plot(section, out) for section in self.sections if isinstance(section, Plot)}
        page = out / "index.html"
        page.write_text(_page(self, drawings), encoding="utf-8")
        if json:
            sys.stdout.write(msgspec.json.format(msgspec.json.encode(self.data()), indent=2).decode() + "\n")
        else:
            self._print(out)
        Console(stderr=True).print(f"The page is {page}", soft_wrap=True, markup=False, highlight=False)

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
                case Plot():
                    console.print(RichText(f"{section.heading}: {out / section.name}.png", style="cyan"), soft_wrap=True)

    def _add_table(self, table: Table) -> None:
        if any(isinstance(section, Table) and section.key == table.key for section in self.sections):
            raise ValueError(f"two tables have the key {table.key!r}")
        self.sections.append(table)

    def _add_plot(self, plot: Plot) -> None:
        if any(isinstance(section, Plot) and section.name == plot.name for section in self.sections):
            raise ValueError(f"two plots have the name {plot.name!r}")
        for label, values in plot.series.items():
            if len(values) != len(plot.categories):
                raise ValueError(
                    f"plot {plot.name!r} has {len(plot.categories)} categories, but {label!r} has {len(values)} values"
                )
        self.sections.append(plot)


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


def _column_names(table: Table) -> list[str]:
    """Names of the columns in JSON; the first of a comparison holds names under a unit as its heading."""
    if table.columns[1:] == COMPARED[1:]:
        return ["name", "paper", "ours", "difference", "percent", "comment"]
    return list(table.columns)


# --- terminal -------------------------------------------------------------------------------------------------------------------


def _print_paragraphs(console: Console, paragraphs: str, style: str = "") -> None:
    for paragraph in _paragraphs(paragraphs):
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


def _paragraphs(text: str) -> list[str]:
    return [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text.strip()) if paragraph.strip()]


# --- plots ----------------------------------------------------------------------------------------------------------------------


def _write_plot(plot: Plot, out: Path) -> str:
    """Write `name`.svg and `name`.png; return the SVG to stand in the page."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    # A fixed salt and no date: the same results give the same file.
    with mpl.rc_context({"svg.hashsalt": plot.name, "font.size": 10, "hatch.linewidth": 0.6}):
        figure = _figure(plot)
        FigureCanvasAgg(figure)
        figure.savefig(out / f"{plot.name}.png", dpi=150)
        FigureCanvasSVG(figure)
        drawing = io.StringIO()
        figure.savefig(drawing, format="svg", metadata={"Date": None})
    svg = drawing.getvalue()
    (out / f"{plot.name}.svg").write_text(svg, encoding="utf-8")
    return _unique_ids(svg[svg.index("<svg") :], plot.name)


def _unique_ids(svg: str, name: str) -> str:
    """Several drawings share one page, and so its ids."""
    prefix = re.sub(r"[^\w-]", "-", name)
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    return re.sub(r"(url\(|href=\")#", rf"\g<1>#{prefix}-", svg)


def _figure(plot: Plot) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    wide = len(plot.categories) * max(1, len(plot.series)) if plot.kind == "bars" else 0
    figure = Figure(figsize=(max(7.5, min(14.0, 0.42 * wide + 2)), 4.2), layout="constrained")
    axes = figure.add_subplot()
    if plot.log:
        axes.set_yscale("log")
    (_draw_bars if plot.kind == "bars" else _draw_lines)(axes, plot)
    axes.set_ylabel(plot.ylabel)
    axes.set_xlabel(plot.xlabel)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))
    rows = -(-len(plot.series) // _in_a_row(plot)) if len(plot.series) > 1 else 0
    title_gap = 8 + 17 * rows
    axes.set_title(plot.heading, loc="left", fontweight="bold", pad=title_gap, fontsize=11)
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if len(plot.series) > 1:
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(-0.01, 1.0),
            ncols=min(len(plot.series), 7),
            frameon=False,
            fontsize=9,
            borderpad=0.2,
        )
    return figure


def _in_a_row(plot: Plot) -> int:
    """How many entries of the legend fit side by side."""
    return max(1, min(len(plot.series), LEGEND_WIDTH // (max(map(len, plot.series)) + 6)))


def _draw_bars(axes: Axes, plot: Plot) -> None:
    width = 0.82 / max(1, len(plot.series))
    for index, (label, values) in enumerate(plot.series.items()):
        places = [at + (index - (len(plot.series) - 1) / 2) * width for at in range(len(plot.categories))]
        colour = COLOURS[index % len(COLOURS)]
        hatch = HATCHES[index % len(HATCHES)]
        bars = axes.bar(places, values, width * 0.94, label=label, color=colour, hatch=hatch, edgecolor="white", linewidth=0)
        if len(plot.series) * len(plot.categories) <= 24:
            axes.bar_label(bars, [_short(value) for value in values], padding=2, fontsize=7.5, color="#333333")
    axes.set_xticks(range(len(plot.categories)), [str(category) for category in plot.categories])
    axes.tick_params(axis="x", length=0)
    axes.margins(y=0.12)


def _draw_lines(axes: Axes, plot: Plot) -> None:
    from matplotlib.ticker import NullLocator

    numbers = [float(category) for category in plot.categories if isinstance(category, int | float)]
    to_scale = len(numbers) == len(plot.categories)
    places = numbers if to_scale else [float(at) for at in range(len(plot.categories))]
    if plot.log_x:
        axes.set_xscale("log")
    for index, (label, values) in enumerate(plot.series.items()):
        known = [(place, value) for place, value in zip(places, values, strict=True) if not isnan(value)]
        axes.plot(
            [place for place, _ in known],
            [value for _, value in known],
            label=label,
            color=COLOURS[index % len(COLOURS)],
            marker=MARKERS[index % len(MARKERS)],
            linestyle=LINES[index % len(LINES)],
            markersize=7,
            linewidth=1.8,
        )
    axes.set_xticks(places, [_tick(place) for place in places] if to_scale else [str(category) for category in plot.categories])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.margins(y=0.12)


def _tick(value: float) -> str:
    if abs(value) >= 1e6:
        return f"{value / 1e6:g}M"
    if abs(value) >= 1e3:
        return f"{value / 1e3:g}k"
    return f"{value:g}"


def _short(value: float) -> str:
    """Three digits above a bar."""
    if isnan(value):
        return ""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size * 0.9995:
            return f"{value / size:.3g}{letter}" if abs(value) < 999.5 * size else f"{value / size:.0f}{letter}"
    return f"{value:.3g}"


# --- page -----------------------------------------------------------------------------------------------------------------------

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1d2733; background: #f6f7f9; margin: 0; }
main { max-width: 1080px; margin: 0 auto; padding: 2rem 1.5rem 4rem; background: #fff; min-height: 100vh; }
h1 { font-size: 1.7rem; margin: 0 0 .5rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; }
p { max-width: 46rem; } .note { color: #5a6675; font-size: .9rem; }
nav { font-size: .9rem; columns: 2; } nav a { color: #0072b2; text-decoration: none; display: block; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; }
th, td { padding: .3rem .75rem; text-align: left; border-bottom: 1px solid #e3e7ec; vertical-align: top; }
th { background: #eef2f6; border-bottom: 2px solid #c9d2dc; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tbody tr:hover { background: #f4f8fb; }
figure { margin: 1rem 0; } figure svg { width: 100%; height: auto; }
"""


def _page(report: Report, drawings: Mapping[str, str]) -> str:
    body = [f"<h1>{html.escape(report.title)}</h1>", _html_paragraphs(report.intro), "<nav>"]
    for at, section in enumerate(report.sections):
        body.append(f'<a href="#section-{at}">{html.escape(section.heading)}</a>')
    body.append("</nav>")
    for at, section in enumerate(report.sections):
        body.append(f'<h2 id="section-{at}">{html.escape(section.heading)}</h2>')
        match section:
            case Words():
                body.append(_html_paragraphs(section.paragraphs))
            case Table():
                body.append(_html_table(section) + _html_paragraphs(section.note, "note"))
            case Plot():
                body.append(f"<figure>{drawings[section.name]}</figure>" + _html_paragraphs(section.note, "note"))
    content = "\n".join(body)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(report.title)}</title><style>{STYLE}</style></head>\n<body><main>\n{content}\n</main></body></html>\n"
    )


def _html_paragraphs(text: str, style: str = "") -> str:
    opening = f'<p class="{style}">' if style else "<p>"
    return "".join(f"{opening}{html.escape(paragraph)}</p>" for paragraph in _paragraphs(text))


def _html_table(table: Table) -> str:
    def row(tag: str, cells: Sequence[str]) -> str:
        marks = [' class="number"' if numeric else "" for numeric in table.numeric]
        inner = "".join(f"<{tag}{mark}>{html.escape(cell)}</{tag}>" for mark, cell in zip(marks, cells, strict=True))
        return f"<tr>{inner}</tr>"

    rows = "\n".join(row("td", cells) for cells in table.shown)
    return f'<div class="scroll"><table><thead>{row("th", table.columns)}</thead>\n<tbody>\n{rows}\n</tbody></table></div>'
