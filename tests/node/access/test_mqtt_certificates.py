"""TLS of the embedded broker, and clients that are known by their certificates."""

from __future__ import annotations

import asyncio
import ssl
import threading
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import msgspec
import paho.mqtt.client as paho
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from paho.mqtt.enums import CallbackAPIVersion
from tests.node.access.town import KEY

from hanse.model import InvalidInput
from hanse.ngsild.contexts import CORE
from hanse.node.access.passwords import line_of
from hanse.node.settings import NodeSettings
from hanse.node.tenant import Node

WAIT_S = 60
ROOM = "port/entities/-/Room/urn:room:1"
POLICIES = """
permit (principal == User::"gauge-1", action == Action::"publish", resource) when { principal in Community::"town" };
permit (principal in Role::"warden", action == Action::"read", resource);
permit (principal == User::"s1", action == Action::"publish", resource);
"""


class Authority:
    """Someone who signs certificates, kept in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self._signed(self._name, self._key.public_key(), is_ca=True))

    def _signed(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, is_ca: bool) -> bytes:
        now = datetime.now(UTC)
        at_home = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(at_home, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM)

    def signs(self, name: str, organisation: str = "", unit: str = "") -> Path:
        """A file with a certificate and its key."""
        said = [(NameOID.COMMON_NAME, name), (NameOID.ORGANIZATION_NAME, organisation), (NameOID.ORGANIZATIONAL_UNIT_NAME, unit)]
        key = ec.generate_private_key(ec.SECP256R1())
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in said if value])
        file = self._folder / f"{name}-{organisation}.pem"
        file.write_bytes(self._signed(subject, key.public_key(), is_ca=False) + private)
        return file


class Client:
    """A real client, in a thread of its own."""

    def __init__(self, port: int, trusts: Path, shows: Path | None = None, user: str = "", password: str = "") -> None:
        self._client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv311)
        context = ssl.create_default_context(cafile=str(trusts))
        if shows is not None:
            context.load_cert_chain(shows)
        self._client.tls_set_context(context)
        if user:
            self._client.username_pw_set(user, password)
        self._answered = threading.Event()
        self._codes: list[bool] = []
        self.heard: list[tuple[str, bytes]] = []
        self.has_heard = threading.Event()
        self._client.on_connect = self._connected
        self._client.on_disconnect = lambda *_: self._answered.set()
        self._client.on_message = self._told
        self._port = port

    def _connected(self, _client: Any, _data: Any, _flags: Any, code: Any, _properties: Any) -> None:
        self._codes.append(not code.is_failure)
        self._answered.set()

    def _told(self, _client: Any, _data: Any, message: Any) -> None:
        self.heard.append((message.topic, message.payload))
        self.has_heard.set()

    def connects(self) -> bool:
        try:
            self._client.connect("127.0.0.1", self._port)
        except (ssl.SSLError, ConnectionError):
            return False
        self._client.loop_start()
        assert self._answered.wait(WAIT_S)
        return self._codes == [True]

    def publishes(self, topic: str, payload: bytes) -> None:
        self._client.publish(topic, payload, 1).wait_for_publish(WAIT_S)

    def subscribes(self, pattern: str) -> None:
        subscribed = threading.Event()
        self._client.on_subscribe = lambda *_: subscribed.set()
        self._client.subscribe(pattern, 1)
        assert subscribed.wait(WAIT_S)

    def closes(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def node_with(folder: Path, *, has_passwords: bool, **mqtt: str) -> Node:
    (folder / "town.cedar").write_text(POLICIES, encoding="utf-8")
    (folder / "users").write_text(line_of("s1", "one"), encoding="utf-8")
    access = {"policies": str(folder / "town.cedar"), "key": KEY} | (
        {"passwords": str(folder / "users")} if has_passwords else {}
    )
    return Node(msgspec.convert({"node": {"id": "port"}, "mqtt": {"port": 0} | mqtt, "access": access}, NodeSettings))


@pytest.mark.parametrize("has_passwords", [False, True])
def test_clients_are_known_by_their_certificates(tmp_path: Path, has_passwords: bool) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")

    def scene(port: int) -> None:
        gauge = Client(port, ours.file, ours.signs("gauge-1", "town"))
        warden = Client(port, ours.file, ours.signs("wanda", "town", "warden"))
        other = Client(port, ours.file, ours.signs("gauge-1", "village"))
        clients = [gauge, warden, other]
        try:
            assert all([client.connects() for client in clients])  # noqa: C419  each of them
            warden.subscribes("port/entities/#")
            other.subscribes("port/entities/#")
            other.publishes(f"{ROOM}/temperature", b"99")  # of another community: acknowledged, and refused
            gauge.publishes(f"{ROOM}/temperature", b"17")
            assert warden.has_heard.wait(WAIT_S)
            assert warden.heard == [(f"{ROOM}/temperature", b"17")]
            assert other.heard == []
            for refused in (Client(port, ours.file), Client(port, ours.file, theirs.signs("gauge-1", "town"))):
                clients.append(refused)
                assert not refused.connects()
            with_password = Client(port, ours.file, user="s1", password="one")
            clients.append(with_password)
            assert with_password.connects() is has_passwords
            if has_passwords:
                with_password.publishes(f"{ROOM}/name", b'"hall"')
        finally:
            for client in clients:
                client.closes()

    async def run() -> None:
        node = node_with(
            tmp_path,
            has_passwords=has_passwords,
            certificate=str(ours.signs("broker")),
            client_trust=str(ours.file),
        )
        await node.start()
        try:
            assert node.devices is not None
            await asyncio.to_thread(scene, node.devices.port)
            entity = node.tenants[""].store.entity("urn:room:1")
            assert entity is not None
            assert entity.attributes[CORE.expand_term("temperature")][0]["value"] == 17
            assert (CORE.expand_term("name") in entity.attributes) is has_passwords
        finally:
            await node.stop()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("mqtt", "complaint"),
    [
        ({"client_trust": "ours.pem"}, "client_trust: it is for TLS"),
        ({"key": "ours.pem"}, "key: it is for TLS"),
        ({"certificate": "missing.pem"}, "certificate: certificate and key cannot be used"),
        ({"certificate": "broker-.pem", "client_trust": "users"}, "client_trust: it cannot be used"),
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path: Path, mqtt: dict[str, str], complaint: str) -> None:
    Authority(tmp_path, "ours").signs("broker")

    async def run() -> None:
        node = node_with(tmp_path, has_passwords=False, **{name: str(tmp_path / file) for name, file in mqtt.items()})
        try:
            with pytest.raises(InvalidInput, match=complaint):
                await node.start()
        finally:
            await node.stop()

    asyncio.run(run())
