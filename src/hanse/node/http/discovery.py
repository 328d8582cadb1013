"""/types and /attributes: what kinds of entities and attributes there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

from hanse.ngsild import errors
from hanse.node.distributed import discovery
from hanse.node.distributed.consumption import consumed
from hanse.node.http.call import Call, Endpoint, Path, ngsi

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from hanse.ngsild.contexts import Context
    from hanse.node.store import AttributeInfo, TypeInfo


async def types(call: Call) -> ASGIApp:
    context = await call.context()
    details = call.flag("details")
    known = await _types(call, context)
    if details:
        return call.answer([_type(info, context) for info in known], context)
    names = [context.compact_type(info.name) for info in known]
    listed = {"id": _list_id("EntityTypeList", names), "type": "EntityTypeList", "typeList": names}
    return call.answer(listed, context)


async def one_type(call: Call) -> ASGIApp:
    context = await call.context()
    name = context.expand_type(call.path["type"])
    info = next((info for info in await _types(call, context, name) if info.name == name), None)
    if info is None:
        raise errors.ResourceNotFound(f"there is no entity of type {call.path['type']!r}")
    detail = {
        "id": info.name,
        "type": "EntityTypeInfo",
        "typeName": context.compact_type(info.name),
        "entityCount": info.entities,
        "attributeDetails": [
            {
                "id": name,
                "type": "Attribute",
                "attributeName": context.compact_iri(name),
                "attributeTypes": sorted(kinds),
            }
            for name, kinds in sorted(info.attributes.items())
        ],
    }
    return call.answer(detail, context)


async def attributes(call: Call) -> ASGIApp:
    context = await call.context()
    details = call.flag("details")
    known = await _attributes(call, context)
    if details:
        return call.answer([_attribute(info, context) for info in known], context)
    names = [context.compact_iri(info.name) for info in known]
    listed = {"id": _list_id("AttributeList", names), "type": "AttributeList", "attributeList": names}
    return call.answer(listed, context)


async def one_attribute(call: Call) -> ASGIApp:
    context = await call.context()
    name = context.expand_term(call.path["attribute"])
    info = next((info for info in await _attributes(call, context, name) if info.name == name), None)
    if info is None:
        raise errors.ResourceNotFound(f"no entity has an attribute {call.path['attribute']!r}")
    detail = _attribute(info, context) | {"attributeCount": info.entities, "attributeTypes": sorted(info.kinds)}
    return call.answer(detail, context)


async def _types(call: Call, context: Context, only: str | None = None) -> list[TypeInfo]:
    known = await call.tenant.store.types()
    return known if call.reading is None else await discovery.types(call.reading, known, context, only)


async def _attributes(call: Call, context: Context, only: str | None = None) -> list[AttributeInfo]:
    known = await call.tenant.store.attributes()
    return known if call.reading is None else await discovery.attributes(call.reading, known, context, only)


def _type(info: TypeInfo, context: Context) -> dict[str, Any]:
    return {
        "id": info.name,
        "type": "EntityType",
        "typeName": context.compact_type(info.name),
        "attributeNames": [context.compact_iri(name) for name in sorted(info.attributes)],
    }


def _attribute(info: AttributeInfo, context: Context) -> dict[str, Any]:
    return {
        "id": info.name,
        "type": "Attribute",
        "attributeName": context.compact_iri(info.name),
        "typeNames": [context.compact_type(name) for name in sorted(info.types)],
    }


def _list_id(kind: str, names: list[str]) -> str:
    """Lists have no identity of their own: the same names, the same id."""
    return f"urn:ngsi-ld:{kind}:{uuid5(NAMESPACE_URL, ' '.join(names))}"


paths: list[Path] = [
    ngsi("/types", GET=Endpoint(consumed(types), ("details", "local"))),
    ngsi("/types/{type}", GET=Endpoint(consumed(one_type), ("local",))),
    ngsi("/attributes", GET=Endpoint(consumed(attributes), ("details", "local"))),
    ngsi("/attributes/{attribute}", GET=Endpoint(consumed(one_attribute), ("local",))),
]
