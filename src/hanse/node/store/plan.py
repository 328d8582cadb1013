"""How a query is answered: which index leads, and what is asked of every entity that it names.

Every condition says which entities satisfy it. If one of them names few, they are all looked at, in order. If none does, entities
that match are common, and reading in order soon fills a page: along the column of an attribute that a condition restricts, along
the entities of a type, or along all. Whatever leads, each entity is asked for the other conditions, and what SQL cannot decide is
asked of its document last.
"""

from __future__ import annotations

import sqlite3
from typing import Final

import msgspec
from msgspec import Struct

from hanse.filters import compile_q
from hanse.filters.terms import Joined, Node, Pattern, Within
from hanse.ngsild.quality import Measure, quality_attributes
from hanse.ngsild.query import EntityQuery, EntitySelector
from hanse.ngsild.temporal_parsing import to_text
from hanse.node.store.checks import Check, document_check, quality_check
from hanse.node.store.patterns import literal_prefix
from hanse.node.store.sql import (
    Condition,
    Facts,
    Sql,
    geo_condition,
    has_attribute,
    joined,
    numbers,
    pattern_condition,
    q_condition,
    scope_condition,
    type_sets,
)

# ruff: noqa: S608  only numbers and our own words are put into statements; what others wrote is bound

FEW: Final = 2_000  # entities that are looked at one by one
VERY_FEW: Final = 50  # then no better index is sought
TYPE_LEADS_MAX: Final = 10_000  # entities of a type that are quicker to ask than a whole column
MERGED_MAX: Final = 16  # sets of types that are read side by side
_LAST: Final = "\U0010ffff"


class Plan(Struct, frozen=True):
    """`source` gives the numbers `n` of the entities that match, in order of creation, each once."""

    source: Sql
    check: Check | None
    patterns: tuple[str, ...]


NOTHING_MATCHES: Final = Plan(Sql("SELECT 0 AS n WHERE 0"), None, ())


def plan(connection: sqlite3.Connection, query: EntityQuery, now: int, measure: Measure) -> Plan:
    selection = _Selection(connection, query.selectors)
    if selection.sets is not None and not selection.sets:
        return NOTHING_MATCHES
    facts = Facts(connection)
    conditions: list[Condition] = []
    if query.attrs:
        conditions.append(has_attribute(facts, query.attrs))
    rest_q, rest_scope = False, ""
    if query.q:
        for node in compile_q(query.q).conjuncts:
            condition = q_condition(facts, node)
            if condition is None or _orders_texts(node):
                rest_q = True
                if isinstance(node, Pattern):
                    condition = pattern_condition(facts, node, len(selection.patterns))
                    selection.patterns.append(node.pattern)
            if condition is not None:
                conditions.append(condition)
    if query.scope_q:
        condition = scope_condition(connection, query.scope_q)
        if condition is None:
            rest_scope = query.scope_q
        else:
            conditions.append(condition)
    if query.geo is not None:
        conditions.append(geo_condition(facts, query.geo))
    quality = None
    if query.quality:  # SQL knows who has the attributes; how good they are only documents say
        conditions += [has_attribute(facts, (name,)) for name in sorted(quality_attributes(query.quality) or ())]
        quality = quality_check(query.quality, measure, to_text(now))
    check = document_check(query.q if rest_q else "", rest_scope, quality)
    return _Planner(facts, selection, conditions, check, now).plan()


def _orders_texts(node: Node) -> bool:
    """Then the index names too many: it does not know which texts are of relationships, which have no order."""
    if isinstance(node, Joined):
        return any(map(_orders_texts, node.parts))
    return isinstance(node, Within) and node.orders_texts


class _Selection:
    """The selectors, as far as they are about types (`sets`) and as conditions on a row of `entities` called e."""

    def __init__(self, connection: sqlite3.Connection, selectors: tuple[EntitySelector, ...]) -> None:
        self.sets: set[int] | None = set()  # those of entities that may match; None: of any
        self.patterns: list[str] = []
        self.is_about_ids = False
        self.candidates: Sql | None = None
        sets_of = [type_sets(connection, selector.types) if selector.types else None for selector in selectors]
        kept = [(selector, sets) for selector, sets in zip(selectors, sets_of, strict=True) if sets is None or sets]
        if not selectors or any(sets is None for _, sets in kept):
            self.sets = None
        else:
            self.sets = set().union(*(sets for _, sets in kept if sets is not None))
        self.condition = Sql("1")
        if any(selector.ids or selector.id_pattern is not None for selector, _ in kept):
            self.is_about_ids = True
            self.condition = joined([self._condition(selector, sets) for selector, sets in kept], " OR ")
            self.candidates = _named(selector for selector, _ in kept)

    def _condition(self, selector: EntitySelector, sets: set[int] | None) -> Sql:
        parts = [Sql(f"e.type_set IN ({numbers(sets)})")] if sets is not None else []
        if selector.ids:
            parts.append(Sql(f"e.id IN ({','.join('?' * len(selector.ids))})", selector.ids))
        if selector.id_pattern is not None:
            parts.append(Sql(f"text_matches({len(self.patterns)}, e.id)"))
            self.patterns.append(selector.id_pattern)
        return joined(parts, " AND ") if parts else Sql("1")


def _named(selectors: object) -> Sql | None:
    """All entities that have one of the ids, or begin as the patterns do; None: some selector says nothing about ids."""
    parts: list[Sql] = []
    for selector in selectors:  # type: ignore[attr-defined]
        if selector.ids:
            parts.append(Sql(f"SELECT n FROM entities WHERE id IN ({','.join('?' * len(selector.ids))})", selector.ids))
        elif selector.id_pattern is not None and (prefix := literal_prefix(selector.id_pattern)):
            parts.append(Sql("SELECT n FROM entities WHERE id >= ? AND id < ?", (prefix, prefix + _LAST)))
        else:
            return None
    return Sql(" UNION ALL ".join(part.text for part in parts), tuple(value for part in parts for value in part.values))


