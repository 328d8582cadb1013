"""Scopes: their graph in each dimension, who is in which, and borders that can be shut and opened while one watches."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec
from nicegui import events, ui

from hanse.client import NgsiLdClientError
from hanse.dashboard import scope_graph
from hanse.dashboard.frame import REFRESH_S, empty, heading
from hanse.dashboard.rules import is_open
from hanse.dashboard.steering import (
    Border,
    ScopesSeen,
    Tried,
    in_words,
    join_scope,
    look_at_scopes,
    reset_border,
    set_border,
    topology_of,
    try_border,
)
from hanse.dashboard.views.federation_dialogs import done, sheet
from hanse.dashboard.views.scopes_editor import show_editor
from hanse.model import InvalidInput

if TYPE_CHECKING:
    from hanse.dashboard.app import Shown
    from hanse.dashboard.watching import Watch

TRIES_SHOWN: Final = 30
BORDERS_SHOWN: Final = 100
SCOPES_SHOWN: Final = 100
ATTRIBUTES_MAX: Final = 2_000  # characters


async def show(watch: Watch, shown: Shown) -> None:
    del shown
    with ui.tabs().props('align=left aria-label="Scopes"') as tabs:
        now = ui.tab("now", "As it is", icon="account_tree")
        make = ui.tab("make", "Make a characterisation", icon="edit_note").props("data-testid=tab-editor")
    with ui.tab_panels(tabs, value=now, animated=False).classes("w-full bg-transparent"):
        with ui.tab_panel(now).classes("px-0"):
            page = _Page(watch)
            await page.build()
        with ui.tab_panel(make).classes("px-0"):
            show_editor()


class _Page:
    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._seen = ScopesSeen()
        self._dimension = ""
        self._drawn: Any = None
        self._listed: Any = None
        self._trial: _Trial | None = None

    async def build(self) -> None:
        heading(
            "Whom things concern",
            "Scopes say where and for whom something is said. It is heard in another scope if every border between lets it.",
        )
        self._seen = await look_at_scopes(self._watch)
        if not self._seen.dimensions:
            empty(
                "These nodes know no scopes. A federation has them from its characterisation: make one under the other tab, put "
                "it beside the federation's file, and name it there: characterisation = 'scopes.toml'."
            )
            return
        self._dimension = next(iter(self._seen.dimensions))
        ui.toggle(list(self._seen.dimensions), value=self._dimension, on_change=lambda event: self._turn(event.value)).props(
            'aria-label="Dimension" no-caps data-testid=dimension'
        )
        chart = ui.echart({"series": []}, on_point_click=self._picked).classes("w-full h-80")
        self._chart = chart.props(
            'role="img" aria-label="Graph of scopes; the lists below have the same" data-testid=scope-graph'
        )
        ui.label("Green: everything crosses. Yellow: what the filter says. Red: nothing. Pale scopes have no node.").classes(
            "text-sm"
        )
        with ui.element("div").classes("w-full grid gap-6 grid-cols-1 lg:grid-cols-2"):
            with ui.column().classes("w-full gap-2"):
                heading("Borders", "Shut one, and nothing leaves the scope or comes in, in the whole federation, at once.")
                self._borders = ui.column().classes("w-full gap-1").props("data-testid=borders")
            with ui.column().classes("w-full gap-2"):
                heading(
                    "Try it",
                    "Something is said on one side, and somebody on the other side waits for it. Real nodes, each second.",
                )
                self._trial = _Trial(self._watch)
        heading("Who is in which", "A node that has joined a scope serves those who are in it.")
        self._members = ui.column().classes("w-full gap-0").props("data-testid=members")
        self._joining()
        self._show()
        ui.timer(2 * REFRESH_S, self._refresh)

    # --- again and again ----------------------------------------------------------------------------------------------

    async def _refresh(self) -> None:
        self._seen = await look_at_scopes(self._watch)
        self._show()

    def _show(self) -> None:
        scopes, borders = self._seen.dimensions.get(self._dimension, []), self._seen.borders_of(self._dimension)
        members = {scope: self._seen.nodes_in(self._dimension, scope) for scope in scopes}
        trial = self._trial
        chosen = (trial.border.scope, trial.border.superscope) if trial is not None and trial.border is not None else ("", "")
        drawn = scope_graph.options(scopes, borders, members, chosen)
        if drawn != self._drawn:
            self._drawn = drawn
            self._chart.options.clear()
            self._chart.options.update(drawn)
            self._chart.update()
        listed = (borders, members)
        if listed != self._listed:
            self._listed = listed
            self._list_borders(borders)
            self._list_members(members)
        nodes = sorted(self._watch.nodes)
        if self._node.options != nodes:
            self._node.set_options(nodes)
        if trial is not None:
            trial.offer(borders, nodes)

    def _turn(self, dimension: str) -> None:
        self._dimension = dimension
        self._scope.set_options(self._seen.dimensions[dimension], value=None)
        self._show()

    def _picked(self, event: events.EChartPointClickEventArguments) -> None:
        data: dict[str, Any] = event.data if isinstance(event.data, dict) else {}
        if self._trial is not None and "source" in data:
            self._trial.choose(str(data["target"]), str(data["source"]))
            self._show()

    # --- borders ------------------------------------------------------------------------------------------------------

    def _list_borders(self, borders: list[Border]) -> None:
        self._borders.clear()
        with self._borders:
            for border in borders[:BORDERS_SHOWN]:
                with ui.row().classes("w-full items-center no-wrap gap-2"):
                    switch = ui.switch(value=not border.is_shut, on_change=partial(self._switch, border))
                    switch.props["aria-label"] = f"{border.scope} is open to {border.superscope}"
                    switch.props["data-testid"] = f"switch-{border.scope}-{border.superscope}"
                    with ui.column().classes("gap-0 grow"):
                        ui.label(f"{border.scope} in {border.superscope}").classes("text-subtitle2")
                        ui.label(scope_graph.in_words(border)).classes("text-sm opacity-80")
                    tune = ui.button(icon="tune", on_click=partial(self._ask_filters, border)).props("flat round dense")
                    tune.props["aria-label"] = f"Filters between {border.scope} and {border.superscope}"
            if len(borders) > BORDERS_SHOWN:
                ui.label(f"and {len(borders) - BORDERS_SHOWN} more")
            if not borders:
                empty("The scopes of this dimension have no borders: none is within another.")

    async def _switch(self, border: Border, event: events.ValueChangeEventArguments[Any]) -> None:
        if event.value == (not border.is_shut):
            return
        with self._borders:  # which stays, while the list in it is made anew
            if event.value:
                is_done = await done(partial(reset_border, self._watch, border), f"{border.scope} is open as before")
            else:
                shut = partial(set_border, self._watch, border, out="false", into="false")
                is_done = await done(shut, f"{border.scope} is shut: nothing leaves it, nothing comes in")
        if not is_done:
            self._listed = None  # the switch goes back
        await self._refresh()

    def _ask_filters(self, border: Border) -> None:
        dialog, card = sheet(
            f"What crosses between {border.scope} and {border.superscope}",
            'A filter such as severity=="high" or public==true; nothing for everything, false for nothing.',
        )
        with card:
            out = ui.input(f"May leave {border.scope}", value=border.out).classes("w-full")
            into = ui.input(f"May come into {border.scope}", value=border.into).classes("w-full")

            async def save() -> None:
                change = partial(set_border, self._watch, border, out=str(out.value or ""), into=str(into.value or ""))
                with card:
                    is_done = await done(change, "The border is changed")
                if is_done:
                    dialog.close()
                    await self._refresh()

            with ui.row():
                ui.button("Set", on_click=save).props("data-testid=set-filters")
                ui.button("Cancel", on_click=dialog.close).props("flat")
        dialog.open()

    # --- members ------------------------------------------------------------------------------------------------------

    def _list_members(self, members: dict[str, list[str]]) -> None:
        self._members.clear()
        with self._members:
            for scope, nodes in list(members.items())[:SCOPES_SHOWN]:
                with ui.row().classes("items-center gap-2 w-full"):
                    ui.label(scope).classes("w-40 text-subtitle2")
                    for node in nodes:
                        chip = ui.chip(node, removable=True, icon="dns").props("dense outline")
                        chip.on_value_change(partial(self._leave, node, scope))
                    if not nodes:
                        ui.label("no node").classes("opacity-60 text-sm")

    def _joining(self) -> None:
        with ui.row().classes("items-center gap-2"):
            node = self._node = ui.select(sorted(self._watch.nodes), label="Node").classes("w-40")
            node.props("dense data-testid=join-node")
            self._scope = ui.select(self._seen.dimensions[self._dimension], label="Scope").classes("w-40")
            self._scope.props("dense data-testid=join-scope")

            async def join() -> None:
                if node.value and self._scope.value:
                    act = partial(join_scope, self._watch, node.value, self._dimension, self._scope.value, is_in=True)
                    await done(act, f"{node.value} is in {self._scope.value}")
                    await self._refresh()

            ui.button("Join", icon="login", on_click=join).props("outline data-testid=join")

    async def _leave(self, node: str, scope: str, event: events.ValueChangeEventArguments[Any]) -> None:
        if event.value:
            return
        act = partial(join_scope, self._watch, node, self._dimension, scope, is_in=False)
        with self._members:
            if not await done(act, f"{node} is not in {scope} any more"):
                self._listed = None
        await self._refresh()


class _Trial:
    """Sends something across a border both ways, again and again, and counts what comes."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.border: Border | None = None
        self._borders: dict[str, Border] = {}
        self._tries: dict[bool, deque[Tried]] = {True: deque(maxlen=TRIES_SHOWN), False: deque(maxlen=TRIES_SHOWN)}
        self._is_busy = asyncio.Lock()
        nodes, (inside, outside) = sorted(watch.nodes), _neighbours(watch)
        self._select = (
            ui.select({}, label="Border", on_change=self._chosen).classes("w-full").props("dense data-testid=trial-border")
        )
        with ui.row().classes("w-full gap-2 no-wrap"):
            self._inside = ui.select(nodes, label="Inside, at", value=inside).classes("grow").props("dense")
            self._outside = ui.select(nodes, label="Outside, at", value=outside).classes("grow").props("dense")
        self._says = (
            ui.input("What it says (JSON)", value='{"public": true}').classes("w-full").props("dense data-testid=trial-says")
        )
        with ui.row().classes("items-center gap-2"):
            ui.button("Try once", icon="send", on_click=self._try).props("data-testid=try-once")
            self._again = ui.switch("Each second").props("data-testid=try-again")
        self._told = ui.column().classes("w-full gap-1 number").props('aria-live="polite" data-testid=trial')
        self._tell()
        ui.timer(REFRESH_S, self._tick)

    def offer(self, borders: list[Border], nodes: list[str]) -> None:
        if self._inside.options != nodes:  # others have been found since
            inside, outside = _neighbours(self._watch)
            self._inside.set_options(nodes, value=inside)
            self._outside.set_options(nodes, value=outside)
        self._borders = {f"{border.scope} | {border.superscope}": border for border in borders}
        names = {key: f"{border.scope} in {border.superscope}" for key, border in self._borders.items()}
        now = self._select.value if self._select.value in names else next(iter(names), None)
        if self._select.options != names or self._select.value != now:
            self._select.set_options(names, value=now)
        self.border = self._borders.get(now or "")

    def choose(self, scope: str, superscope: str) -> None:
        if f"{scope} | {superscope}" in self._borders:
            self._select.value = f"{scope} | {superscope}"

    def _chosen(self) -> None:
        self.border = self._borders.get(self._select.value or "")
        for tries in self._tries.values():
            tries.clear()
        self._tell()

    async def _tick(self) -> None:
        if self._again.value and not self._is_busy.locked():
            await self._try()

    async def _try(self) -> None:
        border, inside, outside = self.border, self._inside.value, self._outside.value
        if border is None or not inside or not outside:
            return
        async with self._is_busy:
            try:
                said = msgspec.json.decode(str(self._says.value or "{}")[:ATTRIBUTES_MAX], type=dict[str, Any])
                for is_outward, nodes in ((True, (inside, outside)), (False, (outside, inside))):
                    tried = await try_border(self._watch, border, said, nodes, is_outward=is_outward)
                    if border == self.border or (self.border and border.scope == self.border.scope):
                        self._tries[is_outward].append(tried)
            except (NgsiLdClientError, InvalidInput, OSError) as error:
                self._again.value = False
                ui.notify(in_words(error), type="negative", multi_line=True)
            except msgspec.MsgspecError:
                self._again.value = False
                ui.notify('What it says is a JSON object, such as {"public": true}', type="negative")
        self._tell()

    def _tell(self) -> None:
        self._told.clear()
        border = self.border
        with self._told:
            if border is None or not self._tries[True]:
                empty("Nothing has been tried yet. Press the button, or let it go on each second and shut the border meanwhile.")
                return
            for is_outward, words in ((True, f"out of {border.scope}"), (False, f"into {border.scope}")):
                tries = self._tries[is_outward]
                came = sum(tried.is_delivered for tried in tries)
                last = tries[-1]
                ui.label(f"{words}: {came} of the last {len(tries)} arrived").classes("text-subtitle2").props(
                    f"data-testid={'out' if is_outward else 'into'}-count"
                )
                with ui.row().classes("gap-0 no-wrap overflow-hidden").props('aria-hidden="true"'):
                    for tried in tries:
                        ui.icon("circle" if tried.is_delivered else "close", size="xs").style(
                            f"color: {scope_graph.OPEN if tried.is_delivered else scope_graph.SHUT}"
                        )
                ui.label(("arrived" if last.is_delivered else "did not arrive") + ": " + last.why[-1 if last.is_delivered else 0])
                ui.link("Why?", f"/why?publisher={quote(last.publisher)}&id={quote(last.id)}").classes("text-sm")


def _neighbours(watch: Watch) -> tuple[str | None, str | None]:
    """Two nodes between which no export rule decides, so that what is tried tells of the border alone."""
    with suppress(InvalidInput):
        for link in topology_of(watch).links:
            if is_open(link.export) and is_open(link.back) and link.pair <= watch.nodes.keys():
                return link.between
    first = next(iter(watch.nodes), None)
    return first, first
