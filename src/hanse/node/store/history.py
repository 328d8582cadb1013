"""The past of entities, as it is read.

A series is the instances of one attribute with one datasetId. An instance has its place in it by the time property that is asked
for; by default that is observedAt, with modifiedAt for instances that were never observed, and there is an index in that order.
A deletion is an instance too, which only shows by deletedAt.

When an entity is deleted, its past is over. Its rows stay, because the log refers to them, but nobody finds them; and when there
is another entity of that id, its past is another life, with another number. A past that is not over when an entity of its id
begins, because it had no present or one that has expired, goes on as the past of that entity: its rows get the new number.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from hanse.ngsild.aggregation import FIRST_US, LAST_US, Aggregation, aggregate
from hanse.ngsild.entity import Instance
from hanse.ngsild.temporal import SCOPE, Evolution, Page, Series, gone, instance_value
from hanse.ngsild.temporal_parsing import TemporalQuery, TimeProperty, to_text
from hanse.node.store.removed import forget_removed

DEFAULT_DATASET: Final = "@none"
BY_DEFAULT: Final = "coalesce(observed_us, modified_us)"
ALL: Final = -1

_SCHEMA: Final = (
    """CREATE TRIGGER IF NOT EXISTS temporal_entity_returns AFTER UPDATE OF deleted_us ON temporal_entities
    WHEN NEW.deleted_us IS NULL AND OLD.deleted_us IS NOT NULL
    BEGIN
        INSERT OR IGNORE INTO past_ended VALUES (OLD.n);
        DELETE FROM past_names WHERE entity = NEW.id;
        UPDATE temporal_entities SET created_us = NEW.modified_us WHERE id = NEW.id;
    END""",
    """CREATE TRIGGER IF NOT EXISTS temporal_entity_goes_on AFTER UPDATE OF n ON temporal_entities
    WHEN NEW.n <> OLD.n AND OLD.deleted_us IS NULL
    BEGIN
        UPDATE instances SET life = NEW.n WHERE life = OLD.n;
    END""",
    """CREATE TRIGGER IF NOT EXISTS entity_leaves_no_past AFTER DELETE ON entities
    WHEN NOT EXISTS (SELECT 1 FROM temporal_entities WHERE n = OLD.n)
    BEGIN
        INSERT OR IGNORE INTO past_ended VALUES (OLD.n);
    END""",
)
_PURGE: Final = """DELETE FROM instances WHERE seq IN (
    SELECT seq FROM (
        SELECT i.seq FROM temporal_entities AS e CROSS JOIN instances AS i ON i.life = e.n WHERE e.deleted_us IS NOT NULL
        UNION ALL SELECT i.seq FROM past_ended AS e CROSS JOIN instances AS i ON i.life = e.n)
    WHERE seq < coalesce((SELECT first_seq FROM log ORDER BY offset LIMIT 1), 1 << 62) LIMIT ?)"""
# the number of the life that is, or would be, the past of an id
LIFE: Final = "coalesce((SELECT n FROM main.temporal_entities WHERE id = {id}), (SELECT n FROM main.entities WHERE id = {id}))"
_EVERY_ATTRIBUTE: Final = f"""WITH RECURSIVE found(life, name) AS (
        SELECT life, (SELECT min(name) FROM main.instances AS i WHERE i.life = its.life)
        FROM (SELECT {LIFE.format(id="?1")} AS life) AS its
        UNION ALL SELECT life, (SELECT min(name) FROM main.instances AS i WHERE i.life = found.life AND i.name > found.name)
        FROM found WHERE name IS NOT NULL)
    SELECT a.name FROM found JOIN main.names AS a ON a.id = found.name
    UNION SELECT attribute FROM other_rows WHERE entity = ?1 ORDER BY 1"""  # noqa: S608
_TIME: Final[dict[TimeProperty | None, tuple[str, str]]] = {  # the column, and which instances have it
    None: (BY_DEFAULT, "deleted_us IS NULL"),
    "observedAt": (BY_DEFAULT, "observed_us IS NOT NULL AND deleted_us IS NULL"),
    "createdAt": ("created_us", "deleted_us IS NULL"),
    "modifiedAt": ("modified_us", "deleted_us IS NULL"),
    "deletedAt": ("deleted_us", "deleted_us IS NOT NULL"),
}
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_decode_names = msgspec.json.Decoder(tuple[str, ...]).decode


def ensure(connection: sqlite3.Connection) -> None:
    """Make what reading needs, and see to it that the past ends with an entity; to be called when the database is opened."""
    for statement in _SCHEMA:
        connection.execute(statement)


def purge(connection: sqlite3.Connection, rows: int) -> None:
    """Remove some of what belongs to entities that are no more, as far as the log does not need it."""
    connection.execute(_PURGE, (rows,))
    over = connection.execute(
        """DELETE FROM temporal_entities WHERE n IN (SELECT n FROM temporal_entities AS e WHERE deleted_us IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM instances WHERE life = e.n) LIMIT ?) RETURNING id""",
        (rows,),
    ).fetchall()
    for (id_,) in over:
        forget_removed(connection, id_)
    connection.execute(
        """DELETE FROM past_ended WHERE n IN (SELECT n FROM past_ended AS e
        WHERE NOT EXISTS (SELECT 1 FROM instances WHERE life = e.n) LIMIT ?)""",
        (rows,),
    )


class Wanted(Struct, frozen=True):
    """Which series are read."""

    attribute: Callable[[str], bool] | None = None  # by its expanded name; None: all
    dataset_ids: frozenset[str] = frozenset()  # none: all

    def has(self, attribute: str) -> bool:
        return self.attribute is None or self.attribute(attribute)

    def has_dataset(self, dataset: str | None) -> bool:
        return not self.dataset_ids or (DEFAULT_DATASET if dataset is None else dataset) in self.dataset_ids


class Window(Struct, frozen=True):
    """The instances that a temporal query is about, as a condition on `history`."""

    time: str
    kind: str  # which instances have this time at all
    condition: str
    values: tuple[int, ...] = ()

    @classmethod
    def of(cls, query: TemporalQuery) -> Window:
        time, kind = _TIME[query.timeproperty]
        window = cls(time, kind, kind)
        if query.from_us is not None:
            window = window.also(">=", query.from_us)
        if query.until_us is not None:
            window = window.also("<", query.until_us)
        return window

    def also(self, sign: str, us: int) -> Window:
        return Window(self.time, self.kind, f"{self.condition} AND {self.time} {sign} ?", (*self.values, us))

    def at(self, us: int) -> Window:
        """One moment of it."""
        return Window(self.time, self.kind, f"{self.kind} AND {self.time} = ?", (us,))

    def within(self, spans: Sequence[tuple[int, int]]) -> Window:
        """What of it lies in one of these spans, the end of each excluded."""
        some = " OR ".join([f"{self.time} >= ? AND {self.time} < ?"] * len(spans)) or "0"
        return Window(
            self.time, self.kind, f"{self.condition} AND ({some})", (*self.values, *(us for span in spans for us in span))
        )


def is_known(connection: sqlite3.Connection, id_: str) -> bool:
    row = connection.execute("SELECT 1 FROM temporal_entities WHERE id = ? AND deleted_us IS NULL", (id_,)).fetchone()
    return row is not None


def every_attribute(connection: sqlite3.Connection, id_: str) -> list[str]:
    """The names of all attributes in an entity's past, whoever may see them, in order; by as many steps in the index."""
    return [name for (name,) in connection.execute(_EVERY_ATTRIBUTE, (id_,))]


