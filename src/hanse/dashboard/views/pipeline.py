"""Pipelines as they run: capsules as a graph with rates, lag and quality, what went wrong, and the tables of the lake."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final

from nicegui import run, ui

from hanse.client import NgsiLdClientError
from hanse.dashboard.frame import REFRESH_S, empty, heading
from hanse.dashboard.pipelines import Told, delivered, graph, look, options, promises, size_px, streams, troubles
from hanse.dashboard.views.pipeline_lake import Lake

if TYPE_CHECKING:
    from hanse.dashboard.app import Shown
    from hanse.dashboard.watching import Watch

LOOK_S: Final = 2 * REFRESH_S
ASK_EVERY: Final = 5  # looks at a pipeline, a node is asked for what its capsules have delivered
ENTITIES_MAX: Final = 50  # of a capsule, whose quality is looked at
_STREAMS: Final = (
    ("name", "stream", "left"),
    ("status", "status", "left"),
    ("rate", "rows/s", "right"),
    ("could", "could be rows/s", "right"),
    ("lag", "records behind", "right"),
    ("rows", "rows", "right"),
    ("made", "made", "right"),
    ("aside", "set aside", "left"),
    ("batch", "batch s", "right"),
    ("watermark", "watermark", "left"),
    ("restarts", "restarts", "right"),
)
_PROMISES: Final = (
    ("name", "capsule", "left"),
    ("category", "kind", "left"),
    ("reads", "reads", "left"),
    ("asks", "quality in", "left"),
    ("makes", "makes", "left"),
    ("promises", "quality promised", "left"),
    ("delivered", "quality delivered", "left"),
)


async def show(watch: Watch, shown: Shown) -> None:
    if not shown.pipelines and not shown.lake:
        _how_to_start()
        return
    parts = [_Part(watch, what) for what in shown.pipelines]
    lake = Lake(shown.lake)

    looks = count()

    async def refresh() -> None:
        is_asked = next(looks) % ASK_EVERY == 0
        for part in parts:
            await part.look()
            if is_asked:
                await part.ask()
        lake.add(told.plan.lake.folder for part in parts if (told := part.told) and told.plan and told.plan.lake)

    ui.timer(LOOK_S, refresh)


def _how_to_start() -> None:
    heading(
        "No pipeline yet", "A pipeline reads what nodes log, makes new context of it, publishes that, and keeps all in a lake."
    )
    empty("This page shows the pipelines and the lake that the dashboard was started with:")
    for line in (
        "hanse pipeline run air.toml --master 'local[2]'",
        "hanse dashboard http://127.0.0.1:9090 --pipeline air.toml --lake lake",
    ):
        ui.label(line).classes("font-mono text-sm break-all")
    ui.label("What goes into air.toml: docs/pipeline-cookbook.md has five capsules to begin with.").classes("text-sm opacity-80")


class _Part:
    """One pipeline."""

    def __init__(self, watch: Watch, what: str) -> None:
        self._watch = watch
        self._what = what
        self.told: Told | None = None
        self._delivered: dict[str, str] = {}
        self._trouble: list[str] | None = None
        self._title = ui.label(what).classes("text-h6").props('role="heading" aria-level="2"').props("data-testid=pipeline")
        self._status = ui.label("It is looked at …").classes("text-sm opacity-80 -mt-3 number").props('role="status"')
        self._wrong = ui.column().classes("gap-1").props('role="alert"').props("data-testid=troubles")
        with ui.element("div").classes("w-full overflow-x-auto").props('tabindex="0" aria-label="Capsules as a graph"'):
            self._chart = ui.echart({"series": []}).props("data-testid=graph")
        self._promises = _table(_PROMISES, "How good what comes in must be, and what goes out is").props("data-testid=promises")
        self._streams = _table(_STREAMS, "Streams").props("data-testid=streams")

    async def look(self) -> None:
        told = await run.io_bound(look, self._what)
        if told is None:  # the dashboard ends
            return
        self.told = told
        state = told.state
        self._title.text = told.name
        self._status.text = (
            f"{state.status} since {state.started} at {state.master}, process {state.pid}; last word {state.updated}"
            if state is not None
            else "It has not run yet"
        )
        self._tell(troubles(told))
        found = graph(told)
        width, height = size_px(found)
        self._chart.style(f"min-width: {width}px; height: {height}px; width: 100%")
        self._chart.set_visibility(bool(found.arrows))  # before it has run there is nothing but its source
        if (new := options(found)) != self._chart.options:
            self._chart.options.clear()
            self._chart.options.update(new)
            self._chart.update()
        _fill(self._promises, [row | {"delivered": self._delivered.get(row["makes"], "–")} for row in promises(told)])
        _fill(self._streams, streams(told))

    async def ask(self) -> None:
        """How good what the capsules make really is, by what a node has of it."""
        plan = self.told.plan if self.told is not None else None
        if plan is None or plan.sink is None:
            return
        for type_ in {one.output for one in plan.capsules}:
            self._delivered[type_] = await self._quality(str(plan.sink.get("node", "")), type_)

    async def _quality(self, url: str, type_: str) -> str:
        asked = next((seen for seen in self._watch.nodes.values() if seen.url == url.rstrip("/")), None)
        node = asked or next((seen for seen in self._watch.nodes.values() if seen.is_there), None)
        if node is None:
            return "no node answers"
        params = {"type": type_, "limit": str(ENTITIES_MAX), "orderBy": "modifiedAt;desc"}
        try:
            entities = (await self._watch.client(node.id).request("GET", "/ngsi-ld/v1/entities", params=params)).data
        except (NgsiLdClientError, OSError) as error:
            return f"{node.id}: {error}"
        if not entities:
            return f"{node.id} has none of it"
        return delivered(entities) or "it states none"

    def _tell(self, said: list[str]) -> None:
        if said == self._trouble:
            return
        self._trouble = said
        self._wrong.clear()
        with self._wrong:
            for line in said:
                with ui.row().classes("items-center gap-2 no-wrap"):
                    ui.icon("warning").classes("text-xl").style("color: var(--focus)").props('aria-hidden="true"')
                    ui.label(line).style("overflow-wrap: anywhere")


def _table(columns: tuple[tuple[str, str, str], ...], title: str) -> ui.table:
    made = [{"name": name, "label": label, "field": name, "align": align} for name, label, align in columns]
    table = ui.table(columns=made, rows=[], row_key="name", title=title, pagination=20)
    table.visible = False
    return table.props("dense flat bordered wrap-cells").classes("w-full number")


def _fill(table: ui.table, rows: list[dict[str, Any]]) -> None:
    table.visible = bool(rows)
    if table.rows != rows:
        table.rows = rows
