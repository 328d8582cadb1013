"""Pictures: the graph of scopes of each dimension, scales as rows; and an overlay with what each broker knows.

Both give the bytes of a file, so that nothing is written before all of it is known to work.
"""

from __future__ import annotations

import warnings
from io import BytesIO
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from hanse.model import InvalidInput
from hanse.scopes.visibility import NEVER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hanse.scopes.characterisation import Dimension
    from hanse.scopes.graph import Edge, ScopeGraph
    from hanse.scopes.projection import Overlay, Projection

MAX_TEXT_SHOWN = 23
MAX_PIXELS = 30_000
DPI = 130
INK: Final = "#22303c"
PALE: Final = "#eef2f6"
BOX: Final = "#dbe9f6"
OUT: Final = "#a65a00"
INTO: Final = "#1b6e3c"
SHUT: Final = "#b3261e"
COLUMN_INCHES, ROW_INCHES, TITLE_INCHES = 2.3, 1.15, 0.45

Point: TypeAlias = tuple[float, float]


def draw_graphs(dimensions: Sequence[tuple[Dimension, ScopeGraph]], file_type: str) -> bytes:
    """One panel a dimension, below each other."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    places = [_columns(graph) for _, graph in dimensions]
    width = max([3, *(int(x) + 1 for columns in places for x in columns.values())])
    heights = [sum(_row_heights(dimension)) for dimension, _ in dimensions]
    size = ((width + 0.7) * COLUMN_INCHES, sum(height * ROW_INCHES + TITLE_INCHES for height in heights))
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(h_pad=0.12))
    panels = figure.subplots(len(dimensions), 1, squeeze=False, height_ratios=heights)[:, 0]
    for panel, (dimension, graph), columns in zip(panels, dimensions, places, strict=True):
        _draw_graph(panel, dimension, graph, columns, width)
    return _saved(figure, file_type)


def _row_heights(dimension: Dimension) -> list[float]:
    """A row for each scale; those without a scope are low."""
    used = {entry.scale for entry in dimension.scopes}
    return [1.0 if scale in used else 0.4 for scale in dimension.scales]


def _columns(graph: ScopeGraph) -> dict[str, float]:
    """A column for each scope: scopes without subscopes side by side, every other one above the middle of its subscopes.

    Each scope counts as a child of its first superscope, so that what is below a scope is one block of columns.
    """
    columns: dict[str, float] = {}
    below = {scope: [child for child in graph.children(scope) if graph.parents(child)[0] == scope] for scope in graph.scopes()}
    free = 0
    for root in graph.roots():
        waiting = [root]
        while waiting:
            scope = waiting[-1]
            if missing := [child for child in below[scope] if child not in columns]:
                waiting.append(missing[0])
                continue
            waiting.pop()
            if below[scope]:
                columns[scope] = sum(columns[child] for child in below[scope]) / len(below[scope])
            else:
                columns[scope] = float(free)
                free += 1
    return columns


def _draw_graph(panel: Axes, dimension: Dimension, graph: ScopeGraph, columns: Mapping[str, float], width: int) -> None:
    heights = _row_heights(dimension)
    panel.set_xlim(-1.2, width - 0.5)
    panel.set_ylim(-sum(heights), 0)
    panel.axis("off")
    panel.set_title(_short(dimension.name, 60), loc="left", fontsize=13, fontweight="bold", color=INK)
    if any(edge.out or edge.into for edge in graph.edges()):
        panel.set_title(
            "visibility filters: ▲ on the way up, ▼ on the way down, red: lets nothing through",
            loc="right",
            fontsize=8,
            color=OUT,
        )
    middle = {}
    top = 0.0
    for i, (scale, height) in enumerate(zip(dimension.scales, heights, strict=True)):
        middle[scale] = top - height / 2
        panel.axhspan(top - height, top, color=PALE if i % 2 == 0 else "white", lw=0, zorder=0)
        panel.text(
            -1.15, middle[scale], _short(scale).replace(" ", "\n"), va="center", fontsize=9.5, color="#5a6b7a", style="italic"
        )
        top -= height
    places = {entry.name: (columns[entry.name], middle[entry.scale]) for entry in dimension.scopes}
    for edge in graph.edges():
        if edge.super_ in places:
            _draw_edge(panel, edge, places, graph.parents(edge.sub).index(edge.super_))
    for entry in dimension.scopes:
        x, y = places[entry.name]
        # one text has one weight: the name stands in a line that the box keeps free for it
        text = f" \n{_short(entry.title)}" if entry.title else f" {_short(entry.name)} "
        box = panel.text(x, y, text, ha="center", va="center", fontsize=8.5, color=INK, zorder=4)
        box.set_bbox({"boxstyle": "round,pad=0.4", "fc": BOX, "ec": "#6f8aa5", "lw": 1.0})
        if entry.title:
            name = panel.annotate(_short(entry.name), (x, y), xytext=(0, 6.5), textcoords="offset points", zorder=5)
            name.set(ha="center", va="center", fontsize=8.5, fontweight="bold", color=INK)


def _draw_edge(panel: Axes, edge: Edge, places: Mapping[str, Point], number: int) -> None:
    child, parent = places[edge.sub], places[edge.super_]
    line = [child, parent]
    between = [x for x, y in places.values() if child[1] < y < parent[1]]
    if parent[1] - child[1] > 1:
        # over several rows the line goes straight up where the fewest scopes are in its way
        lanes = [child[0], parent[0], child[0] - 0.5, child[0] + 0.5, parent[0] - 0.5, parent[0] + 0.5]
        lane = min(lanes, key=lambda x: sum(abs(x - other) < 0.45 for other in between))
        line[1:1] = [(lane, child[1] + 0.5), (lane, parent[1] - 0.5)]
    shut = NEVER in (edge.out, edge.into)
    style = {"color": SHUT, "ls": (0, (4, 3))} if shut else {"color": "#8195a8", "ls": "-"}
    panel.plot(*zip(*line, strict=True), lw=1.3, zorder=1, **style)
    if not (edge.out or edge.into):
        return
    # near the subscope, where lines to one superscope are still apart; further up for each further superscope
    (x0, y0), (x1, y1) = line[0], line[1]
    part = min(0.8, 0.33 + 0.2 * number)
    text = "\n".join(f"{sign} {_short(given)}" for sign, given in (("▲", edge.out), ("▼", edge.into)) if given)
    colour = SHUT if shut else OUT if not edge.into else INTO if not edge.out else INK
    label = panel.text(
        x0 + (x1 - x0) * part, y0 + (y1 - y0) * part, text, ha="center", va="center", fontsize=7, color=colour, zorder=5
    )
    label.set_bbox({"boxstyle": "round,pad=0.2", "fc": "white", "ec": colour, "lw": 0.8})


def draw_projections(projections: Sequence[Projection], file_type: str) -> bytes:
    """One panel a dimension: every broker with its scopes; a ring in the colour of a filter around those that hold one."""
    from matplotlib.figure import Figure

    overlay = projections[0].overlay
    places = _spread(overlay)
    size = max(6.0, min(18.0, 1.5 * len(overlay.ids) ** 0.5 + 1.6))
    figure = Figure(figsize=(size * len(projections), size), layout="constrained")
    for panel, projection in zip(figure.subplots(1, len(projections), squeeze=False)[0], projections, strict=True):
        _draw_projection(panel, projection, places)
    return _saved(figure, file_type)


def _draw_projection(panel: Axes, projection: Projection, places: Mapping[str, Point]) -> None:
    from matplotlib import colormaps

    overlay = projection.overlay
    palette = colormaps["tab20"].colors  # type: ignore[attr-defined]
    order = sorted(range(20), key=lambda i: (i % 2, i))  # the strong ones first
    colour = {scope: palette[order[i % 20]] for i, scope in enumerate(projection.areas)}
    guards = {
        broker
        for edge in projection.graph.edges()
        if edge.out or edge.into
        for broker in projection.border(edge.sub, edge.super_)
    }
    crowded = len(overlay.ids) > 40
    panel.axis("off")
    panel.margins(0.12)
    panel.set_title(f"{_short(projection.graph.dimension, 60)}: who knows what", fontsize=13, fontweight="bold", color=INK)
    for here in overlay.ids:
        for other in overlay.neighbours[here]:
            if here < other:
                panel.plot(*zip(places[here], places[other], strict=True), color="#b4c0cc", lw=1.4, zorder=1)
    for broker in overlay.ids:
        x, y = places[broker]
        knows = projection.knows[broker]
        edge = OUT if broker in guards else "#6f8aa5"
        panel.plot(
            x,
            y,
            "o",
            ms=15 if crowded else 21,
            mfc=BOX if knows else "white",
            mec=edge,
            mew=2.4 if broker in guards else 1.2,
            zorder=3,
        )
        panel.annotate(_short(broker, 12), (x, y), ha="center", va="center", fontsize=6 if crowded else 8, color=INK, zorder=4)
        for i, scope in enumerate(knows):
            step = 9 if crowded else 10.5
            panel.annotate(
                _short(scope),
                (x, y),
                xytext=(10 if crowded else 13, (len(knows) - 1) * step / 2 - i * step),
                textcoords="offset points",
                va="center",
                fontsize=6 if crowded else 7,
                color="white",
                zorder=5,
                bbox={"boxstyle": "round,pad=0.15", "fc": colour[scope], "ec": "white", "lw": 0.6},
            )
    if guards:
        panel.annotate("○ holds a visibility filter", (0.01, 0.01), xycoords="axes fraction", fontsize=8, color=OUT)


def _spread(overlay: Overlay) -> dict[str, Point]:
    """Positions whose distances are as near as may be to the number of links between brokers (stress majorisation)."""
    ids = overlay.ids
    count = len(ids)
    hops = np.full((count, count), np.nan)
    index = {broker: i for i, broker in enumerate(ids)}
    for broker in ids:
        level, reached, hop = [broker], {broker}, 0
        while level:
            hops[index[broker], [index[name] for name in level]] = hop
            level = list(dict.fromkeys(n for name in level for n in overlay.neighbours[name] if n not in reached))
            reached |= set(level)
            hop += 1
    # parts without a link between them stand apart by a bit more than the widest part
    wanted = np.where(np.isnan(hops), np.nanmax(hops) + 2, hops)
    weight = 1 / np.maximum(wanted, 1) ** 2
    np.fill_diagonal(weight, 0)
    laplacian = np.linalg.pinv(np.diag(weight.sum(1)) - weight)
    angle = np.arange(count) * 2 * np.pi / max(1, count)
    points = np.column_stack([np.cos(angle), np.sin(angle)]) * max(1.0, float(wanted.max()) / 2)
    for _ in range(300):
        distance = np.maximum(np.linalg.norm(points[:, None] - points[None], axis=2), 1e-9)
        pull = weight * wanted / distance
        points = laplacian @ (pull.sum(1)[:, None] * points - pull @ points)
    return {broker: (float(points[i, 0]), float(points[i, 1])) for broker, i in index.items()}


def _short(text: str, most: int = MAX_TEXT_SHOWN) -> str:
    """A text that fits, with nothing in it that would be taken for a formula."""
    text = text if len(text) <= most else text[: most - 1] + "…"
    return text.replace("$", r"\$")


def _saved(figure: Figure, file_type: str) -> bytes:
    if max(figure.get_size_inches()) * DPI > MAX_PIXELS:
        raise InvalidInput("there is too much for one picture; choose one dimension, or do without the picture")
    out = BytesIO()
    with warnings.catch_warnings():
        # a letter that the font lacks is drawn as a box: a flaw of the picture, and no news for who asked for it
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        # without a date the same input gives the same file
        figure.savefig(out, format=file_type, dpi=DPI, metadata={"Date": None} if file_type == "svg" else None)
    return out.getvalue()
