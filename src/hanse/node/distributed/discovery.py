"""Which types and attributes there are, here and at other sources: of these, what they are registered with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote

from hanse.ngsild.distributed import AUXILIARY
from hanse.ngsild.errors import BadRequestData, NgsiLdError
from hanse.node.distributed.forward import INVALID, NoReply, Outgoing, Trigger
from hanse.node.store import AttributeInfo, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    from hanse.ngsild.contexts import Context
    from hanse.ngsild.registrations import Registration
    from hanse.node.distributed.consumption import Reading, T
    from hanse.node.distributed.sources import Provider

_Ways: TypeAlias = "tuple[tuple[str, str, dict[str, str]], ...]"  # operations, and what is asked by them; the best way first
_TYPES: Final[_Ways] = (("retrieveEntityTypeDetails", "/types", {"details": "true"}), ("retrieveEntityTypes", "/types", {}))
_ATTRIBUTES: Final[_Ways] = (
    ("retrieveAttrTypeDetails", "/attributes", {"details": "true"}),
    ("retrieveAttrTypes", "/attributes", {}),
)


async def types(reading: Reading, known: list[TypeInfo], context: Context, only: str | None = None) -> list[TypeInfo]:
    """All types; or more of one of them."""
    found = {info.name: info for info in known}
    for registration, info in await _asked(reading, context, _TYPES, "retrieveEntityTypeInfo", only, _read_types):
        registered = {name for one in registration.information for entity in one.entities for name in entity.types}
        if registered and info.name not in registered and all(one.entities for one in registration.information):
            continue
        kept = found.setdefault(info.name, TypeInfo(info.name, 0, {}))
        kept.entities += info.entities
        for name, kinds in info.attributes.items():
            if _is_registered(registration, name):
                kept.attributes.setdefault(name, set()).update(kinds)
    return [found[name] for name in sorted(found)]


async def attributes(
    reading: Reading, known: list[AttributeInfo], context: Context, only: str | None = None
) -> list[AttributeInfo]:
    """All attributes; or more of one of them."""
    found = {info.name: info for info in known}
    for registration, info in await _asked(reading, context, _ATTRIBUTES, "retrieveAttrTypeInfo", only, _read_attributes):
        if not _is_registered(registration, info.name):
            continue
        kept = found.setdefault(info.name, AttributeInfo(info.name, 0, set(), set()))
        kept.entities += info.entities
        kept.kinds |= info.kinds
        kept.types |= info.types
    return [found[name] for name in sorted(found)]


def _is_registered(registration: Registration, name: str) -> bool:
    return any(not info.names or name in info.names for info in registration.information)


async def _asked(
    reading: Reading,
    context: Context,
    ways: _Ways,
    way_to_one: str,
    only: str | None,
    read: Callable[[Any, Context], list[T]],
) -> list[tuple[Registration, T]]:
    requests: list[tuple[Provider, Outgoing]] = []
    for provider in reading.providers((), context).values():
        can = provider.registration.operations
        if provider.registration.mode == AUXILIARY:
            continue
        try:
            wire = await reading.tenant.distributed.wire(provider, context)
        except NgsiLdError as error:
            reading.failures.append(NoReply(provider, INVALID, str(error)))
            continue
        way = next(((path, params) for name, path, params in ways if name in can), None)
        if only is None and way is not None:
            requests.append((provider, Outgoing("GET", way[0], way[1])))
        elif only is not None and way_to_one in can:
            path = next(path for _, path, _ in ways)
            requests.append((provider, Outgoing("GET", f"{path}/{quote(wire.compact_iri(only), safe='')}")))
    replies = await reading.tenant.distributed.ask_all(requests, Trigger(reading.call.headers, context))
    return [
        (reply.provider.registration, info) for reply in replies for infos in reading.understood(reply, read) for info in infos
    ]


def _read_types(body: Any, context: Context) -> list[TypeInfo]:
    if isinstance(body, dict) and isinstance(body.get("typeList"), list):
        return [TypeInfo(name, 0, {}) for name in _names(body["typeList"], context)]
    info = TypeInfo(_name(body, "typeName", context), _count(body, "entityCount"), {})
    for name in _names(body.get("attributeNames", []), context):
        info.attributes[name] = set()
    for detail in _list(body.get("attributeDetails", [])):
        info.attributes[_name(detail, "attributeName", context)] = set(_texts(detail.get("attributeTypes", [])))
    return [info]


def _read_attributes(body: Any, context: Context) -> list[AttributeInfo]:
    if isinstance(body, dict) and isinstance(body.get("attributeList"), list):
        return [AttributeInfo(name, 0, set(), set()) for name in _names(body["attributeList"], context)]
    name = _name(body, "attributeName", context)
    kinds = set(_texts(body.get("attributeTypes", [])))
    return [AttributeInfo(name, _count(body, "attributeCount"), kinds, set(_names(body.get("typeNames", []), context)))]


def _name(body: Any, member: str, context: Context) -> str:
    name = body.get(member, body.get("id")) if isinstance(body, dict) else None
    if not isinstance(name, str) or not name:
        raise BadRequestData(f"there is no {member} in it")
    return context.expand_term(name)


def _names(given: Any, context: Context) -> list[str]:
    return [context.expand_term(name) for name in _texts(given)]


def _texts(given: Any) -> list[str]:
    if not all(isinstance(item, str) and item for item in _list(given)):
        raise BadRequestData("there is something else than names in a list of names")
    return list(given)


def _list(given: Any) -> list[Any]:
    if not isinstance(given, list):
        raise BadRequestData("there is no list where one belongs")
    return given


def _count(body: Any, member: str) -> int:
    count = body.get(member, 0)
    return count if type(count) is int and count >= 0 else 0
