"""One connection of an agent to an MQTT broker, by gmqtt: messages in, acknowledged publications out.

A connection that is lost stays lost until `connect` is called again: the agent decides on patience.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import gmqtt
from gmqtt.mqtt.constants import MQTTv50, MQTTv311
from gmqtt.mqtt.handler import MQTTConnectError
from gmqtt.storage import PersistentStorage
from msgspec import Struct

from hanse.agents.base import PlatformAway
from hanse.model.errors import InvalidInput

# It tells of every lost connection and of each packet; what matters is told by the agent.
logging.getLogger("gmqtt").setLevel(logging.CRITICAL)

TIMEOUT_S: Final = 10.0
FLYING_MAX: Final = 16  # publications without an acknowledgement: Mosquitto allows 20, if it is not told otherwise
_KEEPALIVE_S: Final = 20
_SESSION_S: Final = 7 * 24 * 3600  # how long a broker keeps what comes for a named client that is away
_NO_RECONNECT: Final = -2  # -1 means for ever to gmqtt, 0 means once
_REFUSED: Final = 0x80
_UNSUPPORTED_VERSION: Final = frozenset({1, 132})


class _VersionRefused(Exception):
    """The broker does not speak this version of MQTT, or behaves as if it did not."""


class Address(Struct, frozen=True):
    host: str
    port: int
    tls: bool
    user: str
    password: str

    def __str__(self) -> str:  # without user and password: this goes to terminals
        return f"{'mqtts' if self.tls else 'mqtt'}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def parse_address(url: str) -> Address:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
        parts = urlsplit("")
    if parts.scheme not in ("mqtt", "mqtts") or not host or port == 0 or parts.path.strip("/") or parts.query or parts.fragment:
        raise InvalidInput(f"{url[:100]!r} is no MQTT broker; write mqtt://host:1883, or mqtts://user:password@host:8883")
    tls = parts.scheme == "mqtts"
    return Address(host, port or (8883 if tls else 1883), tls, unquote(parts.username or ""), unquote(parts.password or ""))


class _Acknowledgements(PersistentStorage):  # type: ignore[misc]
    """gmqtt keeps here what is not acknowledged: the place to learn which packet carries which publication."""

    def __init__(self, acknowledged: Callable[[int], None]) -> None:
        super().__init__()
        self.last_packet = 0
        self._acknowledged = acknowledged

    def push_message(self, mid: int, raw_package: bytes) -> None:
        self.last_packet = mid
        super().push_message(mid, raw_package)

    def remove_message_by_mid(self, mid: int) -> None:
        super().remove_message_by_mid(mid)
        self._acknowledged(mid)


class MqttClient:
    def __init__(
        self, address: Address, on_message: Callable[[str, bytes], None], on_lost: Callable[[], None], *, client_id: str = ""
    ) -> None:
        """With a `client_id` the broker keeps what comes while this client is away."""
        self._address = address
        self._on_message = on_message
        self._on_lost = on_lost
        self._client_id = client_id
        self._client: Any = None
        self._storage = _Acknowledgements(self._acknowledged)
        self._waiting: dict[int, asyncio.Future[Any]] = {}  # by packet: publications and subscriptions
        self._flying = asyncio.Semaphore(FLYING_MAX)
        self._connected = False
        self._version = MQTTv50

    async def connect(self) -> None:
        """One attempt, with MQTT 5 or, where that is unknown, 3.1.1. Raises PlatformAway."""
        try:
            await self._connect(self._version)
        except _VersionRefused as error:
            self._version = MQTTv311
            try:
                await self._connect(self._version)
            except _VersionRefused:
                self._version = MQTTv50
                raise PlatformAway(str(error)) from error

    async def _connect(self, version: int) -> None:
        await self.close()
        session = {"session_expiry_interval": _SESSION_S} if self._client_id and version == MQTTv50 else {}
        self._storage = _Acknowledgements(self._acknowledged)
        client = gmqtt.Client(self._client_id, clean_session=not self._client_id, persistent_storage=self._storage, **session)
        client.reconnect_retries = _NO_RECONNECT
        lost = asyncio.Event()

        def disconnected(*_: Any) -> None:
            lost.set()
            if client is self._client and self._connected:
                self._fail()
                self._on_lost()

        client.on_disconnect = disconnected
        client.on_message = self._received
        client.on_subscribe = self._subscribed
        if self._address.user:
            client.set_auth_credentials(self._address.user, self._address.password)
        self._client = client
        try:
            await self._handshake(client, lost, version)
        except BaseException:
            await self.close()
            raise
        self._connected = True

    async def _handshake(self, client: Any, lost: asyncio.Event, version: int) -> None:
        tls = ssl.create_default_context() if self._address.tls else False
        address = (self._address.host, self._address.port)
        connecting = asyncio.ensure_future(client.connect(*address, ssl=tls, keepalive=_KEEPALIVE_S, version=version))
        losing = asyncio.ensure_future(lost.wait())
        try:
            done, _ = await asyncio.wait({connecting, losing}, timeout=TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                raise PlatformAway(f"{self._address} does not answer within {TIMEOUT_S:g} s")
            if connecting not in done:  # a broker that knows older versions only may do so without a word
                raise _VersionRefused(f"{self._address} closes the connection before it is accepted")
            connecting.result()
        except MQTTConnectError as error:
            kind = _VersionRefused if error._code in _UNSUPPORTED_VERSION else PlatformAway  # noqa: SLF001
            raise kind(f"{self._address} refuses the connection: {error.message}") from error
        except (PlatformAway, _VersionRefused):
            raise
        except (OSError, UnicodeError) as error:
            raise PlatformAway(f"{self._address} cannot be reached: {error}") from error
        finally:
            for task in (connecting, losing):
                task.cancel()
            await asyncio.gather(connecting, losing, return_exceptions=True)

    async def subscribe(self, topic: str) -> None:
        """Done when the broker has accepted it. Raises PlatformAway."""
        self._check()
        codes = await self._answer(self._client.subscribe(topic, qos=1), f"a subscription to {topic}")
        if any(code >= _REFUSED for code in codes):
            raise PlatformAway(f"{self._address} refuses a subscription to {topic}")

    async def publish(self, topic: str, message: bytes) -> None:
        """Done when the broker has it. Raises PlatformAway."""
        async with self._flying:
            self._check()
            self._client.publish(gmqtt.Message(topic, message, qos=1))
            await self._answer(self._storage.last_packet, f"a publication to {topic}")

    async def close(self) -> None:
        client, self._client = self._client, None
        self._fail()
        if client is not None:
            with suppress(OSError, TimeoutError):
                await asyncio.wait_for(client.disconnect(), TIMEOUT_S)

    def _check(self) -> None:
        if not self._connected:
            raise PlatformAway(f"there is no connection to {self._address}")

    async def _answer(self, packet: int, what: str) -> Any:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[packet] = done
        try:
            return await asyncio.wait_for(done, TIMEOUT_S)
        except TimeoutError as error:
            raise PlatformAway(f"{self._address} does not answer {what} within {TIMEOUT_S:g} s") from error
        finally:
            self._waiting.pop(packet, None)

    def _acknowledged(self, packet: int) -> None:
        self._resolve(packet, None)

    def _subscribed(self, _client: Any, packet: int, codes: tuple[int, ...], _properties: Any) -> None:
        self._resolve(packet, codes)

    def _resolve(self, packet: int, result: Any) -> None:
        done = self._waiting.get(packet)
        if done is not None and not done.done():
            done.set_result(result)

    def _received(self, _client: Any, topic: Any, payload: bytes, _qos: int, _properties: Any) -> int:
        if isinstance(topic, str):  # a topic that is not UTF-8 comes as bytes
            self._on_message(topic, bytes(payload))
        return 0

    def _fail(self) -> None:
        self._connected = False
        for done in self._waiting.values():
            if not done.done():
                done.set_exception(PlatformAway(f"the connection to {self._address} is lost"))
