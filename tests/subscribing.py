"""A tenant without a server, an endpoint that keeps what it gets, and what tests of subscriptions do with them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from hanse.ngsild import operations
from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import Change, Entity, now_text
from hanse.ngsild.parsing import parse_entity, parse_fragment
from hanse.ngsild.subscriptions import parse_subscription
from hanse.node.settings import NodeSettings, NotificationSection
from hanse.node.store import Store
from hanse.node.tenant import Tenant

WAIT_S = 60.0
SETTINGS = NodeSettings(notifications=NotificationSection(backoff_s=0.01, backoff_max_s=0.05, breaker_s=0.05))


@asynccontextmanager
async def tenant(directory: Path | None = None, settings: NodeSettings = SETTINGS) -> AsyncIterator[Tenant]:
    made = Tenant("", Store.open(directory), settings)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


class Inbox:
    def __init__(self) -> None:
        self.url = ""
        self.got: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.status = 200

    async def next(self) -> dict[str, Any]:
        return await asyncio.wait_for(self.got.get(), WAIT_S)


@asynccontextmanager
async def inbox() -> AsyncIterator[Inbox]:
    made = Inbox()

    async def take(request: web.Request) -> web.Response:
        made.got.put_nowait(await request.json())
        return web.Response(status=made.status)

    app = web.Application()
    app.router.add_post("/n", take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/n"
    try:
        yield made
    finally:
        await runner.cleanup()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


async def subscribe(node: Tenant, uri: str, id_: str = "urn:s:1", **members: Any) -> None:
    notification = {"format": "keyValues", "endpoint": {"uri": uri}}
    body = {"id": id_, "type": "Subscription", "entities": [{"type": "Building"}], "notification": notification} | members
    await node.subscriptions.add(parse_subscription(body, CORE, now_text()))


async def create(node: Tenant, id_: str = "urn:b:1", **members: Any) -> None:
    now = now_text()
    entity = parse_entity({"id": id_, "type": "Building"} | members, CORE, now)
    await node.change(id_, lambda _: operations.create(entity, now), "create")


async def append(node: Tenant, id_: str = "urn:b:1", **members: Any) -> None:
    now = now_text()
    fragment = parse_fragment(members, CORE, now)

    def change(old: Entity | None) -> operations.Outcome:
        assert old is not None
        return operations.append(old, fragment, now)

    await node.change(id_, change, "append")


async def delete(node: Tenant, id_: str = "urn:b:1") -> None:
    def change(old: Entity | None) -> Change:
        assert old is not None
        return operations.delete(old, now_text())

    await node.change(id_, change, "delete")


def levels(notification: dict[str, Any]) -> list[Any]:
    return [entity.get("level") for entity in notification["data"]]
