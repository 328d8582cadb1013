"""What links between nodes cost, beside a single node in the same run.

    python benchmarks/bench_federation.py [--quick] [--json] [--only notifications,throughput,memory]

All nodes are processes of this machine, linked on loopback by mutual TLS, with their data on the disk. Every figure stands
beside its limit; nothing is asserted, the last line says which limits hold.

- Notifications: a patch over HTTP at the first node of a chain, to the notification over HTTP from its last node; one patch
  at a time, a pause in between. `single` is a node that is not federated. All chains are measured by turns. Width is what the
  paper calls so: the links between the node where something is published and the one where the subscriber is.
- Throughput: one node is away while the other has changes for a subscriber there, all stored in its outbox; then it comes back.
  Counted is what it has received and stored, from the first batch to the last. Each message is a notification: handled by the
  broker, kept in the journal, and checked exactly against its subscription, whose geo-query it does not match, so that no
  letter is written.
- Advertisement: from the first entity of a new type being sent to the first node of a chain, to the journal of the last.
- Memory: resident memory of the seven nodes of the smart port with its 15,000 entities, subscriptions, and messages of devices.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, cast

from rich.console import Console

from bench_node import node, rss_mb, server
from figures import Figure, show
from hanse.model.ports import free_port
from hanse.routing import messages as m
from hanse.simulation.smart_port import smart_port
from hanse.studies.comdex.federations import TOPOLOGIES, chain, received, running, told
from hanse.studies.comdex.latency import Chain
from hanse.studies.comdex.messages import count_live
from hanse.studies.comdex.probes import SUBSCRIPTIONS, Inbox, Line

if TYPE_CHECKING:
    from hanse.node.federation.local import LocalFederation

WIDTHS: Final = (1, 3, 6)  # links
BATCH: Final = 500
PATIENCE_S: Final = 120.0
UPSERT: Final = "/ngsi-ld/v1/entityOperations/upsert"


class Single:
    """A node on its own, where a chain is expected."""

    nodes: Final = ("single",)

    def __init__(self, port: int) -> None:
        self._port = port

    def url(self, _: str) -> str:
        return f"http://127.0.0.1:{self._port}"

    def log(self, _: str) -> str:
        return "(on standard error)"


# --- notifications, advertisements ------------------------------------------------------------------------------------


def notifications(rounds: int, samples: int, entities: int, data: Path) -> list[Figure]:
    port = free_port()
    with ExitStack() as stack:
        stack.enter_context(server(node(port, data / "single"), port))
        federations = {f"width {width}": stack.enter_context(running(chain(width + 1))) for width in WIDTHS}
        under_test = {"single": cast("LocalFederation", Single(port)), **federations}
        chains = asyncio.run(_by_turns(under_test, rounds, samples, entities))
    took = {name: chain.normal for name, chain in chains.items()}
    ms = {name: samples.median_ms for name, samples in took.items()}
    figures = [
        Figure(
            "notification across two linked nodes, against a single node",
            ms["width 1"] / ms["single"],
            "x",
            3,
            False,
            f"{ms['width 1']:.2f} (p95 {took['width 1'].p95_ms:.2f}) and {ms['single']:.2f} (p95 {took['single'].p95_ms:.2f}) ms",
        )
    ]
    for width in WIDTHS[1:]:
        took_ms, one_ms = ms[f"width {width}"], ms["width 1"]
        beside = f"{took_ms:.2f} and {one_ms:.2f} ms"
        figures.append(Figure(f"notification over {width} links, against one", took_ms / one_ms, "x", 1.2, False, beside))
    installed = chains["width 6"].installed
    figures.append(
        Figure(
            "advertisement installed over 6 links",
            installed.median_ms,
            "ms",
            50,
            False,
            f"p95 {installed.p95_ms:.1f} ms, {len(installed.ms)} times; one link {chains['width 1'].installed.median_ms:.1f} ms",
        )
    )
    return figures


async def _by_turns(under_test: dict[str, LocalFederation], rounds: int, samples: int, entities: int) -> dict[str, Chain]:
    async with AsyncExitStack() as stack:
        chains = {name: await stack.enter_async_context(Chain(some, entities, 1)) for name, some in under_test.items()}
        for _ in range(rounds):
            for one in chains.values():
                await one.measure_normal(samples)
            for name in ("width 1", "width 6"):
                await chains[name].create_types(samples // 4)
                await chains[name].collect_installed()
        return chains


# --- throughput ---------------------------------------------------------------------------------------------------------


def throughput(rounds: int, messages: int) -> list[Figure]:
    with running(chain(2)) as federation:
        asyncio.run(_subscribe(federation))
        rates, costs = [], []
        for i in range(rounds):
            federation.stop("n2")
            asyncio.run(_change(federation, messages, i))
            before = received(federation, "n2")["n1"]
            federation.start("n2")
            rate, cost_us = _rate(federation, before, messages)
            rates.append(rate)
            costs.append(cost_us)
    shown = ", ".join(f"{rate:,.0f}" for rate in rates)
    beside = f"{messages:,} each time: {shown}; {median(costs):.0f} µs of the receiver's processor each"
    return [Figure("durable messages over one link", median(rates), "/s", 10_000, True, beside)]


def _sensors(value: float) -> list[dict[str, Any]]:
    place = {"type": "GeoProperty", "value": {"type": "Point", "coordinates": [9.93, 53.53]}}
    temperature = {"type": "Property", "value": value, "unitCode": "CEL"}
    some = [{"id": f"urn:ngsi-ld:Sensor:{i}", "type": "Sensor", "temperature": temperature} for i in range(BATCH)]
    return [sensor | {"location": place} for sensor in some]


async def _subscribe(federation: LocalFederation) -> None:
    async with Line(federation.url("n1")) as first, Line(federation.url("n2")) as second, Inbox() as inbox:
        await first.send("POST", UPSERT, _sensors(-1))
        far_away = {"georel": "near;maxDistance==10", "geometry": "Point", "coordinates": [0, 0]}
        await second.send("POST", SUBSCRIPTIONS, inbox.subscription("Sensor") | {"geoQ": far_away})
        until = time.monotonic() + PATIENCE_S
        while not any(isinstance(m.innermost(message), m.PutSubscription) for _, _, message in told(federation, "n1")):
            if time.monotonic() > until:
                raise SystemExit(f"after {PATIENCE_S:g} s the subscription is not in place")
            await asyncio.sleep(0.1)


async def _change(federation: LocalFederation, messages: int, n: int) -> None:
    async with Line(federation.url("n1")) as first:
        for i in range(messages // BATCH):
            await first.send("POST", UPSERT, _sensors(n * messages + i))


def _rate(federation: LocalFederation, before: int, messages: int) -> tuple[float, float]:
    """From the first that is stored to the last; what the first look sees does not count. And the receiver's processor time."""
    first: tuple[float, float, int] | None = None
    until = time.perf_counter() + PATIENCE_S
    while time.perf_counter() < until:
        number = received(federation, "n2")["n1"] - before
        now, used = time.perf_counter(), _used_s(federation.pid("n2"))
        if number and first is None:
            first = (now, used, number)
        if first is not None and number >= messages:
            counted = number - first[2]
            return counted / (now - first[0]), (used - first[1]) / counted * 1e6
        time.sleep(0.005)
    raise SystemExit(f"after {PATIENCE_S:g} s the node has not received all {messages} messages")


