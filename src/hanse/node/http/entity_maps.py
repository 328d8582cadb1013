"""/entityMaps: make one for a query, retrieve, update, delete (5.14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity_maps import represent_map
from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.parameters import parse_query
from hanse.ngsild.temporal_parsing import parse_temporal
from hanse.ngsild.uris import check_uri
from hanse.node.entity_maps import HEADER, IDS_MAX, lifetime, location
from hanse.node.history import History
from hanse.node.http.call import Call, Endpoint, Path, ngsi

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from hanse.ngsild.entity_maps import EntityMap

QUERY: Final = (
    "id", "type", "idPattern", "attrs", "q", "csf", "georel", "geometry", "coordinates", "geoproperty", "scopeQ",
    "qualityQ", "local", "orderBy", "collation", "datasetId", "limit", "offset", "entityMapLifetime", "splitEntities",
)  # fmt: skip

TIME: Final = ("timerel", "timeAt", "endTimeAt", "timeproperty")


async def create(call: Call) -> ASGIApp:
    asked = parse_query(call.params, await call.context(), call.node.settings.limits, call.criteria)
    _check_selective(call)
    return shown(call, await call.tenant.entity_maps.create(asked, lifetime(call)), status=201)


async def create_temporal(call: Call) -> ASGIApp:
    """The same for entities with instances in a window of time (5.14.5)."""
    temporal = parse_temporal({name: text for name, text in call.params.items() if name in TIME}, timerel_required=True)
    params = {name: text for name, text in call.params.items() if name not in TIME}
    asked = parse_query(params, await call.context(), call.node.settings.limits, call.criteria)
    _check_selective(call)
    ids = await History(call.tenant.store).ids(asked, temporal, IDS_MAX + 1)
    return shown(call, await call.tenant.entity_maps.freeze(ids, lifetime(call)), status=201)


async def retrieve(call: Call) -> ASGIApp:
    return shown(call, call.tenant.entity_maps.get(_id(call)))


def shown(call: Call, entity_map: EntityMap, status: int = 200) -> ASGIApp:
    return call.answer(represent_map(entity_map), CORE, status=status, headers={HEADER: location(entity_map)})


async def update(call: Call) -> ASGIApp:
    id_ = _id(call)
    call.tenant.entity_maps.get(id_)
    body, _context = await call.json()
    await call.tenant.entity_maps.patch(id_, body)
    return call.no_content()


async def delete(call: Call) -> ASGIApp:
    await call.tenant.entity_maps.delete(_id(call))
    return call.no_content()


def _check_selective(call: Call) -> None:
    if not (call.params.keys() & {"type", "attrs", "q", "georel", "scopeQ"} or call.flag("local")):
        raise BadRequestData("say at least one of type, attrs, q, georel and scopeQ, or local=true for everything here")


def _id(call: Call) -> str:
    return check_uri(call.path["id"], "the id of an entity map")


paths: list[Path] = [
    ngsi("/temporal/entityMaps", GET=Endpoint(create_temporal, (*QUERY, *TIME))),
    ngsi("/entityMaps", GET=Endpoint(create, QUERY)),
    ngsi("/entityMaps/{id}", GET=Endpoint(retrieve), PATCH=Endpoint(update), DELETE=Endpoint(delete)),
]
