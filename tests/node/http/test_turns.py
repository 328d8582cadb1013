"""Batches work one after the other, and others have their turn in between."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hanse.node.http import turns
from hanse.node.http.turns import Turn


class _Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(turns, "monotonic", lambda: self.now)


async def work(turn: Turn, name: str, steps: int, clock: _Clock, done: list[str], step_s: float = 0.03) -> None:
    async with turn:
        for _ in range(steps):
            if turn.is_over:
                await turn.leave()
            done.append(name)
            clock.now += step_s


def test_one_batch_is_done_before_the_next_begins_and_other_requests_come_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, done = _Clock(monkeypatch), list[str]()

    async def other() -> None:
        done.append("other")

    async def run() -> None:
        lock = asyncio.Lock()
        await asyncio.gather(work(Turn(lock), "a", 5, clock, done), work(Turn(lock), "b", 5, clock, done), other())

    asyncio.run(run())
    assert "".join(name for name in done if name != "other") == "aaaaabbbbb"
    assert done.index("other") == 2  # after 0.06 s


def test_a_long_batch_lets_others_work(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, done = _Clock(monkeypatch), list[str]()

    async def run() -> None:
        lock = asyncio.Lock()
        await asyncio.gather(
            *(work(Turn(lock), name, 12, clock, done, 0.06) for name in "ab"), work(Turn(lock), "c", 1, clock, done)
        )

    asyncio.run(run())
    assert "".join(done) == "aaaabbbbcaaaabbbbaaaabbbb"


@pytest.mark.parametrize("how", ["fails", "is cancelled", "is cancelled while it waits to go on", "is cancelled before"])
def test_whatever_becomes_of_a_batch_the_next_one_works(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, done = _Clock(monkeypatch), list[str]()

    async def bad(lock: asyncio.Lock, awaited: asyncio.Future[None]) -> None:
        async with Turn(lock) as turn:
            await turn.without(awaited)

    async def run() -> None:
        lock = asyncio.Lock()
        awaited: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if how == "is cancelled before":
            await lock.acquire()
        one = asyncio.create_task(bad(lock, awaited))
        await asyncio.sleep(0)
        await work(Turn(lock), "b", 1, clock, done) if how != "is cancelled before" else None  # while the first one waits
        match how:
            case "fails":
                awaited.set_exception(ValueError)
            case "is cancelled while it waits to go on":
                await lock.acquire()
                awaited.set_result(None)
                await asyncio.sleep(0)
                one.cancel()
            case _:
                one.cancel()
        with pytest.raises((ValueError, asyncio.CancelledError)):
            await one
        if how in ("is cancelled while it waits to go on", "is cancelled before"):
            lock.release()
        assert not lock.locked()
        await work(Turn(lock), "c", 1, clock, done)

    asyncio.run(run())
    assert done[-1] == "c"