def names(connection: sqlite3.Connection, id_: str) -> set[str]:
    """The names of those that are seen, with those of which nothing is left here."""
    some = "SELECT 1 FROM history WHERE entity = ? AND attribute = ? LIMIT 1"
    seen = {name for name in every_attribute(connection, id_) if connection.execute(some, (id_, name)).fetchone() is not None}
    rows = connection.execute("SELECT DISTINCT attribute FROM past_names WHERE entity = ?", (id_,))
    return {*seen, *(name for (name,) in rows)}


def datasets(connection: sqlite3.Connection, id_: str, attribute: str) -> list[str | None]:
    """The datasetIds of an attribute, the default (None) first."""
    start = "SELECT dataset FROM history WHERE entity = ? AND attribute = ? AND dataset"
    row = connection.execute(f"{start} IS NULL LIMIT 1", (id_, attribute)).fetchone()
    found: list[str | None] = [] if row is None else [None]
    last = ""
    while True:
        row = connection.execute(f"{start} > ? ORDER BY dataset LIMIT 1", (id_, attribute, last)).fetchone()
        if row is None:
            return found
        last = row[0]
        found.append(last)


class Place(Struct, frozen=True):
    """Where the rows of a series are."""

    entity: str
    attribute: str
    dataset: str | None

    @property
    def key(self) -> tuple[str, str, str | None]:
        return self.entity, self.attribute, self.dataset


class Instances(Struct, frozen=True):
    """How many instances of an attribute an answer shows: so many, or as many more as `lastN` asks for, up to the most."""

    default: int = 20
    max: int = 1_000

    def shown(self, last_n: int | None) -> int:
        return self.default if last_n is None or last_n <= self.default else min(last_n, max(self.default, self.max))


