"""The map: nodes, what they are responsible for, clients that move, geofences, and notifications on their way."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from nicegui import ui

from hanse.client import NgsiLdClientError
from hanse.dashboard.frame import REFRESH_S, heading
from hanse.dashboard.map import HarbourMap, color_of

if TYPE_CHECKING:
    from hanse.dashboard.app import Shown
    from hanse.dashboard.watching import Travel, Watch

MOVERS_MAX: Final = 300  # of one node
NEWS_MAX: Final = 12
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
    with ui.element("div").style("height: min(68vh, 46rem)").classes("w-full"):
        canvas = HarbourMap("Map of nodes, links, moving things and notifications", _picked).style("width:100%;height:100%")
    legend = ui.row().classes("items-center gap-4 text-sm")
    heading("Latest")
    news = ui.column().classes("gap-0 text-sm number").props('role="log" aria-label="Notifications"')
    page = _Page(watch, canvas, legend, news)
    await page.look()
    ui.timer(REFRESH_S, page.refresh)
    ui.timer(2 * REFRESH_S, page.look)


def _picked(kind: str, id_: str) -> None:
    ui.navigate.to(f"/federation?node={id_}" if kind == "nodes" else f"/data?id={id_}")


class _Page:
    def __init__(self, watch: Watch, canvas: HarbourMap, legend: ui.row, news: ui.column) -> None:
        self._watch = watch
        self._canvas = canvas
        self._legend = legend
        self._news = news
        self._drawn = watch.last_number
        self._movers: list[dict[str, Any]] = []
        self._fences: list[dict[str, Any]] = []
        self._communities: list[str] = []

    async def look(self) -> None:
        """Where things are; asked of all nodes at once."""
        nodes = [(id_, seen) for id_, seen in self._watch.nodes.items() if seen.is_there]
        found = await asyncio.gather(*(self._ask(id_) for id_, _ in nodes))
        self._movers = [mover for movers, _ in found for mover in movers]
        self._fences = [fence for _, fences in found for fence in fences]
        self.refresh()

    async def _ask(self, node: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        client, color = self._watch.client(node), self._color(node)
        try:
            params = {"local": "true", "options": "keyValues", "limit": str(MOVERS_MAX), "georel": "near;maxDistance==20040000"}
            params |= {"geometry": "Point", "coordinates": "[0,0]"}
            entities = (await client.request("GET", "/ngsi-ld/v1/entities", params=params)).data
            kept = (await client.request("GET", "/ngsi-ld/v1/subscriptions", params={"limit": "100"})).data
        except (NgsiLdClientError, OSError):
            return [], []
        movers = [
            {"id": one["id"], "lon": place[0], "lat": place[1], "color": color, "text": _text(one, node)}
            for one in entities
            if (place := _point(one.get("location"))) is not None
        ]
        fences = [
            {"id": one["id"], "rings": rings, "color": "#b8430a", "text": one.get("subscriptionName", one["id"])}
            for one in kept
            if (rings := _rings(one.get("geoQ")))
        ]
        return movers, fences

    def refresh(self) -> None:
        members = self._watch.members()
        self._tell_communities(sorted({str(member["community"]) for member in members.values()}))
        nodes = [
            {
                "id": id_,
                "lon": member["location"][0],
                "lat": member["location"][1],
                "color": self._color(id_),
                "away": not member["reachable"],
                "text": f"{id_}, {member['community']}\n{'answers' if member['reachable'] else 'does not answer'}",
            }
            for id_, member in sorted(members.items())
            if member.get("location") is not None
        ]
        links = [
            {"from": link["between"][0], "to": link["between"][1], "off": not link["agreed"]} for link in self._watch.links()
        ]
        self._canvas.show({"nodes": nodes, "links": links, "areas": [], "movers": self._movers, "fences": self._fences})
        self._travel({node["id"]: (node["lon"], node["lat"]) for node in nodes})

    def _travel(self, places: dict[str, tuple[float, float]]) -> None:
        new = list(self._watch.since(self._drawn))
        if not new:
            return
        self._drawn = new[-1].number
        ways = []
        for travel in new:
            start = places.get(travel.node)
            end = places.get(travel.other, start)
            if start is not None and travel.did != "published":
                color = color_of(travel.types[0] if travel.types else "", [])
                ways.append({"from": start, "to": end, "color": color, "stopped": travel.did in _STOPPED})
        self._canvas.travel(ways)
        with self._news:
            for travel in new[-NEWS_MAX:]:
                ui.link(_words(travel), f"/why?publisher={travel.publisher}&id={travel.id}").classes("no-underline")
        while len(self._news.default_slot.children) > NEWS_MAX:
            self._news.remove(0)

    def _tell_communities(self, communities: list[str]) -> None:
        if communities == self._communities:
            return
        self._communities = communities
        self._legend.clear()
        with self._legend:
            for name in communities:
                with ui.row().classes("items-center gap-1"):
                    color = color_of(name, communities)
                    ui.element("span").style(
                        f"background:{color};width:.9rem;height:.9rem;border-radius:50%;display:inline-block"
                    )
                    ui.label(name)

    def _color(self, node: str) -> str:
        members = self._watch.members()
        communities = [str(member["community"]) for member in members.values()]
        return color_of(str(members[node]["community"]), communities) if node in members else color_of("", communities)


def _words(travel: Travel) -> str:
    said = _DID.get(travel.did, travel.did).format(node=travel.node, other=travel.other)
    return f"{', '.join(travel.types) or 'notification'} {travel.entity} {said}"


def _text(entity: dict[str, Any], node: str) -> str:
    plain = [f"{name}: {value}" for name, value in entity.items() if isinstance(value, (int, float, str)) and name != "id"]
    return "\n".join([entity["id"], *plain[:6], f"at {node}"])


def _point(value: Any) -> tuple[float, float] | None:
    try:
        return (float(value["coordinates"][0]), float(value["coordinates"][1])) if value["type"] == "Point" else None
    except (KeyError, TypeError, IndexError, ValueError):
        return None


def _rings(geo: Any) -> list[list[list[float]]]:
    """The outline of what a subscription asks for, if it is a polygon."""
    try:
        found = geo["coordinates"]
        return found if geo["geometry"] == "Polygon" and isinstance(found, list) else []
    except (KeyError, TypeError):
        return []
