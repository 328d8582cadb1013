"""From a device to those who follow: a real MQTT client publishes, through a real Mosquitto or the embedded broker, to a node
in a process of its own; NGSI-LD subscribers are told by HTTP, MQTT, Server-Sent Events and WebSocket.
"""

from __future__ import annotations

import asyncio
import os
import queue
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import aiohttp
import msgspec
import pytest
from aiohttp import web
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion
from tests.asking import asking
from tests.cli.node_process import served
from tests.mosquitto import Mosquitto
from tests.serving import serving, settings_with

from hanse.model.ports import free_port
from hanse.node.store import Store, Write

WAIT_S = 60.0
API = "/ngsi-ld/v1"
CRANE = "port/entities/-/Crane/urn:ngsi-ld:Crane:{}/load"
HEAVY = {"entities": [{"type": "Crane"}], "q": "load>10"}
BROKERS = pytest.mark.parametrize("broker", ["mosquitto", "embedded"])


class Scene:
    """A node that can be killed and come back, with the broker that its devices use."""

    def __init__(self, mqtt_port: int, environment: dict[str, str], arguments: list[object]) -> None:
        self.mqtt_port = mqtt_port
        self._environment = environment
        self._arguments = arguments

    @contextmanager
    def node(self) -> Iterator[tuple[subprocess.Popen[str], str]]:
        with served("--mqtt", *self._arguments, HANSE_NODE__ID="port", **self._environment) as (process, url):
            yield process, url


@contextmanager
def scene(broker: str, data: Path) -> Iterator[Scene]:
    if broker == "mosquitto":
        with Mosquitto() as mosquitto:
            yield Scene(mosquitto.port, {"HANSE_MQTT__URL": mosquitto.url}, ["--data", data])
    else:
        port = free_port()
        yield Scene(port, {}, ["--data", data, "--mqtt-port", port])


class MqttClient:
    """paho, which is what devices are written with."""

    def __init__(self, port: int) -> None:
        self.heard: asyncio.Queue[tuple[str, bytes, bool]] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._port = port
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.on_message = self._on_message
        self._client.on_subscribe = self._on_subscribe
        self._subscribed = asyncio.Event()

    def _on_message(self, _client: Any, _data: Any, message: paho.MQTTMessage) -> None:
        self._loop.call_soon_threadsafe(self.heard.put_nowait, (message.topic, bytes(message.payload), message.retain))

    def _on_subscribe(self, *_: Any) -> None:
        self._loop.call_soon_threadsafe(self._subscribed.set)

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._client.connect, "127.0.0.1", self._port)
        self._client.loop_start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._client.disconnect()
        await asyncio.to_thread(self._client.loop_stop)

    async def subscribe(self, pattern: str) -> None:
        self._client.subscribe(pattern, qos=1)
        await self._subscribed.wait()

    def send(self, topic: str, payload: Any) -> paho.MQTTMessageInfo:
        return self._client.publish(topic, msgspec.json.encode(payload), qos=1)

    async def publish(self, topic: str, payload: Any) -> None:
        """Done when it is acknowledged."""
        info = self.send(topic, payload)
        await asyncio.to_thread(info.wait_for_publish, WAIT_S)
        assert info.is_published()


