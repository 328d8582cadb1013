"""Writing in the node's own process.

Everything but COMMIT happens on the event loop's thread: the writes of a batch are applied there, statement by statement, in
slices so short that requests do not notice. COMMIT waits for the disk, so it runs in a thread of its own, and meanwhile the next
batch gathers; unless the disk is so quick that changing threads would take longer.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final

from hanse.node.store.batch import BatchWriter, failure_of
from hanse.node.store.submission import Finished, Submission, gathered

SLICE_S: Final = 0.004  # of the loop's time that a batch takes at once
HERE_S: Final = 0.0015  # a disk that is quicker than this is waited for on the loop's thread: changing threads costs more
AVERAGED: Final = 8  # commits
BATCH_WRITES_MAX: Final = 2_000  # after so many a batch is committed, whoever else waits
LOOK_EVERY: Final = 100  # submissions, after which what they staged is written and the clock looked at


class WritingHere:
    def __init__(self, writer: BatchWriter, finished: Finished) -> None:
        self.writer = writer
        self.commit_s = HERE_S  # how long commits take lately; the first ones show it in the thread
        self._finished = finished
        self._batch: list[Submission] = []
        self._applied = 0  # submissions of the batch that are applied already
        self._committing: Future[None] | None = None
        self._thread = ThreadPoolExecutor(1, "hanse-commit")

    def is_busy(self, waiting: int) -> bool:  # noqa: ARG002
        return bool(self._batch)

    @property
    def dead_letters(self) -> int:
        return self.writer.connection.dead_letters

    def prepare(self, submission: Submission) -> None:
        """Nothing can be done before it is taken."""

    def take(self, waiting: deque[Submission]) -> None:
        self._gather(waiting)
        self._apply(SLICE_S)

    def drain(self, waiting: deque[Submission]) -> None:
        while self._batch or waiting:
            if self._committing is not None:
                self._committing.exception()
                self._committed(self._committing)
            elif self._batch:
                self._apply(None)
            else:
                self._gather(waiting)

    def close(self) -> None:
        self._thread.shutdown()
        self.writer.close()

    def _gather(self, waiting: deque[Submission]) -> None:
        self._batch = gathered(waiting, BATCH_WRITES_MAX)
        self._applied = 0

    def _apply(self, slice_s: float | None) -> None:
        """Apply what is left of the batch, for so long; then go on later, or commit."""
        if self._committing is not None or not self._batch:
            return
        writer, batch = self.writer, self._batch
        until = None if slice_s is None else time.perf_counter() + slice_s
        try:
            while self._applied < len(batch):
                writer.apply(batch[self._applied])
                self._applied += 1
                if until is not None and self._applied % LOOK_EVERY == 0 and self._applied < len(batch):
                    writer.connection.flush()
                    if time.perf_counter() > until:
                        batch[0].loop.call_soon(self._apply, slice_s)
                        return
            writer.complete(batch)
        except Exception:  # noqa: BLE001  whose fault it is shows when each is tried alone
            self._in_thread(partial(writer.one_by_one, batch))
        else:
            if self.commit_s < HERE_S and not writer.has_pages_to_copy:
                self._commit()
                self._finish(None)
            else:
                self._in_thread(self._commit)

    def _in_thread(self, work: Callable[[], None]) -> None:
        loop = self._batch[0].loop
        self._committing = self._thread.submit(work)
        self._committing.add_done_callback(lambda done: _later(loop, self._committed, done))

    def _commit(self) -> None:
        self.writer.commit(self._batch)
        self.commit_s += (self.writer.commit_s - self.commit_s) / AVERAGED

    def _committed(self, done: Future[None]) -> None:
        if self._committing is done:  # else `drain` was quicker
            self._committing = None
            self._finish(done.exception())

    def _finish(self, error: BaseException | None) -> None:
        batch, self._batch = self._batch, []
        if error is not None:
            for submission in batch:
                submission.error = submission.error or failure_of(error)
        self._finished(batch, self.writer.taken_large())


def _later(loop: asyncio.AbstractEventLoop, call: Callable[[Future[None]], None], done: Future[None]) -> None:
    with suppress(RuntimeError):  # the loop is closed; `close` of the store finishes the batch
        loop.call_soon_threadsafe(call, done)
