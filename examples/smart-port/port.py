"""A port for half a minute: a node, devices that publish by MQTT, an application that follows and asks. All output is real.

    python examples/smart-port/port.py [--seconds 8] [--port 9090]

The node is a process of its own with its data on the disk. At the end it is killed (kill -9) and started again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion

import hanse
from hanse.client import NodeClient

QUAY = (9.9350, 53.5330)  # longitude and latitude of the container quay, Hamburg
ROUND_S = 0.1
START_S_MAX = 30.0


def say(text: str = "") -> None:
    print(text, flush=True)


def title(text: str) -> None:
    say(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}")


def free(port: int) -> int:
    """The port, or any free one if somebody has it."""
    for wanted in (port, 0):
        with suppress(OSError), socket.create_server(("127.0.0.1", wanted)) as listener:
            return int(listener.getsockname()[1])
    raise OSError("there is no free port")


@contextmanager
def node(port: int, mqtt_port: int, data: str) -> Iterator[subprocess.Popen[str]]:
    """`hanse serve`, ready; stopped at the end."""
    command = [sys.executable, "-m", "hanse", "serve", "--port", str(port), "--mqtt-port", str(mqtt_port), "--data", data]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("Stop it"):
                break
        else:
            raise SystemExit("the node does not start: run `hanse serve` to see why")
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait()


class Devices:
    """Two ships, four cranes, a tide gauge and three air sensors. Each value goes to the topic of its attribute, with QoS 1."""

    def __init__(self, mqtt_port: int) -> None:
        self._rng = random.Random(7)
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.connect("127.0.0.1", mqtt_port)
        self._client.loop_start()
        self._last: list[paho.MQTTMessageInfo] = []
        self.published = 0

    def publish(self, type_: str, name: str, attribute: str, value: Any) -> None:
        topic = f"hanse/entities/-/{type_}/urn:ngsi-ld:{type_}:{name}/{attribute}"
        self._last = [*self._last[-20:], self._client.publish(topic, json.dumps(value), qos=1)]
        self.published += 1

    def install(self) -> None:
        for number in range(4):
            self.publish("Crane", f"{number}", "location", point(number * 0.002, 0))
        for number, (east, north) in enumerate(((-0.006, 0.004), (0.004, 0.005), (0.012, 0.003))):
            self.publish("AirSensor", f"{number}", "location", point(east, north))
        self.publish("TideGauge", "1", "location", point(-0.004, -0.004))

    def work(self, seconds: float) -> None:
        """One round of all devices."""
        for number in range(4):
            load = max(0.0, 25 + 20 * math.sin(seconds * 1.3 + number * 1.7) + self._rng.gauss(0, 2))
            self.publish("Crane", f"{number}", "load", {"value": round(load, 1), "unitCode": "TNE"})
        for name, speed in (("elbe", 0.0012), ("trave", -0.0009)):
            self.publish("Ship", name, "location", point(-0.01 * math.copysign(1, speed) + speed * seconds, -0.0025))
        for number in range(3):
            self.publish("AirSensor", f"{number}", "no2", round(30 + 8 * math.sin(seconds / 2 + number) + self._rng.random(), 1))
        self.publish("TideGauge", "1", "level", round(4.8 + 0.3 * math.sin(seconds / 4), 2))

    def finish(self) -> None:
        for info in self._last:
            info.wait_for_publish(10)
        self._client.disconnect()
        self._client.loop_stop()


def point(east: float, north: float) -> dict[str, Any]:
    return {"type": "Point", "coordinates": [round(QUAY[0] + east, 5), round(QUAY[1] + north, 5)]}


async def devices_for(seconds: float, devices: Devices) -> None:
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        devices.work(passed)
        await asyncio.sleep(ROUND_S)


async def follow(client: NodeClient, told: list[str]) -> None:
    """An application: heavy loads, as they happen."""
    async for notification in client.subscribe(type="Crane", q="load>43", watched="load", format="simplified"):
        for crane in notification["data"]:
            told.append(crane["id"])
            if len(told) <= 6:
                say(f"   heard: {crane['id']} lifts {crane['load']} t")


async def live(url: str, mqtt_port: int, seconds: float) -> None:
    title("1. Devices publish by MQTT, an application follows by Server-Sent Events")
    say('   publish hanse/entities/-/Crane/urn:ngsi-ld:Crane:0/load  {"value": 31.5, "unitCode": "TNE"}')
    say('   async for notification in node.subscribe(type="Crane", q="load>43"): ...')
    devices = Devices(mqtt_port)
    devices.install()
    told: list[str] = []
    async with hanse.connect(url) as client:
        following = asyncio.create_task(follow(client, told))
        await devices_for(seconds, devices)
        await asyncio.to_thread(devices.finish)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        say(f"   {devices.published} values published, {len(told)} notifications heard; {await client.count(type='*')} entities")


async def ask(url: str) -> None:
    async with hanse.connect(url) as client:
        title("2. Ask by value, by place, by time")
        found = [entity async for entity in client.query(type="Crane", q="load>20", orderBy="load", format="simplified")]
        say("   GET /ngsi-ld/v1/entities?type=Crane&q=load>20&orderBy=load")
        for crane in found:
            say(f"     {crane['id']}  {crane['load']} t")
        near: dict[str, Any] = {"georel": "near;maxDistance==400", "geometry": "Point", "coordinates": json.dumps(QUAY)}
        found = [entity async for entity in client.query(type="*", format="simplified", **near)]
        say("   ...?georel=near;maxDistance==400&geometry=Point&coordinates=[9.935,53.533]")
        for entity in found:
            say(f"     {entity['id']}  {entity['location']['coordinates']}")
        history = await client.temporal("urn:ngsi-ld:TideGauge:1", attrs="level", last=5, values=True)
        say("   GET /ngsi-ld/v1/temporal/entities/urn:ngsi-ld:TideGauge:1?attrs=level&lastN=5&options=temporalValues")
        for value, at in history["level"]["values"]:
            say(f"     {at}  {value} m")
        summary = await client.temporal("urn:ngsi-ld:Crane:0", attrs="load", aggrMethods="avg,max", options="aggregatedValues")
        highest, mean = (summary["load"][method][0][0] for method in ("max", "avg"))
        say(f"   ...Crane:0?aggrMethods=avg,max&options=aggregatedValues: {mean:.1f} t on average, {highest} t at most")


async def state(url: str) -> tuple[int, int]:
    async with hanse.connect(url) as client:
        reply = await client.request("GET", "/hanse/v1/log", params={"limit": 0})
        return await client.count(type="*"), int({name.lower(): value for name, value in reply.headers.items()}["hanse-log-end"])


async def numbers(url: str) -> None:
    async with hanse.connect(url) as client:
        text = (await client.request("GET", "/metrics", headers={"Accept": "text/plain"})).data.decode()
    title("3. What the node says of itself (/metrics)")
    wanted = (
        r"^(hanse_mqtt_messages_total|hanse_log_offset_total|hanse_notifications|hanse_requests_total|process_resident)\S* .*$"
    )
    for line in re.finditer(wanted, text, re.MULTILINE):
        say(f"   {line[0]}")


def main() -> None:
    parser = argparse.ArgumentParser(description="A port for half a minute.")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long the devices work")
    parser.add_argument("--port", type=int, default=9090, help="of the node; another one if it is taken")
    given = parser.parse_args()
    port, mqtt_port = free(given.port), free(1884)
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="smart-port-") as data:
        title(f"A node for a port: hanse serve --port {port} --mqtt-port {mqtt_port} --data {data}")
        with node(port, mqtt_port, data) as process:
            say(f"   Look at it while it runs: {url}/ (live page), {url}/docs (all routes)")
            asyncio.run(live(url, mqtt_port, given.seconds))
            asyncio.run(ask(url))
            asyncio.run(numbers(url))
            before = asyncio.run(state(url))
            title("4. kill -9, and start again")
            process.kill()
        with node(port, mqtt_port, data):
            after = asyncio.run(state(url))
            say(
                f"   before: {before[0]} entities, {before[1]} changes in the log; after: {after[0]} entities, {after[1]} changes"
            )
            if before != after:
                raise SystemExit("something is lost")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