class Receiver:
    """Where notifications come by HTTP. It answers when it may."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[Any] = asyncio.Queue()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.uri = ""

    async def take(self, request: web.Request) -> web.Response:
        self.heard.put_nowait(await request.json())
        await self.may_answer.wait()
        return web.Response(status=204)


@asynccontextmanager
async def receiving(port: int = 0) -> AsyncIterator[Receiver]:
    receiver = Receiver()
    app = web.Application()
    app.router.add_post("/heavy", receiver.take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    receiver.uri = f"http://127.0.0.1:{runner.addresses[0][1]}/heavy"
    try:
        yield receiver
    finally:
        receiver.may_answer.set()
        await runner.cleanup()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(2 * WAIT_S):
            await test()

    asyncio.run(bounded())


async def subscribe(http: aiohttp.ClientSession, uri: str) -> None:
    endpoint = {"uri": uri, "accept": "application/json"}
    body = {"type": "Subscription", **HEAVY, "notification": {"format": "keyValues", "endpoint": endpoint}}
    answer = await http.post(f"{API}/subscriptions", json=body)
    assert answer.status == 201, await answer.text()


async def load_of(http: aiohttp.ClientSession, number: int) -> Any:
    answer = await http.get(f"{API}/entities/urn:ngsi-ld:Crane:{number}", params={"options": "keyValues"})
    return (await answer.json())["load"] if answer.status == 200 else None


async def devices_are_heard(http: aiohttp.ClientSession, device: MqttClient) -> None:
    """A node connects to a real broker in its own time: it hears us once a first value has come."""
    while await load_of(http, 0) is None:
        await device.publish(CRANE.format(0), 0)


async def next_event(lines: aiohttp.StreamReader) -> Any:
    while True:
        line = await lines.readline()
        if line.startswith(b"data: "):
            return msgspec.json.decode(line[6:])


@BROKERS
def test_what_a_device_publishes_comes_to_every_kind_of_subscriber(broker: str, tmp_path: Path) -> None:
    with scene(broker, tmp_path) as place, place.node() as (_, url):

        async def test() -> None:
            port = place.mqtt_port
            async with (
                asking(url) as http,
                receiving() as by_http,
                MqttClient(port) as by_mqtt,
                MqttClient(port) as device,
                http.get("/hanse/v1/subscribe", params={"type": "Crane", "q": "load>10", "format": "keyValues"}) as by_events,
                http.ws_connect("/hanse/v1/stream") as by_socket,
            ):
                await devices_are_heard(http, device)
                await subscribe(http, by_http.uri)
                await by_mqtt.subscribe("alerts/heavy")
                await subscribe(http, f"mqtt://127.0.0.1:{port}/alerts/heavy")
                assert (await by_events.content.readline()).startswith(b": connected")
                await by_socket.send_json(
                    {"op": "subscribe", "id": "heavy", "subscription": {**HEAVY, "notification": {"format": "keyValues"}}}
                )
                assert (await by_socket.receive_json())["op"] == "subscribed"

                await device.publish(CRANE.format(7), 5)  # too light for anybody
                await device.publish("port/entities/-/Truck/urn:ngsi-ld:Truck:1/load", 99)  # no crane
                for load in (12, 40):
                    await device.publish(CRANE.format(7), load)

                for load in (12, 40):
                    crane = {"id": "urn:ngsi-ld:Crane:7", "type": "Crane", "load": load}
                    assert (await by_http.heard.get())["data"] == [crane]
                    assert (await next_event(by_events.content))["data"] == [crane]
                    told = await by_socket.receive_json()
                    assert (told["op"], told["id"], told["notification"]["data"]) == ("notification", "heavy", [crane])
                    _, payload, _ = await by_mqtt.heard.get()
                    # by MQTT the headers that HTTP would have come with the notification, in `metadata`
                    assert msgspec.json.decode(payload)["body"]["data"] == [crane]

        run(test)


@BROKERS
def test_last_values_come_to_a_follower_who_is_late(broker: str, tmp_path: Path) -> None:
    with scene(broker, tmp_path) as place, place.node() as (_, url):

        async def test() -> None:
            async with asking(url) as http, MqttClient(place.mqtt_port) as device:
                await devices_are_heard(http, device)
                await device.publish(CRANE.format(7), {"value": 12, "unitCode": "TNE"})
                # what did not come by MQTT is followed the same way
                tug = {"id": "urn:ngsi-ld:Tug:1", "type": "Tug", "speed": {"type": "Property", "value": 8}}
                assert (await http.post(f"{API}/entities", json=tug)).status == 201
                while await load_of(http, 7) is None:
                    pass
                wanted = {CRANE.format(7): {"value": 12, "unitCode": "TNE"}, "port/entities/-/Tug/urn:ngsi-ld:Tug:1/speed": 8}
                async with MqttClient(place.mqtt_port) as late:
                    await late.subscribe("port/entities/#")
                    found: dict[str, Any] = {}
                    while wanted.keys() - found.keys():
                        topic, payload, _ = await late.heard.get()
                        found[topic] = msgspec.json.decode(payload)
                    assert {topic: found[topic] for topic in wanted} == wanted
                # now they are there for certain, and are marked as what they are
                async with MqttClient(place.mqtt_port) as later:
                    await later.subscribe(CRANE.format(7))
                    topic, payload, retained = await later.heard.get()
                    assert (topic, msgspec.json.decode(payload)["value"], retained) == (CRANE.format(7), 12, True)

        run(test)


@BROKERS
def test_what_was_acknowledged_survives_a_kill(broker: str, tmp_path: Path) -> None:
    """Mosquitto acknowledges for itself: it keeps what the node has not taken, and gives it again. The embedded broker
    acknowledges what the node has on its disk.
    """
    number = 300
    with scene(broker, tmp_path) as place:
        acknowledged: set[int] = set()

        async def before(process: subprocess.Popen[str], url: str) -> None:
            async with asking(url) as http, MqttClient(place.mqtt_port) as device:
                await devices_are_heard(http, device)
                sent = {n: device.send(CRANE.format(n), n) for n in range(1, number + 1)}
                await asyncio.to_thread(sent[50].wait_for_publish, WAIT_S)
                process.kill()
                process.wait()
                if broker == "mosquitto":  # its acknowledgements go on coming
                    await asyncio.to_thread(sent[number].wait_for_publish, WAIT_S)
                acknowledged.update(n for n, info in sent.items() if info.is_published())

        async def after(url: str) -> None:
            async with asking(url) as http:
                for n in sorted(acknowledged):
                    while (load := await load_of(http, n)) is None and broker == "mosquitto":
                        pass  # it gives them again in its own time
                    assert load == n

        with place.node() as (process, url):
            run(lambda: before(process, url))
        assert len(acknowledged) >= 50
        with place.node() as (_, url):
            run(lambda: after(url))


def test_no_acknowledgement_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    submitted: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()  # each gives the word that it is on the disk
    submit = Store.submit

    def held_back(store: Store, *writes: Write) -> asyncio.Future[None]:
        done, told = submit(store, *writes), asyncio.get_running_loop().create_future()
        told.add_done_callback(lambda _: done.result())
        submitted.put(partial(told.get_loop().call_soon_threadsafe, told.set_result, None))
        return told

    mqtt_port = free_port()
    with serving(settings_with(node={"id": "port"}, mqtt={"embedded": True, "port": mqtt_port})) as url:

        async def test() -> None:
            async with asking(url) as http, MqttClient(mqtt_port) as device, MqttClient(mqtt_port) as follower:
                await devices_are_heard(http, device)
                await follower.subscribe(CRANE.format(7))
                monkeypatch.setattr(Store, "submit", held_back)
                info = device.send(CRANE.format(7), 12)
                tell = await asyncio.to_thread(submitted.get, timeout=WAIT_S)
                # the broker goes on meanwhile, and a whole round trip brings no acknowledgement
                await device.subscribe("port/errors/#")
                assert not info.is_published()
                assert follower.heard.empty()
                tell()
                await asyncio.to_thread(info.wait_for_publish, WAIT_S)
                assert (await follower.heard.get())[:2] == (CRANE.format(7), b"12")
                assert await load_of(http, 7) == 12

        run(test)


def test_a_dead_endpoint_delays_nobody_and_its_letters_can_be_sent_again(tmp_path: Path) -> None:
    """One endpoint takes requests and never answers, one refuses connections, one works."""
    patience = {"HANSE_NOTIFICATIONS__TIMEOUT_S": "600", "HANSE_NOTIFICATIONS__BACKOFF_S": "0.01"}
    patience |= {"HANSE_NOTIFICATIONS__ATTEMPTS_MAX": "3", "HANSE_NOTIFICATIONS__BREAKER_S": "0.01"}
    patience["HANSE_NOTIFICATIONS__BACKOFF_MAX_S"] = "0.01"
    number, dead_port = 20, free_port()
    mqtt_port = free_port()
    place = Scene(mqtt_port, patience, ["--data", tmp_path, "--mqtt-port", mqtt_port])
    with place.node() as (_, url):

        async def test() -> None:
            async with (
                asking(url) as http,
                receiving() as silent,
                receiving() as works,
                MqttClient(place.mqtt_port) as device,
            ):
                silent.may_answer.clear()
                for uri in (silent.uri, f"http://127.0.0.1:{dead_port}/heavy", works.uri):
                    await subscribe(http, uri)
                for n in range(number):
                    await device.publish(CRANE.format(n), 20 + n)
                heard = [(await works.heard.get())["data"][0] for _ in range(number)]
                assert sorted(crane["load"] for crane in heard) == list(range(20, 20 + number))
                assert 0 < silent.heard.qsize() < number, "some were sent, and none was answered"

                letters: list[Any] = []
                while len(letters) < number:
                    letters = await (await http.get("/hanse/v1/dead-letters")).json()
                assert {letter["endpoint"] for letter in letters} == {f"http://127.0.0.1:{dead_port}/heavy"}
                assert {letter["attempts"] for letter in letters} == {3}
                shown = await (await http.get(f"/hanse/v1/dead-letters/{letters[0]['id']}")).json()
                first = shown["body"]["data"][0]

                async with receiving(dead_port) as alive_again:
                    ran = await asyncio.to_thread(hanse, url, "letters", "resend", str(letters[0]["id"]))
                    assert ran == "resent: 1\n"
                    assert (await alive_again.heard.get())["data"] == [first]
                    assert await asyncio.to_thread(hanse, url, "letters", "resend", "--all") == f"resent: {number - 1}\n"
                    loads = {first["load"]} | {(await alive_again.heard.get())["data"][0]["load"] for _ in range(number - 1)}
                    assert loads == set(range(20, 20 + number))
                assert await asyncio.to_thread(hanse, url, "letters", "list") == "no dead letters\n"

        run(test)


def hanse(url: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "hanse", *arguments]
    return subprocess.run(command, env=os.environ | {"HANSE_URL": url}, capture_output=True, text=True, check=True).stdout
