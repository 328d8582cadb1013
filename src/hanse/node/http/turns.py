"""Batches take turns: each works for a while, and no other one meanwhile.

Two that worked side by side would be done at the same time, and the store, which has nothing to do until the first submissions
come, would have to finish both while nobody works. One after the other, the store writes one while the next is worked on. Other
requests have their turn in between all the time.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from types import TracebackType

TURN_S: Final = 0.05  # how long a batch may keep other requests waiting
BATCH_TURN_S: Final = 0.2  # and other batches

T = TypeVar("T")


class Turn:
    """`async with Turn(lock)`: a batch works within, looks at `is_over` now and then, and leaves for a moment if it is."""

    def __init__(self, working: asyncio.Lock) -> None:
        self._working = working
        self._is_mine = False
        self._ends = self._last_ends = 0.0

    async def __aenter__(self) -> Self:
        await self._begin()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    @property
    def is_over(self) -> bool:
        return monotonic() > self._ends

    async def leave(self) -> None:
        if monotonic() > self._last_ends:
            self._end()
            await asyncio.sleep(0)
            await self._begin()  # behind those that wait
        else:
            await asyncio.sleep(0)
            self._ends = monotonic() + TURN_S

    async def without(self, waiting: Awaitable[T]) -> T:
        """Wait for something that may take long, while others work."""
        self._end()
        try:
            return await waiting
        finally:
            await self._begin()

    async def _begin(self) -> None:
        await self._working.acquire()
        self._is_mine = True
        now = monotonic()
        self._ends, self._last_ends = now + TURN_S, now + BATCH_TURN_S

    def _end(self) -> None:
        if self._is_mine:
            self._is_mine = False
            self._working.release()
