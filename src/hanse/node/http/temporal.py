"""/temporal/entities: the past of entities, provided and consumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from hanse.ngsild import errors
from hanse.ngsild.entity import NGSI_LD, TEMPORAL_MEMBERS, Attributes, now_text
from hanse.ngsild.parameters import View, flag, parse_query, parse_query_body, parse_view
from hanse.ngsild.parsing import parse_attribute, parse_entity, parse_fragment
from hanse.ngsild.quality import quality_attributes
from hanse.ngsild.temporal import SCOPE, Page, content_range, represent_evolution
from hanse.ngsild.temporal_parsing import (
    TEMPORAL_PARAMS,
    TemporalQuery,
    parse_scope_instances,
    parse_temporal,
    parse_temporal_body,
    to_us,
)
from hanse.ngsild.uris import check_uri
from hanse.node.distributed import past
from hanse.node.distributed.consumption import consumed
from hanse.node.entity_maps import HEADER as MAP_HEADER
from hanse.node.entity_maps import lifetime, location
from hanse.node.history import History
from hanse.node.http.call import Call, Endpoint, Path, ngsi
from hanse.node.http.results import page_headers
from hanse.node.store.history import Instances

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from hanse.ngsild.contexts import Context
    from hanse.ngsild.query import EntityQuery

VIEW_PARAMS: Final = ("attrs", "pick", "omit", "options", "format", "lang", "datasetId", "local", "via", "entityMap")
QUERY_PARAMS: Final = (
    "id", "type", "idPattern", "q", "csf", "georel", "geometry", "coordinates", "geoproperty", "scopeQ", "qualityQ", "orderBy",
    "collation", "expandValues", "jsonKeys",
)  # fmt: skip
PAGE_PARAMS: Final = ("limit", "offset", "count")
_FORM: Final = frozenset({"options", "format"})


def _history(call: Call) -> History:
    limits = call.node.settings.limits
    return History(call.tenant.store, Instances(limits.instances_default, limits.instances_max))


async def _json(call: Call) -> tuple[Any, Context]:
    call.check_content_type()
    if not (await call.body()).strip():
        raise errors.InvalidRequest("the body is empty; a JSON document belongs there")
    return await call.json()


# --- provision --------------------------------------------------------------------------------------------------------


async def create(call: Call) -> ASGIApp:
    body, context = await _json(call)
    now = now_text()
    entity = parse_entity(_without_scope(body), context, now, temporal=True)
    attributes = entity.attributes | _scope(body, entity.attributes, now)
    if await _history(call).add(entity.id, entity.types, attributes, now):
        return call.created(f"/temporal/entities/{entity.id}")
    return call.no_content()


async def append(call: Call) -> ASGIApp:
    id_ = _id(call)
    body, context = await _json(call)
    now = now_text()
    fragment = parse_fragment(_without_scope(body), context, now, temporal=True)
    if fragment.id not in (None, id_):
        raise errors.BadRequestData(f"the id in the body is not {id_!r}, as in the path; leave it out")
    attributes = fragment.attributes | _scope(body, fragment.attributes, now)
    if not attributes and not fragment.types:
        raise errors.BadRequestData("there is no attribute to be added")
    await _history(call).add_attributes(id_, fragment.types, attributes, now)
    return call.no_content()


async def delete(call: Call) -> ASGIApp:
    await _history(call).remove(_id(call))
    return call.no_content()


async def delete_attribute(call: Call) -> ASGIApp:
    id_ = _id(call)
    attribute = _attribute(call, await call.context())
    dataset = call.params.get("datasetId") or None
    if dataset == "@none":
        dataset = None
    elif dataset is not None:
        check_uri(dataset, "datasetId")
    await _history(call).remove_attribute(id_, attribute, dataset, every=call.flag("deleteAll"))
    return call.no_content()


async def change_instance(call: Call) -> ASGIApp:
    id_ = _id(call)
    if not call.path["attribute"]:
        raise errors.MethodNotAllowed("the name of the attribute is missing in the path")
    instance_id = check_uri(call.path["instance"], "the id of an instance")
    name = call.path["attribute"]
    body, context = await call.json()
    attribute = _attribute(call, context)
    now = now_text()
    if isinstance(body, dict) and body.keys() == {name}:  # an entity fragment with this attribute alone
        body = body[name]
    instances = (
        parse_scope_instances(body, now) if attribute == SCOPE else parse_attribute(name, body, context, now, partial=True)
    )
    if len(instances) != 1:
        raise errors.BadRequestData("exactly one instance can be changed")
    await _history(call).change_instance(id_, attribute, instance_id, instances[0], now)
    return call.no_content()


async def delete_instance(call: Call) -> ASGIApp:
    id_ = _id(call)
    instance_id = check_uri(call.path["instance"], "the id of an instance")
    await _history(call).remove_instance(id_, _attribute(call, await call.context()), instance_id)
    return call.no_content()


def _id(call: Call) -> str:
    return check_uri(call.path["id"], "the id of an entity")


def _attribute(call: Call, context: Context) -> str:
    name = call.path["attribute"]
    return SCOPE if name == "scope" else context.expand_name(name)


def _without_scope(body: Any) -> Any:
    """The scope evolves like an attribute, but has no type or @context to be read by."""
    return {name: value for name, value in body.items() if name != "scope"} if isinstance(body, dict) else body


def _scope(body: dict[str, Any], attributes: Attributes, now: str) -> Attributes:
    """The instances of the scope. Scopes that are said plainly hold for all that is said with them, so from its beginning."""
    if "scope" not in body:
        return {}
    observed = [instance["observedAt"] for instances in attributes.values() for instance in instances if "observedAt" in instance]
    return {SCOPE: parse_scope_instances(body["scope"], min(observed, default=now, key=lambda text: to_us(text) or 0))}


# --- consumption ------------------------------------------------------------------------------------------------------


async def retrieve(call: Call) -> ASGIApp:
    id_ = _id(call)
    context = await call.context()
    asked = parse_temporal(call.params)
    view = _view(parse_view(_without_form(call.params), context), asked)
    page = await (
        _evolution(call, id_, asked, view)
        if call.reading is None
        else past.evolution(call.reading, lambda: _evolution(call, id_, asked, view), id_, asked, view.attrs, context)
    )
    shown = represent_evolution(page.evolutions[0], context, view, asked)
    if not shown:
        raise errors.ResourceNotFound(f"the past of {id_!r} has nothing that pick and omit leave")
    status, headers = _partial(page, asked)
    headers |= await call.tenant.entity_maps.headers(call, [id_])
    return call.answer(shown, context, status=status, headers=headers)


async def _evolution(call: Call, id_: str, asked: TemporalQuery, view: View) -> Page:
    if (federation := call.federation) is None:
        return await _history(call).retrieve(id_, asked, view)
    page, call.warnings = await federation.evolution(_history(call), id_, asked, view)
    return page


async def query(call: Call) -> ASGIApp:
    context = await call.context()
    params = _without_form(call.params)
    asked = parse_temporal(call.params, timerel_required=True)
    found = parse_query(params, context, call.node.settings.limits, call.criteria)
    view = _view(parse_view(params, context), asked)
    _check(call, found, has_type="type" in params)
    return await _answered(call, found, asked, view, context)


async def query_by_post(call: Call) -> ASGIApp:
    body, context = await call.json()
    if not isinstance(body, dict):
        raise errors.BadRequestData('the body of a query is an object with "type": "Query"')
    asked = parse_temporal_body(body, call.params)
    rest = {name: value for name, value in body.items() if name not in ("temporalQ", "aggrParams")}
    found, view = parse_query_body(rest, _without_form(call.params), context, call.node.settings.limits, call.criteria)
    _check(call, found, has_type=any(selector.types for selector in found.selectors) or "entities" in rest)
    return await _answered(call, found, asked, _view(view, asked), context)


def _without_form(params: dict[str, str]) -> dict[str, str]:
    """How instances are shown has names of its own here."""
    plain = {name: value for name, value in params.items() if name not in _FORM}
    options = [option.strip() for option in params.get("options", "").split(",")]
    return plain | {"count": "true"} if "count" in options else plain


def _view(view: View, asked: TemporalQuery) -> View:
    if view.pick_linked or view.omit_linked or view.join:
        raise errors.BadRequestData("entities that relationships lead to are not part of the past; take the braces and join away")
    concise = asked.format == "concise"
    return msgspec.structs.replace(view, format="concise" if concise else "normalized", sys_attrs=asked.sys_attrs)


def _check(call: Call, found: EntityQuery, *, has_type: bool) -> None:
    """A query has to say what it is about; and evolutions only have the order of ids."""
    of_quality = quality_attributes(found.quality) or ()
    attrs = [name for name in (*found.attrs, *of_quality) if name.removeprefix(NGSI_LD) not in TEMPORAL_MEMBERS]
    if not (has_type or attrs or found.q or found.geo or found.scope_q or flag(call.params, "local")):
        raise errors.BadRequestData("say at least one of type, attrs, q, georel and scopeQ, or local=true for everything here")
    if any(order.path != "id" for order in found.order_by):
        raise errors.BadRequestData("the past of entities is ordered by id only; write orderBy=id or orderBy=id;desc")


async def _answered(call: Call, found: EntityQuery, asked: TemporalQuery, view: View, context: Context) -> ASGIApp:
    history = _history(call)
    only, map_headers = await _mapped(call, history, found, asked)

    async def here(found: EntityQuery) -> tuple[Page, int | None]:
        if (federation := call.federation) is None or only is not None:
            return await history.query(found, asked, view, only)
        page, count, call.warnings = await federation.evolutions(history, found, asked, view)
        return page, count

    reading = call.reading if only is None else None
    page, count = await (here(found) if reading is None else past.evolutions(reading, here, found, asked, context))
    shown = [represent_evolution(evolution, context, view, asked) for evolution in page.evolutions]
    status, headers = _partial(page, asked)
    headers |= page_headers(call, found, len(shown), count) | map_headers
    if status == 200 and map_headers and map_headers[MAP_HEADER] != call.headers.get(MAP_HEADER.lower(), "").strip():
        status = 201  # what was made is the map
    if count is not None:
        headers["NGSILD-Results-Count"] = str(count)
    return call.answer([item for item in shown if item], context, status=status, headers=headers)


async def _mapped(
    call: Call, history: History, found: EntityQuery, asked: TemporalQuery
) -> tuple[list[str] | None, dict[str, str]]:
    """The ids of the entity map that the request names or wants made, and the header that says where it is."""
    maps = call.tenant.entity_maps
    reference = call.headers.get(MAP_HEADER.lower(), "").strip()
    if not reference and not call.flag("entityMap"):
        return None, {}
    known = maps.find(reference) if reference else None
    if known is not None:
        return known.ids, {MAP_HEADER: reference}
    made = await maps.freeze(await history.ids(found, asked), lifetime(call))
    return made.ids, {MAP_HEADER: location(made)}


def _partial(page: Page, asked: TemporalQuery) -> tuple[int, dict[str, str]]:
    return (206, {"Content-Range": content_range(page, asked)}) if page.is_partial else (200, {})


_RETRIEVE_PARAMS: Final = (*VIEW_PARAMS, *TEMPORAL_PARAMS)
_QUERY_PARAMS: Final = (*VIEW_PARAMS, *TEMPORAL_PARAMS, *QUERY_PARAMS, *PAGE_PARAMS)
_LOCAL: Final = ("local", "via")

paths: list[Path] = [
    ngsi(
        "/temporal/entities",
        POST=Endpoint(create, params=_LOCAL, makes_tenant=True),
        GET=Endpoint(consumed(query), params=_QUERY_PARAMS),
    ),
    ngsi(
        "/temporal/entities/{id}",
        GET=Endpoint(consumed(retrieve), params=_RETRIEVE_PARAMS),
        DELETE=Endpoint(delete, params=_LOCAL),
    ),
    ngsi("/temporal/entities/{id}/attrs", POST=Endpoint(append, params=_LOCAL)),
    ngsi(
        "/temporal/entities/{id}/attrs/{attribute}",
        DELETE=Endpoint(delete_attribute, params=("datasetId", "deleteAll", *_LOCAL)),
    ),
    ngsi(
        "/temporal/entities/{id}/attrs/{attribute}/{instance}",
        PATCH=Endpoint(change_instance, params=_LOCAL),
        DELETE=Endpoint(delete_instance, params=_LOCAL),
    ),
    ngsi("/temporal/entityOperations/query", POST=Endpoint(consumed(query_by_post), params=(*VIEW_PARAMS, *PAGE_PARAMS))),
]
