"""Writing in a process of its own, with a processor of its own: the node starts one for a store that has much to write.

It hears the writes in order, over a socket; whatever has come while it was busy is the next batch. It answers up to which number
all is committed, and which ones have failed. The number is kept in the same transaction: should this process die, the node finds
there what is committed, and writes the rest itself. If the node dies, the socket ends, and so does this process; until then it
holds the lock of the store, so that no other node begins before the last commit is made.
"""

from __future__ import annotations

import gc
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from hanse.node.settings import StoreSection
from hanse.node.store.batch import BatchWriter, CommitFailed, Task, builds_on_failure
from hanse.node.store.connection import Writer
from hanse.node.store.wire import Frames, Order, Report, read_order, report_frame

RECEIVED_AT_ONCE: Final = 1 << 20
BATCH_WRITES_MAX: Final = 400  # in a commit: with larger ones all clients wait for the same one, and then this for them
GC_THRESHOLDS: Final = (100_000, 20, 50)  # writes leave no cycles behind
NUMBER: Final = "SELECT data FROM documents WHERE kind = 'written' AND id = ''"
_NOTE_NUMBER: Final = """INSERT INTO documents(kind, id, data) VALUES ('written', '', ?)
    ON CONFLICT(kind, id) DO UPDATE SET data = excluded.data"""


class Setup(Struct):
    path: str
    durable: bool
    settings: StoreSection


class _Note(Struct, frozen=True):
    """That everything up to this number is committed with this."""

    number: int

    def apply(self, connection: Writer, /) -> None:
        connection.execute(_NOTE_NUMBER, (self.number,))


class _Process:
    def __init__(self, channel: socket.socket, setup: Setup) -> None:
        self._channel = channel
        self._setup = setup
        self._frames = Frames()
        self._failed: dict[str, int] = {}  # entities that the node believes otherwise, until it has heard of that report
        self._failures = 0  # reports with failures
        self._orders: list[Order] = []
        self._ended = False

    def serve(self) -> None:
        self._tell(Report(0, [], [], set(), 0))
        if not self._await_orders():
            return  # before the first order the store is another one's to write
        writer = BatchWriter(Path(self._setup.path), self._setup.settings, durable=self._setup.durable)
        try:
            while self._orders:
                self._write(writer, self._tasks())
                self._await_orders()
        finally:
            writer.close()

    def _await_orders(self) -> bool:
        """All that have come by now; if there are none the next one. False: there will be none."""
        writes = 0
        while not self._ended and writes < BATCH_WRITES_MAX:
            try:
                data = self._channel.recv(RECEIVED_AT_ONCE, socket.MSG_DONTWAIT if self._orders else 0)
            except BlockingIOError:
                break
            self._ended = not data
            for order in map(read_order, self._frames.fed(data)):
                self._orders.append(order)
                writes += sum(map(len, order.tasks))
        return bool(self._orders)

    def _tasks(self) -> list[Task]:
        orders, self._orders = self._orders, []
        tasks: list[Task] = []
        for order in orders:
            if self._failed:
                self._failed = {id_: report for id_, report in self._failed.items() if report > order.heard}
            for number, writes in enumerate(order.tasks, order.first):
                task = Task(writes, number)
                if not self._failed.keys().isdisjoint(task.ids):
                    task.error = builds_on_failure()
                    self._failed |= dict.fromkeys(task.ids, self._failures + 1)
                tasks.append(task)
        return tasks

    def _write(self, writer: BatchWriter, tasks: list[Task]) -> None:
        good = [task for task in tasks if task.error is None]
        try:
            for task in good:
                writer.apply(task)
            writer.apply(Task((_Note(tasks[-1].number),)))
            writer.complete(good)
        except Exception:  # noqa: BLE001  whose fault it is shows when each is tried alone
            for task in good:
                task.writes = (*task.writes, _Note(task.number))
            # each is told at once: whoever looks at the number noted has heard of all failures before it
            writer.one_by_one(tasks, lambda task: self._report(writer, [task]))
        else:
            writer.commit(good)
            self._report(writer, tasks)

    def _report(self, writer: BatchWriter, tasks: list[Task]) -> None:
        failed = [(task.number, task.error) for task in tasks if task.error is not None]
        if failed:
            self._failures += 1
            for task in tasks:
                if task.error is not None:
                    self._failed |= dict.fromkeys(task.ids, self._failures)
        outcomes = [(task.number, task.outcome) for task in tasks if task.outcome is not None]
        self._tell(Report(tasks[-1].number, failed, outcomes, writer.taken_large(), writer.connection.dead_letters))

    def _tell(self, report: Report) -> None:
        try:
            frame = report_frame(report)
        except Exception:  # noqa: BLE001  an error that cannot be sent as it is
            frame = report_frame(report._replace(failed=[(number, CommitFailed(str(error))) for number, error in report.failed]))
        self._channel.sendall(frame)


def main() -> None:
    for sign in (signal.SIGINT, signal.SIGTERM):  # the node is told to stop, and this ends with it
        signal.signal(sign, signal.SIG_IGN)
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    with (
        socket.socket(fileno=int(sys.argv[1])) as channel,
        suppress(BrokenPipeError, ConnectionResetError),
    ):  # nobody listens any more
        _Process(channel, msgspec.json.decode(sys.argv[2], type=Setup)).serve()
