"""Reading as one principal sees it, in a reader's thread, by a connection of its own.

Entities. Where one plain decision holds for all types that a query may find, SQL answers as ever. Otherwise SQL names
candidates, and the query is asked of what the principal sees of each (`ngsild.query.matches`), so that neither filters nor order
nor counts tell anything of what is hidden.

The past and the log. On this connection the names `history`, `temporal_entities` and `log` are views of what they are that leave
out and change what the principal may not see; whatever reads the past, aggregates included, reads them without knowing.
What is now decides about what was: types, scopes and place of an entity are those that it has; only a place of the past is
decided about by where that was. Where a forbid looks at what is no longer known, nothing is shown.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import msgspec

from hanse.filters import compile_q
from hanse.ngsild.entity import LOCATION, Entity, decode_entity, now_text
from hanse.ngsild.errors import TooComplexQuery
from hanse.ngsild.ordering import order_entities
from hanse.ngsild.quality import Measure
from hanse.ngsild.query import ENTITY_MEMBERS, EntityQuery, matches
from hanse.ngsild.selection import types_match
from hanse.ngsild.temporal import SCOPE
from hanse.node.access.views import Sight
from hanse.node.store.beside import WHOLE, prepare
from hanse.node.store.discovery import AttributeInfo, TypeInfo, discover_attributes, discover_types
from hanse.node.store.history import every_attribute
from hanse.node.store.search import Found, Searcher
from hanse.policies import Decision, Resource
from hanse.policies.obfuscation import obfuscated, removes

CANDIDATES_MAX: Final = 100_000  # entities that one query looks at one by one
ENDED: Final = "ended "  # whose a past is of which nobody knows any more; no id is like that

# the entity of a row of the past, also if its past was forgotten and begins again
_WHOSE: Final = f"coalesce(entity, (SELECT id FROM main.entities WHERE n = life), '{ENDED}')"  # noqa: S608
_VIEWS: Final = (
    """CREATE TEMP VIEW temporal_entities AS SELECT * FROM main.temporal_entities WHERE hanse_whole(id)""",
    f"""CREATE TEMP VIEW history AS SELECT seq, entity, attribute, dataset, instance_id, observed_us, created_us, modified_us,
    deleted_us, hanse_seen({_WHOSE}, attribute, instance) AS instance, life FROM {{past}}
    WHERE hanse_may({_WHOSE}, attribute, instance)""",  # noqa: S608
    """CREATE TEMP VIEW past_names AS SELECT * FROM main.past_names WHERE hanse_named(entity, attribute)""",
    """CREATE TEMP VIEW log AS SELECT * FROM main.log WHERE hanse_logged(entity, type_set, scopes, kind, first_seq, rows)""",
)
_instance = msgspec.json.Decoder(dict[str, Any]).decode
_names = msgspec.json.Decoder(tuple[str, ...]).decode
_encode = msgspec.json.Encoder().encode

T = TypeVar("T")


class SeeingSearcher(Searcher):
    """One reading connection, used by one thread, for one principal at a time."""

    past = "main.history"  # the past as it is

    def __init__(self, connection: sqlite3.Connection, query_ms_max: int) -> None:
        super().__init__(connection, query_ms_max)
        self._sight: Sight | None = None
        self._wholes: dict[str, Resource | None] = {}
        self._qualities: dict[str, Callable[[str], dict[str, float]]] = {}  # of each attribute of an entity
        self._decisions: dict[tuple[str, str], Decision] = {}
        for name, function, arguments in (
            ("hanse_whole", self._is_seen, 1),
            ("hanse_may", self._may, 3),
            ("hanse_seen", self._seen, 3),
            ("hanse_named", self._is_named, 2),
            ("hanse_logged", self._is_logged, 6),
        ):
            connection.create_function(name, arguments, self._told(function))
        connection.execute("PRAGMA query_only=OFF")
        for view in _VIEWS:
            connection.execute(view.format(past=self.past))
        connection.execute("PRAGMA query_only=ON")

    def look(self, sight: Sight, work: Callable[[], T]) -> T:
        """Do something, in one transaction, as a principal sees it."""
        self._sight = sight
        self._wholes, self._qualities, self._decisions = {}, {}, {}
        try:
            return self.run(work)
        finally:
            self._sight = None

    def _told(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """SQLite keeps what is raised in a function to itself."""

        def called(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except Exception as error:
                self._error = error
                raise

        return called

    @property
    def sight(self) -> Sight:
        assert self._sight is not None  # nobody looks: nothing is shown
        return self._sight

    # --- entities ---------------------------------------------------------------------------------------------------

    def found(self, query: EntityQuery, measure: Measure) -> Found:
        if self._is_plain(query):
            return self._query(query, measure)
        every = list(self._matching(query, measure))
        if query.order_by:
            every = order_entities(every, query.order_by)
        page = every[query.offset : query.offset + query.limit]
        return Found(page, len(every) if query.count else None)

    def found_ids(self, query: EntityQuery, measure: Measure) -> list[str]:
        return self._ids(query, measure) if self._is_plain(query) else [entity.id for entity in self._matching(query, measure)]

    def types(self) -> list[TypeInfo]:
        if self._is_plain(EntityQuery()):
            return discover_types(self.connection)
        found: dict[str, TypeInfo] = {}
        for entity in self._entities(EntityQuery()):
            for type_ in entity.types:
                info = found.setdefault(type_, TypeInfo(type_, 0, {}))
                info.entities += 1
                for name, instances in entity.attributes.items():
                    info.attributes.setdefault(name, set()).update(instance["type"] for instance in instances)
        return sorted(found.values(), key=lambda info: info.name)

    def attributes(self) -> list[AttributeInfo]:
        if self._is_plain(EntityQuery()):
            return discover_attributes(self.connection)
        found: dict[str, AttributeInfo] = {}
        for entity in self._entities(EntityQuery()):
            for name, instances in entity.attributes.items():
                info = found.setdefault(name, AttributeInfo(name, 0, set(), set()))
                info.entities += 1
                info.kinds.update(instance["type"] for instance in instances)
                info.types.update(entity.types)
        return sorted(found.values(), key=lambda info: info.name)

    def _type_sets(self, query: EntityQuery) -> list[tuple[str, ...]]:
        """The types of what may be found."""
        every = [_names(text) for (text,) in self.connection.execute("SELECT types FROM type_sets")]
        if not query.selectors:
            return every
        return [types for types in every if any(types_match(selector.types, types) for selector in query.selectors)]

    def _is_plain(self, query: EntityQuery) -> bool:
        """Whether everything that may be found is seen as it is."""
        decisions = (self.sight.uniform(types) for types in self._type_sets(query))
        return all(decision is not None and decision.is_plain for decision in decisions)

    def _candidates(self, query: EntityQuery) -> EntityQuery:
        """What finds everything that the query may find among what is seen, and perhaps more.

        Where values are seen as they are, if at all, a comparison that holds for what is seen holds for what is
        stored. What asks that something is missing, or when something was changed, may hold for what is seen alone.
        """
        found = EntityQuery(selectors=query.selectors, scope_q=query.scope_q)
        if any(map(self.sight.may_change, self._type_sets(query))):
            return found
        filter_ = compile_q(query.q)
        is_kept = filter_.residual is None and not any(path.names[0] in ENTITY_MEMBERS for path in filter_.paths)
        return msgspec.structs.replace(found, q=query.q if is_kept else "", geo=query.geo, attrs=query.attrs)

    def _matching(self, query: EntityQuery, measure: Measure) -> Iterator[Entity]:
        quality_of = measure.of_entity(now_text())
        return (entity for entity in self._entities(query) if matches(query, entity, quality_of))

    def _entities(self, query: EntityQuery) -> Iterator[Entity]:
        """All that a query might find, as they are seen, in order of creation."""
        source = self._prepared(self._candidates(query), Measure())
        rows = self._execute(
            f"SELECT e.document FROM ({source.text}) AS s CROSS JOIN entities AS e ON e.n = s.n ORDER BY s.n",  # noqa: S608
            source.values,
        )
        for number, (document,) in enumerate(rows):
            if number >= CANDIDATES_MAX:
                raise TooComplexQuery(
                    f"more than {CANDIDATES_MAX} entities would have to be looked at one by one; name their types or ids"
                )
            if time.monotonic() > self._until:
                raise self._too_late()
            seen = self.sight.entity(decode_entity(document))
            if seen is not None:
                yield seen

    # --- the past and the log, called by SQLite -----------------------------------------------------------------------

    def _whole(self, id_: str) -> Resource | None:
        """What is known of an entity; None: too little to decide."""
        if id_ not in self._wholes:
            self._wholes[id_] = self._known(id_)
        return self._wholes[id_]

    def _known(self, id_: str) -> Resource | None:
        if id_ == ENDED:
            return None
        row = self.connection.execute("SELECT document FROM main.entities WHERE id = ?", (id_,)).fetchone()
        if row is not None:
            entity = decode_entity(row[0])
            qualities = self.sight.qualities(entity)
            if qualities is not None:
                self._qualities[id_] = qualities
            return self.sight.resource(entity)
        row = self.connection.execute("SELECT types, scopes FROM main.temporal_entities WHERE id = ?", (id_,)).fetchone()
        if row is None or self._needs_present():
            return None
        return Resource(types=_names(row[0]), id=id_, scopes=_names(row[1]), tenant=self.sight.tenant)

    def _needs_present(self) -> bool:
        policies = self.sight.policies
        members = {name for name in policies.mentions("read") if name == "areas" or name.startswith("quality")}
        return any(policies.forbids_by("read", name) for name in members)

    def _part(self, id_: str, attribute: str) -> Resource | None:
        """What is known of an attribute; beside its name, that is its own quality."""
        whole = self._whole(id_)
        if whole is None or id_ not in self._qualities:
            return whole
        return msgspec.structs.replace(whole, quality=self._qualities[id_](attribute))

    def _decision(self, id_: str, attribute: str) -> Decision | None:
        key = id_, attribute
        if key not in self._decisions:
            part = self._part(id_, attribute)
            if part is None:
                return None
            self._decisions[key] = self.sight.of_attribute(part, attribute)
        return self._decisions[key]

    def _is_seen(self, id_: str) -> bool:
        whole = self._whole(id_)
        if whole is None:
            return False
        entire = self.sight.policies.decide(self.sight.principal, "read", whole)
        if entire.is_forbidden:
            return False
        names = {*self._attributes_of(id_), *self._gone_attributes_of(id_)}
        return any(map(_shows, (self._decision(id_, name) for name in names))) if names else entire.allowed

    def _attributes_of(self, id_: str) -> Iterator[str]:
        return (name for name in every_attribute(self.connection, id_) if name != SCOPE)

    def _gone_attributes_of(self, id_: str) -> Iterator[str]:
        """Those of which age has left nothing: what they were hidden by is hidden still."""
        rows = self.connection.execute("SELECT DISTINCT attribute FROM main.past_names WHERE entity = ?", (id_,))
        return (name for (name,) in rows)

    def _may(self, id_: str, attribute: str, instance: bytes) -> bool:
        if attribute == SCOPE:
            return self._whole(id_) is not None  # scopes are the entity's, and whether that is seen is asked of it
        return _shows(self._about(id_, attribute, instance))

    def _is_named(self, id_: str, attribute: str) -> bool:
        return _shows(self._decision(id_, attribute))

    def _about(self, id_: str, attribute: str, instance: bytes) -> Decision | None:
        part = self._part(id_, attribute) if attribute == LOCATION else None
        return self._decision(id_, attribute) if part is None else self.sight.of_attribute(part, attribute, _instance(instance))

    def _seen(self, id_: str, attribute: str, instance: bytes) -> bytes:
        decision = None if attribute == SCOPE else self._about(id_, attribute, instance)
        if decision is None or not decision.obfuscations:
            return instance
        return _encode(obfuscated(_instance(instance), decision.obfuscations))

    def _is_logged(self, id_: str, type_set: int, scopes: str | None, kind: str, first: int, rows: int) -> bool:
        """Whether a record tells of something that is seen. What was updated, and is not known any more, is not told."""
        whole = self._whole(id_)
        if whole is None:
            return False
        (types,) = self.connection.execute("SELECT types FROM type_sets WHERE id = ?", (type_set,)).fetchone()
        then = msgspec.structs.replace(whole, types=_names(types), scopes=_names(scopes) if scopes else ())
        for moment in (then, whole):
            entire = self.sight.policies.decide(self.sight.principal, "read", moment)
            if entire.is_forbidden:
                return False
        names = self.connection.execute(
            "SELECT DISTINCT attribute FROM main.history WHERE seq >= ? AND seq < ?", (first, first + rows)
        ).fetchall()
        if not names:
            return kind != "updated" and entire.allowed
        return any(name != SCOPE and _shows(self._decision(id_, name)) for (name,) in names)


class SeeingWholeSearcher(SeeingSearcher):
    """One that can have rows of the past beside those of the store."""

    past = WHOLE

    def __init__(self, connection: sqlite3.Connection, query_ms_max: int) -> None:
        prepare(connection)
        super().__init__(connection, query_ms_max)


def _shows(decision: Decision | None) -> bool:
    return decision is not None and decision.allowed and not removes(decision.obfuscations)
