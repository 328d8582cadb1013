"""What waits to be written, and who waits for it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Protocol

from hanse.node.store.batch import Task
from hanse.node.store.writes import Write


class Part:
    """Submissions that have become bytes together."""

    def __init__(self, data: bytes, size: int) -> None:
        self.data = data
        self.size = size  # how many


class Submission(Task):
    __slots__ = ("future", "loop", "part")

    def __init__(self, writes: tuple[Write, ...], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(writes)
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.part: Part | None = None


def gathered(waiting: deque[Submission], writes_max: int) -> list[Submission]:
    """The next batch, which is full with so many writes."""
    batch: list[Submission] = []
    writes = 0
    while waiting and writes < writes_max:
        submission = waiting.popleft()
        batch.append(submission)
        writes += len(submission.writes)
    return batch


def taken_out(queue: deque[Submission], ids: set[str]) -> list[Submission]:
    """Take those out of a queue that build on one of these entities, and whose own are added to them."""
    taken: list[Submission] = []
    for _ in range(len(queue)):
        submission = queue.popleft()
        if ids.isdisjoint(submission.ids):
            queue.append(submission)
        else:
            ids.update(submission.ids)
            taken.append(submission)
    return taken


class Finished(Protocol):
    """Told of submissions that are committed, or have failed, in the order in which they came."""

    def __call__(self, submissions: list[Submission], large: set[str], /) -> None: ...


class Place(Protocol):
    """Where submissions are written."""

    def is_busy(self, waiting: int) -> bool:
        """Whether it takes none of so many for now; it says when it has `Finished`."""

    def prepare(self, submission: Submission) -> None:
        """It has to wait; do what can be done already."""

    def take(self, waiting: deque[Submission]) -> None:
        """Begin with some of them; called on the loop's thread."""

    def drain(self, waiting: deque[Submission]) -> None:
        """Finish everything, now."""

    @property
    def dead_letters(self) -> int: ...

    def close(self) -> None: ...
