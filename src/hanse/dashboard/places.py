"""Where things are at a node, as it tells whoever looks: entities, native clients, and what subscriptions are about.

What a node does not tell, because there is none or because the person who looks may not see it, is not there. All of it is
bounded; `Held.more` says in words what there is beyond that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from hanse.client import NgsiLdClientError, NodeClient
from hanse.dashboard import outlines

THINGS_MAX: Final = 300  # of one node
CLIENTS_MAX: Final = 200  # of one node
SUBSCRIPTIONS_MAX: Final = 100  # of one node, that are looked at for geofences
THINGS_DRAWN_MAX: Final = 3_000  # of all nodes together
CLIENTS_DRAWN_MAX: Final = 1_000
FENCES_DRAWN_MAX: Final = 300
TEXT_LINES_MAX: Final = 6
_EVERYWHERE: Final = {"georel": "near;maxDistance==20040000", "geometry": "Point", "coordinates": "[0,0]"}


class Held(Struct, frozen=True):
    """What is somewhere, as the map draws it; by node or of all of them."""

    things: list[dict[str, Any]] = []
    clients: list[dict[str, Any]] = []
    fences: list[dict[str, Any]] = []
    names: dict[str, str] = {}  # of subscriptions, by what a trace calls them
    more: list[str] = []  # what is not drawn, in words

    def places(self) -> Iterable[tuple[float, float]]:
        return ((float(one["lon"]), float(one["lat"])) for one in (*self.things, *self.clients))


async def ask(client: NodeClient, node: str, color: str) -> Held:
    """All that a node tells at this moment."""
    things, clients, kept = await asyncio.gather(
        _page(client, "/ngsi-ld/v1/entities", {"local": "true", "options": "keyValues", "limit": str(THINGS_MAX), **_EVERYWHERE}),
        _page(client, "/hanse/v1/clients", {"geofences": "true", "limit": str(CLIENTS_MAX)}),
        _page(client, "/ngsi-ld/v1/subscriptions", {"limit": str(SUBSCRIPTIONS_MAX)}),
    )
    found = held(node, color, things[0], clients[0], kept[0])
    asked = (
        (things[1], THINGS_MAX, "things"),
        (clients[1], CLIENTS_MAX, "clients"),
        (kept[1], SUBSCRIPTIONS_MAX, "subscriptions"),
    )
    found.more.extend(
        f"{node} has more than {most} {what}; the first {most} are looked at" for is_more, most, what in asked if is_more
    )
    return found


async def _page(client: NodeClient, path: str, params: dict[str, str]) -> tuple[list[dict[str, Any]], bool]:
    """What it says, and whether there is more of it; nothing if it does not say."""
    try:
        reply = await client.request("GET", path, params=params)
    except (NgsiLdClientError, OSError):
        return [], False
    return list(reply.data), 'rel="next"' in reply.headers.get("Link", "")


def held(
    node: str,
    color: str,
    entities: Sequence[Mapping[str, Any]],
    clients: Sequence[Mapping[str, Any]],
    subscriptions: Sequence[Mapping[str, Any]],
) -> Held:
    """What a node has said, for the map."""
    things = [
        {"id": one["id"], "lon": place[0], "lat": place[1], "color": color, "text": _text(one, node)}
        for one in entities
        if (place := _point(one.get("location"))) is not None
    ]
    people = [
        {
            "id": one["client"],
            "lon": one["location"]["lon"],
            "lat": one["location"]["lat"],
            "color": color,
            "text": f"{one['client']}\nclient of {node}",
            "node": node,
        }
        for one in clients
        if one.get("location")
    ]
    named = {str(one["id"]): str(one.get("subscriptionName") or one["id"]) for one in subscriptions}
    asked = [(str(one["id"]), named[str(one["id"])], outlines.of_geo_query(one.get("geoQ"))) for one in subscriptions]
    asked += [
        (f"{one['client']}/{id_}", f"{id_} of {one['client']}", outlines.of_outline(fence))
        for one in clients
        for id_, fence in one.get("geofences", {}).items()
    ]
    fences = [
        {"id": id_, "rings": rings, "color": color, "name": name, "text": f"{name}\nlistens to what is here, at {node}"}
        for id_, name, rings in asked
        if rings
    ]
    return Held(things, people, fences, {f"ngsi-ld/{id_}": name for id_, name in named.items()}, [])


def all_of(held: Iterable[Held]) -> Held:
    """Of all nodes, the large fences first, so that small ones are drawn above them; no more than can be drawn."""
    parts = list(held)
    things = [one for part in parts for one in part.things]
    clients = [one for part in parts for one in part.clients]
    fences = outlines.together(one for part in parts for one in part.fences)
    fences.sort(key=lambda fence: outlines.extent(fence["rings"]), reverse=True)
    more = [said for part in parts for said in part.more]
    drawn = (
        (things, THINGS_DRAWN_MAX, "things"),
        (clients, CLIENTS_DRAWN_MAX, "clients"),
        (fences, FENCES_DRAWN_MAX, "geofences"),
    )
    more += [f"{len(found):,} {what} are known; {most:,} are drawn" for found, most, what in drawn if len(found) > most]
    names = {id_: name for part in parts for id_, name in part.names.items()}
    return Held(things[:THINGS_DRAWN_MAX], clients[:CLIENTS_DRAWN_MAX], fences[:FENCES_DRAWN_MAX], names, more)


def areas(
    members: Mapping[str, Mapping[str, Any]], by_node: Mapping[str, Held], colors: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Of each node the area that it is given; of one without, an outline of what it holds (`inferred`). Large ones first."""
    found = []
    for node, member in sorted(members.items()):
        rings = outlines.of_outline(member.get("area"))
        is_inferred = not rings
        if is_inferred:
            there = list(by_node[node].places()) if node in by_node else []
            here = [(float(member["location"][0]), float(member["location"][1]))] if member.get("location") else []
            rings = outlines.around([*there, *here] if there else [])
        if rings:
            text = f"around what {node} holds;\nno area is configured" if is_inferred else f"the area of {node}"
            found.append({"id": node, "rings": rings, "color": colors[node], "text": text, "inferred": is_inferred})
    return sorted(found, key=lambda area: outlines.extent(area["rings"]), reverse=True)


def _text(entity: Mapping[str, Any], node: str) -> str:
    plain = [f"{name}: {value}" for name, value in entity.items() if isinstance(value, (int, float, str)) and name != "id"]
    return "\n".join([str(entity["id"]), *plain[:TEXT_LINES_MAX], f"at {node}"])


def _point(value: Any) -> tuple[float, float] | None:
    try:
        return (float(value["coordinates"][0]), float(value["coordinates"][1])) if value["type"] == "Point" else None
    except (KeyError, TypeError, IndexError, ValueError):
        return None
