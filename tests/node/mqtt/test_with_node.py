"""The bridge in a real node: what a device publishes is in the store when it is acknowledged."""

from __future__ import annotations

import asyncio

from tests.mosquitto import Mosquitto
from tests.node.mqtt.stand_in import Device

from hanse.ngsild.contexts import CORE
from hanse.node.mqtt.bridge import MqttDevices
from hanse.node.settings import MqttSection, NodeSection, NodeSettings
from hanse.node.tenant import Node

CRANE = "port/entities/-/Crane/urn:x:7"


async def scene(mqtt: MqttSection, url: str = "") -> None:
    node = Node(NodeSettings(node=NodeSection(id="port"), mqtt=mqtt))
    await node.start()
    bridge = MqttDevices(node)
    await bridge.start()
    try:
        await asyncio.wait_for(bridge.ready.wait(), 10)
        store = node.tenants[""].store
        where = url or f"mqtt://127.0.0.1:{bridge.port}"
        async with Device(where) as device, Device(where) as follower:
            await follower.connection.subscribe("port/#")
            await device.connection.publish(f"{CRANE}/load", b"3", 1)
            if not url:  # acknowledged by the node itself
                entity = store.entity("urn:x:7")
                assert entity is not None
                assert entity.attributes[CORE.expand_term("load")][0]["value"] == 3
            await device.connection.publish(f"{CRANE}/load", b"?", 1)
            await follower.hears((f"{CRANE}/load", b"3"))
            await follower.hears_at(f"{CRANE.replace('entities', 'errors')}/load")
            if not url:  # too large for the broker itself: refused, not left without an acknowledgement
                await asyncio.wait_for(device.connection.publish(f"{CRANE}/size", b"[" * 3_000_000, 1), 60)
                await follower.hears_at(f"{CRANE.replace('entities', 'errors')}/size")
            async with Device(where) as late:
                await late.connection.subscribe("port/entities/-/Crane/#")
                await late.hears((f"{CRANE}/load", b"3"))
    finally:
        await bridge.stop()
        await node.stop()


def test_through_the_embedded_broker() -> None:
    asyncio.run(scene(MqttSection(port=0)))


def test_through_mosquitto() -> None:
    with Mosquitto() as broker:
        asyncio.run(scene(MqttSection(url=broker.url), broker.url))
