"""A guided way to a characterisation: viewpoints, dimensions, scales, scopes, and at the end a file that nodes take."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from nicegui import events, ui

from hanse.dashboard.characterising import (
    SCOPES_MAX,
    Draft,
    DraftDimension,
    DraftParent,
    DraftScope,
    DraftViewpoint,
    possible_parents,
)
from hanse.dashboard.frame import empty, heading
from hanse.model import InvalidInput

FILE_BYTES_MAX: Final = 1 << 20


def show_editor() -> None:
    _Editor().build()


class _Editor:
    def __init__(self) -> None:
        self._draft = Draft.first()
        self._parts: list[tuple[ui.column, Callable[[], None]]] = []
        self._filling: Callable[[], None] = self._viewpoints

    def build(self) -> None:
        heading(
            "From how you see your system to scopes",
            "Four questions; at each step it says what is missing. The file at the end goes beside the federation's file.",
        )
        with ui.row().classes("gap-2 items-center"):
            ui.button("Begin with nothing", icon="note_add", on_click=lambda: self._take(Draft())).props(
                "flat data-testid=editor-new"
            )
            ui.button("Begin with an example", icon="auto_fix_high", on_click=lambda: self._take(Draft.first())).props("flat")
            ui.upload(
                label="Or bring a file (.toml)", auto_upload=True, max_file_size=FILE_BYTES_MAX, on_upload=self._bring
            ).props('accept=".toml" flat bordered').classes("w-72")
        self._problem = ui.label().classes("text-subtitle2").props('role="status" data-testid=editor-problem')
        with ui.element("div").classes("w-full grid gap-4 grid-cols-1 lg:grid-cols-[1fr_26rem]"):
            with ui.stepper().props("vertical header-nav animated=false").classes("w-full") as stepper:
                for name, words, fill in (
                    (
                        "Viewpoints",
                        "From which sides do you look at it? Where things are, who people are, which network it is ...",
                        self._viewpoints,
                    ),
                    (
                        "Dimensions",
                        "What can be measured from there? Geography has an area; a user has memberships.",
                        self._dimensions,
                    ),
                    (
                        "Scales",
                        "Which sizes are there, the largest first? An area has cities, and quarters in them.",
                        self._scales,
                    ),
                    (
                        "Scopes",
                        "Which ones are there really? Each has a scale, and scopes of a larger scale around it.",
                        self._scopes,
                    ),
                ):
                    with ui.step(name):
                        ui.label(words).classes("text-sm opacity-80")
                        self._part(fill)
                        with ui.stepper_navigation():
                            if name != "Scopes":
                                ui.button("Next", on_click=stepper.next)
                            if name != "Viewpoints":
                                ui.button("Back", on_click=stepper.previous).props("flat")
            with ui.column().classes("w-full gap-2"):
                ui.label("The file").classes("text-subtitle2")
                self._text = ui.label().classes(
                    "w-full max-h-[30rem] overflow-auto whitespace-pre font-mono text-sm border rounded p-2"
                )
                self._text.props('tabindex=0 role="region" aria-label="The characterisation in TOML" data-testid=editor-text')
                with ui.row():
                    self._load = ui.button("Download", icon="download", on_click=self._download).props(
                        "data-testid=editor-download"
                    )
                    self._copy = ui.button("Copy", icon="content_copy", on_click=lambda: ui.clipboard.write(self._draft.toml()))
                    self._copy.props("outline")
        self._changed()

    def _part(self, fill: Callable[[], None]) -> None:
        self._parts.append((ui.column().classes("w-full gap-2"), fill))
        self._fill_again(fill)

    # --- changes ------------------------------------------------------------------------------------------------------

    def _take(self, draft: Draft) -> None:
        self._draft = draft
        self._again()

    async def _bring(self, event: events.UploadEventArguments) -> None:
        try:
            draft = Draft.of((await event.file.read()).decode(errors="replace"))
            if draft.scopes > SCOPES_MAX:
                raise InvalidInput(f"it has more than {SCOPES_MAX} scopes, which is for an editor of text")
        except InvalidInput as error:
            ui.notify(str(error), type="negative", multi_line=True, close_button="Close")
            return
        self._take(draft)

    def _again(self) -> None:
        """Something was added or removed: all steps are shown anew."""
        for _, fill in self._parts:
            self._fill_again(fill)
        self._changed()

    def _fill_again(self, fill: Callable[[], None]) -> None:
        self._filling = fill
        for part, own in self._parts:
            if own == fill:
                part.clear()
                with part:
                    own()

    def _changed(self) -> None:
        problem = self._draft.problem()
        self._problem.text = problem or f"This can be used: {self._draft.scopes} scopes."
        self._problem.classes(
            add="text-negative" if problem else "text-positive", remove="text-positive" if problem else "text-negative"
        )
        self._text.text = self._draft.toml()
        for button in (self._load, self._copy):
            button.set_enabled(not problem)

    def _download(self) -> None:
        ui.download.content(self._draft.toml(), "scopes.toml")

    def _add(self, to: list[Any], new: Any) -> None:
        to.append(new)
        self._again()

    def _remove(self, from_: list[Any], old: Any) -> None:
        from_[:] = [one for one in from_ if one is not old]
        self._again()

    # --- the steps ----------------------------------------------------------------------------------------------------

    def _viewpoints(self) -> None:
        self._field("What it is about", self._draft, "title", "editor-title")
        for i, viewpoint in enumerate(self._draft.viewpoints):
            with ui.row().classes("w-full items-center no-wrap"):
                self._field("Viewpoint", viewpoint, "name", f"viewpoint-{i}", "geography")
                self._bin(self._draft.viewpoints, viewpoint, f"viewpoint {viewpoint.name}")
        self._more("Add a viewpoint", self._draft.viewpoints, DraftViewpoint, "add-viewpoint")

    def _dimensions(self) -> None:
        for i, viewpoint in enumerate(self._draft.viewpoints):
            ui.label(viewpoint.name or "a viewpoint without a name").classes("text-subtitle2")
            for j, dimension in enumerate(viewpoint.dimensions):
                with ui.row().classes("w-full items-center no-wrap"):
                    self._field("Dimension", dimension, "name", f"dimension-{i}-{j}", "area")
                    self._bin(viewpoint.dimensions, dimension, f"dimension {dimension.name}")
            self._more("Add a dimension", viewpoint.dimensions, DraftDimension, f"add-dimension-{i}")
        if not self._draft.viewpoints:
            empty("Add a viewpoint first.")

    def _scales(self) -> None:
        for dimension in self._all():
            chips = ui.input_chips(f"Scales of {dimension.name or 'a dimension without a name'}, the largest first")
            chips.value = list(dimension.scales)
            chips.classes("w-full").props("dense new-value-mode=add-unique")
            chips.on_value_change(partial(self._rescale, dimension))
        if not self._all():
            empty("Add a dimension first.")

    def _rescale(self, dimension: DraftDimension, event: events.ValueChangeEventArguments[Any]) -> None:
        dimension.scales = [str(name).strip() for name in event.value or () if str(name).strip()]
        self._fill_again(self._scopes)
        self._changed()

    def _scopes(self) -> None:
        for i, dimension in enumerate(self._all()):
            ui.label(dimension.name or "a dimension without a name").classes("text-subtitle2")
            for j, scope in enumerate(dimension.scopes):
                self._scope(dimension, scope, f"{i}-{j}")
            if self._draft.scopes < SCOPES_MAX:
                new = partial(DraftScope, scale=dimension.scales[0] if dimension.scales else "")
                self._more("Add a scope", dimension.scopes, new, f"add-scope-{i}")
        if not self._all():
            empty("Add a dimension first.")

    def _scope(self, dimension: DraftDimension, scope: DraftScope, key: str) -> None:
        with ui.row().classes("w-full items-center gap-2 sm:no-wrap"):
            self._field("Scope", scope, "name", f"scope-{key}", "harbour")
            scale = ui.select(dimension.scales, label="Scale", value=scope.scale if scope.scale in dimension.scales else None)
            scale.classes("w-28").props("dense")
            scale.on_value_change(partial(self._resize, scope))
            parents = ui.select(
                sorted({*possible_parents(dimension, scope), *(parent.name for parent in scope.parents)}),
                label="Within",
                value=[parent.name for parent in scope.parents],
                multiple=True,
            )
            parents.classes("w-32").props("dense use-chips")
            parents.on_value_change(partial(self._put_within, scope))
            self._bin(dimension.scopes, scope, f"scope {scope.name}")
        for parent in scope.parents:
            with ui.row().classes("w-full items-center no-wrap pl-6"):
                ui.label(f"border to {parent.name}:").classes("text-sm")
                self._field("may leave if", parent, "out", "", "everything")
                self._field("may come in if", parent, "into", "", "everything")

    def _resize(self, scope: DraftScope, event: events.ValueChangeEventArguments[Any]) -> None:
        scope.scale = event.value or ""
        self._fill_again(self._scopes)
        self._changed()

    def _put_within(self, scope: DraftScope, event: events.ValueChangeEventArguments[Any]) -> None:
        old = {parent.name: parent for parent in scope.parents}
        scope.parents = [old.get(name) or DraftParent(name) for name in event.value or ()]
        self._fill_again(self._scopes)
        self._changed()

    # --- pieces -------------------------------------------------------------------------------------------------------

    def _all(self) -> list[DraftDimension]:
        return [dimension for viewpoint in self._draft.viewpoints for dimension in viewpoint.dimensions]

    def _field(self, label: str, of: Any, name: str, key: str, hint: str = "") -> None:
        field = ui.input(label, value=getattr(of, name), placeholder=hint).classes("grow min-w-24")
        field.props("dense" + (f" data-testid={key}" if key else ""))

        here = self._filling

        def keep(event: events.ValueChangeEventArguments[Any]) -> None:
            setattr(of, name, str(event.value or ""))
            for _, fill in self._parts:
                if fill != here:  # who types stays where they are; the other steps name what was typed
                    self._fill_again(fill)
            self._changed()

        field.on_value_change(keep)

    def _bin(self, from_: list[Any], old: Any, what: str) -> None:
        ui.button(icon="delete", on_click=partial(self._remove, from_, old)).props("flat round dense").props["aria-label"] = (
            f"Remove the {what}"
        )

    def _more(self, label: str, to: list[Any], new: Callable[[], Any], key: str) -> None:
        ui.button(label, icon="add", on_click=lambda: self._add(to, new())).props(f"flat no-caps data-testid={key}")
