"""The embedded broker with real clients: acknowledged means committed, last values come from the node, rubbish harms nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion
from tests.node.mqtt.stand_in import Device

from hanse.node.mqtt.connection import MqttConnection, MqttMessage, MqttUnreachable, MqttVersionRefused
from hanse.node.mqtt.embedded import EmbeddedBroker
from hanse.policies import Principal


@asynccontextmanager
async def embedded(**options: Any) -> AsyncIterator[EmbeddedBroker]:
    broker = EmbeddedBroker("port/entities/", **options)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


def url(broker: EmbeddedBroker) -> str:
    return f"mqtt://127.0.0.1:{broker.port}"


@pytest.mark.parametrize("qos", [1, 2])
def test_a_device_is_acknowledged_only_after_the_node_is_through(qos: int) -> None:
    async def run() -> None:
        came, commit = asyncio.Event(), asyncio.Event()

        async def take(_: MqttMessage) -> bool:
            came.set()
            await commit.wait()
            return True

        async with embedded() as broker, Device(url(broker)) as device:
            broker.take = take
            published = device.connection.publish("port/entities/-/T/urn:x/a", b"1", qos)
            await asyncio.wait_for(came.wait(), 10)
            # something else is published and acknowledged meanwhile, so there was time to acknowledge the first
            await asyncio.wait_for(device.connection.publish("elsewhere", b"1", qos), 10)
            assert not published.done()
            commit.set()
            await asyncio.wait_for(published, 10)

    asyncio.run(run())


def test_others_hear_what_was_taken_and_not_what_was_refused() -> None:
    async def take(message: MqttMessage) -> bool:
        return message.payload != b"bad"

    async def run() -> None:
        async with embedded() as broker, Device(url(broker)) as device, Device(url(broker)) as follower:
            broker.take = take
            await follower.connection.subscribe("port/#")
            for qos in (0, 1, 2):
                await device.connection.publish("port/entities/a", b"bad", qos)
                await device.connection.publish("port/entities/a", b"%d" % qos, qos)
            await follower.hears(*(("port/entities/a", b"%d" % qos) for qos in (0, 1, 2)))
            assert ("port/entities/a", b"bad") not in follower.heard

    asyncio.run(run())


def test_last_values_come_from_the_node_and_only_to_who_asks() -> None:
    async def last_values(pattern: str, _hearer: Principal | None) -> AsyncIterator[tuple[str, bytes]]:
        if pattern == "port/entities/#":
            yield "port/entities/-/T/urn:x/a", b"7"

    async def take(_: MqttMessage) -> bool:
        return True

    async def run() -> None:
        async with embedded() as broker, Device(url(broker)) as first:
            broker.last_values = last_values
            broker.take = take
            await first.connection.publish("port/entities/-/T/urn:x/b", b"8", 1, retain=True)
            await first.connection.publish("other", b"9", 1, retain=True)
            await first.connection.subscribe("port/entities/#")
            await first.connection.subscribe("other")
            await first.hears(("port/entities/-/T/urn:x/a", b"7"), ("other", b"9"))
            assert all(message.retained for message in first.messages)
            assert ("port/entities/-/T/urn:x/b", b"8") not in first.heard
            async with Device(url(broker)) as second:
                await second.connection.subscribe("port/entities/+/T/#")
                await second.connection.subscribe("nothing")
                broker.publish("port/entities/-/T/urn:x/c", b"10")
                await second.hears(("port/entities/-/T/urn:x/c", b"10"))
                assert len(second.heard) == 1

    asyncio.run(run())


def test_a_password_is_asked_for() -> None:
    async def run() -> None:
        async with embedded(user="crane", password="gehaim") as broker:
            for wrong in ("mqtt://", "mqtt://crane:wrong@", "mqtt://other:gehaim@"):
                with pytest.raises(MqttUnreachable):
                    async with Device(f"{wrong}127.0.0.1:{broker.port}"):
                        pass
            async with Device(f"mqtt://crane:gehaim@127.0.0.1:{broker.port}") as device:
                await device.connection.publish("a", b"1", 1)

    asyncio.run(run())


def test_mqtt_5_is_refused_as_such() -> None:
    async def run() -> None:
        async with embedded() as broker:
            with pytest.raises(MqttVersionRefused):
                async with Device(url(broker), version="5"):
                    pass

    asyncio.run(run())


@pytest.mark.parametrize(
    "rubbish",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x10\xff\xff\xff\xff\xff",
        b"\x10\xff\xff\xff\x7f" + b"\0" * 100,
        b"\x10\x0c\0\x04MQTT\x04\x02\0\x3c\0\0" + b"\x30\xff\xff\xff\x7f",
        b"\x10\x0c\0\x04MQTT\x04\x02\0\x3c\0\0" + b"\x30\x03\0\x01\xff",
        b"\x10\x0c\0\x04MQTT\x04\x02\0\x3c\0\0" + b"\xf0\0" * 10,
        b"\x10\x0c\0\x04MQTT\x04\x02\0\x3c\0\0" + b"\x82\x02\0\x01",
    ],
)
def test_rubbish_harms_nobody_else(rubbish: bytes) -> None:
    async def run() -> None:
        async with embedded() as broker:
            _, writer = await asyncio.open_connection("127.0.0.1", broker.port)
            writer.write(rubbish)
            await writer.drain()
            async with Device(url(broker)) as device:
                await asyncio.wait_for(device.connection.publish("a", b"1", 1), 60)
            writer.close()
            await writer.wait_closed()

    asyncio.run(run())


def test_no_more_connections_than_are_allowed() -> None:
    async def run() -> None:
        async with embedded(connections_max=1) as broker, Device(url(broker)):
            with pytest.raises(MqttUnreachable):
                await MqttConnection(Device(url(broker)).connection.address, version="3.1.1").connect()

    asyncio.run(run())


def test_a_port_that_is_taken_is_an_error() -> None:
    async def run() -> None:
        async with embedded() as broker:
            with pytest.raises(OSError, match="in use"):
                await EmbeddedBroker("x/", port=broker.port).start()

    asyncio.run(run())


def test_a_paho_client_publishes_and_hears() -> None:
    async def run() -> None:
        taken: list[tuple[str, bytes]] = []

        async def take(message: MqttMessage) -> bool:
            taken.append((message.topic, message.payload))
            return True

        def talk(port: int) -> list[bytes]:
            heard: list[bytes] = []
            client = paho.Client(CallbackAPIVersion.VERSION2)
            client.on_message = lambda _client, _data, message: heard.append(bytes(message.payload))
            client.connect("127.0.0.1", port)
            client.subscribe("port/#", 1)
            client.loop_start()
            for number in range(20):
                client.publish("port/entities/-/T/urn:x/a", str(number), 1).wait_for_publish(10)
            client.publish("port/end", "", 1).wait_for_publish(10)
            while b"" not in heard:
                client.loop_misc()
            client.disconnect()
            client.loop_stop()
            return heard

        async with embedded() as broker:
            broker.take = take
            heard = await asyncio.to_thread(talk, broker.port)
            expected = [b"%d" % number for number in range(20)]
            assert [payload for _, payload in taken] == expected
            assert heard == [*expected, b""]

    asyncio.run(run())


def test_what_waits_for_a_client_that_is_away_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hanse.node.mqtt.embedded.AWAY_MAX", 3)

    async def run() -> None:
        async with embedded() as broker:
            async with Device(url(broker), client_id="gauge", keep_session=True) as away:
                await away.connection.subscribe("news/#", 1)
            async with Device(url(broker)) as device, Device(url(broker)) as witness:
                await witness.connection.subscribe("news/#", 1)
                for number in range(5):
                    await device.connection.publish(f"news/{number}", b"x", 1)
                await witness.hears(*((f"news/{number}", b"x") for number in range(5)))
            async with Device(url(broker), client_id="gauge", keep_session=True) as back:
                await back.hears(*((f"news/{number}", b"x") for number in (2, 3, 4)))
                assert len(back.heard) == 3
            assert broker.dropped == 2

    asyncio.run(run())
