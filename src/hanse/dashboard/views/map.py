"""The map: nodes, what they are responsible for, clients that move, geofences, and notifications on their way."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from nicegui import ui

from hanse.dashboard import outlines
from hanse.dashboard.frame import REFRESH_S, heading
from hanse.dashboard.map import MESSAGE_COLOR, HarbourMap, color_of
from hanse.dashboard.places import Held, all_of, areas, ask
from hanse.dashboard.views.map_layers import Layers

if TYPE_CHECKING:
    from hanse.dashboard.app import Shown
    from hanse.dashboard.watching import Travel, Watch

NEWS_MAX: Final = 12
MESSAGE_S: Final = 4.0  # how long the geofence of a message is drawn
MESSAGES_MAX: Final = 40  # geofences of messages at a time
_STOPPED: Final = ("stopped", "dropped", "withheld")
_DID: Final = {
    "published": "was published at {node}",
    "sent": "goes from {node} to {other}",
    "delivered": "reached {other} at {node}",
    "stopped": "was stopped at {node}",
    "dropped": "was dropped at {node}, for {other}",
    "withheld": "is kept from {other} by the policy of {node}",
    "reduced": "is shown to {other} in part, by the policy of {node}",
}


async def show(watch: Watch, shown: Shown) -> None:
    del shown
    heading("The federation, live", "Wheel or + and − to come closer, arrows to move, 0 for everything, G for the globe.")
    page = _Page(watch)
    await page.look()
    ui.timer(REFRESH_S, page.refresh)
    ui.timer(2 * REFRESH_S, page.look)


class _Page:
    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._drawn = watch.last_number
        self._by_node: dict[str, Held] = {}
        self._held = Held()
        self._messages: dict[tuple[str, str], tuple[float, dict[str, Any]]] = {}  # until when a geofence is drawn
        with ui.element("div").style("height: min(68vh, 46rem)").classes("w-full"):
            self._canvas = HarbourMap("Map", self._picked).style("width:100%;height:100%")
        self._layers = Layers(self.refresh)
        heading("Latest")
        self._news = ui.column().classes("gap-0 text-sm number w-full").props('role="log" aria-label="Notifications"')

    async def look(self) -> None:
        """Where things are; asked of all nodes at once."""
        nodes = [id_ for id_, seen in self._watch.nodes.items() if seen.is_there]
        colors = self._colors()
        found = await asyncio.gather(*(ask(self._watch.client(id_), id_, colors[id_]) for id_ in nodes))
        self._by_node = dict(zip(nodes, found, strict=True))
        self._held = all_of(found)
        self.refresh()

    def refresh(self) -> None:
        """What is known now, of the layers that are on."""
        members, colors = self._watch.members(), self._colors()
        nodes = [
            {
                "id": id_,
                "lon": member["location"][0],
                "lat": member["location"][1],
                "color": colors[id_],
                "away": not member["reachable"],
                "text": f"{id_}, {member['community']}\n{'answers' if member['reachable'] else 'does not answer'}",
            }
            for id_, member in sorted(members.items())
            if member.get("location") is not None
        ]
        places = {node["id"]: (node["lon"], node["lat"]) for node in nodes}
        self._travel(places, colors)
        layers = {
            "areas": areas(members, self._by_node, colors),
            "fences": self._held.fences,
            "clients": self._held.clients,
            "movers": self._held.things,
            "links": [
                {"from": link["between"][0], "to": link["between"][1], "off": not link["agreed"]} for link in self._watch.links()
            ],
        }
        counts = {key: len(found) for key, found in layers.items()}
        self._layers.tell(sorted({str(member["community"]) for member in members.values()}), counts, self._held.more)
        layers["messages"] = self._still_fresh()
        drawn = {
            key: found if self._layers.is_on("fences" if key == "messages" else key) else [] for key, found in layers.items()
        }
        self._canvas.describe(_in_words(len(nodes), {key: len(found) for key, found in drawn.items()}))
        self._canvas.show({"nodes": nodes, **drawn})

    def _travel(self, places: dict[str, tuple[float, float]], colors: dict[str, str]) -> None:
        """Ways that are new: between nodes, and between a node and a client that is somewhere; in the colour of who sends."""
        new = list(self._watch.since(self._drawn))
        if not new:
            return
        self._drawn = new[-1].number
        clients = {one["id"]: (one["lon"], one["lat"]) for one in self._held.clients} if self._layers.is_on("clients") else {}
        ways = []
        for travel in new:
            if travel.did == "published":
                self._announce(travel)
            here = places.get(travel.node)
            start = clients.get(travel.publisher) if travel.did == "published" else here
            end = here if travel.did == "published" else places.get(travel.other, clients.get(travel.other, here))
            if start is not None and end is not None:
                color = colors[travel.node] if travel.geofence is None else MESSAGE_COLOR
                ways.append({"from": start, "to": end, "color": color, "stopped": travel.did in _STOPPED})
        if self._layers.is_on("travels"):
            self._canvas.travel(ways)
        with self._news:
            for travel in new[-NEWS_MAX:]:
                ui.link(self._words(travel), f"/why?publisher={travel.publisher}&id={travel.id}").classes(
                    "no-underline break-all"
                )
        while len(self._news.default_slot.children) > NEWS_MAX:
            self._news.remove(0)

    def _announce(self, travel: Travel) -> None:
        """A message that is for a certain place."""
        rings = outlines.of_outline(travel.geofence)
        if rings:
            what = f"{travel.entity or 'a message'} of {travel.publisher}"
            fence = {
                "id": travel.id,
                "rings": rings,
                "color": MESSAGE_COLOR,
                "name": travel.entity,
                "text": f"{what}\nfor whoever is here",
            }
            self._messages[travel.publisher, travel.id] = time.monotonic() + MESSAGE_S, fence

    def _still_fresh(self) -> list[dict[str, Any]]:
        now = time.monotonic()
        kept = [(key, one) for key, one in self._messages.items() if one[0] > now]
        self._messages = dict(kept[-MESSAGES_MAX:])
        return outlines.together(fence for _, fence in self._messages.values())

    def _colors(self) -> dict[str, str]:
        """Of every node: its community's."""
        members = self._watch.members()
        communities = [str(member["community"]) for member in members.values()]
        known = {id_: color_of(str(member["community"]), communities) for id_, member in members.items()}
        return {id_: color_of("", communities) for id_ in self._watch.nodes} | known

    def _words(self, travel: Travel) -> str:
        other = self._held.names.get(travel.other, travel.other)
        said = _DID.get(travel.did, travel.did).format(node=travel.node, other=other)
        return f"{', '.join(travel.types) or 'notification'} {travel.entity} {said}"

    def _picked(self, kind: str, id_: str) -> None:
        homes = {str(one["id"]): str(one["node"]) for one in self._held.clients}
        if kind == "movers":
            ui.navigate.to(f"/data?id={id_}")
        elif kind == "nodes" or id_ in homes:
            ui.navigate.to(f"/federation?node={id_ if kind == 'nodes' else homes[id_]}")


def _in_words(nodes: int, counts: dict[str, int]) -> str:
    """For who does not see it."""
    said = [(nodes, "nodes"), (counts["links"], "links"), (counts["areas"], "areas"), (counts["fences"], "geofences")]
    said += [(counts["clients"], "clients"), (counts["movers"], "things")]
    return "Map: " + ", ".join(f"{number} {what}" for number, what in said if number)
