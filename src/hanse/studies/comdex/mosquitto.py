"""What a message costs with Mosquitto alone, on the same machine in the same run: publish to receive, nothing kept on a disk."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import gmqtt

from hanse.model.ports import free_ports
from hanse.studies.comdex.latency import GAP_S, Samples

START_S_MAX: Final = 10.0
TOPIC: Final = "study/probe"


def find_mosquitto() -> str | None:
    for candidate in (os.environ.get("MOSQUITTO"), shutil.which("mosquitto"), "/usr/sbin/mosquitto"):
        if candidate and Path(candidate).exists():
            return candidate
    return None


def bare_mosquitto(count: int) -> Samples | None:
    """None: this machine has no Mosquitto."""
    program = find_mosquitto()
    if program is None:
        return None
    port = free_ports(1)[0]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "mosquitto.conf"
        config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
        process = subprocess.Popen(  # noqa: S603 - the program that this machine has
            [program, "-c", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            return asyncio.run(_measure(port, count))
        finally:
            process.terminate()
            process.wait()


async def _measure(port: int, count: int) -> Samples:
    samples = Samples()
    listener, sender = gmqtt.Client("study-listener"), gmqtt.Client("study-sender")
    subscribed, done = asyncio.Event(), asyncio.Event()

    def heard(_client: Any, _topic: str, payload: bytes, _qos: int, _properties: Any) -> int:
        samples.ms.append((time.perf_counter_ns() - int(payload)) / 1e6)
        if len(samples.ms) == count:
            done.set()
        return 0

    listener.on_message = heard
    listener.on_subscribe = lambda *_: subscribed.set()
    async with asyncio.timeout(START_S_MAX):
        await _connected(listener, port)
        await _connected(sender, port)
        listener.subscribe(TOPIC, qos=0)
        await subscribed.wait()
    async with asyncio.timeout(START_S_MAX + 10 * count * GAP_S):
        for _ in range(count):
            sender.publish(TOPIC, str(time.perf_counter_ns()), qos=0)
            await asyncio.sleep(GAP_S)
        await done.wait()
        await sender.disconnect()
        await listener.disconnect()
    return samples


async def _connected(client: gmqtt.Client, port: int) -> None:
    """As soon as it listens, which it says nowhere."""
    while True:
        try:
            await client.connect("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.02)
        else:
            return
