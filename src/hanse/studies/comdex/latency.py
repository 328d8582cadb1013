"""How long it takes, with nodes that are processes of this machine: notifications along chains, and advertisements.

Chains of all widths run at the same time and are measured by turns, so that whatever else the machine does hits all alike.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Any, Final, Self

from msgspec import Struct, field

from hanse.routing import messages as m
from hanse.studies.comdex.federations import told
from hanse.studies.comdex.probes import ENTITIES, SUBSCRIPTIONS, Inbox, Line, ProbeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hanse.node.federation.local import LocalFederation

TYPES: Final = 10
GAP_S: Final = 0.02  # between two patches
FORGOTTEN_S: Final = 0.1  # after a deletion, so that it is known everywhere before the next creation
INSTALLED_S_MAX: Final = 60.0
PATIENCE_S: Final = 30.0


class Samples(Struct):
    """Times, in ms."""

    ms: list[float] = field(default_factory=list)

    @property
    def median_ms(self) -> float:
        return median(self.ms)

    def quantile_ms(self, share: float) -> float:
        return sorted(self.ms)[int(share * (len(self.ms) - 1))]

    @property
    def p95_ms(self) -> float:
        return self.quantile_ms(0.95)


class Chain:
    """A chain under measurement: data come in at its first node, the subscriber is at its last."""

    def __init__(self, federation: LocalFederation, entities: int, seed: int) -> None:
        self.federation = federation
        self.first, self.last = federation.nodes[0], federation.nodes[-1]
        self.normal, self.worst, self.installed = Samples(), Samples(), Samples()
        self._entities = entities
        self._random = Random(seed)
        self._stack = AsyncExitStack()
        self._types: dict[str, int] = {}  # new ones that were created when, in ns of the wall clock
        self._news = 0

    async def __aenter__(self) -> Self:
        url = self.federation.url
        self.edge = await self._stack.enter_async_context(Line(url(self.first)))
        self.far = await self._stack.enter_async_context(Line(url(self.last)))
        self.inbox = await self._stack.enter_async_context(Inbox())
        self.created = await self._stack.enter_async_context(Inbox())
        await self._prepare()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _prepare(self) -> None:
        """Table 2 of the paper: entities of ten types with a text and two numbers; one subscription for each type."""
        some = [self._entity(i) for i in range(self._entities)]
        for start in range(0, len(some), 500):
            await self.edge.send("POST", "/ngsi-ld/v1/entityOperations/upsert", some[start : start + 500])
        for i in range(TYPES):
            await self.far.send("POST", SUBSCRIPTIONS, self.inbox.subscription(f"Dummy{i}", triggers=["attributeUpdated"]))
        await self.far.send("POST", SUBSCRIPTIONS, self.created.subscription("DummyEntity", triggers=["entityCreated"]))
        await self._warm()

    def _entity(self, i: int) -> dict[str, Any]:
        below = self._random.randrange
        return {
            "id": f"urn:ngsi-ld:entity:{i}",
            "type": f"Dummy{i % TYPES}",
            "attribute1": {"type": "Property", "value": f"value{below(self._entities)}"},
            "attribute2": {"type": "Property", "value": below(self._entities)},
            "attribute3": {"type": "Property", "value": below(self._entities)},
        }

    async def _warm(self) -> None:
        """Until a change of every type is heard of at the far end: then all advertisements and subscriptions are in place."""
        until = time.monotonic() + PATIENCE_S
        while len({entity["type"] for _, entity in self.inbox.came}) < TYPES:
            if time.monotonic() > until:
                raise ProbeError(
                    f"not all subscriptions at {self.last} are served; see its log:\n{self.federation.log(self.last)[-2000:]}"
                )
            for i in range(TYPES):
                await self._patch(i)
            await asyncio.sleep(0.1)

    async def _patch(self, i: int) -> None:
        stamp = {"type": "Property", "value": time.perf_counter_ns()}
        await self.edge.send(
            "PATCH", f"{ENTITIES}/urn:ngsi-ld:entity:{i}/attrs", {self._random.choice(("attribute2", "attribute3")): stamp}
        )

    async def measure_normal(self, count: int) -> None:
        """A sensor patches an attribute of some entity to the time at which it does so."""
        inbox = self.inbox
        await asyncio.sleep(GAP_S)
        inbox.came.clear()
        for _ in range(count):
            await self._patch(self._random.randrange(self._entities))
            await asyncio.sleep(GAP_S)
        await inbox.until(count)
        for at_ns, entity in inbox.came:
            self.normal.ms.append((at_ns - max(entity["attribute2"], entity["attribute3"])) / 1e6)

    async def measure_worst(self, count: int) -> None:
        """The only entity of a type comes and goes: each time the subscription has to find its provider again."""
        for _ in range(count):
            self.created.came.clear()
            stamp = time.perf_counter_ns()
            entity = {"id": "urn:ngsi-ld:entity:only", "type": "DummyEntity", "stamp": {"type": "Property", "value": stamp}}
            await self.edge.send("POST", ENTITIES, entity)
            await self.created.until(1)
            self.worst.ms.append((self.created.came[0][0] - stamp) / 1e6)
            await self.edge.send("DELETE", f"{ENTITIES}/urn:ngsi-ld:entity:only")
            await asyncio.sleep(FORGOTTEN_S)

    async def create_types(self, count: int) -> None:
        """The first entities of new types: when they were sent is remembered."""
        for _ in range(count):
            i = self._news
            self._news += 1
            self._types[f"New{i}"] = time.time_ns()
            await self.edge.send("POST", ENTITIES, {"id": f"urn:ngsi-ld:entity:new{i}", "type": f"New{i}"})
            await asyncio.sleep(GAP_S)

    async def collect_installed(self) -> None:
        """When the broker at the far end was told of each new type: as its journal says, to the millisecond."""
        until = time.monotonic() + INSTALLED_S_MAX
        while True:
            found = _advertised(self.federation, self.last)
            if self._types.keys() <= found.keys():
                break
            if time.monotonic() > until:
                raise ProbeError(f"{self.last} has not heard of all new types")
            await asyncio.sleep(0.1)
        # a time that was cut to the millisecond before is half a millisecond early on average
        self.installed.ms += [found[type_] + 0.5 - sent_ns / 1e6 for type_, sent_ns in self._types.items()]
        self._types.clear()

    def rediscoveries(self) -> int:
        """How often the first node was told of the subscription to what comes and goes."""
        heard = [m.innermost(message) for _, _, message in told(self.federation, self.first)]
        types = [s.type or "" for put in heard if isinstance(put, m.PutSubscription) for s in put.subscription.selectors]
        return sum(type_.endswith("/DummyEntity") for type_ in types)


def _advertised(federation: LocalFederation, node: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for at_ms, _, message in told(federation, node):
        inner = m.innermost(message)
        if isinstance(inner, m.PutAdvertisement):
            names = [inner.offer.type]
        elif isinstance(inner, m.Advertise):
            names = [selector.type for selector in inner.advertisement.selectors]
        else:
            continue
        for name in names:
            if name is not None:
                found.setdefault(name.rpartition("/")[2], at_ms)
    return found


async def measure(
    federations: Mapping[int, LocalFederation], *, entities: int, rounds: int, normal: int, worst: int, seed: int
) -> dict[int, Chain]:
    """By width; `normal` and `worst` samples and as many new types as the latter, in each of some rounds."""
    async with AsyncExitStack() as stack:
        chains = {
            width: await stack.enter_async_context(Chain(federation, entities, seed)) for width, federation in federations.items()
        }
        for _ in range(rounds):
            for chain in chains.values():
                await chain.measure_normal(normal)
            for chain in chains.values():
                await chain.measure_worst(worst)
            for chain in chains.values():
                await chain.create_types(worst)
                await chain.collect_installed()
        return chains
