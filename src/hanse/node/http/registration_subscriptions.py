"""/csourceSubscriptions: subscribe to registrations of context sources (5.11)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hanse.ngsild.entity import now_text
from hanse.ngsild.registration_subscriptions import (
    parse_registration_subscription,
    patch_registration_subscription,
    represent_registration_subscription,
)
from hanse.ngsild.uris import check_uri
from hanse.node.http.call import Call, Endpoint, Path, ngsi
from hanse.node.http.registrations import list_headers, page_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from hanse.ngsild.contexts import Context
    from hanse.ngsild.registration_subscriptions import RegistrationSubscription
    from hanse.ngsild.subscriptions import Counters


async def create(call: Call) -> ASGIApp:
    body, context = await call.json()
    subscription = parse_registration_subscription(body, context, now_text(), call.criteria)
    await call.tenant.registrations.subscriptions.create(subscription)
    return call.created(f"/csourceSubscriptions/{subscription.id}")


async def retrieve(call: Call) -> ASGIApp:
    kept = call.tenant.registrations.subscriptions.get(_id(call))
    context = await call.context()
    return call.answer(_shown(call, kept, context), context)


async def query(call: Call) -> ASGIApp:
    context = await call.context()
    found = call.tenant.registrations.subscriptions.all()
    page = page_of(call)
    shown = [_shown(call, kept, context) for kept in found[page.offset : page.offset + page.limit]]
    return call.answer(shown, context, headers=list_headers(call, page, len(shown), len(found)))


async def update(call: Call) -> ASGIApp:
    id_ = _id(call)
    body, context = await call.json()
    old, _ = call.tenant.registrations.subscriptions.get(id_)
    new = patch_registration_subscription(old, body, context, now_text(), call.criteria)
    await call.tenant.registrations.subscriptions.replace(old, new)
    return call.no_content()


async def delete(call: Call) -> ASGIApp:
    await call.tenant.registrations.subscriptions.remove(_id(call))
    return call.no_content()


def _id(call: Call) -> str:
    return check_uri(call.path["id"], "the id of a subscription")


def _shown(call: Call, kept: tuple[RegistrationSubscription, Counters], context: Context) -> dict[str, Any]:
    now_ms = time.time_ns() // 1_000_000
    subscription, counters = kept
    return represent_registration_subscription(subscription, context, counters, now_ms, sys_attrs="sysAttrs" in call.options)


paths: list[Path] = [
    ngsi(
        "/csourceSubscriptions",
        GET=Endpoint(query, ("limit", "offset", "count", "options")),
        POST=Endpoint(create, makes_tenant=True),
    ),
    ngsi(
        "/csourceSubscriptions/{id}",
        GET=Endpoint(retrieve, ("options",)),
        PATCH=Endpoint(update),
        DELETE=Endpoint(delete),
    ),
]