class _Planner:
    def __init__(self, facts: Facts, selection: _Selection, conditions: list[Condition], check: Check | None, now: int) -> None:
        self.facts = facts
        self.connection = connection = facts.connection
        self.selection = selection
        self.conditions = conditions
        self.check = check
        some_expired = connection.execute("SELECT 1 FROM entities WHERE expires_us <= ? LIMIT 1", (now,)).fetchone()
        self.alive = Sql("{n} NOT IN (SELECT n FROM entities WHERE expires_us <= ?)", (now,)) if some_expired else None

    def plan(self) -> Plan:
        if not self.conditions and self.check is None and not self.selection.is_about_ids:
            return self._made(self._along_entities())
        leader, few = self._few()
        if few is not None:
            return self._made(self._along_few(leader, few))
        sets = self.selection.sets
        column = next((condition for condition in self.conditions if condition.column is not None), None)
        if column is not None and (sets is None or self._count(_of_types(sets), TYPE_LEADS_MAX) > TYPE_LEADS_MAX):
            return self._made(self._along_column(column))
        return self._made(self._along_entities())

    def _made(self, source: Sql) -> Plan:
        return Plan(source, self.check, tuple(self.selection.patterns))

    def _few(self) -> tuple[Condition | None, list[int] | None]:
        """The condition that names the fewest entities, and these; None: all name many."""
        best: tuple[Condition | None, list[int] | None] = None, None
        fewest = FEW + 1
        options: list[tuple[Condition | None, Sql]] = []
        if self.selection.candidates is not None:
            options.append((None, self.selection.candidates))
        options += [(condition, condition.candidates) for condition in self.conditions if condition.candidates is not None]
        if self.selection.sets is not None:
            options.append((None, _of_types(self.selection.sets)))
        for condition, candidates in options:
            rows = self.connection.execute(f"SELECT * FROM ({candidates.text}) LIMIT {fewest}", candidates.values).fetchall()
            if len(rows) < fewest:
                fewest = len(rows)
                best = condition, sorted({n for (n,) in rows})
                if fewest <= VERY_FEW:
                    break
        return best

    def _count(self, candidates: Sql, most: int) -> int:
        statement = f"SELECT count(*) FROM (SELECT 1 FROM ({candidates.text}) LIMIT {most + 1})"
        (count,) = self.connection.execute(statement, candidates.values).fetchone()
        return int(count)

    def _along_few(self, leader: Condition | None, few: list[int]) -> Sql:
        where = self._where("e.n", leader)
        return Sql(
            f"SELECT e.n AS n FROM json_each(?) AS c CROSS JOIN entities AS e ON e.n = c.value WHERE {where.text}",
            (msgspec.json.encode(few).decode(), *where.values),
        )

    def _along_column(self, leader: Condition) -> Sql:
        assert leader.column is not None
        selection = self.selection
        needs_entity = self.check is not None or selection.is_about_ids
        where = self._where("f.entity", leader, has_entity=needs_entity)
        types = f" AND f.type_set IN ({numbers(selection.sets)})" if selection.sets is not None else ""
        join = " CROSS JOIN entities AS e ON e.n = f.entity" if needs_entity else ""
        conditions = f"{leader.column.text}{types} AND {where.text}"
        tables = self.facts.tables
        read = [f"SELECT DISTINCT f.entity AS n FROM {table} AS f{join} WHERE {conditions}" for table in tables]
        return Sql(" UNION ALL ".join(read) + " ORDER BY 1", (leader.column.values + where.values) * len(tables))

    def _along_entities(self) -> Sql:
        where = self._where("e.n", None, has_types=False)
        sets = self.selection.sets
        if sets is None:
            return Sql(f"SELECT e.n AS n FROM entities AS e WHERE {where.text} ORDER BY e.n", where.values)
        if len(sets) > MERGED_MAX:
            types = f"+e.type_set IN ({numbers(sets)})"
            return Sql(f"SELECT e.n AS n FROM entities AS e WHERE {types} AND {where.text} ORDER BY e.n", where.values)
        one = "SELECT e.n AS n FROM entities AS e INDEXED BY entities_by_types WHERE e.type_set = {} AND {}"
        return Sql(
            " UNION ALL ".join(one.format(type_set, where.text) for type_set in sorted(sets)) + " ORDER BY 1",
            where.values * len(sets),
        )

    def _where(self, n: str, leader: Condition | None, *, has_entity: bool = True, has_types: bool = True) -> Sql:
        """What is still to be asked; what costs most comes last."""
        parts: list[Sql] = []
        selection = self.selection
        if selection.is_about_ids:
            parts.append(selection.condition)
        elif has_entity and has_types and selection.sets is not None:
            parts.append(Sql(f"e.type_set IN ({numbers(selection.sets)})"))
        if self.alive is not None:
            parts.append(self.alive)
        parts += [condition.probe for condition in self.conditions if condition is not leader or not condition.is_exact]
        if self.check is not None:
            parts.append(Sql("document_matches(e.document)"))
        if not parts:
            return Sql("1")
        whole = Sql(" AND ".join(part.text for part in parts), tuple(value for part in parts for value in part.values))
        return Sql(whole.text.replace("{n}", n), whole.values)


def _of_types(sets: set[int]) -> Sql:
    return Sql(f"SELECT n FROM entities INDEXED BY entities_by_types WHERE type_set IN ({numbers(sets)})")
