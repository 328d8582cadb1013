"""What is done with the packets of a client of the embedded broker; the parts of amqtt that are not strict enough, made strict.

- Packets are cut out of the stream by their lengths before anything looks into them. What is wrong with one can not spill over:
  amqtt goes on in the middle of a packet that it dislikes, and takes a device's payload for packets.
- What is no MQTT ends the connection, as the standard wants, with one line in the log and a counter.
- A publication is acknowledged when the node is through with it. If that fails, the connection ends, so that the client sends it
  again; an open connection without an acknowledgement would leave it waiting for ever.
- One that is too large is read to its end without being kept, refused, and acknowledged like every other that is refused: a
  client that is cut off would only send it again.
- QoS 2: the node takes a publication before PUBREC, and only its number is kept until PUBREL, which is always answered.
- A client that says nothing for one and a half times its keep-alive is gone.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol

import structlog
from amqtt.adapters import BufferReader, ReaderAdapter
from amqtt.errors import AMQTTError, MQTTError, ProtocolHandlerError
from amqtt.mqtt import packet_class
from amqtt.mqtt.disconnect import DisconnectPacket
from amqtt.mqtt.packet import (
    DISCONNECT,
    PINGREQ,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBSCRIBE,
    UNSUBSCRIBE,
    MQTTFixedHeader,
)
from amqtt.mqtt.protocol.broker_handler import BrokerProtocolHandler
from amqtt.mqtt.pubcomp import PubcompPacket
from amqtt.mqtt.publish import PublishPacket, PublishPayload
from amqtt.mqtt.pubrec import PubrecPacket
from amqtt.session import INCOMING
from msgspec import Struct

from hanse.node.metrics import METRICS
from hanse.node.mqtt.mapping import PAYLOAD_BYTES_MAX
from hanse.policies import Principal

PACKET_BYTES_MAX: Final = PAYLOAD_BYTES_MAX + 65_536
KEEP_ALIVE_FACTOR: Final = 1.5
_CHUNK: Final = 65_536
_LENGTH_BYTES_MAX: Final = 4
_QOS_MAX: Final = 2

log = structlog.get_logger("hanse.mqtt")


class NotMqttError(Exception):
    """What a client sent cannot be understood, nor what comes after it."""


class Arrivals(Protocol):
    """Where publications go; `put` is through when the node is."""

    unreleased: dict[int, asyncio.Task[None]]  # QoS 2: taken, and PUBREL has not come

    async def put(self, item: Any) -> None: ...

    def spawn(self, work: Any) -> asyncio.Task[None]: ...


class Subscriptions(Protocol):
    """Who follows what. Both are through before the client's next packet is looked at: it may be about the same topic."""

    async def subscribe(self, handler: Handler, packet: Any) -> None: ...

    async def unsubscribe(self, handler: Handler, packet: Any) -> None: ...


class Frame(Struct, frozen=True):
    first: int  # byte: kind and flags
    length: int  # that the client said
    body: bytes  # of a publication that is too large: only its beginning, without the payload

    @property
    def kind(self) -> int:
        return self.first >> 4

    @property
    def is_too_large(self) -> bool:
        return self.length > PACKET_BYTES_MAX

    def whole(self) -> bytes:
        """As it came."""
        return MQTTFixedHeader(self.kind, self.first & 0xF, self.length).to_bytes() + self.body  # type: ignore[no-any-return]


class Frames(ReaderAdapter):  # type: ignore[misc]
    """The packets of a connection."""

    certified: Principal | None = None  # whom the certificate names that the client has shown

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def next(self, patience_s: float | None) -> Frame:
        """EOFError at the end, TimeoutError if nothing comes for so long, NotMqttError."""
        try:
            async with asyncio.timeout(patience_s):
                first = (await self._reader.readexactly(1))[0]
                length = await self._length()
            if length > PACKET_BYTES_MAX:
                return Frame(first, length, await self._beginning(first, length, patience_s))
            return Frame(first, length, await self._exactly(length, patience_s))
        except ConnectionError as error:
            raise EOFError from error

    async def _length(self) -> int:
        length = 0
        for place in range(_LENGTH_BYTES_MAX):
            byte = (await self._reader.readexactly(1))[0]
            length |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return length
        raise NotMqttError("the length of a packet has more than four bytes")

    async def _exactly(self, size: int, patience_s: float | None) -> bytes:
        """Patience is for each chunk: a slow client is not a dead one."""
        chunks = []
        while size > 0:
            async with asyncio.timeout(patience_s):
                chunks.append(await self._reader.readexactly(min(size, _CHUNK)))
            size -= len(chunks[-1])
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def _beginning(self, first: int, length: int, patience_s: float | None) -> bytes:
        if first >> 4 != PUBLISH:
            raise NotMqttError(f"a packet of {length} bytes that is no publication")
        size = await self._exactly(2, patience_s)
        rest = int.from_bytes(size, "big") + (2 if first & 0b110 else 0)
        beginning = size + await self._exactly(rest, patience_s)
        skip = length - len(beginning)
        while skip > 0:
            skip -= len(await self._exactly(min(skip, _CHUNK), patience_s))
        return beginning

    async def read(self, n: int = -1) -> bytes:
        raise NotImplementedError  # only whole packets

    def feed_eof(self) -> None:
        self._reader.feed_eof()


