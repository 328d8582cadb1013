"""Receivers: what is not a file becomes files that a collector reads. MQTT topics, another NGSI-LD broker, GTFS-Realtime feeds.

    with MqttReceiver("mqtt://127.0.0.1:1883", ["town/#"], "spool/", client_id="collector-1"):
        keep(collect(spark, mapping, "spool/", stream=True), …)

A receiver is a thread that fills a spool (`hanse.pipeline.spool`), in the driver or in any other process; the folder must be one
that Spark's workers can read. Nothing that goes wrong outside ends it: it tries again, and `error` says what it was.

- `MqttReceiver`: quality of service 1. A message is acknowledged when it is on disk; by its `client_id` the broker keeps what
  comes meanwhile. So each message arrives at least once, and those that carry a time are collected once;
- `BrokerReceiver`: asks for entities now and then, and writes those that have changed. What changed twice in between is seen
  once (a Hanse node's whole log is read by `format("hanse")`);
- `GtfsReceiver`: fetches a feed now and then; each vehicle, each stop of a trip update and each alert is a line of JSON with the
  names of the specification: `vehicle.position.latitude`, `trip_update.stop_time_update.arrival.delay`, `header.timestamp`.
"""

from __future__ import annotations

import asyncio
import http.client
import logging
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from hanse.model import InvalidInput
from hanse.pipeline.spool import Spool
from hanse.pipeline.wire import Wire

PUBLISH_S: Final = 1.0  # how long messages wait at most until Spark can see them
PAUSE_S: Final = 0.5  # before the second attempt to connect; twice as long before each one after
PAUSE_S_MAX: Final = 15.0
CONNECT_S: Final = 10.0
SESSION_S: Final = 7 * 24 * 3600  # how long an MQTT broker keeps what comes while this is away
ENTITIES_PER_PAGE: Final = 500
REMEMBERED: Final = 200_000  # entities whose last state is known by its digest
_KEEPALIVE_S: Final = 20
_REFUSED: Final = 0x80
_VERSIONS: Final = (5, 4)  # of MQTT's protocol: 5, and 3.1.1
_NO_RECONNECT: Final = -2  # -1 means for ever to gmqtt
_encode = msgspec.json.Encoder().encode


class Receiver(ABC):
    """Entered, it receives; left, it has written all that it has received."""

    def __init__(self, folder: str | Path) -> None:
        self.spool = Spool(folder)
        self.error = ""  # why it does not receive just now
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()
        self.spool.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @abstractmethod
    def _run(self) -> None: ...


# --- by asking now and then -----------------------------------------------------------------------------------------------


class _Asking(Receiver):
    """Writes what an answer has and the one before had not."""

    def __init__(self, folder: str | Path, every_s: float) -> None:
        if every_s <= 0:
            raise InvalidInput(f"a receiver asks every so many seconds, more than 0, not {every_s:g}")
        super().__init__(folder)
        self._every_s = every_s
        self._digests: dict[str, bytes] = {}

    def _run(self) -> None:
        while not self._ending.is_set():
            self.turn()
            self._ending.wait(self._every_s)

    def turn(self) -> None:
        """Ask once."""
        try:
            fresh = [(place, line) for place, name, content, line in self._lines() if self._is_fresh(name, content)]
            self.spool.append(fresh)
            self.spool.publish()
            self.error = ""
        except (OSError, http.client.HTTPException, InvalidInput) as error:
            self._digests.clear()  # perhaps not everything has been written
            self.error = str(error) or type(error).__name__

    def _is_fresh(self, name: str, content: str) -> bool:
        digest = blake2b(content.encode(errors="backslashreplace"), digest_size=16).digest()
        if self._digests.pop(name, None) == digest:
            self._digests[name] = digest
            return False
        self._digests[name] = digest
        if len(self._digests) > REMEMBERED:
            del self._digests[next(iter(self._digests))]
        return True

    @abstractmethod
    def _lines(self) -> Iterator[tuple[str, str, str, str]]:
        """From where, of what, what makes it another than the one before, and the line."""


