"""From a patch to the notification at the client: over HTTP, over MQTT, with few and with many subscriptions."""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

import gmqtt
import uvloop
from msgspec import Struct

from http_load import Receiver, request, run_load

RATE = 500
MANY_MATCH = 10


class Latency(Struct):
    sent: int
    samples_ms: list[float]

    @property
    def median_ms(self) -> float:
        return median(self.samples_ms)

    @property
    def described(self) -> str:
        ordered = sorted(self.samples_ms)
        return f"p99 {ordered[int(0.99 * (len(ordered) - 1))]:.2f} ms, {len(ordered)} of {self.sent} came"


async def _post(port: int, path: str, bodies: list[Any]) -> None:
    requests = iter([request("POST", f"/ngsi-ld/v1/{path}", json.dumps(body).encode()) for body in bodies])
    (await run_load(port, requests, min(20, len(bodies)))).check(201)


def _subscription(i: int, uri: str, q: str = "", watched: str = "stamp") -> dict[str, Any]:
    subscription: dict[str, Any] = {
        "id": f"urn:ngsi-ld:Subscription:{i}",
        "type": "Subscription",
        "entities": [{"type": "Probe"}],
        "watchedAttributes": [watched],
        "notification": {"format": "keyValues", "endpoint": {"uri": uri, "accept": "application/json"}},
    }
    return subscription | {"q": q} if q else subscription


async def _patches(port: int, seconds: float) -> int:
    """Patches at a steady rate over a few connections; each carries the time at which it was sent."""
    loop = asyncio.get_running_loop()
    total = int(RATE * seconds)
    connections = 10
    started = loop.time()

    async def worker(k: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for i in range(k, total, connections):
            pause = started + i / RATE - loop.time()
            if pause > 0:
                await asyncio.sleep(pause)
            body = json.dumps({"stamp": {"type": "Property", "value": time.perf_counter()}}).encode()
            writer.write(request("PATCH", f"/ngsi-ld/v1/entities/urn:ngsi-ld:Probe:{k}/attrs", body))
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 204 " not in head.split(b"\r\n", 1)[0]:
                raise SystemExit(f"a patch was refused: {head!r}")
        writer.close()

    await asyncio.gather(*(worker(k) for k in range(connections)))
    return total


def _entities(n: int = 10) -> list[dict[str, Any]]:
    return [
        {
            "id": f"urn:ngsi-ld:Probe:{i}",
            "type": "Probe",
            "stamp": {"type": "Property", "value": 0},
            "level": {"type": "Property", "value": 50},
        }
        for i in range(n)
    ]


class _Heard:
    def __init__(self) -> None:
        self.samples_ms: list[float] = []

    def body(self, body: bytes) -> None:
        now = time.perf_counter()
        for entity in json.loads(body)["data"]:
            if entity.get("stamp"):
                self.samples_ms.append((now - entity["stamp"]) * 1000)

    async def settle(self, expected: int) -> None:
        """Wait until everything has come, or nothing comes any more."""
        for _ in range(100):
            if len(self.samples_ms) >= expected:
                return
            await asyncio.sleep(0.05)


async def _http(port: int, seconds: float, subscriptions: int, matching: int) -> Latency:
    heard = _Heard()
    loop = asyncio.get_running_loop()
    receiver = await loop.create_server(lambda: Receiver(heard.body), "127.0.0.1", 0)
    uri = f"http://127.0.0.1:{receiver.sockets[0].getsockname()[1]}/notify"
    await _post(port, "entities", _entities())
    wanted = [_subscription(i, uri, "level<100" if subscriptions > 1 else "") for i in range(matching)]
    other = [_subscription(i, uri, f"level=={i + 1000}") for i in range(matching, subscriptions)]
    await _post(port, "subscriptions", wanted + other)
    sent = await _patches(port, seconds)
    await heard.settle(sent * matching)
    receiver.close()
    return Latency(sent * matching, heard.samples_ms)


def http_latency(port: int, seconds: float) -> Latency:
    return uvloop.run(_http(port, seconds, 1, 1))


def with_subscriptions(port: int, subscriptions: int, seconds: float) -> Latency:
    """Ten of them match every patch; at a tenth of the rate, since each patch is ten notifications."""
    global RATE  # noqa: PLW0603
    RATE, before = 50, RATE
    try:
        return uvloop.run(_http(port, seconds, subscriptions, MANY_MATCH))
    finally:
        RATE = before


@asynccontextmanager
async def _mosquitto() -> AsyncIterator[int]:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:
        conf = Path(folder) / "mosquitto.conf"
        conf.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
        process = subprocess.Popen(  # noqa: ASYNC220
            ["mosquitto", "-c", str(conf)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            for _ in range(200):
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                except OSError:
                    await asyncio.sleep(0.02)
            yield port
        finally:
            process.terminate()
            process.wait()


async def _listen(port: int, topic: str, heard: Callable[[bytes], None]) -> gmqtt.Client:
    client = gmqtt.Client(f"listener-{time.perf_counter_ns()}")
    ready = asyncio.get_running_loop().create_future()

    def message(_client: gmqtt.Client, _topic: str, payload: bytes, _qos: int, _properties: dict[str, Any]) -> int:
        heard(payload)
        return 0

    client.on_message = message

    def subscribed(*_: Any) -> None:
        if not ready.done():
            ready.set_result(None)

    client.on_subscribe = subscribed
    await client.connect("127.0.0.1", port)
    client.subscribe(topic, qos=0)
    await ready
    return client


async def _mqtt(port: int, seconds: float) -> Latency:
    heard = _Heard()
    async with _mosquitto() as broker:
        client = await _listen(broker, "bench/#", lambda payload: heard.body(json.dumps(json.loads(payload)["body"]).encode()))
        await _post(port, "entities", _entities())
        await _post(port, "subscriptions", [_subscription(0, f"mqtt://127.0.0.1:{broker}/bench/probes")])
        sent = await _patches(port, seconds)
        await heard.settle(sent)
        await client.disconnect()
    return Latency(sent, heard.samples_ms)


def mqtt_latency(port: int, seconds: float) -> Latency:
    return uvloop.run(_mqtt(port, seconds))


async def _bare(seconds: float) -> float:
    samples: list[float] = []
    async with _mosquitto() as broker:
        listener = await _listen(broker, "bench/#", lambda payload: samples.append((time.perf_counter() - float(payload)) * 1000))
        sender = gmqtt.Client("sender")
        await sender.connect("127.0.0.1", broker)
        for _ in range(int(RATE * seconds)):
            sender.publish("bench/x", str(time.perf_counter()), qos=0)
            await asyncio.sleep(1 / RATE)
        await asyncio.sleep(0.2)
        await sender.disconnect()
        await listener.disconnect()
    return median(samples)


def bare_mosquitto_ms(seconds: float) -> float:
    """Publish to receive through Mosquitto alone, at the same rate, median."""
    return uvloop.run(_bare(seconds))


Measure = Callable[[int, float], Latency]
Work = Awaitable[None]
