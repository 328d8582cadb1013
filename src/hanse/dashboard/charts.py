"""Options of charts: the same look on every page, readable on light and on dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hanse.dashboard.map import COLORS

INK: Final = "#7d8c99"  # stands out from white and from black
GRID: Final = "#7d8c9944"
_TEXT: Final = {"color": INK}
_TIMES: Final = {**_TEXT, "hideOverlap": True, "showMaxLabel": False}  # the last one would be cut off


def lines(title: str, unit: str, points: Mapping[str, Sequence[tuple[float, float]]]) -> dict[str, Any]:
    """Lines over time; points are `(seconds since 1970, value)`."""
    return {
        **_common(f"{title}, {unit}", is_legend=len(points) > 1),
        "grid": {"left": 8, "right": 12, "top": 34, "bottom": 24 if len(points) > 1 else 4, "containLabel": True},
        "xAxis": {"type": "time", "axisLabel": _TIMES, "axisLine": {"lineStyle": _TEXT}},
        "yAxis": {"type": "value", "min": 0, "axisLabel": _TEXT, "splitLine": {"lineStyle": {"color": GRID}}},
        "series": [
            {
                "type": "line",
                "name": name,
                "showSymbol": False,
                "data": [[round(at * 1000), round(value, 3)] for at, value in found],
            }
            for name, found in points.items()
        ],
    }


def bars(
    title: str, names: Sequence[str], parts: Mapping[str, Sequence[float | None]], *, is_stacked: bool = False
) -> dict[str, Any]:
    """A bar for each name, lying, the first on top; several parts beside each other, or on each other."""
    stack = {"stack": "all"} if is_stacked else {}
    return {
        **_common(title, is_legend=len(parts) > 1),
        "grid": {"left": 8, "right": 24, "top": 34, "bottom": 28 if len(parts) > 1 else 8, "containLabel": True},
        "xAxis": {
            "type": "value",
            "axisLabel": {**_TEXT, "hideOverlap": True},
            "splitLine": {"lineStyle": {"color": GRID}},
            "splitNumber": 4,
        },
        "yAxis": {"type": "category", "data": list(names), "inverse": True, "axisLabel": {**_TEXT, "fontSize": 11}},
        "series": [
            {"type": "bar", "name": name, "data": [None if one is None else round(one, 3) for one in values], **stack}
            for name, values in parts.items()
        ],
    }


def _common(title: str, *, is_legend: bool) -> dict[str, Any]:
    return {
        "title": {"text": title, "textStyle": {**_TEXT, "fontSize": 13, "fontWeight": "normal"}},
        "legend": {"show": is_legend, "bottom": 0, "textStyle": _TEXT, "itemHeight": 8},
        "tooltip": {"trigger": "axis", "renderMode": "richText", "confine": True},
        "color": list(COLORS),
        "animation": False,
        "aria": {"enabled": True, "label": {"description": title}},
    }