def _used_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# --- memory -------------------------------------------------------------------------------------------------------------


def memory(scale: float, messages: int) -> list[Figure]:
    port = smart_port(scale=scale)
    with running(TOPOLOGIES["hybrid, both ways"]) as federation:
        asyncio.run(count_live(federation, port, port.messages(3_600)[:messages]))
        each = [rss_mb(federation.pid(name)) for name in federation.nodes]
    beside = f"{len(port.entities):,} entities; {min(each):.0f} to {max(each):.0f} MB each"
    return [Figure("memory of the 7 nodes of the smart port", sum(each), "MB", 1_200, False, beside)]


# --- all of it ----------------------------------------------------------------------------------------------------------


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--quick", action="store_true", help="a tenth of the size")
    ask.add_argument("--json", action="store_true")
    ask.add_argument("--only", default="notifications,throughput,memory")
    args = ask.parse_args()
    parts = args.only.split(",")
    quick = args.quick
    console = Console(stderr=args.json, width=150)
    figures: list[Figure] = []
    if "notifications" in parts:
        console.print("from a patch to its notification, over 1 to 6 nodes ...")
        with tempfile.TemporaryDirectory() as folder:
            figures += notifications(2 if quick else 5, 20 if quick else 100, 200 if quick else 2_000, Path(folder))
    if "throughput" in parts:
        console.print("what one link carries ...")
        figures += throughput(3, 2_000 if quick else 20_000)
    if "memory" in parts:
        console.print("the smart port: seven nodes ...")
        figures += memory(0.1 if quick else 1.0, 50 if quick else 500)
    show(figures, console, "Linked nodes, on this machine, in this run", as_json=args.json)


if __name__ == "__main__":
    main()
