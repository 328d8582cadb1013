"""One stream of events of a tenant, as Server-Sent Events: an answer that lasts until someone hangs up."""

from __future__ import annotations

import asyncio
import time
from math import inf
from typing import TYPE_CHECKING, Final

from starlette.responses import StreamingResponse

from hanse.ngsild.errors import BadRequestData, TooManyPending
from hanse.node.notifier.streams import Listener

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from hanse.node.http.call import Call
    from hanse.node.notifier.streams import Streams

EXPIRED: Final = "the token has expired; come back with a new one"
ALIVE_S: Final = 15.0  # a comment this often, so that whatever is in between does not take the silence for the end


class EventStream(StreamingResponse):
    """An answer that lasts. `ended` is called when it is over, also if the client was gone before it began."""

    def __init__(self, events: AsyncIterator[bytes], streams: Streams, ended: Callable[[], Awaitable[None]]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._streams = streams
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._streams.connection():
                await super().__call__(scope, receive, send)
        finally:
            await self._ended()


def event_stream(call: Call, name: str) -> ASGIApp:
    """What is published under the name; a listener that comes back with Last-Event-ID goes on behind that one."""
    last = call.headers.get("last-event-id")
    if last is not None and not (last.isascii() and last.isdigit() and len(last) < 20):
        raise BadRequestData("Last-Event-ID is the number of an event")
    most = call.node.settings.limits.streams_max
    if sum(tenant.notifier.streams.connections for tenant in call.node.tenants.values()) >= most:
        raise TooManyPending(f"there are {most} streams already")
    streams = call.tenant.notifier.streams
    ends_at = inf if call.node.access is None else call.node.access.identities.end_of(call.headers)
    listener = Listener()
    complete = streams.listen(name, listener, int(last) if last is not None else 0)

    async def events() -> AsyncIterator[bytes]:
        yield b": listening\n\n" if complete or last is None else b"event: gap\ndata: {}\n\n"
        async for chunk in told(listener, ALIVE_S, b": alive\n\n", ends_at):
            yield chunk

    async def ended() -> None:
        streams.unlisten(name, listener)

    return EventStream(events(), streams, ended)


async def told(listener: Listener, alive_s: float, comment: bytes, ends_at: float = inf) -> AsyncIterator[bytes]:
    """What a listener hears, until there is no more; a comment whenever it has been quiet for so long.

    `ends_at`, in seconds since 1970, is when the token ends that the stream was asked for with: the stream ends, too.
    """
    while True:
        left_s = ends_at - time.time()
        if left_s <= 0:
            yield b'event: end\ndata: {"reason":"%b"}\n\n' % EXPIRED.encode()
            return
        try:
            async with asyncio.timeout(min(alive_s, left_s)):
                event = await listener.get()
        except TimeoutError:
            if left_s > alive_s:
                yield comment
            continue
        if event is None:
            return
        if dropped := listener.take_dropped():
            yield b'event: gap\ndata: {"dropped":%d}\n\n' % dropped
        yield b"id: %d\nevent: notification\ndata: %b\n\n" % (event.id, event.body)
