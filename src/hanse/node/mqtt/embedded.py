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
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeAlias

from amqtt.adapters import BufferReader, StreamWriterAdapter
from amqtt.broker import AMQTT_MAGIC_VALUE_RET_SUBSCRIBED, Broker
from amqtt.contexts import BrokerConfig, ListenerConfig, ListenerType
from amqtt.errors import AMQTTError, MQTTError
from amqtt.events import BrokerEvents
from amqtt.plugins.base import BaseAuthPlugin

from hanse.node.access.passwords import Passwords
from hanse.node.mqtt.connection import MqttMessage
from hanse.node.mqtt.mapping import topic_matches
from hanse.node.mqtt.packets import PACKET_BYTES_MAX, Frames, Handler, NotMqttError, told_not_mqtt

Take: TypeAlias = Callable[[MqttMessage], Awaitable[bool]]  # whether it was taken; others hear of it then
Refuse: TypeAlias = Callable[[str, int], None]  # the topic of what is too large, and its size in bytes
LastValues: TypeAlias = Callable[[str], AsyncIterator[tuple[str, bytes]]]  # topics and payloads that a subscription asks for

CONNECTIONS_MAX: Final = 1_000
HELLO_S: Final = 10.0
BACKLOG_MAX: Final = 10_000  # publications on their way to clients; beyond it, news are dropped for clients that are too slow

_LISTENER: Final = "default"  # amqtt wants one of this name

# It tells of each packet and each client; what matters to an operator is told here and in the metrics.
logging.getLogger("amqtt").setLevel(logging.CRITICAL)
logging.getLogger("transitions").setLevel(logging.CRITICAL)


async def _take_nothing(_message: MqttMessage) -> bool:
    return False


def _refuse_silently(_topic: str, _size: int) -> None:
    pass


async def _no_values(_pattern: str) -> AsyncIterator[tuple[str, bytes]]:
    return
    yield  # it is a generator, of nothing


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
    ) -> None:
        """Without a `user`, everybody may connect. `port` 0 takes a free one."""
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
        self._server = await asyncio.start_server(self._connected, self.host, self.port, start_serving=False)
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

    def publish(self, topic: str, payload: bytes) -> None:
        """To every client that has subscribed to it; nobody else hears of it, and nothing is kept."""
        broker = self._broker
        if broker is None or not broker.is_followed(topic):
            return
        if broker.is_clogged():
            self.dropped += 1
            return
        broker.broadcast(topic, payload)

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
        try:
            await broker.external_connected(Frames(reader), StreamWriterAdapter(writer), _LISTENER)
        except Exception:
            # amqtt lets errors of all kinds out when it is sent rubbish; one client's rubbish is nobody else's business
            logging.getLogger(__name__).debug("an MQTT client was disconnected", exc_info=True)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def knows(self, session: Any) -> bool:
        if self.passwords is not None:
            principal = await self.passwords.principal(session.username or "", session.password or "")
            if principal is None or getattr(session, "principal", principal) != principal:
                return False  # a session that is kept is its user's: nobody takes it over by naming it
            session.principal = principal
            return True
        user, password = self._credentials
        if not user:
            return True
        given = (session.username or "", session.password or "")
        return all(hmac.compare_digest(a.encode(), b.encode()) for a, b in zip(given, (user, password), strict=True))

    # --- what devices publish, and what they subscribe to ----------------------------------------------------------------

    async def arrived(self, session: Any, message: Any) -> None:
        """A client's publication; through when the node is."""
        flag, size = message.publish_packet.retain_flag, message.publish_packet.fixed_header.remaining_length
        if message.topic.startswith(self.prefix):
            if size > PACKET_BYTES_MAX:
                self.refuse(message.topic, size)
                return
            sender = getattr(session, "principal", None)
            arrived = MqttMessage(message.topic, message.data, message.qos, False, {"retain": bool(flag)}, sender)
            if not await self.take(arrived) or not self.passes_on:
                return
        elif size > PACKET_BYTES_MAX:
            self.dropped += 1
            return
        if self._broker is not None:
            await self._broker.distribute(session, message, retain=flag)

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
        async for topic, payload in self.last_values(pattern):
            _, handler = broker.sessions.get(client_id, (None, None))
            if handler is None:
                return
            with suppress(AMQTTError, MQTTError, TimeoutError, OSError):
                await handler.mqtt_publish(topic, payload, qos, retain=True)


class _Broker(Broker):  # type: ignore[misc]
    def __init__(self, house: EmbeddedBroker, config: BrokerConfig) -> None:
        super().__init__(config)
        self._prefix = house.prefix
        self._spawn = house.spawn

    async def _initialize_client_session(self, reader: Frames, writer: Any, address: str, port: int) -> tuple[Handler, Any]:
        try:
            async with asyncio.timeout(HELLO_S):
                hello = await reader.next(None)
            if hello.is_too_large:
                raise NotMqttError(f"a first packet of {hello.length} bytes")
        except NotMqttError as error:
            told_not_mqtt(error, f"{address}:{port}")
            raise
        _, session = await super()._initialize_client_session(BufferReader(hello.whole()), writer, address, port)
        return Handler(self.plugins_manager, self), session

    @property
    def backlog(self) -> int:
        return int(self._broadcast_queue.qsize()) + len(self._tasks_queue)

    def broadcast(self, topic: str, payload: bytes) -> None:
        """What `internal_message_broadcast` does, without a task for it."""
        self._broadcast_queue.put_nowait({"session": None, "topic": topic, "data": payload})

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


class Doorkeeper(BaseAuthPlugin):  # type: ignore[misc]
    """Who may come in; and, because it meets every client before its first message, what is done with its messages."""

    house: EmbeddedBroker

    async def authenticate(self, *, session: Any) -> bool:
        if not await self.house.knows(session):
            return False
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
