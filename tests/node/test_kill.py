"""kill -9 under load: what was acknowledged is there, nothing is there by half, and notifications go on.

Each worker owns some entities and changes them one request at a time, so that it knows what each must be: what was last
acknowledged, or what the request that was under way when the node died would have made of it. `make kill` is the long run.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from hanse.model.ports import free_port

KILLS = int(os.environ.get("HANSE_KILLS", "3"))
WORKERS = 24
ABSENT = -1  # the entity is not there


class Worker:
    """The owner of a few entities: what each may be."""

    def __init__(self, number: int, seed: int) -> None:
        self.rng = random.Random(seed)
        self.ids = [f"urn:ngsi-ld:Tank:{number}-{i}" for i in range(4)]
        self.acknowledged: dict[str, int] = dict.fromkeys(self.ids, ABSENT)
        self.under_way: dict[str, int] = {}
        self.promised: set[tuple[str, int]] = set()  # acknowledged levels, of which a notification must come
        self.level = number * 1_000_000

    async def run(self, session: aiohttp.ClientSession, base: str) -> None:
        try:
            while True:
                await self.step(session, base)
        except (TimeoutError, aiohttp.ClientError, ConnectionError):
            return  # the node is gone

    async def step(self, session: aiohttp.ClientSession, base: str) -> None:
        id_ = self.rng.choice(self.ids)
        self.level += 1
        level = self.level
        both = {"level": {"type": "Property", "value": level}, "echo": {"type": "Property", "value": level}}
        if self.acknowledged[id_] == ABSENT:
            batch = self.rng.random() < 0.3
            entity = {"id": id_, "type": "Tank", **both}
            path, body = ("/entityOperations/upsert", [entity]) if batch else ("/entities", entity)
            await self.do(session, "POST", base + path, body, id_, level, 201)
        elif self.rng.random() < 0.1:
            await self.do(session, "DELETE", f"{base}/entities/{id_}", None, id_, ABSENT, 204)
        else:
            await self.do(session, "PATCH", f"{base}/entities/{id_}/attrs", both, id_, level, 204)

    async def do(
        self, session: aiohttp.ClientSession, method: str, url: str, body: Any, id_: str, level: int, status: int
    ) -> None:
        self.under_way[id_] = level
        async with session.request(method, url, json=body) as answer:
            assert answer.status == status, await answer.text()
        del self.under_way[id_]
        self.acknowledged[id_] = level
        if level != ABSENT:
            self.promised.add((id_, level))

    async def check(self, session: aiohttp.ClientSession, base: str) -> None:
        for id_ in self.ids:
            async with session.get(f"{base}/entities/{id_}", params={"options": "keyValues"}) as answer:
                found = await answer.json() if answer.status == 200 else None
            level = ABSENT if found is None else found["level"]
            may_be = {self.acknowledged[id_], self.under_way.get(id_, self.acknowledged[id_])}
            assert level in may_be, f"{id_} is {level}, but {self.acknowledged[id_]} was acknowledged"
            assert found is None or found["echo"] == level, f"half of a write: {found}"
            self.acknowledged[id_] = level
        self.under_way.clear()


class Receiver:
    """Takes notifications, now and then only at the second try."""

    def __init__(self) -> None:
        self.heard: set[tuple[str, int]] = set()
        self.rng = random.Random(7)
        self.news = asyncio.Event()

    async def take(self, request: web.Request) -> web.Response:
        if self.rng.random() < 0.05:
            return web.Response(status=503)
        for entity in (await request.json())["data"]:
            if "level" in entity:
                self.heard.add((entity["id"], entity["level"]))
        self.news.set()
        return web.Response(status=204)

    async def has_all(self, promised: set[tuple[str, int]]) -> None:
        while not promised <= self.heard:
            self.news.clear()
            await self.news.wait()


@asynccontextmanager
async def receiver() -> AsyncIterator[tuple[Receiver, str]]:
    heard = Receiver()
    app = web.Application()
    app.router.add_post("/notify", heard.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield heard, f"http://127.0.0.1:{runner.addresses[0][1]}/notify"
    finally:
        await runner.cleanup()


async def started(port: int, data: Path) -> subprocess.Popen[bytes]:
    hanse = Path(sys.executable).with_name("hanse")
    environment = os.environ | {
        "HANSE_NOTIFICATIONS__BACKOFF_S": "0.05",
        "HANSE_NOTIFICATIONS__ATTEMPTS_MAX": "30",
        "HANSE_NOTIFICATIONS__QUEUE_MAX": "1000000",  # the load is faster than the receiver; nothing may become a dead letter
    }
    process = subprocess.Popen(  # noqa: ASYNC220
        [hanse, "serve", "--port", str(port), "--data", str(data), "--no-mqtt"], stdout=subprocess.DEVNULL, env=environment
    )
    async with aiohttp.ClientSession() as session:
        for _ in range(600):
            assert process.poll() is None, "the node ended by itself"
            try:
                async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                    if answer.status == 200:
                        return process
            except aiohttp.ClientError:
                await asyncio.sleep(0.05)
    raise AssertionError("the node did not start")


async def kill_and_kill_again(data: Path, kills: int) -> None:
    rng = random.Random(5)
    port = free_port()
    base = f"http://127.0.0.1:{port}/ngsi-ld/v1"
    workers = [Worker(n, n) for n in range(WORKERS)]
    async with receiver() as (heard, uri):
        for round_ in range(kills + 1):
            process = await started(port, data)
            try:
                async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
                    if round_ == 0:
                        subscription = {
                            "id": "urn:ngsi-ld:Subscription:tanks",
                            "type": "Subscription",
                            "entities": [{"type": "Tank"}],
                            "notification": {"format": "keyValues", "endpoint": {"uri": uri, "accept": "application/json"}},
                        }
                        async with session.post(f"{base}/subscriptions", json=subscription) as answer:
                            assert answer.status == 201, await answer.text()
                    await asyncio.gather(*(worker.check(session, base) for worker in workers))
                    if round_ == kills:
                        promised = set().union(*(worker.promised for worker in workers))
                        await asyncio.wait_for(heard.has_all(promised), 300)
                        break
                    load = [asyncio.create_task(worker.run(session, base)) for worker in workers]
                    await asyncio.sleep(rng.uniform(0.3, 1.2))  # the moment of the blow
                    process.send_signal(signal.SIGKILL)
                    await asyncio.gather(*load)
            finally:
                process.kill()
                process.wait()
    acknowledged = sum(len(worker.promised) for worker in workers)
    print(json.dumps({"kills": kills, "acknowledged": acknowledged, "notified": len(heard.heard)}))
    assert acknowledged > kills * 20


def test_a_killed_node_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    asyncio.run(kill_and_kill_again(tmp_path, KILLS))


async def held_back_and_killed(data: Path) -> None:
    port, id_ = free_port(), "urn:ngsi-ld:Tank:1"
    base = f"http://127.0.0.1:{port}/ngsi-ld/v1"
    async with receiver() as (heard, uri), aiohttp.ClientSession() as session:

        async def ask(method: str, path: str, body: dict[str, Any]) -> None:
            async with session.request(method, f"{base}/{path}", json=body) as answer:
                assert answer.status in (201, 204), await answer.text()

        process = await started(port, data)
        try:
            subscription = {
                "id": "urn:ngsi-ld:Subscription:tanks",
                "type": "Subscription",
                "entities": [{"type": "Tank"}],
                "throttling": 3600,
                "notification": {"format": "keyValues", "endpoint": {"uri": uri, "accept": "application/json"}},
            }
            await ask("POST", "subscriptions", subscription)
            await ask("POST", "entities", {"id": id_, "type": "Tank", "level": {"type": "Property", "value": 1}})
            await asyncio.wait_for(heard.has_all({(id_, 1)}), 60)
            await ask("PATCH", f"entities/{id_}/attrs", {"level": {"type": "Property", "value": 2}})
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert (id_, 2) not in heard.heard
            process = await started(port, data)
            await ask("PATCH", f"subscriptions/{subscription['id']}", {"throttling": 0.01})
            await asyncio.wait_for(heard.has_all({(id_, 2)}), 60)
        finally:
            process.kill()
            process.wait()


def test_a_killed_node_keeps_what_throttling_holds_back(tmp_path: Path) -> None:
    asyncio.run(held_back_and_killed(tmp_path))
