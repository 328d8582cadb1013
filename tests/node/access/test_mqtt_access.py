"""Users of the embedded MQTT broker, what they may publish, and what everybody hears."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.node.access.town import KEY
from tests.node.mqtt.stand_in import Device

from hanse.model import InvalidInput
from hanse.ngsild.contexts import CORE
from hanse.node.access.passwords import Passwords, line_of
from hanse.node.mqtt.connection import MqttUnreachable
from hanse.node.settings import NodeSettings
from hanse.node.tenant import Node

ROOM = "port/entities/-/Room/urn:room:1"
POLICIES = """
@id("sensors") permit (principal in Role::"sensor", action == Action::"publish", resource)
when { resource.attribute != "occupancy" };
@id("wardens") permit (principal == User::"wanda", action, resource);
@id("sensors hear, about") @obfuscate("round 10") permit (principal in Role::"sensor", action == Action::"read", resource)
when { resource.attribute == "temperature" };
"""


def node_with(folder: Path) -> Node:
    (folder / "town.cedar").write_text(POLICIES, encoding="utf-8")
    users = [line_of("s1", "one", roles=("sensor",)), line_of("wanda", "two", "town"), "# a comment"]
    (folder / "users").write_text("\n".join(users), encoding="utf-8")
    settings = {
        "node": {"id": "port"},
        "mqtt": {"port": 0},
        "access": {"policies": str(folder / "town.cedar"), "key": KEY, "passwords": str(folder / "users")},
    }
    return Node(msgspec.convert(settings, NodeSettings))


async def scene(folder: Path) -> None:
    node = node_with(folder)
    await node.start()
    try:
        assert node.devices is not None
        at = f"127.0.0.1:{node.devices.port}"
        for wrong in ("", "s1:two@", "nobody:one@"):
            with pytest.raises(MqttUnreachable):
                async with Device(f"mqtt://{wrong}{at}"):
                    pass
        store = node.tenants[""].store
        async with Device(f"mqtt://s1:one@{at}") as sensor, Device(f"mqtt://wanda:two@{at}") as warden:
            await warden.connection.subscribe("port/#")
            await sensor.connection.publish(f"{ROOM}/temperature", b"17", 1)
            await warden.hears((f"{ROOM}/temperature", b"17"))  # everybody hears what he may read
            await sensor.connection.publish(f"{ROOM}/occupancy", b"5", 1)
            await warden.hears_at(f"{ROOM.replace('entities', 'errors')}/occupancy")
            await warden.connection.publish(f"{ROOM}/occupancy", b"7", 1)
            entity = store.entity("urn:room:1")
            assert entity is not None
            assert entity.attributes[CORE.expand_term("temperature")][0]["value"] == 17
            assert entity.attributes[CORE.expand_term("occupancy")][0]["value"] == 7
            async with Device(f"mqtt://s1:one@{at}") as late:
                await late.connection.subscribe("port/entities/-/Room/#")
                await late.hears((f"{ROOM}/temperature", b"20"))
                await sensor.connection.publish(f"{ROOM}/temperature", b"34", 1)
                await late.hears((f"{ROOM}/temperature", b"30"))
                await warden.hears((f"{ROOM}/temperature", b"34"), (f"{ROOM}/occupancy", b"7"))
                assert (f"{ROOM}/temperature", b"34") not in late.heard
                assert not [topic for topic, _ in late.heard if topic.endswith("occupancy")]
    finally:
        await node.stop()


def test_users_of_the_embedded_broker(tmp_path: Path) -> None:
    asyncio.run(scene(tmp_path))


async def intrusion(folder: Path) -> None:
    """Someone names himself as another's client: the session of that one stays as it is."""
    node = node_with(folder)
    await node.start()
    try:
        assert node.devices is not None
        at = f"127.0.0.1:{node.devices.port}"
        async with (
            Device(f"mqtt://wanda:two@{at}", client_id="gauge", keep_session=True) as warden,
            Device(f"mqtt://s1:one@{at}") as sensor,
        ):
            await warden.connection.subscribe(f"{ROOM}/#", 1)
            for who in ("", "wanda:wrong@", "s1:one@"):
                for keep_session in (True, False):
                    with pytest.raises(MqttUnreachable):
                        async with Device(f"mqtt://{who}{at}", client_id="gauge", keep_session=keep_session):
                            pass
            assert warden.connection.connected
            await sensor.connection.publish(f"{ROOM}/temperature", b"18", 1)
            await warden.hears((f"{ROOM}/temperature", b"18"))
    finally:
        await node.stop()


