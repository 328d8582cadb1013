"""/entities: create, retrieve, query, replace, merge, delete, purge."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hanse.filters import compile_q
from hanse.ngsild import errors, operations
from hanse.ngsild.entity import NGSI_LD, Change, Entity, now_text
from hanse.ngsild.linked import has_links, without_links
from hanse.ngsild.operations import Outcome
from hanse.ngsild.parameters import View, expand_q, parse_query, parse_query_body, parse_view
from hanse.ngsild.parsing import parse_entity, parse_fragment
from hanse.ngsild.quality import quality_attributes
from hanse.ngsild.query import EntityQuery, EntitySelector
from hanse.ngsild.selection import parse_type_query
from hanse.ngsild.uris import check_uri
from hanse.node.access.errors import Forbidden
from hanse.node.distributed.batches import purged
from hanse.node.distributed.consumption import consumed
from hanse.node.distributed.provision import CREATE, DELETE, MERGE, REPLACE, provided
from hanse.node.entity_maps import MapPage
from hanse.node.http.answers import GEO_JSON, JSON, LD_JSON
from hanse.node.http.call import Call, Endpoint, Path, ngsi
from hanse.node.http.results import page_headers, represented

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp

    from hanse.ngsild.contexts import Context
    from hanse.node.store import Found

WITH_GEO: Final = (JSON, LD_JSON, GEO_JSON)
VIEW_PARAMS: Final = (
    "attrs", "pick", "omit", "options", "format", "lang", "datasetId", "geometryProperty", "join", "joinLevel", "containedBy",
    "jsonKeys", "expandValues",
)  # fmt: skip
QUERY_PARAMS: Final = (
    "id", "type", "idPattern", "q", "csf", "georel", "geometry", "coordinates", "geoproperty", "scopeQ", "qualityQ", "local",
    "orderBy", "collation", "orderFrom", "orderGeometry",
)  # fmt: skip
PAGE_PARAMS: Final = ("limit", "offset", "count")
MAP_PARAMS: Final = ("entityMap", "entityMapLifetime", "splitEntities")
PURGED_AT_ONCE: Final = 500  # what is purged must neither fill the queue of writes nor keep others waiting
_TIMES: Final = ("createdAt", "modifiedAt", "deletedAt", "expiresAt")
_OF_EVERY_ENTITY: Final = frozenset({*_TIMES, *(NGSI_LD + name for name in _TIMES)})
_SIMPLIFIED: Final = frozenset({"simplified", "keyValues"})


async def create(call: Call) -> ASGIApp:
    body, context = await call.json()
    now = now_text()
    entity = parse_entity(body, context, now)
    await call.tenant.change(entity.id, creation(entity, now), "create")
    return call.created(f"/entities/{entity.id}")


def creation(entity: Entity, now: str) -> Callable[[Entity | None], Change]:
    def made(old: Entity | None) -> Change:
        if old is not None:
            raise errors.AlreadyExists(f"there is an entity {entity.id!r} already; update it, or upsert it by a batch operation")
        return operations.create(entity, now)

    return made


def found(id_: str, entity: Entity | None) -> Entity:
    if entity is None:
        raise errors.ResourceNotFound(f"there is no entity {id_!r}")
    return entity


def of_type(call: Call, context: Context, entity: Entity) -> Entity:
    """The entity, if it is of a type that the request names."""
    wanted = call.params.get("type")
    if wanted and not {context.expand_type(name.strip()) for name in wanted.split(",")} & set(entity.types):
        raise errors.ResourceNotFound(f"the entity {entity.id!r} is not of type {wanted!r}")
    return entity


async def retrieve(call: Call) -> ASGIApp:
    id_ = check_uri(call.path["id"], "the id of an entity")
    context = await call.context()
    view = parse_view(call.params, context, geojson=call.wants_geojson)
    kept = call.tenant.store.entity(id_)
    if kept is None:
        kept = await call.entity(id_)
    if call.reading is not None:
        kept = await call.reading.entity(id_, context, view.attrs, kept)
    entity = of_type(call, context, found(id_, kept))
    if view.attrs and not any(name in entity.attributes for name in view.attrs):
        raise errors.ResourceNotFound(f"the entity {id_!r} has none of the attributes asked for")
    shown = represented(call, entity, context, view)
    if not shown:
        raise errors.ResourceNotFound(f"of the entity {id_!r} nothing is left to show; ask for more of it")
    wants_map = "entityMap" in call.params or "ngsild-entitymap" in call.headers
    headers = await call.tenant.entity_maps.headers(call, [id_]) if wants_map else None
    return call.answer(shown, context, headers=headers)


async def with_own_q(call: Call, said: dict[str, Any], context: Context, view: View) -> dict[str, Any]:
    """What a query says, with the ids of linked entities in the place of what it asks of these."""
    q = said.get("q")
    if not isinstance(q, str) or not has_links(q):
        return said

    async def find(asked: str, type_: str | None) -> list[str]:
        selectors = (EntitySelector(types=parse_type_query(type_, context)),) if type_ else ()
        return await call.tenant.store.ids(EntityQuery(selectors=selectors, q=expand_q(asked, context)))

    return said | {"q": await without_links(q, find, view.join_level if view.join else 0)}


async def query(call: Call) -> ASGIApp:
    context = await call.context()
    view = parse_view(call.params, context, geojson=call.wants_geojson)
    said = await with_own_q(call, call.params, context, view)
    asked = parse_query(said, context, call.node.settings.limits, call.criteria)
    check_selective(call, asked)
    return await answered(call, asked, view, context)


async def query_by_post(call: Call) -> ASGIApp:
    body, context = await call.json()
    if "temporalQ" in body:
        raise errors.BadRequestData("temporalQ asks for the past; send it to /temporal/entityOperations/query")
    understood = partial(
        parse_query_body,
        params=call.params,
        context=context,
        limits=call.node.settings.limits,
        criteria=call.criteria,
        geojson=call.wants_geojson,
    )
    if isinstance(body.get("q"), str) and has_links(body["q"]):
        _, view = understood({name: value for name, value in body.items() if name != "q"})
        body = await with_own_q(call, body, context, view)
    asked, view = understood(body)
    check_selective(call, asked)
    return await answered(call, asked, view, context)


def check_selective(call: Call, asked: EntityQuery) -> None:
    """A query has to say what it is about; every entity has a createdAt, so that is not enough."""
    paths = compile_q(asked.q).paths if asked.q else ()
    of_quality = quality_attributes(asked.quality) or ()
    names = {*asked.attrs, *of_quality, *(path.names[0] for path in paths)} - _OF_EVERY_ENTITY
    about = names or asked.geo or "type" in call.params or any(selector.types for selector in asked.selectors)
    if not about and not call.flag("local"):
        raise errors.BadRequestData("say at least one of type, attrs, q and georel; or local=true for everything that is here")


async def answered(call: Call, asked: EntityQuery, view: View, context: Context) -> ASGIApp:
    """The page of entities that a query asks for."""
    result: Found | MapPage | None = None
    if "entityMap" in call.params or "ngsild-entitymap" in call.headers:
        result = await call.tenant.entity_maps.query(call, asked)
    elif call.reading is not None:
        result = await call.reading.found(asked, context)
    if result is None:
        result = await call.entities(asked)
    headers = page_headers(call, asked, len(result.entities), result.count)
    if result.count is not None and asked.count:
        headers["NGSILD-Results-Count"] = str(result.count)
    status = 200
    if isinstance(result, MapPage):
        status = result.status
        headers |= result.headers
    return call.answer(represented(call, result.entities, context, view), context, status=status, headers=headers)


async def replace(call: Call) -> ASGIApp:
    id_ = check_uri(call.path["id"], "the id of an entity")
    body, context = await call.json()
    now = now_text()
    check_id(body, id_)
    body["id"] = id_
    if "type" not in body and (kept := call.tenant.store.latest(id_)) is not None:
        body["type"] = list(kept.types)
    entity = parse_entity(body, context, now)

    def replaced(old: Entity | None) -> Outcome | Change | None:
        return operations.replace(of_type(call, context, found(id_, old)), entity, now)

    await call.tenant.change(id_, replaced, "replace")
    return call.no_content()


def check_id(body: dict[str, Any], id_: str) -> None:
    """A document may repeat the id of the entity in the path, but not contradict it."""
    if body.get("id", id_) != id_:
        raise errors.BadRequestData(f"the id in the body is not {id_!r}, as in the path; leave it out")


def is_simplified(call: Call) -> bool:
    """Whether the body is said to be in the simplified form."""
    return bool(call.params) and not _SIMPLIFIED.isdisjoint((*call.options, call.params.get("format", "")))


async def merge(call: Call) -> ASGIApp:
    id_ = check_uri(call.path["id"], "the id of an entity")
    body, context = await call.json()
    now = now_text()
    check_id(body, id_)
    fragment = parse_fragment(body, context, now, simplified=is_simplified(call), allow_null=True, lang=call.params.get("lang"))

    def merged(old: Entity | None) -> Outcome:
        entity = of_type(call, context, found(id_, old))
        return operations.merge(entity, fragment, now, observed_at=call.params.get("observedAt"), lang=call.params.get("lang"))

    await call.tenant.change(id_, merged, "merge")
    return call.no_content()


async def delete(call: Call) -> ASGIApp:
    id_ = check_uri(call.path["id"], "the id of an entity")
    context = await call.context()
    now = now_text()
    await call.tenant.change(id_, lambda old: operations.delete(of_type(call, context, found(id_, old)), now), "delete")
    return call.no_content()


async def without_id(_call: Call) -> ASGIApp:
    raise errors.BadRequestData("the path ends where the id of an entity belongs")


async def purge(call: Call) -> ASGIApp:
    """Delete every entity that a query finds; or only some attributes of it (`drop`), or all but some (`keep`).

    What the caller may not change stays, and is named in the answer; if that is everything, the purge is refused.
    """
    context = await call.context()
    keep, drop = (
        {context.expand_term(name.strip()) for name in call.params[param].split(",")} if param in call.params else None
        for param in ("keep", "drop")
    )
    if keep is not None and drop is not None:
        raise errors.BadRequestData("keep and drop say opposite things; use one of them")
    asked = parse_query(call.params, context, call.node.settings.limits, call.criteria)
    check_selective(call, asked)
    now = now_text()
    pending: list[asyncio.Future[None]] = []
    purged_ids: list[str] = []
    refused: dict[str, Forbidden] = {}
    for id_ in await call.tenant.store.ids(asked):
        try:
            applied = call.tenant.apply(id_, lambda old: operations.purge(old, now, keep=keep, drop=drop), "purge")
        except Forbidden as error:
            refused[id_] = error
            continue
        purged_ids.append(id_)
        if applied.committed is not None:
            pending.append(applied.committed)
        if len(pending) >= PURGED_AT_ONCE:
            await asyncio.gather(*pending)
            pending.clear()
    await asyncio.gather(*pending)
    if not refused:
        return call.no_content()
    if not purged_ids:
        raise next(iter(refused.values()))
    told = [{"entityId": id_, "error": error.problem()} for id_, error in refused.items()]
    return call.answer({"success": purged_ids, "errors": told}, status=207)


ENTITY = ngsi(
    "/entities/{id}",
    GET=Endpoint(consumed(retrieve), (*VIEW_PARAMS, "type", "local", "entityMap"), offers=WITH_GEO),
    PUT=Endpoint(provided(replace, REPLACE), ("type", "local", "options")),
    PATCH=Endpoint(provided(merge, MERGE), ("type", "options", "format", "observedAt", "lang", "local")),
    DELETE=Endpoint(provided(delete, DELETE), ("type", "local")),
)
paths: list[Path] = [
    ENTITY,
    ngsi(
        "/entities",
        GET=Endpoint(consumed(query), (*QUERY_PARAMS, *VIEW_PARAMS, *PAGE_PARAMS, *MAP_PARAMS), offers=WITH_GEO),
        POST=Endpoint(provided(create, CREATE), ("local", "options"), makes_tenant=True),
        DELETE=Endpoint(purged(purge), (*QUERY_PARAMS, "attrs", "keep", "drop")),
        PUT=Endpoint(without_id),
        PATCH=Endpoint(without_id),
    ),
    ngsi(
        "/entityOperations/query",
        POST=Endpoint(
            consumed(query_by_post),
            (*VIEW_PARAMS, *PAGE_PARAMS, "local", *MAP_PARAMS),
            offers=WITH_GEO,
        ),
    ),
]
