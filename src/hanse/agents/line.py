"""A bounded line between those who bring and the one who takes away."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Line(Generic[T]):
    def __init__(self, bound: int) -> None:
        self.bound = bound
        self._items: deque[T] = deque()
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self.closed = False
        self._nudged = False

    def __len__(self) -> int:
        return len(self._items)

    def push(self, item: T) -> list[T]:
        """For those who cannot wait: the oldest makes room for the newest. Gives what had to go."""
        lost = [self._items.popleft()] if len(self._items) >= self.bound else []
        self._items.append(item)
        self._filled.set()
        return lost

    def drop(self) -> T:
        """Take the oldest away."""
        return self._items.popleft()

    async def put(self, item: T) -> None:
        """For those who can wait until there is room."""
        while len(self._items) >= self.bound:
            self._room.clear()
            await self._room.wait()
        self.push(item)

    async def take(self, at_most: int) -> list[T]:
        """What there is, as soon as there is something; nothing when the line is empty and closed, or has been nudged."""
        while not self._items:
            if self.closed or self._nudged:
                self._nudged = False
                return []
            self._filled.clear()
            await self._filled.wait()
        taken = [self._items.popleft() for _ in range(min(at_most, len(self._items)))]
        self._room.set()
        return taken

    def close(self) -> None:
        """No more will come."""
        self.closed = True
        self._filled.set()

    def nudge(self) -> None:
        """Let the one who takes look up once, when there is nothing left."""
        self._nudged = True
        self._filled.set()
