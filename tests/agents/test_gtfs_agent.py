"""Public transport and a real node: the timetable, then vehicles, arrivals and alerts, by file and by HTTP."""

from __future__ import annotations

import asyncio
import runpy
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.agents.test_gtfs import SMALL, packed
from tests.agents.waiting import WAIT_S, until
from tests.serving import serving

import hanse
from hanse.agents import PlatformAway
from hanse.agents.fetching import Document, shown
from hanse.agents.gtfs_agent import GtfsAgent
from hanse.client import NodeClient
from hanse.model import InvalidInput

EXAMPLES = Path(__file__).parents[2] / "examples" / "agents"
made = runpy.run_path(str(EXAMPLES / "realtime.py"))["made"]
BUS = str(EXAMPLES / "intercity-bus")
NOW = 1_777_615_200


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as found:
        yield found


class Operator:
    """A web server that has a real-time feed, knows its version, and counts who asks."""

    def __init__(self) -> None:
        self.url = ""
        self.content = b""
        self.status = 200
        self.asked = 0
        self.unchanged = 0

    async def answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        tag = f'"{hash(self.content)}"'
        if request.headers.get("If-None-Match") == tag:
            self.unchanged += 1
            return web.Response(status=304)
        return web.Response(status=self.status, body=self.content, headers={"ETag": tag})


