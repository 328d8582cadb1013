"""One stream of events of a tenant, as Server-Sent Events: an answer that lasts until someone hangs up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.responses import StreamingResponse

from hanse.ngsild.errors import BadRequestData, TooManyPending
from hanse.node.notifier.streams import Listener

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import ASGIApp

    from hanse.node.http.call import Call

ALIVE_S: Final = 15.0  # a comment this often, so that whatever is in between does not take the silence for the end


def event_stream(call: Call, name: str) -> ASGIApp:
    """What is published under the name; a listener that comes back with Last-Event-ID goes on behind that one."""
    last = call.headers.get("last-event-id")
    if last is not None and not (last.isascii() and last.isdigit() and len(last) < 20):
        raise BadRequestData("Last-Event-ID is the number of an event")
    most = call.node.settings.limits.streams_max
    if sum(tenant.notifier.streams.connections for tenant in call.node.tenants.values()) >= most:
        raise TooManyPending(f"there are {most} streams already")
    streams = call.tenant.notifier.streams
    listener = Listener()
    complete = streams.listen(name, listener, int(last) if last is not None else 0)

    async def events() -> AsyncIterator[bytes]:
        try:
            with streams.connection():
                yield b": listening\n\n" if complete or last is None else b"event: gap\ndata: {}\n\n"
                while True:
                    try:
                        async with asyncio.timeout(ALIVE_S):
                            event = await listener.get()
                    except TimeoutError:
                        yield b": alive\n\n"
                        continue
                    if event is None:
                        return
                    if dropped := listener.take_dropped():
                        yield b'event: gap\ndata: {"dropped":%d}\n\n' % dropped
                    yield b"id: %d\nevent: notification\ndata: %b\n\n" % (event.id, event.body)
        finally:
            streams.unlisten(name, listener)

    return StreamingResponse(events(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})
