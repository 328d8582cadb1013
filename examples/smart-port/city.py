"""A small city, live: three communities, seven nodes, things that move and measure, a Spark pipeline, and a page to watch it.

    python examples/smart-port/city.py [--seconds 60] [--folder out/city] [--no-pipeline] [--no-open]

The smart port of the ComDeX paper. Buses and fire engines drive, stations measure the air and say how well they do, alarms are
raised, crews on the quays are warned when they are near, a capsule on Spark makes of single stations what a district breathes.
Each community keeps its own data; what crosses a link is what its export rules allow. It ends with Ctrl-C, or after --seconds,
and says what happened. Everything is real: processes, links, notifications, Spark. All files are in the folder.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from contextlib import AsyncExitStack, ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import hanse
from hanse.client import NgsiLdClientError, NodeClient
from hanse.model.ports import free_port as any_port
from hanse.node.federation.local import LocalFederation
from hanse.simulation.smart_port import smart_port

HERE = Path(__file__).resolve().parent
SCALE = 0.02  # of the entities of the ComDeX evaluation
TICK_S = 1.0
READY_S = 120.0
END_S = 60.0
ALONE_S = 60.0  # where nobody can press Ctrl-C
AROUND = (25.1400, 35.3400)  # longitude and latitude of the middle of it
HARBOUR = [[25.1340, 35.3425], [25.1520, 35.3425], [25.1520, 35.3480], [25.1340, 35.3480], [25.1340, 35.3425]]
CREWS = {  # on the quays: at which node, and around which place they walk
    "crew-a": ("port-a", (25.1437, 35.3464)),
    "crew-b": ("port-b", (25.1489, 35.3466)),
    "crew-gate": ("port-a", (25.1437, 35.3439)),
}
OFFICE = {"lat": 35.3445, "lon": 25.1500}  # of the harbour master
CRANES = ((25.1430, 35.3466), (25.1494, 35.3469), (25.1430, 35.3437))  # who is near one is warned when it turns
NEAR_M = 60
STATIONS = {  # air, by the node that has it: where, how dirty, how accurate (percent)
    "quay-a": ("port-a", (25.1442, 35.3455), 45, 85),
    "quay-b": ("port-b", (25.1488, 35.3460), 60, 35),
    "gate": ("port-b", (25.1460, 35.3440), 70, 75),
    "station-hall": ("bus-buildings", (25.1387, 35.3384), 80, 65),
    "forecourt": ("bus-buildings", (25.1375, 35.3378), 95, 90),
}
PIPELINE = """
trigger = "2 seconds"

[source]
nodes = "{nodes}"

[sink]
node = "{sink}"

[lake]
folder = "lake"
tables = ["raw", "derived"]

[spark]
master = "local[1]"
"spark.driver.memory" = "768m"
"spark.driver.extraJavaOptions" = "-XX:+UseSerialGC"

