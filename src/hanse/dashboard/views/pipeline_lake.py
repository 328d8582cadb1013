"""The tables of lakes, with a few rows of the one that is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nicegui import run, ui

from hanse.dashboard.frame import empty, heading
from hanse.dashboard.lakes import Preview, preview, summaries
from hanse.model import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

_COLUMNS: Final = (
    ("table", "table", "left"),
    ("records", "rows", "right"),
    ("files", "files", "right"),
    ("size", "size", "right"),
    ("days", "days", "left"),
    ("types", "types", "left"),
)


class Lake:
    """The lake that was named and those that pipelines write; looked at when it is new, and on asking."""

    def __init__(self, folder: str) -> None:
        self._folders: list[str] = []
        heading("The lake", "What pipelines keep, as tables of Parquet files: choose one to see some rows.")
        with ui.row().classes("items-end gap-2"):
            self._folder = ui.select([], label="Lake", on_change=self._look).classes("w-80").props("data-testid=lake")
            ui.button("Look again", icon="refresh", on_click=self._look).props("flat")
        columns = [{"name": name, "label": label, "field": name, "align": align} for name, label, align in _COLUMNS]
        self._tables = ui.table(columns=columns, rows=[], row_key="table", selection="single", pagination=20)
        self._tables.props("dense flat bordered wrap-cells").classes("w-full number").props("data-testid=tables")
        self._tables.on_select(self._preview)
        self._said = ui.label().props('role="status"').props("data-testid=lake-said")
        self._rows = ui.column().classes("w-full")
        self._nothing = ui.column()
        with self._nothing:
            empty("No lake yet. A pipeline with [lake] in its file writes one; hanse dashboard --lake FOLDER shows one.")
        self._tables.visible = False
        self.add([folder] if folder else [])

    def add(self, folders: Iterable[str]) -> None:
        new = [folder for folder in dict.fromkeys(folders) if folder not in self._folders]
        if new:
            self._folders += new
            self._nothing.visible = False
            self._folder.set_options(self._folders, value=self._folder.value or self._folders[0])

    async def _look(self) -> None:
        if not self._folder.value:
            return
        try:
            rows = await run.io_bound(summaries, str(self._folder.value))
        except InvalidInput as error:
            self._said.text, self._tables.visible = str(error), False
            return
        self._tables.rows = rows or []
        self._tables.visible = True
        self._said.text = "" if rows else "There are no tables in it yet."

    async def _preview(self) -> None:
        self._rows.clear()
        for chosen in self._tables.selected[:1]:
            try:
                found = await run.io_bound(preview, str(self._folder.value), str(chosen["table"]))
            except InvalidInput as error:
                self._said.text = str(error)
                return
            if found is not None:
                self._put(str(chosen["table"]), found)

    def _put(self, name: str, found: Preview) -> None:
        self._said.text = f"{name}: {found.says}"
        columns = [{"name": column, "label": column, "field": column, "align": "left"} for column in found.columns]
        rows: list[dict[str, Any]] = [
            {"#": number, **dict(zip(found.columns, row, strict=True))} for number, row in enumerate(found.rows)
        ]
        with self._rows:
            table = ui.table(columns=columns, rows=rows, row_key="#", pagination=10, title=f"Rows of {name}")
            table.props("dense flat bordered").classes("w-full number text-xs").props("data-testid=rows")