class BrokerReceiver(_Asking):
    def __init__(
        self,
        url: str,
        folder: str | Path,
        *,
        types: Sequence[str] = (),
        attributes: Sequence[str] = (),
        q: str = "",
        token: str = "",
        tenant: str = "",
        context: str = "",
        every_s: float = 10.0,
    ) -> None:
        """`context`: the URL of the @context by which names are meant and shortened."""
        self._wire = Wire(url, token, tenant)
        if not types and not attributes and not q:
            raise InvalidInput("an NGSI-LD broker wants to know which entities; name types, attributes or a query")
        super().__init__(folder, every_s)
        asked = {"type": ",".join(types), "attrs": ",".join(attributes), "q": q}
        self._params = {name: text for name, text in asked.items() if text}
        self._headers = {"Accept": "application/json"}
        if context:
            self._headers["Link"] = f'<{context}>; rel="http://www.w3.org/ns/json-ld#context"; type="application/ld+json"'

    def _lines(self) -> Iterator[tuple[str, str, str, str]]:
        offset = 0
        while True:
            params = self._params | {"limit": ENTITIES_PER_PAGE, "offset": offset}
            answer = self._wire.checked(self._wire.ask("GET", "/ngsi-ld/v1/entities", params, headers=self._headers))
            try:
                page = msgspec.json.decode(answer.body)
            except msgspec.DecodeError as error:
                raise InvalidInput(f"{self._wire.url} is no NGSI-LD broker: its answer is not JSON ({error})") from error
            if not isinstance(page, list):
                raise InvalidInput(f"{self._wire.url} is no NGSI-LD broker: its answer is no list")
            for entity in page:
                name = str(entity.get("id")) if isinstance(entity, dict) else ""
                line = _encode(entity).decode()
                yield self._wire.url, name, line, line
            if len(page) < ENTITIES_PER_PAGE:
                return
            offset += len(page)


class GtfsReceiver(_Asking):
    """`place`: a URL, or a file that is replaced now and then."""

    def __init__(self, place: str, folder: str | Path, *, every_s: float = 15.0) -> None:
        self._place = place
        parts = urlsplit(place)
        self._wire = Wire(place) if parts.scheme in ("http", "https") else None
        self._params = dict(parse_qsl(parts.query))
        self._shown = place.partition("?")[0]  # a key may be behind it
        super().__init__(folder, every_s)

    def _lines(self) -> Iterator[tuple[str, str, str, str]]:
        if self._wire is None:
            content = Path(self._place).read_bytes()
        else:
            content = self._wire.checked(self._wire.ask("GET", "", self._params)).body
        for name, said, line in feed_lines(content):
            yield self._shown, name, said, line


def feed_lines(content: bytes) -> Iterator[tuple[str, str, str]]:
    """The parts of a GTFS-Realtime feed: a name that stays, what it says, and both with the header, as JSON.

    What it says is of the header's time only where it has no time of its own. What is no feed is one part, as it is.
    """
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message import DecodeError
    from google.transit import gtfs_realtime_pb2 as pb

    feed = pb.FeedMessage()
    try:
        feed.ParseFromString(content)
        parts = MessageToDict(feed, preserving_proto_field_name=True)
    except (DecodeError, UnicodeDecodeError, RuntimeError, ValueError):
        yield "", content.decode("latin-1"), content.decode("latin-1")
        return
    if not content or not feed.IsInitialized():
        yield "", content.decode("latin-1"), content.decode("latin-1")
        return
    header = parts.get("header", {})
    for entity in parts.get("entity", ()):
        stops = entity.get("trip_update", {}).pop("stop_time_update", None) or [None]
        is_timed = "alert" in entity or any("timestamp" in entity.get(kind, {}) for kind in ("vehicle", "trip_update"))
        for number, stop in enumerate(stops):
            made = dict(entity)
            if stop is not None:
                made["trip_update"] = entity["trip_update"] | {"stop_time_update": stop}
            line = _encode({"header": header} | made).decode()
            yield f"{entity['id']}/{number}", _encode(made).decode() if is_timed else line, line


# --- MQTT -----------------------------------------------------------------------------------------------------------------


