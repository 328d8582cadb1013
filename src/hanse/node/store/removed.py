"""What of the past is no longer here: by age, and by request.

Who answers for the time before has to know both. `Floor` says up to when the retention has removed instances. What somebody has
removed or replaced on purpose is noted here, too, so that a copy of it elsewhere does not bring it back; it is forgotten with the
past of its entity. So are the names of what age has taken, which policies and requests may ask for.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

_NOTE_INSTANCE: Final = "INSERT INTO past_removed(entity, attribute, instance_id, every, upto) VALUES (?, ?, ?, 0, 0)"
_NOTE_SERIES: Final = """INSERT INTO past_removed(entity, attribute, dataset, every, upto)
    VALUES (?, ?, ?, ?, (SELECT coalesce(max(offset), 0) FROM log))"""
# of lives that are somebody's
_NOTE_NAMES: Final = """INSERT OR IGNORE INTO past_names SELECT coalesce(e.id, p.id), a.name, coalesce(?3, '')
    FROM names AS a LEFT JOIN temporal_entities AS e ON e.n = ?1 LEFT JOIN entities AS p ON p.n = ?1
    WHERE a.id = ?2 AND coalesce(e.id, p.id) IS NOT NULL"""
_IDS_AT_ONCE: Final = 500


class Floor(Struct, frozen=True):
    """Instances that were modified before `modified_us` may have been removed, and none since; `latest_us` is the latest time
    of any kind that a removed one had, which lies in the future where forecasts were stored.
    """

    modified_us: int
    latest_us: int


class Removed(Struct, frozen=True):
    """One instance; or, without its id, all of a series, or of all series of an attribute, up to an offset of the log."""

    attribute: str
    dataset: str | None
    instance_id: str | None
    upto: int
    every: bool = False


def floor(connection: sqlite3.Connection) -> Floor | None:
    """None: nothing has been removed by age."""
    row = connection.execute("SELECT modified_us, latest_us FROM past_floor").fetchone()
    return None if row is None else Floor(*row)


def raise_floor(connection: sqlite3.Connection, modified_us: int, latest_us: int) -> None:
    connection.execute(
        """INSERT INTO past_floor VALUES (1, ?1, ?2)
        ON CONFLICT(id) DO UPDATE SET modified_us = max(modified_us, ?1), latest_us = max(latest_us, ?2)""",
        (modified_us, latest_us),
    )


def note_instances(connection: sqlite3.Connection, id_: str, attribute: str, instance_ids: Iterable[str]) -> None:
    connection.executemany(_NOTE_INSTANCE, [(id_, attribute, instance_id) for instance_id in instance_ids])


def note_series(connection: sqlite3.Connection, id_: str, attribute: str, dataset: str | None, *, every: bool) -> None:
    """Only up to now: there may be another one of that name later."""
    what = (id_, attribute, dataset, every)
    connection.execute(
        "DELETE FROM past_removed WHERE entity = ? AND attribute = ? AND dataset IS ? AND every = ? AND instance_id IS NULL", what
    )
    connection.execute(_NOTE_SERIES, what)
    connection.execute(
        "DELETE FROM past_names WHERE entity = ? AND attribute = ? AND (dataset = ? OR ?)", (id_, attribute, dataset or "", every)
    )


def note_names(connection: sqlite3.Connection, series: Collection[tuple[int, int, str | None]]) -> None:
    """That there was something of these series, which is now gone: numbers of the life and the attribute, datasetId."""
    connection.executemany(_NOTE_NAMES, series)


def forget_removed(connection: sqlite3.Connection, id_: str) -> None:
    for table in ("past_removed", "past_names"):
        connection.execute(f"DELETE FROM {table} WHERE entity = ?", (id_,))  # noqa: S608


def removed(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, list[Removed]]:
    """What was removed on purpose of the past of these entities."""
    found: dict[str, list[Removed]] = {}
    for start in range(0, len(ids), _IDS_AT_ONCE):
        some = msgspec.json.encode(ids[start : start + _IDS_AT_ONCE]).decode()
        rows = connection.execute(
            """SELECT entity, attribute, dataset, instance_id, upto, every FROM past_removed
            WHERE entity IN (SELECT value FROM json_each(?))""",
            (some,),
        )
        for id_, attribute, dataset, instance_id, upto, every in rows:
            found.setdefault(id_, []).append(Removed(attribute, dataset, instance_id, upto, bool(every)))
    return found
