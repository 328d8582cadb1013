"""Taking what is committed from the write-ahead log to the database, beside the commits and not in one of them.

One connection copies pages in a thread of its own while commits go on. What they add in the meantime is little; the commit that
finds the copying done copies that as well, and so the log can begin anew.
"""

from __future__ import annotations

import sqlite3
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from hanse.node.store.connection import Writer, open_checkpointer

ROWS_BETWEEN: Final = 40_000  # changed rows after which copying is worth it: pages that change often are copied once
PAGES_WORTH_IT: Final = 1_000  # in the log, for it to begin anew


class Checkpointer:
    def __init__(self, path: Path, *, durable: bool) -> None:
        self._path = path
        self._durable = durable
        self._thread = ThreadPoolExecutor(1, "hanse-checkpoint")
        self._connection: sqlite3.Connection | None = None
        self._running: Future[int] | None = None
        self._seen = 0

    def is_due(self, writer: Writer) -> bool:
        """Whether there is something to do after the next commit, which is then made in the thread of the commits."""
        if self._running is not None:
            return self._running.done()
        return writer.total_changes - self._seen >= ROWS_BETWEEN

    def after_commit(self, writer: Writer) -> None:
        """Called in the thread of the commits, between two of them."""
        if self._running is not None:
            if self._running.done():
                pages = 0 if self._running.exception() is not None else self._running.result()
                self._running = None
                if pages >= PAGES_WORTH_IT:
                    writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        elif writer.total_changes - self._seen >= ROWS_BETWEEN:
            self._seen = writer.total_changes
            self._running = self._thread.submit(self._copy)

    def _copy(self) -> int:
        if self._connection is None:
            self._connection = open_checkpointer(self._path, durable=self._durable)
        (row,) = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        return int(row[1])

    def close(self) -> None:
        self._thread.shutdown()
        if self._connection is not None:
            self._connection.close()