@asynccontextmanager
async def operator() -> AsyncIterator[Operator]:
    there = Operator()
    app = web.Application()
    app.router.add_get("/{name}", there.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    there.url = f"http://127.0.0.1:{runner.addresses[0][1]}/feed?key=secret"
    try:
        yield there
    finally:
        await runner.cleanup()


def feed(step: int, at: int = NOW) -> bytes:
    return bytes(made(step, at).SerializeToString())


async def ids(node: NodeClient, type_: str) -> list[str]:
    return sorted([entity["id"].rpartition("intercity-bus:")[2] async for entity in node.query(type=type_, pick="id")])


def test_a_timetable_and_a_feed_and_a_second_run_that_has_nothing_to_say(url: str, tmp_path: Path) -> None:
    live = tmp_path / "rt.pb"
    live.write_bytes(feed(1))

    async def run(**more: Any) -> None:
        async with hanse.connect(url, tenant="once") as node:
            first = await GtfsAgent(BUS, str(live), once=True, **more).run(node, once=True)
            assert (first.received, first.written, first.unchanged, first.refused) == (2, 21, 0, 0)
            assert await ids(node, "GtfsTrip") == ["R10-0800", "R10-1000", "R20-0815"]
            assert await ids(node, "Vehicle") == ["KTEL-17", "KTEL-21"]
            assert await ids(node, "ArrivalEstimation") == ["R20-0815:AIRPORT:2", "R20-0815:HERSONISSOS:3"]
            near: dict[str, Any] = {"georel": "near;maxDistance==2000", "geometry": "Point", "coordinates": "[25.144,35.343]"}
            found = [entity["id"] async for entity in node.query(type="GtfsStop", **near)]
            assert len(found) == 2
            seen = len(await node.log())
            again = await GtfsAgent(BUS, str(live), once=True, **more).run(node, once=True)
            assert (again.written, again.unchanged, len(await node.log())) == (0, 21, seen)
            empty = made(1, NOW + 60)
            del empty.entity[:]
            live.write_bytes(empty.SerializeToString())
            over = await GtfsAgent(BUS, str(live), once=True, **more).run(node, once=True)
            assert over.deleted == 3  # two estimations and an alert, which an earlier run had written
            assert (await ids(node, "ArrivalEstimation"), await ids(node, "Alert")) == ([], [])
            assert await ids(node, "Vehicle") == ["KTEL-17", "KTEL-21"]

    asyncio.run(run())


def test_a_feed_on_the_web_is_followed_and_fetched_only_when_it_is_new(url: str) -> None:
    async def run() -> None:
        async with operator() as there, hanse.connect(url, tenant="web") as node:
            there.content = feed(1)
            agent = GtfsAgent(BUS, there.url, every_s=0.02)
            agent.backoff_s = 0.02
            running = asyncio.create_task(agent.run(node))
            await until(lambda: there.unchanged >= 2)
            await until(lambda: agent.counters.written == 21)
            there.content = feed(2, NOW + 10)
            await until(lambda: agent.counters.received == 3)
            await until(lambda: agent.counters.written == 24)  # two buses moved, and the alert is for another time
            bus = await node.get("urn:ngsi-ld:Vehicle:intercity-bus:KTEL-17")
            assert bus["location"]["observedAt"] == "2026-05-01T06:00:05.000Z"
            there.content = b"<html>we are closed</html>"
            await until(lambda: agent.counters.refused == 1)
            there.status = 503
            there.content = b"later"
            await until(lambda: agent.counters.retries >= 2)
            there.status = 200
            there.content = feed(3, NOW + 20)
            await until(lambda: agent.counters.written == 27)
            agent.stop()
            await asyncio.wait_for(running, WAIT_S)
            assert agent.counters.lost == 0
            assert "secret" not in " ".join(agent.counters.reasons)

    asyncio.run(run())


def test_a_vehicle_that_leaves_its_trip_has_none_at_the_node(url: str, tmp_path: Path) -> None:
    live = tmp_path / "rt.pb"

    async def run() -> None:
        async with hanse.connect(url, tenant="trip") as node:
            live.write_bytes(feed(1))
            agent = GtfsAgent(BUS, str(live), every_s=0.02)
            running = asyncio.create_task(agent.run(node))
            await until(lambda: agent.counters.written == 21)
            parked = made(1, NOW + 10)
            for entity in parked.entity:
                entity.vehicle.ClearField("trip") if entity.HasField("vehicle") else None
            live.write_bytes(parked.SerializeToString())
            await until(lambda: agent.counters.received == 3)
            agent.stop()
            await asyncio.wait_for(running, WAIT_S)
            bus = await node.get("urn:ngsi-ld:Vehicle:intercity-bus:KTEL-17", format="simplified")
            assert bus["serviceStatus"] == "outOfService"
            assert not {"hasTrip", "hasRoute"} & set(bus)

    asyncio.run(run())


def test_a_timetable_that_changes_is_read_again(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hanse.agents.gtfs_agent.TIMETABLE_EVERY_S", 0.01)
    folder = tmp_path / "intercity-bus"
    shutil.copytree(BUS, folder)
    live = tmp_path / "rt.pb"
    live.write_bytes(feed(1))

    async def run() -> None:
        async with hanse.connect(url, tenant="changed") as node:
            agent = GtfsAgent(str(folder), str(live), every_s=0.02)
            running = asyncio.create_task(agent.run(node))
            await until(lambda: agent.counters.written == 21)
            with (folder / "stops.txt").open("a") as stops:
                stops.write("AGIOS,AGN,Agios Nikolaos,35.19,25.71,D,0,,\n")
            await until(lambda: agent.counters.written == 22)
            (folder / "routes.txt").unlink()
            (folder / "trips.txt").write_text("")
            await until(lambda: agent.counters.refused >= 1)
            agent.stop()
            await asyncio.wait_for(running, WAIT_S)
            assert "there is no routes.txt in the feed" in agent.counters.reasons[0]

    asyncio.run(run())


def test_a_feed_by_url(url: str) -> None:
    async def run() -> None:
        async with operator() as there, hanse.connect(url, tenant="url") as node:
            there.content = packed(SMALL)
            agent = GtfsAgent(there.url, name="small")
            assert (await agent.run(node, once=True)).written == 3
            assert await node.count(type="GtfsStop") == 1
            there.status = 404
            there.content = b""
            with pytest.raises(PlatformAway, match="answers 404"):
                await GtfsAgent(there.url).run(node, once=True)

    asyncio.run(run())


def test_what_cannot_be_used_ends_a_run(url: str, tmp_path: Path) -> None:
    rubbish = tmp_path / "rubbish"
    rubbish.write_bytes(b"rubbish")

    async def run() -> None:
        async with hanse.connect(url, tenant="nothing") as node:
            for agent, complaint in (
                (GtfsAgent(str(tmp_path / "no")), "No such file"),
                (GtfsAgent(str(rubbish)), "no zip file"),
                (GtfsAgent(str(tmp_path)), "there is no stops.txt"),
                (GtfsAgent(BUS, str(rubbish), once=True), "no GTFS-Realtime message"),
            ):
                with pytest.raises(InvalidInput, match=complaint):
                    await agent.run(node, once=True)

    asyncio.run(run())


def test_documents_are_bounded_and_keep_secrets(tmp_path: Path) -> None:
    async def run() -> None:
        async with operator() as there:
            there.content = b"x" * 1000
            with pytest.raises(InvalidInput, match="more than 999 bytes"):
                await Document(there.url, 999).read()
            document = Document(there.url, 1000)
            assert (await document.read(), await document.read()) == (there.content, None)
            (tmp_path / "big").write_bytes(b"x" * 1000)
            with pytest.raises(InvalidInput, match="more than 999 bytes"):
                await Document(str(tmp_path / "big"), 999).read()
        for place in (there.url, str(tmp_path / "nothing"), "\0", "http://127.0.0.1:9/?key=secret"):
            with pytest.raises(PlatformAway) as error:
                await Document(place, 10).read()
            assert "secret" not in str(error.value)

    asyncio.run(run())
    assert shown("https://me:pw@feeds.example:8443/rt.pb?key=secret") == "https://feeds.example:8443/rt.pb"
    with pytest.raises(InvalidInput):
        Document("http://host:port/", 10)
