"""The picture of a federation as options of a chart: a cluster for each community, a circle for each node, a line for each link.

Places are computed here and depend on the topology alone, so that the picture stands still while numbers change.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import cos, log10, pi, sin
from typing import Any, Final

from hanse.dashboard.map import color_of
from hanse.dashboard.rules import is_open, short
from hanse.dashboard.topology import Topology, TopologyLink

NODES_DRAWN: Final = 200
TEXT_MAX: Final = 90
INK: Final = "#7d8c99"  # stands out from white and from black
GUARDED: Final = "#e0a100"  # a link with export rules
AWAY: Final = "#9aa5ad"
_SMALL, _LARGE = 30.0, 70.0  # of a node, in pixels
SIDE: Final = 46  # room for half a name beside the outermost nodes, in pixels


def options(
    topology: Topology, entities: Mapping[str, int], away: frozenset[str] = frozenset(), chosen: str = ""
) -> dict[str, Any]:
    """`entities` are how many each node keeps; nodes that are `away` are pale; the `chosen` node or link (a|b) stands out."""
    communities = sorted({node.community for node in topology.nodes})
    at = places(topology)
    middles = _middles(topology)
    nodes = [
        {
            "name": node.id,
            "x": at[node.id][0],
            "y": at[node.id][1],
            "category": communities.index(node.community),
            "symbolSize": size(entities.get(node.id, 0)),
            "value": entities.get(node.id, 0),
            "label": {"position": "top" if node.id in middles else "bottom"},  # the others stand behind it, and below
            "itemStyle": {
                "color": AWAY if node.id in away else color_of(node.community, communities),
                "borderColor": GUARDED if node.id == chosen else "#ffffff",
                "borderWidth": 4 if node.id == chosen else 1,
            },
        }
        for node in topology.nodes[:NODES_DRAWN]
    ]
    links = [_line(link, chosen) for link in topology.links if link.pair <= at.keys()]
    series = {
        "type": "graph",
        "layout": "none",
        "roam": False,
        "preserveAspect": "contain",
        "left": SIDE,
        "right": SIDE,
        "top": 60,
        "bottom": 50,
        "label": {"show": True, "color": INK, "fontWeight": "bold"},
        "labelLayout": {"moveOverlap": "shiftY"},  # on a phone they are close to each other
        "emphasis": {"focus": "adjacency", "lineStyle": {"width": 6}},
        "categories": [
            {"name": community or "no community", "itemStyle": {"color": color_of(community, communities)}}
            for community in communities
        ],
        "data": nodes,
        "links": links,
    }
    return {
        "animation": False,
        "aria": {"enabled": True},
        "tooltip": {"renderMode": "richText", "confine": True},
        "legend": {"top": 0, "textStyle": {"color": INK}, "type": "scroll", "selectedMode": False},
        "series": [series],
    }


def _line(link: TopologyLink, chosen: str) -> dict[str, Any]:
    a, b = link.between
    is_agreed = link.export is not None and link.back is not None
    is_guarded = not (is_open(link.export) and is_open(link.back))
    is_chosen = chosen in (f"{a}|{b}", f"{b}|{a}")
    return {
        "source": a,
        "target": b,
        "value": f"to {b}: {_cut(short(link.export))} · to {a}: {_cut(short(link.back))}",
        "lineStyle": {
            "color": GUARDED if is_guarded else INK,
            "width": 6 if is_chosen else 3,
            "type": "solid" if is_agreed else "dashed",
            "opacity": 0.9,
        },
    }


def size(entities: int) -> float:
    """Ten times as many entities look one step larger."""
    return min(_LARGE, _SMALL + 9 * log10(1 + entities))


def places(topology: Topology) -> dict[str, tuple[float, float]]:
    """Communities in a ring; in each, the node with most links to other communities towards the middle, the others behind it."""
    found: dict[str, tuple[float, float]] = {}
    by_community = _by_community(topology)
    count = len(by_community)
    for i, (_, members) in enumerate(sorted(by_community.items())):
        towards = 2 * pi * i / count - pi / 2
        middle = (0.0, 0.0) if count == 1 else (100 * cos(towards), 60 * sin(towards))
        first, *others = members
        spread = 2 * pi if count == 1 else pi * 0.9
        for j, other in enumerate(others):
            turn = towards + (spread * (j + 0.5) / len(others) - spread / 2)
            found[other] = (round(middle[0] + 62 * cos(turn), 1), round(middle[1] + 50 * sin(turn), 1))
        found[first] = (round(middle[0], 1), round(middle[1], 1))
    return found


def _by_community(topology: Topology) -> dict[str, list[str]]:
    """The nodes that are drawn; in each community, the node with most links to other communities first."""
    home = {node.id: node.community for node in topology.nodes}
    abroad = dict.fromkeys(home, 0)
    for link in topology.links:
        a, b = link.between
        if home.get(a) != home.get(b):
            for end in (a, b):
                abroad[end] = abroad.get(end, 0) + 1
    found: dict[str, list[str]] = {}
    for node in topology.nodes[:NODES_DRAWN]:
        found.setdefault(node.community, []).append(node.id)
    return {name: sorted(members, key=lambda node: (-abroad[node], node)) for name, members in found.items()}


def _middles(topology: Topology) -> frozenset[str]:
    """The nodes that others of their community stand around."""
    return frozenset(members[0] for members in _by_community(topology).values() if len(members) > 1)


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"
