"""/snapshots: freeze the results of queries, look at how that goes, clone, update, delete, purge (5.16)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.ngsild.contexts import CORE
from hanse.ngsild.snapshots import represent_snapshot
from hanse.ngsild.uris import check_uri
from hanse.node.http.call import Call, Endpoint, Path, ngsi

if TYPE_CHECKING:
    from starlette.types import ASGIApp


async def create(call: Call) -> ASGIApp:
    body, context = await call.json()
    snapshot = await call.tenant.snapshots.create(body, context)
    return call.created(f"/snapshots/{snapshot.id}")


async def clone(call: Call) -> ASGIApp:
    id_ = _id(call)
    body, _context = await call.json()
    snapshot = await call.tenant.snapshots.clone(id_, body)
    return call.created(f"/snapshots/{snapshot.id}")


async def retrieve(call: Call) -> ASGIApp:
    return call.answer(represent_snapshot(call.tenant.snapshots.get(_id(call))), CORE)


async def update(call: Call) -> ASGIApp:
    id_ = _id(call)
    body, _context = await call.json()
    return call.answer(represent_snapshot(await call.tenant.snapshots.patch(id_, body)), CORE)


async def delete(call: Call) -> ASGIApp:
    await call.tenant.snapshots.delete(_id(call))
    return call.no_content()


async def purge(call: Call) -> ASGIApp:
    await call.tenant.snapshots.purge(call.params.get("q", ""))
    return call.no_content()


def _id(call: Call) -> str:
    return check_uri(call.path["id"], "the id of a snapshot")


paths: list[Path] = [
    ngsi("/snapshots", POST=Endpoint(create), DELETE=Endpoint(purge, ("q",))),
    ngsi("/snapshots/{id}", GET=Endpoint(retrieve), PATCH=Endpoint(update), DELETE=Endpoint(delete)),
    ngsi("/snapshots/{id}/clone", POST=Endpoint(clone)),
]
