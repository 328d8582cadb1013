"""The past of entities, copied from one store to another as it is, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from hanse.node.lake import Question
from hanse.node.store.history import Window

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from hanse.ngsild.temporal_parsing import TemporalQuery
    from hanse.node.store import Store, Writer

AT_ONCE: Final = 200  # entities

_HEADS: Final = "id, types, scopes, created_us, modified_us"
_ROWS: Final = "entity, attribute, dataset, instance_id, observed_us, created_us, modified_us, deleted_us, instance"

_ADD: Final = f"""INSERT INTO history({_ROWS}) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 WHERE NOT EXISTS
    (SELECT 1 FROM history WHERE entity = ?1 AND attribute = ?2 AND dataset IS ?3 AND instance_id = ?4)"""  # noqa: S608


class ClearHistory(Struct, frozen=True):
    """Forget the past of everything."""

    def apply(self, connection: Writer, /) -> None:
        connection.flush()
        connection.execute("DELETE FROM history")
        connection.execute("DELETE FROM temporal_entities")


class CopyHistory(Struct, frozen=True):
    """Add rows of another store, those that are not here already."""

    heads: list[tuple[Any, ...]]
    rows: list[tuple[Any, ...]]

    def apply(self, connection: Writer, /) -> None:
        connection.flush()
        connection.executemany(f"INSERT OR IGNORE INTO temporal_entities({_HEADS}) VALUES (?, ?, ?, ?, ?)", self.heads)  # noqa: S608
        connection.executemany(_ADD, self.rows)


async def copy_history(source: Store, target: Store, ids: Sequence[str], query: TemporalQuery) -> None:
    """The instances of these entities that a temporal query is about."""
    window = Window.of(query)

    def look(connection: sqlite3.Connection, some: Sequence[str]) -> CopyHistory:
        heads, rows = [], []
        for id_ in some:
            heads += connection.execute(
                f"SELECT {_HEADS} FROM temporal_entities WHERE id = ? AND deleted_us IS NULL",  # noqa: S608
                (id_,),
            ).fetchall()
            rows += connection.execute(
                f"SELECT {_ROWS} FROM history WHERE entity = ? AND {window.condition}",  # noqa: S608
                (id_, *window.values),
            ).fetchall()
        return CopyHistory(heads, rows)

    for start in range(0, len(ids), AT_ONCE):
        some = ids[start : start + AT_ONCE]
        found = await source.read_past(lambda connection, some=some: look(connection, some), Question(query, only=some))  # type: ignore[misc]
        await target.submit(found)


def all_ids(connection: sqlite3.Connection) -> list[str]:
    return [id_ for (id_,) in connection.execute("SELECT id FROM temporal_entities WHERE deleted_us IS NULL ORDER BY id")]
