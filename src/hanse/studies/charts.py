"""Plots, drawn with matplotlib: the same numbers give the same files."""

from __future__ import annotations

import io
import re
from math import isnan
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hanse.studies.sections import Plot

# Okabe and Ito: eight colours that people with any kind of colour vision tell apart.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7A7A7A", "#F0E442")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":")
HATCHES = ("", "///", "...", "\\\\\\", "xx", "++", "oo", "--")
LEGEND_WIDTH = 92  # letters


def write_plot(plot: Plot, out: Path) -> str:
    """Write `name`.svg and `name`.png; return the SVG to stand in the page, whose heading is its title."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with mpl.rc_context({"font.size": 10, "hatch.linewidth": 0.6}):
        figure = _figure(plot)
        FigureCanvasAgg(figure)
        figure.savefig(out / f"{plot.name}.png", dpi=150)
        (out / f"{plot.name}.svg").write_text(svg_of(figure, plot.name), encoding="utf-8")
        figure.axes[0].set_title("", loc="left")
        svg = svg_of(figure, plot.name)
    return _unique_ids(svg[svg.index("<svg") :], plot.name)


def svg_of(figure: Figure, name: str) -> str:
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    FigureCanvasSVG(figure)
    drawing = io.StringIO()
    # A fixed salt and no date: the same results give the same file.
    with mpl.rc_context({"svg.hashsalt": name}):
        figure.savefig(drawing, format="svg", metadata={"Date": None})
    return drawing.getvalue()


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
            ncols=_in_a_row(plot),
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
