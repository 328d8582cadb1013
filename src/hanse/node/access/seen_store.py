"""A tenant's store as one principal sees it, and what that principal may write to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import WeakKeyDictionary

from hanse.node.access.errors import Forbidden
from hanse.node.access.seen_search import SeeingSearcher, SeeingWholeSearcher
from hanse.node.entity_maps import KIND as ENTITY_MAP
from hanse.node.store import DeleteDocument, PutDocument, Store
from hanse.node.store.history_writes import (
    AddInstances,
    ChangeInstance,
    EndAttribute,
    RemoveAttribute,
    RemoveEvolution,
    RemoveInstance,
)
from hanse.policies import PolicySet, Principal, Resource

if TYPE_CHECKING:
    import asyncio

    from hanse.ngsild.entity import Entity
    from hanse.ngsild.query import EntityQuery
    from hanse.node.access.views import Sight
    from hanse.node.store import AttributeInfo, Found, TypeInfo, Write

LOOKED_BACK_MAX: Final = 1_000  # records of the log that are looked at for the newest one that is seen
ENDS_KEPT: Final = 1_000  # principals of whom it is remembered up to where the log was looked at

# of each store, by principal: the policies that held, the newest record that was looked at, and the newest that is seen
_ENDS: WeakKeyDictionary[Store, dict[Principal, tuple[PolicySet, int, int]]] = WeakKeyDictionary()

T = TypeVar("T")


class SeenStore(Store):
    """What it does not offer is not to be had: it has no reading connections, no documents and no files of its own."""

    def __init__(self, store: Store, sight: Sight) -> None:
        self._real = store
        self._sight = sight
        self.measure = store.measure
        self.lake = store.lake

    # --- reading ----------------------------------------------------------------------------------------------------

    def entity(self, id_: str, *, even_expired: bool = False) -> Entity | None:
        entity = self._real.entity(id_, even_expired=even_expired)
        return None if entity is None else self._sight.entity(entity)

    def latest(self, id_: str, *, even_expired: bool = False) -> Entity | None:
        entity = self._real.latest(id_, even_expired=even_expired)
        return None if entity is None else self._sight.entity(entity)

    def look_up(self, ids: Iterable[str]) -> None:
        self._real.look_up(ids)

    async def query(self, query: EntityQuery) -> Found:
        return await self._look(lambda searcher: searcher.found(query, self.measure))

    async def ids(self, query: EntityQuery) -> list[str]:
        return await self._look(lambda searcher: searcher.found_ids(query, self.measure))

    async def types(self) -> list[TypeInfo]:
        return await self._look(SeeingSearcher.types)

    async def attributes(self) -> list[AttributeInfo]:
        return await self._look(SeeingSearcher.attributes)

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._look(lambda searcher: work(searcher.connection))

    def whole(self, work: Callable[[sqlite3.Connection], T]) -> T:
        searcher = self._real.here(SeeingWholeSearcher)
        return searcher.look(self._sight, lambda: work(searcher.connection))

    async def _look(self, work: Callable[[SeeingSearcher], T]) -> T:
        return await self._real.in_thread(SeeingSearcher, lambda searcher: searcher.look(self._sight, lambda: work(searcher)))

    def log_start(self) -> int:
        return self._real.log_start()

    def log_end(self) -> int:
        """The newest record that is seen: who waits for more is not woken by what is hidden.

        What has been looked at is remembered, so that who asks again and again costs little.
        """
        newest, policies, principal = self._real.log_end(), self._sight.policies, self._sight.principal
        ends = _ENDS.setdefault(self._real, {})
        asked, looked_at, end = ends.get(principal, (policies, 0, 0))
        if asked is not policies:
            looked_at = end = 0
        oldest = max(looked_at, newest - LOOKED_BACK_MAX)
        if newest > looked_at:
            searcher = self._real.here(SeeingSearcher)

            def look() -> int:
                row = searcher.connection.execute(
                    "SELECT offset FROM log WHERE offset > ? ORDER BY offset DESC LIMIT 1", (oldest,)
                ).fetchone()
                # between what was looked at before and now there may be something that is seen: it is behind nobody's end
                return int(row[0]) if row is not None else max(end, oldest if oldest > looked_at else 0)

            end = searcher.look(self._sight, look)
        if len(ends) >= ENDS_KEPT:
            ends.clear()
        ends[principal] = policies, newest, end
        return end

    # --- writing ----------------------------------------------------------------------------------------------------

    def submit(self, *writes: Write) -> asyncio.Future[None]:
        """What may be written beside changes of entities: the past, and maps of what was found. Raises Forbidden."""
        for write in writes:
            self._check(write)
        return self._real.submit(*writes)

    def _check(self, write: Write) -> None:
        if isinstance(write, PutDocument | DeleteDocument) and write.kind == ENTITY_MAP:
            return
        if isinstance(write, AddInstances):
            names = set(write.attributes)
        elif isinstance(write, RemoveAttribute | EndAttribute | ChangeInstance | RemoveInstance):
            names = {write.attribute}
        elif isinstance(write, RemoveEvolution):
            names = set(self._real.past_attributes(write.id))
        else:
            raise Forbidden("this is not to be written by way of a request")
        types = write.types if isinstance(write, AddInstances) else ()
        entity = self._real.latest(write.id)
        whole = self._sight.resource(entity, "publish") if entity is not None else self._past(write.id, types)
        self._sight.check("publish", whole, names, write.id, is_whole=isinstance(write, RemoveEvolution))

    def _past(self, id_: str, types: tuple[str, ...]) -> Resource:
        """Something that has no present; by what its past says, if it has one."""
        known = self._real.past_types(id_)
        return Resource(types=tuple(dict.fromkeys((*known, *types))), id=id_, tenant=self._sight.tenant)
