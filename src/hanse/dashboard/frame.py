"""What every page has: a header, the way to the other pages, light and dark, and a word for nodes that do not answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from nicegui import ui

if TYPE_CHECKING:
    from hanse.dashboard.watching import Watch

REFRESH_S: Final = 1.0


class Place(NamedTuple):
    path: str
    name: str
    icon: str
    says: str  # what one sees there, for the first visit


PLACES: Final = (
    Place("/", "Start", "explore", "What this is, and three short stories to click through"),
    Place("/map", "Map", "public", "Nodes, areas, geofences and moving clients; notifications as they travel"),
    Place("/federation", "Federation", "hub", "Who is linked to whom under which rules; change it"),
    Place("/scopes", "Scopes", "account_tree", "Whom things concern: borders that you can shut, and a guided editor"),
    Place("/data", "Data", "dataset", "Entities with quality, history and relationships; try a query or a subscription"),
    Place("/why", "Why?", "help_center", "Why a notification came, or which check stopped it, in words and on the map"),
    Place("/pipeline", "Pipeline", "schema", "Capsules on Spark with rates, lag and quality; the tables of the lake"),
    Place("/simulator", "Simulator", "science", "Try strategies on a workload of your own, and see which one suits"),
    Place("/health", "Health", "monitor_heart", "Rates, queues against their bounds, dead letters"),
)

_STYLE: Final = """
<style>
  :root { --ink: #14283a; --sea: #dcebf5; --shore: #f4efe4; --line: #7a8b99; --focus: #b8430a }
  .body--dark { --ink: #e3eaf0; --sea: #10202d; --shore: #2a3540; --line: #6d8193; --focus: #ffb066 }
  a:focus-visible, button:focus-visible, [tabindex]:focus-visible {
    outline: 3px solid var(--focus) !important; outline-offset: 2px }
  .skip { position: absolute; left: -999px }
  .skip:focus { left: 1rem; top: .5rem; z-index: 9999; background: #fff; color: #000; padding: .5rem }
  .number { font-variant-numeric: tabular-nums }
  @media (prefers-reduced-motion: reduce) { * { animation: none !important; transition: none !important } }
</style>
"""


@contextmanager
def frame(watch: Watch, path: str) -> Iterator[ui.column]:
    """A page: what is built within is its contents."""
    here = next(place for place in PLACES if place.path == path)
    watch.looked()
    ui.page_title(f"{here.name} · Hanse")
    ui.add_head_html(_STYLE)
    ui.html('<a class="skip" href="#contents">To the contents</a>', sanitize=False)
    dark = ui.dark_mode(value=None)
    with (
        ui.left_drawer(value=False).props('bordered show-if-above :breakpoint="900" width=210') as drawer,
        ui.list().classes("w-full").props('role="navigation" aria-label="Pages"'),
    ):
        for place in PLACES:
            with ui.item().props(f'clickable href="{place.path}" :active={str(place is here).lower()}').classes("rounded"):
                with ui.item_section().props("avatar"):
                    ui.icon(place.icon)
                ui.item_section(place.name)
    with ui.header().classes("items-center gap-3 q-py-sm").props('role="banner"'):
        ui.button(icon="menu", on_click=drawer.toggle).props('flat round color=white aria-label="Menu"')
        ui.link("Hanse", "/").classes("text-white text-h6 no-underline")
        ui.label(here.name).classes("text-subtitle1").props('role="heading" aria-level="1"')
        ui.space()
        _state(watch)
        ui.button(icon="contrast", on_click=lambda: _turn(dark)).props('flat round color=white aria-label="Light or dark"')
    with ui.column().classes("w-full max-w-screen-2xl mx-auto gap-4").props('id="contents" role="main"') as contents:
        yield contents
    ui.timer(REFRESH_S * 5, watch.looked)


def _turn(dark: ui.dark_mode) -> None:
    dark.value = not dark.value


def _state(watch: Watch) -> None:
    """How many nodes answer; which do not, on asking."""
    label = ui.label().classes("text-sm number").props('role="status"')
    with label:
        hint = ui.tooltip()

    def refresh() -> None:
        silent = [seen for seen in watch.seen if not seen.is_there]
        count = len(watch.seen)
        label.text = f"{count - len(silent)} of {count} nodes answer" if silent else f"{count} node{'s' * (count != 1)}"
        hint.text = "; ".join(f"{seen.id or seen.url}: {seen.problem}" for seen in silent) or "All nodes answer"

    refresh()
    ui.timer(REFRESH_S, refresh)


def heading(text: str, help_: str = "") -> None:
    """A part of a page, with what it is for."""
    ui.label(text).classes("text-h6").props('role="heading" aria-level="2"')
    if help_:
        ui.label(help_).classes("text-sm opacity-80 -mt-3")


def empty(text: str) -> None:
    """Where there is nothing yet: what would bring something."""
    ui.label(text).classes("opacity-80 italic")
