"""/hanse/v1/models: the data models of entity types, and what happens to entities that are not as they want it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.models import CompiledModel, ModelProperty, parse_model
from hanse.node.http.answers import JSON, LD_JSON, Answer, encode_json
from hanse.node.http.call import Call, Endpoint, Path, native
from hanse.node.models import KeptModel, as_mode

if TYPE_CHECKING:
    from starlette.types import ASGIApp

SCHEMA: Final = "application/schema+json"


async def models(call: Call) -> ASGIApp:
    kept = call.tenant.models
    return call.answer([_summary(call, kept.get(type_)) for type_ in kept.there()])


async def add(call: Call) -> ASGIApp:
    document, context = await call.json()
    model = parse_model(document, context)
    await call.tenant.models.add(model)
    return _made(model.type)


async def model(call: Call) -> ASGIApp:
    """One model; as a bare schema for those who accept application/schema+json."""
    type_, resolved = await _type(call), call.flag("resolved")
    found = call.tenant.models.get(type_)
    shown = _summary(call, found)
    if resolved:
        compiled = call.tenant.models.compiled(type_)
        schema = compiled.schema
        shown |= {"properties": list(map(_property, compiled.properties.values())), "lineage": compiled.lineage}
    else:
        schema = found.model.schema
        whole = _compiled(call, type_)
        if whole is not None:
            shown["properties"] = [_property(whole.properties[name]) for name in found.model.names]
    if call.accepted == SCHEMA:
        return Answer(200, encode_json(schema), [(b"content-type", SCHEMA.encode())])
    return call.answer(shown | {"schema": schema})


async def put(call: Call) -> ASGIApp:
    document, context = await call.json()
    type_ = context.expand_name(call.path["type"])
    is_new = type_ not in call.tenant.models.there()
    await call.tenant.models.put(parse_model(document, context, type_=type_))
    return _made(type_) if is_new else call.no_content()


async def patch(call: Call) -> ASGIApp:
    """What happens to entities that are not as the model wants it."""
    type_ = await _type(call)
    body = await call.raw_json()
    if not isinstance(body, dict) or body.keys() != {"mode"}:
        raise BadRequestData('only the mode of a model can be patched: {"mode": "enforce"}; PUT replaces the schema')
    await call.tenant.models.set_mode(type_, as_mode(body["mode"]))
    return call.no_content()


async def remove(call: Call) -> ASGIApp:
    await call.tenant.models.remove(await _type(call))
    return call.no_content()


async def _type(call: Call) -> str:
    """The type in the path: by URI, by its name in the context of the request, or by that in its schema if only one has it."""
    context, name, there = await call.context(), call.path["type"], call.tenant.models.there()
    type_ = context.expand_name(name)
    if type_ not in there:
        same = [found for found, model in there.items() if model.name == name]
        return same[0] if len(same) == 1 else type_
    return type_


def _made(type_: str) -> Answer:
    answer = Answer(201)
    answer.add("Location", f"/hanse/v1/models/{quote(type_, safe='')}")
    return answer


def _compiled(call: Call, type_: str) -> CompiledModel | None:
    try:
        return call.tenant.models.compiled(type_)
    except BadRequestData:  # another node told of it, but not of what it extends
        return None


def _summary(call: Call, kept: KeptModel) -> dict[str, Any]:
    found, models = kept.model, call.tenant.models
    compiled = _compiled(call, found.type)
    return {
        "type": found.type,
        "name": found.name,
        "title": found.title,
        "version": found.version,
        "mode": models.mode(found.type),
        "usable": compiled is not None,
        "extends": found.extends,
        "origin": kept.origin or None,
        "modifiedAt": found.modified_at,
        "url": models.name_for(found.type),
        "properties": list(compiled.properties) if compiled is not None else list(found.names),
    }


def _property(found: ModelProperty) -> dict[str, Any]:
    return {
        "name": found.name,
        "id": found.uri,
        "kind": found.kind or None,
        "dynamic": found.is_dynamic,
        "required": found.is_required,
        "description": found.description,
        "model": found.model,
    }


_ONE: Final = (JSON,)
_BODY: Final = (JSON, LD_JSON, SCHEMA)

paths: list[Path] = [
    native(
        "/models",
        GET=Endpoint(models, offers=_ONE),
        POST=Endpoint(add, offers=_ONE, media_types=_BODY, makes_tenant=True),
    ),
    native(
        "/models/{type}",
        GET=Endpoint(model, ("resolved",), offers=(JSON, SCHEMA)),
        PUT=Endpoint(put, offers=_ONE, media_types=_BODY, makes_tenant=True),
        PATCH=Endpoint(patch, offers=_ONE, media_types=(JSON,)),
        DELETE=Endpoint(remove, offers=_ONE),
    ),
]