def read(
    connection: sqlite3.Connection,
    ids: Sequence[str],
    query: TemporalQuery,
    wanted: Wanted,
    instances: Instances,
    windows: Mapping[str, Window] | None = None,
) -> Page:
    """The evolution of these entities, those that are known; `windows` are narrower ones that some of them have.

    No series shows more than `instances` allows, but for those of one moment. If one is as long as that, more may follow: the
    page is partial, and everything in it ends at the moment where the first series does, so that nothing is missing before.
    """
    evolutions = [evolution for id_ in ids if (evolution := _heading(connection, id_)) is not None]
    whole = Window.of(query)
    windows = windows or {}
    if query.aggregation is not None:
        for evolution in evolutions:
            _aggregate(connection, evolution, query, query.aggregation, windows.get(evolution.id, whole), wanted)
        return Page(evolutions)
    backwards = query.last_n is not None
    most = instances.shown(query.last_n)
    count = most if query.last_n is None else min(query.last_n, most)
    may_end = not instances.default < (query.last_n or 0) <= most  # else as many were asked for as there are
    ends: list[int] = []
    places: list[tuple[Place, Window, Series]] = []
    for evolution in evolutions:
        for place in _places(connection, evolution.id, wanted):
            window = windows.get(evolution.id, whole)
            if place.attribute == SCOPE:
                window = _since_scope_was_set(connection, place, query)
            rows = list(_rows(connection, place, window, count, backwards=backwards))
            if not rows:
                continue
            if may_end and len(rows) == most:
                ends.append(rows[-1][0])
            series = Series(place.attribute, place.dataset, [], [], rows[0][1]["type"])
            _fill(series, rows[::-1] if backwards else rows)
            evolution.series.append(series)
            places.append((place, window, series))
    if not ends:
        return Page(evolutions)
    cut = max(ends) if backwards else min(ends)
    for place, window, series in places:
        _cut(connection, place, series, window, cut, backwards=backwards)
    return Page(evolutions, is_partial=True)


def in_window(connection: sqlite3.Connection, id_: str, names: Sequence[str], window: Window) -> Iterator[tuple[str, Instance]]:
    """Every instance of some attributes in a window, for a filter to look at."""
    for name in names:
        rows = connection.execute(
            f"SELECT instance FROM history WHERE entity = ? AND attribute = ? AND {window.condition}",  # noqa: S608
            (id_, name, *window.values),
        )
        for (raw,) in rows:
            yield name, _decode(raw)


class Scoped(Struct, frozen=True):
    """The scopes of an entity from one moment until another."""

    since_us: int
    until_us: int
    scopes: tuple[str, ...]


def scopes_in(connection: sqlite3.Connection, id_: str, query: TemporalQuery) -> list[Scoped]:
    """The scopes that an entity had at some time in a window. They hold from when they were set until others were."""
    rows = connection.execute(
        f"SELECT {BY_DEFAULT}, instance FROM history WHERE entity = ? AND attribute = ? ORDER BY 1, seq",  # noqa: S608
        (id_, SCOPE),
    ).fetchall()
    if not rows:
        (raw,) = connection.execute("SELECT scopes FROM temporal_entities WHERE id = ?", (id_,)).fetchone()
        return [Scoped(FIRST_US, LAST_US, _decode_names(raw))]
    found = []
    for number, (since, raw) in enumerate(rows):
        until = rows[number + 1][0] if number + 1 < len(rows) else LAST_US
        ends_before = query.from_us is not None and until <= query.from_us
        if not ends_before and (query.until_us is None or since < query.until_us):
            value = _decode(raw)["value"]
            found.append(Scoped(since, until, (value,) if isinstance(value, str) else tuple(value)))
    return found


def _since_scope_was_set(connection: sqlite3.Connection, place: Place, query: TemporalQuery) -> Window:
    """The window, from when those scopes were set on that hold at its start."""
    if query.from_us is None or query.timeproperty not in (None, "observedAt"):
        return Window.of(query)
    row = connection.execute(
        f"""SELECT {BY_DEFAULT}, deleted_us FROM history WHERE entity = ? AND attribute = ? AND dataset IS ?
        AND {BY_DEFAULT} <= ? ORDER BY 1 DESC, seq DESC LIMIT 1""",  # noqa: S608
        (*place.key, query.from_us),
    ).fetchone()
    is_set = row is not None and row[1] is None
    return Window.of(msgspec.structs.replace(query, from_us=row[0]) if is_set else query)


def _heading(connection: sqlite3.Connection, id_: str) -> Evolution | None:
    row = connection.execute(
        "SELECT types, created_us, modified_us FROM temporal_entities WHERE id = ? AND deleted_us IS NULL", (id_,)
    ).fetchone()
    if row is None:
        return None
    return Evolution(id=id_, types=_decode_names(row[0]), created_at=to_text(row[1]), modified_at=to_text(row[2]))


