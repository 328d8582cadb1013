"""The graph of scopes of a dimension as options of a chart: superscopes above, borders as lines, shut ones red."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hanse.dashboard.steering import Border

INK: Final = "#7d8c99"
OPEN: Final = "#2e7d4f"
FILTERED: Final = "#e0a100"
SHUT: Final = "#c62828"
SCOPES_DRAWN: Final = 300
TEXT_MAX: Final = 40
_BOX: Final = "#0b6e99"
_PALE: Final = "#8fb8cb"  # no node has joined it


def levels(scopes: Sequence[str], borders: Sequence[Border]) -> dict[str, int]:
    """0 for a root; otherwise one more than the lowest of the scopes above it."""
    above: dict[str, list[str]] = {scope: [] for scope in scopes}
    for border in borders:
        above.setdefault(border.scope, []).append(border.superscope)
        above.setdefault(border.superscope, [])
    found: dict[str, int] = {}
    for _ in range(len(above)):  # a graph of scopes has no rings, so that this many rounds reach everyone
        for scope, parents in above.items():
            if scope not in found and all(parent in found for parent in parents):
                found[scope] = 1 + max((found[parent] for parent in parents), default=-1)
    return found


def places(scopes: Sequence[str], borders: Sequence[Border]) -> dict[str, tuple[float, float]]:
    """Rows by level; in a row, below the middle of those above."""
    rows: dict[int, list[str]] = {}
    for scope, level in levels(scopes, borders).items():
        rows.setdefault(level, []).append(scope)
    widest = max((len(row) for row in rows.values()), default=1)
    at: dict[str, tuple[float, float]] = {}
    for level, row in sorted(rows.items()):
        parents = {scope: [at[border.superscope][0] for border in borders if border.scope == scope] for scope in row}
        row.sort(key=lambda scope: (sum(parents[scope]) / len(parents[scope]) if parents[scope] else 0.0, scope))
        step = widest / len(row)
        for i, scope in enumerate(row):
            at[scope] = (round((i + 0.5) * step * 100, 1), level * 100.0)
    return at


def options(
    scopes: Sequence[str], borders: Sequence[Border], members: Mapping[str, Sequence[str]], chosen: tuple[str, str] = ("", "")
) -> dict[str, Any]:
    """`members` are the nodes that have joined each scope; `chosen` is the border that stands out."""
    at = places(
        scopes[:SCOPES_DRAWN], [border for border in borders if {border.scope, border.superscope} <= set(scopes[:SCOPES_DRAWN])]
    )
    data = [
        {
            "name": scope,
            "x": x,
            "y": y,
            "value": f"{len(members.get(scope, ()))} nodes: {', '.join(members.get(scope, ())) or 'none has joined'}",
            "symbolSize": 26 + 6 * min(5, len(members.get(scope, ()))),
            "itemStyle": {"color": _BOX if members.get(scope) else _PALE},
        }
        for scope, (x, y) in at.items()
    ]
    links = [
        {
            "source": border.superscope,
            "target": border.scope,
            "value": in_words(border),
            "lineStyle": {
                "color": color(border),
                "width": 6 if (border.scope, border.superscope) == chosen else 3,
                "type": "dashed" if border.is_shut else "solid",
                "opacity": 1,
            },
            "label": {"show": bool(border.out or border.into), "formatter": _cut(mark(border)), "color": color(border)},
        }
        for border in borders
        if border.scope in at and border.superscope in at
    ]
    return {
        "animation": False,
        "aria": {"enabled": True},
        "tooltip": {"renderMode": "richText", "confine": True},
        "series": [
            {
                "type": "graph",
                "layout": "none",
                "preserveAspect": "contain",
                "left": 60,
                "right": 60,
                "top": 30,
                "bottom": 40,
                "label": {"show": True, "position": "bottom", "color": INK, "fontWeight": "bold"},
                "data": data,
                "links": links,
            }
        ],
    }


def color(border: Border) -> str:
    return SHUT if border.is_shut else FILTERED if border.out or border.into else OPEN


def mark(border: Border) -> str:
    """For a line: what may go up and down."""
    if border.is_shut:
        return "shut"
    return " ".join(f"{sign} {text}" for sign, text in (("↑", border.out), ("↓", border.into)) if text)


def in_words(border: Border) -> str:
    if border.is_shut:
        return f"nothing leaves {border.scope}, and nothing comes in"
    out = {"": "everything", "false": "nothing"}.get(border.out, f"what has {border.out}")
    into = {"": "everything", "false": "nothing"}.get(border.into, f"what has {border.into}")
    return f"{out} leaves {border.scope} to {border.superscope}; {into} comes in from there"


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"
