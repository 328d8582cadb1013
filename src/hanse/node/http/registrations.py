"""/csourceRegistrations: register, retrieve, discover, update, delete context sources (5.9, 5.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hanse.ngsild.entity import now_text
from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.query import EntityQuery
from hanse.ngsild.registrations import parse_registration, parse_sought, patch_registration, represent_registration
from hanse.ngsild.uris import check_uri
from hanse.node.http.call import Call, Endpoint, Path, ngsi
from hanse.node.http.results import page_headers

if TYPE_CHECKING:
    from starlette.types import ASGIApp

DISCOVERY: Final = (
    "id", "type", "idPattern", "attrs", "q", "csf", "georel", "geometry", "coordinates", "geoproperty", "scopeQ", "qualityQ",
    "datasetId", "timerel", "timeAt", "endTimeAt", "timeproperty", "limit", "offset", "count", "options", "lang",
    "geometryProperty",
)  # fmt: skip


async def create(call: Call) -> ASGIApp:
    body, context = await call.json()
    registration = parse_registration(body, context, now_text(), call.criteria)
    await call.tenant.registrations.create(registration)
    return call.created(f"/csourceRegistrations/{registration.id}")


async def retrieve(call: Call) -> ASGIApp:
    registration = call.tenant.registrations.get(_id(call))
    context = await call.context()
    return call.answer(represent_registration(registration, context, sys_attrs="sysAttrs" in call.options), context)


async def discover(call: Call) -> ASGIApp:
    context = await call.context()
    found = call.tenant.registrations.find(parse_sought(call.params, context, call.criteria))
    page = page_of(call)
    shown = [
        represent_registration(registration, context, sys_attrs="sysAttrs" in call.options)
        for registration in found[page.offset : page.offset + page.limit]
    ]
    return call.answer(shown, context, headers=list_headers(call, page, len(shown), len(found)))


async def update(call: Call) -> ASGIApp:
    id_ = _id(call)
    body, context = await call.json()
    old = call.tenant.registrations.get(id_)
    new = patch_registration(old, body, context, now_text(), call.criteria)
    await call.tenant.registrations.replace(old, new)
    return call.no_content()


async def delete(call: Call) -> ASGIApp:
    await call.tenant.registrations.remove(_id(call))
    return call.no_content()


def _id(call: Call) -> str:
    return check_uri(call.path["id"], "the id of a registration")


# --- pages of what is kept in memory -----------------------------------------------------------------------------------


def page_of(call: Call) -> EntityQuery:
    """The page that a request asks for; a limit of 0 is for those who only count."""
    limits, count = call.node.settings.limits, call.flag("count")
    limit = _number(call, "limit", limits.page_default)
    if limit == 0 and not count:
        raise BadRequestData("limit=0 asks for nothing; use it together with count=true")
    if limit > limits.page_max:
        raise BadRequestData(f"limit is at most {limits.page_max}")
    return EntityQuery(limit=limit, offset=_number(call, "offset", 0), count=count)


def _number(call: Call, name: str, default: int) -> int:
    text = call.params.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise BadRequestData(f"{name} is a number that is not negative, not {text[:40]!r}")
    return int(text)


def list_headers(call: Call, page: EntityQuery, shown: int, total: int) -> dict[str, str]:
    headers = page_headers(call, page, shown, total)
    return headers | {"NGSILD-Results-Count": str(total)} if page.count else headers


paths: list[Path] = [
    ngsi("/csourceRegistrations", GET=Endpoint(discover, DISCOVERY), POST=Endpoint(create, makes_tenant=True)),
    ngsi(
        "/csourceRegistrations/{id}",
        GET=Endpoint(retrieve, ("options",)),
        PATCH=Endpoint(update),
        DELETE=Endpoint(delete),
    ),
]
