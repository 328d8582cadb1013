"""What was said, how good it was, and what Bob heard, in one picture."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from itertools import groupby
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

from bordeaux.context import is_unhealthy, level_of_correctness, moment
from bordeaux.measurements import HOUR
from bordeaux.streets import Report
from hanse.quality import Level

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHADES: Final = {"high": "#7fb6d9", "medium": "#cfe5f2", "low": "#f4d9d0", None: "#ffffff"}
KEYS: Final = {"high": "{} high", "medium": "medium", "low": "low", None: "not known"}
LINE: Final = "#1a1a1a"
TRUTH: Final = "#8a8a8a"
MARK: Final = "#d55e00"
LIMIT: Final = 100  # the last index that is not unhealthy for anyone


ByStreet: TypeAlias = Sequence[tuple[str, str, Sequence[Report]]]


class Shade(Struct, frozen=True):
    """The criterion whose level is shown as shade, and how to find it."""

    criterion: str
    level: Callable[[Report], Level | None]


CORRECTNESS: Final = Shade("correctness", level_of_correctness)


def draw(by_street: ByStreet, heard: Collection[tuple[str, str]], file: Path, shade: Shade = CORRECTNESS) -> None:
    """A strip for each street: its title, its id and its reports. `heard` has the ids and times of what Bob was told."""
    import matplotlib as mpl

    file.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"date.converter": "concise"}):
        _figure(by_street, heard, shade).savefig(file, dpi=110)


def _figure(by_street: ByStreet, heard: Collection[tuple[str, str]], shade: Shade) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure = Figure(figsize=(13, 2.1 * len(by_street) + 1.2), layout="constrained")
    FigureCanvasAgg(figure)
    strips = figure.subplots(len(by_street), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, (title, id_, reports) in zip(strips, by_street, strict=True):
        _strip(axes, reports, {time for street, time in heard if street == id_}, shade)
        axes.set_title(title, loc="left", fontsize=10)
    figure.supylabel("air quality index (US EPA)", fontsize=10)
    keys = [
        Line2D([], [], color=LINE, label="what the street says"),
        Line2D([], [], color=TRUTH, linestyle=":", label="what the analyser says"),
        Line2D([], [], color=MARK, linewidth=0.8, linestyle="--", label="above: unhealthy for sensitive groups"),
        Line2D([], [], color=MARK, marker="v", linestyle="", label="Bob is told"),
        *(
            Patch(facecolor=SHADES[level], edgecolor=TRUTH, linewidth=0.4, label=word.format(shade.criterion))
            for level, word in KEYS.items()
        ),
    ]
    figure.legend(handles=keys, loc="outside upper center", ncols=len(keys), frameon=False, fontsize=9)
    return figure


def _strip(axes: Axes, reports: Sequence[Report], told: Collection[str], shade: Shade) -> None:
    hours, said, truth = _with_gaps(reports)
    for level, run in groupby(reports, key=shade.level):
        part = list(run)
        for first, last in _stretches([one.statement.hour for one in part]):
            axes.axvspan(first, last + HOUR, color=SHADES[level], linewidth=0)  # type: ignore[arg-type]
    axes.plot(hours, truth, color=TRUTH, linestyle=":", linewidth=1)  # type: ignore[arg-type]
    axes.plot(hours, said, color=LINE, linewidth=1)  # type: ignore[arg-type]
    axes.axhline(LIMIT + 0.5, color=MARK, linewidth=0.8, linestyle="--")
    marked = [one for one in reports if is_unhealthy(one) and moment(one.statement.hour) in told]
    axes.plot(
        [one.statement.hour for one in marked],  # type: ignore[arg-type]
        [one.statement.index.value + 6 for one in marked],
        color=MARK,
        marker="v",
        markersize=4,
        linestyle="",
    )
    axes.margins(x=0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _with_gaps(reports: Sequence[Report]) -> tuple[list[datetime], list[float], list[float]]:
    """The lines, broken where a street was silent."""
    hours: list[datetime] = []
    said: list[float] = []
    truth: list[float] = []
    for one in reports:
        hour = one.statement.hour
        if hours and hour - hours[-1] > HOUR:
            hours.append(hours[-1] + HOUR)
            said.append(nan)
            truth.append(nan)
        hours.append(hour)
        said.append(float(one.statement.index.value))
        truth.append(nan if one.truth is None else float(one.truth.value))
    return hours, said, truth


def _stretches(hours: Sequence[datetime]) -> list[tuple[datetime, datetime]]:
    """The first and the last of each run of hours without a gap."""
    found: list[tuple[datetime, datetime]] = []
    for hour in hours:
        if found and hour - found[-1][1] == HOUR:
            found[-1] = found[-1][0], hour
        else:
            found.append((hour, hour))
    return found
