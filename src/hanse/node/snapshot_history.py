"""The past of entities, copied from one store to another as it is, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from hanse.node.lake import Question
from hanse.node.store.history import Window
from hanse.node.store.instance_ids import key_of
from hanse.node.store.staging import LAST_SEQ

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from hanse.ngsild.temporal_parsing import TemporalQuery
    from hanse.node.store import Store, Writer

AT_ONCE: Final = 200  # entities

_HEADS: Final = "id, types, scopes, created_us, modified_us"
_ROWS: Final = "entity, attribute, dataset, instance_id, observed_us, created_us, modified_us, deleted_us, instance"

_PUT: Final = f"INSERT INTO temporal_entities(n, {_HEADS}) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT(id) DO NOTHING"  # noqa: S608
_LIFE: Final = "SELECT n FROM temporal_entities WHERE id = ?"
_ADD: Final = f"""INSERT INTO instances
    (seq, life, name, dataset, instance_id, observed_us, created_us, modified_us, deleted_us, instance)
    SELECT 1 + ({LAST_SEQ}), ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 WHERE NOT EXISTS
    (SELECT 1 FROM instances WHERE life = ?1 AND name = ?2 AND dataset IS ?3 AND instance_id = ?4)"""  # noqa: S608


class ClearHistory(Struct, frozen=True):
    """Forget the past of everything."""

    def apply(self, connection: Writer, /) -> None:
        connection.flush()
        for table in ("instances", "temporal_entities", "past_ended"):
            connection.execute(f"DELETE FROM {table}")  # noqa: S608


class CopyHistory(Struct, frozen=True):
    """Add rows of another store, those that are not here already."""

    heads: list[tuple[Any, ...]]
    rows: list[tuple[Any, ...]]

    def apply(self, connection: Writer, /) -> None:
        connection.flush()
        lives: dict[str, int] = {}
        for head in self.heads:
            connection.execute(_PUT, (connection.life(head[0]), *head))
            (lives[head[0]],) = connection.execute(_LIFE, head[:1]).fetchone()
        for id_, attribute, dataset, instance_id, *others in self.rows:
            if id_ in lives:
                row = (lives[id_], connection.name_id(attribute), dataset, key_of(instance_id), *others)
                connection.execute(_ADD, row)


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