[[capsules]]
name = "air-by-district"
kind = "aggregation"
types = ["AirQualityObserved"]
attributes = ["no2"]
quality = "accuracy>=medium"
place = "cell 1500"
window = "10 seconds"
late = "5 seconds"
statistics = ["mean", "max"]
expected = 4
output = "DistrictAir"
"""


def say(text: str = "") -> None:
    print(text, flush=True)


def title(text: str) -> None:
    say(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}")


def free_port(wanted: int) -> int:
    with suppress(OSError), socket.create_server(("127.0.0.1", wanted)) as listener:
        return int(listener.getsockname()[1])
    return any_port()


def with_free_ports(text: str) -> str:
    """The description with other ports where somebody has those that it names."""
    for number in range(1, 8):
        for kind, port in (("127.0.0.1:", 9100 + number), ("tcp/127.0.0.1:", 7100 + number)):
            text = text.replace(f'"{kind}{port}"', f'"{kind}{free_port(port)}"')
    return text


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def prop(value: Any, unit: str = "", **quality: float) -> dict[str, Any]:
    """A measured property: with its time and, as sub-properties, how good it is."""
    made = {"type": "Property", "value": value, "observedAt": now()} | ({"unitCode": unit} if unit else {})
    return made | {name: {"type": "Property", "value": number} for name, number in quality.items()}


def at(lon: float, lat: float) -> dict[str, Any]:
    point = {"type": "Point", "coordinates": [round(lon, 6), round(lat, 6)]}
    return {"type": "GeoProperty", "value": point, "observedAt": now()}


class City:
    """What happens, second by second, at the nodes."""

    def __init__(self, nodes: dict[str, NodeClient]) -> None:
        self._nodes = nodes
        self._rng = random.Random(7)
        self._second = 0
        self.done: Counter[str] = Counter()
        self.heard: Counter[str] = Counter()

    async def settle(self) -> None:
        """What is there before anything moves: buildings and devices, crews on the quays, promises and wishes."""
        made = smart_port(scale=SCALE).entities
        for name, node in self._nodes.items():
            documents = [entity.entity for entity in made if entity.node == name]
            for first in range(0, len(documents), 500):
                self.done["entities"] += len((await node.upsert(documents[first : first + 500])).success)
        office = {"type": "Point", "coordinates": [OFFICE["lon"], OFFICE["lat"]], "radius": NEAR_M}
        for crew, (home, (lon, lat)) in CREWS.items():
            node = self._nodes[home]
            await self._put(node, f"/clients/{crew}", {"location": {"lat": lat, "lon": lon}})
            wish = {"selectors": [{"topic": "warning"}], "geofence": office}  # from there, nobody else's
            await self._put(node, f"/clients/{crew}/subscriptions/warnings", wish)
        harbour = self._nodes["port"]
        await self._put(harbour, "/clients/harbour-master", {"location": OFFICE})
        station = self._nodes["bus-buildings"]
        await self._put(station, "/clients/air-service", {})
        await self._put(
            station, "/clients/air-service/advertisements/air", {"selectors": [{"topic": "air"}], "quality": "accuracy>=50"}
        )
        fire = self._nodes["fire"]
        await self._put(fire, "/clients/dispatch", {})
        await self._put(fire, "/clients/dispatch/subscriptions/air", {"selectors": [{"topic": "air"}], "quality": "accuracy>=70"})

    async def _put(self, node: NodeClient, path: str, body: dict[str, Any]) -> None:
        await node.request("PUT", f"/hanse/v1{path}", json=body)

    async def live(self) -> None:
        """One second after the other; a node that does not answer misses some."""
        while True:
            began = time.monotonic()
            self._second += 1
            await asyncio.gather(self._drive(), self._walk(), self._measure(), self._alarm(), self._warn(), self._promise())
            await asyncio.sleep(max(0.0, TICK_S - (time.monotonic() - began)))

    async def _drive(self) -> None:
        buses, engines = [], []
        for number in range(8):
            turn = self._second / (35 + 4 * number) + number
            lon, lat = AROUND[0] + 0.009 * math.cos(turn), AROUND[1] + 0.0065 * math.sin(2 * turn) / (1 + number % 2)
            speed = prop(round(28 + 14 * math.sin(turn * 3)), "KMH", accuracy=90 - 7 * number)
            buses.append(
                {"id": f"urn:ngsi-ld:Vehicle:bus-{number + 1}", "type": "Vehicle", "speed": speed, "location": at(lon, lat)}
            )
        for number in range(2):
            turn = self._second / 25 + 3 * number
            where = at(25.1345 + 0.006 * math.cos(turn), 35.3385 + 0.005 * math.sin(turn))
            engines.append({"id": f"urn:ngsi-ld:Vehicle:engine-{number + 1}", "type": "Vehicle", "location": where})
        await self._upsert("bus-transport", buses)
        await self._upsert("fire", engines)

    async def _walk(self) -> None:
        """Crews go up and down their quays: past the cranes, and away from them again."""
        for number, (crew, (home, (lon, lat))) in enumerate(CREWS.items()):
            turn = self._second / 12 + 2 * number
            place = {"lat": lat + 0.0004 * math.sin(turn), "lon": lon + 0.0011 * math.cos(turn)}
            with suppress(NgsiLdClientError, OSError):
                await self._put(self._nodes[home], f"/clients/{crew}/location", place)

    async def _measure(self) -> None:
        for node in ("port-a", "port-b", "bus-buildings"):
            made = []
            for name, (home, (lon, lat), dirt, accuracy) in STATIONS.items():
                if home == node:
                    value = max(1.0, dirt + 25 * math.sin(self._second / 40 + dirt) + self._rng.gauss(0, 4))
                    no2 = prop(round(value, 1), "GQ", accuracy=accuracy)
                    made.append(
                        {
                            "id": f"urn:ngsi-ld:AirQualityObserved:{name}",
                            "type": "AirQualityObserved",
                            "no2": no2,
                            "location": at(lon, lat),
                        }
                    )
            await self._upsert(node, made)

    async def _alarm(self) -> None:
        if self._second % 4:
            return
        node = self._rng.choice(["port-a", "port-b", "bus-buildings"])
        alert = {
            "id": f"urn:ngsi-ld:Alert:{node}:{self._second % 40}",
            "type": "Alert",
            "category": prop(self._rng.choice(["smoke", "leak", "crowd"])),
            "severity": prop(self._rng.choice(["low", "high"])),
        }
        camera = {"id": "urn:ngsi-ld:Camera:gate", "type": "Camera", "sees": prop(self._rng.randrange(9))}
        await self._upsert(node, [alert])
        await self._upsert("port-a", [camera])  # which the port keeps to itself

    async def _warn(self) -> None:
        """A message for whoever is near a place of the harbour that changes: a crane that turns."""
        if self._second % 3:
            return
        fence = {"type": "Point", "coordinates": self._rng.choice(CRANES), "radius": NEAR_M}
        await self._tell("port", "harbour-master", {"topic": "warning", "attributes": {"crane": "turns"}, "geofence": fence})

    async def _promise(self) -> None:
        """Air as a service, with a guarantee; now and then it cannot keep it, and then nobody is told."""
        if self._second % 2:
            return
        accuracy = self._rng.choice([40, 60, 75, 90])
        told = {"topic": "air", "attributes": {"no2": 50}, "quality": {"accuracy": accuracy}, "advertisement": "air"}
        await self._tell("bus-buildings", "air-service", told)

    async def _upsert(self, node: str, entities: list[dict[str, Any]]) -> None:
        with suppress(NgsiLdClientError, OSError):
            self.done["measurements"] += len((await self._nodes[node].upsert(entities, update=True)).success)

    async def _tell(self, node: str, client: str, body: dict[str, Any]) -> None:
        try:
            await self._nodes[node].request("POST", f"/hanse/v1/clients/{client}/notifications", json=body)
            self.done["messages"] += 1
        except NgsiLdClientError as error:
            if "guarantee" not in str(error):
                raise
            self.done["below their guarantee"] += 1

    async def follow(self, node: str, name: str, **wish: Any) -> None:
        """An application: it counts what it hears."""
        async for notification in self._nodes[node].subscribe(format="simplified", subscriptionName=name, **wish):
            self.heard[f"{name} (at {node})"] += len(notification["data"])


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument(
        "--seconds", type=float, default=0.0, help="end after so long; else with Ctrl-C (where there is no terminal, after 60)"
    )
    ask.add_argument("--folder", type=Path, default=Path("out/city"), help="where all files are; what was there is removed")
    ask.add_argument("--port", type=int, default=8080, help="of the page")
    ask.add_argument("--no-pipeline", action="store_true", help="without Spark")
    ask.add_argument("--no-open", action="store_true", help="do not open a browser")
    given = ask.parse_args()
    if not given.seconds and not sys.stdin.isatty():
        given.seconds = ALONE_S
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ExitStack() as stack:
        try:
            run(given, stack)
        except KeyboardInterrupt:
            say()


def run(given: argparse.Namespace, stack: ExitStack) -> None:
    folder: Path = given.folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(HERE / "scopes.toml", folder)
    file = folder / "federation.toml"
    file.write_text(with_free_ports((HERE / "federation.toml").read_text()))
    title("A small city: three communities, seven nodes")
    began = time.perf_counter()
    federation = stack.enter_context(LocalFederation(file, folder / "nodes"))
    federation.start()
    say(f"  {len(federation.nodes)} nodes are up after {time.perf_counter() - began:.1f} s")
    pipeline = None
    if not given.no_pipeline:
        pipeline = stack.enter_context(
            _Process([*_HANSE, "pipeline", "run", str(pipeline_file(folder, federation))], folder / "pipeline.log")
        )
        say("  Spark starts, for the capsule air-by-district")
    port = free_port(given.port)
    shown = [federation.url("port"), "--port", str(port), "--folder", str(folder), "--lake", str(folder / "lake")]
    shown += ["--pipeline", str(folder / "city.toml"), "--no-open"]
    page = stack.enter_context(_Process([*_HANSE, "dashboard", *shown], folder / "dashboard.log"))
    await_page(page, f"http://127.0.0.1:{port}/readyz")
    say(f"\n  Look at http://127.0.0.1:{port}  ({time.perf_counter() - began:.0f} s after the start)\n")
    say("  The nodes: " + ", ".join(f"{name} {federation.url(name)}" for name in federation.nodes))
    if not given.no_open and has_browser():
        open_page(f"http://127.0.0.1:{port}")
    say(f"  It goes on for {given.seconds:g} s." if given.seconds else "  Ctrl-C ends it.")
    asyncio.run(live(federation, given.seconds, pipeline))


async def live(federation: LocalFederation, seconds: float, pipeline: _Process | None) -> None:
    async with AsyncExitStack() as stack:
        nodes = {name: await stack.enter_async_context(hanse.connect(federation.url(name))) for name in federation.nodes}
        city = City(nodes)
        await city.settle()
        tasks = [
            asyncio.create_task(city.live()),
            asyncio.create_task(city.follow("fire", "alarms, wherever they are", type="Alert")),
            asyncio.create_task(city.follow("port", "vehicles in the harbour", type="Vehicle", geoQ=within(HARBOUR))),
            asyncio.create_task(
                city.follow(
                    "bus", "dirty air, well measured", type="AirQualityObserved", q="no2>70", quality_q="no2.accuracy>=medium"
                )
            ),
            asyncio.create_task(city.follow("bus", "what districts breathe", type="DistrictAir")),
            asyncio.create_task(city.follow("fire", "cameras of the port", type="Camera")),
        ]
        stopped = asyncio.Event()
        for signal_ in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(signal_, stopped.set)
        waiting = asyncio.create_task(stopped.wait())
        await asyncio.wait([waiting, *tasks], timeout=seconds or None, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
        await tell(city, nodes, pipeline)
        for one in (waiting, *tasks):
            one.cancel()
        await asyncio.gather(waiting, *tasks, return_exceptions=True)


def within(ring: list[list[float]]) -> dict[str, Any]:
    return {"georel": "within", "geometry": "Polygon", "coordinates": [ring]}


async def tell(city: City, nodes: dict[str, NodeClient], pipeline: _Process | None) -> None:
    title("What happened")
    say("  " + ", ".join(f"{count:,} {what}" for what, count in city.done.items()))
    for name, count in sorted(city.heard.items()):
        say(f"  {name}: {count:,} heard")
    if not any(name.startswith("cameras") for name in city.heard):
        say("  cameras of the port (at fire): 0 heard, as the port's export rule has it")
    crossed = 0
    for name, node in nodes.items():
        for link in (await node.request("GET", "/hanse/v1/federation")).data["links"]:
            crossed += link["counts"]["sent"] if "counts" in link and name in link["between"] else 0
    say(f"  {crossed:,} messages crossed links between nodes")
    if pipeline is not None:
        made = await nodes["port-b"].count(type="DistrictAir")
        say(f"  the capsule on Spark {'has made ' + str(made) + ' entities DistrictAir' if made else 'has made nothing yet'}")


_HANSE = [sys.executable, "-m", "hanse"]


def pipeline_file(folder: Path, federation: LocalFederation) -> Path:
    nodes = ",".join(f"{name}={federation.url(name)}" for name in ("port-a", "port-b", "bus-buildings"))
    file = folder / "city.toml"
    file.write_text(PIPELINE.format(nodes=nodes, sink=federation.url("port-b")))
    return file


class _Process:
    """A process of ours, with its output in a file; ended as a person would, and by force if it does not listen."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._command = command
        self._log = log

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def check(self) -> None:
        if self.process.poll() is not None:
            raise SystemExit(f"{' '.join(self._command[2:4])} has ended:\n{self._log.read_text()[-2000:]}")


def await_page(page: _Process, url: str) -> None:
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        page.check()
        with suppress(OSError), urllib.request.urlopen(url, timeout=10) as answer:
            if answer.status == 200:
                return
        time.sleep(0.2)
    raise SystemExit("the page does not answer")


def has_browser() -> bool:
    """Whether there is a screen: a browser in the terminal would be in the way."""
    return sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"} & os.environ.keys())


def open_page(url: str) -> None:
    import webbrowser

    with suppress(webbrowser.Error):
        webbrowser.open(url)


if __name__ == "__main__":
    main()