def _places(connection: sqlite3.Connection, id_: str, wanted: Wanted) -> Iterator[Place]:
    for attribute in every_attribute(connection, id_):
        if wanted.has(attribute):
            for dataset in datasets(connection, id_, attribute):
                if attribute == SCOPE or wanted.has_dataset(dataset):
                    yield Place(id_, attribute, dataset)


def _selected(
    connection: sqlite3.Connection, place: Place, window: Window, columns: str, count: int, *, backwards: bool
) -> sqlite3.Cursor:
    """Rows of a series, from one end of a window."""
    direction = "DESC" if backwards else "ASC"
    return connection.execute(
        f"""SELECT {columns} FROM history WHERE entity = ? AND attribute = ? AND dataset IS ? AND {window.condition}
        ORDER BY {window.time} {direction}, seq {direction} LIMIT ?""",  # noqa: S608
        (*place.key, *window.values, count),
    )


def _rows(
    connection: sqlite3.Connection, place: Place, window: Window, count: int, *, backwards: bool
) -> Iterator[tuple[int, Instance]]:
    """Moments and instances of a series, complete, from one end of a window."""
    columns = f"{window.time}, instance_id, created_us, modified_us, deleted_us, instance"
    rows = _selected(connection, place, window, columns, count, backwards=backwards)
    for us, instance_id, created_us, modified_us, deleted_us, raw in rows:
        instance = _decode(raw)
        if deleted_us is None:
            instance["createdAt"] = to_text(created_us)
            instance["modifiedAt"] = to_text(modified_us)
        else:
            if place.attribute != SCOPE:
                instance = gone(instance["type"], place.dataset)
            instance["deletedAt"] = to_text(deleted_us)
        instance["instanceId"] = instance_id
        yield us, instance


def _fill(series: Series, rows: list[tuple[int, Instance]]) -> None:
    series.times = [us for us, _ in rows]
    series.instances = [instance for _, instance in rows]


def _cut(connection: sqlite3.Connection, place: Place, series: Series, window: Window, cut: int, *, backwards: bool) -> None:
    """Leave out what lies beyond a moment, and take in all that happened at it, even if it is more than a series shows."""
    at = _rows(connection, place, window.at(cut), ALL, backwards=False)
    rows = [
        (us, instance)
        for us, instance in zip(series.times, series.instances, strict=True)
        if (us > cut if backwards else us < cut)
    ]
    _fill(series, [*at, *rows] if backwards else [*rows, *at])


def _aggregate(
    connection: sqlite3.Connection,
    evolution: Evolution,
    query: TemporalQuery,
    aggregation: Aggregation,
    window: Window,
    wanted: Wanted,
) -> None:
    """Compute instead of showing: the periods of all attributes of an entity begin at the same moment."""
    spans = {
        place: span
        for place in _places(connection, evolution.id, wanted)
        if place.attribute != SCOPE and (span := _span(connection, place, window)) is not None
    }
    if not spans:
        return
    origin = query.from_us if query.from_us is not None else min(first for first, _ in spans.values())
    end = query.until_us if query.until_us is not None else max(last for _, last in spans.values())
    for place in spans:
        count = ALL if query.last_n is None else query.last_n
        rows = _selected(connection, place, window, f"{window.time}, instance", count, backwards=query.last_n is not None)
        kinds: list[str] = []
        in_order = rows if query.last_n is None else reversed(rows.fetchall())
        aggregates = aggregate(_valued(in_order, kinds), aggregation, origin, end)
        evolution.series.append(Series(place.attribute, place.dataset, [], [], kinds[0], aggregates))


def _span(connection: sqlite3.Connection, place: Place, window: Window) -> tuple[int, int] | None:
    first, last = (
        connection.execute(
            f"""SELECT {window.time} FROM history WHERE entity = ? AND attribute = ? AND dataset IS ? AND {window.condition}
            ORDER BY {window.time} {direction} LIMIT 1""",  # noqa: S608
            (*place.key, *window.values),
        ).fetchone()
        for direction in ("ASC", "DESC")
    )
    return None if first is None or last is None else (first[0], last[0])


def _valued(rows: Iterable[tuple[int, bytes]], kinds: list[str]) -> Iterator[tuple[int, Any]]:
    """The values of instances; of what kind the attribute is, which the first one says, goes into `kinds`."""
    for us, raw in rows:
        instance = _decode(raw)
        if not kinds:
            kinds.append(instance["type"])
        yield us, instance_value(instance)
