"""Conditions of a query as SQL on the index tables.

A condition can be asked in two ways: of one entity (`probe`, an expression in which {n} stands for its number), and as a list of
all entities that satisfy it (`candidates`, a SELECT of their numbers, some perhaps twice). One that is a single range of values
of one attribute can also be read in order of entities (`column`).

Facts are asked for where they are by now (`Facts`): nearly all in the indexes, some in the lists of what waits (filing.py).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from msgspec import Struct

from hanse.filters.closures import number_bounds
from hanse.filters.terms import Exists, Interval, Joined, Node, Pattern
from hanse.ngsild.geo import GeoQuery, geo_bounds
from hanse.ngsild.query import ENTITY_MEMBERS, TypeQuery
from hanse.ngsild.scope_query import parse_scope_query, pattern_matches
from hanse.node.store.cells import cover
from hanse.node.store.indexing import BOOLEAN, INSTANT, KINDS, NOTHING, NUMBER, PLACE, TEXT, TEXT_MAX, TIME, moment_key

# ruff: noqa: S608  only numbers and our own words are put into statements; what others wrote is bound

SCOPES_MAX: Final = 200  # that a scope query may stand for in SQL
NEAR_MAX: Final = 4_000  # places in the boxes of a geo-query that are looked at one by one
_SCOPES_KNOWN_MAX: Final = 2_000
_AFTER_CELL: Final = b"\xff" * 16  # no point of a cell is behind this
_VALUE_KINDS: Final = range(NOTHING + 1, KINDS)

Values: TypeAlias = tuple[Any, ...]


class Sql(Struct, frozen=True):
    text: str
    values: Values = ()


class Condition(Struct, frozen=True):
    probe: Sql
    candidates: Sql | None = None  # None: no index lists them
    column: Sql | None = None  # on a row of `facts` called f
    is_exact: bool = True  # False: candidates may be more than those that satisfy it


NEVER: Final = Condition(Sql("0"), Sql("SELECT 0 WHERE 0"))


class Facts:
    """The tables to look at: if there is nothing in the lists of what is not filed yet, nobody asks there."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        some_new, some_changed = connection.execute(
            "SELECT EXISTS (SELECT 1 FROM facts_new), EXISTS (SELECT 1 FROM facts_changed)"
        ).fetchone()
        self.tables = ("facts", "facts_new") if some_new else ("facts",)
        self.some_changed = bool(some_changed)

    def number(self, name: str) -> int | None:
        row = self.connection.execute("SELECT id FROM names WHERE name = ?", (name,)).fetchone()
        return row[0] if row else None

    def probe(self, condition: Sql) -> Sql:
        """Whether an entity has a fact like that."""
        asked = [Sql(f"EXISTS (SELECT 1 FROM {table} WHERE entity = {{n}} AND {condition.text})") for table in self.tables]
        return Sql(joined(asked, " OR ").text, condition.values * len(asked))

    def having(self, keys: str) -> Sql:
        """Those that have a fact with one of the keys."""
        return _union([Sql(f"SELECT entity FROM {table} WHERE key IN ({keys})") for table in self.tables])

    def by_value(self, key: int, condition: Sql, found: Sql | None = None) -> Sql:
        """Those whose fact of that key is like that. `found`: how the index finds them, if there is a better way."""
        if found is None:
            found = Sql(f"SELECT f.entity FROM facts_by_value AS f WHERE f.key = {key} AND {condition.text}", condition.values)
        parts = [found]
        if self.some_changed:
            changed = f"(SELECT entity FROM facts_changed WHERE key = {key})"
            parts = [Sql(f"{found.text} AND f.entity NOT IN {changed}", found.values)]
            here = f"SELECT f.entity FROM facts AS f WHERE f.key = {key} AND f.entity IN {changed} AND {condition.text}"
            parts.append(Sql(here, condition.values))
        if len(self.tables) > 1:
            new = f"SELECT f.entity FROM facts_new AS f WHERE f.key = {key} AND {condition.text}"
            parts.append(Sql(new, condition.values))
        return _union(parts)


def _union(parts: list[Sql]) -> Sql:
    return Sql(" UNION ALL ".join(part.text for part in parts), tuple(value for part in parts for value in part.values))


def joined(parts: Iterable[Sql], sign: str) -> Sql:
    listed = list(parts)
    if len(listed) == 1:
        return listed[0]
    return Sql("(" + sign.join(part.text for part in listed) + ")", tuple(value for part in listed for value in part.values))


def numbers(values: Iterable[int]) -> str:
    return ",".join(map(str, values))


# --- q ---------------------------------------------------------------------------------------------------------------------


