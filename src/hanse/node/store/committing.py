"""The group commit: writes gather while the disk is busy with those before them.

What was accepted is written in the order in which it came: in the node's own process (writing_here.py) or, once there is much to
write and a second processor, in another one (handing_over.py). Either way a submission is all or nothing, and one that builds on
a failed one fails with it.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Final

import structlog

from hanse.ngsild.entity import Entity
from hanse.ngsild.errors import TooManyPending
from hanse.node.settings import StoreSection
from hanse.node.store.batch import BatchWriter, CommitFailed, builds_on_failure, failure_of
from hanse.node.store.filing import FileFacts
from hanse.node.store.handing_over import WritingProcess
from hanse.node.store.schema import StoreError
from hanse.node.store.submission import Place, Submission, taken_out
from hanse.node.store.writes import SaveChange, Write
from hanse.node.store.writing_here import WritingHere
from hanse.node.store.writing_process import NUMBER, Setup

BUSY_WRITES: Final = 1_000  # in a second: worth a process of its own
EARLY: Final = 25  # submissions that are worth a batch: the other process gets them before the loop has heard all requests
AGAIN_S: Final = 60.0  # after one was lost
IDLE_S: Final = 60.0  # without a write, after which it ends
CALM_S: Final = 0.2  # without a write, after which what waits to be filed is
UNFILED: Final = 200  # writes that are worth it
PROCESSES_MAX: Final = len(os.sched_getaffinity(0)) - 1  # of all stores of a node: the node itself needs a processor

log = structlog.get_logger("hanse.store")


class Committer:
    def __init__(
        self,
        path: Path,
        settings: StoreSection,
        lock: IO[str] | None,
        settled: Callable[[str, Entity | None], None],
        *,
        durable: bool,
    ) -> None:
        self.pending = 0  # writes that are not yet durable
        self.overlay: dict[
            str, tuple[Entity | None, Submission]
        ] = {}  # the newest states that were accepted but not yet committed
        self.commits = 0
        self._path = path
        self._settings = settings
        self._lock = lock
        self._durable = durable
        self._settled = settled
        self._here: WritingHere | None = self._at_home()
        self._process: WritingProcess | None = None
        self._place: Place = self._here
        self._waiting: deque[Submission] = deque()
        self._is_called = False
        self._closed = False
        self._second = 0.0  # when the writes began to be counted
        self._writes = 0
        self._may_leave = settings.writer_process != "never"
        self._not_before = 0.0
        self._unfiled = 0  # writes since facts were last filed because nobody wrote
        self._calm: asyncio.AbstractEventLoop | None = None  # on which it is looked whether it is calm

    def submit(self, writes: tuple[Write, ...]) -> asyncio.Future[Any]:
        if self._closed:
            raise CommitFailed("the store is closed")
        if self.pending + len(writes) > self._settings.pending_writes_max:
            raise TooManyPending(f"{self.pending} writes wait for the disk already; try again in a moment")
        submission = Submission(writes, asyncio.get_running_loop())
        self.pending += len(writes)
        self._writes += len(writes)
        for write in writes:
            if isinstance(write, SaveChange):
                self.overlay[write.id] = write.after, submission
        self._waiting.append(submission)
        if self._here is None and len(self._waiting) >= EARLY and not self._place.is_busy(len(self._waiting)):
            self._place.take(self._waiting)
        else:
            self._place.prepare(submission)
            self._call(submission.loop)
        return submission.future

    def drain(self) -> None:
        """Everything that was submitted is committed; nothing more can be."""
        self._closed = True
        self._place.drain(self._waiting)
        self._place.drain(self._waiting)  # another one, if the process was lost

    def close(self) -> None:
        self._place.close()
        if self._process is not None and self._place is not self._process:
            self._process.close()

    @property
    def writer(self) -> BatchWriter | None:
        """What writes; None: it is in another process."""
        return self._here.writer if self._here is not None else None

    @property
    def dead_letters(self) -> int:
        return self._place.dead_letters

    # --- where it is written ------------------------------------------------------------------------------------------

    def _at_home(self) -> WritingHere:
        return WritingHere(BatchWriter(self._path, self._settings, durable=self._durable), self._finished)

    def _call(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._is_called and not self._place.is_busy(len(self._waiting)):
            self._is_called = True
            loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_called = False
        if not self._waiting or self._place.is_busy(len(self._waiting)) or self._closed:
            return
        if self._may_leave and self._here is not None:
            self._consider_leaving(self._here, self._waiting[0].loop)
        self._place.take(self._waiting)

    def _consider_leaving(self, here: WritingHere, loop: asyncio.AbstractEventLoop) -> None:
        """To another process, if there is much to write; it takes over when it has started."""
        now = time.monotonic()
        is_always = self._settings.writer_process == "always"
        is_worth_it = self._writes >= BUSY_WRITES and WritingProcess.running < PROCESSES_MAX
        if self._process is None and (is_always or is_worth_it) and now >= self._not_before:
            setup = Setup(str(self._path), self._durable, self._settings)
            try:
                self._process = WritingProcess(setup, self._lock, self._finished, self._lost)
            except OSError as error:
                log.warning("no process for writing could be started; the node writes itself", error=str(error))
                self._may_leave = False
                return
            self._process.listen(loop)
        if self._process is not None and (self._process.is_ready or is_always):
            self._process.number = _number(here.writer)
            self._process.dead_letters = here.dead_letters
            threading.Thread(
                target=here.close, name="hanse-leave"
            ).start()  # it may have pages to copy, and the loop must not wait
            self._here, self._place = None, self._process
            loop.call_later(IDLE_S, self._consider_return, loop, self._process)
        if now - self._second >= 1:
            self._second, self._writes = now, 0

    def _consider_return(self, loop: asyncio.AbstractEventLoop, process: WritingProcess) -> None:
        """The other process has had its time, if there is nothing to write any more."""
        if self._place is not process or self._closed:
            return
        if self._writes or self.pending or self._settings.writer_process == "always":
            self._writes = 0
            loop.call_later(IDLE_S, self._consider_return, loop, process)
            return
        process.close()
        self._process = None
        self._here = self._place = self._at_home()

    def _lost(self, sent: list[Submission]) -> None:
        """The process has ended by itself: what it has not committed is written here."""
        process, self._process = self._process, None
        assert process is not None
        self._not_before = time.monotonic() + AGAIN_S
        log.warning("the process that writes has ended; the node writes itself for now", pid=process.pid)
        if self._place is not process:
            return
        try:
            self._here = self._place = self._at_home()
            number = _number(self._here.writer)
        except (sqlite3.Error, StoreError) as error:
            self._closed = True  # as long as this node runs
            unwritten = [*sent, *self._waiting]
            self._waiting.clear()
            for submission in unwritten:
                submission.error = failure_of(error)
            self._finished(unwritten, set())
            return
        self._waiting.extendleft(reversed([submission for submission in sent if submission.number > number]))
        committed = [submission for submission in sent if submission.number <= number]
        self._finished(committed, {id_ for submission in committed for id_ in submission.ids})

    # --- settling -----------------------------------------------------------------------------------------------------

    def _finished(self, submissions: list[Submission], large: set[str]) -> None:
        for submission in submissions:
            self._settle(submission, large)
        self._fail_dependants([submission for submission in submissions if submission.error is not None])
        if submissions:
            self.commits += 1
        if self._waiting and not self._closed:
            # futures are resolved first: who hears of a commit may have more to write
            self._call(self._waiting[0].loop)
        elif self._unfiled >= UNFILED and submissions:
            self._await_calm(submissions[-1].loop)

    def _await_calm(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._calm is not loop and not self._closed and not loop.is_closed():
            self._calm = loop
            loop.call_later(CALM_S, self._file, loop, self.commits)

    def _file(self, loop: asyncio.AbstractEventLoop, commits: int) -> None:
        """Facts, if nobody has written meanwhile."""
        self._calm = None
        if self._closed or self.pending:
            return
        if self.commits > commits:
            self._await_calm(loop)
            return
        self._unfiled = 0
        self.submit((FileFacts(),)).add_done_callback(asyncio.Future.exception)  # the next one will try again

    def _fail_dependants(self, failed: list[Submission]) -> None:
        if not failed:
            return
        failing: list[Submission] = []
        ids = {id_ for submission in failed if submission.number for id_ in submission.ids}
        if ids and self._place is self._process and self._process is not None:
            failing = self._process.failing(ids)
        ids.update(id_ for submission in failed for id_ in submission.ids)  # those that were not sent, too
        failing += taken_out(self._waiting, ids)
        for submission in failing:
            submission.error = builds_on_failure()
            self._settle(submission, set())

    def _settle(self, submission: Submission, large: set[str]) -> None:
        self.pending -= len(submission.writes)
        self._unfiled += len(submission.writes)
        error, overlay = submission.error, self.overlay
        for id_ in submission.ids:
            newest = overlay.get(id_)
            is_newest = newest is not None and newest[1] is submission
            if is_newest:
                del overlay[id_]
            if error is not None:
                continue
            if newest is not None and is_newest:
                self._settled(id_, None if id_ in large else newest[0])
            else:  # what comes next is not durable yet, and what was remembered is older than what is
                self._settled(id_, None)
        if not submission.future.done() and not submission.loop.is_closed():
            if error is None:
                submission.future.set_result(submission.outcome)
            else:
                submission.future.set_exception(error)


def _number(writer: BatchWriter) -> int:
    """Of the last submission that another process has committed."""
    row = writer.connection.execute(NUMBER).fetchone()
    return int(row[0]) if row is not None else 0
