"""Letters through a real Mosquitto: versions, QoS, users, topics, a broker that goes and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.mosquitto import Mosquitto

from hanse.model.ports import free_port
from hanse.ngsild.notifications import Letter
from hanse.node.mqtt.address import parse_mqtt_url
from hanse.node.mqtt.connection import MqttConnection, MqttMessage
from hanse.node.notifier.mqtt import MqttSender
from hanse.node.notifier.queue import SendingFailed

WAIT_S = 60.0


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


@asynccontextmanager
async def sender() -> Any:
    made = MqttSender(5.0)
    try:
        yield made
    finally:
        await made.close()


@asynccontextmanager
async def listening(url: str, topic: str) -> Any:
    got: asyncio.Queue[MqttMessage] = asyncio.Queue()

    async def take(message: MqttMessage) -> None:
        got.put_nowait(message)

    connection = MqttConnection(parse_mqtt_url(url)[0], on_message=take)
    await connection.connect()
    await connection.subscribe(topic, qos=2)
    try:
        yield got
    finally:
        await connection.close()


@pytest.mark.parametrize("version", ["", "5", "3.1.1"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_letter_arrives(version: str, qos: int) -> None:
    async def test() -> None:
        with Mosquitto() as broker:
            async with sender() as by, listening(broker.url, "#") as got:
                await by.send(Letter(f"{broker.url}/a/b%20c", b'{"x":1}', mqtt_version=version, mqtt_qos=qos))
                message = await asyncio.wait_for(got.get(), WAIT_S)
                assert (message.topic, message.payload, message.qos) == ("a/b c", b'{"x":1}', qos)

    run(test)


def test_many_letters_share_one_connection() -> None:
    async def test() -> None:
        with Mosquitto() as broker:
            async with sender() as by, listening(broker.url, "t/#") as got:
                letters = [Letter(f"{broker.url}/t/{n % 7}", b"%d" % n, mqtt_qos=n % 3) for n in range(300)]
                await asyncio.gather(*map(by.send, letters))
                bodies = {(await asyncio.wait_for(got.get(), WAIT_S)).payload for _ in letters}
                assert bodies == {letter.body for letter in letters}
                assert broker.log.count("New client connected") == 2

    run(test)


def test_users_have_connections_of_their_own(tmp_path: Path) -> None:
    async def test() -> None:
        passwords = tmp_path / "passwords"
        passwords.write_text("")
        with Mosquitto() as broker:
            async with sender() as by, listening(broker.url, "t") as got:
                for user in ("", "anna@", "bert:secret@"):
                    await by.send(Letter(broker.url.replace("//", f"//{user}") + "/t", user.encode(), mqtt_qos=1))
                    assert (await asyncio.wait_for(got.get(), WAIT_S)).payload == user.encode()
                assert broker.log.count("New client connected") == 4

    run(test)


def test_a_broker_that_was_restarted_is_found_again_at_once() -> None:
    async def test() -> None:
        with Mosquitto() as broker:
            async with sender() as by:
                await by.send(Letter(f"{broker.url}/t", b"before", mqtt_qos=1))
                broker.restart()
                async with listening(broker.url, "t") as got:
                    await by.send(Letter(f"{broker.url}/t", b"after", mqtt_qos=1))
                    assert (await asyncio.wait_for(got.get(), WAIT_S)).payload == b"after"

    run(test)


def test_a_broker_that_is_not_there_is_said_so() -> None:
    async def test() -> None:
        async with sender() as by:
            with pytest.raises(SendingFailed, match="cannot be reached") as failed:
                await by.send(Letter(f"mqtt://127.0.0.1:{free_port()}/t", b"x"))
            assert not failed.value.is_final
            with pytest.raises(SendingFailed) as failed:
                await by.send(Letter("mqtt://127.0.0.1/a/#/b", b"x"))
            assert failed.value.is_final

    run(test)


def test_a_broker_that_says_nothing_is_given_up() -> None:
    async def test() -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, sender() as by:
            with pytest.raises(SendingFailed, match="does not"):
                await by.send(Letter(f"mqtt://127.0.0.1:{port}/t", b"x", timeout_s=0.1))

    run(test)
