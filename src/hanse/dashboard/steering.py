"""What a person does to a federation from a page, done over HTTP at the nodes that it concerns.

What a node refuses is raised as it says it; what cannot be asked for at all is InvalidInput.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote
from uuid import uuid4

from msgspec import Struct

from hanse.client import NgsiLdClientError, NodeClient
from hanse.dashboard.topology import Topology, TopologyLink, from_plain
from hanse.model import InvalidInput

if TYPE_CHECKING:
    from hanse.dashboard.watching import Watch

API: Final = "/hanse/v1/federation"
SCOPES: Final = "/hanse/v1/scopes"
CLIENTS: Final = "/hanse/v1/clients"
AGREE_S: Final = 10.0
ARRIVE_S: Final = 3.0  # after that a probe counts as not delivered
LOOK_S: Final = 0.05
PROBE: Final = "dashboard/probe"  # the topic of what a page publishes to try something
LINKS: Final = f"{API}/links"


def in_words(error: Exception) -> str:
    """For the page: what the node said, or why it could not be asked."""
    return error.detail or str(error) if isinstance(error, NgsiLdClientError) else str(error)


def client_of(watch: Watch, node: str) -> NodeClient:
    try:
        return watch.client(node)
    except KeyError:
        raise InvalidInput(f"{node} does not answer here, or says no address; its own operator has to do this") from None


def topology_of(watch: Watch) -> Topology:
    """The federation as the nodes that answer describe it together."""
    first = next((seen for seen in watch.seen if seen.is_there and seen.overview.get("federation")), None)
    terms = {} if first is None else {"name": first.overview["federation"], "strategy": first.overview["strategy"]}
    if first is not None and first.overview.get("overrides"):
        terms["overrides"] = first.overview["overrides"]
    nodes = [
        {name: said.get(name) for name in ("id", "community", "location", "http", "listen")} for said in watch.members().values()
    ]
    known = {node["id"] for node in nodes}
    links = [
        {name: link[name] for name in ("between", "export", "back")} for link in watch.links() if set(link["between"]) <= known
    ]
    return from_plain({"federation": terms, "nodes": sorted(nodes, key=lambda node: str(node["id"])), "links": links})


async def terms_of(watch: Watch) -> dict[str, Any]:
    """What all nodes of the federation agree on; `scopes` among it if they have a characterisation."""
    try:
        return dict((await _any_node(watch).request("GET", f"{API}/topology")).data["federation"])
    except (NgsiLdClientError, InvalidInput, OSError):
        return {}


# --- links ------------------------------------------------------------------------------------------------------------


async def add_link(watch: Watch, link: TopologyLink) -> None:
    """Have both ends want it, and wait until they have agreed. If the second refuses, the first does not want it any more."""
    topology = topology_of(watch)
    a, b = link.between
    if not topology.by_id[b].listen:
        a, b = b, a
    caller, called = client_of(watch, a), client_of(watch, b)
    wish = {"to": topology.by_id[b].listen, "node": b, "export": link.rule(a) or {}}
    await caller.request("POST", LINKS, json=wish)
    try:
        await called.request("POST", LINKS, json={"node": a, "export": link.rule(b) or {}})
    except NgsiLdClientError:
        with suppress(NgsiLdClientError):
            await caller.request("DELETE", f"{LINKS}/{quote(b, safe='')}")
        raise
    end = time.monotonic() + AGREE_S
    while not await _is_agreed(caller, a, b):
        if time.monotonic() > end:
            raise InvalidInput(f"{a} and {b} both want the link, but have not come together; can {a} call {wish['to']}?")
        await asyncio.sleep(LOOK_S)


async def want_link(watch: Watch, node: str, other: str) -> None:
    """A node waits for another one to call."""
    await client_of(watch, node).request("POST", LINKS, json={"node": other, "export": {}})


async def _is_agreed(client: NodeClient, a: str, b: str) -> bool:
    known = (await client.request("GET", API)).data
    return any(set(link["between"]) == {a, b} and link["agreed"] for link in known["links"])


async def remove_link(watch: Watch, a: str, b: str) -> None:
    """Neither end wants it any more. An end that cannot be asked is left to its operator: one is enough to end a link."""
    done = 0
    refused: Exception | None = None
    for here, other in ((a, b), (b, a)):
        try:
            await client_of(watch, here).request("DELETE", f"{LINKS}/{quote(other, safe='')}")
            done += 1
        except (NgsiLdClientError, InvalidInput) as error:
            refused = error
    if not done and refused is not None:
        raise refused


async def set_rule(watch: Watch, here: str, other: str, rule: Mapping[str, Any]) -> None:
    """What a node lets go to another one; it counts at once."""
    await client_of(watch, here).request("PATCH", f"{LINKS}/{quote(other, safe='')}", json={"export": dict(rule)})


# --- scopes -----------------------------------------------------------------------------------------------------------


class Border(Struct, frozen=True):
    """Between a scope and one above it; `out` and `into` are the filters of what goes up and down."""

    dimension: str
    scope: str
    superscope: str
    out: str = ""
    into: str = ""

    @property
    def is_shut(self) -> bool:
        return self.out == "false" and self.into == "false"


class ScopesSeen(Struct, frozen=True):
    """The scopes of a federation, and which nodes have joined which."""

    dimensions: dict[str, list[str]] = {}
    borders: tuple[Border, ...] = ()
    joined: dict[tuple[str, str], list[str]] = {}  # (dimension, scope) -> nodes

    def borders_of(self, dimension: str) -> list[Border]:
        return [border for border in self.borders if border.dimension == dimension]

    def nodes_in(self, dimension: str, scope: str) -> list[str]:
        return self.joined.get((dimension, scope), [])


async def look_at_scopes(watch: Watch) -> ScopesSeen:
    """Of all nodes that answer; the first of them says what there is."""
    nodes = [id_ for id_, seen in watch.nodes.items() if seen.is_there]
    said = await asyncio.gather(*(_scopes_at(watch, node) for node in nodes))
    known = next((one for one in said if one and one["dimensions"]), {})
    joined: dict[tuple[str, str], list[str]] = {}
    for node, one in zip(nodes, said, strict=True):
        for place in one.get("joined", ()):
            joined.setdefault((place["dimension"], place["scope"]), []).append(node)
    borders = tuple(Border(**border) for border in known.get("borders", ()))
    return ScopesSeen(known.get("dimensions", {}), borders, joined)


async def _scopes_at(watch: Watch, node: str) -> dict[str, Any]:
    try:
        return dict((await watch.client(node).request("GET", SCOPES)).data)
    except (NgsiLdClientError, OSError, KeyError, TypeError):
        return {}


def _any_node(watch: Watch) -> NodeClient:
    there = next((id_ for id_, seen in watch.nodes.items() if seen.is_there), None)
    if there is None:
        raise InvalidInput("no node answers")
    return watch.client(there)


async def set_border(watch: Watch, border: Border, *, out: str, into: str) -> None:
    """What may cross it, for the whole federation; waits until all nodes that answer know it."""
    place = {"dimension": border.dimension, "scope": border.scope, "superscope": border.superscope}
    await _any_node(watch).request("POST", f"{SCOPES}/visibility", json=place | {"out": out, "into": into})
    await _all_say_the_same(watch, border)


async def reset_border(watch: Watch, border: Border) -> None:
    """As the characterisation has it."""
    place = {"dimension": border.dimension, "scope": border.scope, "superscope": border.superscope}
    await _any_node(watch).request("DELETE", f"{SCOPES}/visibility", params=place)
    await _all_say_the_same(watch, border)


async def _all_say_the_same(watch: Watch, border: Border) -> None:
    """A filter comes to all nodes in a moment; until then, what is tried at one of them would mean the one before."""
    end = time.monotonic() + AGREE_S
    place = (border.dimension, border.scope, border.superscope)
    while time.monotonic() < end:
        nodes = [id_ for id_, seen in watch.nodes.items() if seen.is_there]
        said = await asyncio.gather(*(_scopes_at(watch, node) for node in nodes))
        found = {
            (one["out"], one["into"])
            for known in said
            for one in known.get("borders", ())
            if (one["dimension"], one["scope"], one["superscope"]) == place
        }
        if len(found) <= 1:
            return
        await asyncio.sleep(LOOK_S)


async def join_scope(watch: Watch, node: str, dimension: str, scope: str, *, is_in: bool) -> None:
    path = f"{SCOPES}/{quote(dimension, safe='')}/{quote(scope, safe='')}"
    await client_of(watch, node).request("PUT" if is_in else "DELETE", path)


# --- trying -----------------------------------------------------------------------------------------------------------


class Tried(Struct, frozen=True):
    """What became of a probe, and why, in the node's words."""

    publisher: str
    id: str
    is_delivered: bool
    why: list[str]


