"""A door in front of a node: open it answers as the node does, shut nobody is there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from hanse.model.ports import free_port


class Gate:
    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)

    async def shut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            inner_reader, inner = await asyncio.open_connection(self._target.hostname, self._target.port)
            self._writers.add(inner)
            await asyncio.gather(_copy(reader, inner), _copy(inner_reader, writer))
            self._writers.discard(inner)
        finally:
            self._writers.discard(writer)
            self._tasks.discard(task)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def gate(url: str) -> AsyncIterator[Gate]:
    made = Gate(url)
    try:
        yield made
    finally:
        await made.shut()
