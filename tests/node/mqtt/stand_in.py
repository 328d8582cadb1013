"""A node with nothing but one tenant in memory, whose commits a test can hold back; and a device."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

from msgspec import Struct

from hanse.ngsild.contexts import CORE, Context, compile_context
from hanse.ngsild.entity import Change, Entity
from hanse.ngsild.errors import LdContextNotAvailable
from hanse.ngsild.operations import Outcome
from hanse.ngsild.query import EntityQuery, matches
from hanse.node.mqtt.address import parse_mqtt_url
from hanse.node.mqtt.bridge import MqttDevices
from hanse.node.mqtt.connection import MqttConnection, MqttMessage
from hanse.node.settings import MqttSection, NodeSection, NodeSettings

PORT_CONTEXT = "https://port.example/context.jsonld"


class Applied(Struct):
    result: Any
    change: Change | None
    committed: asyncio.Future[None] | None


class Found(Struct):
    entities: list[Entity]


class Store:
    def __init__(self) -> None:
        self.entities: dict[str, Entity] = {}

    def entity(self, id_: str) -> Entity | None:
        return self.entities.get(id_)

    async def query(self, query: EntityQuery) -> Found:
        found = [entity for entity in self.entities.values() if matches(query, entity)]
        return Found(found[query.offset : query.offset + query.limit])


class Contexts:
    def __init__(self) -> None:
        self.known = {PORT_CONTEXT: compile_context({"Crane": "https://port.example/Crane", "load": "https://port.example/load"})}
        self.resolved: set[str] = set()

    def resolve_now(self, source: Any) -> Context | None:
        return self.known.get(source) if source in self.resolved else None

    async def resolve(self, source: Any) -> Context:
        await asyncio.sleep(0)
        if source not in self.known:
            raise LdContextNotAvailable(f"{source} cannot be had")
        self.resolved.add(source)
        return self.known[source]


class Tenant:
    def __init__(self) -> None:
        self.store = Store()
        self.contexts = Contexts()
        self.on_change: list[Callable[[Change], None]] = []
        self.changes: list[Change] = []
        self.full: Exception | None = None
        self._gate = asyncio.Event()
        self._gate.set()
        self._news = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def hold(self) -> None:
        self._gate.clear()

    def release(self) -> None:
        self._gate.set()

    def apply(self, id_: str, operation: Callable[[Entity | None], Any], _name: str) -> Applied:
        if self.full is not None:
            raise self.full
        result = operation(self.store.entities.get(id_))
        change = result.change if isinstance(result, Outcome) else result
        if change is None:
            return Applied(result, None, None)
        if change.after is None:
            del self.store.entities[id_]
        else:
            self.store.entities[id_] = change.after
        self.changes.append(change)
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        committed.add_done_callback(lambda _: [tell(change) for tell in self.on_change])
        task = asyncio.create_task(self._commit(committed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return Applied(result, change, committed)

    async def _commit(self, committed: asyncio.Future[None]) -> None:
        async with self._news:
            self._news.notify_all()
        await self._gate.wait()
        if not committed.done():
            committed.set_result(None)

    async def changed(self, number: int) -> None:
        """Wait until there were so many changes."""
        async with self._news:
            await asyncio.wait_for(self._news.wait_for(lambda: len(self.changes) >= number), 10)

    def value(self, id_: str, name: str) -> Any:
        return self.store.entities[id_].attributes[CORE.expand_term(name)][0]["value"]


class Node:
    def __init__(self, **mqtt: Any) -> None:
        self.access = None  # no policies
        self.settings = NodeSettings(node=NodeSection(id="port"), mqtt=MqttSection(**mqtt))
        self.tenants: dict[str, Any] = {"": Tenant()}

    @property
    def tenant(self) -> Tenant:
        found: Tenant = self.tenants[""]
        return found


@asynccontextmanager
async def devices(node: Node, **options: Any) -> AsyncIterator[MqttDevices]:
    bridge = MqttDevices(node, **options)  # type: ignore[arg-type]
    await bridge.start()
    try:
        yield bridge
    finally:
        await bridge.stop()


class Device:
    """A client that remembers what it has heard."""

    def __init__(self, url: str, **options: Any) -> None:
        self.heard: list[tuple[str, bytes]] = []
        self.messages: list[MqttMessage] = []
        self._news = asyncio.Condition()
        self.connection = MqttConnection(parse_mqtt_url(url)[0], on_message=self._hear, **{"version": "3.1.1"} | options)

    async def _hear(self, message: MqttMessage) -> None:
        async with self._news:
            self.heard.append((message.topic, message.payload))
            self.messages.append(message)
            self._news.notify_all()

    async def hears(self, *expected: tuple[str, bytes]) -> None:
        """Wait until it has heard all of these."""
        async with self._news:
            await asyncio.wait_for(self._news.wait_for(lambda: set(expected) <= set(self.heard)), 10)

    async def hears_at(self, topic: str) -> None:
        async with self._news:
            await asyncio.wait_for(self._news.wait_for(lambda: any(heard == topic for heard, _ in self.heard)), 10)

    async def hears_number(self, number: int) -> None:
        async with self._news:
            await asyncio.wait_for(self._news.wait_for(lambda: len(self.heard) >= number), 10)

    async def __aenter__(self) -> Self:
        await self.connection.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.connection.close()