class MqttReceiver(Receiver):
    def __init__(self, url: str, topics: Sequence[str], folder: str | Path, *, client_id: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("mqtt", "mqtts") or not parts.hostname:
            raise InvalidInput(f"{url[:100]!r} is no MQTT broker; write mqtt://host:1883, or mqtts://user:password@host:8883")
        if not topics or not client_id:
            raise InvalidInput("an MQTT receiver needs topics, and a client_id that stays the same, so that the broker knows it")
        super().__init__(folder)
        self._host, self._tls = parts.hostname, parts.scheme == "mqtts"
        self._port = parts.port or (8883 if self._tls else 1883)
        self._user, self._password = unquote(parts.username or ""), unquote(parts.password or "")
        self._topics = tuple(topics)
        self._client_id = client_id
        self._version = _VERSIONS[0]
        self.listening = threading.Event()  # set while the broker has accepted the subscriptions
        self._come: asyncio.Queue[tuple[str, str, asyncio.Future[None]]] = asyncio.Queue()

    def _run(self) -> None:
        logging.getLogger("gmqtt").setLevel(logging.CRITICAL)  # it tells of every packet
        asyncio.run(self._receive())

    async def _receive(self) -> None:
        tasks = [asyncio.ensure_future(self._write()), asyncio.ensure_future(self._publish())]
        ending = asyncio.ensure_future(asyncio.to_thread(self._ending.wait))
        pause_s = PAUSE_S
        while not self._ending.is_set():
            try:
                await self._connection(ending)
                pause_s = PAUSE_S
            except Exception as error:  # noqa: BLE001  gmqtt raises many
                self.error = str(error) or type(error).__name__
                self._version = _VERSIONS[(_VERSIONS.index(self._version) + 1) % len(_VERSIONS)]  # perhaps the broker is older
                await asyncio.wait({ending}, timeout=pause_s)
                pause_s = min(2 * pause_s, PAUSE_S_MAX)
            finally:
                self.listening.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connection(self, ending: asyncio.Future[bool]) -> None:
        """Until it is lost, or this ends."""
        import gmqtt

        lost = asyncio.Event()
        subscribed: asyncio.Queue[tuple[int, ...]] = asyncio.Queue()
        session = {"session_expiry_interval": SESSION_S} if self._version == _VERSIONS[0] else {}
        client = gmqtt.Client(self._client_id, clean_session=False, optimistic_acknowledgement=False, **session)
        client.reconnect_retries = _NO_RECONNECT
        client.on_message = self._received
        client.on_disconnect = lambda *_: lost.set()
        client.on_subscribe = lambda _client, _packet, codes, _properties: subscribed.put_nowait(codes)
        if self._user:
            client.set_auth_credentials(self._user, self._password)
        tls = ssl.create_default_context() if self._tls else False
        try:
            connecting = client.connect(self._host, self._port, ssl=tls, keepalive=_KEEPALIVE_S, version=self._version)
            await asyncio.wait_for(connecting, CONNECT_S)
            for topic in self._topics:
                client.subscribe(topic, qos=1)
                if any(code >= _REFUSED for code in await asyncio.wait_for(subscribed.get(), CONNECT_S)):
                    raise InvalidInput(f"{self._host} refuses the subscription to {topic!r}")
            self.error = ""
            self.listening.set()
            losing: asyncio.Future[bool] = asyncio.ensure_future(lost.wait())
            await asyncio.wait({ending, losing}, return_when=asyncio.FIRST_COMPLETED)
            losing.cancel()
            if not ending.done():
                raise InvalidInput(f"the connection to {self._host} is lost")
        finally:
            with suppress(TimeoutError, OSError):
                await asyncio.wait_for(self._come.join(), CONNECT_S)  # what has come is acknowledged
                await asyncio.wait_for(client.disconnect(), CONNECT_S)

    async def _received(self, _client: Any, topic: Any, payload: bytes, _qos: int, _properties: Any) -> int:
        """Gmqtt acknowledges when this returns."""
        name = topic if isinstance(topic, str) else bytes(topic).decode(errors="backslashreplace")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._come.put_nowait((name, bytes(payload).decode(errors="backslashreplace"), done))
        await done
        return 0

    async def _write(self) -> None:
        """All that have come while those before were written, at once."""
        while True:
            waiting = [await self._come.get()]
            while not self._come.empty():
                waiting.append(self._come.get_nowait())
            await self._append([(place, line) for place, line, _ in waiting])
            for _, _, done in waiting:
                done.set_result(None)
                self._come.task_done()

    async def _append(self, lines: list[tuple[str, str]]) -> None:
        while True:
            try:
                return await asyncio.to_thread(self.spool.append, lines)
            except OSError as error:  # a full disk: nothing is acknowledged until there is room
                self.error = f"the spool cannot be written: {error.strerror}"
                await asyncio.sleep(PAUSE_S)

    async def _publish(self) -> None:
        while True:
            await asyncio.sleep(PUBLISH_S)
            await asyncio.to_thread(self.spool.publish)
