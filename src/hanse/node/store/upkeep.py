"""What is old goes: a few rows with every so many writes, so that it never takes long and nobody has to remember it."""

from __future__ import annotations

from typing import Final

from hanse.ngsild.temporal import SCOPE
from hanse.node.settings import StoreSection
from hanse.node.store.connection import Writer
from hanse.node.store.history import purge
from hanse.node.store.removed import note_names, raise_floor
from hanse.node.store.times import now_us

EVERY_WRITES: Final = 256
ROWS_AT_ONCE: Final = 1_024  # four times what may have come since: it catches up
ROUNDS_BETWEEN_PURGES: Final = 16  # of what belongs to entities that are no more
_DAY_US: Final = 86_400 * 1_000_000


class Upkeep:
    def __init__(self, settings: StoreSection) -> None:
        self._log_max = settings.log_records_max
        self._history_us = settings.history_days * _DAY_US
        self._writes = EVERY_WRITES  # look once early
        self._rounds = 0
        self._looked_at = 0  # up to this row of history nothing is left that ages

    def __call__(self, writer: Writer, writes: int) -> None:
        """With a batch of so many writes, in its transaction."""
        self._writes += writes
        if self._writes >= EVERY_WRITES:
            rows = ROWS_AT_ONCE * max(1, self._writes // EVERY_WRITES)
            self._writes = 0
            self._trim_log(writer, rows)
            if self._history_us:
                self._trim_history(writer, rows)
            self._rounds += 1
            if self._rounds % ROUNDS_BETWEEN_PURGES == 0:
                purge(writer, rows * ROUNDS_BETWEEN_PURGES)

    def _trim_log(self, writer: Writer, rows: int) -> None:
        first, last = writer.execute("SELECT (SELECT min(offset) FROM log), (SELECT max(offset) FROM log)").fetchone()
        if first is not None and last - first >= self._log_max:
            writer.execute("DELETE FROM log WHERE offset < ?", (min(last - self._log_max + 1, first + rows),))

    def _trim_history(self, writer: Writer, rows: int) -> None:
        """Rows come nearly in order of time: those at the old end are looked at. Scopes, which are few, stay as long as the
        entity: they say where it was, also for what others have kept of its past.
        """
        old = now_us() - self._history_us
        seen = writer.execute(
            "SELECT seq, modified_us, max(modified_us, coalesce(observed_us, 0)), life, name, dataset FROM instances "
            "WHERE seq > ? ORDER BY seq LIMIT ?",
            (self._looked_at, rows),
        ).fetchall()
        if not seen:
            (newest,) = writer.execute("SELECT coalesce(max(seq), 0) FROM instances").fetchone()
            self._looked_at = min(self._looked_at, newest)  # if all are gone, numbers may begin anew
        scope = writer.name_id(SCOPE)
        gone = [row for row in seen if row[1] < old and row[4] != scope]
        if gone:
            writer.executemany("DELETE FROM instances WHERE seq = ?", [row[:1] for row in gone])
            raise_floor(writer, old, max(row[2] for row in gone))
            note_names(writer, {row[3:] for row in gone})
        for row in seen:
            if row[1] >= old:
                break
            self._looked_at = row[0]
