"""MQTT devices and a real node, with a real Mosquitto in between."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion
from tests.agents.gate import Gate, gate
from tests.agents.waiting import WAIT_S, until
from tests.mosquitto import Mosquitto
from tests.serving import serving

import hanse
from hanse.agents.mqtt_json import MqttAgent
from hanse.agents.mqtt_mapping import load_mapping, parse_mapping
from hanse.client import NodeClient

EXAMPLE = Path(__file__).parents[2] / "examples" / "agents" / "devices.toml"
GATE = "urn:ngsi-ld:Gate:3"
HALL = "urn:ngsi-ld:Warehouse:7"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as found:
        yield found


class Devices:
    """Any MQTT client that is not ours."""

    def __init__(self, port: int) -> None:
        self.heard: Queue[tuple[str, Any]] = Queue()
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.on_message = lambda _c, _u, message: self.heard.put((message.topic, json.loads(message.payload)))
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def publish(self, topic: str, payload: Any) -> None:
        raw = payload if isinstance(payload, bytes) else json.dumps(payload)
        self._client.publish(topic, raw, qos=1).wait_for_publish(WAIT_S)

    def listen(self, topic: str) -> None:
        ready: Queue[None] = Queue()
        self._client.on_subscribe = lambda *_: ready.put(None)
        self._client.subscribe(topic, qos=1)
        ready.get(timeout=WAIT_S)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


class Watched(MqttAgent):
    """Tells when the broker knows what it wants: what is published before is nobody's."""

    backoff_s = 0.02
    stop_s = 2.0

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.ready = asyncio.Event()

    async def subscribe(self) -> None:
        await super().subscribe()
        self.ready.set()


class Stage:
    def __init__(self, node: NodeClient, agent: Watched, devices: Devices, broker: Mosquitto, door: Gate) -> None:
        self.node, self.agent, self.devices, self.broker, self.door = node, agent, devices, broker, door


@asynccontextmanager
async def stage(url: str, tenant: str, **given: Any) -> AsyncIterator[Stage]:
    with Mosquitto() as broker:
        async with (
            gate(url) as door,
            hanse.connect(url, tenant=tenant) as node,
            hanse.connect(door.url, tenant=tenant) as its_node,
        ):
            await door.open()
            agent = Watched(load_mapping(EXAMPLE), broker.url, **given)
            devices = Devices(broker.port)
            running = asyncio.create_task(agent.run(its_node))
            set_up = Stage(node, agent, devices, broker, door)
            try:
                await asyncio.wait_for(agent.ready.wait(), WAIT_S)
                yield set_up
            finally:
                agent.stop()
                await asyncio.wait_for(running, WAIT_S)
                devices.close()


def test_a_message_becomes_an_entity_and_the_same_message_is_not_written_again(url: str) -> None:
    async def live() -> None:
        async with stage(url, "there") as at:
            climate = {"t": 21.5, "hum": 48, "time": "2026-05-01T12:00:00Z"}
            await asyncio.to_thread(at.devices.publish, "warehouse/7/climate", climate)
            await until(lambda: at.agent.counters.written == 1)
            assert await at.node.get(HALL, format="simplified") == {
                "id": HALL,
                "type": "Warehouse",
                "temperature": 21.5,
                "relativeHumidity": 48,
                "locatedIn": "urn:ngsi-ld:Port:heraklion",
            }
            for _ in range(3):
                await asyncio.to_thread(at.devices.publish, "warehouse/7/climate", climate)
            await until(lambda: at.agent.counters.unchanged == 3)
            await asyncio.to_thread(at.devices.publish, "warehouse/7/climate", climate | {"t": 22})
            await until(lambda: at.agent.counters.written == 2)
            assert len(await at.node.log()) == 2
            assert (await at.node.get(HALL))["temperature"] == {
                "type": "Property",
                "value": 22,
                "unitCode": "CEL",
                "observedAt": "2026-05-01T12:00:00.000Z",
            }

    asyncio.run(live())


def test_a_patch_at_the_node_becomes_a_command_on_the_topic(url: str) -> None:
    async def live() -> None:
        async with stage(url, "back") as at:
            await asyncio.to_thread(at.devices.listen, "warehouse/+/climate/set")
            climate = {"t": 21.5, "time": "2026-05-01T12:00:00Z", "set": {"target": 20}}
            await asyncio.to_thread(at.devices.publish, "warehouse/7/climate", climate)
            await until(lambda: at.agent.counters.written == 1)
            while not [kept async for kept in at.node.subscriptions()]:
                pass
            for target in (18, 20):
                await at.node.update(HALL, {"targetTemperature": target})
                heard = await asyncio.to_thread(at.devices.heard.get, timeout=WAIT_S)
                assert heard == ("warehouse/7/climate/set", {"target": target})
            # what the device itself said of its target was no command
            await until(lambda: at.agent.counters.published == 2)

    asyncio.run(live())


