"""What a query, and the content part of a subscription, asks of an entity: one meaning for both.

`matches` says it in plain Python. The store answers the same by SQL, the broker's index the same for many subscriptions at
once; property tests hold both to this.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from hanse.ngsild.geo import GeoQuery

TypeQuery: TypeAlias = tuple[tuple[str, ...], ...]  # any of these, each of which is: all of these types (expanded)


class EntitySelector(Struct, frozen=True, omit_defaults=True):
    """Every member that is given must fit."""

    types: TypeQuery = ()
    ids: tuple[str, ...] = ()
    id_pattern: str | None = None


class Order(Struct, frozen=True):
    path: str  # an attribute path as in q (expanded), or one of: id, type, createdAt, modifiedAt
    descending: bool = False
    collation: str | None = None


class EntityQuery(Struct, frozen=True, kw_only=True, omit_defaults=True):
    selectors: tuple[EntitySelector, ...] = ()  # any of them; none: every entity
    attrs: tuple[str, ...] = ()  # the entity has at least one of them (expanded)
    q: str = ""  # with expanded names, as `compile_q` takes it
    geo: GeoQuery | None = None
    scope_q: str = ""
    dataset_ids: tuple[str, ...] = ()
    order_by: tuple[Order, ...] = ()
    limit: int = 20
    offset: int = 0
    count: bool = False


Direction: TypeAlias = Literal["asc", "desc"]
