"""Which entities' past is what a query asks for.

An entity matches if its evolution within the window does: some instance of an attribute that is asked for lies in it, and the
instances in it, all together, satisfy `q`, the geo-query and what is asked of quality, as the values of an entity with several
instances would. So `q` needs one instance that satisfies it, while of quality the worst in the window counts; and an instance is
as fresh as it was when it was accepted. SQL finds the candidates; where the query is a conjunction of plain comparisons with
scalars, SQL also knows which of them match. Only the others, and those with other filters, are looked at in Python, and of those
only the attributes that the filters name.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from hanse.filters import Atom, Filter, compile_q
from hanse.filters.paths import parse_path
from hanse.filters.patterns import pattern_search
from hanse.ngsild.entity import Attributes, Entity
from hanse.ngsild.errors import TooComplexQuery
from hanse.ngsild.geo import geo_matches
from hanse.ngsild.quality import Measure, default_measure, quality_attributes, quality_matches
from hanse.ngsild.query import ENTITY_MEMBERS, EntityQuery, EntitySelector, q_predicate
from hanse.ngsild.scope_query import scope_matches
from hanse.ngsild.temporal import SCOPE
from hanse.ngsild.temporal_parsing import TemporalQuery, to_text
from hanse.node.store.history import DEFAULT_DATASET, Window, every_attribute, in_window, scopes_in

SPANS_MAX: Final = 1_000

_PATTERN: Final = "hanse_pattern"
_VALUE: Final = "CAST(h.instance AS TEXT), '$.value'"
_decode_names = msgspec.json.Decoder(tuple[str, ...]).decode
_encode = msgspec.json.Encoder().encode


class FoundIds(Struct):
    ids: list[str]
    count: int | None = None  # of all that match, if asked for
    windows: dict[str, Window] = {}  # what of an entity's past matches, where that is not all of what was asked for


class _Condition(Struct):
    """A part of a WHERE, with its values."""

    text: str
    values: list[Any]


def find(
    connection: sqlite3.Connection,
    query: EntityQuery,
    temporal: TemporalQuery,
    only: Sequence[str] | None = None,
    *,
    measure: Measure | None = None,
) -> FoundIds:
    """The page of ids that `limit` and `offset` say, in the order of ids; `only` among these, if they are given."""
    window = Window.of(temporal)
    parts = [_Condition("e.deleted_us IS NULL", []), _exists_any(query, window)]
    if query.selectors:
        connection.create_function(_PATTERN, 2, _pattern_found, deterministic=True)
        parts.append(_joined(" OR ", [_selector(selector) for selector in query.selectors]))
    if only is not None:
        parts.append(_Condition("e.id IN (SELECT value FROM json_each(?))", [_encode(only).decode()]))
    filter_ = compile_q(query.q) if query.q else None
    if filter_ is not None:
        parts += _necessary(filter_, window)
    if query.geo is not None:
        parts.append(_exists(query.geo.geoproperty, window))
    parts += [_exists(name, window) for name in sorted(quality_attributes(query.quality) or ())]
    where = _joined(" AND ", parts)
    windows: dict[str, Window] = {}
    check = _check(connection, query, temporal, window, windows, measure or default_measure())
    direction = "DESC" if query.order_by and query.order_by[0].descending else "ASC"
    if check is None:
        rows = connection.execute(
            f"SELECT e.id FROM temporal_entities AS e WHERE {where.text} ORDER BY e.id {direction} LIMIT ? OFFSET ?",  # noqa: S608
            (*where.values, query.limit, query.offset),
        )
        found = FoundIds([id_ for (id_,) in rows])
        if query.count:
            count = f"SELECT count(*) FROM temporal_entities AS e WHERE {where.text}"  # noqa: S608
            (found.count,) = connection.execute(count, where.values).fetchone()
        return found
    decided = _sufficient(query, filter_, window)
    rows = connection.execute(
        f"""SELECT e.id, e.types, e.created_us, e.modified_us, {decided.text} FROM temporal_entities AS e
        WHERE {where.text} ORDER BY e.id {direction}""",  # noqa: S608
        (*decided.values, *where.values),
    )
    found = _page((row[0] for row in rows if row[4] or check(row)), query)
    found.windows = windows
    return found


class Head(NamedTuple):
    """What is known of an entity as a whole."""

    id: str
    types: tuple[str, ...]
    created_us: int
    modified_us: int  # when its types or scopes were set last


def heads(connection: sqlite3.Connection, selectors: Sequence[EntitySelector], only: Sequence[str] | None = None) -> list[Head]:
    """The entities with a past that selectors name, `only` among these: all that `find` might find, whoever asks."""
    parts = [_Condition("e.deleted_us IS NULL", [])]
    if selectors:
        connection.create_function(_PATTERN, 2, _pattern_found, deterministic=True)
        parts.append(_joined(" OR ", [_selector(selector) for selector in selectors]))
    if only is not None:
        parts.append(_Condition("e.id IN (SELECT value FROM json_each(?))", [_encode(only).decode()]))
    where = _joined(" AND ", parts)
    rows = connection.execute(
        f"SELECT e.id, e.types, e.created_us, e.modified_us FROM main.temporal_entities AS e WHERE {where.text}",  # noqa: S608
        where.values,
    )
    return [Head(id_, _decode_names(types), created_us, modified_us) for id_, types, created_us, modified_us in rows]


def _page(ids: Iterator[str], query: EntityQuery) -> FoundIds:
    end = query.offset + query.limit
    found: list[str] = []
    number = 0
    for id_ in ids:
        if query.offset <= number < end:
            found.append(id_)
        number += 1
        if number >= end and not query.count:
            break
    return FoundIds(found, number if query.count else None)


# --- conditions in SQL ----------------------------------------------------------------------------------------------


def _joined(sign: str, parts: list[_Condition]) -> _Condition:
    return _Condition("(" + sign.join(part.text for part in parts) + ")", [value for part in parts for value in part.values])


def _selector(selector: EntitySelector) -> _Condition:
    parts = [_Condition("1", [])]
    if selector.ids:
        parts.append(_Condition(f"e.id IN ({_marks(len(selector.ids))})", list(selector.ids)))
    if selector.types:
        # names stand in quotes in the JSON array, so that none is found inside another
        alternatives = [
            _joined(" AND ", [_Condition("instr(e.types, ?)", [_encode(name).decode()]) for name in alternative])
            for alternative in selector.types
        ]
        parts.append(_joined(" OR ", alternatives))
    if selector.id_pattern is not None:
        pattern_search(selector.id_pattern)  # refuses a bad one in its own words
        parts.append(_Condition(f"{_PATTERN}(?, e.id)", [selector.id_pattern]))
    return _joined(" AND ", parts)


def _pattern_found(pattern: str, text: str) -> bool:
    return pattern_search(pattern)(text)


def _exists_any(query: EntityQuery, window: Window) -> _Condition:
    """Some instance of an entity lies in the window, of the attributes and datasets that are asked for."""
    condition = _any_instance(query, window)
    return _Condition(f"EXISTS (SELECT 1 FROM history AS h WHERE h.entity = e.id AND {condition.text})", condition.values)  # noqa: S608


def _any_instance(query: EntityQuery, window: Window) -> _Condition:
    values: list[Any]
    if query.attrs:
        text, values = f"h.attribute IN ({_marks(len(query.attrs))})", [*query.attrs]
    else:
        text, values = "h.attribute <> ?", [SCOPE]
    if query.dataset_ids:
        named = [dataset for dataset in query.dataset_ids if dataset != DEFAULT_DATASET]
        default = " OR h.dataset IS NULL" if DEFAULT_DATASET in query.dataset_ids else ""
        text += f" AND (h.dataset IN ({_marks(len(named))}){default})"
        values += named
    return _Condition(f"{text} AND {window.condition}", [*values, *window.values])


def _exists(attribute: str, window: Window, value: _Condition | None = None) -> _Condition:
    """Some instance of an attribute lies in the window, and has such a value."""
    text = f"EXISTS (SELECT 1 FROM history AS h WHERE h.entity = e.id AND h.attribute = ? AND {window.condition}"  # noqa: S608
    values: list[Any] = [attribute, *window.values]
    if value is not None:
        return _Condition(f"{text} AND ({value.text}))", values + value.values)
    return _Condition(text + ")", values)


def _plain_attribute(atom: Atom) -> str | None:
    """The attribute whose own value an atom is about."""
    path = parse_path(atom.path)
    return path.names[0] if len(path.names) == 1 and not path.inner and path.names[0] not in ENTITY_MEMBERS else None


def _necessary(filter_: Filter, window: Window) -> list[_Condition]:
    """What holds for every match: a number or text that is compared is there, or a value that is no scalar and may hold it."""
    parts = []
    for atom in filter_.atoms:
        attribute = _plain_attribute(atom)
        if attribute is None:
            continue
        value = _scalar(atom)
        if value is not None:
            other = "('integer', 'real')" if atom.kind == "number" else "('text')"
            value.text = f"{value.text} OR coalesce(json_type({_VALUE}), '') NOT IN {other}"
        parts.append(_exists(attribute, window, value))
    return parts


def _sufficient(query: EntityQuery, filter_: Filter | None, window: Window) -> _Condition:
    """What holds only for matches."""
    no = _Condition("0", [])
    if filter_ is None or filter_.residual is not None or query.geo is not None or query.scope_q or query.quality:
        return no
    parts = []
    for atom in filter_.atoms:
        attribute, value = _plain_attribute(atom), _scalar(atom)
        if attribute is None or value is None:
            return no
        parts.append(_exists(attribute, window, value))
    return _joined(" AND ", parts)


def _scalar(atom: Atom) -> _Condition | None:
    """The value of a Property is a scalar as an atom wants it; None: the atom wants no scalar."""
    if atom.kind == "number":
        # doubles, as filters compare
        return _Condition(
            f"json_type({_VALUE}) IN ('integer', 'real') AND CAST(json_extract({_VALUE}) AS REAL) BETWEEN ? AND ?",
            [atom.low, atom.high],
        )
    if atom.kind == "text":
        return _Condition(f"json_type({_VALUE}) = 'text' AND json_extract({_VALUE}) = ?", [atom.low])
    return None


def _marks(count: int) -> str:
    return ", ".join("?" * count)


# --- what SQL cannot say ----------------------------------------------------------------------------------------------


def _check(
    connection: sqlite3.Connection,
    query: EntityQuery,
    temporal: TemporalQuery,
    window: Window,
    windows: dict[str, Window],
    measure: Measure,
) -> Callable[[tuple[Any, ...]], bool] | None:
    """The filters, exactly, asked of a candidate; None: there are none. A scope query narrows the window: see `windows`."""
    if not (query.q or query.geo or query.scope_q or query.quality):
        return None
    names = {path.names[0] for path in compile_q(query.q).paths} if query.q else set()
    if query.geo is not None:
        names.add(query.geo.geoproperty)
    of_quality = quality_attributes(query.quality)
    looked_at = sorted((names | (of_quality or set())) - ENTITY_MEMBERS)
    satisfies = q_predicate(query.q) if query.q else None

    def check(row: tuple[Any, ...]) -> bool:
        id_, types, created_us, modified_us, _ = row
        scopes = scopes_in(connection, id_, temporal) if query.scope_q or "scope" in names else []
        narrowed = window
        if query.scope_q:
            spans = [(some.since_us, some.until_us) for some in scopes if scope_matches(query.scope_q, some.scopes)]
            if len(spans) > SPANS_MAX:
                raise TooComplexQuery(
                    f"the scopes of {id_!r} matched and ceased to match more than {SPANS_MAX} times; ask for less time"
                )
            narrowed = windows[id_] = window.within(spans)
            condition = _any_instance(query, narrowed)
            any_left = f"SELECT 1 FROM history AS h WHERE h.entity = ? AND {condition.text} LIMIT 1"  # noqa: S608
            if not spans or connection.execute(any_left, (id_, *condition.values)).fetchone() is None:
                return False
        found: Attributes = {}
        every = looked_at if of_quality is not None else [name for name in every_attribute(connection, id_) if name != SCOPE]
        for name, instance in in_window(connection, id_, every, narrowed):
            found.setdefault(name, []).append(instance)
        if query.geo is not None and not geo_matches(query.geo, found):
            return False
        if query.quality and not quality_matches(query.quality, measure.of(found, _decode_names(types))):
            return False
        entity = Entity(
            id=id_,
            types=_decode_names(types),
            scopes=tuple(dict.fromkeys(scope for some in scopes for scope in some.scopes)),
            attributes=found,
            created_at=to_text(created_us),
            modified_at=to_text(modified_us),
        )
        return satisfies is None or satisfies(entity)

    return check
