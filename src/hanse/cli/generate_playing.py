"""Entities and what devices say, sent to a node by HTTP or by MQTT, at the moments at which they are said.

What one device says is sent in order. A node that is too slow for it does not delay the clock: what could not be sent by the end
is left out, and counted.
"""

from __future__ import annotations

import asyncio
import zlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
from msgspec import Struct

import hanse
from hanse.agents.base import PlatformAway
from hanse.agents.mqtt_client import MqttClient, parse_address
from hanse.client.errors import NgsiLdClientError
from hanse.client.node import NodeClient
from hanse.model.errors import InvalidInput
from hanse.node.mqtt.mapping import Place, Topics
from hanse.simulation.smart_port import DEVICE, Made, Message

BATCH: Final = 500
SENDERS: Final = 16  # requests, or publications, under way at a time
REASONS_MAX: Final = 3


class Played(Struct):
    """What was sent, what was refused, and what there was no time for."""

    to: str
    entities: int = 0
    messages: int = 0
    message_bytes: int = 0
    refused: int = 0
    unsent: int = 0
    seconds: float = 0.0
    latest_ms: float = 0.0
    reasons: list[str] = []

    def refuse(self, reason: str) -> None:
        self.refused += 1
        if len(self.reasons) < REASONS_MAX and reason not in self.reasons:
            self.reasons.append(reason)

    def __str__(self) -> str:
        rate = self.messages / self.seconds if self.seconds else 0.0
        text = (
            f"sent to {self.to}: {self.entities} entities, then {self.messages} messages ({self.message_bytes:,} bytes) "
            f"in {self.seconds:.1f} s, {rate:.1f} a second, at most {self.latest_ms:.0f} ms late"
        )
        if self.unsent:
            text += f"; {self.unsent} could not be sent in time"
        if self.refused:
            text += f"; {self.refused} refused: {'; '.join(self.reasons)}"
        return text


class Way(ABC):
    """A way to a node: sends, and raises NgsiLdClientError or PlatformAway if that did not go well."""

    @abstractmethod
    async def create(self, entities: Sequence[dict[str, Any]], played: Played) -> None: ...

    @abstractmethod
    async def tell(self, id_: str, body: bytes) -> None: ...


class Http(Way):
    def __init__(self, node: NodeClient) -> None:
        self._node = node

    async def create(self, entities: Sequence[dict[str, Any]], played: Played) -> None:
        result = await self._node.upsert(entities)
        played.entities += len(result.success)
        for error in result.errors:
            problem = error.get("error")
            played.refuse(str(problem.get("detail") or problem.get("title") if isinstance(problem, dict) else problem))

    async def tell(self, id_: str, body: bytes) -> None:
        await self._node.update(id_, msgspec.Raw(body))  # type: ignore[arg-type]  # encoded once, to count its bytes


class Mqtt(Way):
    def __init__(self, client: MqttClient, area: str) -> None:
        self._client = client
        self._topics = Topics(area)

    async def create(self, entities: Sequence[dict[str, Any]], played: Played) -> None:
        await asyncio.gather(*(self._make(entity) for entity in entities))
        played.entities += len(entities)

    async def _make(self, entity: dict[str, Any]) -> None:
        attributes = {name: value for name, value in entity.items() if name not in ("id", "type")}
        await self._client.publish(self._topic(entity["type"], entity["id"]), msgspec.json.encode(attributes))

    async def tell(self, id_: str, body: bytes) -> None:
        await self._client.publish(self._topic(DEVICE, id_), body)

    def _topic(self, type_: str, id_: str) -> str:
        return self._topics.of(Place(context="", type=type_, id=id_))


@asynccontextmanager
async def way_to(url: str, *, area: str, tenant: str) -> AsyncIterator[Way]:
    if not url.startswith(("mqtt://", "mqtts://")):
        async with hanse.connect(url, tenant=tenant) as node:
            yield Http(node)
        return
    if tenant:
        raise InvalidInput("devices that speak MQTT have no tenant; send to the node by HTTP, or leave out --tenant")
    client = MqttClient(parse_address(url), lambda _topic, _message: None, lambda: None)
    try:
        await client.connect()
        yield Mqtt(client, area)
    except PlatformAway as error:
        raise NgsiLdClientError(0, {"title": str(error), "detail": "start it, or give another URL to --play"}) from error
    finally:
        await client.close()


async def play(
    entities: Sequence[Made], messages: Sequence[Message], url: str, *, seconds: float, speed: float, area: str, tenant: str
) -> Played:
    """First all entities; then, for so many seconds, each message when it is due, `speed` times as fast as they say."""
    played = Played(to=url.rpartition("@")[2])
    async with way_to(url, area=area, tenant=tenant) as way:
        for start in range(0, len(entities), BATCH):
            await way.create([made.entity for made in entities[start : start + BATCH]], played)
        lines: list[list[Message]] = [[] for _ in range(SENDERS)]
        for message in messages:
            lines[zlib.crc32(message.device.id.encode()) % SENDERS].append(message)
        clock = asyncio.get_running_loop().time
        started = clock()
        await asyncio.gather(*(_speak(way, line, played, started, seconds, speed) for line in lines))
        played.seconds = round(clock() - started, 3)
    return played


async def _speak(way: Way, line: Sequence[Message], played: Played, started: float, seconds: float, speed: float) -> None:
    """One after the other, each not before it is due, and none after the end."""
    clock = asyncio.get_running_loop().time
    for number, message in enumerate(line):
        due = started + message.at_ms / 1000 / speed
        await asyncio.sleep(max(0.0, due - clock()))
        if clock() >= started + seconds:
            played.unsent += len(line) - number
            return
        played.latest_ms = max(played.latest_ms, round((clock() - due) * 1000, 1))
        body = msgspec.json.encode(message.attributes)
        try:
            await way.tell(message.device.id, body)
        except (NgsiLdClientError, PlatformAway) as error:
            played.refuse(str(error))
        else:
            played.messages += 1
            played.message_bytes += len(body)
