"""Health: what is near its bound first; then every node in numbers, over time, and its dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nicegui import ui

from hanse.dashboard.charts import lines
from hanse.dashboard.frame import REFRESH_S, empty, heading
from hanse.dashboard.health import CHARTS, fullest, in_words, numbers, row, series, together, worries
from hanse.dashboard.views.health_letters import Letters

if TYPE_CHECKING:
    from hanse.dashboard.app import Shown
    from hanse.dashboard.watching import NodeSeen, Watch

ALL: Final = "all together"
BOUNDS_PAGE: Final = 10
NODES_PAGE: Final = 20
_COLUMNS: Final = (
    ("node", "node", "left"),
    ("state", "state", "left"),
    ("requests", "requests/s", "right"),
    ("changes", "changes/s", "right"),
    ("notified", "notifications/s", "right"),
    ("between", "to other nodes/s", "right"),
    ("times", "answers ms, mean / 95 %", "right"),
    ("memory", "memory MiB", "right"),
    ("waiting", "waiting on links", "right"),
    ("dead", "dead letters", "right"),
)
_BOUNDS: Final = (
    ("node", "node", "left"),
    ("name", "what", "left"),
    ("used", "in use", "right"),
    ("most", "bound", "right"),
    ("then", "when it is full", "left"),
)


async def show(watch: Watch, shown: Shown) -> None:
    del shown
    wanted = str(ui.context.client.request.query_params.get("node", ALL))
    page = _Page(watch, wanted)
    page.refresh()
    ui.timer(REFRESH_S, page.refresh)


class _Page:
    def __init__(self, watch: Watch, wanted: str) -> None:
        self._watch = watch
        heading("What to look at", "What is near its bound, lost, slow or silent; worst first.")
        self._said: list[str] | None = None
        self._worries = (
            ui.column().classes("gap-1").props('role="status" aria-label="What to look at"').props("data-testid=worries")
        )
        heading("Nodes", "Rates of the last seconds; times of the answers of the last ten.")
        self._nodes = _table(_COLUMNS, "node", NODES_PAGE).props("data-testid=nodes")
        heading("Over time", "The last three minutes, while somebody looks.")
        self._choice = ui.select([ALL, *watch.nodes], value=wanted if wanted in watch.nodes else ALL, label="Of which node")
        self._choice.classes("w-64").on_value_change(self.draw)
        with ui.element("div").classes("grid grid-cols-1 md:grid-cols-2 xl:grid-cols-3 gap-4 w-full"):
            self._charts = [(chart, ui.echart(lines(chart.title, chart.unit, {})).classes("w-full h-48")) for chart in CHARTS]
        heading("Bounds", "Everything that could grow has a bound: how much of each is in use, the fullest first.")
        self._bounds = _table(_BOUNDS, "key", BOUNDS_PAGE).props("data-testid=bounds")
        heading("Dead letters", "Notifications that no endpoint took, however often it was tried: look, send again, or drop.")
        self._letters = Letters(watch)

    def refresh(self) -> None:
        seen = self._watch.seen
        found = [numbers(one) for one in seen]
        bounds = fullest(seen)
        self._tell(worries(found, bounds))
        every = [*found, together(found)] if len(found) > 1 else found
        _fill(self._nodes, [row(one) for one in every])
        _fill(self._bounds, [_bound(fill) for fill in bounds])
        known = [ALL, *self._watch.nodes]
        if self._choice.options != known:
            self._choice.set_options(known, value=self._choice.value if self._choice.value in known else ALL)
        self._letters.refresh()
        self.draw()

    def draw(self) -> None:
        chosen = self._chosen()
        for chart, element in self._charts:
            element.options.update(lines(chart.title, chart.unit, series([one.history for one in chosen], chart)))
            element.update()

    def _chosen(self) -> list[NodeSeen]:
        one = self._watch.nodes.get(str(self._choice.value))
        return self._watch.seen if one is None else [one]

    def _tell(self, said: list[str]) -> None:
        if said == self._said:
            return
        self._said = said
        self._worries.clear()
        with self._worries:
            if not said:
                empty("Nothing: every node answers, nothing is lost, and nothing is more than half full.")
            for line in said:
                with ui.row().classes("items-center gap-2 no-wrap"):
                    ui.icon("warning").classes("text-xl").style("color: var(--focus)").props('aria-hidden="true"')
                    ui.label(line).classes("number")


def _bound(fill: Any) -> dict[str, Any]:
    used = f"{fill.used:,.0f} ({fill.share:.1%})"
    what = in_words(fill.name)
    then = "the oldest goes" if fill.is_rolling else "no more is taken"
    key = f"{fill.node} {fill.name}"
    return {"key": key, "node": fill.node, "name": what, "used": used, "most": f"{fill.most:,.0f}", "then": then}


def _table(columns: tuple[tuple[str, str, str], ...], key: str, page: int) -> ui.table:
    made = [{"name": name, "label": label, "field": name, "align": align} for name, label, align in columns]
    table = ui.table(columns=made, rows=[], row_key=key, pagination=page)
    return table.props("dense flat bordered").classes("w-full number")


def _fill(table: ui.table, rows: list[dict[str, Any]]) -> None:
    if table.rows != rows:
        table.rows = rows
