"""The walk on a map, with what was heard by whom; and beside it what each strategy costs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from trail import CITIES, Stage, areas_of_nodes

from hanse.simulation.run import Result

mpl.use("Agg")
from matplotlib import patheffects
from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle

COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")  # told apart by everyone
WEST, EAST, SOUTH, NORTH = -12, 24, 36, 54
GRID_DEG: Final = 0.5
READABLE: Final = [patheffects.withStroke(linewidth=3, foreground="white")]  # on whatever is below a word


def draw(plan: Sequence[Stage], heard: Mapping[str, set[str]], results: Sequence[Result], path: Path) -> Path:
    figure, (chart, bars) = plt.subplots(1, 2, figsize=(14, 6), width_ratios=(3, 2), layout="constrained")
    _map(chart, plan, heard)
    names = [one.strategy for one in results]
    bars.barh(names, [one.between_brokers for one in results], color="#56B4E9")
    for y, one in enumerate(results):
        bars.text(one.between_brokers, y, f" {one.between_brokers:,}", va="center", fontsize=8)
    bars.invert_yaxis()
    bars.margins(x=0.15)
    bars.set_title("messages between nodes for the same deliveries, by strategy", loc="left", fontsize=10)
    bars.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _map(chart: Any, plan: Sequence[Stage], heard: Mapping[str, set[str]]) -> None:
    areas, colour_of = areas_of_nodes(), dict(zip(CITIES, COLOURS, strict=True))
    steps_lat, steps_lon = (int((to - start) / GRID_DEG) for start, to in ((SOUTH, NORTH), (WEST, EAST)))
    for i, j in product(range(steps_lat), range(steps_lon)):
        lat, lon = SOUTH + i * GRID_DEG, WEST + j * GRID_DEG
        colour = colour_of[areas.owner(lat + GRID_DEG / 2, lon + GRID_DEG / 2)]
        chart.add_patch(Rectangle((lon, lat), GRID_DEG, GRID_DEG, facecolor=colour, alpha=0.15, linewidth=0))
    for coast in _coasts():
        chart.plot(*zip(*coast, strict=True), color="#888888", linewidth=0.7, zorder=1)
    for stage in plan:
        here = {move.hiker: move.to for move in stage.moves}
        for said in stage.said:
            for hiker in heard.get(said.id, set()) - {said.hiker}:
                xs, ys = (said.at.lon, here[hiker].lon), (said.at.lat, here[hiker].lat)
                chart.plot(xs, ys, color="#333333", linewidth=0.6, alpha=0.6, zorder=2)
    for number, hiker in enumerate(move.hiker for move in plan[0].moves):
        track = [stage.moves[number] for stage in plan]
        chart.plot([move.to.lon for move in track], [move.to.lat for move in track], linestyle=":", color="#D55E00", zorder=3)
        for move in track:
            chart.plot(move.to.lon, move.to.lat, "o", color=colour_of[move.home], markersize=5, zorder=4)
        end = track[-1].to
        side = {"xytext": (6, -3), "ha": "left"} if number % 2 else {"xytext": (-6, -3), "ha": "right"}
        words = {"textcoords": "offset points", "fontsize": 8, "path_effects": READABLE, "zorder": 6}
        chart.annotate(hiker, (end.lon, end.lat), **side, **words)
    for name, (north, east) in CITIES.items():
        chart.plot(east, north, "s", color=colour_of[name], markersize=11, markeredgecolor="black", zorder=5)
        words = {"textcoords": "offset points", "weight": "bold", "ha": "center", "path_effects": READABLE, "zorder": 7}
        chart.annotate(name, (east, north), xytext=(0, 9), **words)
    chart.set(xlim=(WEST, EAST), ylim=(SOUTH, NORTH), aspect=1.4, xlabel="longitude", ylabel="latitude")
    chart.set_title("areas of the nodes, hikers (dotted, coloured by home) and who heard whom (lines)", loc="left", fontsize=10)


def _coasts() -> Iterator[list[list[float]]]:
    land = json.loads(files("hanse").joinpath("dashboard", "data", "land.json").read_text(encoding="utf-8"))
    for feature in land["features"]:
        yield from feature["geometry"]["coordinates"]
