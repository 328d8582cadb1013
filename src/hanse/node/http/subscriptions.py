"""/subscriptions, what other sources tell for them, and what could not be delivered: /hanse/v1/dead-letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import uuid4

from hanse.ngsild.entity import now_text
from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.query import EntityQuery
from hanse.ngsild.subscriptions import parse_subscription
from hanse.ngsild.uris import check_uri
from hanse.node.http.answers import JSON, Answer
from hanse.node.http.call import Call, Endpoint, Path, native, ngsi
from hanse.node.http.results import page_headers, whole_number

if TYPE_CHECKING:
    from starlette.types import ASGIApp

OFFSET_MAX: Final = 1 << 53


async def create(call: Call) -> ASGIApp:
    body, context = await call.json()
    new_id = f"urn:ngsi-ld:Subscription:{uuid4()}"
    subscription = parse_subscription(body, context, now_text(), call.criteria, new_id=new_id)
    await call.tenant.subscriptions.add(subscription)
    if "via" in call.headers or body.get("localOnly") is True:
        await call.tenant.remote_subscriptions.keep_local(subscription.id)
    call.tenant.remote_subscriptions.changed(subscription.id)
    return call.created(f"/subscriptions/{subscription.id}")


async def query(call: Call) -> ASGIApp:
    context = await call.context()
    limits = call.node.settings.limits
    wants_count = call.flag("count")
    limit = whole_number(call, "limit", limits.page_default, limits.page_max)
    offset = whole_number(call, "offset", 0, OFFSET_MAX)
    if limit == 0 and not wants_count:
        raise BadRequestData("limit=0 asks for nothing but the count; add count=true")
    subscriptions = call.tenant.subscriptions
    found, count = subscriptions.page(limit, offset)
    sys_attrs = "sysAttrs" in call.options
    headers = page_headers(call, EntityQuery(limit=limit, offset=offset), len(found), count)
    if wants_count:
        headers["NGSILD-Results-Count"] = str(count)
    shown = [subscriptions.shown(live, context, sys_attrs=sys_attrs) for live in found]
    return call.answer(shown, context, headers=headers)


async def retrieve(call: Call) -> ASGIApp:
    id_ = _id(call)
    context = await call.context()
    subscriptions = call.tenant.subscriptions
    return call.answer(subscriptions.shown(subscriptions.get(id_), context, sys_attrs="sysAttrs" in call.options), context)


async def update(call: Call) -> ASGIApp:
    id_ = _id(call)
    body, context = await call.json()
    await call.tenant.subscriptions.update(id_, body, context)
    call.tenant.remote_subscriptions.changed(id_)
    return call.no_content()


async def delete(call: Call) -> ASGIApp:
    await call.tenant.subscriptions.delete(id_ := _id(call))
    call.tenant.remote_subscriptions.changed(id_)
    return call.no_content()


async def told(call: Call) -> ASGIApp:
    """A notification of another source, for a subscription here that it has a copy of."""
    body, context = await call.json()
    await call.tenant.remote_subscriptions.told(body, context)
    return call.no_content()


def _id(call: Call) -> str:
    return check_uri(call.path["id"], "the id of a subscription")


# --- dead letters -----------------------------------------------------------------------------------------------------


async def dead_letters(call: Call) -> ASGIApp:
    """Oldest first; `after` is the id of the last one seen."""
    limits = call.node.settings.limits
    limit = whole_number(call, "limit", limits.page_default, limits.page_max)
    return call.answer(call.tenant.notifier.dead_letters(limit, whole_number(call, "after", 0, OFFSET_MAX)))


async def dead_letter(call: Call) -> ASGIApp:
    return call.answer(call.tenant.notifier.dead_letter(_letter_id(call)))


async def resend(call: Call) -> ASGIApp:
    await call.tenant.notifier.resend(_letter_id(call))
    return Answer(202)


async def remove(call: Call) -> ASGIApp:
    await call.tenant.notifier.remove(_letter_id(call))
    return call.no_content()


def _letter_id(call: Call) -> int:
    text = call.path["id"]
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BadRequestData(f"the id of a dead letter is a number, not {text[:40]!r}")
    return int(text)


paths: list[Path] = [
    ngsi(
        "/subscriptions",
        POST=Endpoint(create, makes_tenant=True),
        GET=Endpoint(query, params=("limit", "offset", "count", "options", "local")),
    ),
    ngsi(
        "/subscriptions/{id}",
        GET=Endpoint(retrieve, params=("options", "local")),
        PATCH=Endpoint(update, params=("local",)),
        DELETE=Endpoint(delete, params=("local",)),
    ),
    native("/remote-notifications", POST=Endpoint(told)),
    native("/dead-letters", GET=Endpoint(dead_letters, params=("limit", "after"), offers=(JSON,))),
    native("/dead-letters/{id}", GET=Endpoint(dead_letter, offers=(JSON,)), DELETE=Endpoint(remove)),
    native("/dead-letters/{id}/resend", POST=Endpoint(resend)),
]
