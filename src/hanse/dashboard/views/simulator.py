"""The simulator: choose what is simulated, see who talks with whom, run it, and compare what strategies cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nicegui import background_tasks, run, ui

from hanse.dashboard.frame import REFRESH_S, heading
from hanse.dashboard.map import HarbourMap
from hanse.dashboard.simulating import (
    CLIENTS_MAX,
    DURATION_MAX_S,
    NODES_MAX,
    WITHOUT_SCOPES,
    Kept,
    Run,
    Setup,
    keep,
    kept_in,
    read,
)
from hanse.dashboard.views.simulator_results import Results
from hanse.dashboard.who_talks import WAYS, Picture, picture_or_problem
from hanse.model import InvalidInput
from hanse.routing import STRATEGIES
from hanse.simulation.topologies import TOPOLOGIES

if TYPE_CHECKING:
    from hanse.dashboard.app import Shown
    from hanse.dashboard.watching import Watch

DEFAULT: Final = Setup(strategies=tuple(STRATEGIES), clients=300, duration_s=600)


async def show(watch: Watch, shown: Shown) -> None:
    del watch
    page = _Page(Path(shown.folder))
    ui.context.client.on_delete(page.leave)
    ui.timer(0, page.draw, once=True)


class _Page:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._run: Run | None = None
        self._wanted = self._drawn = 0
        self._is_drawing = False
        heading("What is simulated", "Virtual time, and the brokers that a live node runs. The same seed gives the same run.")
        self._controls()
        self._buttons()
        heading(
            "Who talks with whom",
            "How a strategy divides the brokers, and the ways that one subscription and one notification take.",
        )
        self._globe()
        heading(
            "Which strategy suits this workload?",
            "Of what was measured: the fewest messages among those that keep what you ask for.",
        )
        self._results = Results()

    # --- what one chooses -----------------------------------------------------------------------------------------------

    def _controls(self) -> None:
        with ui.row().classes("items-end gap-4"):
            self._topology = (
                ui.select(list(TOPOLOGIES), value=DEFAULT.topology, label="Topology")
                .classes("w-40")
                .props("data-testid=topology")
            )
            self._nodes = _number("Brokers", DEFAULT.nodes, NODES_MAX)
            self._workload = ui.select(list(WITHOUT_SCOPES), value=DEFAULT.workload, label="Workload").classes("w-40")
            self._clients = _number("Clients", DEFAULT.clients, CLIENTS_MAX)
            self._duration = _number("Simulated seconds", DEFAULT.duration_s, DURATION_MAX_S)
            self._seed = _number("Seed", DEFAULT.seed, 2**31 - 1)
        self._strategies = ui.select(
            list(STRATEGIES), value=list(DEFAULT.strategies), multiple=True, label="Strategies to compare"
        )
        self._strategies.classes("w-full max-w-3xl").props("use-chips").props("data-testid=strategies")
        self._flood = ui.checkbox("Tell every broker where every client is, as the DisGB simulation does").props(
            "data-testid=flood"
        )
        for one in (self._topology, self._nodes, self._workload, self._clients, self._seed, self._flood):
            one.on_value_change(self.draw)

    def _setup(self) -> Setup:
        """What is chosen. Raises InvalidInput."""
        numbers = {}
        for name, field in (
            ("nodes", self._nodes),
            ("clients", self._clients),
            ("duration_s", self._duration),
            ("seed", self._seed),
        ):
            if field.value is None or field.value != int(field.value):
                raise InvalidInput(f"{field.props['label']}: give a whole number")
            numbers[name] = int(field.value)
        return Setup(
            strategies=tuple(name for name in STRATEGIES if name in self._strategies.value),
            topology=str(self._topology.value),
            workload=str(self._workload.value),
            flood_locations=bool(self._flood.value),
            **numbers,
        )

    # --- running it -----------------------------------------------------------------------------------------------------

    def _buttons(self) -> None:
        with ui.row().classes("items-center gap-4"):
            self._go = ui.button("Run", icon="play_arrow", on_click=self._start).props("data-testid=run")
            self._stop = ui.button("Stop", icon="stop", on_click=self._end).props("color=negative").props("data-testid=stop")
            self._stop.visible = False
            self._earlier = (
                ui.select(kept_in(self._folder), label="Earlier results", on_change=self._load)
                .classes("w-80")
                .props("data-testid=earlier")
            )
            self._earlier.visible = bool(self._earlier.options)
        self._said = ui.label().props('role="status"').classes("number").props("data-testid=said")
        self._bars = ui.column().classes("w-full max-w-3xl gap-1")
        self._bar_of: dict[str, Any] = {}
        self._timer = ui.timer(REFRESH_S / 2, self._follow, active=False)

    def _start(self) -> None:
        if self._run is not None and self._run.state == "runs":
            return
        try:
            one = Run(self._setup())
        except InvalidInput as error:
            self._said.text = str(error)
            return
        self._run = one
        self._said.text = f"Runs: {one.setup.words}"
        self._bars.clear()
        with self._bars:
            for name in one.setup.strategies:
                with ui.row().classes("w-full items-center no-wrap gap-2"):
                    ui.label(name).classes("w-40 shrink-0")
                    bar = ui.linear_progress(0.0, show_value=False).props(f'instant-feedback aria-label="{name}"')
                    self._bar_of[name] = bar
        self._go.visible, self._stop.visible = False, True
        self._timer.active = True
        background_tasks.create(self._carry_out(one))

    async def _carry_out(self, one: Run) -> None:
        try:
            await one.go()
        except InvalidInput as error:
            one.problem = str(error)

    def _follow(self) -> None:
        one = self._run
        if one is None:
            return
        for name, part in one.progress.items():
            self._bar_of[name].value = part
        if one.state == "runs" or (one.state == "waits" and not one.problem):
            return
        self._timer.active = False
        self._go.visible, self._stop.visible = True, False
        self._bars.clear()
        self._finish(one)

    def _finish(self, one: Run) -> None:
        said = {"done": f"Done: {one.setup.words}", "stopped": "Stopped"}.get(one.state, "")
        if one.problem:
            said = f"It could not be done: {one.problem}"
        elif one.results and one.state == "done":
            try:
                said += f"; kept in {keep(self._folder, Kept(one.setup, one.results))}"
            except InvalidInput as error:
                said += f"; {error}"
            self._earlier.set_options(kept_in(self._folder))
            self._earlier.visible = True
        self._said.text = said
        if one.results:
            self._results.show(one.setup, one.results)

    def _end(self) -> None:
        if self._run is not None:
            self._run.stop()

    def leave(self) -> None:
        """The visitor has gone, and nobody would see what comes of it."""
        self._end()

    def _load(self) -> None:
        if not self._earlier.value:
            return
        try:
            kept = read(self._folder, str(self._earlier.value))
        except InvalidInput as error:
            self._said.text = str(error)
            return
        self._said.text = f"Kept: {kept.setup.words}"
        self._results.show(kept.setup, kept.results)

    # --- the globe ------------------------------------------------------------------------------------------------------

    def _globe(self) -> None:
        with ui.row().classes("items-end gap-4"):
            self._shown = (
                ui.select(list(STRATEGIES), value="grid-quorum", label="Strategy")
                .classes("w-48")
                .props("data-testid=shown-strategy")
            )
            self._broker = ui.select([""], value="", label="Broker").classes("w-64").props("data-testid=shown-broker")
        for one in (self._shown, self._broker):
            one.on_value_change(self.draw)
        self._says = ui.column().classes("gap-0").props('role="status"').props("data-testid=says")
        with self._says:
            ui.label("It is drawn …")
        with ui.element("div").style("height: min(60vh, 36rem)").classes("w-full"):
            self._map = HarbourMap("Brokers on the globe, and who talks with whom", self._picked).style("width:100%;height:100%")
        self._legend = ui.row().classes("items-center gap-4 text-sm")
        columns = [{"name": name, "label": name, "field": name, "align": "left"} for name in ("topic", "broker")]
        self._topics = ui.table(columns=columns, rows=[], row_key="topic", pagination=10, title="Where topics are matched")
        self._topics.props("dense flat bordered").props("data-testid=topics")
        self._topics.visible = False

    def _picked(self, kind: str, id_: str) -> None:
        if kind == "nodes" and id_ in self._broker.options:
            self._broker.value = id_

    async def draw(self) -> None:
        """The newest choice; what was chosen while another is drawn is drawn after it."""
        self._wanted += 1
        if self._is_drawing:
            return
        self._is_drawing = True
        try:
            while self._drawn != self._wanted:
                self._drawn = self._wanted
                await self._draw()
        finally:
            self._is_drawing = False

    async def _draw(self) -> None:
        try:
            setup = self._setup()
            found = await run.cpu_bound(picture_or_problem, setup, str(self._shown.value), str(self._broker.value or ""))
        except InvalidInput as error:
            found = str(error)
        if found is None:  # the dashboard ends
            return
        self._says.clear()
        with self._says:
            for line in [found] if isinstance(found, str) else found.says:
                ui.label(line)
        if isinstance(found, Picture):
            self._put(found)

    def _put(self, found: Picture) -> None:
        nodes = [node["id"] for node in found.things["nodes"]]
        if self._broker.options != nodes:
            self._broker.set_options(nodes, value=found.broker)
            self._drawn = self._wanted  # it has been drawn with that one
            self._map.fit()
        elif self._broker.value != found.broker:
            self._broker.value = found.broker
        self._map.show(found.things)
        self._legend.clear()
        with self._legend:
            for color, text in found.legend:
                with ui.row().classes("items-center gap-1 no-wrap"):
                    shape = "height:.2rem" if color in WAYS else "height:.9rem;border-radius:50%"
                    ui.element("span").style(f"background:{color};width:.9rem;{shape};display:inline-block")
                    ui.label(text)
        self._topics.rows = [{"topic": topic, "broker": broker} for topic, broker in found.topics]
        self._topics.visible = bool(found.topics)


def _number(label: str, value: int, most: int) -> ui.number:
    return ui.number(label, value=value, min=1, max=most, precision=0).classes("w-36")
