"""The agent of a public transport operator: the timetable once and whenever it changes, the real-time feed every few seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import ClassVar, Final

from msgspec import Struct

from hanse.agents.base import Agent, Entity, Gone, PlatformAway, Received, Unusable
from hanse.agents.fetching import FILE_BYTES_MAX, Document, is_url, shown
from hanse.agents.forms import now_text
from hanse.agents.gtfs import Timetable
from hanse.agents.gtfs_rt import FEED_BYTES_MAX, Realtime, feed_time, parse_feed
from hanse.agents.gtfs_tables import open_feed
from hanse.client.node import NodeClient
from hanse.model.errors import InvalidInput

TIMETABLE_EVERY_S: Final = 600.0  # how often it is looked whether the timetable has changed


class _Static(Struct, frozen=True):
    content: bytes  # nothing for a folder


class GtfsAgent(Agent):
    derived: ClassVar[frozenset[str]] = frozenset({"remainingTime"})
    whole: ClassVar[bool] = True

    def __init__(
        self,
        feed: str,
        realtime: str = "",
        *,
        name: str = "",
        every_s: float = 10.0,
        once: bool = False,
        stop_times: bool = False,
    ) -> None:
        """`name` keeps the ids of several feeds apart; without one it is that of the file."""
        super().__init__()
        self._feed = feed
        self._name = name or Path(shown(feed)).name.removesuffix(".zip") or "gtfs"
        self._every_s = every_s
        self._once = once or not realtime
        self._static = Document(feed, FILE_BYTES_MAX)
        self._live = Document(realtime, FEED_BYTES_MAX) if realtime else None
        self._static_next = 0.0
        self._has_read = False
        self._timetable = Timetable(self._name, self.refuse, with_stop_times=stop_times)
        self._realtime = Realtime(shown(realtime) if is_url(realtime) else Path(realtime).name, self._timetable, self.refuse)

    async def prepare(self, node: NodeClient) -> None:
        """Learn which estimations and alerts the node has from an earlier run, so that those that are over go away."""
        if self._live is None:
            return
        start = tuple(f"{self._timetable.id(type_)}:" for type_ in ("ArrivalEstimation", "Alert"))
        found = node.query(type="ArrivalEstimation,Alert", pick="id", format="simplified", local=True, page=1000)
        self._realtime.passing({entity["id"] async for entity in found if entity["id"].startswith(start)})

    async def receive(self) -> AsyncIterator[Received]:
        while True:
            if time.monotonic() >= self._static_next:
                if (static := await self._read_static()) is not None:
                    yield Received(static, now_text())
                self._static_next = time.monotonic() + TIMETABLE_EVERY_S
            if self._live is not None:
                content = await self._live.read()
                if content is not None:
                    try:
                        feed = parse_feed(content, shown(self._live.place))
                    except InvalidInput as error:
                        if self._once:
                            raise
                        self.counters.received += 1
                        self.refuse(error)
                    else:
                        yield Received(feed, feed_time(feed))
            if self._once:
                return
            await asyncio.sleep(self._every_s)

    async def _read_static(self) -> _Static | None:
        try:
            content = await self._static.read()
        except PlatformAway as error:
            if self._has_read or is_url(self._feed):
                raise
            raise Unusable(f"{error}; give the zip file of a GTFS feed, a folder of it, or a URL") from error
        return _Static(content) if content is not None else None

    def adapt(self, received: Received) -> Iterable[Entity | Gone]:
        if not isinstance(received.source, _Static):
            yield from self._realtime.adapt(received.source, received.at)
            return
        try:
            with open_feed(self._feed, received.source.content or None) as tables:
                yield from self._timetable.read(tables)
        except InvalidInput as error:
            raise error if self._has_read else Unusable(error.message, place=error.place) from error
        self._has_read = True
