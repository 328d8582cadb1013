"""The federation: who is linked to whom under which rules, and how to change that."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from nicegui import events, ui

from hanse.dashboard import federation_graph
from hanse.dashboard.frame import REFRESH_S, empty, heading
from hanse.dashboard.rules import sentences, short
from hanse.dashboard.steering import add_link, topology_of
from hanse.dashboard.topology import Topology, TopologyLink
from hanse.dashboard.views.federation_dialogs import ask_for_link, ask_for_node, ask_for_removal, ask_for_rules, done
from hanse.dashboard.views.federation_files import show_files
from hanse.model import InvalidInput

if TYPE_CHECKING:
    from hanse.dashboard.app import Shown
    from hanse.dashboard.watching import Watch

ROWS_PER_PAGE: Final = 10
OFFERS_SHOWN: Final = 20
_NODE_COLUMNS: Final = (
    ("id", "Node"),
    ("community", "Community"),
    ("answers", "Answers"),
    ("entities", "Entities"),
    ("subscriptions", "Subscriptions"),
    ("links", "Links"),
)
_LINK_COLUMNS: Final = (
    ("a", "Between"),
    ("b", "And"),
    ("there", "May go there"),
    ("back", "May come back"),
    ("state", "State"),
    ("waiting", "Waiting"),
)


async def show(watch: Watch, shown: Shown) -> None:
    del shown
    page = _Page(watch, ui.context.client.request.query_params.get("node", ""))
    page.build()
    page.refresh()
    ui.timer(REFRESH_S, page.refresh)


class _Page:
    """`chosen` is a node's id, or a|b for a link."""

    def __init__(self, watch: Watch, chosen: str) -> None:
        self._watch = watch
        self._chosen = chosen
        self._topology = Topology()
        self._shown: Any = None
        self._told: Any = None

    # --- built once ---------------------------------------------------------------------------------------------------

    def build(self) -> None:
        heading(
            "Who is linked to whom",
            "A circle is a node, the larger the more it keeps; yellow links have export rules. Click one.",
        )
        with ui.row().classes("gap-2"):
            ui.button("Add a link", icon="add_link", on_click=lambda: ask_for_link(self._watch, self._topology)).props(
                "data-testid=add-link"
            )
            ui.button("Add a node", icon="add_circle", on_click=lambda: ask_for_node(self._watch, self._topology)).props(
                "outline data-testid=add-node"
            )
        with ui.element("div").classes("w-full grid gap-4 grid-cols-1 lg:grid-cols-[1fr_24rem]"):
            self._chart = (
                ui.echart({"series": []}, on_point_click=self._picked)
                .classes("w-full h-[27rem]")
                .props(
                    'role="img" aria-label="Graph of the federation; the tables below have the same" data-testid=federation-graph'
                )
            )
            with ui.card().classes("w-full max-h-[27rem] overflow-auto gap-2"):
                self._choice = ui.select({}, label="Node or link", on_change=lambda event: self._choose(event.value or ""))
                self._choice.classes("w-full").props("dense data-testid=choice")
                self._details = ui.column().classes("w-full gap-1").props('aria-live="polite" data-testid=federation-details')
        heading("Nodes", "What each keeps. The last column counts its links.")
        self._nodes = self._table(_NODE_COLUMNS, "id", self._node_picked)
        heading("Links", "What may cross each, and how much waits to be sent. A link is there when both ends want it.")
        self._links = self._table(_LINK_COLUMNS, "key", self._link_picked)
        show_files(self._watch, lambda: self._topology)

    def _table(self, columns: tuple[tuple[str, str], ...], key: str, picked: Any) -> ui.table:
        table = ui.table(
            columns=[{"name": name, "label": label, "field": name, "align": "left", "sortable": True} for name, label in columns],
            rows=[],
            row_key=key,
            pagination=ROWS_PER_PAGE,
        ).classes("w-full")
        table.props('wrap-cells dense flat bordered :grid="Quasar.Screen.lt.sm"')
        table.on("rowClick", lambda event: picked(event.args[1]))
        return table

    # --- choosing -----------------------------------------------------------------------------------------------------

    def _picked(self, event: events.EChartPointClickEventArguments) -> None:
        data: dict[str, Any] = event.data if isinstance(event.data, dict) else {}
        self._choose(f"{data['source']}|{data['target']}" if "source" in data else str(data.get("name", "")))

    def _node_picked(self, row: dict[str, Any]) -> None:
        self._choose(str(row["id"]))

    def _link_picked(self, row: dict[str, Any]) -> None:
        self._choose(str(row["key"]))

    def _choose(self, chosen: str) -> None:
        if chosen != self._chosen:
            self._chosen = chosen
            self.refresh()

    # --- again and again ----------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        try:
            self._topology = topology_of(self._watch)
        except InvalidInput:
            return  # nodes that do not agree on who there is; they will
        members, nodes = self._watch.members(), self._watch.nodes
        entities = {id_: int(seen.overview.get("entities", 0)) for id_, seen in nodes.items()}
        away = frozenset(id_ for id_, member in members.items() if not member.get("reachable"))
        drawn = federation_graph.options(self._topology, entities, away, self._chosen)
        if drawn != self._shown:
            self._shown = drawn
            self._chart.options.clear()
            self._chart.options.update(drawn)
            self._chart.update()
        self._fill(self._nodes, [self._node_row(id_, member) for id_, member in sorted(members.items())])
        self._fill(self._links, [self._link_row(link) for link in self._topology.links])
        self._offer_choice()
        self._tell()

    def _offer_choice(self) -> None:
        """Whatever can be clicked in the picture can be chosen by keyboard."""
        names = {"|".join(link.between): " – ".join(link.between) for link in self._topology.links}
        choice = {id_: id_ for id_ in sorted(self._topology.by_id)} | names
        if self._chosen not in choice:
            a, _, b = self._chosen.partition("|")
            self._chosen = f"{b}|{a}" if f"{b}|{a}" in choice else ""
        if self._choice.options != choice or (self._choice.value or "") != self._chosen:
            self._choice.set_options(choice, value=self._chosen or None)

    def _fill(self, table: ui.table, rows: list[dict[str, Any]]) -> None:
        if table.rows != rows:
            table.rows = rows

    def _node_row(self, id_: str, member: dict[str, Any]) -> dict[str, Any]:
        seen = self._watch.nodes.get(id_)
        counts = {} if seen is None else seen.overview
        return {
            "id": id_,
            "community": str(member.get("community") or ""),
            "answers": "yes" if member.get("reachable") else "no",
            "entities": counts.get("entities", ""),
            "subscriptions": counts.get("subscriptions", ""),
            "links": len(self._topology.links_of(id_)),
        }

    def _link_row(self, link: TopologyLink) -> dict[str, Any]:
        a, b = link.between
        counts = [counted for end in link.between if (counted := self._counts(end, link.other(end)))]
        return {
            "key": f"{a}|{b}",
            "a": a,
            "b": b,
            "there": short(link.export),
            "back": short(link.back),
            "state": "agreed" if link.export is not None and link.back is not None else "waits for the other end",
            "waiting": sum(int(counted.get("waiting", 0)) for counted in counts),
        }

    def _counts(self, here: str, other: str) -> dict[str, Any]:
        seen = self._watch.nodes.get(here)
        links = () if seen is None else seen.overview.get("links", ())
        return next((link["counts"] for link in links if set(link["between"]) == {here, other} and "counts" in link), {})

    # --- details ------------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        a, _, b = self._chosen.partition("|")
        link = self._topology.link(a, b) if b else None
        told: Any
        if link is not None:
            told = ("link", link, self._counts(a, b), self._counts(b, a))
        elif self._chosen in self._topology.by_id:
            seen = self._watch.nodes.get(self._chosen)
            counts = {} if seen is None else {name: seen.overview.get(name) for name in ("entities", "subscriptions", "refused")}
            told = (
                "node",
                self._chosen,
                self._watch.members().get(self._chosen, {}) | {"lastHeard": None},
                counts,
                self._topology,
            )
        else:
            told = ("nothing",)
        if told == self._told:
            return
        self._told = told
        self._details.clear()
        with self._details:
            if link is not None:
                self._tell_link(link)
            elif told[0] == "node":
                self._tell_node(self._chosen, told[2], told[3])
            else:
                empty("Choose a node or a link in the picture or in the tables, and what it does is told here.")

    def _tell_node(self, id_: str, member: dict[str, Any], counts: dict[str, Any]) -> None:
        ui.label(id_).classes("text-h6").props('role="heading" aria-level="3"')
        ui.label(f"of {member.get('community') or 'no community'}; {'answers' if member.get('reachable') else 'does not answer'}")
        if member.get("http"):
            ui.label(str(member["http"])).classes("text-sm opacity-80")
        if counts:
            ui.label(f"keeps {counts['entities']:,} entities, {counts['subscriptions']:,} subscriptions").classes("number")
        offers = [_offer(offer) for offer in member.get("offers", ())]
        _listed("Offers", offers, "nothing yet: what is published there is offered")
        _listed("Data models", [str(model) for model in member.get("models", ())], "none")
        for refused in (counts.get("refused") or ())[:OFFERS_SHOWN]:
            ui.label(f"does not believe {refused['node']}: {refused['reason']}").classes("text-negative")
        ui.separator()
        with ui.list().props("dense").classes("w-full"):
            for link in self._topology.links_of(id_):
                with ui.item(on_click=partial(self._choose, "|".join(link.between))).classes("rounded"):
                    ui.item_section(f"to {link.other(id_)}: {short(link.rule(id_))}")
        ui.link("Its entities", f"/data?node={quote(id_)}")

    def _tell_link(self, link: TopologyLink) -> None:
        a, b = link.between
        ui.label(f"{a} – {b}").classes("text-h6").props('role="heading" aria-level="3"')
        for here in link.between:
            other, counts = link.other(here), self._counts(here, link.other(here))
            ui.label(f"From {here} to {other}").classes("text-subtitle2")
            for sentence in sentences(link.rule(here)):
                ui.label(sentence)
            if counts:
                said = ", ".join(f"{counts[name]:,} {name}" for name in ("sent", "received", "waiting", "lost") if name in counts)
                ui.label(said).classes("text-sm number opacity-80")
        with ui.row():
            if link.export is None or link.back is None:
                ui.button("Let both want it", icon="handshake", on_click=partial(self._complete, link)).props(
                    "data-testid=complete"
                )
            else:
                ask = partial(ask_for_rules, self._watch, self._topology, link)
                ui.button("Export rules", icon="rule", on_click=ask).props("data-testid=change-rules")
            remove = partial(ask_for_removal, self._watch, self._topology, link)
            ui.button("Remove", icon="link_off", on_click=remove).props("outline color=negative data-testid=remove-link")

    async def _complete(self, link: TopologyLink) -> None:
        """An end that does not want the link yet lets everything cross; its rules can be changed then."""
        whole = TopologyLink(link.between, link.export or {}, link.back or {})
        with self._chart:  # which stays, while the details are shown anew
            await done(partial(add_link, self._watch, whole), f"{link.between[0]} and {link.between[1]} are linked")
        self.refresh()


def _offer(offer: dict[str, Any]) -> str:
    named = str(offer.get("type") or offer.get("topic") or "") + (f" {offer['entity']}" if offer.get("entity") else "")
    return f"{named} ({'; '.join(offer['guarantees'])})" if offer.get("guarantees") else named


def _listed(title: str, names: list[str], otherwise: str) -> None:
    more = f" and {len(names) - OFFERS_SHOWN} more" if len(names) > OFFERS_SHOWN else ""
    ui.label(f"{title}: {', '.join(names[:OFFERS_SHOWN]) or otherwise}{more}").classes("text-sm")
