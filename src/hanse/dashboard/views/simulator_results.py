"""What strategies cost, side by side, and which one suits: charts, a table, and words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nicegui import ui

from hanse.dashboard.advice import Wishes, advise
from hanse.dashboard.charts import bars
from hanse.dashboard.frame import empty, heading
from hanse.simulation.run import KINDS, Result, by_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hanse.dashboard.simulating import Setup

_COLUMNS: Final = (
    ("strategy", "strategy", "left"),
    ("messages", "messages between brokers", "right"),
    *((kind, kind, "right") for kind in KINDS),
    ("deliveries", "deliveries", "right"),
    ("latency", "latency ms, mean", "right"),
    ("p95", "95 % ms", "right"),
    ("table", "table size", "right"),
    ("brokers", "brokers a publication", "right"),
)


class Results:
    """Built where it is made; empty until `show` gives it something."""

    def __init__(self) -> None:
        self._results: list[Result] = []
        with ui.row().classes("items-end gap-4"):
            self._latency = _wish("95 of 100 within ms").props("data-testid=wish-latency")
            self._table = _wish("Subscriptions a broker")
            self._brokers = _wish("Brokers a notification")
        for one in (self._latency, self._table, self._brokers):
            one.on_value_change(self._advise)
        self._advice = ui.column().classes("w-full gap-2").props('role="status"').props("data-testid=advice")
        self._about = ui.column().classes("w-full gap-4")
        self._advise()

    def show(self, setup: Setup, results: Sequence[Result]) -> None:
        self._results = sorted(results, key=lambda result: result.between_brokers)
        self._advise()
        self._about.clear()
        with self._about:
            heading("What each strategy costs", f"{setup.words}, seed {setup.seed}; for the same deliveries.")
            with ui.element("div").classes("grid grid-cols-1 lg:grid-cols-2 gap-4 w-full").props("data-testid=charts"):
                for options in charts(self._results):
                    ui.echart(options).classes("w-full h-72")
            columns = [{"name": name, "label": label, "field": name, "align": align} for name, label, align in _COLUMNS]
            table = ui.table(columns=columns, rows=[row(result) for result in self._results], row_key="strategy")
            table.props("dense flat bordered hide-bottom").classes("w-full number").props("data-testid=costs")

    def _advise(self) -> None:
        self._advice.clear()
        wishes = Wishes(latency_p95_ms=self._latency.value, table_size=self._table.value, brokers_each=self._brokers.value)
        with self._advice:
            if not self._results:
                empty("Run the simulation, or open earlier results, and it is said here.")
                return
            advice = advise(self._results, wishes)
            ui.label(advice.headline).classes("text-subtitle1 font-bold")
            with ui.element("ul").classes("list-disc pl-6"):
                for reason in advice.reasons:
                    with ui.element("li"):
                        ui.label(reason)
            if advice.others:
                ui.label("The others").classes("text-subtitle2")
                with ui.element("ul").classes("list-disc pl-6"):
                    for other in advice.others:
                        with ui.element("li"):
                            ui.label(f"{other.strategy}: {other.says}")


def charts(results: Sequence[Result]) -> list[dict[str, Any]]:
    """A bar for each strategy, in the order that is given."""
    names = [result.strategy for result in results]
    kinds = [by_kind(result.messages) for result in results]
    latencies = [result.latency_ms for result in results]
    return [
        bars("Messages between brokers", names, {kind: [one[kind] for one in kinds] for kind in KINDS}, is_stacked=True),
        bars("Latency, ms", names, {"mean": [one.mean for one in latencies], "95 of 100": [one.p95 for one in latencies]}),
        bars(
            "Subscriptions that a broker holds",
            names,
            {"mean": [result.table_size.mean for result in results], "most": [result.table_size.max for result in results]},
        ),
        bars(
            "Brokers that handle a publication",
            names,
            {
                "mean": [result.brokers_per_publication.mean for result in results],
                "95 of 100": [result.brokers_per_publication.p95 for result in results],
            },
        ),
    ]


def row(result: Result) -> dict[str, str]:
    def shown(value: float | None, form: str = ",.1f") -> str:
        return "–" if value is None else format(value, form)

    return {
        "strategy": result.strategy,
        "messages": f"{result.between_brokers:,}",
        **{kind: f"{count:,}" for kind, count in by_kind(result.messages).items()},
        "deliveries": f"{result.deliveries:,}",
        "latency": shown(result.latency_ms.mean),
        "p95": shown(result.latency_ms.p95, ",.0f"),
        "table": shown(result.table_size.mean),
        "brokers": shown(result.brokers_per_publication.mean, ",.2f"),
    }


def _wish(label: str) -> ui.number:
    return ui.number(label, min=0).props('clearable hint="empty: no limit"').classes("w-48")
