"""The snapshots of a tenant.

Each is a store of its own, opened when it is first used, and a tenant of its own over it: every operation on entities works there
as it does elsewhere (5.5.15).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import structlog

from hanse.model import InvalidInput
from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import Change, now_text
from hanse.ngsild.errors import AlreadyExists, BadRequestData, NgsiLdError, ResourceNotFound, TooManyResults
from hanse.ngsild.notifications import headers_of, sealed
from hanse.ngsild.parameters import parse_query_body
from hanse.ngsild.query import EntityQuery
from hanse.ngsild.snapshots import (
    Snapshot,
    overall_status,
    parse_clone,
    parse_snapshot,
    patch_snapshot,
    purge_filter,
    result_details,
    snapshot_notification,
)
from hanse.ngsild.subscription_members import Receiver
from hanse.ngsild.temporal_parsing import TemporalQuery, parse_temporal_body
from hanse.node.access.owners import SNAPSHOT
from hanse.node.history import History
from hanse.node.notifier.notifier import encode_letter
from hanse.node.snapshot_history import ClearHistory, all_ids, copy_history
from hanse.node.store import DeleteDocument, Delivery, PutDelivery, PutDocument, SaveChange, Store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hanse.ngsild.contexts import Context
    from hanse.ngsild.entity import Entity
    from hanse.node.tenant import Tenant

KIND: Final = "snapshot"
FOLDER: Final = "snapshots"
SNAPSHOTS_MAX: Final = 100  # for a tenant
ENTITIES_MAX: Final = 1_000_000  # that one query may find
BATCH: Final = 500  # entities that are written at once
SWEEP_S: Final = 10.0
_TEMPORAL: Final = ("temporalQ", "aggrParams")

Before: TypeAlias = "Callable[[Snapshot], Awaitable[None]]"

log = structlog.get_logger("hanse.snapshots")
_decode = msgspec.json.Decoder(Snapshot).decode
_encode = msgspec.json.Encoder().encode


class Snapshots:
    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._kept: dict[str, Snapshot] = {}
        self._open: dict[str, Tenant] = {}  # by place
        self._filling: dict[str, asyncio.Task[None]] = {}
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._kept = {id_: _decode(data) for id_, data in self._tenant.store.documents(KIND)}
        for snapshot in self._kept.values():
            if snapshot.status == "preparing":
                self._fill_soon(snapshot)
        if self._kept:
            self._sweep_from_now_on()

    async def stop(self) -> None:
        tasks = [task for task in (self._sweeper, *self._filling.values()) if task is not None]
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        for place in list(self._open):
            await self._close(place)

    def ids(self) -> list[str]:
        return list(self._kept)

    def bounds(self) -> dict[str, tuple[int, int | None]]:
        return {"snapshots": (len(self._kept), SNAPSHOTS_MAX)}

    # --- what a client asks for -------------------------------------------------------------------------------------

    async def create(self, body: Any, context: Context, before: Before | None = None) -> Snapshot:
        """`before` is done before anything is put into it."""
        snapshot = parse_snapshot(body, context.source, now_text())
        for query in snapshot.queries:
            self._parsed(query, context)
        for query in snapshot.temporal_queries:
            self._parsed_temporal(query, context)
        return await self._make(snapshot, before)

    async def clone(self, id_: str, body: Any, before: Before | None = None) -> Snapshot:
        original = self.get(id_)
        return await self._make(parse_clone(body, original, now_text()), before)

    async def _make(self, snapshot: Snapshot, before: Before | None) -> Snapshot:
        if snapshot.id in self._kept:
            raise AlreadyExists(f"there is a snapshot {snapshot.id!r} already")
        if len(self._kept) >= SNAPSHOTS_MAX:
            raise TooManyResults(f"there are {SNAPSHOTS_MAX} snapshots already; delete or purge some")
        self._kept[snapshot.id] = snapshot  # so that nobody else makes it meanwhile
        try:
            if before is not None:
                await before(snapshot)
            await self._put(snapshot)
        except BaseException:
            self._kept.pop(snapshot.id, None)
            raise
        self._fill_soon(snapshot)
        self._sweep_from_now_on()
        return snapshot

    def get(self, id_: str) -> Snapshot:
        snapshot = self._kept.get(id_)
        if snapshot is None or snapshot.is_over(now_text()):
            raise ResourceNotFound(f"there is no snapshot {id_[:200]!r}; it may have ended")
        return snapshot

    async def patch(self, id_: str, body: Any) -> Snapshot:
        snapshot = patch_snapshot(self.get(id_), body, now_text())
        await self._put(snapshot, tell=True)
        return snapshot

    async def delete(self, id_: str) -> None:
        await self._drop(self.get(id_))

    async def purge(self, q: str, only: Callable[[str], bool] = lambda _: True) -> None:
        """`only`: which ids it is about."""
        fits = purge_filter(q)
        for snapshot in [kept for kept in self._kept.values() if fits(kept) and only(kept.id)]:
            await self._drop(snapshot)

    async def view(self, id_: str) -> Tenant:
        """The tenant that answers requests with the header NGSILD-Snapshot, once everything is in it."""
        snapshot = self.get(id_)
        await self._filled(id_)
        snapshot = self.get(id_)
        snapshot.last_used_at = now_text()
        return self._opened(snapshot.place)

    # --- filling ----------------------------------------------------------------------------------------------------

    def _fill_soon(self, snapshot: Snapshot) -> None:
        task = asyncio.create_task(self._fill(snapshot))
        self._filling[snapshot.id] = task
        task.add_done_callback(lambda _: self._filling.pop(snapshot.id, None))

    async def _filled(self, id_: str) -> None:
        """Wait until it is, or has gone: who waits is not cancelled with it."""
        if id_ in self._filling:
            await asyncio.wait({self._filling[id_]})

    async def _fill(self, snapshot: Snapshot) -> None:
        details: list[dict[str, Any]] = []
        temporal: list[dict[str, Any]] = []
        try:
            view = self._opened(snapshot.place)
            if snapshot.source is not None:
                original = next((kept for kept in self._kept.values() if kept.place == snapshot.source), None)
                if original is None:
                    raise ResourceNotFound("the snapshot that this is a copy of has gone")
                await self._filled(original.id)
                source = self._opened(original.place).store
                await self._copy(source, view.store, EntityQuery(limit=ENTITIES_MAX))
                await view.store.submit(ClearHistory())
                await copy_history(source, view.store, await source.read(all_ids), TemporalQuery())
                original = self._kept.get(original.id, original)
                details, temporal = original.details, original.temporal_details
            else:
                context = await self._tenant.contexts.resolve(snapshot.context) if snapshot.context is not None else CORE
                details = [
                    result_details(await self._found(query, context, snapshot.id, view.store)) for query in snapshot.queries
                ]
                if snapshot.temporal_queries:
                    await view.store.submit(ClearHistory())  # the past in it is what these queries find, and no more
                temporal = [
                    result_details(await self._found(query, context, snapshot.id, view.store))
                    for query in snapshot.temporal_queries
                ]
        except NgsiLdError as error:
            details = [result_details(error)]
        except Exception:
            log.exception("a snapshot could not be filled", snapshot=snapshot.id)
            details = [result_details(NgsiLdError("this is our fault; the node's log says more"))]
        now = self._kept.get(snapshot.id)
        if now is not None:
            filled = msgspec.structs.replace(
                now,
                status=overall_status([*details, *temporal]),
                details=details,
                temporal_details=temporal,
                modified_at=now_text(),
            )
            await self._put(filled, tell=True)

    async def _found(self, query: dict[str, Any], context: Context, snapshot: str, target: Store) -> int | NgsiLdError:
        """How much a query has put into the target; or why it has not. It finds what the owner of the snapshot sees."""
        source = self._tenant.seen_by_owner(SNAPSHOT, snapshot)
        try:
            if "temporalQ" not in query:
                return await self._copy(source, target, self._parsed(query, context))
            asked, temporal = self._parsed_temporal(query, context)
            ids = await History(source).ids(asked, temporal, asked.limit)
            await copy_history(source, target, ids, temporal)
        except NgsiLdError as error:
            return error
        except InvalidInput as error:
            return BadRequestData(str(error))
        else:
            return len(ids)

    def _parsed(self, query: dict[str, Any], context: Context) -> EntityQuery:
        asked, _ = parse_query_body(query, {}, context, self._tenant.settings.limits, self._tenant.measure.registry)
        return msgspec.structs.replace(asked, limit=ENTITIES_MAX, offset=0, count=False)

    def _parsed_temporal(self, query: dict[str, Any], context: Context) -> tuple[EntityQuery, TemporalQuery]:
        temporal = parse_temporal_body(query, {})
        return self._parsed({name: value for name, value in query.items() if name not in _TEMPORAL}, context), temporal

    async def _copy(self, source: Store, target: Store, query: EntityQuery) -> int:
        """One query is one look at the source; in the target an entity stays as it was first found."""
        entities = (await source.query(query)).entities
        for start in range(0, len(entities), BATCH):
            await target.submit(
                *(_arrival(entity) for entity in entities[start : start + BATCH] if target.latest(entity.id) is None)
            )
        return len(entities)

    # --- stores -----------------------------------------------------------------------------------------------------

    def _directory(self) -> Path | None:
        data = self._tenant.settings.store.data
        return Path(data) / FOLDER if data else None

    def _name(self, place: str) -> str:
        return f"{self._tenant.name}~{place}"  # no tenant has a ~ in its name

    def _opened(self, place: str) -> Tenant:
        from hanse.node.tenant import Tenant

        view = self._open.get(place)
        if view is None:
            settings = self._tenant.settings
            store = Store.open(self._directory(), self._name(place), settings.store, query_ms_max=settings.limits.query_ms_max)
            view = self._open[place] = Tenant(self._tenant.name, store, self._tenant.settings, is_alone=True)
            view.contexts = self._tenant.contexts  # names mean the same, and are asked for once
            view.measure = store.measure = self._tenant.measure
        return view

    async def _close(self, place: str) -> None:
        view = self._open.pop(place, None)
        if view is not None:
            await view.store.close()

    async def _remove_store(self, place: str) -> None:
        await self._close(place)
        directory = self._directory()
        if directory is not None and directory.is_dir():
            for path in directory.iterdir():
                if f"~{place}." in path.name:
                    path.unlink(missing_ok=True)

    # --- keeping ----------------------------------------------------------------------------------------------------

    async def _put(self, snapshot: Snapshot, *, tell: bool = False) -> None:
        deliveries = [self._delivery(snapshot)] if tell and snapshot.endpoint else []
        self._kept[snapshot.id] = snapshot
        await self._tenant.store.submit(PutDocument(KIND, snapshot.id, _encode(snapshot)), *map(PutDelivery, deliveries))
        self._tenant.notifier.dispatch(deliveries)

    def _delivery(self, snapshot: Snapshot) -> Delivery:
        assert snapshot.endpoint is not None
        info = tuple((pair["key"], pair["value"]) for pair in snapshot.receiver_info)
        receiver = Receiver(snapshot.endpoint, receiver_info=info)
        body = _encode(snapshot_notification(snapshot, now_text()))
        letter = sealed(receiver, body, headers_of(receiver, None, self._tenant.name), snapshot.id)
        return Delivery(
            id=self._tenant.store.next_delivery_id(),
            subscription=snapshot.id,
            endpoint=snapshot.endpoint,
            payload=encode_letter(letter),
        )

    async def _drop(self, snapshot: Snapshot) -> None:
        self._kept.pop(snapshot.id, None)
        filling = self._filling.get(snapshot.id)
        if filling is not None:
            filling.cancel()
            with suppress(asyncio.CancelledError):
                await filling
        await self._tenant.store.submit(DeleteDocument(KIND, snapshot.id))
        await self._remove_store(snapshot.place)

    def _sweep_from_now_on(self) -> None:
        if self._sweeper is None:
            self._sweeper = asyncio.create_task(self._sweep())

    async def _sweep(self) -> None:
        """Remove snapshots that have ended."""
        while True:
            now = now_text()
            for snapshot in [kept for kept in self._kept.values() if kept.is_over(now)]:
                try:
                    await self._drop(snapshot)
                except NgsiLdError as error:
                    log.warning("a snapshot that has ended could not be removed", snapshot=snapshot.id, error=str(error))
            await asyncio.sleep(SWEEP_S)


def _arrival(entity: Entity) -> SaveChange:
    return SaveChange(Change("created", now_text(), None, entity), "snapshot")
