"""Subscriptions to context source registrations (clause 5.11): who hears that a source has come, changed or gone.

Such a subscription says the same things as one to entities (5.2.12) and is read by the same code; what it asks of a registration
is a `Sought`, so that it fires exactly for what a discovery with the same content would find.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from uuid import uuid4

import msgspec
from msgspec import Struct

from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.registrations import (
    Registration,
    Sought,
    matching_information,
    parse_csf,
    parse_time_query,
    represent_info,
    represent_registration,
)
from hanse.ngsild.subscriptions import Counters, NgsiSubscription, parse_subscription, patch_subscription, subscription_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hanse.ngsild.contexts import Context
    from hanse.quality import Registry

Reason: TypeAlias = Literal["newlyMatching", "updated", "noLongerMatching"]

NOTIFICATION: Final = "ContextSourceNotification"
_UNTOLD: Final = ("notificationTrigger",)  # it is about entities


class RegistrationSubscription(Struct, frozen=True, kw_only=True, omit_defaults=True):
    base: NgsiSubscription
    csf: str = ""  # with its names as a registration has them
    temporal_q: dict[str, Any] | None = None  # as given

    @property
    def id(self) -> str:
        return self.base.id

    def sought(self) -> Sought:
        base, query = self.base, self.base.query
        shown = base.notification.attributes
        return Sought(
            selectors=query.selectors,
            # any change may cause a notification if nothing is watched, and any attribute be in it if none is named: then
            # a source of any attribute counts
            attrs=tuple(dict.fromkeys((*base.watched, *shown))) if base.watched and shown else (),
            dataset_ids=frozenset(query.dataset_ids),
            geo=query.geo,
            csf=self.csf,
            scope_q=query.scope_q,
            quality=query.quality,
            time=None if self.temporal_q is None else parse_time_query(self.temporal_q),
        )


def parse_registration_subscription(
    body: Any, context: Context, now: str, criteria: Registry | None = None
) -> RegistrationSubscription:
    base = parse_subscription(body, context, now, criteria, new_id=f"urn:ngsi-ld:Subscription:{uuid4()}")
    return _with_sources(RegistrationSubscription(base=base), body, context)


def patch_registration_subscription(
    old: RegistrationSubscription, body: Any, context: Context, now: str, criteria: Registry | None = None
) -> RegistrationSubscription:
    if isinstance(body, dict) and "type" in body and body["type"] is None:
        raise BadRequestData('the type of a subscription is "Subscription"; it cannot be taken away')
    base = patch_subscription(old.base, body, context, now, criteria)
    return _with_sources(msgspec.structs.replace(old, base=base), body, context)


def _with_sources(subscription: RegistrationSubscription, body: dict[str, Any], context: Context) -> RegistrationSubscription:
    """With those members that only registrations are asked by."""
    if "csf" in body:
        csf = parse_csf(subscription.base.csf, context) if subscription.base.csf else ""
        subscription = msgspec.structs.replace(subscription, csf=csf)
    if "temporalQ" in body:
        time = body["temporalQ"]
        if time is not None:
            if not isinstance(time, dict):
                raise BadRequestData("temporalQ is an object with timerel and timeAt")
            parse_time_query(time)
        subscription = msgspec.structs.replace(subscription, temporal_q=time)
    return subscription


def represent_registration_subscription(
    subscription: RegistrationSubscription, context: Context, counters: Counters, now_ms: int, *, sys_attrs: bool = False
) -> dict[str, Any]:
    shown = subscription_to_json(subscription.base, context, counters, now_ms, sys_attrs=sys_attrs)
    for name in _UNTOLD:
        shown.pop(name, None)
    return shown if subscription.temporal_q is None else shown | {"temporalQ": subscription.temporal_q}


encode_registration_subscription = msgspec.json.Encoder().encode
decode_registration_subscription = msgspec.json.Decoder(RegistrationSubscription).decode


# --- what is told -------------------------------------------------------------------------------------------------------


def reason(sought: Sought, before: Registration | None, after: Registration | None) -> Reason | None:
    """What a change of one registration means to those who seek this; None: nothing."""
    did = before is not None and bool(matching_information(before, sought))
    does = after is not None and bool(matching_information(after, sought))
    if does:
        return "updated" if did else "newlyMatching"
    return "noLongerMatching" if did else None


def notification(
    subscription: RegistrationSubscription, registrations: Iterable[Registration], why: Reason, context: Context, now: str
) -> dict[str, Any]:
    """The message of clause 5.3.2, with only those elements of the registrations that matter to the subscriber."""
    sought = subscription.sought()
    data = [_relevant(registration, sought, context) for registration in registrations]
    told = {
        "id": f"urn:ngsi-ld:{NOTIFICATION}:{uuid4()}",
        "type": NOTIFICATION,
        "subscriptionId": subscription.id,
        "notifiedAt": now,
        "triggerReason": why,
        "data": data,
    }
    if subscription.base.notification.endpoint.accept != "application/ld+json":
        return told
    document = context.document()
    return told | {"data": [item | {"@context": document} for item in data], "@context": document}


def _relevant(registration: Registration, sought: Sought, context: Context) -> dict[str, Any]:
    """The registration without the elements that do not match; all of it, if none does any more. Types are lists here."""
    shown = represent_registration(registration, context)
    information = registration.document["information"]
    positions = matching_information(registration, sought) or range(len(information))
    return shown | {"information": [represent_info(information[position], context, type_lists=True) for position in positions]}
