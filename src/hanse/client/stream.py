"""Notifications as an `async for`: a subscription of its own, and the event stream that it is told by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

from hanse.client.errors import NgsiLdClientError
from hanse.client.events import EventReader
from hanse.client.session import NGSI_LD, Session, segment

STREAM_URI = "urn:hanse:stream"  # the endpoint of a subscription that is told by streams only
PAUSE_S = 0.2  # before a stream that broke is opened again; doubles each time
PAUSE_MAX_S = 10.0


class Notifications:
    """An async iterator of notifications (NGSI-LD's JSON). It opens with the first step, or with `async with`; a stream that
    breaks is opened again, and goes on behind the last notification that came.
    """

    def __init__(self, session: Session, body: dict[str, Any], forget: Callable[[Notifications], None]) -> None:
        self._session = session
        self._body = body | {"notification": body["notification"] | {"endpoint": {"uri": STREAM_URI}}}
        self._forget = forget
        self._id = ""
        self._last = "0"  # what comes between subscribing and listening is kept for us
        self._reader = EventReader()
        self._ready: list[dict[str, Any]] = []
        self._stack = AsyncExitStack()
        self._response: aiohttp.ClientResponse | None = None
        self._closed = False
        self.gaps = 0  # how often the node said that something is lost: this reader was too slow, or away for too long

    @property
    def id(self) -> str:
        """The id of the subscription, once it is open."""
        return self._id

    async def open(self) -> None:
        """Subscribe, and listen from here on."""
        if not self._id:
            reply = await self._session.request("POST", f"{NGSI_LD}/subscriptions", json=self._body)
            headers = {name.lower(): value for name, value in reply.headers.items()}
            self._id = headers["location"].rpartition("/")[2]
        if self._response is None:
            await self._listen()

    async def _listen(self) -> None:
        headers = {"Accept": "text/event-stream", "Last-Event-ID": self._last}
        self._reader = EventReader()
        params = {"subscription": self._id}
        exchange = self._session.exchange("GET", "/hanse/v1/notifications", params=params, headers=headers, endless=True)
        self._response = await self._stack.enter_async_context(exchange)

    async def _hang_up(self) -> None:
        self._response = None
        with suppress(NgsiLdClientError, aiohttp.ClientError, OSError):
            await self._stack.aclose()

    async def close(self) -> None:
        """Unsubscribe."""
        if self._closed:
            return
        self._closed = True
        self._forget(self)
        await self._hang_up()
        if self._id:
            with suppress(NgsiLdClientError):
                await self._session.request("DELETE", f"{NGSI_LD}/subscriptions/{segment(self._id)}")

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> dict[str, Any]:
        pause_s = PAUSE_S
        while not self._ready:
            if self._closed:
                raise StopAsyncIteration
            try:
                if self._response is None:
                    await self.open()
                pause_s = PAUSE_S
                await self._read()
            except (aiohttp.ClientError, OSError, TimeoutError):
                await self._hang_up()
            except NgsiLdClientError as error:
                await self._hang_up()
                if not self._id or error.status not in (0, 503):
                    raise
            if self._response is None and not self._closed:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)
        return self._ready.pop(0)

    async def _read(self) -> None:
        assert self._response is not None
        chunk = await self._response.content.readany()
        if not chunk:
            await self._hang_up()
            return
        for event in self._reader.feed(chunk):
            if event.event == "gap":
                self.gaps += 1
                continue
            with suppress(msgspec.DecodeError):
                self._ready.append(msgspec.json.decode(event.data))
        self._last = self._reader.last_id or self._last
