"""Letters by MQTT: one connection for each broker (and user and version), shared by all endpoints there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, cast

from hanse.ngsild.errors import NgsiLdError
from hanse.node.mqtt.address import MqttAddress, parse_mqtt_url
from hanse.node.mqtt.connection import MqttConnection, MqttUnreachable, MqttVersionRefused
from hanse.node.notifier.queue import SendingFailed

if TYPE_CHECKING:
    from hanse.ngsild.notifications import Letter
    from hanse.node.mqtt.connection import Version

CONNECTIONS_MAX: Final = 256
WINDOW: Final = 16  # letters without an acknowledgement on one connection: Mosquitto allows 20, if it is not told otherwise


class _Line:
    """A connection, and the one attempt to make it that all who need it wait for."""

    __slots__ = ("connecting", "connection", "users", "version")

    def __init__(self, version: Version) -> None:
        self.version = version
        self.connection: MqttConnection | None = None
        self.connecting: asyncio.Task[MqttConnection] | None = None
        self.users = 0


class MqttSender:
    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._lines: dict[tuple[MqttAddress, str], _Line] = {}

    async def send(self, letter: Letter) -> None:
        """Done when the broker has acknowledged it (QoS 0: when it is sent). Raises SendingFailed."""
        seconds = letter.timeout_s or self._timeout_s
        try:
            address, topic = parse_mqtt_url(letter.uri)
        except NgsiLdError as error:
            raise SendingFailed(str(error), is_final=True) from None
        try:
            async with asyncio.timeout(seconds):
                await self._publish(address, topic, letter)
        except TimeoutError:
            raise SendingFailed(f"{address} does not acknowledge within {seconds:g} s") from None
        except NgsiLdError as error:
            raise SendingFailed(str(error)) from None
        except (MqttUnreachable, OSError) as error:
            raise SendingFailed(str(error)) from None

    async def _publish(self, address: MqttAddress, topic: str, letter: Letter) -> None:
        key = (address, letter.mqtt_version)
        line = self._lines.get(key)
        if line is None:
            self._make_room()
            line = self._lines[key] = _Line(cast("Version", letter.mqtt_version or "5"))
        line.users += 1
        try:
            was_open = line.connection is not None and line.connection.connected
            connection = await self._connected(line, address, is_fixed=bool(letter.mqtt_version))
            try:
                await connection.publish(topic, letter.body, qos=letter.mqtt_qos)
            except MqttUnreachable:
                if not was_open:
                    raise
                # the broker has been restarted, perhaps: a connection of long ago says nothing about now
                await (await self._connected(line, address, is_fixed=bool(letter.mqtt_version))).publish(
                    topic, letter.body, qos=letter.mqtt_qos
                )
        finally:
            line.users -= 1

    async def _connected(self, line: _Line, address: MqttAddress, *, is_fixed: bool) -> MqttConnection:
        if line.connection is not None and line.connection.connected:
            return line.connection
        if line.connecting is None:
            line.connecting = asyncio.create_task(self._connect(line, address, is_fixed=is_fixed))
            line.connecting.add_done_callback(_looked_at)
        return await asyncio.shield(line.connecting)

    async def _connect(self, line: _Line, address: MqttAddress, *, is_fixed: bool) -> MqttConnection:
        try:
            if line.connection is not None:
                await line.connection.close()
            connection = line.connection = self._made(line, address)
            try:
                await connection.connect()
            except MqttVersionRefused:
                if is_fixed:
                    raise
                line.version = "3.1.1"
                connection = line.connection = self._made(line, address)
                await connection.connect()
            return connection
        finally:
            line.connecting = None

    def _made(self, line: _Line, address: MqttAddress) -> MqttConnection:
        return MqttConnection(address, version=line.version, timeout_s=self._timeout_s, window=WINDOW)

    def _make_room(self) -> None:
        if len(self._lines) < CONNECTIONS_MAX:
            return
        for key, line in list(self._lines.items()):
            if not line.users:
                del self._lines[key]
                if line.connection is not None:
                    asyncio.create_task(line.connection.close()).add_done_callback(_looked_at)
                return

    async def close(self) -> None:
        lines, self._lines = self._lines, {}
        for line in lines.values():
            if line.connecting is not None:
                line.connecting.cancel()
                await asyncio.gather(line.connecting, return_exceptions=True)
            if line.connection is not None:
                await line.connection.close()


def _looked_at(task: asyncio.Task[object]) -> None:
    if not task.cancelled():
        task.exception()
