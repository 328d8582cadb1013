"""HTTP for tests: answers are read when they come, so that nobody has to see to each of them."""

from __future__ import annotations

from typing import Any, Self

import aiohttp


class _Read(aiohttp.ClientResponse):
    async def start(self, connection: Any) -> Self:
        await super().start(connection)
        if self.status != 101 and self.content_type != "text/event-stream":  # a socket, a stream: they never end
            await self.read()
        return self


def asking(url: str) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(url, response_class=_Read)
