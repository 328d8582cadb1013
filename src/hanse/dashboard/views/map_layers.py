"""What the map draws, layer by layer: a switch for each, what its signs mean, and how many there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from nicegui import ui

from hanse.dashboard.map import MESSAGE_COLOR, color_of

_SWATCH: Final = '<svg width="26" height="16" viewBox="0 0 26 16" aria-hidden="true" style="display:block">{}</svg>'
_BOX: Final = (
    '<rect x="1.5" y="1.5" width="23" height="13" rx="2" fill="{}" fill-opacity="{}" stroke="{}" stroke-width="1.5" {}/>'
)
_DIAMOND: Final = '<path d="M13 1l7 7-7 7-7-7z" fill="currentColor"/>'
_DOT: Final = '<circle cx="13" cy="8" r="4" fill="currentColor"/>'
_LINE: Final = '<path d="M1 8h24" stroke="currentColor" stroke-width="2"/>'
_COMET: Final = '<path d="M3 8h13" stroke="currentColor" stroke-width="2.5"/><circle cx="18" cy="8" r="4" fill="currentColor"/>'


class Layer(NamedTuple):
    """`signs`: how it is drawn, and what that means."""

    key: str
    name: str
    signs: tuple[tuple[str, str], ...]


def _box(opacity: float, more: str = "", color: str = "currentColor") -> str:
    return _BOX.format(color, opacity, color, more)


LAYERS: Final = (
    Layer(
        "areas",
        "Areas",
        (
            (_box(0.25), "what a node is responsible for"),
            (_box(0.06, 'stroke-dasharray="1 3"'), "none configured: around what the node holds"),
        ),
    ),
    Layer(
        "fences",
        "Geofences",
        (
            (_box(0.1, 'stroke-dasharray="5 3"'), "of subscriptions: where they listen to"),
            (_box(0.35, "", MESSAGE_COLOR), "of messages just sent: for whoever is there"),
        ),
    ),
    Layer("clients", "Clients", ((_DIAMOND, "who publish and subscribe, where they are"),)),
    Layer("movers", "Things", ((_DOT, "entities that have a place"),)),
    Layer("links", "Links", ((_LINE, "dotted where only one end wants it"),)),
    Layer("travels", "Notifications", ((_COMET, "as they travel"),)),
)


class Layers:
    """The switches; `is_on(key)` says what is to be drawn."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._switches: dict[str, ui.switch] = {}
        self._communities: list[str] = []
        with ui.column().classes("w-full gap-2 text-sm"):
            self._colors = ui.row().classes("items-center gap-x-4 gap-y-1").props('role="list" aria-label="Communities"')
            with (
                ui.element("div")
                .classes("w-full grid gap-x-6 gap-y-1")
                .style("grid-template-columns: repeat(auto-fill, minmax(min(100%, 19rem), 1fr))")
                .props('role="group" aria-label="What is drawn"')
            ):
                for layer in LAYERS:
                    self._build(layer)
            self._more = ui.label().classes("italic").props('role="status" data-testid=map-more')
            self._more.set_visibility(False)

    def is_on(self, key: str) -> bool:
        return bool(self._switches[key].value)

    def tell(self, communities: list[str], counts: Mapping[str, int], more: list[str]) -> None:
        """How many of each there are, and what is left out."""
        for layer in LAYERS:
            if layer.key in counts:
                self._switches[layer.key].text = f"{layer.name} ({counts[layer.key]:,})"
        self._more.text = f"Not all is drawn: {'; '.join(more)}." if more else ""
        self._more.set_visibility(bool(more))
        if communities != self._communities:
            self._communities = communities
            self._colors.clear()
            with self._colors:
                for name in communities:
                    _community(name, color_of(name, communities))

    def _build(self, layer: Layer) -> None:
        with ui.column().classes("gap-0"):
            switch = ui.switch(layer.name, value=True, on_change=lambda _: self._on_change())
            self._switches[layer.key] = switch.props(f"dense data-testid=layer-{layer.key}").classes("py-1")
            for drawn, means in layer.signs:
                with ui.row().classes("items-center gap-2 no-wrap pl-2"):
                    ui.html(_SWATCH.format(drawn), sanitize=False).classes("shrink-0")
                    ui.label(means).classes("opacity-80")


def _community(name: str, color: str) -> None:
    with ui.row().classes("items-center gap-1").props('role="listitem"'):
        ui.element("span").style(f"background:{color};width:.9rem;height:.9rem;border-radius:50%;display:inline-block")
        ui.label(name or "no community")
