"""What the nodes say, asked again and again: once for all visitors, and only while there are any.

`Watch.nodes` has what each node last said. A node tells of others in its federation, and those that have an HTTP address are
asked, too, so one address is enough. What travels between nodes is in `Watch.travels`, numbered, so that each page draws each
way once.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack, suppress
from typing import Any, Final, NamedTuple, Self

import structlog
from msgspec import Struct

import hanse
from hanse.client import NgsiLdClientError, NodeClient
from hanse.dashboard.metrics import read_metrics

ASK_EVERY_S: Final = 1.0
TIMEOUT_S: Final = 5.0
IDLE_AFTER_S: Final = 30.0  # without a visitor, nobody is asked
TRAVELS_MAX: Final = 2_000
TRACES_MAX: Final = 200  # of a node, each time
HISTORY_MAX: Final = 180  # points of a chart
NODES_MAX: Final = 200
_REFUSED: Final = (401, 403)
STEPS: Final = "dashboard_steps_total"  # counted here: what a node did with notifications, by kind, since somebody looks

log = structlog.get_logger("hanse.dashboard")


class Travel(NamedTuple):
    """A notification that went from one place to another: between nodes, or from a node to one of its clients."""

    number: int
    at_ms: int
    publisher: str
    id: str
    types: tuple[str, ...]
    entity: str
    did: str  # published, sent, delivered, stopped, dropped, withheld, reduced
    node: str
    other: str
    geofence: dict[str, Any] | None = None  # for where it is, as the node tells it


class Point(NamedTuple):
    """What a node has counted up to a time."""

    at: float
    metrics: dict[str, float]


class NodeSeen(Struct):
    """What a node last said."""

    url: str
    id: str = ""
    overview: dict[str, Any] = {}
    metrics: dict[str, float] = {}  # by name, or name{label=value,...}, as Prometheus has them
    history: deque[Point] = deque(maxlen=HISTORY_MAX)
    problem: str = "not asked yet"
    is_private: bool = False  # it answers, but tells the person who looks nothing of itself; entities it may still tell
    after_ms: int = 0  # traces up to here have been seen
    steps: dict[str, float] = {}  # as metrics

    @property
    def is_there(self) -> bool:
        return not self.problem

    def rate(self, name: str, over_s: float = 5.0) -> float:
        """How much a counter has grown in a second, lately; of all its labels together."""
        if len(self.history) < 2:
            return 0.0
        newest = self.history[-1]
        older = next((point for point in self.history if point.at >= newest.at - over_s), newest)
        if older.at >= newest.at:
            return 0.0
        grown = total(newest.metrics, name) - total(older.metrics, name)
        return max(0.0, grown / (newest.at - older.at))


def total(metrics: dict[str, float], name: str) -> float:
    """A metric, summed up over its labels."""
    return sum(value for key, value in metrics.items() if key == name or key.startswith(name + "{"))


class Watch:
    """`async with Watch(urls)`; `looked()` says that somebody looks."""

    def __init__(self, urls: Iterable[str], token: str = "", tenant: str = "") -> None:
        self._given = [url.rstrip("/") for url in urls]
        self._token = token
        self._tenant = tenant
        self._clients: dict[str, NodeClient] = {}
        self._stack = AsyncExitStack()
        self._seen: dict[str, NodeSeen] = {}  # by URL
        self._looked = 0.0
        self._number = 0
        self._asking: asyncio.Task[None] | None = None
        self._is_asked = asyncio.Event()
        self.travels: deque[Travel] = deque(maxlen=TRAVELS_MAX)

    async def __aenter__(self) -> Self:
        for url in self._given:
            await self._add(url)
        self._looked = time.monotonic()
        self._asking = asyncio.create_task(self._ask_again())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        await self._stack.aclose()

    def looked(self) -> None:
        """Somebody looks: go on asking."""
        self._looked = time.monotonic()

    async def first(self) -> None:
        """Until every node that was named, and those that these tell of, have been asked once."""
        await self._is_asked.wait()

    # --- what is known ----------------------------------------------------------------------------------------------

    @property
    def seen(self) -> list[NodeSeen]:
        """All nodes that are asked, in the order in which they were found."""
        return list(self._seen.values())

    @property
    def nodes(self) -> dict[str, NodeSeen]:
        """Those that have said who they are."""
        return {node.id: node for node in self._seen.values() if node.id}

    def client(self, node: str) -> NodeClient:
        """To ask a node for more, or to change something there; by its id, or its URL. Raises KeyError if it is not known."""
        known = self.nodes.get(node)
        return self._clients[known.url if known is not None else node]

    def members(self) -> dict[str, dict[str, Any]]:
        """Every node that anyone knows of: `{id: {community, location, http, reachable, ...}}`; a node's own word counts most."""
        found: dict[str, dict[str, Any]] = {}
        for seen in self._seen.values():
            for said in seen.overview.get("nodes", ()):
                if said["id"] not in found or said.get("self"):
                    found[said["id"]] = said
        for id_, seen in self.nodes.items():
            if id_ in found:
                found[id_] = found[id_] | {"reachable": seen.is_there}
        return found

    def links(self) -> list[dict[str, Any]]:
        """Each link once: between, agreed, export, back."""
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for seen in self._seen.values():
            for link in seen.overview.get("links", ()):
                key = (link["between"][0], link["between"][1])
                if key not in found or "counts" in link:
                    found[key] = link
        return list(found.values())

    def since(self, number: int) -> Iterator[Travel]:
        """What has travelled since the travel of that number."""
        return (travel for travel in self.travels if travel.number > number)

    @property
    def last_number(self) -> int:
        return self._number

    # --- asking -----------------------------------------------------------------------------------------------------

    async def _add(self, url: str) -> None:
        if url in self._seen or len(self._seen) >= NODES_MAX:
            return
        client = hanse.connect(url, tenant=self._tenant, timeout_s=TIMEOUT_S, token=self._token)
        self._clients[url] = await self._stack.enter_async_context(client)
        self._seen[url] = NodeSeen(url, history=deque(maxlen=HISTORY_MAX))

    async def _ask_again(self) -> None:
        while True:
            if time.monotonic() - self._looked < IDLE_AFTER_S:
                asked: set[str] = set()
                while new := [seen for url, seen in self._seen.items() if url not in asked]:
                    await asyncio.gather(*(self._ask(seen) for seen in new))
                    asked |= {seen.url for seen in new}
                    await self._find_others()
                self._is_asked.set()
            await asyncio.sleep(ASK_EVERY_S)

    async def _ask(self, seen: NodeSeen) -> None:
        client = self._clients[seen.url]
        try:
            overview, metrics = await asyncio.gather(
                client.request("GET", "/hanse/v1/federation"), client.request("GET", "/metrics", headers={"Accept": "text/plain"})
            )
            seen.overview, seen.id = overview.data, overview.data["node"]
            seen.metrics = read_metrics(bytes(metrics.data).decode())
            if seen.overview.get("federation") is not None:
                await self._follow(client, seen)
            seen.metrics |= seen.steps
            seen.history.append(Point(time.time(), seen.metrics))
            seen.problem, seen.is_private = "", False
        except (NgsiLdClientError, OSError, KeyError, TypeError, ValueError) as error:
            seen.problem = _in_words(error)
            seen.is_private = isinstance(error, NgsiLdClientError) and error.status in _REFUSED

    async def _follow(self, client: NodeClient, seen: NodeSeen) -> None:
        params = {"limit": str(TRACES_MAX), "after": str(seen.after_ms)}
        traces = (await client.request("GET", "/hanse/v1/federation/traces", params=params)).data
        is_first = seen.after_ms == 0
        newest = seen.after_ms
        steps = [(step, trace) for trace in traces for step in trace["steps"] if step["at_ms"] > seen.after_ms]
        for step, trace in sorted(steps, key=lambda found: int(found[0]["at_ms"])):
            newest = max(newest, step["at_ms"])
            if is_first or step["did"] == "heard":  # what was before we looked; and the other end of what was sent
                continue
            self._number += 1
            counted = f"{STEPS}{{did={step['did']}}}"
            seen.steps[counted] = seen.steps.get(counted, 0.0) + 1
            entity, types = str(trace["entity"] or trace["topic"] or ""), tuple(trace["types"])
            known = (trace["publisher"], trace["id"], types, entity, step["did"], seen.id, step.get("other", ""))
            self.travels.append(Travel(self._number, step["at_ms"], *known, trace.get("geofence")))
        seen.after_ms = newest or int(time.time() * 1000)

    async def _find_others(self) -> None:
        """Those that a node of ours tells of and that nobody has named."""
        for seen in list(self._seen.values()):
            for said in seen.overview.get("nodes", ()):
                address = said.get("http")
                if address and said["id"] not in self.nodes:
                    with suppress(NgsiLdClientError, OSError, ValueError):
                        await self._add(address if "://" in address else f"http://{address}")


def _in_words(error: Exception) -> str:
    if isinstance(error, NgsiLdClientError):
        return str(error)
    if isinstance(error, (KeyError, TypeError, ValueError)):
        return "it does not answer as a Hanse node does"
    return "it does not answer"