def test_what_cannot_be_used_is_refused_in_words(url: str) -> None:
    async def live() -> None:
        async with stage(url, "wrong") as at:
            for payload in (b"{half", b"", {"t": 1}):
                await asyncio.to_thread(at.devices.publish, "warehouse/7/climate", payload)
            await until(lambda: at.agent.counters.refused == 3)
            first, second, third = at.agent.counters.reasons
            assert first.startswith("warehouse/7/climate: the payload is not JSON")
            assert second.startswith("warehouse/7/climate: the payload is not JSON")
            assert third == "warehouse/7/climate: there is no time (observed_at) in the payload"

    asyncio.run(live())


def test_while_the_node_is_away_nothing_is_lost_within_the_bound_and_the_rest_is_counted(url: str) -> None:
    async def live() -> None:
        async with stage(url, "away", inbox_max=20) as at:
            await asyncio.to_thread(at.devices.publish, "gates/3/open", 0)
            await until(lambda: at.agent.counters.written == 1)
            await at.door.shut()
            for number in range(1, 21):
                await asyncio.to_thread(at.devices.publish, "gates/3/open", number)
            await until(lambda: at.agent.counters.received == 21)
            await until(lambda: at.agent.counters.retries > 0)
            assert at.agent.counters.written == 1
            await at.door.open()
            await until(lambda: at.agent.counters.written == 21)
            assert at.agent.counters.lost == 0
            history = await at.node.temporal(GATE, attrs="open", values=True, last=1000)
            assert [value for value, _ in history["open"]["values"]] == list(range(21))

    asyncio.run(live())


def test_beyond_the_bound_the_newest_are_kept_and_the_others_are_counted(url: str) -> None:
    async def live() -> None:
        with Mosquitto() as broker:
            async with (
                gate(url) as door,
                hanse.connect(url, tenant="beyond") as node,
                hanse.connect(door.url, tenant="beyond") as its,
            ):
                agent = Watched(load_mapping(EXAMPLE), broker.url, inbox_max=5)
                agent.line_max = 5
                devices = Devices(broker.port)
                running = asyncio.create_task(agent.run(its))
                await asyncio.wait_for(agent.ready.wait(), WAIT_S)
                number = 0
                while agent.counters.lost < 10:
                    number += 1
                    await asyncio.to_thread(devices.publish, "gates/3/open", number)
                await door.open()
                await until(lambda: agent.counters.written + agent.counters.lost == number)
                assert (await node.get(GATE, format="simplified"))["open"] == number
                agent.stop()
                counters = await asyncio.wait_for(running, WAIT_S)
                history = await node.temporal(GATE, attrs="open", values=True, last=1000)
                assert len(history["open"]["values"]) == number - counters.lost
                devices.close()

    asyncio.run(live())


def test_payloads_are_bounded_one_by_one_and_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hanse.agents.mqtt_json.INBOX_BYTES_MAX", 1000)
    agent = MqttAgent(load_mapping(EXAMPLE), "mqtt://127.0.0.1")
    agent._take("gates/1/open", b"x" * 300_000)
    assert (agent.counters.refused, agent.waiting()) == (1, 0)
    assert "300,000 bytes" in agent.counters.reasons[0]
    for _ in range(25):
        agent._take("gates/1/open", b"x" * 100)
    assert (agent.counters.lost, agent.waiting(), agent._inbox_bytes) == (15, 10, 1000)


def test_a_broker_that_is_restarted_is_found_again(url: str) -> None:
    async def live() -> None:
        async with stage(url, "restart") as at:
            at.agent.ready.clear()
            await asyncio.to_thread(at.broker.restart)
            await asyncio.wait_for(at.agent.ready.wait(), WAIT_S)
            again = Devices(at.broker.port)
            await asyncio.to_thread(again.publish, "gates/3/open", False)
            await until(lambda: at.agent.counters.written == 1)
            assert at.agent.counters.retries >= 1
            again.close()

    asyncio.run(live())


def test_a_named_agent_gets_what_came_while_it_was_away(url: str) -> None:
    named = 'client_id = "port-agent"\n' + EXAMPLE.read_text(encoding="utf-8")

    async def live() -> None:
        async with hanse.connect(url, tenant="named") as node:
            with Mosquitto() as broker:
                devices = Devices(broker.port)
                for round_ in range(2):
                    agent = Watched(parse_mapping(named, "devices.toml"), broker.url)
                    running = asyncio.create_task(agent.run(node))
                    await asyncio.wait_for(agent.ready.wait(), WAIT_S)
                    await until(lambda agent=agent, round_=round_: agent.counters.written == round_)  # type: ignore[misc]
                    agent.stop()
                    await asyncio.wait_for(running, WAIT_S)
                    await asyncio.to_thread(devices.publish, "gates/3/open", round_)
                devices.close()
            assert (await node.get(GATE, format="simplified"))["open"] == 0

    asyncio.run(live())


def test_what_came_before_the_stop_is_written(url: str) -> None:
    async def live() -> None:
        async with stage(url, "stop") as at:
            for number in range(50):
                await asyncio.to_thread(at.devices.publish, "gates/3/open", number)
            await until(lambda: at.agent.counters.received + at.agent.waiting() == 50)
        assert (at.agent.counters.written, at.agent.counters.lost) == (50, 0)

    asyncio.run(live())
