"""A tenant's past: what the temporal API does with it.

The past arises by itself, from every change of the present. What is provided to it on top says how it was, and changes nothing
that is: an entity that only has a past is not found among the entities.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Sequence

import msgspec

from hanse.ngsild.entity import Attributes, Instance
from hanse.ngsild.errors import ResourceNotFound
from hanse.ngsild.query import EntityQuery
from hanse.ngsild.representation import View
from hanse.ngsild.temporal import SCOPE, Page
from hanse.ngsild.temporal_parsing import TemporalQuery
from hanse.node.lake import Question
from hanse.node.store import Store
from hanse.node.store import history as stored
from hanse.node.store.history_search import find
from hanse.node.store.history_writes import (
    AddInstances,
    ChangeInstance,
    CheckedWrite,
    EndAttribute,
    RemoveAttribute,
    RemoveEvolution,
    RemoveInstance,
)


class History:
    def __init__(self, store: Store, instances: stored.Instances = stored.Instances()) -> None:  # noqa: B008  it is frozen
        self._store = store
        self._instances = instances

    # --- reading ----------------------------------------------------------------------------------------------------

    async def retrieve(self, id_: str, query: TemporalQuery, view: View) -> Page:
        """The evolution of one entity. Raises ResourceNotFound, also if it has none of the attributes that are asked for."""

        def work(connection: sqlite3.Connection) -> Page:
            if not stored.is_known(connection, id_):
                raise ResourceNotFound(f"nothing is known of the past of {id_!r}")
            if view.attrs and not any(name in view.attrs for name in stored.names(connection, id_)):
                raise ResourceNotFound(f"the past of {id_!r} has none of the attributes asked for")
            return stored.read(connection, [id_], query, _wanted(view), self._instances)

        return await self._store.read_past(work, Question(query, only=(id_,), instances=self._needed(query)))

    async def query(
        self, query: EntityQuery, temporal: TemporalQuery, view: View, only: Sequence[str] | None = None
    ) -> tuple[Page, int | None]:
        """The evolution of the entities that match (`only` among these), and how many do if that is asked for."""

        def work(connection: sqlite3.Connection) -> tuple[Page, int | None]:
            found = find(connection, query, temporal, only, measure=self._store.measure)
            page = stored.read(connection, found.ids, temporal, _wanted(view), self._instances, found.windows)
            return page, found.count

        needed = None if _looks_at_values(query) else self._needed(temporal)
        return await self._store.read_past(work, Question(temporal, query.selectors, only, needed))

    async def ids(self, query: EntityQuery, temporal: TemporalQuery, most: int = sys.maxsize) -> list[str]:
        """Of all entities that match, or of so many, whatever limit and offset of the query say."""
        every = msgspec.structs.replace(query, limit=most, offset=0, count=False)
        measure = self._store.measure
        question = Question(temporal, query.selectors, instances=None if _looks_at_values(query) else 1)
        return (await self._store.read_past(lambda connection: find(connection, every, temporal, measure=measure), question)).ids

    def _needed(self, query: TemporalQuery) -> int | None:
        """Of how many instances of a series an answer is made, counted from one end; None: of all."""
        if query.aggregation is not None:
            return query.last_n
        most = self._instances.shown(query.last_n)
        return most if query.last_n is None else min(query.last_n, most)

    # --- writing ----------------------------------------------------------------------------------------------------

    async def add(self, id_: str, types: tuple[str, ...], attributes: Attributes, now: str) -> bool:
        """Add instances, for a new entity as well. True: it is new."""
        return bool(await self._store.submit(AddInstances(id_, types, attributes, now)))

    async def add_attributes(self, id_: str, types: tuple[str, ...], attributes: Attributes, now: str) -> None:
        await self._checked(AddInstances(id_, types, attributes, now, may_create=False))

    async def remove(self, id_: str) -> None:
        await self._checked(RemoveEvolution(id_))

    async def remove_attribute(self, id_: str, attribute: str, dataset: str | None = None, *, every: bool = False) -> None:
        await self._checked(RemoveAttribute(id_, attribute, dataset, every))

    async def end_attribute(self, id_: str, attribute: str, now: str, dataset: str | None = None, *, every: bool = False) -> None:
        """An attribute of an entity that has a past and no present is deleted: that is the last of it."""
        await self._checked(EndAttribute(id_, attribute, now, dataset, every))

    async def change_instance(self, id_: str, attribute: str, instance_id: str, patch: Instance, now: str) -> None:
        await self._checked(ChangeInstance(id_, attribute, instance_id, patch, now))

    async def remove_instance(self, id_: str, attribute: str, instance_id: str) -> None:
        await self._checked(RemoveInstance(id_, attribute, instance_id))

    async def _checked(self, write: CheckedWrite) -> None:
        await self._store.read(write.check)
        await self._store.submit(write)


def _looks_at_values(query: EntityQuery) -> bool:
    return bool(query.q or query.geo is not None or query.scope_q or query.quality)


def _wanted(view: View) -> stored.Wanted:
    return stored.Wanted(
        attribute=None if view.is_whole else lambda name: view.shows("scope" if name == SCOPE else name),
        dataset_ids=frozenset(view.dataset_ids),
    )
