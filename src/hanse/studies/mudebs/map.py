"""The map of Net52 and of who knows which scope."""

from __future__ import annotations

from math import cos, hypot, pi, sin
from typing import TYPE_CHECKING, Final

from hanse.simulation.topologies import STUBS_OF_TRANSIT
from hanse.studies.charts import svg_of
from hanse.studies.mudebs.cases import scenario_1, scenario_2

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hanse.routing import Federation
    from hanse.studies.mudebs.cases import Case

SCOPE_COLOURS: Final = {"s1": "#D55E00", "s2": "#0072B2", "s3": "#009E73", "s4": "#56B4E9", "s5": "#B7DF8A"}
INK: Final = "#22303c"


def draw_map() -> bytes:
    """Net52 twice, as SVG: what brokers know in P1 of scenario 1, and in scenarios 2 and 3 with one dimension."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    figure = Figure(figsize=(13, 7.5), layout="constrained")
    panels = figure.subplots(1, 2)
    titles = ("Scenario 1, P1: one dimension around each of a, c, d", "Scenarios 2 and 3, first dimension: rooted at d")
    for axes, case, title in zip(panels, (scenario_1("P1"), scenario_2(52, 0)), titles, strict=True):
        _draw_overlay(axes, case)
        axes.text(0, 6.15, title, ha="center", fontsize=13, fontweight="bold", color=INK)
    legend = [Patch(facecolor=colour, label=scope) for scope, colour in SCOPE_COLOURS.items()]
    legend.append(Patch(facecolor="white", edgecolor="#9aa7b4", label="knows no scope"))
    figure.legend(handles=legend, loc="outside lower center", ncols=6, frameon=False, fontsize=11)
    return svg_of(figure, "net52-scopes").encode()


def _draw_overlay(axes: Axes, case: Case) -> None:
    from matplotlib.patches import Circle, Wedge

    places = _places(case.federation)
    axes.set_aspect("equal")
    axes.axis("off")
    for link in case.federation.links:
        if link.source < link.target:
            axes.plot(*zip(places[link.source], places[link.target], strict=True), color="#b4c0cc", lw=1.3, zorder=1)
    for broker, (x, y) in places.items():
        scopes = [scope for known in case.known[broker].values() for scope in known]
        radius = 0.32 if broker in STUBS_OF_TRANSIT else 0.22
        for i, scope in enumerate(scopes):
            turn = 360 / len(scopes)
            colour = SCOPE_COLOURS[scope]
            axes.add_patch(Wedge((x, y), radius, 90 - (i + 1) * turn, 90 - i * turn, facecolor=colour, zorder=2))
        axes.add_patch(Circle((x, y), radius, fill=not scopes, facecolor="white", edgecolor="#6f8aa5", lw=1, zorder=3))
        if broker in STUBS_OF_TRANSIT or broker == case.federation.by_id[broker].community:
            # towards the middle, beside the link
            far = hypot(x, y)
            side, inward = (0.0, 0.7) if broker in STUBS_OF_TRANSIT else (0.38, 0.18)
            several = broker in STUBS_OF_TRANSIT and len(case.dimensions) > 1
            dimension = "".join(f" ({name})" for name in case.known[broker]) if several else ""
            at = (x - (inward * x + side * y) / far, y - (inward * y - side * x) / far)
            axes.text(*at, broker + dimension, ha="center", va="center", fontsize=10, fontweight="bold", color=INK, zorder=4)
    axes.set(xlim=(-5.8, 5.8), ylim=(-5.8, 6.6))


def _places(federation: Federation) -> dict[str, tuple[float, float]]:
    """The transit ring in the middle, stub domains as rings around it."""
    places: dict[str, tuple[float, float]] = {}
    stubs = sorted({node.community for node in federation.nodes if node.id not in STUBS_OF_TRANSIT})
    turns = {stub: 2 * pi * i / len(stubs) for i, stub in enumerate(stubs)}
    for hub in STUBS_OF_TRANSIT:
        own = [turns[stub] for stub in stubs if stub[0] == hub]
        turn = sum(own) / len(own)
        places[hub] = (1.7 * cos(turn), 1.7 * sin(turn))
    for stub, turn in turns.items():
        members = [node.id for node in federation.nodes if node.community == stub]
        radius = 0.8 if len(members) < 5 else 1.0
        for i, member in enumerate(members):
            around_ring = turn + pi + 2 * pi * i / len(members)
            x, y = 4.6 * cos(turn) + radius * cos(around_ring), 4.6 * sin(turn) + radius * sin(around_ring)
            places[member] = (x, y)
    return places
