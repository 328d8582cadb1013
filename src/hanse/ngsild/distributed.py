"""Who has which part of what a request is about (clause 4.3.6): the pure part of distributed operations.

A source with an **exclusive** registration has attributes of single entities for itself, one with a **redirect** registration all
that it registers: neither this node nor anyone else keeps that. **Inclusive** sources have what is left, beside this node.
**Auxiliary** ones are asked when something is read, and fill gaps. `divide` says this for an operation that changes an entity,
`asked_of` for one that reads, and `claimed_names` for entities that were read: what others have for themselves only they know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from hanse.ngsild.errors import NgsiLdError
from hanse.ngsild.query import EntitySelector
from hanse.ngsild.registrations import Registration, entity_fits, may_satisfy, place_fits
from hanse.ngsild.scope_query import scope_matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hanse.ngsild.entity import Entity
    from hanse.ngsild.query import EntityQuery
    from hanse.ngsild.registrations import EntityInfo

EXCLUSIVE: Final = "exclusive"
REDIRECT: Final = "redirect"
AUXILIARY: Final = "auxiliary"
CLAIMING: Final = (EXCLUSIVE, REDIRECT)  # in the order in which they choose


class LoopDetected(NgsiLdError):
    status, type, title, code = 508, "LoopDetected", "Loop detected", "H0221"


class BadGateway(NgsiLdError):
    status, type, title, code = 502, "InternalError", "A context source failed", "H0222"


class GatewayTimeout(NgsiLdError):
    status, type, title, code = 504, "InternalError", "A context source did not answer", "H0223"


class Share(Struct, frozen=True):
    """What of a request concerns one source."""

    registration: Registration
    names: frozenset[str] | None = None  # attributes, expanded; None: all of the entity


class Division(Struct, frozen=True):
    """An operation on an entity, taken apart."""

    shares: tuple[Share, ...] = ()
    refused: tuple[Share, ...] = ()  # what a source has for itself, but cannot do this with
    taken: frozenset[str] = frozenset()  # attributes that are not for this node
    is_local: bool = True  # whether anything is left for it


def names_for(registration: Registration, selectors: Sequence[EntitySelector]) -> frozenset[str] | None:
    """The attributes that a source has of what is selected; None: any; empty: it is not concerned."""
    names: set[str] = set()
    for info in registration.information:
        if info.entities and not _concerns(info.entities, selectors):
            continue
        if not info.names:
            return None
        names.update(info.names)
    return frozenset(names)


def _concerns(entities: Iterable[EntityInfo], selectors: Sequence[EntitySelector]) -> bool:
    return not selectors or any(entity_fits(entity, selector) for selector in selectors for entity in entities)


def divide(
    registrations: Sequence[Registration], selector: EntitySelector, names: frozenset[str] | None, *operations: str
) -> Division:
    """Who does what of an operation on one entity, or of any of several that come to the same.

    `names`: the attributes that it is about; None: all of it.
    """
    shares: list[Share] = []
    refused: list[Share] = []
    taken: frozenset[str] = frozenset()
    is_whole = False  # taken, whatever there is
    for mode in CLAIMING:
        before = taken
        for registration in registrations:
            if registration.mode != mode:
                continue
            registered = names_for(registration, (selector,))
            share = _share(names, registered, before)
            if share is not None and not share and not (registered is None and not names):
                continue
            (refused if registration.operations.isdisjoint(operations) else shares).append(Share(registration, share))
            taken |= share or registered or frozenset()
            is_whole = is_whole or registered is None
    left = None if names is None else names - taken
    is_local = not is_whole and (left is None or bool(left) or not (shares or refused))
    if is_local:
        for registration in registrations:
            if registration.mode not in (*CLAIMING, AUXILIARY) and not registration.operations.isdisjoint(operations):
                registered = names_for(registration, (selector,))
                share = _share(left, registered, taken)
                if share is None or share or (registered is None and not left):
                    shares.append(Share(registration, share))
    return Division(tuple(shares), tuple(refused), taken, is_local)


def _share(names: frozenset[str] | None, registered: frozenset[str] | None, taken: frozenset[str]) -> frozenset[str] | None:
    if names is None:
        return registered
    return (names if registered is None else names & registered) - taken


# --- reading ------------------------------------------------------------------------------------------------------------


def asked_of(
    registrations: Sequence[Registration], selectors: Sequence[EntitySelector], attrs: frozenset[str], operations: frozenset[str]
) -> list[Share]:
    """What to ask of which source that can be asked by one of the operations."""
    shares: list[Share] = []
    for registration in registrations:
        if not operations & registration.operations:
            continue
        registered = names_for(registration, selectors)
        names = registered if not attrs else attrs if registered is None else attrs & registered
        if names is None or names:
            shares.append(Share(registration, names))
    return shares


def may_have(registration: Registration, query: EntityQuery) -> bool:
    """Whether a source may have what is in such scopes and places, and of such quality.

    One that says nothing of its own may have anything.
    """
    if query.scope_q and registration.scopes and not scope_matches(query.scope_q, registration.scopes):
        return False
    if not may_satisfy(registration, query.quality):
        return False
    return query.geo is None or "location" not in registration.document or place_fits(registration.document, query.geo)


def narrowed(registration: Registration, selector: EntitySelector) -> EntitySelector:
    """What a source is asked for: no more than what it is registered with."""
    fitting: list[EntityInfo] = []
    for info in registration.information:
        if not info.entities:
            return selector
        fitting += (entity for entity in info.entities if entity_fits(entity, selector))
    types = selector.types or tuple(dict.fromkeys(entity.types for entity in fitting))
    if selector.ids:
        ids = tuple(
            id_ for id_ in selector.ids if any(entity_fits(entity, EntitySelector(selector.types, (id_,))) for entity in fitting)
        )
        return EntitySelector(types, ids, selector.id_pattern)
    if fitting and all(entity.id is not None for entity in fitting):
        return EntitySelector(types, tuple(dict.fromkeys(entity.id or "" for entity in fitting)))
    patterns = {entity.id_pattern if entity.id is None else None for entity in fitting}
    pattern = selector.id_pattern or (next(iter(patterns)) if len(patterns) == 1 else None)
    return EntitySelector(types, (), pattern)


def claimed_names(claiming: Iterable[Registration], entity: Entity) -> frozenset[str] | None:
    """The attributes of an entity that sources have for themselves; None: all of it."""
    selector = EntitySelector(tuple((name,) for name in entity.types), (entity.id,))
    taken: frozenset[str] = frozenset()
    for registration in claiming:
        names = names_for(registration, (selector,))
        if names is None:
            return None
        taken |= names
    return taken


def without(entity: Entity, names: frozenset[str]) -> Entity:
    """The entity without some of its attributes."""
    if names.isdisjoint(entity.attributes):
        return entity
    left = {name: instances for name, instances in entity.attributes.items() if name not in names}
    return msgspec.structs.replace(entity, attributes=left)
