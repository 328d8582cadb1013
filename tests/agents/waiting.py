"""Wait for something that an agent counts, with a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

WAIT_S = 60.0


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not true():  # noqa: ASYNC110 - counters are plain numbers, which nobody tells of
            await asyncio.sleep(0.005)
