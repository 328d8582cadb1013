"""Why?: a notification and a subscriber; the way it took, or the check that stopped it, in words and on the map."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from nicegui import events, ui

from hanse.client import NgsiLdClientError
from hanse.client.federation_words import notification_words, step_words
from hanse.client.ways import API, Way, explained, way_of
from hanse.dashboard.frame import empty, heading
from hanse.dashboard.map import HarbourMap, color_of
from hanse.dashboard.whys import Heard, Key, Subscriber, drawn, got_it, merged, newest, of_native, of_ngsi_ld, verdict

if TYPE_CHECKING:
    from hanse.client import NodeClient
    from hanse.dashboard.app import Shown
    from hanse.dashboard.watching import Watch

AGAIN_S: Final = 2.0
ASKED: Final = 200  # traces of one node at once
ROWS: Final = 12  # notifications on one page
CLIENTS_MAX: Final = 50  # of one node
SUBSCRIPTIONS_MAX: Final = 200  # of one node, of each kind
LEGEND: Final = "Green: toward the subscriber, as far as rules let it. Thin blue: sent from node to node. ✕: where it ended."
NOBODY: Final = {"": "nobody in particular: only the way"}
_SIGNS: Final = {True: ("check", "positive", "passes"), False: ("close", "negative", "stops it")}
_COLUMNS: Final = [
    {"name": "time", "label": "Time (UTC)", "field": "time", "align": "left"},
    {"name": "type", "label": "Type", "field": "type", "align": "left"},
    {"name": "about", "label": "About", "field": "about", "align": "left"},
    {"name": "outcome", "label": "What became of it", "field": "outcome", "align": "left"},
]
_PICK: Final = """
<q-td :props="props"><a :href="props.row.address" class="text-primary" @click.stop>{{ props.row.about }}</a></q-td>
"""


async def show(watch: Watch, shown: Shown) -> None:
    del shown
    heading("Why did it come, or not?", "Pick a notification, then a subscriber: the way it took, or the check that stopped it.")
    if not any(seen.overview.get("federation") for seen in watch.seen):
        empty("These nodes are alone. In a federation (`hanse federation up FILE`) every notification leaves a trace to follow.")
        return
    page = _Page(watch, *(ui.context.client.request.query_params.get(name, "") for name in ("publisher", "id", "subscriber")))
    ui.timer(0, page.begin, once=True)
    ui.timer(AGAIN_S, page.refresh)


class _Page:
    def __init__(self, watch: Watch, publisher: str, id_: str, subscriber: str) -> None:
        self._watch = watch
        self._key: Key = (publisher, id_)
        self._wanted = subscriber
        self._known: dict[Key, Heard] = {}
        self._after: dict[str, int] = {}
        self._subscribers: dict[str, Subscriber] = {}
        self._way: Way | None = None
        self._first_row = 0
        self._list = ui.expansion("1. The notification", caption="none is picked", value=not id_).classes("w-full")
        with self._list.props("header-class=text-subtitle1"):
            self._choose()
        ui.label("2. The subscriber").classes("text-subtitle1").props('role="heading" aria-level="2"')
        self._who = ui.select(dict(NOBODY), value="", label="Subscription", with_input=True)
        self._who.classes("w-full max-w-3xl").props("data-testid=subscriber").on_value_change(self._picked_subscriber)
        heading("3. The answer")
        self._verdict = ui.label("Pick a notification first.").classes("text-subtitle1").props('role="status"')
        self._verdict.props("data-testid=verdict")
        with ui.row().classes("w-full gap-4 items-start"):
            with ui.column().classes("w-full md:flex-1 min-w-0 gap-1"):
                self._checks = ui.list().classes("w-full").props('dense aria-label="Checks" data-testid=checks')
                self._steps = ui.column().classes("w-full gap-1 text-sm").props("data-testid=steps")
            with ui.column().classes("w-full md:flex-1 min-w-0 gap-1"):
                with ui.element("div").style("height: 26rem").classes("w-full"):
                    self._map = HarbourMap("Map with the way of the notification").style("width:100%;height:100%")
                ui.label(LEGEND).classes("text-sm opacity-80")
        self._draw(None)

    def _choose(self) -> None:
        with ui.row().classes("items-center gap-4 w-full"):
            self._type = ui.select({"": "all types"}, value="", label="Type", on_change=self._show_rows).classes("w-48")
            self._about = ui.input("About", placeholder="Vehicle:3", on_change=self._show_rows).classes("w-48").props("clearable")
            self._follow = ui.switch("Follow the newest", value=True)
        self._table = ui.table(columns=_COLUMNS, rows=[], row_key="key").classes("w-full").props("flat dense hide-pagination")
        self._table.props(':pagination="{rowsPerPage: 0}" no-data-label="Nothing has been published yet. Change an entity."')
        self._table.props("data-testid=news").on("rowClick", self._picked_row, js_handler="(e, row) => emit(row)")
        self._table.add_slot("body-cell-about", _PICK)
        with ui.row().classes("items-center gap-2"):
            back = ui.button(icon="chevron_left", on_click=lambda: self._turn(-ROWS))
            back.props('flat round aria-label="Newer ones"')
            self._where = ui.label().classes("number")
            on = ui.button(icon="chevron_right", on_click=lambda: self._turn(ROWS))
            on.props('flat round aria-label="Older ones"')

    # --- notifications ----------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        await asyncio.gather(self.refresh(), self._find_subscribers())
        if self._key[1]:
            await self._tell()

    async def refresh(self) -> None:
        if (self._list.value and self._follow.value) or not self._known:
            there = [id_ for id_, seen in self._watch.nodes.items() if seen.is_there]
            for node, traces in zip(there, await asyncio.gather(*map(self._traces, there)), strict=True):
                self._known = merged(self._known, node, traces)
                steps = [int(step["at_ms"]) for trace in traces for step in trace["steps"]]
                self._after[node] = max([self._after.get(node, 0), *steps])
            self._show_rows()

    async def _traces(self, node: str) -> list[dict[str, Any]]:
        params = {"limit": str(ASKED), "after": str(self._after.get(node, 0))}
        try:
            return list((await self._watch.client(node).request("GET", f"{API}/traces", params=params)).data)
        except (NgsiLdClientError, OSError, KeyError):
            return []

    def _show_rows(self) -> None:
        types = sorted({name for one in self._known.values() for name in one.types})
        if list(self._type.options) != ["", *types]:
            self._type.set_options({"": "all types"} | {name: name for name in types})
        found = newest(self._known.values(), str(self._type.value or ""), str(self._about.value or ""))
        self._first_row = max(0, min(self._first_row, len(found) - 1))
        rows = found[self._first_row : self._first_row + ROWS]
        self._table.rows = [self._row(one) for one in rows]
        self._where.text = f"{self._first_row + 1 if rows else 0} to {self._first_row + len(rows)} of {len(found):,}"

    def _row(self, one: Heard) -> dict[str, Any]:
        address = why_address(*one.key, str(self._who.value or ""))
        about = one.about or one.id
        return {
            "key": "|".join(one.key),
            "publisher": one.publisher,
            "id": one.id,
            "time": one.time,
            "type": ", ".join(one.types) or "none",
            "about": about,
            "outcome": one.outcome,
            "address": address,
        }

    def _turn(self, by: int) -> None:
        self._follow.value = False
        self._first_row += by
        self._show_rows()

    async def _picked_row(self, event: events.GenericEventArguments) -> None:
        row = event.args
        self._key = (str(row["publisher"]), str(row["id"]))
        await self._tell()

    # --- subscribers ------------------------------------------------------------------------------------------------

    async def _find_subscribers(self) -> None:
        there = [id_ for id_, seen in self._watch.nodes.items() if seen.is_there]
        found = await asyncio.gather(*(asyncio.gather(self._ngsi_ld(node), self._native(node)) for node in there))
        self._subscribers = {one.key: one for both in found for ones in both for one in ones}
        self._name_subscribers()

    def _name_subscribers(self) -> None:
        """Those who got the notification are named first."""
        got = {key for key, one in self._subscribers.items() if self._way is not None and got_it(self._way, one)}
        ordered = sorted(self._subscribers.values(), key=lambda one: (one.key not in got, one.words))
        options = {one.key: f"{one.words}{' ✓ got it' if one.key in got else ''}" for one in ordered}
        wanted = self._wanted or str(self._who.value or "")
        self._wanted = ""
        self._who.set_options(NOBODY | options, value=wanted if wanted in options else "")

    async def _ngsi_ld(self, node: str) -> list[Subscriber]:
        try:
            params = {"limit": str(SUBSCRIPTIONS_MAX)}
            found = (await self._watch.client(node).request("GET", "/ngsi-ld/v1/subscriptions", params=params)).data
        except (NgsiLdClientError, OSError, KeyError):
            return []
        return [of_ngsi_ld(node, one) for one in found]

    async def _native(self, node: str) -> list[Subscriber]:
        try:
            client = self._watch.client(node)
            names = [str(one["client"]) for one in (await client.request("GET", "/hanse/v1/clients")).data][:CLIENTS_MAX]
            told = await asyncio.gather(*(client.request("GET", f"/hanse/v1/clients/{quote(name, safe='')}") for name in names))
        except (NgsiLdClientError, OSError, KeyError):
            return []
        found = [
            of_native(node, name, id_, one)
            for name, reply in zip(names, told, strict=True)
            for id_, one in reply.data["subscriptions"].items()
        ]
        return found[:SUBSCRIPTIONS_MAX]

    async def _picked_subscriber(self) -> None:
        if self._way is not None:
            await self._explain()

    # --- the answer -------------------------------------------------------------------------------------------------

    @property
    def _clients(self) -> dict[str, NodeClient | None]:
        """Of every node that is known of; None where it cannot be asked."""
        asked = self._watch.nodes
        return {node: self._watch.client(node) if node in asked else None for node in self._watch.members()}

    async def _tell(self) -> None:
        self._verdict.text = "Asking all nodes…"
        try:
            self._way = await way_of(self._clients, *self._key)
        except (NgsiLdClientError, OSError, KeyError, TypeError, ValueError) as error:
            self._way = None
            self._say(f"It cannot be told: {error}")
            return
        if self._way is None:
            self._say("No node knows this notification: it never was, or it was too long ago.")
            return
        self._list.value = False
        self._list.props["caption"] = notification_words(self._way.notification)
        ui.navigate.history.replace(why_address(*self._key, str(self._who.value or "")))
        await self._find_subscribers()
        await self._explain()

    def _say(self, words: str) -> None:
        self._verdict.text = words
        self._checks.clear()
        self._steps.clear()
        self._draw(None)

    async def _explain(self) -> None:
        way = self._way
        assert way is not None
        subscriber = self._subscribers.get(str(self._who.value or ""))
        why: dict[str, Any] | None = None
        self._tell_steps(way)
        if subscriber is None:
            count = sum(step["did"] == "delivered" for step in way.steps)
            self._verdict.text = f"It was for {count} subscription{'s' * (count != 1)}. Pick a subscriber to see why, or why not."
            self._checks.clear()
        else:
            try:
                why = await explained(self._clients, self._watch.client(subscriber.node), way, subscriber.id)
            except (NgsiLdClientError, OSError, KeyError) as error:
                self._verdict.text = f"{subscriber.node}: {error}"
                self._checks.clear()
            else:
                self._tell_checks(why)
        self._draw(why)

    def _tell_checks(self, why: dict[str, Any]) -> None:
        found = verdict(why)
        self._verdict.text = found.words
        self._checks.clear()
        with self._checks:
            for check in why["checks"]:
                with ui.item():
                    with ui.item_section().props("side"):
                        sign, color, said = _SIGNS[bool(check["passed"])]
                        ui.icon(sign, color=color).props(f'role="img" aria-label="{said}"')
                    with ui.item_section():
                        ui.label(check["name"]).classes("font-bold")
                        ui.label(check["words"]).classes("text-sm break-words")

    def _tell_steps(self, way: Way) -> None:
        self._steps.clear()
        with self._steps:
            ui.label("Its way").classes("text-subtitle1").props('role="heading" aria-level="3"')
            ui.label(notification_words(way.notification)).classes("break-words")
            with ui.element("ol").classes("list-decimal pl-6"):
                for step in way.steps:
                    with ui.element("li"):
                        ui.label(step_words(step)).classes("number break-words")
            for link in way.closed:
                ui.label(link.words).classes("text-negative break-words")
            for node, reason in way.silent.items():
                ui.label(f"What {node} did is not known: {reason}").classes("opacity-80")

    def _draw(self, why: dict[str, Any] | None) -> None:
        members = self._watch.members()
        communities = [str(member["community"]) for member in members.values()]
        located = {id_: member for id_, member in sorted(members.items()) if member.get("location") is not None}
        places = {id_: (float(one["location"][0]), float(one["location"][1])) for id_, one in located.items()}
        links = [link["between"] for link in self._watch.links()]
        shapes, involved = drawn(self._way, why, places, links) if self._way is not None else ({}, set(places))
        nodes = [
            {
                "id": id_,
                "lon": places[id_][0],
                "lat": places[id_][1],
                "color": color_of(str(member["community"]), communities),
                "away": not member["reachable"],
                "dim": id_ not in involved,
                "text": f"{id_}, {member['community']}",
            }
            for id_, member in located.items()
        ]
        lines = [{"from": a, "to": b, "off": False} for a, b in links]
        self._map.show({"nodes": nodes, "links": lines, "areas": [], "movers": [], "fences": [], **shapes})


def why_address(publisher: str, id_: str, subscriber: str = "") -> str:
    """The page about a notification; with a subscriber, about both."""
    given = {"publisher": publisher, "id": id_, "subscriber": subscriber}
    return "/why?" + "&".join(f"{name}={quote(value, safe=':')}" for name, value in given.items() if value)