def q_condition(facts: Facts, node: Node) -> Condition | None:
    """None: SQL cannot say it exactly."""
    if isinstance(node, Joined):
        parts = [q_condition(facts, part) for part in node.parts]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        if node.sign == "|":
            return either(known)
        return _all(known)
    path = node.path
    if isinstance(node, Pattern) or path.inner or len(path.names) != 1 or path.names[0] in ENTITY_MEMBERS:
        return None
    number = facts.number(path.names[0])
    if number is None:
        return Condition(Sql("1")) if isinstance(node, Exists) and node.negated else NEVER
    base = number * KINDS
    if isinstance(node, Exists):
        some = _has_any(facts, (base + kind for kind in _VALUE_KINDS))
        return Condition(Sql(f"(NOT {some.probe.text})", some.probe.values)) if node.negated else some
    ranges = []
    for interval in node.intervals:
        found = _range(base, interval)
        if found is None:
            return None
        ranges.append(found)
    inside = either([_in_range(facts, key, condition) for key, condition in ranges])
    if not node.negated:
        return inside
    some = _has_any(facts, (base + kind for kind in _VALUE_KINDS))
    return Condition(Sql(f"(NOT {inside.probe.text} AND {some.probe.text})", inside.probe.values + some.probe.values))


def pattern_condition(facts: Facts, node: Pattern, number: int) -> Condition | None:
    """Those whose texts may match pattern `number` of the query: of long ones the index knows the beginning only."""
    path = node.path
    if node.negated or path.inner or len(path.names) != 1 or path.names[0] in ENTITY_MEMBERS:
        return None
    name = facts.number(path.names[0])
    if name is None:
        return NEVER
    key = name * KINDS + TEXT
    may_match = f"(length({{value}}) > {TEXT_MAX} OR text_matches({number}, {{value}}))"
    inside, column = may_match.replace("{value}", "value"), may_match.replace("{value}", "f.value")
    return Condition(
        facts.probe(Sql(f"key = {key} AND {inside}")),
        column=Sql(f"f.key = {key} AND {column}"),
    )


def either(parts: list[Condition]) -> Condition:
    if len(parts) == 1:
        return parts[0]
    lists = [part.candidates for part in parts if part.candidates is not None]
    listed = _union([Sql(f"SELECT * FROM ({one.text})", one.values) for one in lists])
    is_exact = all(part.is_exact for part in parts)
    probe = joined((part.probe for part in parts), " OR ")
    return Condition(probe, listed if len(lists) == len(parts) else None, is_exact=is_exact)


def _all(parts: list[Condition]) -> Condition:
    if len(parts) == 1:
        return parts[0]
    listed = next((part.candidates for part in parts if part.candidates is not None), None)
    return Condition(joined((part.probe for part in parts), " AND "), listed, is_exact=False)


def has_attribute(facts: Facts, names: Iterable[str]) -> Condition:
    """It has one of these attributes, with a value or without."""
    known = [number for number in map(facts.number, names) if number is not None]
    return _has_any(facts, (number * KINDS + kind for number in known for kind in range(KINDS))) if known else NEVER


def _has_any(facts: Facts, keys: Iterable[int]) -> Condition:
    listed = numbers(keys)
    return Condition(facts.probe(Sql(f"key IN ({listed})")), facts.having(listed))


def _in_range(facts: Facts, key: int, condition: Sql) -> Condition:
    inside = condition.text.replace("?value", "value")
    column = condition.text.replace("?value", "+f.value")
    return Condition(
        facts.probe(Sql(f"key = {key} AND {inside}", condition.values)),
        facts.by_value(key, Sql(condition.text.replace("?value", "f.value"), condition.values)),
        Sql(f"f.key = {key} AND {column}", condition.values),
    )


def _range(base: int, interval: Interval) -> tuple[int, Sql] | None:
    """The key, and the condition on its value, written ?value."""
    low: Any = interval.low.key if interval.low is not None else None
    high: Any = interval.high.key if interval.high is not None else None
    kind = interval.kind
    if kind == "number":
        return base + NUMBER, Sql("?value BETWEEN ? AND ?", number_bounds(interval))
    if kind == "boolean":
        return base + BOOLEAN, Sql("?value = ?", (int(low),))
    if kind == "text":
        if any(bound is not None and (len(bound) > TEXT_MAX or not _is_text(bound)) for bound in (low, high)):
            return None
        key = base + TEXT
    else:
        key = base + (INSTANT if kind == "instant" else TIME)
        low, high = (None if bound is None else moment_key(bound) for bound in (low, high))
    if low is not None and low == high:
        return key, Sql("?value = ?", (low,))
    sign = "" if interval.is_open else "="
    bounds = [Sql(f"?value >{sign} ?", (low,))] if low is not None else []
    if high is not None:
        bounds.append(Sql(f"?value <{sign} ?", (high,)))
    return key, joined(bounds, " AND ")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which no database holds
        return False
    return True


