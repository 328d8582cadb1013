"""The map as an element of a page; what it draws is in map.js."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from nicegui import events
from nicegui.element import Element

LAND: Final = "/static/land.json"
COLORS: Final = ("#0b6e99", "#b8430a", "#2e7d4f", "#7b3fa0", "#a0731c", "#b3265e", "#3f51b5", "#5d6b1e")

MESSAGE_COLOR: Final = "#d81b60"  # of the geofence of a message, whoever sends it


def color_of(name: str, names: Sequence[str]) -> str:
    """The same colour for the same name on every page: by its place among all names, in order."""
    return COLORS[sorted(set(names) | {name}).index(name) % len(COLORS)]


class HarbourMap(Element, component="map.js"):
    """Land, areas, links, nodes, clients, movers and fences, and notifications as they travel."""

    def __init__(self, label: str, on_pick: Callable[[str, str], None] | None = None) -> None:
        super().__init__()
        self._props["land"] = LAND
        self._props["label"] = label
        self._props["things"] = {}
        if on_pick is not None:

            def picked(event: events.GenericEventArguments) -> None:
                on_pick(str(event.args["kind"]), str(event.args["id"]))

            self.on("pick", picked)

    def show(self, things: Mapping[str, Any]) -> None:
        """What there is now, whole; nothing is sent if nothing has changed."""
        if self._props["things"] != things:
            self._props["things"] = dict(things)
            self.update()

    def describe(self, label: str) -> None:
        """What it shows, for who does not see it."""
        if self._props["label"] != label:
            self._props["label"] = label
            self.update()

    def travel(self, ways: Sequence[Mapping[str, Any]]) -> None:
        if ways:
            self.run_method("travel", list(ways))

    def fit(self) -> None:
        self.run_method("fit")
