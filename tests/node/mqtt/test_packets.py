"""A client of the embedded broker that is wrong, slow or gone: its packets harm nobody, and no client waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.node.mqtt.stand_in import Device

from hanse.node.metrics import METRICS
from hanse.node.mqtt.connection import MqttMessage
from hanse.node.mqtt.embedded import EmbeddedBroker
from hanse.node.mqtt.packets import PACKET_BYTES_MAX, Frame, Frames, NotMqttError, parsed

PATIENCE_S = 20
CONNACK = b"\x20\x02\0\0"
TOPIC = b"port/entities/-/T/urn:x/a"


def packet(first: int, body: bytes) -> bytes:
    length, rest = b"", len(body)
    while True:
        length += bytes([rest % 128 | (0x80 if rest >= 128 else 0)])
        rest //= 128
        if not rest:
            return bytes([first]) + length + body


def hello(name: bytes = b"raw", keep_alive: int = 60) -> bytes:
    return packet(0x10, b"\0\x04MQTT\x04\x02" + keep_alive.to_bytes(2, "big") + len(name).to_bytes(2, "big") + name)


def publication(topic: bytes, payload: bytes, qos: int = 0, number: int = 1) -> bytes:
    return packet(0x30 | qos << 1, len(topic).to_bytes(2, "big") + topic + (number.to_bytes(2, "big") if qos else b"") + payload)


class Raw:
    """A client that sends any bytes, and what the node took."""

    def __init__(self, broker: EmbeddedBroker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.broker = broker
        self.reader = reader
        self.writer = writer
        self.taken: list[tuple[str, bytes]] = []
        self.refused: list[tuple[str, int]] = []

    async def take(self, message: MqttMessage) -> bool:
        self.taken.append((message.topic, message.payload))
        return True

    async def says(self, *packets: bytes) -> None:
        self.writer.write(b"".join(packets))
        await self.writer.drain()

    async def hears(self, expected: bytes) -> None:
        assert await asyncio.wait_for(self.reader.readexactly(len(expected)), PATIENCE_S) == expected

    async def is_cut_off(self) -> bytes:
        """What came until then."""
        return await asyncio.wait_for(self.reader.read(), PATIENCE_S)


@asynccontextmanager
async def raw(*, keep_alive: int = 60) -> AsyncIterator[Raw]:
    broker = EmbeddedBroker("port/entities/")
    await broker.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    client = Raw(broker, reader, writer)
    broker.take = client.take
    broker.refuse = lambda topic, size: client.refused.append((topic, size))
    try:
        await client.says(hello(keep_alive=keep_alive))
        await client.hears(CONNACK)
        yield client
    finally:
        writer.close()
        await broker.stop()


def malformed() -> int:
    return METRICS._counts["mqtt_messages", "malformed"]


@pytest.mark.parametrize("topic", [TOPIC, b"elsewhere"])
def test_what_is_too_large_is_refused_and_acknowledged_and_its_payload_is_not_read_as_packets(topic: bytes) -> None:
    async def run() -> None:
        smuggled = publication(b"port/entities/-/T/urn:x/smuggled", b"1")
        payload = smuggled * (PACKET_BYTES_MAX // len(smuggled) + 1)
        async with raw() as client:
            for qos in (0, 1, 2):
                await client.says(publication(topic, payload, qos, 7))
            await client.hears(b"\x40\x02\0\x07")
            await client.hears(b"\x50\x02\0\x07")
            await client.says(b"\x62\x02\0\x07", publication(TOPIC, b"3", 1, 8))
            await client.hears(b"\x70\x02\0\x07" + b"\x40\x02\0\x08")
            assert client.taken == [(TOPIC.decode(), b"3")]
            assert [told for told, _ in client.refused] == ([TOPIC.decode()] * 3 if topic == TOPIC else [])

    asyncio.run(run())


@pytest.mark.parametrize(
    "wrong",
    [
        publication(TOPIC, b"1", 3),
        publication(b"a/#", publication(TOPIC, b"smuggled")),
        publication(b"", b"1"),
        publication(b"$SYS/a", b"1"),
        hello(),
        CONNACK,
        b"\xf0\0",
        packet(0x82, b"\0\x01"),
        packet(0x82, b"\0\x01\0\x01a\x09"),
        packet(0x82, b"\0\x01\0\x09a"),
        packet(0x62, b"\0\x01\0"),
        b"\x30\xff\xff\xff\xff\x01",
        packet(0x82, b"x" * (PACKET_BYTES_MAX + 1))[:10],
    ],
)
def test_what_is_no_mqtt_ends_the_connection_with_one_line(wrong: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        before = malformed()
        async with raw() as client:
            with capture_logs() as lines:
                await client.says(wrong, publication(TOPIC, b"after"))
                assert await client.is_cut_off() == b""
            assert [line["log_level"] for line in lines] == ["warning"]
            assert lines[0]["client"] == "raw"
            assert malformed() == before + 1
            assert client.taken == []

    asyncio.run(run())
    assert not caplog.records


def test_a_publication_that_fails_ends_the_connection_so_that_it_is_sent_again() -> None:
    async def run(qos: int) -> None:
        async with raw() as client:
            attempts = 0

            async def take(_: MqttMessage) -> bool:
                nonlocal attempts
                attempts += 1
                if attempts == 1:
                    raise ZeroDivisionError
                return True

            client.broker.take = take
            with capture_logs() as lines:
                await client.says(publication(TOPIC, b"1", qos))
                assert await client.is_cut_off() == b""
            assert [line["log_level"] for line in lines] == ["error"]
            async with Device(f"mqtt://127.0.0.1:{client.broker.port}") as device:
                await asyncio.wait_for(device.connection.publish(TOPIC.decode(), b"1", qos), PATIENCE_S)
            assert attempts == 2

    for qos in (1, 2):
        asyncio.run(run(qos))


def test_qos_2_is_taken_once_and_every_release_is_answered() -> None:
    async def run() -> None:
        async with raw() as client:
            await client.says(b"\x62\x02\0\x63")  # of a connection that the broker has forgotten
            await client.hears(b"\x70\x02\0\x63")
            for _ in range(2):
                await client.says(publication(TOPIC, b"1", 2, 5))
                await client.hears(b"\x50\x02\0\x05")
            assert client.taken == [(TOPIC.decode(), b"1")]
            await client.says(b"\x62\x02\0\x05", publication(TOPIC, b"2", 2, 5))
            await client.hears(b"\x70\x02\0\x05" + b"\x50\x02\0\x05")
            assert [payload for _, payload in client.taken] == [b"1", b"2"]

    asyncio.run(run())


@pytest.mark.parametrize("topic", [TOPIC, b"port/elsewhere"])
def test_what_was_said_before_goodbye_is_heard(topic: bytes) -> None:
    async def run() -> None:
        async with raw() as client, Device(f"mqtt://127.0.0.1:{client.broker.port}") as follower:
            await follower.connection.subscribe("port/#")
            said = [publication(topic, b"%d" % n, n % 3, n + 1) for n in range(30)]
            await client.says(*said, b"\xe0\0")
            await follower.hears(*((topic.decode(), b"%d" % n) for n in range(30)))

    asyncio.run(run())


def test_a_client_that_says_nothing_is_gone() -> None:
    async def run() -> None:
        async with raw(keep_alive=1) as client:
            assert await client.is_cut_off() == b""

    asyncio.run(run())


_kinds = st.integers(0, 255)


@given(
    _kinds,
    st.binary(max_size=40)
    | st.builds(lambda a, b: a + b, st.sampled_from([b"\0\x01a\0\x01", b"\0\x01\0\x01a"]), st.binary(max_size=4)),
)
def test_any_bytes_are_a_packet_or_refused(first: int, body: bytes) -> None:
    async def run() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(packet(first, body))
        reader.feed_eof()
        frame = await Frames(reader).next(None)
        assert frame == Frame(first, len(body), body)
        assert frame.whole() == packet(first, body)
        with suppress(NotMqttError):
            await parsed(frame)

    asyncio.run(run())
