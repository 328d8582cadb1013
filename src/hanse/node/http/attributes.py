"""/entities/{id}/attrs: append, update, partially update, replace, delete attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.ngsild import errors, operations
from hanse.ngsild.entity import Entity, now_text
from hanse.ngsild.operations import Outcome
from hanse.ngsild.parsing import parse_attribute, parse_fragment
from hanse.ngsild.temporal import SCOPE
from hanse.ngsild.uris import check_uri
from hanse.node.distributed.provision import APPEND, DELETE_ATTRIBUTE, PARTIAL_UPDATE, REPLACE_ATTRIBUTE, UPDATE, provided
from hanse.node.history import History
from hanse.node.http.call import Call, Endpoint, Path, ngsi
from hanse.node.http.entities import check_id, found, is_simplified, of_type

if TYPE_CHECKING:
    from starlette.types import ASGIApp


def updated(call: Call, outcome: Outcome) -> ASGIApp:
    """204 if all of it was done; else 207 with what was, and what was not and why: by full names, as the specification has it."""
    if not outcome.not_updated:
        return call.no_content()
    refused = [{"attributeName": name, "reason": reason} for name, reason in outcome.not_updated]
    return call.answer({"updated": list(outcome.updated), "notUpdated": refused}, status=207)


async def append(call: Call) -> ASGIApp:
    id_ = check_uri(call.path["id"], "the id of an entity")
    body, context = await call.json()
    now = now_text()
    check_id(body, id_)
    fragment = parse_fragment(body, context, now)
    overwrite = "noOverwrite" not in call.options

    def appended(old: Entity | None) -> Outcome:
        return operations.append(of_type(call, context, found(id_, old)), fragment, now, overwrite=overwrite)

    return updated(call, await call.tenant.change(id_, appended, "append"))


async def update(call: Call) -> ASGIApp:
    id_ = check_uri(call.path["id"], "the id of an entity")
    body, context = await call.json()
    now = now_text()
    check_id(body, id_)
    fragment = parse_fragment(body, context, now, simplified=is_simplified(call), allow_null=True)

    def changed(old: Entity | None) -> Outcome:
        return operations.update(of_type(call, context, found(id_, old)), fragment, now)

    return updated(call, await call.tenant.change(id_, changed, "update"))


async def partial_update(call: Call) -> ASGIApp:
    id_ = check_uri(call.path["id"], "the id of an entity")
    body, context = await call.json()
    now = now_text()
    name = context.expand_term(call.path["attribute"])
    instances = parse_attribute(call.path["attribute"], body, context, now, partial=True)

    def changed(old: Entity | None) -> Outcome:
        return operations.partial_update(of_type(call, context, found(id_, old)), name, instances, now)

    await call.tenant.change(id_, changed, "partial-update")
    return call.no_content()


async def replace(call: Call) -> ASGIApp:
    id_ = check_uri(call.path["id"], "the id of an entity")
    body, context = await call.json()
    now = now_text()
    name = context.expand_term(call.path["attribute"])
    if body.keys() == {call.path["attribute"]}:  # a part of an entity, with this attribute alone
        body = body[call.path["attribute"]]
    instances = parse_attribute(call.path["attribute"], body, context, now)

    def changed(old: Entity | None) -> Outcome:
        return operations.replace_attribute(of_type(call, context, found(id_, old)), name, instances, now)

    await call.tenant.change(id_, changed, "replace-attribute")
    return call.no_content()


async def delete(call: Call) -> ASGIApp:
    id_ = check_uri(call.path["id"], "the id of an entity")
    context = await call.context()
    now = now_text()
    name = context.expand_term(call.path["attribute"])
    dataset = call.params.get("datasetId")
    if dataset is not None:
        check_uri(dataset, "datasetId")
    delete_all = call.flag("deleteAll")
    if call.tenant.store.latest(id_) is None:  # it may have a past without a present
        await _end(call, id_, SCOPE if call.path["attribute"] == "scope" else name, now, dataset, every=delete_all)
        return call.no_content()

    def changed(old: Entity | None) -> Outcome:
        return operations.delete_attribute(of_type(call, context, found(id_, old)), name, dataset, delete_all, now)

    await call.tenant.change(id_, changed, "delete-attribute")
    return call.no_content()


async def _end(call: Call, id_: str, name: str, now: str, dataset: str | None, *, every: bool) -> None:
    try:
        await History(call.tenant.store).end_attribute(id_, name, now, dataset, every=every)
    except errors.ResourceNotFound:
        raise errors.ResourceNotFound(f"there is no entity {id_!r}, nor one of the past with this attribute") from None


async def retrieve(call: Call) -> ASGIApp:
    """Not in the specification, but what anyone would try: one attribute, normalized."""
    from hanse.ngsild.representation import View, represent

    id_ = check_uri(call.path["id"], "the id of an entity")
    context = await call.context()
    entity = of_type(call, context, found(id_, await call.entity(id_)))
    name = context.expand_term(call.path["attribute"])
    if name not in entity.attributes:
        raise errors.ResourceNotFound(f"the entity {id_!r} has no attribute {call.path['attribute']!r}")
    return call.answer(represent(entity, context, View(attrs=(name,)))[context.compact_iri(name)])


paths: list[Path] = [
    ngsi(
        "/entities/{id}/attrs",
        POST=Endpoint(provided(append, APPEND), ("options", "type", "local")),
        PATCH=Endpoint(provided(update, UPDATE), ("options", "format", "type", "local")),
    ),
    ngsi(
        "/entities/{id}/attrs/{attribute}",
        GET=Endpoint(retrieve, ("type", "local")),
        PATCH=Endpoint(provided(partial_update, PARTIAL_UPDATE), ("type", "local", "options")),
        PUT=Endpoint(provided(replace, REPLACE_ATTRIBUTE), ("type", "local", "options")),
        DELETE=Endpoint(provided(delete, DELETE_ATTRIBUTE), ("datasetId", "deleteAll", "type", "local")),
    ),
]