# --- types, scopes, places -------------------------------------------------------------------------------------------------


def type_sets(connection: sqlite3.Connection, types: TypeQuery) -> set[int]:
    """The numbers of the sets of types that the selection takes."""
    return set().union(*(_sets_with_all(connection, alternative) for alternative in types))


def _sets_with_all(connection: sqlite3.Connection, types: tuple[str, ...]) -> set[int]:
    common: set[int] | None = None
    for name in types:
        rows = connection.execute(
            "SELECT type_set FROM type_set_members WHERE type = (SELECT id FROM names WHERE name = ?)", (name,)
        ).fetchall()
        found = {type_set for (type_set,) in rows}
        common = found if common is None else common & found
        if not common:
            break
    return common or set()


def scope_condition(connection: sqlite3.Connection, scope_q: str) -> Condition | None:
    """By the scopes that there are; None: too many of them are meant."""
    known = _known_scopes(connection)
    if known is None:
        return None
    alternatives = []
    for patterns in parse_scope_query(scope_q):
        parts = []
        for pattern in patterns:
            meant = tuple(scope for scope in known if pattern_matches(pattern, scope))
            if len(meant) > SCOPES_MAX:
                return None
            marks = ",".join("?" * len(meant))
            parts.append(
                Condition(
                    Sql(f"EXISTS (SELECT 1 FROM scopes WHERE scope IN ({marks}) AND entity = {{n}})", meant),
                    Sql(f"SELECT entity FROM scopes WHERE scope IN ({marks})", meant),
                )
            )
        alternatives.append(_all(parts))
    return either(alternatives)


def _known_scopes(connection: sqlite3.Connection) -> list[str] | None:
    """Each once, by as many steps in the index; None: too many."""
    rows = connection.execute(
        """WITH RECURSIVE known(scope) AS (SELECT min(scope) FROM scopes UNION ALL
        SELECT (SELECT min(s.scope) FROM scopes AS s WHERE s.scope > known.scope) FROM known WHERE known.scope IS NOT NULL)
        SELECT scope FROM known WHERE scope IS NOT NULL LIMIT ?""",
        (_SCOPES_KNOWN_MAX + 1,),
    ).fetchall()
    return None if len(rows) > _SCOPES_KNOWN_MAX else [scope for (scope,) in rows]


def geo_condition(facts: Facts, geo: GeoQuery) -> Condition:
    """Points say themselves where they are; of other geometries the document is asked."""
    bounds = geo_bounds(geo)
    number = facts.number(geo.geoproperty)
    if number is None:
        return NEVER
    key = number * KINDS + PLACE
    of_document = "(SELECT geo_matches(document) FROM entities WHERE n = {n})"
    matches = f"CASE place_matches({{value}}) WHEN 1 THEN 1 WHEN 0 THEN 0 ELSE {of_document} END"
    probe = facts.probe(Sql(f"key = {key} AND {matches.replace('{value}', 'value')}"))
    of_fact = Sql(matches.format(value="f.value", n="f.entity"))
    column = Sql(f"f.key = {key} AND {of_fact.text}")
    if bounds is None:
        return Condition(probe, column=column)
    ranges = [cells for box in bounds for cells in cover(box)]
    within = f"""SELECT f.entity FROM (VALUES {", ".join(["(?, ?)"] * len(ranges))}) AS r
        CROSS JOIN facts_by_value AS f WHERE f.key = {key} AND f.value >= r.column1 AND f.value <= r.column2"""
    points = Sql(within, tuple(value for first, last in ranges for value in (first, last + _AFTER_CELL)))
    overlaps = f"SELECT entity FROM places AS f WHERE west <= ? AND east >= ? AND south <= ? AND north >= ? AND name = {number}"
    shapes = [Sql(overlaps, (east, west, north, south)) for west, south, east, north in bounds]
    near = _union([facts.by_value(key, of_fact, points), *shapes])
    counted = f"SELECT count(*) FROM ({near.text} LIMIT {NEAR_MAX + 1})"
    (count,) = facts.connection.execute(counted, near.values).fetchone()
    if count > NEAR_MAX:
        return Condition(probe, near, column, is_exact=False)
    points = Sql(f"{points.text} AND {of_fact.text}", points.values)
    is_there = of_document.format(n="f.entity")
    shapes = [Sql(f"{shape.text} AND {is_there}", shape.values) for shape in shapes]
    return Condition(probe, _union([facts.by_value(key, of_fact, points), *shapes]), column)