async def try_border(
    watch: Watch, border: Border, attributes: Mapping[str, Any], nodes: tuple[str, str], *, is_outward: bool
) -> Tried:
    """Publish something on one side and have someone on the other side wait for it; both are gone afterwards."""
    start, end = (border.scope, border.superscope) if is_outward else (border.superscope, border.scope)
    home, there = nodes
    from_, to = client_of(watch, home), client_of(watch, there)
    name = uuid4().hex[:8]
    publisher, subscriber, wish = f"dashboard-sends-{name}", f"dashboard-hears-{name}", f"probe-{name}"
    try:
        await to.request("PUT", f"{CLIENTS}/{subscriber}", json={})
        wanted = {"selectors": [{"topic": PROBE}], "scopes": {border.dimension: end}}
        await to.request("PUT", f"{CLIENTS}/{subscriber}/subscriptions/{wish}", json=wanted)
        await from_.request("PUT", f"{CLIENTS}/{publisher}", json={})
        said = {"topic": PROBE, "scopes": {border.dimension: start}, "attributes": dict(attributes)}
        id_ = str((await from_.request("POST", f"{CLIENTS}/{publisher}/notifications", json=said)).data["id"])
        trace = (await from_.request("GET", f"{API}/trace", params={"publisher": publisher, "id": id_})).data
        asked = {"notification": trace["notification"], "subscription": wish, "home": home}
        return await _awaited(to, Tried(publisher, id_, is_delivered=False, why=[]), asked)
    finally:
        for client, guest in ((to, subscriber), (from_, publisher)):
            with suppress(NgsiLdClientError):
                await client.request("DELETE", f"{CLIENTS}/{guest}")


async def _awaited(client: NodeClient, tried: Tried, asked: dict[str, Any]) -> Tried:
    """Until it has come; or, if it is not to come, why."""
    end = time.monotonic() + ARRIVE_S
    while True:
        said = (await client.request("POST", f"{API}/explain", json=asked)).data
        if said["matched"] or not said["delivered"] or time.monotonic() > end:
            why = [str(check["words"]) for check in said["checks"] if said["matched"] or not check["passed"]]
            return Tried(tried.publisher, tried.id, bool(said["matched"]), why or ["it did not come in time"])
        await asyncio.sleep(LOOK_S)
