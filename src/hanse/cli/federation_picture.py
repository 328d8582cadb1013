"""A federation as a picture: nodes where they are, in the colour of their community, and links with what crosses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hanse.client.federation_words import rule_words
from hanse.scopes.picture import INK, OUT, SHUT, _saved, _short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Point = tuple[float, float]
NODES_DRAWN_MAX: Final = 500
RULE_SHOWN: Final = 34


def draw(federation: dict[str, Any], file_type: str) -> bytes:
    """Nodes by place; where places say nothing, by their links."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    from hanse.model import InvalidInput

    nodes = federation["nodes"]
    if len(nodes) > NODES_DRAWN_MAX:
        raise InvalidInput(f"there are {len(nodes)} nodes; a picture has room for {NODES_DRAWN_MAX}")
    places = _places(federation)
    size = max(7.0, min(18.0, 2.2 * len(nodes) ** 0.5 + 2))
    figure = Figure(figsize=(size * 1.3, size), layout="constrained")
    panel = figure.subplots()
    panel.axis("off")
    panel.margins(0.18)
    panel.set_title(_short(federation["federation"]["name"], 60), fontsize=14, fontweight="bold", color=INK, loc="left")
    for link in federation["links"]:
        _draw_link(panel, link, places, crowded=len(nodes) > 20)
    palette = colormaps["tab10"].colors  # type: ignore[attr-defined]
    communities = sorted({node["community"] for node in nodes})
    for i, community in enumerate(communities):
        theirs = [places[node["id"]] for node in nodes if node["community"] == community]
        xs, ys = zip(*theirs, strict=True)
        panel.plot(
            xs, ys, "o", ms=20, mfc=palette[i % 10], mec="white", mew=1.5, zorder=3, label=_short(community or "no community")
        )
    for node in nodes:
        x, y = places[node["id"]]
        label = panel.annotate(_short(node["id"]), (x, y), xytext=(0, -19), textcoords="offset points", zorder=4)
        label.set(ha="center", va="center", fontsize=8.5, fontweight="bold", color=INK)
    panel.legend(loc="lower left", fontsize=8, markerscale=0.5, frameon=False)
    return _saved(figure, file_type)


def _draw_link(panel: Axes, link: dict[str, Any], places: dict[str, Point], *, crowded: bool) -> None:
    a, b = link["between"]
    if a not in places or b not in places:
        return
    rules = ((a, b, link.get("export")), (b, a, link.get("back")))
    agreed = link.get("agreed", True)
    panel.plot(
        *zip(places[a], places[b], strict=True), color="#8195a8" if agreed else SHUT, ls="-" if agreed else ":", lw=1.5, zorder=1
    )
    for here, other, rule in rules if not crowded else ():
        if rule:  # nothing is written where everything may go
            (x0, y0), (x1, y1) = places[here], places[other]
            text = f"{here} → {other}: {rule_words(rule)}"
            label = panel.text(x0 + (x1 - x0) * 0.35, y0 + (y1 - y0) * 0.35, _short(text, RULE_SHOWN + len(here) + len(other)))
            label.set(ha="center", va="center", fontsize=6.5, color=OUT, zorder=5)
            label.set_bbox({"boxstyle": "round,pad=0.2", "fc": "white", "ec": OUT, "lw": 0.6, "alpha": 0.9})


def _places(federation: dict[str, Any]) -> dict[str, Point]:
    import networkx as nx

    located = {node["id"]: (float(node["location"][0]), float(node["location"][1])) for node in federation["nodes"]}
    if len(set(located.values())) == len(located):
        return located
    graph: Any = nx.Graph()
    graph.add_nodes_from(located)
    graph.add_edges_from(link["between"] for link in federation["links"] if set(link["between"]) <= located.keys())
    return {node: (float(x), float(y)) for node, (x, y) in nx.spring_layout(graph, seed=1).items()}
