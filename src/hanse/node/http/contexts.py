"""/jsonldContexts: contexts that clients host here, and those that the node has fetched or made itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast, get_args

from hanse.ngsild import errors
from hanse.node.contexts import Kind
from hanse.node.http.call import Call, Endpoint, Path, ngsi

if TYPE_CHECKING:
    from starlette.types import ASGIApp


async def add(call: Call) -> ASGIApp:
    body = await call.raw_json()
    if not isinstance(body, dict) or "@context" not in body:
        raise errors.InvalidRequest("a context document is a JSON object with a member '@context'")
    kept = await call.tenant.contexts.host(body["@context"])
    return call.created(f"/jsonldContexts/{kept.local_id}")


async def list_(call: Call) -> ASGIApp:
    kind = call.params.get("kind")
    if kind is not None and kind not in get_args(Kind):
        raise errors.BadRequestData(f"kind is one of {', '.join(get_args(Kind))}, not {kind[:40]!r}")
    details = call.flag("details")
    found = call.tenant.contexts.list(cast("Kind | None", kind))
    return call.answer([kept.details() if details else kept.url for kept in found])


async def serve(call: Call) -> ASGIApp:
    kept = call.tenant.contexts.get(call.path["id"])
    if call.flag("details"):
        answer = call.answer(kept.details())
    elif kept.kind == "Cached":
        raise errors.OperationNotSupported(f"this is only a copy for the node itself; get the context from {kept.url!r}")
    else:
        answer = call.answer(kept.document)
    kept.hit()
    return answer


async def delete(call: Call) -> ASGIApp:
    contexts = call.tenant.contexts
    if call.flag("reload"):
        await contexts.reload(call.path["id"])
    else:
        await contexts.delete(call.path["id"])
    return call.no_content()


paths: list[Path] = [
    ngsi("/jsonldContexts", GET=Endpoint(list_, ("details", "kind")), POST=Endpoint(add, makes_tenant=True)),
    ngsi("/jsonldContexts/{id}", GET=Endpoint(serve, ("details",)), DELETE=Endpoint(delete, ("reload",))),
]
