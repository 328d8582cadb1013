"""The log of changes: what happened to which entity, in order, by offset.

A log row says who and when; what the attributes became is in history already, so the row names the rows there. A record whose
history is gone, by age or because someone deleted it, still says that there was a change, but not what it was.

`read_page` is for those who follow the log at rate: SQLite writes the JSON of the attributes itself, and what is wanted is
sorted out as early as can be. A page says up to which offset it has everything that was asked for (`read`), which may be further
than its last record. It reads the tables by their plain names, so that a connection on which these are views of what somebody may
see reads that.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from hanse.model import Geofence
from hanse.ngsild.entity import LOCATION, Attributes, Instance, Kind
from hanse.ngsild.scope_query import scope_matches

SCANNED_MAX: Final = 1_000_000  # offsets that one page looks at

_COLUMNS: Final = "l.offset, l.at_us, l.kind, l.operation, l.entity, l.type_set, l.scopes"
_ATTRIBUTE: Final = """iif(h.deleted_us IS NULL AND h.dataset IS NULL,
    format('{"name":%s,"instance":%s}', json_quote(h.attribute), h.instance),
    '{"name":' || json_quote(h.attribute) || iif(h.deleted_us IS NULL, ',"instance":' || CAST(h.instance AS TEXT), '')
    || iif(h.dataset IS NULL, '', ',"dataset":' || json_quote(h.dataset)) || '}')"""
# most records have one attribute, and what is found by its number is found quickest
_ATTRIBUTES: Final = f"""CASE l.rows
    WHEN 1 THEN (SELECT '[' || {_ATTRIBUTE} || ']' FROM history AS h WHERE h.seq = l.first_seq{{among}})
    ELSE (SELECT '[' || group_concat({_ATTRIBUTE}) || ']'
        FROM history AS h WHERE h.seq >= l.first_seq AND h.seq < l.first_seq + l.rows{{among}}) END"""  # noqa: S608
_LAST_PLACE: Final = """SELECT CAST(instance AS TEXT), deleted_us FROM history
    WHERE entity = ? AND attribute = ? AND seq < (SELECT first_seq FROM log WHERE offset = ?) ORDER BY seq DESC LIMIT 1"""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NO_ATTRIBUTES: Final = "[]"
_LOCATION_NAME: Final = f'"name":"{LOCATION}"'

_texts = msgspec.json.Decoder(tuple[str, ...]).decode

QualityAt = Callable[[Attributes, str], bool]  # attributes, time


class LoggedAttribute(Struct, frozen=True, omit_defaults=True):
    name: str
    instance: Instance | None = None  # as it became; None: deleted
    dataset: str | None = None


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

    @property
    def needs_places(self) -> bool:
        return self.places or self.area is not None


class Row(NamedTuple):
    offset: int
    at_us: int
    kind: str
    operation: str
    entity: str
    type_set: int
    scopes: str | None
    attributes: str  # JSON, as of a list of `LoggedAttribute`
    place: str | None = None  # GeoJSON


class Page(Struct):
    rows: list[Row]
    types: dict[int, tuple[str, ...]]  # by number of the set
    read: int  # up to here nothing is left out
    end: int  # of the whole log, whoever may see it

    def records(self) -> list[LogRecord]:
        return [
            LogRecord(
                row.offset,
                at_text(row.at_us),
                row.kind,  # type: ignore[arg-type]
                row.operation,
                row.entity,
                self.types[row.type_set],
                _texts(row.scopes) if row.scopes else (),
                _attributes(row.attributes),
            )
            for row in self.rows
        ]


def at_text(at_us: int) -> str:
    return (_EPOCH + timedelta(microseconds=at_us)).isoformat(timespec="microseconds")[:-6] + "Z"


def read_records(connection: sqlite3.Connection, after: int, limit: int) -> list[LogRecord]:
    """What happened after an offset, oldest first."""
    return read_page(connection, after, None, limit).records()


_EVERYTHING: Final = Wanted()
_PLACES_ONLY: Final = Wanted(places=True)


def read_page(connection: sqlite3.Connection, after: int, upto: int | None, limit: int, wanted: Wanted = _EVERYTHING) -> Page:
    """At most so many records behind `after`, up to `upto` and including it, oldest first."""
    (end,) = connection.execute("SELECT coalesce(max(offset), 0) FROM main.log").fetchone()
    last = min(end if upto is None else upto, end, after + SCANNED_MAX)
    types = {number: _texts(text) for number, text in connection.execute("SELECT id, types FROM type_sets")}
    statement, values = _statement(after, last, limit, wanted, types)
    found = connection.execute(statement, values).fetchall()
    read = found[-1][0] if len(found) >= limit and found else max(after, last) if limit else after
    return Page(_chosen(connection, found, wanted), types, read, end)


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
    attributes = _ATTRIBUTES.replace("{among}", among)
    text = f"SELECT {_COLUMNS}, {attributes} FROM log AS l WHERE {' AND '.join(where)} ORDER BY l.offset LIMIT ?"  # noqa: S608
    return text, [*values, limit]


def _marks(number: int) -> str:
    return ",".join("?" * number)


def _chosen(connection: sqlite3.Connection, found: list[Any], wanted: Wanted) -> list[Row]:
    if wanted == _EVERYTHING:  # nothing to choose: as they are
        return [Row._make((*row, None) if row[7] else (*row[:7], _NO_ATTRIBUTES, None)) for row in found]
    if wanted == _PLACES_ONLY:  # as those who fill a lake ask
        of = _Places(connection).of
        return [Row._make((*row[:7], row[7] or _NO_ATTRIBUTES, of(row[0], row[4], row[7]))) for row in found]
    rows = []
    places = _Places(connection) if wanted.needs_places else None
    scopes_ok: dict[str | None, bool] = {}
    for row in found:
        attributes = row[7]
        if attributes is None:
            if wanted.attributes:
                continue
            attributes = _NO_ATTRIBUTES
        if wanted.scope_q:
            scopes = row[6]
            if scopes not in scopes_ok:
                scopes_ok[scopes] = scope_matches(wanted.scope_q, _texts(scopes) if scopes else ())
            if not scopes_ok[scopes]:
                continue
        place = None if places is None else places.of(row[0], row[4], row[7])
        if wanted.area is not None and not _is_in(wanted.area, place):
            continue
        if wanted.has_quality is not None:
            stated: Attributes = {}
            for one in _attributes(attributes):
                if one.instance is not None:
                    stated.setdefault(one.name, []).append(one.instance)
            if not wanted.has_quality(stated, at_text(row[1])):
                continue
        rows.append(Row._make((*row[:7], attributes, place if wanted.places else None)))
    return rows


class _Places:
    """Where entities are as the log goes on: by what a record says itself, or else by the last that history knows before it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[str, str | None] = {}

    def of(self, offset: int, entity: str, attributes: str | None) -> str | None:
        if attributes is not None and _LOCATION_NAME in attributes:
            for one in _attributes(attributes):
                if one.name == LOCATION and one.dataset is None:
                    value = None if one.instance is None else one.instance.get("value")
                    self._known[entity] = None if value is None else msgspec.json.encode(value).decode()
        elif entity not in self._known:
            row = self._connection.execute(_LAST_PLACE, (entity, LOCATION, offset)).fetchone()
            self._known[entity] = None if row is None or row[1] is not None else bytes(_value(row[0]).value).decode()
        return self._known.get(entity)


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
