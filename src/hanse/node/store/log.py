"""The log of changes: what happened to which entity, in order, by offset.

A log row says who and when; what the attributes became is in history already, so the row names the rows there. A record whose
history is gone, by age or because someone deleted it, still says that there was a change, but not what it was.

`read_page` is for those who follow the log at rate: SQLite writes the JSON of the attributes itself, what is wanted is sorted out
as early as can be, and where everything is wanted, Python looks at no record by itself. A page says up to which offset it has
everything that was asked for (`read`), which may be further than its last record, or, if that would be too many bytes, before the
number that was asked for. It reads the tables by their plain names, so that a connection on which these are views of what
somebody may see reads that.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from hanse.model import Geofence
from hanse.ngsild.entity import LOCATION, Attributes, Instance, Kind
from hanse.ngsild.scope_query import scope_matches
from hanse.node.store.history import LIFE

SCANNED_MAX: Final = 1_000_000  # offsets that one page looks at
PAGE_BYTES_MAX: Final = 64 * 1024 * 1024  # of attributes, after which a page ends
BLOCK: Final = 1_000  # records between two looks at how many bytes there are

_COLUMNS: Final = "l.offset, l.at_us, l.kind, l.operation, l.entity, l.type_set, l.scopes"
# what the past is made of, for who keeps it elsewhere: also the id of the instance, and of what kind a deleted one was
_PAST: Final = """format('{"name":%s,"id":%s,%s%s}', json_quote(h.attribute), json_quote(h.instance_id),
    iif(h.dataset IS NULL, '', '"dataset":' || json_quote(h.dataset) || ','),
    iif(h.deleted_us IS NULL, '"instance":' || CAST(h.instance AS TEXT),
        '"kind":' || json_quote(json_extract(CAST(h.instance AS TEXT), '$.type'))))"""
_ATTRIBUTE: Final = """iif(h.deleted_us IS NULL AND h.dataset IS NULL,
    format('{"name":%s,"instance":%s}', json_quote(h.attribute), h.instance),
    '{"name":' || json_quote(h.attribute) || iif(h.deleted_us IS NULL, ',"instance":' || CAST(h.instance AS TEXT), '')
    || iif(h.dataset IS NULL, '', ',"dataset":' || json_quote(h.dataset)) || '}')"""
# most records have one attribute, and what is found by its number is found quickest. Here and below, what only SELECTs from
# history does not look for the entities of its rows, as an aggregate would: LIMIT keeps these apart
_ATTRIBUTES: Final = f"""CASE l.rows
    WHEN 1 THEN (SELECT '[' || {_ATTRIBUTE} || ']' FROM history AS h WHERE h.seq = l.first_seq{{among}})
    ELSE (SELECT '[' || group_concat(one) || ']' FROM (SELECT {_ATTRIBUTE} AS one FROM history AS h
        WHERE h.seq >= l.first_seq AND h.seq < l.first_seq + l.rows{{among}} ORDER BY h.seq LIMIT -1)) END"""  # noqa: S608
# what a record says of the place itself, where `attributes` does not show it
_OWN_PLACE: Final = f"""(SELECT iif(h.deleted_us IS NULL, CAST(h.instance AS TEXT), '{{}}') FROM history AS h
    WHERE h.seq >= l.first_seq AND h.seq < l.first_seq + l.rows AND h.attribute = '{LOCATION}' AND h.dataset IS NULL)"""  # noqa: S608
# of many entities at once, each before a record of it
_LAST_PLACES: Final = f"""SELECT e.key, CAST(h.instance AS TEXT), h.deleted_us FROM json_each(?) AS e, history AS h
    WHERE h.seq = (SELECT max(seq) FROM (SELECT seq FROM history WHERE life = {LIFE.format(id="e.key")}
        AND attribute = '{LOCATION}' AND dataset IS NULL
        AND seq < (SELECT first_seq FROM main.log WHERE offset = e.value) LIMIT -1))"""  # noqa: S608
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LOCATION_NAME: Final = f'"name":"{LOCATION}"'

_texts = msgspec.json.Decoder(tuple[str, ...]).decode

QualityAt = Callable[[Attributes, str], bool]  # attributes, time


class LoggedAttribute(Struct, frozen=True, omit_defaults=True):
    name: str
    instance: Instance | None = None  # as it became; None: deleted
    dataset: str | None = None
    id: str | None = None  # of the instance; said if the past is asked for
    kind: str | None = None  # what a deleted one was; likewise


class LogRecord(Struct, frozen=True):
    offset: int
    at: str
    kind: Kind
    operation: str
    entity: str
    types: tuple[str, ...]
    scopes: tuple[str, ...]
    attributes: list[LoggedAttribute]


_attributes = msgspec.json.Decoder(list[LoggedAttribute]).decode


class _Value(Struct):
    value: msgspec.Raw = msgspec.Raw(b"null")


_value = msgspec.json.Decoder(_Value).decode


class Wanted(Struct, frozen=True):
    """Which records are wanted; what is empty asks for nothing."""

    types: tuple[str, ...] = ()  # any of these
    attributes: tuple[str, ...] = ()  # those that touch one of these, and of what they touch only these
    scope_q: str = ""
    area: Geofence | None = None  # where the entity is, as far as was known at the time of the change
    has_quality: QualityAt | None = None  # asked of the attributes that have changed, at the time of the change
    since_us: int | None = None
    until_us: int | None = None  # before this
    places: bool = False  # say where entities are
    past: bool = False  # say what the past is made of

    @property
    def needs_places(self) -> bool:
        return self.places or self.area is not None

    @property
    def hides_places(self) -> bool:
        """Whether places are needed, and are not among the attributes that are wanted."""
        return self.needs_places and bool(self.attributes) and LOCATION not in self.attributes

    @property
    def has_conditions(self) -> bool:
        """Whether there is more to decide about a record than SQLite can."""
        return bool(self.attributes or self.scope_q or self.area is not None or self.has_quality is not None)


# offset, at_us, kind, operation, entity, set of types, scopes (JSON), attributes (JSON: a list of `LoggedAttribute`s)
Row: TypeAlias = tuple[int, int, str, str, str, int, str | None, str]


class Page(Struct):
    rows: list[Row]
    places: list[str | None]  # of each row, as GeoJSON; none if they are not wanted
    types: dict[int, tuple[str, ...]]  # by number of the set
    read: int  # up to here nothing is left out
    end: int  # of the whole log, whoever may see it

    def records(self) -> list[LogRecord]:
        return [
            LogRecord(
                offset,
                at_text(at_us),
                kind,  # type: ignore[arg-type]
                operation,
                entity,
                self.types[type_set],
                _texts(scopes) if scopes else (),
                _attributes(attributes),
            )
            for offset, at_us, kind, operation, entity, type_set, scopes, attributes in self.rows
        ]


def at_text(at_us: int) -> str:
    return (_EPOCH + timedelta(microseconds=at_us)).isoformat(timespec="microseconds")[:-6] + "Z"


def read_records(connection: sqlite3.Connection, after: int, limit: int) -> list[LogRecord]:
    """What happened after an offset, oldest first."""
    return read_page(connection, after, None, limit).records()


_EVERYTHING: Final = Wanted()


def read_page(connection: sqlite3.Connection, after: int, upto: int | None, limit: int, wanted: Wanted = _EVERYTHING) -> Page:
    """At most so many records behind `after`, up to `upto` and including it, oldest first."""
    (end,) = connection.execute("SELECT coalesce(max(offset), 0) FROM main.log").fetchone()
    last = min(end if upto is None else upto, end, after + SCANNED_MAX)
    types = {number: _texts(text) for number, text in connection.execute("SELECT id, types FROM type_sets")}
    statement, values = _statement(after, last, limit, wanted, types)
    found, is_cut = _fetched(connection.execute(statement, values))
    read = found[-1][0] if found and (is_cut or len(found) >= limit) else max(after, last) if limit else after
    rows, places = _chosen(connection, found, wanted)
    return Page(rows, places, types, read, end)


def _fetched(cursor: sqlite3.Cursor) -> tuple[list[Any], bool]:
    """The records, and whether there may be more that would be too many bytes."""
    found: list[Any] = []
    size = 0
    while block := cursor.fetchmany(BLOCK):
        found += block
        size += sum(len(row[7] or "") for row in block)
        if size > PAGE_BYTES_MAX:
            return found, True
    return found, False


def _statement(after: int, last: int, limit: int, wanted: Wanted, types: dict[int, tuple[str, ...]]) -> tuple[str, list[Any]]:
    among, values = "", [*wanted.attributes, *wanted.attributes] if wanted.attributes else list[Any]()
    if wanted.attributes:
        among = f" AND h.attribute IN ({_marks(len(wanted.attributes))})"
    where = ["l.offset > ?", "l.offset <= ?"]
    values += [after, last]
    if wanted.types:
        asked = frozenset(wanted.types)
        sets = [number for number, names in types.items() if not asked.isdisjoint(names)]
        where.append(f"l.type_set IN ({_marks(len(sets))})")
        values += sets
    if wanted.since_us is not None:
        where.append("l.at_us >= ?")
        values.append(wanted.since_us)
    if wanted.until_us is not None:
        where.append("l.at_us < ?")
        values.append(wanted.until_us)
    attributes = _ATTRIBUTES.replace(_ATTRIBUTE, _PAST if wanted.past else _ATTRIBUTE).replace("{among}", among)
    columns = [_COLUMNS, attributes if among else f"coalesce({attributes}, '[]')"]
    if wanted.hides_places:
        columns.append(_OWN_PLACE)
    text = f"SELECT {', '.join(columns)} FROM log AS l WHERE {' AND '.join(where)} ORDER BY l.offset LIMIT ?"  # noqa: S608
    return text, [*values, limit]


def _marks(number: int) -> str:
    return ",".join("?" * number)


def _chosen(connection: sqlite3.Connection, found: list[Any], wanted: Wanted) -> tuple[list[Row], list[str | None]]:
    """Of what SQLite found that which is wanted, and where it is."""
    places = _places(connection, found, hidden=wanted.hides_places) if wanted.needs_places else []
    if not wanted.has_conditions:
        return found, places
    rows: list[Row] = []
    kept: list[str | None] = []
    scopes_ok: dict[str | None, bool] = {}
    for number, row in enumerate(found):
        if row[7] is None:  # it touches none of these attributes
            continue
        if wanted.scope_q:
            scopes = row[6]
            if scopes not in scopes_ok:
                scopes_ok[scopes] = scope_matches(wanted.scope_q, _texts(scopes) if scopes else ())
            if not scopes_ok[scopes]:
                continue
        if wanted.area is not None and not _is_in(wanted.area, places[number]):
            continue
        if wanted.has_quality is not None:
            stated: Attributes = {}
            for one in _attributes(row[7]):
                if one.instance is not None:
                    stated.setdefault(one.name, []).append(one.instance)
            if not wanted.has_quality(stated, at_text(row[1])):
                continue
        rows.append(row[:8])
        if wanted.places:
            kept.append(places[number])
    return rows, kept


def _places(connection: sqlite3.Connection, found: list[Any], *, hidden: bool) -> list[str | None]:
    """Where entities are as the log goes on: by what a record says itself, or else by the last that history knows before it."""
    own: dict[int, str | None] = {}  # by offset: what records say themselves
    first: dict[str, int] = {}  # entities, and their first records
    for row in found:
        if hidden:
            if row[8] is not None:
                own[row[0]] = _geometry(row[8])
        elif row[7] is not None and _LOCATION_NAME in row[7] and (said := _said_place(row[7])):
            own[row[0]] = said[0]
        first.setdefault(row[4], row[0])
    asked = {entity: offset for entity, offset in first.items() if offset not in own}
    known: dict[str, str | None] = {}
    if asked:
        for entity, instance, deleted_us in connection.execute(_LAST_PLACES, (msgspec.json.encode(asked).decode(),)):
            known[entity] = None if deleted_us is not None else _geometry(instance)
    if not own:
        return [known.get(row[4]) for row in found]
    places = []
    for row in found:
        if row[0] in own:
            known[row[4]] = own[row[0]]
        places.append(known.get(row[4]))
    return places


def _said_place(attributes: str) -> list[str | None]:
    """Where an entity is by what is said of it in a record: nothing, or one geometry, which is None if it was deleted."""
    for one in _attributes(attributes):
        if one.name == LOCATION and one.dataset is None:
            value = None if one.instance is None else one.instance.get("value")
            return [None if value is None else msgspec.json.encode(value).decode()]
    return []


def _geometry(instance: str) -> str | None:
    value = bytes(_value(instance).value).decode()
    return None if value == "null" else value


def _is_in(area: Geofence, place: str | None) -> bool:
    """A point within it; of anything else, one of its positions."""
    return place is not None and any(area.contains(lat, lon) for lon, lat in _positions(msgspec.json.decode(place)))


def _positions(value: Any) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    open_ = [value.get("coordinates"), value.get("geometries")] if isinstance(value, dict) else []
    while open_:
        part = open_.pop()
        if isinstance(part, dict):
            open_ += [part.get("coordinates"), part.get("geometries")]
        elif isinstance(part, list) and part:
            if isinstance(part[0], int | float):
                found.append((float(part[0]), float(part[1])))
            else:
                open_ += part
    return found
