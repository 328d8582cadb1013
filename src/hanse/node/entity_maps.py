"""The entity maps of a tenant: results of queries, kept for a while as lists of ids. Also what a query has to do with one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import msgspec
from msgspec import Struct

from hanse.ngsild.entity import Entity, now_text
from hanse.ngsild.entity_maps import LIFETIME_S, EntityMap, duration_s, expiry, map_id, patched_expiry, without
from hanse.ngsild.errors import ResourceNotFound, TooManyResults
from hanse.ngsild.query import EntityQuery, matches
from hanse.node.store import DeleteDocument, PutDocument

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from hanse.node.http.call import Call
    from hanse.node.tenant import Tenant

KIND: Final = "entity-map"
HEADER: Final = "NGSILD-EntityMap"
MAPS_MAX: Final = 1_000  # for a tenant; those that end first make room
IDS_MAX: Final = 100_000  # in one map
ALL_IDS_MAX: Final = 1_000_000  # in all maps of a tenant
_AT_ONCE: Final = 200  # ids that are looked at before others have their turn

_decode = msgspec.json.Decoder(EntityMap).decode


class MapPage(Struct):
    """A page of the entities of a map that still fit; `status` is 201 if the map was made for it."""

    entities: list[Entity]
    count: int | None = None
    headers: dict[str, str] = {}
    status: int = 200


class EntityMaps:
    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._maps: dict[str, EntityMap] = {}

    async def start(self) -> None:
        self._maps = {id_: _decode(data) for id_, data in self._tenant.store.documents(KIND)}
        await self.sweep(now_text())

    def shared(self) -> dict[str, EntityMap]:
        """The maps themselves, for those who see the same tenant with other eyes."""
        return self._maps

    async def sweep(self, now: str) -> None:
        """Forget the maps that have ended."""
        over = [id_ for id_, entity_map in self._maps.items() if entity_map.is_over(now)]
        if over:
            await self._drop(over)

    def bounds(self) -> dict[str, tuple[int, int | None]]:
        ids = sum(len(kept.ids) for kept in self._maps.values())
        return {"entity_maps": (len(self._maps), MAPS_MAX), "entity_map_ids": (ids, ALL_IDS_MAX)}

    # --- one map ----------------------------------------------------------------------------------------------------

    async def create(self, query: EntityQuery, lifetime_s: float = LIFETIME_S) -> EntityMap:
        """The result of a query, frozen, whatever its limit and offset."""
        return await self.freeze(await self._tenant.store.ids(query), lifetime_s)

    async def freeze(self, ids: Sequence[str], lifetime_s: float = LIFETIME_S) -> EntityMap:
        if len(ids) > IDS_MAX:
            raise TooManyResults(f"the query finds {len(ids)} entities; {IDS_MAX} fit into an entity map")
        entity_map = EntityMap(id=f"urn:ngsi-ld:EntityMap:{uuid4()}", expires_at=expiry(now_text(), lifetime_s), ids=list(ids))
        if over := self._surplus(len(ids)):
            await self._drop(over)
        await self._put(entity_map)
        return entity_map

    def _surplus(self, coming: int) -> list[str]:
        """The maps that make room for another one with so many ids: those that end first."""
        number, ids = len(self._maps) + 1, sum(len(kept.ids) for kept in self._maps.values()) + coming
        over = []
        if number > MAPS_MAX or ids > ALL_IDS_MAX:
            for kept in sorted(self._maps.values(), key=lambda kept: kept.expires_at):
                over.append(kept.id)
                number, ids = number - 1, ids - len(kept.ids)
                if number <= MAPS_MAX and ids <= ALL_IDS_MAX:
                    break
        return over

    def get(self, id_: str) -> EntityMap:
        entity_map = self.find(id_)
        if entity_map is None:
            raise ResourceNotFound(f"there is no entity map {id_[:200]!r}; it may have ended")
        return entity_map

    def find(self, reference: str) -> EntityMap | None:
        """By its id, or by where it is: what the header says."""
        entity_map = self._maps.get(map_id(reference))
        return None if entity_map is None or entity_map.is_over(now_text()) else entity_map

    async def patch(self, id_: str, body: Any) -> None:
        entity_map, now = self.get(id_), now_text()
        expires_at = patched_expiry(body, now)
        if expires_at is None:
            return
        if expires_at <= now:
            await self._drop([id_])
        else:
            await self._put(msgspec.structs.replace(entity_map, expires_at=expires_at))

    async def delete(self, id_: str) -> None:
        await self._drop([self.get(id_).id])

    # --- paging -----------------------------------------------------------------------------------------------------

    async def page(self, entity_map: EntityMap, query: EntityQuery) -> MapPage:
        """The next entities of the map that still fit the query; those that do not go from the map (5.5.9.3)."""
        found: list[Entity] = []
        gone: list[str] = []
        fitting = 0
        quality_of = self._tenant.store.measure.of_entity(now_text())
        for looked_at, id_ in enumerate(entity_map.ids):
            if looked_at < query.offset and not query.count:
                continue
            if len(found) >= query.limit and looked_at >= query.offset and not query.count:
                break
            if looked_at % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            entity = self._tenant.store.entity(id_)
            if entity is None or not matches(query, entity, quality_of):
                gone.append(id_)
                continue
            fitting += 1
            if looked_at >= query.offset and len(found) < query.limit:
                found.append(entity)
        kept = self._maps.get(entity_map.id)  # it may have been changed meanwhile
        if gone and kept is not None:
            await self._put(msgspec.structs.replace(kept, ids=without(kept.ids, gone)))
        return MapPage(found, fitting if query.count else None)

    async def query(self, call: Call, asked: EntityQuery) -> MapPage | None:
        """What a query with a map comes to: a page of the map that the header names, or of a new one; None: it wants none."""
        reference = call.headers.get(HEADER.lower(), "").strip()
        if not reference and not call.flag("entityMap"):
            return None
        entity_map = self.find(reference) if reference else None
        if entity_map is not None:
            page = await self.page(entity_map, asked)
            page.headers = {HEADER: reference}
            return page
        entity_map = await self.create(asked, lifetime(call))
        page = await self.page(entity_map, asked)
        page.headers, page.status = {HEADER: location(entity_map)}, 201
        return page

    async def headers(self, call: Call, ids: Sequence[str]) -> dict[str, str]:
        """The header for an answer with just these entities: the map that the request names, or a new one if it wants one."""
        reference = call.headers.get(HEADER.lower(), "").strip()
        if reference and self.find(reference) is not None:
            return {HEADER: reference}
        if not reference and not call.flag("entityMap"):
            return {}
        return {HEADER: location(await self.freeze(ids, lifetime(call)))}

    # --- keeping ----------------------------------------------------------------------------------------------------

    async def _put(self, entity_map: EntityMap) -> None:
        self._maps[entity_map.id] = entity_map
        await self._tenant.store.submit(PutDocument(KIND, entity_map.id, msgspec.json.encode(entity_map)))

    async def _drop(self, ids: list[str]) -> None:
        for id_ in ids:
            self._maps.pop(id_, None)
        await self._tenant.store.submit(*(DeleteDocument(KIND, id_) for id_ in ids))


def location(entity_map: EntityMap) -> str:
    return f"/ngsi-ld/v1/entityMaps/{entity_map.id}"


def lifetime(call: Call) -> float:
    """How long the request wants its map to live."""
    given = call.params.get("entityMapLifetime")
    return LIFETIME_S if given is None else duration_s(given, "entityMapLifetime")
