"""What the node can do, beside a bare starlette route and a bare Mosquitto in the same run.

    python benchmarks/bench_node.py [--quick] [--json] [--only writes,many,notifications]

Server and load generator are two processes on this machine. Writes are durable: the answer comes after the fsync. Every figure
stands beside its limit; nothing is asserted, the last line says which limits hold. Single writes are measured once the server is
warm: a node that has much to write starts a process for it, which takes half a second. Memory is that of both processes.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rich.console import Console

from figures import Figure, show
from hanse.model.ports import free_port
from http_load import Result, load, request
from notification_latency import bare_mosquitto_ms, http_latency, mqtt_latency, with_subscriptions

ENTITIES = "/ngsi-ld/v1/entities"
CLIENTS = 50
WARM_REQUESTS = 4_000
CALM_S = 0.5  # after which a node that has written has nothing left to do
BATCH, BATCH_CLIENTS = 500, 2


@contextmanager
def server(command: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_for(port, process)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def wait_for(port: int, process: subprocess.Popen[bytes], limit_s: float = 60) -> float:
    started = time.perf_counter()
    while time.perf_counter() - started < limit_s:
        if process.poll() is not None:
            raise SystemExit(f"the server ended with code {process.returncode}")
        try:  # it listens before it has read its own program: the answer says that it is there
            with socket.create_connection(("127.0.0.1", port), timeout=limit_s) as probe:
                probe.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                if probe.recv(1):
                    return time.perf_counter() - started
        except OSError:
            time.sleep(0.005)
    raise SystemExit("the server does not answer")


def node(port: int, data: Path) -> list[str]:
    hanse = str(Path(sys.executable).with_name("hanse"))
    return [hanse, "serve", "--port", str(port), "--data", str(data), "--no-mqtt"]


def bare(port: int) -> list[str]:
    return [sys.executable, "-m", "hanse.cli.bench_bare", str(port)]


def sensor(i: int, rng: random.Random, kib: bool = False) -> dict[str, Any]:
    entity = {
        "id": f"urn:ngsi-ld:Sensor:{i}",
        "type": "Sensor",
        "temperature": {
            "type": "Property",
            "value": round(rng.uniform(-10, 40), 2),
            "unitCode": "CEL",
            "observedAt": "2026-11-15T12:00:00Z",
        },
        "humidity": {"type": "Property", "value": round(rng.uniform(0, 100), 1)},
        "name": {"type": "Property", "value": f"sensor {i}"},
        "refRoom": {"type": "Relationship", "object": f"urn:ngsi-ld:Room:{i % 1000}"},
        "location": {
            "type": "GeoProperty",
            "value": {"type": "Point", "coordinates": [rng.uniform(-10, 30), rng.uniform(35, 60)]},
        },
    }
    if kib:
        entity["note"] = {"type": "Property", "value": "x" * max(0, 1024 - len(json.dumps(entity)) - 40)}
    return entity


def encode(value: Any) -> bytes:
    return json.dumps(value).encode()


def patches(n: int, of: int, prefix: str = "/ngsi-ld/v1") -> list[bytes]:
    rng = random.Random(2)
    made = []
    for _ in range(n):
        body = encode({"temperature": {"type": "Property", "value": round(rng.uniform(-10, 40), 2), "unitCode": "CEL"}})
        made.append(request("PATCH", f"{prefix}/entities/urn:ngsi-ld:Sensor:{rng.randrange(of)}/attrs", body))
    return made


def creations(n: int, prefix: str = "/ngsi-ld/v1", first: int = 0) -> list[bytes]:
    rng = random.Random(1)
    return [request("POST", f"{prefix}/entities", encode(sensor(i, rng))) for i in range(first, first + n)]


def retrievals(n: int, of: int, prefix: str = "/ngsi-ld/v1") -> list[bytes]:
    rng = random.Random(3)
    return [request("GET", f"{prefix}/entities/urn:ngsi-ld:Sensor:{rng.randrange(of)}") for _ in range(n)]


def upserts(entities: int, size: int, kib: bool = False, first: int = 0) -> Iterator[bytes]:
    rng = random.Random(4)
    for start in range(first, first + entities, size):
        body = encode([sensor(i, rng, kib) for i in range(start, start + size)])
        yield request("POST", "/ngsi-ld/v1/entityOperations/upsert", body)


def warm(port: int, prefix: str, status: int) -> None:
    load(port, iter(creations(WARM_REQUESTS, prefix, first=10**6)), CLIENTS).check(status)


def by_turns(ports: tuple[int, int], bare_requests: list[bytes], requests: list[bytes], statuses: tuple[int, int]) -> list[float]:
    """How long the bare server and the node take for all their requests: half of the one, all of the other, the other half."""
    (bare_port, port), (bare_status, status) = ports, statuses
    half = len(bare_requests) // 2
    bare_s = load(bare_port, iter(bare_requests[:half]), CLIENTS).check(bare_status).seconds
    node_s = load(port, iter(requests), CLIENTS).check(status).seconds
    time.sleep(CALM_S)
    return [bare_s + load(bare_port, iter(bare_requests[half:]), CLIENTS).check(bare_status).seconds, node_s]


def single_writes(n: int, data: Path) -> list[Figure]:
    """The bare server and the node by turns, for the machine is noisy; the middle one of three rounds."""
    rounds: dict[str, list[float]] = {}

    def note(what: str, requests: int, seconds: float) -> float:
        rate = requests / seconds
        rounds.setdefault(what, []).append(rate)
        return rate

    for i in range(3):
        port, bare_port = free_port(), free_port()
        with server(bare(bare_port), bare_port), server(node(port, data / f"writes{i}"), port):
            warm(bare_port, "", 204)
            warm(port, "/ngsi-ld/v1", 201)
            for what, requests, bare_status, status in (
                ("create", creations, 204, 201),
                ("patch", lambda n, prefix: patches(n, n, prefix), 204, 204),
                ("get", lambda n, prefix: retrievals(n, n, prefix), 200, 200),
            ):
                asked = requests(n, ""), requests(n, "/ngsi-ld/v1")
                bare_s, node_s = by_turns((bare_port, port), *asked, (bare_status, status))
                bare_rate = note(f"bare {what}", n, bare_s)
                rounds.setdefault(f"{what} ratio", []).append(note(what, n, node_s) / bare_rate)
            for what, status in (("created", 201), ("replaced", 204)):
                note(what, n, load(port, iter(list(upserts(n, BATCH, first=n))), BATCH_CLIENTS).check(status).seconds)
    mid = {name: sorted(rates)[1] for name, rates in rounds.items()}
    figures = []
    for what in ("create", "patch"):
        figures.append(
            Figure(f"durable {what}, {CLIENTS} clients", mid[what], "/s", 3000, True, f"bare {mid['bare ' + what]:,.0f}/s")
        )
        figures.append(Figure(f"durable {what} against the bare route", mid[f"{what} ratio"], "x", 0.3, True))
    for what in ("created", "replaced"):
        figures.append(Figure(f"batch upsert of {BATCH} of these ({what})", mid[what], "entities/s", 10_000, True))
    figures.append(
        Figure(
            "retrieve against the bare route",
            mid["get ratio"],
            "x",
            0.5,
            True,
            f"{mid['get']:,.0f}/s, bare {mid['bare get']:,.0f}/s",
        )
    )
    return figures


def many(n: int, data: Path) -> list[Figure]:
    """Batches, memory, queries and start-up with n entities of 1 KiB."""
    figures = []
    port = free_port()
    with server(node(port, data / "many"), port) as process:
        time.sleep(1)
        figures.append(Figure("idle memory", rss_mb(process.pid), "MB", 150, False))
        result = load(port, iter(list(upserts(n, BATCH, kib=True))), BATCH_CLIENTS).check(201)
        figures.append(
            Figure(f"batch upsert of {BATCH}, {n:,} of 1 KiB (created)", n / result.seconds, "entities/s", 10_000, True)
        )
        part = min(n, 20_000)
        result = load(port, iter(list(upserts(part, BATCH, kib=True))), BATCH_CLIENTS).check(204)
        figures.append(
            Figure(f"batch upsert of {BATCH}, {part:,} of them (replaced)", part / result.seconds, "entities/s", 10_000, True)
        )
        for name, path in QUERIES.items():
            figures.append(query(port, name, path))
        figures.append(Figure(f"memory with {n:,} entities of 1 KiB", rss_mb(process.pid), "MB", 400, False))
    with server(node(port, data / "many"), port) as process:
        pass
    started = time.perf_counter()
    process = subprocess.Popen(node(port, data / "many"), stdout=subprocess.DEVNULL)
    wait_for(port, process)
    load(port, iter([request("GET", f"{ENTITIES}?type=Sensor&limit=1")]), 1).check(200)
    figures.append(Figure(f"start with {n:,} entities, to the first answer", time.perf_counter() - started, "s", 3, False))
    figures.append(Figure("memory after that start", rss_mb(process.pid), "MB", 400, False))
    process.send_signal(signal.SIGTERM)
    process.wait()
    return figures


PARIS = "geometry=Point&coordinates=%5B2.3,48.8%5D"
SQUARE = quote("[[[2,48],[3,48],[3,49],[2,49],[2,48]]]")
QUERIES = {
    "type and q that many match": f"{ENTITIES}?type=Sensor&q=temperature%3E20;humidity%3C50&limit=20",
    "the same, page 50": f"{ENTITIES}?type=Sensor&q=temperature%3E20;humidity%3C50&limit=20&offset=1000",
    "type and q that few match": f"{ENTITIES}?type=Sensor&q=temperature%3E39.99&limit=20",
    "type and q on a text": f"{ENTITIES}?type=Sensor&q=name==%22sensor%2077%22&limit=20",
    "geo, near": f"{ENTITIES}?type=Sensor&georel=near;maxDistance==20000&{PARIS}&limit=20",
    "geo, within": f"{ENTITIES}?type=Sensor&georel=within&geometry=Polygon&coordinates={SQUARE}&limit=20",
    "geo and q": f"{ENTITIES}?type=Sensor&georel=near;maxDistance==100000&{PARIS}&q=temperature%3E20&limit=20",
}


def query(port: int, name: str, path: str) -> Figure:
    result: Result = load(port, iter([request("GET", path)] * 60), 1).check(200)
    found = len(json.loads(result.last_body))
    return Figure(f"query, {name}", result.median_ms, "ms", 20, False, f"{found} results")


def rss_mb(pid: int) -> float:
    """Of the process and those that it started."""
    status = Path(f"/proc/{pid}/status").read_text()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    own = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return own / 1024 + sum(rss_mb(int(child)) for child in children)


def notifications(seconds: float, data: Path) -> list[Figure]:
    figures = []
    for name, measure in (("HTTP", http_latency), ("MQTT", mqtt_latency)):
        with measure_setup(data, name) as port:
            latency = measure(port, seconds)
            figures.append(
                Figure(
                    f"patch to {name} notification at 500/s",
                    latency.median_ms,
                    "ms",
                    5,
                    False,
                    f"{latency.described}; bare Mosquitto {bare_mosquitto_ms(seconds / 2):.2f} ms",
                )
            )
    medians = []
    for subscriptions in (10, 10_000):
        with measure_setup(data, f"subs{subscriptions}") as port:
            medians.append(with_subscriptions(port, subscriptions, seconds).median_ms)
    figures.append(
        Figure(
            "10,000 subscriptions of which 10 match, against 10",
            medians[1] / medians[0],
            "x",
            2,
            False,
            f"{medians[0]:.2f} and {medians[1]:.2f} ms",
        )
    )
    return figures


@contextmanager
def measure_setup(data: Path, name: str) -> Iterator[int]:
    port = free_port()
    with server(node(port, data / name), port):
        yield port


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--quick", action="store_true", help="a tenth of the size")
    ask.add_argument("--json", action="store_true")
    ask.add_argument("--only", default="writes,many,notifications")
    args = ask.parse_args()
    parts = args.only.split(",")
    console = Console(stderr=args.json, width=150)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        if "writes" in parts:
            console.print("single writes and reads, against a bare route ...")
            figures += single_writes(1_000 if args.quick else 10_000, data)
        if "many" in parts:
            console.print("many entities: batches, queries, memory, start ...")
            figures += many(10_000 if args.quick else 100_000, data)
        if "notifications" in parts:
            console.print("from a patch to its notifications ...")
            figures += notifications(2 if args.quick else 10, data)
    show(figures, console, "The node, on this machine, in this run", as_json=args.json)


if __name__ == "__main__":
    main()