async def parsed(frame: Frame) -> Any:
    """The packet; NotMqttError."""
    header = MQTTFixedHeader(frame.kind, frame.first & 0xF, frame.length)
    buffer = BufferReader(frame.body)
    try:
        if frame.is_too_large:
            variable = await PublishPacket.VARIABLE_HEADER.from_stream(buffer, header)
            packet = PublishPacket(header, variable, PublishPayload(b""))
        else:
            packet = await packet_class(header).from_stream(buffer, fixed_header=header)
    except Exception as error:  # amqtt lets errors of all kinds out
        raise NotMqttError(str(error) or type(error).__name__) from error
    if await buffer.read(1):
        raise NotMqttError("a packet is longer than what is in it")
    if frame.kind == PUBLISH:
        if packet.qos > _QOS_MAX:
            raise NotMqttError("a publication with QoS 3")
        if not packet.topic_name or packet.topic_name.startswith("$"):
            raise NotMqttError("a publication with a topic that is empty or begins with $")
    elif frame.kind == SUBSCRIBE and (not packet.payload.topics or any(qos > _QOS_MAX for _, qos in packet.payload.topics)):
        raise NotMqttError("a subscription without topics, or with a QoS that there is not")
    return packet


def told_not_mqtt(reason: object, client: object) -> None:
    METRICS.count("mqtt_messages", "malformed")
    log.warning("an MQTT client is disconnected: what it sent is not MQTT 3.1.1", client=client, reason=str(reason))


class Handler(BrokerProtocolHandler):  # type: ignore[misc]
    def __init__(self, plugins_manager: Any, subscriptions: Subscriptions) -> None:
        super().__init__(plugins_manager)
        self._subscriptions = subscriptions
        self._is_started = asyncio.Event()
        self._goodbye: DisconnectPacket | None = None

    @property
    def _arrivals(self) -> Arrivals:
        return self.session.delivered_message_queue  # type: ignore[no-any-return]

    async def start(self) -> None:
        await super().start()
        self._is_started.set()  # amqtt forgets an end that comes before

    async def wait_disconnect(self) -> DisconnectPacket | None:
        found = await super().wait_disconnect()
        return self._goodbye or found

    async def _reader_loop(self) -> None:
        self._reader_ready.set()
        try:
            await self._is_started.wait()
            patience_s = self.session.keep_alive * KEEP_ALIVE_FACTOR or None
            while self._goodbye is None:
                frame = await self.reader.next(patience_s)
                await self._handle(frame.kind, await parsed(frame))
        except NotMqttError as error:
            told_not_mqtt(error, self.session.client_id)
        except (EOFError, TimeoutError, asyncio.CancelledError):  # cancelled by `stop`, which waits for what follows
            pass
        except (AMQTTError, MQTTError, ProtocolHandlerError, OSError) as error:
            log.debug("an MQTT client is gone", client=self.session.client_id, reason=str(error))
        except Exception:
            log.exception("a packet of an MQTT client failed", client=self.session.client_id)
        await self.handle_connection_closed()
        self._reader_stopped.set()
        await self.stop()

    async def _handle(self, kind: int, packet: Any) -> None:
        if kind == PUBLISH:
            if packet.qos == 0:
                await self.handle_publish(packet)
            else:
                self._arrivals.spawn(self._published(packet))
        elif kind in _HANDLERS:
            await getattr(self, _HANDLERS[kind])(packet)
        elif kind == DISCONNECT:
            self._goodbye = packet
            await self.handle_disconnect(packet)
        else:
            raise NotMqttError(f"a packet of the kind {kind}, which a connected client does not send")

    async def _published(self, packet: Any) -> None:
        """To the end, even if the client is gone meanwhile."""
        try:
            await self.handle_publish(packet)
        except (AMQTTError, MQTTError, ProtocolHandlerError, OSError) as error:
            log.debug("an acknowledgement cannot be sent", client=self.session.client_id, reason=str(error))
            await self.handle_connection_closed()
        except Exception:
            log.exception("a publication failed; the client has to send it again", client=self.session.client_id)
            await self.handle_connection_closed()

    async def mqtt_publish(self, *args: Any, **options: Any) -> Any:
        """To this client; one that does not acknowledge it in time goes without it."""
        try:
            return await super().mqtt_publish(*args, **options)
        except (AMQTTError, MQTTError, ProtocolHandlerError, OSError) as error:  # OSError: TimeoutError too
            METRICS.count("mqtt_messages", "unacknowledged")
            log.debug("an MQTT client does not acknowledge", client=self.session.client_id, reason=str(error))

    async def _handle_qos2_message_flow(self, app_message: Any) -> None:
        if app_message.direction != INCOMING:
            await super()._handle_qos2_message_flow(app_message)
            return
        arrivals, number = self._arrivals, app_message.packet_id
        taken = arrivals.unreleased.get(number)
        if taken is None:  # else it is sent again, and must not be taken again
            taken = arrivals.unreleased[number] = arrivals.spawn(arrivals.put(app_message))
        try:
            await asyncio.shield(taken)
        except BaseException:
            if taken.done():
                arrivals.unreleased.pop(number, None)
            raise
        await self._send_packet(PubrecPacket.build(number))

    async def handle_subscribe(self, subscribe: Any) -> None:
        await self._subscriptions.subscribe(self, subscribe)

    async def handle_unsubscribe(self, unsubscribe: Any) -> None:
        await self._subscriptions.unsubscribe(self, unsubscribe)

    async def handle_pubrel(self, pubrel: Any) -> None:
        self._arrivals.unreleased.pop(pubrel.packet_id, None)
        await self._send_packet(PubcompPacket.build(pubrel.packet_id))


_HANDLERS: Final = {
    PUBACK: "handle_puback",
    PUBREC: "handle_pubrec",
    PUBREL: "handle_pubrel",
    PUBCOMP: "handle_pubcomp",
    SUBSCRIBE: "handle_subscribe",
    UNSUBSCRIBE: "handle_unsubscribe",
    PINGREQ: "handle_pingreq",
}
