"""What a query, and the content part of a subscription, asks of an entity: one meaning for both.

`matches` says it in plain Python. The store answers the same by SQL, the broker's index the same for many subscriptions at
once; property tests hold both to this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from hanse.filters import compile_q
from hanse.filters.patterns import pattern_search
from hanse.ngsild.entity import Entity
from hanse.ngsild.geo import GeoQuery, geo_matches
from hanse.ngsild.quality import QualityOf, plain_quality, quality_matches
from hanse.ngsild.scope_query import scope_matches
from hanse.ngsild.selection import types_match

TypeQuery: TypeAlias = tuple[tuple[str, ...], ...]  # any of these, each of which is: all of these types (expanded)

# what q may ask of the entity itself, beside its attributes; these names stay short in an expanded q
ENTITY_MEMBERS: Final = frozenset({"id", "type", "scope", "createdAt", "modifiedAt", "expiresAt"})


class EntitySelector(Struct, frozen=True, omit_defaults=True):
    """Every member that is given must fit."""

    types: TypeQuery = ()
    ids: tuple[str, ...] = ()
    id_pattern: str | None = None


class Order(Struct, frozen=True):
    path: str  # an attribute path as in q (expanded), or one of: id, type, createdAt, modifiedAt
    descending: bool = False
    collation: str | None = None
    near: GeoQuery | None = None  # by distance from the geometry of this


class EntityQuery(Struct, frozen=True, kw_only=True, omit_defaults=True):
    selectors: tuple[EntitySelector, ...] = ()  # any of them; none: every entity
    attrs: tuple[str, ...] = ()  # the entity has at least one of them (expanded)
    q: str = ""  # with expanded names, as `compile_q` takes it
    geo: GeoQuery | None = None
    scope_q: str = ""
    quality: str = ""  # with expanded names and numbers only, as `compile_quality` takes it
    dataset_ids: tuple[str, ...] = ()  # which instances are shown; it selects no entities
    order_by: tuple[Order, ...] = ()
    limit: int = 20
    offset: int = 0
    count: bool = False


Direction: TypeAlias = Literal["asc", "desc"]


def matches(query: EntityQuery, entity: Entity, quality_of: QualityOf = plain_quality) -> bool:
    """Whether the entity is what the query asks for: the plain meaning, cheapest tests first.

    `quality_of` says what its quality is; by default, what it is just now by the starting set of criteria.
    """
    if query.selectors and not any(selects(selector, entity) for selector in query.selectors):
        return False
    if query.attrs and not any(name in entity.attributes for name in query.attrs):
        return False
    if query.scope_q and not scope_matches(query.scope_q, entity.scopes):
        return False
    if query.q and not q_predicate(query.q)(entity):
        return False
    if query.geo is not None and not geo_matches(query.geo, entity.attributes):
        return False
    return not query.quality or quality_matches(query.quality, quality_of(entity))


def selects(selector: EntitySelector, entity: Entity) -> bool:
    if selector.ids and entity.id not in selector.ids:
        return False
    if not types_match(selector.types, entity.types):
        return False
    return selector.id_pattern is None or pattern_search(selector.id_pattern)(entity.id)


@lru_cache(maxsize=4096)
def q_predicate(q: str) -> Callable[[Entity], bool]:
    """The filter as a question to an entity, its own members included where the filter names them."""
    compiled = compile_q(q)
    check = compiled.matches
    if not any(path.names[0] in ENTITY_MEMBERS for path in compiled.paths):
        return lambda entity: check(entity.attributes)
    return lambda entity: check(with_members(entity))


def with_members(entity: Entity) -> Mapping[str, Any]:
    """The attributes, and the members of the entity by their short names."""
    members: dict[str, Any] = {
        "id": entity.id,
        "type": list(entity.types),
        "scope": list(entity.scopes) or None,
        "createdAt": entity.created_at or None,
        "modifiedAt": entity.modified_at or None,
        "expiresAt": entity.expires_at,
    }
    return entity.attributes | members