def test_a_client_is_its_users(tmp_path: Path) -> None:
    asyncio.run(intrusion(tmp_path))


async def last_will(folder: Path) -> None:
    """A last will is a publication: nobody hears of it whom the node would not tell, and nobody may say more by it."""
    node = node_with(folder)
    await node.start()
    try:
        assert node.devices is not None
        at = f"127.0.0.1:{node.devices.port}"
        store = node.tenants[""].store
        async with Device(f"mqtt://wanda:two@{at}") as warden:
            await warden.connection.subscribe("port/#")
            for number, (attribute, payload) in enumerate((("occupancy", b"99"), ("temperature", b"19"))):
                parts = (f"dying{number}".encode(), f"{ROOM}/{attribute}".encode(), payload, b"s1", b"one")
                told = b"\x00\x04MQTT\x04\xce\x00\x3c" + b"".join(len(part).to_bytes(2) + part for part in parts)
                reader, writer = await asyncio.open_connection("127.0.0.1", node.devices.port)
                writer.write(bytes((0x10, len(told))) + told)  # CONNECT, with a will of QoS 1
                assert await reader.readexactly(4) == b"\x20\x02\x00\x00"
                writer.close()  # without a word
                await writer.wait_closed()
            await warden.hears((f"{ROOM}/temperature", b"19"))
            await warden.hears_at(f"{ROOM.replace('entities', 'errors')}/occupancy")
            assert (f"{ROOM}/occupancy", b"99") not in warden.heard
            entity = store.entity("urn:room:1")
            assert entity is not None
            assert list(entity.attributes) == [CORE.expand_term("temperature")]
    finally:
        await node.stop()


def test_a_last_will_is_a_publication(tmp_path: Path) -> None:
    asyncio.run(last_will(tmp_path))


def test_passwords_are_salted_and_checked(tmp_path: Path) -> None:
    one, two = line_of("a", "secret", "town", ("x", "y")), line_of("a", "secret", "town", ("x", "y"))
    assert one != two
    assert "secret" not in one
    file = tmp_path / "users"
    file.write_text(one, encoding="utf-8")
    known = Passwords(str(file))

    async def ask() -> None:
        principal = await known.principal("a", "secret")
        assert principal is not None
        assert (principal.id, principal.community, principal.roles) == ("a", "town", ("x", "y"))
        assert await known.principal("a", "secret") == principal  # remembered
        assert await known.principal("a", "Secret") is None
        assert await known.principal("b", "secret") is None
        assert await known.principal("a", "x" * 2000) is None

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a:b", "line 1: this is no user"),
        ("a:::md5$AA==$AA==", "no user"),
        ("a:::scrypt$*$*", "no user"),
        ("{0}\n{0}", "line 2: there is a user 'a'"),
    ],
)
def test_files_that_cannot_be_used_are_refused(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "users"
    file.write_text(text.format(line_of("a", "b")) if "{0}" in text else text, encoding="utf-8")
    with pytest.raises(InvalidInput, match=complaint):
        Passwords(str(file))


@pytest.mark.parametrize(("user", "password"), [("a:b", "x"), ("a b", "x"), ("", "x"), ("a", ""), ("a", "x" * 2000)])
def test_names_and_passwords_that_cannot_be_kept_are_refused(user: str, password: str) -> None:
    with pytest.raises(InvalidInput):
        line_of(user, password)
