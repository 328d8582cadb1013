"""The group commit: writes gather while the disk is busy with those before them.

Everything but COMMIT happens on the event loop's thread: the writes of a batch are applied there, statement by statement, in
slices so short that requests do not notice. COMMIT waits for the disk, so it runs in a thread of its own, and meanwhile the next
batch gathers; unless the disk is so quick that changing threads would take longer.
A submission is all or nothing. If one of a batch fails, the batch is rolled back and its submissions are tried one by one,
so that each fails for its own reason only. A submission that builds on a failed one (the same entity) fails with it: it was
computed from a state that never came to be.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from hanse.ngsild.entity import Entity
from hanse.ngsild.errors import NgsiLdError, TooManyPending
from hanse.node.store.checkpoint import Checkpointer
from hanse.node.store.connection import Writer
from hanse.node.store.writes import SaveChange, Write

SLICE_S: Final = 0.004  # of the loop's time that a batch takes at once
HERE_S: Final = 0.0015  # a disk that is quicker than this is waited for on the loop's thread: changing threads costs more
AVERAGED: Final = 8  # commits
LOOK_EVERY: Final = 100  # submissions, after which what they staged is written and the clock looked at
BATCH_WRITES_MAX: Final = 2_000  # after so many a batch is committed, whoever else waits

Upkeep = Callable[[Writer, int], None]  # told how many writes the batch has


class CommitFailed(NgsiLdError):
    """The write is not durable, and has been undone."""

    title, code = "The write could not be stored", "H0224"


class Submission:
    __slots__ = ("error", "future", "ids", "loop", "writes")

    def __init__(self, writes: tuple[Write, ...], loop: asyncio.AbstractEventLoop) -> None:
        self.writes = writes
        self.loop = loop
        self.future: asyncio.Future[None] = loop.create_future()
        self.ids = [write.change.entity.id for write in writes if isinstance(write, SaveChange)]
        self.error: BaseException | None = None


class Committer:
    def __init__(
        self,
        writer: Writer,
        pending_max: int,
        upkeep: Upkeep,
        settled: Callable[[str, Entity | None], None],
        checkpointer: Checkpointer,
    ) -> None:
        self.writer = writer
        self.pending_max = pending_max
        self.pending = 0  # writes that are not yet durable
        self.overlay: dict[
            str, tuple[Entity | None, Submission]
        ] = {}  # the newest states that were accepted but not yet committed
        self.commits = 0
        self._upkeep = upkeep
        self._settled = settled
        self._checkpointer = checkpointer
        self._waiting: deque[Submission] = deque()
        self._batch: list[Submission] = []
        self._applied = 0  # submissions of the batch that are applied already
        self._working = False
        self._committing: Future[None] | None = None
        self._commit_s = HERE_S  # how long commits take lately; the first ones show it in the thread
        self._thread = ThreadPoolExecutor(1, "hanse-commit")
        self._closed = False

    def submit(self, writes: tuple[Write, ...]) -> asyncio.Future[None]:
        if self._closed:
            raise CommitFailed("the store is closed")
        if self.pending + len(writes) > self.pending_max:
            raise TooManyPending(f"{self.pending} writes wait for the disk already; try again in a moment")
        submission = Submission(writes, asyncio.get_running_loop())
        self.pending += len(writes)
        for write in writes:
            if isinstance(write, SaveChange):
                self.overlay[write.change.entity.id] = write.change.after, submission
        self._waiting.append(submission)
        if not self._working:
            self._working = True
            submission.loop.call_soon(self._begin)
        return submission.future

    def close(self) -> None:
        """Everything that was submitted is committed first."""
        self._closed = True
        while self._working:
            if self._committing is not None:
                self._committing.exception()
                self._committed(self._committing)
            elif self._batch:
                self._apply(None)
            elif self._waiting:
                self._take()
            else:
                self._working = False
        self._thread.shutdown()
        self._checkpointer.close()

    # --- one batch after the other ------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if not self._working or self._batch:
            return
        self._take()
        if self._batch:
            self._apply(SLICE_S)
        else:
            self._working = False

    def _take(self) -> None:
        writes = 0
        while self._waiting and writes < BATCH_WRITES_MAX:
            submission = self._waiting.popleft()
            self._batch.append(submission)
            writes += len(submission.writes)
        self._applied = 0

    def _apply(self, slice_s: float | None) -> None:
        """Apply what is left of the batch, for so long; then go on later, or commit."""
        if self._committing is not None or not self._batch:
            return
        writer, batch = self.writer, self._batch
        until = None if slice_s is None else time.perf_counter() + slice_s
        try:
            if not writer.in_transaction:
                writer.execute("BEGIN IMMEDIATE")
            while self._applied < len(batch):
                for write in batch[self._applied].writes:
                    write.apply(writer)
                self._applied += 1
                if until is not None and self._applied % LOOK_EVERY == 0 and self._applied < len(batch):
                    writer.flush()
                    if time.perf_counter() > until:
                        batch[0].loop.call_soon(self._apply, slice_s)
                        return
            writer.flush()
            self._upkeep(writer, sum(len(submission.writes) for submission in batch))
        except Exception:  # noqa: BLE001  whose fault it is shows when each is tried alone
            self._commit(self._one_by_one)
        else:
            self._commit(self._all_at_once)

    def _commit(self, work: Callable[[], None]) -> None:
        if work == self._all_at_once and self._commit_s < HERE_S and not self._checkpointer.is_due(self.writer):
            work()
            self._finish(None)
            return
        loop = self._batch[0].loop
        self._committing = self._thread.submit(work)
        self._committing.add_done_callback(lambda done: _later(loop, self._committed, done))

    def _all_at_once(self) -> None:
        started = time.perf_counter()
        try:
            self.writer.execute("COMMIT")
        except Exception as error:  # noqa: BLE001
            failure = _failure(error)
            for submission in self._batch:
                submission.error = failure
            self.writer.rollback_all()
            return
        self._commit_s += (time.perf_counter() - started - self._commit_s) / AVERAGED
        if self._checkpointer.is_due(self.writer):
            with suppress(sqlite3.Error):  # the commit is done; another one will try again
                self._checkpointer.after_commit(self.writer)

    def _one_by_one(self) -> None:
        writer = self.writer
        writer.rollback_all()
        failed: set[str] = set()
        for submission in self._batch:
            try:
                if not failed.isdisjoint(submission.ids):
                    raise CommitFailed("the change that this one builds on could not be stored; try again")
                writer.execute("BEGIN IMMEDIATE")
                for write in submission.writes:
                    write.apply(writer)
                writer.flush()
                writer.execute("COMMIT")
            except Exception as error:  # noqa: BLE001
                submission.error = _failure(error)
                failed.update(submission.ids)
                writer.rollback_all()

    def _committed(self, done: Future[None]) -> None:
        if self._committing is done:  # else `close` was quicker
            self._committing = None
            self._finish(done.exception())

    def _finish(self, error: BaseException | None) -> None:
        batch, self._batch = self._batch, []
        for submission in batch:
            if error is not None:
                submission.error = submission.error or _failure(error)
            self._settle(submission)
        self._fail_dependants({id_ for submission in batch if submission.error is not None for id_ in submission.ids})
        self.commits += 1
        if self._waiting and not self._closed:
            # futures are resolved first: who hears of a commit may have more to write
            self._waiting[0].loop.call_soon(self._begin)
        elif not self._waiting:
            self._working = False

    def _fail_dependants(self, ids: set[str]) -> None:
        if not ids:
            return
        kept: deque[Submission] = deque()
        for submission in self._waiting:
            if ids.isdisjoint(submission.ids):
                kept.append(submission)
            else:
                ids.update(submission.ids)
                submission.error = CommitFailed("the change that this one builds on could not be stored; try again")
                self._settle(submission)
        self._waiting = kept

    def _settle(self, submission: Submission) -> None:
        self.pending -= len(submission.writes)
        error, overlay = submission.error, self.overlay
        for id_ in submission.ids:
            newest = overlay.get(id_)
            if newest is None:
                continue
            if error is not None:
                del overlay[id_]
            elif newest[1] is submission:
                del overlay[id_]
                self._settled(id_, newest[0])
            else:  # what comes next is not durable yet, and what was remembered is older than what is
                self._settled(id_, None)
        if not submission.future.done() and not submission.loop.is_closed():
            if error is None:
                submission.future.set_result(None)
            else:
                submission.future.set_exception(error)


def _later(loop: asyncio.AbstractEventLoop, call: Callable[[Future[None]], None], done: Future[None]) -> None:
    with suppress(RuntimeError):  # the loop is closed; `close` of the store finishes the batch
        loop.call_soon_threadsafe(call, done)


def _failure(error: BaseException) -> Exception:
    if isinstance(error, NgsiLdError):
        return error
    failure = CommitFailed(_reason(error))
    failure.__cause__ = error
    return failure


def _reason(error: BaseException) -> str:
    if isinstance(error, sqlite3.OperationalError) and "full" in str(error):
        return "the disk is full, so nothing was changed; make room and try again"
    return f"the database refused the write, so nothing was changed: {error}"
