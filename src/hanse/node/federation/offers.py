"""What a node advertises of its own entities: each type that it has some of, or each entity, where the federation wants it so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.model import Advertisement, Selector
from hanse.ngsild.query import EntityQuery

if TYPE_CHECKING:
    from hanse.ngsild.entity import Change, Entity
    from hanse.node.store import Store


class Offers:
    def __init__(self, publisher: str, *, by_id: bool) -> None:
        self._publisher = publisher
        self._by_id = by_id
        self._types: dict[str, int] = {}  # how many entities there are of each

    def restore(self, store: Store) -> None:
        self._types = store.type_counts()

    async def of_all(self, store: Store) -> list[Advertisement]:
        """Of what is here already."""
        if not self._by_id:
            return [self._offer(type_) for type_ in self._types]
        entities = [store.entity(id_) for id_ in await store.ids(EntityQuery())]
        return [self._offer(type_, entity.id) for entity in entities if entity is not None for type_ in entity.types]

    def opened(self, change: Change) -> list[Advertisement]:
        """What a change is the first of."""
        before = change.before.types if change.before is not None else ()
        new = [type_ for type_ in (change.after.types if change.after is not None else ()) if type_ not in before]
        for type_ in new:
            self._types[type_] = self._types.get(type_, 0) + 1
        return self._of(change.after, new if self._by_id else [type_ for type_ in new if self._types[type_] == 1])

    def closed(self, change: Change) -> list[Advertisement]:
        """What it is the last of."""
        after = change.after.types if change.after is not None else ()
        old = [type_ for type_ in (change.before.types if change.before is not None else ()) if type_ not in after]
        for type_ in old:
            self._types[type_] = self._types.get(type_, 1) - 1
        gone = [type_ for type_ in old if self._types[type_] <= 0]
        for type_ in gone:
            del self._types[type_]
        return self._of(change.before, old if self._by_id else gone)

    def _of(self, entity: Entity | None, types: list[str]) -> list[Advertisement]:
        if entity is None:
            return []
        return [self._offer(type_, entity.id if self._by_id else None) for type_ in types]

    def _offer(self, type_: str, entity: str | None = None) -> Advertisement:
        id_ = f"type {type_}" if entity is None else f"entity {entity} {type_}"
        return Advertisement(id=id_, client=self._publisher, selectors=(Selector(type=type_, id=entity),))
