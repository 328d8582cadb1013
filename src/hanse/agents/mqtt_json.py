"""The agent of plain MQTT devices that speak JSON: a mapping file says what their messages mean, and what commands they take."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

from hanse.agents.base import Agent, Call, Entity, PlatformAway, Received
from hanse.agents.forms import now_text
from hanse.agents.line import Line
from hanse.agents.mqtt_client import MqttClient, parse_address
from hanse.agents.mqtt_mapping import PAYLOAD_BYTES_MAX, DeviceMapping, commands_of, decode_payload
from hanse.model.errors import InvalidInput

INBOX_MAX: Final = 10_000  # messages that wait; the oldest makes room and is counted as lost
INBOX_BYTES_MAX: Final = 64 << 20  # ... and their payloads together


class MqttAgent(Agent):
    def __init__(self, mapping: DeviceMapping, broker: str, *, inbox_max: int = INBOX_MAX) -> None:
        super().__init__()
        self._mapping = mapping
        self._inbox: Line[Received] = Line(inbox_max)
        self._inbox_bytes = 0
        self._client = MqttClient(parse_address(broker), self._take, self._inbox.nudge, client_id=mapping.client_id)

    def _take(self, topic: str, payload: bytes) -> None:
        if len(payload) > PAYLOAD_BYTES_MAX:  # not even kept
            self.counters.received += 1
            self.refuse(f"{topic[:100]}: the payload has {len(payload):,} bytes; {PAYLOAD_BYTES_MAX:,} are allowed")
            return
        self._inbox_bytes += len(payload)
        lost = self._inbox.push(Received((topic, payload), now_text()))
        while self._inbox_bytes - _size(lost) > INBOX_BYTES_MAX:
            lost.append(self._inbox.drop())
        self._inbox_bytes -= _size(lost)
        self.counters.lost += len(lost)

    async def connect(self) -> None:
        await self._client.connect()

    async def subscribe(self) -> None:
        for topic in dict.fromkeys(device.filter for device in self._mapping.devices):
            await self._client.subscribe(topic)

    async def receive(self) -> AsyncIterator[Received]:
        """What the broker sends, until the connection is lost; what came before that is given out all the same."""
        while True:
            found = await self._inbox.take(1)
            if found:
                self._inbox_bytes -= _size(found)
                yield found[0]
            elif self._inbox.closed:
                return
            else:
                raise PlatformAway("the connection to the broker is lost")

    def adapt(self, received: Received) -> Iterable[Entity]:
        topic, raw = received.source
        try:
            payload = decode_payload(raw)
        except InvalidInput as error:
            raise error.at(topic[:100]) from error
        for device in self._mapping.devices:
            try:
                entity = device.read(topic, payload, received.at)
            except InvalidInput as error:
                self.refuse(error.at(topic[:100]))
                continue
            if entity is not None:
                yield entity

    def interests(self) -> Iterable[dict[str, Any]]:
        """One subscription for each command, so that a notification says which attribute it is about."""
        for type_, name in commands_of(self._mapping):
            yield {"type": type_, "watched": [name], "notification": {"attributes": [name]}}

    def translate(self, entity: Entity) -> Iterable[Call]:
        for name, attribute in entity.items():
            if not isinstance(attribute, dict):
                continue
            value = attribute.get("value", attribute.get("object"))
            for device in self._mapping.devices:
                call = device.command(name, str(entity["id"]), value)
                if call is not None:
                    yield call

    async def publish(self, topic: str, message: bytes) -> None:
        await self._client.publish(topic, message)

    async def disconnect(self) -> None:
        await self._client.close()

    async def finish(self) -> bool:
        await self._client.close()
        self._inbox.close()
        return True

    def waiting(self) -> int:
        return len(self._inbox)


def _size(messages: Iterable[Received]) -> int:
    return sum(len(message.source[1]) for message in messages)
