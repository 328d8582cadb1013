"""The scenario, live: a node, streets that publish to it hour by hour, and Bob, who hears of some of it.

Bob asks three times. By NGSI-LD, with `q` and `qualityQ`, told by an event stream. The same without quality, to compare. And
natively, for one street, with the XPath constraints of the paper on XML, told by HTTP. At the end a test alarm goes the same
ways; once it has arrived everywhere, so has everything before it.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import groupby
from typing import Any, Final, TypeAlias

import aiohttp
from aiohttp import web
from msgspec import Struct

import hanse
from bordeaux.context import BOBS_Q, BOBS_QUALITY, LEVEL, TYPE, bobs_xpath, document, entity, moment
from bordeaux.index import UNHEALTHY, Index
from bordeaux.measurements import HOUR
from bordeaux.streets import Report, Statement, Street
from hanse.client import NodeClient, Notifications
from hanse.model.ports import free_port
from hanse.quality.xml_form import from_xml

CLIENTS: Final = "/hanse/v1/clients"
WAIT_S: Final = 60.0  # for the test alarm to arrive
STOP_S: Final = 20.0  # for the node to end

Heard: TypeAlias = tuple[str, str]  # the id of a street, or of its sensor, and the hour that it spoke of


class Outcome(Struct, frozen=True):
    """Who heard of what, in the order in which they heard it."""

    bob: list[Heard]
    without_quality: list[Heard]
    natively: list[Heard]


@contextmanager
def node() -> Iterator[str]:
    """The URL of a `hanse serve` of our own, on loopback, with its data in a folder that is gone at the end."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="bordeaux-air-") as data:
        command = [sys.executable, "-m", "hanse", "serve", "--port", str(port), "--no-mqtt", "--data", data]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        try:
            if not any(line.startswith("Stop it") for line in iter(process.stdout.readline, "")):
                raise RuntimeError("the node does not start: run `hanse serve` to see why")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()


class Listener:
    """Someone who notes what he hears, until the test alarm."""

    def __init__(self, told: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
        self.heard: list[Heard] = []
        self._told = told

    async def follow(self, stream: Notifications) -> None:
        async for notification in stream:
            for data in notification["data"]:
                self._told(data)
                self.heard.append((data["id"], data["dateObserved"]["value"]))

    async def posted(self, request: web.Request) -> web.Response:
        """A native notification: the payload is the XML that the street published."""
        for observation in from_xml((await request.json())["payload"]):
            self.heard.append((observation.entity, observation.id))
        return web.Response(status=204)


@asynccontextmanager
async def endpoint(listener: Listener) -> AsyncIterator[str]:
    """Where Bob's application is told by HTTP."""
    app = web.Application()
    app.router.add_post("/bob", listener.posted)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/bob"
    finally:
        await runner.cleanup()


async def play(
    url: str,
    reports: Sequence[Report],
    street: Street,
    *,
    told: Callable[[dict[str, Any]], None] = lambda _: None,
    at_hour: Callable[[list[Report]], None] = lambda _: None,
) -> Outcome:
    """Publish what the streets say, in the order of time; `street` is the one that Bob asks for natively as well.

    `told` is called with each entity that Bob hears of, `at_hour` with all reports of an hour once they are published.
    """
    bob, anyone, natively = Listener(told), Listener(), Listener()
    async with hanse.connect(url) as client, aiohttp.ClientSession() as http, endpoint(natively) as uri:
        await subscribe_natively(client, street, uri)
        async with (
            client.subscribe(type=TYPE, q=BOBS_Q, quality_q=BOBS_QUALITY) as stream,
            client.subscribe(type=TYPE, q=BOBS_Q) as other_stream,
        ):
            following = [asyncio.create_task(bob.follow(stream)), asyncio.create_task(anyone.follow(other_stream))]
            try:
                for _, group in groupby(reports, key=lambda report: report.statement.hour):
                    hour = list(group)
                    await publish(client, http, hour)
                    at_hour(hour)
                alarm = drill(street, reports)
                await publish(client, http, [alarm])
                await until_heard(moment(alarm.statement.hour), (bob, anyone, natively), following)
            finally:
                for task in following:
                    task.cancel()
                await asyncio.gather(*following, return_exceptions=True)
            if stream.gaps or other_stream.gaps:
                raise RuntimeError("the node had to drop notifications: a listener was too slow")
    return Outcome(bob.heard[:-1], anyone.heard[:-1], natively.heard[:-1])


async def subscribe_natively(client: NodeClient, street: Street, uri: str) -> None:
    await client.request("PUT", f"{CLIENTS}/bob", json={"endpoint": uri})
    await client.request("PUT", f"{CLIENTS}/bob/subscriptions/air", json={"xpath": bobs_xpath(street)})
    await client.request("PUT", f"{CLIENTS}/collector", json={})


async def publish(client: NodeClient, http: aiohttp.ClientSession, hour: Sequence[Report]) -> None:
    """All streets of an hour: as entities in one batch, and each in XML."""
    done = await client.upsert(map(entity, hour))
    if done.errors:
        raise RuntimeError(f"the node refuses an entity: {done.errors[0]}")
    await asyncio.gather(*(publish_xml(client.url, http, document(report)) for report in hour))


async def publish_xml(url: str, http: aiohttp.ClientSession, text: str) -> None:
    headers = {"Content-Type": "application/xml"}
    async with http.post(f"{url}{CLIENTS}/collector/notifications", data=text.encode(), headers=headers) as answer:
        if answer.status != 202:
            raise RuntimeError(f"the node refuses XML: {await answer.text()}")


def drill(street: Street, reports: Sequence[Report]) -> Report:
    """Something that everybody hears, for an hour after all that is played."""
    hour = reports[-1].statement.hour + HOUR
    said = Statement(hour, hour, {}, Index(101, UNHEALTHY[0]))
    return Report(street, said, {"": {}, LEVEL: {"correctness": 100.0, "freshness": 0.0}}, None)


async def until_heard(hour: str, listeners: Sequence[Listener], tasks: Sequence[asyncio.Task[None]]) -> None:
    await until_all(lambda: all(listener.heard and listener.heard[-1][1] == hour for listener in listeners), tasks)


async def until_all(has_arrived: Callable[[], bool], tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for the test alarm; if a listener fails meanwhile, so does this."""
    end = asyncio.get_running_loop().time() + WAIT_S
    while not has_arrived():
        for task in tasks:
            if task.done():
                task.result()
        if asyncio.get_running_loop().time() > end:
            raise RuntimeError("the test alarm has not arrived everywhere")
        await asyncio.sleep(0.01)
