"""A small MQTT broker inside the node, so that devices can be connected without installing anything: amqtt (MQTT 3.1.1).

It differs from a real broker beside the node in three ways, all for the better:
- What a device publishes below `prefix` is handed over in the process, and the device gets its acknowledgement (QoS 1 and 2) only
  after `take` is through with it. A device that has one knows that its value is on the disk.
- Last values below `prefix` are not kept here but asked of the node (`last_values`) when a client subscribes: no memory for them.
- Other clients hear of a publication below `prefix` only if the node took it.

Connections are accepted here, not by amqtt, for bounds on their number and on the time to say hello; see `packets` for the rest.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any, Final, TypeAlias

from amqtt.adapters import BufferReader, StreamWriterAdapter
from amqtt.broker import AMQTT_MAGIC_VALUE_RET_SUBSCRIBED, Broker
from amqtt.contexts import Action, BrokerConfig, ListenerConfig, ListenerType
from amqtt.errors import AMQTTError, MQTTError
from amqtt.events import BrokerEvents
from amqtt.mqtt.connack import NOT_AUTHORIZED, ConnackPacket
from amqtt.mqtt.connect import ConnectPacket
from amqtt.plugins.base import BaseAuthPlugin

from hanse.node.access.passwords import Passwords
from hanse.node.mqtt.certificates import certified
from hanse.node.mqtt.connection import MqttMessage
from hanse.node.mqtt.mapping import topic_matches
from hanse.node.mqtt.packets import PACKET_BYTES_MAX, Frames, Handler, NotMqttError, told_not_mqtt
from hanse.policies import Principal

Take: TypeAlias = Callable[[MqttMessage], Awaitable[bool]]  # whether it was taken; others hear of it then
Refuse: TypeAlias = Callable[[str, int], None]  # the topic of what is too large, and its size in bytes
# topics and payloads that a subscription asks for, as the one who has subscribed may see them
LastValues: TypeAlias = Callable[[str, Principal | None], AsyncIterator[tuple[str, bytes]]]

CONNECTIONS_MAX: Final = 1_000
HELLO_S: Final = 10.0
AWAY_MAX: Final = 1_000  # publications that wait for a client that is away; the oldest go first
BACKLOG_MAX: Final = 10_000  # publications on their way to clients; beyond it, news are dropped for clients that are too slow

_LISTENER: Final = "default"  # amqtt wants one of this name

# It tells of each packet and each client; what matters to an operator is told here and in the metrics.
logging.getLogger("amqtt").setLevel(logging.CRITICAL)
logging.getLogger("transitions").setLevel(logging.CRITICAL)


async def _take_nothing(_message: MqttMessage) -> bool:
    return False


def _refuse_silently(_topic: str, _size: int) -> None:
    pass


async def _no_values(_pattern: str, _hearer: Principal | None) -> AsyncIterator[tuple[str, bytes]]:
    return
    yield  # it is a generator, of nothing


def principal_of(session: Any) -> Principal | None:
    """Whose a session is; None: of someone of whom nothing is known."""
    return getattr(session, "principal", None)


class EmbeddedBroker:
    def __init__(
        self,
        prefix: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        user: str = "",
        password: str = "",
        connections_max: int = CONNECTIONS_MAX,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Without a `user`, everybody may connect. `port` 0 takes a free one."""
        self._tls = tls
        self.prefix = prefix
        self.host = host
        self.port = port
        self.take: Take = _take_nothing
        self.refuse: Refuse = _refuse_silently
        self.last_values: LastValues = _no_values
        self.dropped = 0  # news that clients were too slow for
        self.passes_on = True  # what a device publishes, as it is; where there are policies, others hear what they may
        self.passwords: Passwords | None = None  # whom it knows; without it, whoever gives the one password
        self._credentials = (user, password)
        self._connections_max = connections_max
        self._connections: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._broker: _Broker | None = None
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """OSError if it cannot listen."""
        self._server = await asyncio.start_server(
            self._connected,
            self.host,
            self.port,
            start_serving=False,
            ssl=self._tls,
            ssl_handshake_timeout=None if self._tls is None else HELLO_S,
        )
        self.port = self._server.sockets[0].getsockname()[1]
        config = BrokerConfig(
            listeners={_LISTENER: ListenerConfig(type=ListenerType.EXTERNAL)},
            plugins={f"{Doorkeeper.__module__}.{Doorkeeper.__qualname__}": {}},
        )
        self._broker = _Broker(self, config)
        for plugin in self._broker.plugins_manager.plugins:
            if isinstance(plugin, Doorkeeper):
                plugin.house = self
        await self._broker.start()
        await self._server.start_serving()

    async def stop(self) -> None:
        if self._server is None or self._broker is None:
            return
        self._server.close()
        broker, self._broker = self._broker, None
        for task in self._tasks:
            task.cancel()
        await broker.shutdown()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, *self._tasks, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    @property
    def followed(self) -> bool:
        """Whether anybody has subscribed to anything."""
        return self._broker is not None and any(self._broker.subscriptions.values())

    def hearers(self) -> set[Principal | None]:
        """Who has subscribed to anything; None: someone of whom nothing is known."""
        broker = self._broker
        if broker is None:
            return set()
        return {principal_of(session) for held in broker.subscriptions.values() for session, _ in held}

    def publish(self, topic: str, payload: bytes, hearers: Collection[Principal | None] | None = None) -> None:
        """To every client that has subscribed to it (and is one of these); nobody else hears of it, and nothing is kept."""
        broker = self._broker
        if broker is None or not broker.is_followed(topic):
            return
        if broker.is_clogged():
            self.dropped += 1
            return
        broker.broadcast(topic, payload, hearers)

    @property
    def connections(self) -> int:
        return len(self._connections)

    @property
    def backlog(self) -> int:
        return self._broker.backlog if self._broker is not None else 0

    # --- connections -----------------------------------------------------------------------------------------------------

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._broker is None or len(self._connections) >= self._connections_max:
            writer.close()
            return
        task = asyncio.create_task(self._serve(self._broker, reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, broker: _Broker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = Frames(reader)
        try:
            frames.certified = certified(writer)
            await broker.external_connected(frames, StreamWriterAdapter(writer), _LISTENER)
        except Exception:
            # amqtt lets errors of all kinds out when it is sent rubbish; one client's rubbish is nobody else's business
            logging.getLogger(__name__).debug("an MQTT client was disconnected", exc_info=True)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def knows(self, user: str, password: str, certified: Principal | None) -> tuple[bool, Principal | None]:
        """Whether a client may come in, and who it is, as far as that is known."""
        if certified is not None:
            return True, certified
        if self.passwords is not None:
            principal = await self.passwords.principal(user, password)
            return principal is not None, principal
        if not self._credentials[0]:
            return True, None
        pairs = zip((user, password), self._credentials, strict=True)
        return all(hmac.compare_digest(given.encode(), known.encode()) for given, known in pairs), None

    # --- what devices publish, and what they subscribe to ----------------------------------------------------------------

    async def arrived(self, session: Any, message: Any) -> None:
        """A client's publication; through when the node is."""
        flag, size = message.publish_packet.retain_flag, message.publish_packet.fixed_header.remaining_length
        if message.topic.startswith(self.prefix):
            if size > PACKET_BYTES_MAX:
                self.refuse(message.topic, size)
                return
            arrived = MqttMessage(message.topic, message.data, message.qos, False, {"retain": bool(flag)}, principal_of(session))
            if not await self.take(arrived) or not self.passes_on:
                return
        elif size > PACKET_BYTES_MAX:
            self.dropped += 1
            return
        if self._broker is not None:
            await self._broker.distribute(session, message, retain=flag)

    async def left_behind(self, session: Any, topic: str, payload: bytes, qos: int) -> bool:
        """A client's last will, which is a publication like any other; whether others are to hear it as it is."""
        message = MqttMessage(topic, payload, qos, False, {}, principal_of(session))
        return await self.take(message) and self.passes_on

    def spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def send_last_values(self, client_id: str, pattern: str, qos: int) -> None:
        """The node's last values, to one client that has just subscribed."""
        broker = self._broker
        if broker is None:
            return
        session, _ = broker.sessions.get(client_id, (None, None))
        hearer = principal_of(session)
        async for topic, payload in self.last_values(pattern, hearer):
            session, handler = broker.sessions.get(client_id, (None, None))
            if handler is None or principal_of(session) != hearer:
                return
            with suppress(AMQTTError, MQTTError, TimeoutError, OSError):
                await handler.mqtt_publish(topic, payload, qos, retain=True)


class _Broker(Broker):  # type: ignore[misc]
    def __init__(self, house: EmbeddedBroker, config: BrokerConfig) -> None:
        super().__init__(config)
        self._prefix = house.prefix
        self._spawn = house.spawn
        self._house = house
        self._broadcast_queue = _Broadcasts()

    async def _initialize_client_session(self, reader: Frames, writer: Any, address: str, port: int) -> tuple[Handler, Any]:
        try:
            async with asyncio.timeout(HELLO_S):
                hello = await reader.next(None)
            if hello.is_too_large:
                raise NotMqttError(f"a first packet of {hello.length} bytes")
        except NotMqttError as error:
            told_not_mqtt(error, f"{address}:{port}")
            raise
        principal = await self._admitted(hello.whole(), reader, writer)
        _, session = await super()._initialize_client_session(BufferReader(hello.whole()), writer, address, port)
        if getattr(session, "principal", principal) != principal:  # someone else has begun it meanwhile
            raise MQTTError("it may not come in")
        session.principal = principal
        return Handler(self.plugins_manager, self), session

    async def _admitted(self, hello: bytes, reader: Frames, writer: Any) -> Principal | None:
        """Who comes in. Raises MQTTError, before amqtt touches the session of whomever the client names itself."""
        packet = await ConnectPacket.from_stream(BufferReader(hello))
        is_known, principal = await self._house.knows(packet.username or "", packet.password or "", reader.certified)
        session, _ = self.sessions.get(packet.client_id, (None, None))
        if is_known and (session is None or principal_of(session) == principal):
            return principal
        await ConnackPacket.build(0, NOT_AUTHORIZED).to_stream(writer)  # a session that is kept is its user's, and nobody else's
        raise MQTTError("it may not come in")

    @property
    def backlog(self) -> int:
        return int(self._broadcast_queue.qsize()) + len(self._tasks_queue)

    def broadcast(self, topic: str, payload: bytes, hearers: Collection[Principal | None] | None) -> None:
        """What `internal_message_broadcast` does, without a task for it, and for these only."""
        self._broadcast_queue.put_nowait({"session": None, "topic": topic, "data": payload, "hearers": hearers})

    async def _broadcast_message(self, session: Any, topic: str | None, data: Any, force_qos: int | None = None) -> None:
        """A last will."""
        is_for_node = topic is not None and topic.startswith(self._prefix)
        if not is_for_node or await self._house.left_behind(session, str(topic), bytes(data or b""), force_qos or 0):
            await super()._broadcast_message(session, topic, data, force_qos)

    async def _retain_broadcast_message(self, broadcast: dict[str, Any], qos: int, target_session: Any) -> None:
        """For a client that is away, and whose session is kept: the newest, up to a bound."""
        while target_session.retained_messages.qsize() >= AWAY_MAX:
            target_session.retained_messages.get_nowait()
            self._house.dropped += 1
        await super()._retain_broadcast_message(broadcast, qos, target_session)

    async def _topic_filtering(self, session: Any, topic: str, action: Action) -> bool:  # noqa: ARG002  amqtt names it
        """Whether a client may; of what is broadcast, whether it is one of those whom that is for."""
        hearers = self._broadcast_queue.hearers if action is Action.RECEIVE else None
        return hearers is None or principal_of(session) in hearers

    async def subscribe(self, handler: Handler, packet: Any) -> None:
        session, topics = handler.session, packet.payload.topics
        codes = [await self.add_subscription(topic, session) for topic in topics]
        await handler.mqtt_acknowledge_subscription(packet.variable_header.packet_id, codes)
        granted = [topic for topic, code in zip(topics, codes, strict=True) if code != AMQTT_MAGIC_VALUE_RET_SUBSCRIBED]
        self._spawn(self._show_retained(session, granted))

    async def _show_retained(self, session: Any, granted: list[tuple[str, int]]) -> None:
        for topic, qos in granted:
            await self.plugins_manager.fire_event(
                BrokerEvents.CLIENT_SUBSCRIBED, client_id=session.client_id, topic=topic, qos=qos
            )
            await self._publish_retained_messages_for_subscription((topic, qos), session)

    async def unsubscribe(self, handler: Handler, packet: Any) -> None:
        for topic in packet.payload.topics:
            self._del_subscription(topic, handler.session)
        await handler.mqtt_acknowledge_unsubscription(packet.variable_header.packet_id)

    async def distribute(self, session: Any, message: Any, *, retain: bool) -> None:
        """What amqtt does with a publication, but at once: what it has queued is lost when the client goes."""
        self._broadcast_queue.put_nowait({"session": session, "topic": message.topic, "data": message.data})
        if retain:
            await self.retain_message(session, message.topic, message.data, message.qos)

    def is_followed(self, topic: str) -> bool:
        return any(sessions and topic_matches(pattern, topic) for pattern, sessions in self.subscriptions.items())

    def is_clogged(self) -> bool:
        if self.backlog <= BACKLOG_MAX:
            return False
        # amqtt forgets deliveries in the order in which they began: one that takes long holds up those that are done
        waiting = []
        for task in self._tasks_queue:
            if not task.done():
                waiting.append(task)
            elif not task.cancelled():
                task.exception()
        self._tasks_queue.clear()
        self._tasks_queue.extend(waiting)
        return self.backlog > BACKLOG_MAX

    async def retain_message(self, source_session: Any, topic_name: str | None, data: Any, qos: int | None = None) -> None:
        if topic_name is not None and not topic_name.startswith(self._prefix):
            await super().retain_message(source_session, topic_name, data, qos)

    async def _publish_retained_messages_for_subscription(self, subscription: tuple[str, int], session: Any) -> None:
        # amqtt asks this of a client that connects for the subscriptions of all others too
        if any(holder is session for holder, _ in self.subscriptions.get(subscription[0], ())):
            await super()._publish_retained_messages_for_subscription(subscription, session)


class _Broadcasts(asyncio.Queue[dict[str, Any]]):
    """What goes to clients. amqtt takes one after the other; for whom the one is that it is at work on, is remembered."""

    hearers: Collection[Principal | None] | None = None

    async def get(self) -> dict[str, Any]:
        item = await super().get()
        self.hearers = item.get("hearers")
        return item


class Doorkeeper(BaseAuthPlugin):  # type: ignore[misc]
    """It meets every client before its first message, and says what is done with these. Who may come in was asked before."""

    house: EmbeddedBroker

    async def authenticate(self, *, session: Any) -> bool:
        if not isinstance(session.delivered_message_queue, _Arrivals):
            session.delivered_message_queue = _Arrivals(self.house, session)
        return True

    async def on_broker_client_subscribed(self, *, client_id: str, topic: str, qos: int) -> None:
        self.house.spawn(self.house.send_last_values(client_id, topic, qos))


class _Arrivals(asyncio.Queue[Any]):
    """Where amqtt puts what a client publishes before it acknowledges it: so the acknowledgement waits for the node here."""

    def __init__(self, house: EmbeddedBroker, session: Any) -> None:
        super().__init__()
        self.spawn = house.spawn
        self.unreleased: dict[int, asyncio.Task[None]] = {}
        self._house = house
        self._session = session

    async def put(self, item: Any) -> None:
        """QoS 1 and 2."""
        await self._house.arrived(self._session, item)

    def put_nowait(self, item: Any) -> None:
        """QoS 0: nobody waits for an acknowledgement."""
        self.spawn(self.put(item))
