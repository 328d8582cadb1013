"""What `hanse bench` measures: the same requests to a node and to a bare server that only reads them, by turns in one run."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Iterator
from statistics import median
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

import hanse
from hanse.cli.bench_load import Result, request, run_load
from hanse.client.errors import NgsiLdClientError
from hanse.client.node import NodeClient
from hanse.client.session import NGSI_LD, TOKEN, base_of

TYPE: Final = "BenchProbe"
REPORT_BYTES: Final = 200  # so that an entity is about as long as a device's
STEP_S_MAX: Final = 300.0
SILENCE_S_MAX: Final = 5.0  # without a notification: the rest will not come
CALM: Final = 50  # patches, one after the other, whose notifications are waited for
BATCH: Final = 500


class Figure(Struct, frozen=True):
    """One thing that was measured, beside the same thing at the bare server."""

    name: str
    value: float
    unit: str
    bare: float
    median_ms: float | None = None
    p99_ms: float | None = None

    @property
    def ratio(self) -> float:
        return self.value / self.bare


class Target(Struct, frozen=True):
    """A server, and how it is spoken to."""

    url: str
    prefix: str
    headers: str = ""

    async def load(self, requests: Iterator[bytes], clients: int) -> Result:
        parts = urlsplit(self.url)
        tls = parts.scheme == "https"
        port = parts.port or (443 if tls else 80)
        sending = run_load(port, requests, clients, host=parts.hostname or "127.0.0.1", tls=tls)
        try:
            return await asyncio.wait_for(sending, STEP_S_MAX)
        except (OSError, TimeoutError) as error:
            reason = str(error) or f"no answer within {STEP_S_MAX:g} s"
            raise NgsiLdClientError(0, {"title": f"{self.url} could not be measured", "detail": reason}) from error

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        return request(method, f"{self.prefix}{path}", body, headers=self.headers)


def node_at(url: str, tenant: str = "") -> Target:
    base = base_of(url)
    token = os.environ.get(TOKEN, "")
    headers = (f"Authorization: Bearer {token}\r\n" if token else "") + (f"NGSILD-Tenant: {tenant}\r\n" if tenant else "")
    return Target(base, urlsplit(base).path.rstrip("/") + NGSI_LD, headers)


async def measure(node: Target, bare: Target, *, requests: int, clients: int, tenant: str) -> list[Figure]:
    """All figures; what was made for them at the node is gone afterwards."""
    run = secrets.token_hex(4)
    ids = [f"urn:ngsi-ld:{TYPE}:{run}:{i}" for i in range(requests)]
    async with hanse.connect(node.url, tenant=tenant) as client:
        try:
            figures = [await _step(what, node, bare, ids, clients) for what in ("create", "patch", "retrieve")]
            bare_patch = next(figure.bare for figure in figures if figure.name == "patch")
            figures.append(await _burst(client, node, ids, clients, bare_patch))
            figures.append(await _calm(client, bare, ids, run))
        finally:
            for start in range(0, len(ids), BATCH):
                await client.delete_all(ids[start : start + BATCH])
    return figures


async def _step(what: str, node: Target, bare: Target, ids: list[str], clients: int) -> Figure:
    statuses = {"create": (201, 204), "patch": (204,), "retrieve": (200,)}[what]
    beside = (await bare.load(_requests(what, bare, ids), clients)).check(*statuses)
    found = (await node.load(_requests(what, node, ids), clients)).check(*statuses)
    return Figure(what, found.rate, "/s", beside.rate, found.median_ms, found.quantile_ms(0.99))


def _requests(what: str, target: Target, ids: list[str]) -> Iterator[bytes]:
    match what:
        case "create":
            made = [target.request("POST", "/entities", msgspec.json.encode({"id": id_, **_entity()})) for id_ in ids]
        case "patch":
            made = [target.request("PATCH", f"/entities/{id_}/attrs", _patch(i)) for i, id_ in enumerate(ids)]
        case _:
            made = [target.request("GET", f"/entities/{id_}") for id_ in ids]
    return iter(made)


def _entity() -> dict[str, Any]:
    report = {"type": "Property", "value": "x" * REPORT_BYTES}
    return {"type": TYPE, "stamp": {"type": "Property", "value": 0}, "report": report}


def _patch(value: float) -> bytes:
    return msgspec.json.encode({"stamp": {"type": "Property", "value": value}})


async def _burst(client: NodeClient, node: Target, ids: list[str], clients: int, bare_patch: float) -> Figure:
    """Every entity patched as fast as it goes: how many notifications a second arrive, beside patches that cause none."""
    wanted = set(ids)
    async with client.subscribe(type=TYPE, format="simplified", watched=["stamp"]) as notifications:
        started = last = time.perf_counter()
        sending = asyncio.create_task(node.load(_requests("patch", node, ids), clients))
        heard: set[str] = set()
        while len(heard) < len(wanted):
            try:
                told = await asyncio.wait_for(anext(notifications), SILENCE_S_MAX)
            except TimeoutError:
                break
            heard |= wanted.intersection(entity["id"] for entity in told["data"])
            last = time.perf_counter()
        (await sending).check(204)
    if not heard:
        raise NgsiLdClientError(0, {"title": "no notification came", "detail": f"of {len(ids)} patches at {node.url}"})
    missing = f", {len(wanted) - len(heard)} did not come" if len(heard) < len(wanted) else ""
    return Figure(f"notifications by stream{missing}", len(heard) / (last - started), "/s", bare_patch)


async def _calm(client: NodeClient, bare: Target, ids: list[str], run: str) -> Figure:
    """From a patch to its notification, one at a time, beside a patch of the bare server by the same client."""
    beside_ms, samples_ms = [], []
    async with (
        hanse.connect(bare.url) as other,
        client.subscribe(type=TYPE, format="simplified", watched=["stamp"]) as notifications,
    ):
        for number, id_ in enumerate(ids[:CALM]):
            mark = f"{run}-{number}"
            body = {"stamp": {"type": "Property", "value": mark}}
            began = time.perf_counter()
            await other.request("PATCH", f"/entities/{id_}/attrs", json=body)
            sent = time.perf_counter()
            await client.update(id_, body)
            await asyncio.wait_for(_hear(notifications, mark), STEP_S_MAX)
            samples_ms.append((time.perf_counter() - sent) * 1000)
            beside_ms.append((sent - began) * 1000)
    ordered = sorted(samples_ms)
    middle, p99 = median(ordered), ordered[int(0.99 * (len(ordered) - 1))]
    return Figure("from patch to notification", middle, "ms", median(beside_ms), middle, p99)


async def _hear(notifications: Any, mark: str) -> None:
    async for told in notifications:
        if any(entity.get("stamp") == mark for entity in told["data"]):
            return
