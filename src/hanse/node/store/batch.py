"""Writing a batch: many tasks in one transaction or, if one of them cannot be written, each in one of its own.

A task is all or nothing. One that builds on a failed one (the same entity) fails with it: it was computed from a state that never
came to be.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from hanse.ngsild.errors import NgsiLdError
from hanse.node.settings import StoreSection
from hanse.node.store.checkpoint import Checkpointer
from hanse.node.store.connection import Writer, open_writer
from hanse.node.store.history import ensure
from hanse.node.store.schema import migrate
from hanse.node.store.upkeep import Upkeep
from hanse.node.store.writes import SaveChange, Write


class CommitFailed(NgsiLdError):
    """The write is not durable, and has been undone."""

    title, code = "The write could not be stored", "H0224"


class Task:
    __slots__ = ("error", "ids", "number", "outcome", "writes")

    def __init__(self, writes: tuple[Write, ...], number: int = 0) -> None:
        self.writes = writes
        self.number = number
        self.ids = [write.id for write in writes if isinstance(write, SaveChange)]
        self.error: Exception | None = None
        self.outcome: object = None  # what a write has to tell whoever submitted it


T = TypeVar("T", bound=Task)


class BatchWriter:
    """The connection that writes, and what goes with its commits."""

    def __init__(self, path: Path, settings: StoreSection, *, durable: bool) -> None:
        self.connection: Writer = open_writer(path, durable=durable)
        migrate(self.connection)
        ensure(self.connection)
        self.connection.dead_letters_max = settings.dead_letters_max
        self.connection.remember()
        self.commit_s = 0.0  # how long the last commit took
        self._upkeep = Upkeep(settings)
        self._checkpointer = Checkpointer(path, durable=durable)

    def close(self) -> None:
        self._checkpointer.close()
        self.connection.close()

    def apply(self, task: Task) -> None:
        """Within the transaction of the batch, which begins with its first task."""
        connection = self.connection
        if not connection.in_transaction:
            connection.execute("BEGIN IMMEDIATE")
        for write in task.writes:
            outcome = write.apply(connection)
            if outcome is not None:
                task.outcome = outcome

    def complete(self, tasks: Sequence[Task]) -> None:
        """All are applied; what is left to do before the commit."""
        self.connection.flush()
        self._upkeep(self.connection, sum(len(task.writes) for task in tasks))

    @property
    def has_pages_to_copy(self) -> bool:
        """Whether the next commit is followed by some work on the database's file."""
        return self._checkpointer.is_due(self.connection)

    def commit(self, tasks: Sequence[Task]) -> None:
        started = time.perf_counter()
        try:
            self.connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001
            failure = failure_of(error)
            for task in tasks:
                task.error = failure
            self.connection.rollback_all()
            return
        self.commit_s = time.perf_counter() - started
        if self.has_pages_to_copy:
            with suppress(sqlite3.Error):  # the commit is done; another one will try again
                self._checkpointer.after_commit(self.connection)

    def one_by_one(self, tasks: Sequence[T], done: Callable[[T], None] | None = None) -> None:
        """After one of them failed, nobody knows which: each for itself, and each fails for its own reason only."""
        connection = self.connection
        connection.rollback_all()
        failed: set[str] = set()
        for task in tasks:
            try:
                if task.error is not None:
                    raise task.error  # it is known already
                if not failed.isdisjoint(task.ids):
                    raise builds_on_failure()
                self.apply(task)
                connection.flush()
                connection.execute("COMMIT")
            except Exception as error:  # noqa: BLE001
                task.error = failure_of(error)
                failed.update(task.ids)
                connection.rollback_all()
            if done is not None:
                done(task)

    def taken_large(self) -> set[str]:
        """The entities written since this was asked last that are too large to be remembered."""
        large, self.connection.large = self.connection.large, set()
        return large


def builds_on_failure() -> CommitFailed:
    return CommitFailed("the change that this one builds on could not be stored; try again")


def failure_of(error: BaseException) -> Exception:
    if isinstance(error, NgsiLdError):
        return error
    failure = CommitFailed(_reason(error))
    failure.__cause__ = error
    return failure


def _reason(error: BaseException) -> str:
    if isinstance(error, sqlite3.OperationalError) and "full" in str(error):
        return "the disk is full, so nothing was changed; make room and try again"
    return f"the database refused the write, so nothing was changed: {error}"
