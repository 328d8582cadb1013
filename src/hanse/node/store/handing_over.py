"""The node's end of the process that writes: submissions go there as they come, and are settled as it reports."""

from __future__ import annotations

import asyncio
import select
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from typing import IO, ClassVar, Final

import msgspec

from hanse.node.store.batch import failure_of
from hanse.node.store.submission import Finished, Part, Submission, gathered, taken_out
from hanse.node.store.wire import Frames, Report, order_frame, read_report, tasks_bytes
from hanse.node.store.writing_process import BATCH_WRITES_MAX, Setup

BATCHES_MAX: Final = 2  # on their way: one that is being written, and one that is there when it is
SECOND: Final = 16  # submissions that are worth a second one; fewer cost less if they wait for others to be written with
TOGETHER: Final = 64  # submissions that become bytes at a time; fewer are new enough when they are sent
RECEIVED_AT_ONCE: Final = 1 << 16
UNHEARD_BYTES: Final = 4 << 20  # that wait where the other process finds them, while this one is busy; the system may allow less
ENDS_WITHIN_S: Final = 60.0  # after its last report

_PROGRAM: Final = "from hanse.node.store.writing_process import main; main()"


class WritingProcess:
    running: ClassVar[int] = 0  # of all stores

    def __init__(
        self,
        setup: Setup,
        lock: IO[str] | None,
        finished: Finished,
        lost: Callable[[list[Submission]], None],
    ) -> None:
        self.is_ready = False
        self.number = 0  # of the newest submission
        self.dead_letters = 0
        self._finished = finished
        self._lost = lost
        self._sent: deque[Submission] = deque()
        self._batches: deque[int] = deque()  # the last number in each batch that is not settled
        self._new: list[Submission] = []  # that wait, and are no bytes yet
        self._unsent = bytearray()
        self._heard = 0  # reports with failures
        self._frames = Frames()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._channel, other = socket.socketpair()
        try:
            self._channel.setblocking(False)
            self._channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNHEARD_BYTES)
            self._process = subprocess.Popen(  # noqa: S603  this very program
                [sys.executable, "-P", "-c", _PROGRAM, str(other.fileno()), msgspec.json.encode(setup)],
                pass_fds=[other.fileno(), *([lock.fileno()] if lock is not None else [])],
                stdin=subprocess.DEVNULL,
                process_group=0,  # what is typed at the node's terminal is for the node
            )
        except OSError:
            self._channel.close()
            raise
        finally:
            other.close()
        WritingProcess.running += 1

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_busy(self, waiting: int) -> bool:
        return len(self._batches) >= (BATCHES_MAX if waiting >= SECOND else 1)

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hear reports on this loop from now on."""
        if self._loop is not loop:
            self._deaf()
            self._loop = loop
            loop.add_reader(self._channel, self._readable)
            self._send()

    def prepare(self, submission: Submission) -> None:
        """Make bytes of a few at a time as they come. When their turn is, they have left the processor's caches, and bytes would
        cost twice as much. Who submits so many keeps the loop busy, so this is also the time to send and to hear.
        """
        new = self._new
        new.append(submission)
        if len(new) == TOGETHER:
            with suppress(Exception):  # what is wrong shows when they are sent
                part = Part(_bytes(new), TOGETHER)
                for each in new:
                    each.part = part
            new.clear()
            self._push()
            self._receive()  # if nothing more is to come the loop is told, too

    def take(self, waiting: deque[Submission]) -> None:
        if waiting:
            self.listen(waiting[0].loop)
            self._order(waiting)
            self._send()

    def drain(self, waiting: deque[Submission]) -> None:
        """All is sent, and all reports are heard; what is left after that is lost."""
        self._deaf()
        while waiting:
            self._order(waiting)
        poll = select.poll()
        while self._unsent or self._sent:
            poll.register(self._channel, select.POLLIN | (select.POLLOUT if self._unsent else 0))
            poll.poll()
            self._push()
            if not self._receive():
                self._give_up()
                return

    def close(self) -> None:
        """It has nothing to do any more, or has not begun, or is lost."""
        self._end(within_s=ENDS_WITHIN_S if self.is_ready else 0)

    # --- sending ------------------------------------------------------------------------------------------------------

    def _order(self, waiting: deque[Submission]) -> None:
        submissions = gathered(waiting, BATCH_WRITES_MAX)
        self._new.clear()
        first = self.number + 1
        try:
            frames = b"".join(_frames(self._heard, first, submissions))
        except Exception as error:  # noqa: BLE001  none of them is sent
            for submission in submissions:
                submission.error = failure_of(error)
            self._finished(submissions, set())
            return
        for self.number, submission in enumerate(submissions, first):
            submission.number = self.number
        self._sent += submissions
        self._batches.append(self.number)
        self._unsent += frames

    def _send(self) -> None:
        self._push()
        if self._loop is not None:
            if self._unsent:
                self._loop.add_writer(self._channel, self._send)
            else:
                self._loop.remove_writer(self._channel)

    def _push(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._channel.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:  # it has ended, which shows in reading
            self._unsent.clear()

    # --- hearing ------------------------------------------------------------------------------------------------------

    def _readable(self) -> None:
        if not self._receive():
            self._give_up()

    def _receive(self) -> bool:
        """False: there is nothing more to come."""
        try:
            data = self._channel.recv(RECEIVED_AT_ONCE)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        for body in self._frames.fed(data):
            self._settle(read_report(body))
        return bool(data)

    def _settle(self, report: Report) -> None:
        self.is_ready = True
        self.dead_letters = report.dead_letters
        if report.failed:
            self._heard += 1
        errors, outcomes = dict(report.failed), dict(report.outcomes)
        settled: list[Submission] = []
        while self._sent and self._sent[0].number <= report.upto:
            submission = self._sent.popleft()
            submission.error, submission.outcome = errors.get(submission.number), outcomes.get(submission.number)
            settled.append(submission)
        while self._batches and self._batches[0] <= report.upto:
            self._batches.popleft()
        self._finished(settled, report.large)

    def failing(self, ids: set[str]) -> list[Submission]:
        """Take out what was sent and builds on what has failed: the process refuses it for the same reason."""
        return taken_out(self._sent, ids)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _deaf(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._channel)
            self._loop.remove_writer(self._channel)
        self._loop = None

    def _give_up(self) -> None:
        """Nothing more is heard of it: what it has not settled is the node's again."""
        self._end(within_s=0)
        sent, self._sent = list(self._sent), deque()
        self._lost(sent)

    def _end(self, within_s: float) -> None:
        self._deaf()
        self._channel.close()
        if self._process.returncode is not None:
            return
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        WritingProcess.running -= 1


def _frames(heard: int, first: int, submissions: list[Submission]) -> Iterator[bytes]:
    """An order for each part: whoever writes can begin with the first one. A part of which some are missing, having failed or
    being too many for one batch, is made anew.
    """
    for part, group in groupby(submissions, attrgetter("part")):
        some = list(group)
        yield order_frame(heard, first, part.data if part is not None and part.size == len(some) else _bytes(some))
        first += len(some)


def _bytes(submissions: list[Submission]) -> bytes:
    return tasks_bytes([submission.writes for submission in submissions])
