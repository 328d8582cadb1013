"""How many messages the smart port costs between nodes, by topology and by how finely offers are told: counted in the simulator,
with the brokers that run in nodes, and once with the nodes themselves.

Each phase has come to rest before the next begins: all entities are created; one application in each community asks for what
devices say; the devices speak.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from hanse.model import Advertisement, Notification, Selector, Subscription
from hanse.routing import Settings
from hanse.routing import messages as m
from hanse.routing.settings import FRESH_MS
from hanse.simulation.engine import Simulator
from hanse.simulation.smart_port import DEVICE
from hanse.studies.comdex.federations import TOPOLOGIES, TOPS, received
from hanse.studies.comdex.probes import ENTITIES, SUBSCRIPTIONS, Inbox, Line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hanse.node.federation.local import LocalFederation
    from hanse.simulation.smart_port import Made, Message, Port
    from hanse.studies.comdex.federations import Plan

GRANULARITIES: Final = ("type", "id")
PHASES: Final = ("creation", "subscription", "devices")
BATCH: Final = 500
QUIET_S: Final = 1.0  # without a message anywhere: the nodes have come to rest
QUIET_S_MAX: Final = 120.0

Links = Counter[tuple[str, str]]  # from, to -> messages


class Counted(Struct, frozen=True, kw_only=True):
    """What one topology costs with one granularity: messages over links, phase by phase."""

    topology: str
    granularity: str
    by_phase: dict[str, Links]
    entities: int
    offers: int  # that all nodes make
    offers_known: int  # entries that nodes keep of others' offers, all nodes together
    held_between: int  # subscriptions at nodes that neither are their home nor have what they want
    delivered: int  # notifications to applications

    def total(self, phase: str) -> int:
        return self.by_phase[phase].total()

    def busiest(self, phase: str) -> int:
        """Messages on the busiest link, both directions together."""
        links: Counter[frozenset[str]] = Counter()
        for (source, target), count in self.by_phase[phase].items():
            links[frozenset((source, target))] += count
        return max(links.values(), default=0)


class Counting:
    """The port in the simulator."""

    def __init__(self, plan: Plan, granularity: str) -> None:
        self._plan = plan
        self._by_id = granularity == "id"
        federation = plan.federation()
        latencies = {node: dict.fromkeys(others, 1) for node, others in federation.neighbours.items()}
        self.simulator = Simulator(Settings("advertised", federation, advertise_ids=self._by_id), latencies=latencies)

    def at(self, node: str) -> str:
        """The node itself, or the only one."""
        return node if node in self._plan.nodes else self._plan.nodes[0]

    def phase(self, requests: Iterable[tuple[str, m.Request]]) -> Links:
        """Some time after the one before, so that no offer is young any more."""
        simulator = self.simulator
        before = simulator.by_link.copy()
        at_ms = simulator.now_ms + 2 * FRESH_MS
        for node in self._plan.nodes:
            simulator.tick(at_ms - 1, node)
        for node, request in requests:
            simulator.request(at_ms, self.at(node), request)
        simulator.run()
        if simulator.other_effects:
            raise RuntimeError(f"the port cannot be simulated: {simulator.other_effects[0][2]}")
        return simulator.by_link - before

    def advertisings(self, entities: Sequence[Made]) -> Iterable[tuple[str, m.Request]]:
        """What a node has for the first time it advertises."""
        offered: set[tuple[str, str]] = set()
        for made in entities:
            type_, id_ = made.entity["type"], made.entity["id"]
            client = self._gateway(made.node)
            offer = id_ if self._by_id else type_
            if (client, offer) not in offered:
                offered.add((client, offer))
                selector = Selector(type=type_, id=id_ if self._by_id else None)
                yield made.node, m.Advertise(Advertisement(id=offer, client=client, selectors=(selector,)))

    def creations(self, entities: Sequence[Made]) -> Iterable[tuple[str, m.Request]]:
        for made in entities:
            yield made.node, m.Publish(self._notification(made.node, made.entity["type"], made.entity["id"], "created"))

    def tellings(self, messages: Sequence[Message]) -> Iterable[tuple[str, m.Request]]:
        for i, message in enumerate(messages):
            device = message.device
            yield device.node, m.Publish(self._notification(device.node, DEVICE, device.id, str(i)))

    def _gateway(self, node: str) -> str:
        return f"{self.at(node)}-gateway"

    def _notification(self, node: str, type_: str, id_: str, what: str) -> Notification:
        return Notification(id=f"{id_} {what}", publisher=self._gateway(node), types=(type_,), entity=id_)


def subscribings() -> Iterable[tuple[str, m.Request]]:
    """One application at the top of each community that wants to know what any device says."""
    for node in TOPS:
        client = f"{node}-application"
        yield node, m.Subscribe(Subscription(id=client, client=client, selectors=(Selector(type=DEVICE),)))


def count(topology: str, granularity: str, port: Port, messages: Sequence[Message], *, direct: bool = False) -> Counted:
    """`direct`: by pair of nodes, as live nodes send what is for a node further away; else by every link that is crossed."""
    run = Counting(TOPOLOGIES[topology], granularity)
    run.simulator.direct = direct
    by_phase = {
        "creation": run.phase(run.advertisings(port.entities)) + run.phase(run.creations(port.entities)),
        "subscription": run.phase(subscribings()),
        "devices": run.phase(run.tellings(messages)),
    }
    simulator = run.simulator
    have = {run.at(device.node) for device in port.devices}
    held = [(node, kept.home) for node, broker in simulator.brokers.items() for kept in broker.held.values()]
    return Counted(
        topology=topology,
        granularity=granularity,
        by_phase=by_phase,
        entities=len(port.entities),
        offers=simulator.requests["Advertise"],
        offers_known=sum(len(offers) for broker in simulator.brokers.values() for offers in broker.strategy.state.known.values()),
        held_between=sum(node != home and node not in have for node, home in held),
        delivered=len(simulator.delivered),
    )


# --- with real nodes ----------------------------------------------------------------------------------------------------------


async def count_live(federation: LocalFederation, port: Port, messages: Sequence[Message]) -> tuple[dict[str, Links], int]:
    """The same with nodes that are processes, and what their links have received; and how many notifications have come."""
    async with AsyncExitStack() as stack:
        inbox = await stack.enter_async_context(Inbox())
        lines = {node: await stack.enter_async_context(Line(federation.url(node))) for node in federation.nodes}
        by_phase: dict[str, Links] = {}
        before = await _at_rest(federation)
        for phase in PHASES:
            if phase == "creation":
                await _create(lines, port.entities)
            elif phase == "subscription":
                for node in TOPS:
                    await lines[node].send("POST", SUBSCRIPTIONS, inbox.subscription(DEVICE))
            else:
                for message in messages:
                    device = message.device
                    await lines[device.node].send("PATCH", f"{ENTITIES}/{device.id}/attrs", message.attributes)
            after = await _at_rest(federation)
            by_phase[phase] = after - before
            before = after
        return by_phase, len(inbox.came)


async def _create(lines: Mapping[str, Line], entities: Sequence[Made]) -> None:
    by_node: dict[str, list[Made]] = {}
    for made in entities:
        by_node.setdefault(made.node, []).append(made)
    for node, some in by_node.items():
        for start in range(0, len(some), BATCH):
            batch = [made.entity for made in some[start : start + BATCH]]
            await lines[node].send("POST", "/ngsi-ld/v1/entityOperations/create", batch)


async def _at_rest(federation: LocalFederation) -> Links:
    """What each link has received, once no more comes."""
    seen, since = _received(federation), time.monotonic()
    until = since + QUIET_S_MAX
    while time.monotonic() < min(until, since + QUIET_S):
        await asyncio.sleep(0.1)
        now = _received(federation)
        if now != seen:
            seen, since = now, time.monotonic()
    return seen


def _received(federation: LocalFederation) -> Links:
    return Counter(
        {(peer, node): number for node in federation.nodes for peer, number in received(federation, node).items() if number}
    )
