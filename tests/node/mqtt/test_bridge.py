"""What devices publish becomes entities, what changes is published: through a real Mosquitto and through the embedded broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import msgspec
import pytest
from tests.mosquitto import Mosquitto
from tests.node.mqtt.stand_in import PORT_CONTEXT, Device, Node, Tenant, devices

from hanse.ngsild import operations
from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import Entity, now_text
from hanse.ngsild.errors import TooManyPending
from hanse.ngsild.parsing import parse_entity, parse_fragment
from hanse.node.mqtt.bridge import MqttDevices

CRANE = "port/entities/-/Crane/urn:x:7"
BROKERS = ("mosquitto", "mosquitto 3.1.1", "embedded")

Scene = Callable[[str, Node, MqttDevices], Awaitable[None]]


@asynccontextmanager
async def old_protocol(port: int) -> AsyncIterator[str]:
    """In front of Mosquitto: turns away who speaks MQTT 5, as an old broker does."""

    writers: list[asyncio.StreamWriter] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        hello = await reader.read(65536)
        if hello[8:9] == b"\x04":
            back, forth = await asyncio.open_connection("127.0.0.1", port)
            writers.append(forth)
            forth.write(hello)
            await asyncio.gather(pump(reader, forth), pump(back, writer))
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"mqtt://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


def play(kind: str, scene: Scene, **options: object) -> None:
    async def with_embedded() -> None:
        node = Node(port=0)
        async with devices(node, **options) as bridge:
            await scene(f"mqtt://127.0.0.1:{bridge.port}", node, bridge)

    async def with_mosquitto(url: str, bridge_url: str) -> None:
        node = Node(url=bridge_url)
        async with devices(node, **options) as bridge:
            await ready(bridge)
            await scene(url, node, bridge)

    async def with_old_mosquitto(broker: Mosquitto) -> None:
        async with old_protocol(broker.port) as bridge_url:
            await with_mosquitto(broker.url, bridge_url)

    if kind == "embedded":
        asyncio.run(with_embedded())
        return
    with Mosquitto() as broker:
        asyncio.run(with_old_mosquitto(broker) if kind.endswith("3.1.1") else with_mosquitto(broker.url, broker.url))


async def ready(bridge: MqttDevices) -> None:
    await asyncio.wait_for(bridge.ready.wait(), 10)


def by_http(tenant: Tenant, body: dict[str, object]) -> None:
    """What an HTTP request would do."""
    now = now_text()

    def operation(old: Entity | None) -> object:
        if old is None:
            return operations.create(parse_entity(body, CORE, now), now)
        return operations.append(old, parse_fragment(body, CORE, now), now)

    tenant.apply(str(body["id"]), operation, "http")


@pytest.mark.parametrize("kind", BROKERS)
def test_a_device_makes_an_entity_and_changes_it(kind: str) -> None:
    async def scene(url: str, node: Node, _: MqttDevices) -> None:
        tenant = node.tenant
        async with Device(url) as device:
            publish = device.connection.publish
            await publish(f"{CRANE}/load", b"30", 1)
            await tenant.changed(1)
            assert tenant.changes[0].kind == "created"
            await publish(f"{CRANE}/state", b'"open"', 1)
            await tenant.changed(2)
            await publish(f"{CRANE}/load", b'{"value": 31, "unitCode": "TNE"}', 0)
            await tenant.changed(3)
            await publish(f"{CRANE}/location", b'{"type": "Point", "coordinates": [8.8, 53.1]}', 2)
            await tenant.changed(4)
            await publish(CRANE, b'{"type": "Crane", "height": 40, "load": 32}', 1)
            await tenant.changed(5)
        entity = tenant.store.entities["urn:x:7"]
        assert entity.types == (CORE.expand_type("Crane"),)
        assert [tenant.value("urn:x:7", name) for name in ("load", "state", "height")] == [32, "open", 40]
        assert entity.attributes[CORE.expand_term("location")][0]["type"] == "GeoProperty"

    play(kind, scene)


@pytest.mark.parametrize("kind", BROKERS)
def test_nothing_takes_an_attribute_and_an_entity_away(kind: str) -> None:
    async def scene(url: str, node: Node, _: MqttDevices) -> None:
        tenant = node.tenant
        async with Device(url) as device:
            await device.connection.publish(CRANE, b'{"load": 1, "state": 2}', 1)
            await tenant.changed(1)
            await device.connection.publish(f"{CRANE}/load", b"", 1)
            await tenant.changed(2)
            assert list(tenant.store.entities["urn:x:7"].attributes) == [CORE.expand_term("state")]
            await device.connection.publish(CRANE, b"", 1)
            await tenant.changed(3)
            assert not tenant.store.entities

    play(kind, scene)


@pytest.mark.parametrize("kind", BROKERS)
def test_what_is_wrong_is_told_and_stops_nobody(kind: str) -> None:
    async def scene(url: str, node: Node, _bridge: MqttDevices) -> None:
        tenant = node.tenant
        wrong = [
            (f"{CRANE}/load", b"not JSON"),
            (f"{CRANE}/load/too/deep", b"1"),
            ("port/entities/-/Crane/no-uri/load", b"1"),
            (f"{CRANE}/load", b'{"type": "Relationship", "object": 3}'),
            ("port/entities/https:%2F%2Funknown.example/Crane/urn:x:7/load", b"1"),
            (CRANE, b"[1]"),
            (CRANE, b'{"type": "Ship", "load": 1}'),
            (f"{CRANE}/load", b"\xff\xfe"),
        ]
        async with Device(url) as device, Device(url) as listener:
            await listener.connection.subscribe("port/errors/#")
            for topic, payload in wrong:
                await device.connection.publish(topic, payload, 1)
            await device.connection.publish(f"{CRANE}/load", b"1", 1)
            await tenant.changed(1)
            await device.connection.publish("port/entities/-/Ship/urn:x:7/load", b"1", 1)
            await listener.hears_number(len(wrong) + 1)
        topics = [topic.replace("port/entities", "port/errors") for topic, _ in wrong] + ["port/errors/-/Ship/urn:x:7/load"]
        assert sorted(topic for topic, _ in listener.heard) == sorted(topics)
        for _, told in listener.heard:
            problem = msgspec.json.decode(told)
            assert 400 <= problem["status"] < 600
            assert problem["detail"]
            assert problem["instance"].startswith("port/entities/")
        assert len(tenant.changes) == 1

    play(kind, scene)


@pytest.mark.parametrize("kind", BROKERS)
def test_who_follows_a_topic_hears_what_changes_by_http(kind: str) -> None:
    async def scene(url: str, node: Node, _: MqttDevices) -> None:
        tenant = node.tenant
        async with Device(url) as follower:
            await follower.connection.subscribe(f"{CRANE}/#")
            by_http(tenant, {"id": "urn:x:7", "type": "Crane", "load": {"type": "Property", "value": 1}})
            await follower.hears((f"{CRANE}/load", b"1"))
            by_http(tenant, {"id": "urn:x:7", "state": {"type": "Property", "value": "open", "unitCode": "X"}})
            await follower.hears((f"{CRANE}/state", b'{"value":"open","unitCode":"X"}'))
            async with Device(url) as late:  # last values are there for who comes late
                await late.connection.subscribe("port/entities/+/Crane/#")
                await late.hears((f"{CRANE}/load", b"1"), (f"{CRANE}/state", b'{"value":"open","unitCode":"X"}'))
                assert all(message.retained for message in late.messages)
            now = now_text()
            tenant.apply("urn:x:7", lambda old: operations.delete(old, now) if old else None, "http")
            await follower.hears((f"{CRANE}/load", b""), (f"{CRANE}/state", b""))
            async with Device(url) as later:
                await later.connection.subscribe("port/entities/#")
                by_http(tenant, {"id": "urn:x:8", "type": "Crane", "load": {"type": "Property", "value": 9}})
                await later.hears(("port/entities/-/Crane/urn:x:8/load", b"9"))
                assert len(later.heard) == 1
        # the node heard nothing of what it said itself
        assert len(tenant.changes) == 4

    play(kind, scene)


@pytest.mark.parametrize("kind", BROKERS)
def test_what_a_device_publishes_is_there_for_who_comes_late(kind: str) -> None:
    async def scene(url: str, node: Node, _: MqttDevices) -> None:
        tenant = node.tenant
        async with Device(url) as device, Device(url) as follower:
            await follower.connection.subscribe("port/entities/#")
            for number in range(50):
                await device.connection.publish(f"{CRANE}/load", b"%d" % number, 1)
            await tenant.changed(50)
            await follower.hears((f"{CRANE}/load", b"49"))
            while True:  # a real broker gets the retained value a moment after the change
                async with Device(url) as late:
                    await late.connection.subscribe(f"{CRANE}/+")
                    await late.connection.publish("other", b"", 1)
                    if late.heard and late.heard[0] == (f"{CRANE}/load", b"49"):
                        break
            assert len(tenant.changes) == 50

    play(kind, scene)


@pytest.mark.parametrize("kind", BROKERS)
def test_names_in_the_context_of_the_topic(kind: str) -> None:
    async def scene(url: str, node: Node, _: MqttDevices) -> None:
        tenant = node.tenant
        topic = f"port/entities/{PORT_CONTEXT.replace('/', '%2F')}/Crane/urn:x:7"
        async with Device(url) as device, Device(url) as follower:
            await follower.connection.subscribe(f"{topic}/#")
            for number in range(5):
                await device.connection.publish(f"{topic}/load", b"%d" % number, 1)
            await tenant.changed(5)
            entity = tenant.store.entities["urn:x:7"]
            assert entity.types == ("https://port.example/Crane",)
            assert entity.attributes["https://port.example/load"][0]["value"] == 4
            by_http(tenant, {"id": "urn:x:7", "https://port.example/load": {"type": "Property", "value": 77}})
            await follower.hears((f"{topic}/load", b"77"))
            async with Device(url) as late:
                await late.connection.subscribe(f"{topic}/#")
                await late.hears((f"{topic}/load", b"77"))

    play(kind, scene)


def test_the_embedded_broker_acknowledges_after_the_commit() -> None:
    async def scene(url: str, node: Node, _: MqttDevices) -> None:
        async with Device(url) as device:
            node.tenant.hold()
            published = device.connection.publish(f"{CRANE}/load", b"1", 1)
            await node.tenant.changed(1)
            await device.connection.publish("elsewhere", b"", 1)
            assert not published.done()
            node.tenant.release()
            await asyncio.wait_for(published, 10)

    play("embedded", scene)


def test_a_real_broker_gets_our_acknowledgement_after_the_commit() -> None:
    """A node that goes away before its commit gets the message again."""

    async def run(url: str) -> None:
        first = Node(url=url)
        async with devices(first) as bridge, Device(url) as device:
            await ready(bridge)
            first.tenant.hold()
            await device.connection.publish(f"{CRANE}/load", b"1", 1)
            await first.tenant.changed(1)
        second = Node(url=url)
        async with devices(second):
            await second.tenant.changed(1)
            assert second.tenant.value("urn:x:7", "load") == 1

    with Mosquitto() as broker:
        asyncio.run(run(broker.url))


@pytest.mark.parametrize("qos", [0, 1])
def test_a_full_store_holds_up_qos_1_and_drops_qos_0(qos: int) -> None:
    async def scene(url: str, node: Node, _: MqttDevices) -> None:
        tenant = node.tenant
        tenant.full = TooManyPending("full")
        async with Device(url) as device:
            published = [device.connection.publish(f"{CRANE}/load", b"%d" % number, qos) for number in range(10)]
            await device.connection.publish("elsewhere", b"", 1)
            await device.connection.publish("elsewhere", b"", 1)
            tenant.full = None
            await asyncio.wait_for(asyncio.gather(*published), 10)
            await device.connection.publish(f"{CRANE}/end", b"1", 1)
        values = [change.after.attributes for change in tenant.changes if change.after is not None]
        if qos == 1:
            assert [value[CORE.expand_term("load")][0]["value"] for value in values[:10]] == list(range(10))
        else:
            assert len(values) < 11

    play("embedded", scene)


def test_more_than_may_be_pending_waits_its_turn() -> None:
    async def scene(url: str, node: Node, bridge: MqttDevices) -> None:
        async with Device(url) as device:
            published = [device.connection.publish(f"{CRANE}/load", b"%d" % number, 1) for number in range(100)]
            await asyncio.wait_for(asyncio.gather(*published), 10)
        assert len(node.tenant.changes) == 100
        assert node.tenant.value("urn:x:7", "load") == 99
        assert bridge.bounds()["mqtt_pending"] == (0, 3)

    play("embedded", scene, pending_max=3)


def test_a_broker_that_goes_and_comes_back() -> None:
    async def run(broker: Mosquitto) -> None:
        node = Node(url=broker.url)
        async with devices(node) as bridge:
            await ready(bridge)
            by_http(node.tenant, {"id": "urn:x:7", "type": "Crane", "load": {"type": "Property", "value": 1}})
            broker.stop()
            assert bridge.connection is not None
            await asyncio.wait_for(bridge.connection.wait_lost(), 10)
            by_http(node.tenant, {"id": "urn:x:7", "load": {"type": "Property", "value": 2}})
            by_http(node.tenant, {"id": "urn:x:7", "state": {"type": "Property", "value": 3}})
            broker.start()
            async with Device(broker.url) as device:
                await device.connection.subscribe("port/entities/#")
                await device.hears((f"{CRANE}/load", b"2"), (f"{CRANE}/state", b"3"))
                await device.connection.publish(f"{CRANE}/load", b"4", 1)
                await node.tenant.changed(4)
            assert node.tenant.value("urn:x:7", "load") == 4

    with Mosquitto() as broker:  # it keeps nothing over a restart
        asyncio.run(run(broker))


def test_a_node_can_start_before_its_broker() -> None:
    async def run(broker: Mosquitto) -> None:
        node = Node(url=broker.url)
        by_http(node.tenant, {"id": "urn:x:7", "type": "Crane", "load": {"type": "Property", "value": 1}})
        async with devices(node) as bridge:
            assert not bridge.ready.is_set()
            broker.start()
            async with Device(broker.url) as device:
                await device.connection.subscribe("port/entities/#")
                await device.hears((f"{CRANE}/load", b"1"))  # what there was before is published too

    broker = Mosquitto()
    try:
        asyncio.run(run(broker))
    finally:
        broker.__exit__()


def test_what_was_retained_before_fills_in_only_what_is_not_known() -> None:
    async def run(url: str) -> None:
        async with Device(url) as device:
            await device.connection.publish(f"{CRANE}/load", b"1", 1, retain=True)
            await device.connection.publish(f"{CRANE}/state", b"2", 1, retain=True)
        node = Node(url=url)
        by_http(node.tenant, {"id": "urn:x:7", "type": "Crane", "load": {"type": "Property", "value": 100}})
        async with devices(node):
            await node.tenant.changed(2)
            assert node.tenant.value("urn:x:7", "state") == 2
            assert node.tenant.value("urn:x:7", "load") == 100
            async with Device(url) as device:
                await device.connection.subscribe(f"{CRANE}/load")
                await device.hears((f"{CRANE}/load", b"100"))

    with Mosquitto() as broker:
        asyncio.run(run(broker.url))


def test_without_a_mirror_nothing_is_published() -> None:
    async def scene(url: str, node: Node, _: MqttDevices) -> None:
        async with Device(url) as device:
            await device.connection.subscribe("port/entities/#")
            by_http(node.tenant, {"id": "urn:x:7", "type": "Crane", "load": {"type": "Property", "value": 1}})
            await device.connection.publish(f"{CRANE}/load", b"2", 1)
            await node.tenant.changed(2)
            await device.hears((f"{CRANE}/load", b"2"))
            assert len(device.heard) == 1

    play("mosquitto", scene, mirror=False)
    play("embedded", scene, mirror=False)


def test_mqtt_can_be_switched_off() -> None:
    async def run() -> None:
        async with devices(Node(embedded=False)) as bridge:
            assert not bridge.ready.is_set()

    asyncio.run(run())
