"""Dead letters of any node: a page of them, one of them whole, and what can be done about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from nicegui import ui

from hanse.client import NgsiLdClientError
from hanse.dashboard.frame import empty

if TYPE_CHECKING:
    from hanse.dashboard.watching import Watch

PATH: Final = "/hanse/v1/dead-letters"
PAGE: Final = 20
WHOLE_MAX: Final = 20_000  # characters of a letter that are shown
_COLUMNS: Final = (
    ("id", "number"),
    ("diedAt", "died"),
    ("subscriptionId", "subscription"),
    ("endpoint", "endpoint"),
    ("attempts", "attempts"),
    ("reason", "reason"),
)


class Letters:
    """Built where it is made; `refresh` follows the nodes that there are."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._starts = [0]  # the number behind which each page that was looked at begins
        known = list(watch.nodes)
        with ui.row().classes("items-center gap-2"):
            self._node = ui.select(known, value=known[0] if known else None, label="Of which node").classes("w-64")
            self._node.on_value_change(self._first).props("data-testid=letters-of")
            ui.button("Look again", icon="refresh", on_click=self._look).props("flat")
        columns = [{"name": name, "label": label, "field": name, "align": "left"} for name, label in _COLUMNS]
        self._table = ui.table(columns=columns, rows=[], row_key="id", selection="multiple").props("data-testid=letters")
        self._table.props("dense flat bordered hide-bottom").classes("w-full number")
        self._none = ui.column()
        with self._none:
            empty("This node has none. A subscription whose endpoint takes nothing would bring some.")
        with ui.row().classes("items-center gap-2"):
            self._buttons = [
                ui.button("Show", icon="visibility", on_click=self._show).props("data-testid=show-letter"),
                ui.button("Send again", icon="send", on_click=self._resend).props("data-testid=resend-letters"),
                ui.button("Drop", icon="delete", on_click=self._drop).props("color=negative").props("data-testid=drop-letters"),
            ]
            self._back = ui.button("Earlier page", icon="chevron_left", on_click=self._earlier).props("flat")
            self._on = ui.button("Next page", icon="chevron_right", on_click=self._later).props("flat")
        self._said = ui.label().props('role="status"').props("data-testid=letters-said")
        self._table.on_select(self._allow)
        ui.timer(0, self._look, once=True)

    def refresh(self) -> None:
        known = list(self._watch.nodes)
        if self._node.options != known:
            kept = self._node.value if self._node.value in known else None
            self._node.set_options(known, value=kept or (known[0] if known else None))

    # --- what there is ------------------------------------------------------------------------------------------------

    async def _first(self) -> None:
        self._starts = [0]
        self._said.text = ""
        await self._look()

    async def _later(self) -> None:
        self._starts.append(int(self._table.rows[-1]["id"]))
        await self._look()

    async def _earlier(self) -> None:
        self._starts = self._starts[:-1] or [0]
        await self._look()

    async def _look(self) -> None:
        found = await self._ask("GET", PATH, params={"limit": str(PAGE), "after": str(self._starts[-1])})
        rows = [{name: str(letter.get(name, "")) for name, _ in _COLUMNS} for letter in found or ()]
        self._table.rows = rows
        self._table.selected = []
        self._table.visible = bool(rows)
        self._none.visible = not rows and found is not None
        self._back.visible = len(self._starts) > 1
        self._on.visible = len(rows) == PAGE
        self._allow()

    def _allow(self) -> None:
        for button in self._buttons:
            button.visible = bool(self._table.rows)
            button.set_enabled(bool(self._table.selected))

    # --- what can be done ---------------------------------------------------------------------------------------------

    async def _show(self) -> None:
        for letter in self._table.selected[:1]:
            whole = await self._ask("GET", f"{PATH}/{letter['id']}")
            if whole is None:
                return
            with ui.dialog() as dialog, ui.card().classes("w-full"):
                ui.label(f"Dead letter {letter['id']}").classes("text-h6").props('role="heading" aria-level="2"')
                text = msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()
                ui.label(text[:WHOLE_MAX]).classes("font-mono text-xs whitespace-pre-wrap break-all").props("data-testid=letter")
                ui.button("Close", on_click=dialog.close).props("flat")
            dialog.on("hide", dialog.delete)
            dialog.open()

    async def _resend(self) -> None:
        await self._each("POST", "/resend", "sent again")

    async def _drop(self) -> None:
        await self._each("DELETE", "", "dropped")

    async def _each(self, method: str, what: str, done: str) -> None:
        chosen = [str(letter["id"]) for letter in self._table.selected]
        number = 0
        self._said.text = ""
        for id_ in chosen:
            if await self._ask(method, f"{PATH}/{id_}{what}") is None:
                break
            number += 1
        if number:
            self._said.text = f"{done}: {number}. {self._said.text}"
        said = self._said.text
        await self._look()
        self._said.text = said

    async def _ask(self, method: str, path: str, params: dict[str, str] | None = None) -> Any:
        """What the node answers; if it refuses, it is said in its own words, and None."""
        node = str(self._node.value or "")
        try:
            answer = await self._watch.client(node).request(method, path, params=params)
        except KeyError:
            self._said.text = "No node answers."
        except (NgsiLdClientError, OSError) as error:
            self._said.text = f"{node}: {error}"
        else:
            return answer.data if answer.data is not None else {}
        return None
