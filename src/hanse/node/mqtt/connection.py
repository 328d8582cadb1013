"""One connection to an MQTT broker, with acknowledged publishing.

gmqtt speaks the protocol; this class adds what a node needs and gmqtt leaves open:
- A publication is a future that is done when the broker has acknowledged it, and that fails when the connection is lost before.
- At most `window` of them wait for an acknowledgement at a time; the others wait in line, `queue_max` at most.
- A connection that is lost stays lost until `connect` is called again: who owns it decides on patience and back-off.
- A message that comes is acknowledged when the handler is through with it, so that what it did to the store is committed first.

Every `connect` makes a fresh gmqtt client, so that nothing of a broken connection lingers.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import gmqtt
from gmqtt.mqtt.handler import MQTTConnectError
from gmqtt.storage import PersistentStorage

from hanse.ngsild.errors import TooManyPending
from hanse.node.mqtt.address import MqttAddress, check_topic
from hanse.policies.principals import Principal

Version: TypeAlias = Literal["5", "3.1.1"]

# It tells of every lost connection and of each packet; what matters to an operator is told here instead.
logging.getLogger("gmqtt").setLevel(logging.CRITICAL)

_PROTOCOL_LEVEL: Final = {"5": 5, "3.1.1": 4}
_NO_RECONNECT: Final = -2  # -1 means for ever to gmqtt, 0 means once
_UNSUPPORTED_VERSION: Final = frozenset({1, 132})
_SUBSCRIPTION_REFUSED: Final = 0x80
_SESSION_S: Final = 7 * 24 * 3600
_SPARE_PACKETS: Final = 2  # gmqtt numbers one packet less than it may, and a subscription needs a number too


class MqttUnreachable(ConnectionError):
    """The broker cannot be reached, refuses the connection, or was lost; trying again later may help."""

    code = "H0307"


class MqttVersionRefused(MqttUnreachable):
    """The broker does not speak this version of MQTT, or behaves as if it did not."""


class MqttMessage(NamedTuple):
    topic: str
    payload: bytes
    qos: int
    retained: bool  # sent because of the subscription, not because it was published just now
    properties: dict[str, Any]
    sender: Principal | None = None  # who has published it, where the broker tells


Handler: TypeAlias = Callable[[MqttMessage], Awaitable[None]]


class _Publication(NamedTuple):
    message: Any
    done: asyncio.Future[None]


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


class MqttConnection:
    def __init__(
        self,
        address: MqttAddress,
        *,
        client_id: str = "",
        version: Version = "5",
        keep_session: bool = False,
        keepalive_s: int = 20,
        timeout_s: float = 5.0,
        window: int = 100,
        queue_max: int = 10_000,
        receive_max: int = 0,
        on_message: Handler | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`keep_session`: the broker keeps subscriptions and messages for a week while this client (its `client_id`) is away.

        `receive_max`: how many messages may wait for this client's acknowledgement (MQTT 5 only; before, the broker decides).
        """
        self.address = address
        self.version: Version = version
        self._client_id = client_id
        self._keep_session = keep_session
        self._keepalive_s = keepalive_s
        self._timeout_s = timeout_s
        self._window_max = window
        self._window = window
        self._queue_max = queue_max
        self._receive_max = receive_max
        self._on_message = on_message
        self._tls = tls
        self._client: Any = None
        self._connected = False
        self.session_present = False  # whether the broker still knew this client's subscriptions when it connected
        self._lost = asyncio.Event()
        self._lost.set()
        self._storage = _Acknowledgements(self._acknowledged)
        self._line: deque[_Publication] = deque()
        self._flying: dict[int, asyncio.Future[None]] = {}
        self._subscribing: dict[int, asyncio.Future[tuple[int, ...]]] = {}

    @property
    def connected(self) -> bool:
        return self._connected

    @property
    def pending(self) -> int:
        """Publications that are not acknowledged yet."""
        return len(self._line) + len(self._flying)

    async def connect(self) -> None:
        """One attempt. Raises MqttUnreachable, with the reason in one line."""
        await self._disconnect()
        # before MQTT 5, `clean_session` alone said it; since then a session ends with the connection unless it is given time
        properties = {"session_expiry_interval": _SESSION_S} if self._keep_session else {}
        if self._receive_max:
            properties["receive_maximum"] = self._receive_max
        self._storage = _Acknowledgements(self._acknowledged)
        client = gmqtt.Client(
            self._client_id,
            clean_session=not self._keep_session,
            optimistic_acknowledgement=False,
            persistent_storage=self._storage,
            **properties,
        )
        client.reconnect_retries = _NO_RECONNECT
        lost = asyncio.Event()

        def disconnected(_client: Any, _packet: Any, _error: Any = None) -> None:
            lost.set()
            if client is self._client:
                self._fail(f"the connection to {self.address} is lost")

        def accepted(_client: Any, session_present: int, _code: int, _properties: Any) -> None:
            self.session_present = bool(session_present)

        client.on_connect = accepted
        client.on_disconnect = disconnected
        client.on_message = self._received
        client.on_subscribe = self._subscribed
        if self.address.user:
            client.set_auth_credentials(self.address.user, self.address.password)
        self._client, self._lost = client, lost
        try:
            await self._handshake(client, lost)
        except BaseException:
            await self._disconnect()
            raise
        # what the broker allows to be unacknowledged (MQTT 5; Mosquitto: 20); the properties that gmqtt gives out hide it
        allowed = client._connection._protocol.id_generator._max  # noqa: SLF001
        self._window = min(self._window_max, max(1, allowed - _SPARE_PACKETS))
        self._connected = True

    async def _handshake(self, client: Any, lost: asyncio.Event) -> None:
        tls: ssl.SSLContext | bool = False
        if self.address.tls:
            tls = self._tls or ssl.create_default_context()
        connecting = asyncio.ensure_future(
            client.connect(
                self.address.host,
                self.address.port,
                ssl=tls,
                keepalive=self._keepalive_s,
                version=_PROTOCOL_LEVEL[self.version],
            )
        )
        losing = asyncio.ensure_future(lost.wait())
        try:
            done, _ = await asyncio.wait({connecting, losing}, timeout=self._timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                raise MqttUnreachable(f"{self.address} does not answer within {self._timeout_s:g} s")
            if connecting not in done:
                # a broker that knows older versions only may do so without a word
                refused = MqttVersionRefused if self.version == "5" else MqttUnreachable
                raise refused(f"{self.address} closes the connection before it is accepted")
            connecting.result()
        except MQTTConnectError as error:
            refusal = MqttVersionRefused if error._code in _UNSUPPORTED_VERSION else MqttUnreachable  # noqa: SLF001
            raise refusal(
                f"{self.address} refuses the connection: {error.message.removeprefix('Connection Refused: ')}"
            ) from error
        except MqttUnreachable:
            raise
        except (OSError, UnicodeError) as error:  # UnicodeError: a host name that cannot be one
            raise MqttUnreachable(f"{self.address} cannot be reached: {error}") from error
        finally:
            for task in (connecting, losing):
                task.cancel()
            await asyncio.gather(connecting, losing, return_exceptions=True)

    async def wait_lost(self) -> None:
        """Return as soon as there is no connection."""
        await self._lost.wait()

    def publish(
        self, topic: str, payload: bytes | str, qos: int = 0, retain: bool = False, **properties: Any
    ) -> asyncio.Future[None]:
        """A future that is done when the broker has acknowledged the publication (QoS 0: when it is sent).

        It fails with MqttUnreachable if there is no connection, or none any more before the acknowledgement. Whoever does not
        care can let it go: it never complains that nobody looked.
        """
        check_topic(topic)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.add_done_callback(_looked_at)
        if not self._connected:
            done.set_exception(MqttUnreachable(f"there is no connection to {self.address}"))
        elif len(self._line) >= self._queue_max:
            done.set_exception(TooManyPending(f"{self._queue_max} publications wait for {self.address} already"))
        else:
            self._line.append(_Publication(gmqtt.Message(topic, payload, qos=qos, retain=retain, **properties), done))
            self._send()
        return done

    def _send(self) -> None:
        while self._line and self._connected:
            message = self._line[0].message
            if message.qos and len(self._flying) >= self._window:
                return
            done = self._line.popleft().done
            if done.done():  # the caller has cancelled it
                continue
            self._client.publish(message)
            if message.qos:
                self._flying[self._storage.last_packet] = done
            else:
                done.set_result(None)

    def _acknowledged(self, packet: int) -> None:
        done = self._flying.pop(packet, None)
        if done is not None and not done.done():
            done.set_result(None)
        self._send()

    async def subscribe(self, topic: str, qos: int = 1, *, no_local: bool = False, only_new: bool = False) -> None:
        """Done when the broker has accepted it.

        MQTT 5 only: `no_local`: not what this client publishes itself; `only_new`: retained messages only if there was no such
        subscription before.
        """
        if not self._connected:
            raise MqttUnreachable(f"there is no connection to {self.address}")
        five = self.version == "5"
        packet = self._client.subscribe(
            topic, qos=qos, no_local=no_local and five, retain_handling_options=1 if only_new and five else 0
        )
        done: asyncio.Future[tuple[int, ...]] = asyncio.get_running_loop().create_future()
        self._subscribing[packet] = done
        try:
            codes = await asyncio.wait_for(done, self._timeout_s)
        except TimeoutError as error:
            raise MqttUnreachable(f"{self.address} does not answer a subscription within {self._timeout_s:g} s") from error
        finally:
            self._subscribing.pop(packet, None)
        if any(code >= _SUBSCRIPTION_REFUSED for code in codes):
            raise MqttUnreachable(f"{self.address} refuses the subscription to {topic!r}")

    def _subscribed(self, _client: Any, packet: int, codes: tuple[int, ...], _properties: Any) -> None:
        done = self._subscribing.get(packet)
        if done is not None and not done.done():
            done.set_result(codes)

    async def _received(self, _client: Any, topic: Any, payload: bytes, qos: int, properties: dict[str, Any]) -> int:
        if self._on_message is not None and isinstance(topic, str):  # a topic that is not UTF-8 comes as bytes
            try:
                await self._on_message(MqttMessage(topic, payload, qos, bool(properties.get("retain")), properties))
            except Exception:
                logging.getLogger(__name__).exception("message to %s is dropped", topic)
        return 0  # and now gmqtt acknowledges; if the connection is gone by now, the broker sends the message again

    def _fail(self, reason: str) -> None:
        self._connected = False
        waiting: list[asyncio.Future[Any]] = [*self._flying.values(), *(publication.done for publication in self._line)]
        waiting += self._subscribing.values()
        self._line.clear()
        for done in waiting:
            if not done.done():
                done.set_exception(MqttUnreachable(reason))
        self._flying.clear()

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        self._fail(f"the connection to {self.address} is closed")
        self._lost.set()
        if client is not None:
            with suppress(OSError, TimeoutError):
                await asyncio.wait_for(client.disconnect(), self._timeout_s)

    async def close(self) -> None:
        """Say good-bye to the broker. What is not acknowledged yet fails."""
        await self._disconnect()


def _looked_at(done: asyncio.Future[None]) -> None:
    if not done.cancelled():
        done.exception()
