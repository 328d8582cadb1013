"""A connection to a real broker: what is acknowledged, what fails, and what comes back after a restart."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mosquitto import Mosquitto

from hanse.model.ports import free_port
from hanse.ngsild.errors import BadRequestData, TooManyPending
from hanse.node.mqtt.address import MqttAddress, parse_mqtt_url
from hanse.node.mqtt.connection import MqttConnection, MqttMessage, MqttUnreachable, Version


def address(url: str) -> MqttAddress:
    return parse_mqtt_url(url)[0]


@pytest.mark.parametrize(
    ("url", "expected", "topic"),
    [
        ("mqtt://broker", MqttAddress("broker"), ""),
        ("mqtt://broker:1884/a/b", MqttAddress("broker", 1884), "a/b"),
        ("mqtts://u:p%40ss@broker/t", MqttAddress("broker", 8883, tls=True, user="u", password="p@ss"), "t"),
        ("mqtt://[::1]:1883/%C3%A4", MqttAddress("::1", 1883), "ä"),
    ],
)
def test_an_address_names_broker_and_topic(url: str, expected: MqttAddress, topic: str) -> None:
    assert parse_mqtt_url(url) == (expected, topic)


@pytest.mark.parametrize(
    "url",
    [
        "http://broker",
        "mqtt://",
        "mqtt://b:99999",
        "mqtt://b:0",
        "mqtt://b/a/#",
        "mqtt://b/+",
        "mqtt://b/%FF",
        "mqtt://b/t?q",
        "x",
    ],
)
def test_a_wrong_address_is_refused(url: str) -> None:
    with pytest.raises(BadRequestData):
        parse_mqtt_url(url)


@given(st.text() | st.text().map(lambda tail: "mqtt://" + tail))
def test_whatever_is_given_as_address_only_bad_request_comes_out(url: str) -> None:
    try:
        found, _ = parse_mqtt_url(url)
    except BadRequestData:
        return
    assert found.host
    assert "\n" not in str(found)


def test_no_password_in_the_text_of_an_address() -> None:
    assert "secret" not in str(address("mqtt://u:secret@broker"))


@pytest.mark.parametrize("version", ["5", "3.1.1"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_is_published_is_acknowledged_and_received_in_order(version: Version, qos: int) -> None:
    async def run(url: str) -> None:
        received: list[bytes] = []
        all_there = asyncio.Event()

        async def take(message: MqttMessage) -> None:
            received.append(message.payload)
            if len(received) == 500:
                all_there.set()

        there = MqttConnection(address(url), version=version, on_message=take)
        here = MqttConnection(address(url), version=version, window=10)
        await there.connect()
        await there.subscribe("a/#", qos)
        await here.connect()
        published = [here.publish("a/ä", str(number), qos) for number in range(500)]
        assert qos == 0 or here.pending == 500
        await asyncio.gather(*published)
        await asyncio.wait_for(all_there.wait(), 10)
        assert received == [b"%d" % number for number in range(500)]
        assert here.pending == 0
        await here.close()
        await there.close()

    with Mosquitto("max_inflight_messages 20\nmax_queued_messages 2000") as broker:
        asyncio.run(run(broker.url))


def test_no_more_is_on_its_way_than_the_broker_allows() -> None:
    async def main(url: str) -> None:
        connection = MqttConnection(address(url), window=100, receive_max=1000)
        await connection.connect()
        try:
            sent = [connection.publish("t", b"%d" % n, 1) for n in range(500)]
            await connection.subscribe("t")  # while all that is allowed is on its way
            async with asyncio.timeout(20):
                await asyncio.gather(*sent)
        finally:
            await connection.close()

    with Mosquitto("max_inflight_messages 5") as broker:
        asyncio.run(main(broker.url))


def test_a_lost_connection_fails_what_is_not_acknowledged_and_can_be_made_again() -> None:
    async def run(broker: Mosquitto) -> None:
        connection = MqttConnection(address(broker.url))
        await connection.connect()
        await connection.publish("a", b"1", 1)
        broker.stop()
        await asyncio.wait_for(connection.wait_lost(), 10)
        assert not connection.connected
        with pytest.raises(MqttUnreachable):
            await connection.publish("a", b"2", 1)
        with pytest.raises(MqttUnreachable):
            await connection.subscribe("a")
        with pytest.raises(MqttUnreachable, match="cannot be reached"):
            await connection.connect()
        broker.start()
        await connection.connect()
        await connection.publish("a", b"3", 1)
        await connection.close()
        with pytest.raises(MqttUnreachable):
            await connection.publish("a", b"4", 1)

    with Mosquitto() as broker:
        asyncio.run(run(broker))


def test_a_handler_that_fails_loses_its_message_but_not_the_connection() -> None:
    async def run(url: str) -> None:
        done = asyncio.Event()

        async def take(message: MqttMessage) -> None:
            if message.payload == b"bad":
                raise ValueError
            done.set()

        connection = MqttConnection(address(url), on_message=take)
        await connection.connect()
        await connection.subscribe("a")
        await connection.publish("a", b"bad", 1)
        await connection.publish("a", b"good", 1)
        await asyncio.wait_for(done.wait(), 10)
        await connection.close()

    with Mosquitto() as broker:
        asyncio.run(run(broker.url))


def test_a_kept_session_gets_again_what_its_handler_had_not_finished() -> None:
    async def run(url: str) -> None:
        first_came, again = asyncio.Event(), asyncio.Event()

        async def never(_: MqttMessage) -> None:
            first_came.set()
            await asyncio.Event().wait()

        async def take(_: MqttMessage) -> None:
            again.set()

        first = MqttConnection(address(url), client_id="node", keep_session=True, on_message=never)
        await first.connect()
        await first.subscribe("a")
        await first.publish("a", b"1", 1)
        await asyncio.wait_for(first_came.wait(), 10)
        await first.close()
        second = MqttConnection(address(url), client_id="node", keep_session=True, on_message=take)
        await second.connect()
        await asyncio.wait_for(again.wait(), 10)
        await second.close()

    with Mosquitto() as broker:
        asyncio.run(run(broker.url))


def test_wrong_credentials_a_dead_port_and_a_silent_peer_are_told_apart() -> None:
    async def run(broker: Mosquitto) -> None:
        with pytest.raises(MqttUnreachable, match=r"(?i)authori|password"):
            await MqttConnection(address(broker.url)).connect()
        with pytest.raises(MqttUnreachable, match="cannot be reached"):
            await MqttConnection(address(f"mqtt://127.0.0.1:{free_port()}")).connect()
        silent_ones: list[asyncio.StreamWriter] = []
        silent = await asyncio.start_server(lambda _reader, writer: silent_ones.append(writer), "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        with pytest.raises(MqttUnreachable, match="does not answer"):
            await MqttConnection(address(f"mqtt://127.0.0.1:{port}"), timeout_s=0.1).connect()
        silent_ones[0].close()
        silent.close()
        closing = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
        port = closing.sockets[0].getsockname()[1]
        with pytest.raises(MqttUnreachable, match="closes"):
            await MqttConnection(address(f"mqtt://127.0.0.1:{port}")).connect()
        closing.close()

    with Mosquitto("listener {port} 127.0.0.1\nallow_anonymous false", listener=False) as broker:
        asyncio.run(run(broker))


def test_a_full_line_and_a_wrong_topic_are_refused() -> None:
    async def run(url: str) -> None:
        connection = MqttConnection(address(url), window=1, queue_max=2)
        await connection.connect()
        published = [connection.publish("a", b"x", 1) for _ in range(4)]
        results = await asyncio.gather(*published, return_exceptions=True)
        assert [type(result) for result in results] == [type(None)] * 3 + [TooManyPending]
        with pytest.raises(BadRequestData):
            connection.publish("a/#", b"x")
        await connection.close()

    with Mosquitto() as broker:
        asyncio.run(run(broker.url))


def test_tls_needs_a_certificate_that_is_trusted(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )

    async def run(port: int) -> None:
        where = address(f"mqtts://crane:gehaim@127.0.0.1:{port}")
        with pytest.raises(MqttUnreachable, match="certificate"):
            await MqttConnection(where).connect()
        trusting = MqttConnection(where, tls=ssl.create_default_context(cafile=str(certificate)))
        await trusting.connect()
        await asyncio.wait_for(trusting.publish("a", b"1", 1), 60)
        await trusting.close()

    config = f"listener {{port}} 127.0.0.1\nallow_anonymous true\ncertfile {certificate}\nkeyfile {key}"
    with Mosquitto(config, listener=False) as broker:
        asyncio.run(run(broker.port))
