"""Subscriptions of NGSI-LD (clauses 5.2.12 to 5.2.15, 5.8.1 to 5.8.6): what they may say, and when one of them fires.

The content part is an `EntityQuery`, so that a subscription fires exactly when the same query would match. Names are expanded
when a subscription comes in and compacted when it is shown; a patch replaces whole members, with the context that the patch came
with. Members that nobody knows are left out; those that are the system's to say (status, counters) are ignored, as the
specification wants.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from hanse.filters import compile_q
from hanse.model import WORLD, InvalidInput, Location, Selector, Subscription
from hanse.ngsild.entity import NULL, Change
from hanse.ngsild.errors import BadRequestData, NgsiLdError
from hanse.ngsild.geofences import geofence_of
from hanse.ngsild.quality import default_measure, parse_quality_member
from hanse.ngsild.query import ENTITY_MEMBERS, EntityQuery, matches
from hanse.ngsild.scope_query import scope_keys, scope_prefixes
from hanse.ngsild.subscription_members import (
    DEFAULT_TRIGGERS,
    ENTITIES_MAX,
    QUERY_READERS,
    READERS,
    Notice,
    Reader,
    Trigger,
    instant_ms,
    notice_to_json,
    present,
    selector_to_json,
)
from hanse.ngsild.uris import check_uri

if TYPE_CHECKING:
    from hanse.ngsild.contexts import Context
    from hanse.ngsild.quality import QualityOf
    from hanse.quality import Registry

CLIENT: Final = "ngsi-ld/"  # what the names of the core's clients begin with that stand for such subscriptions


class NgsiSubscription(Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    id: str
    notification: Notice
    query: EntityQuery = EntityQuery()
    context: Any = None  # what its names were written in; notifications are, too, unless jsonld_context says otherwise
    created_at: str = ""
    modified_at: str = ""
    name: str | None = None
    description: str | None = None
    given_q: str = ""  # as it came, to be shown again
    given_geo: dict[str, Any] | None = None
    given_quality: str = ""
    csf: str = ""
    watched: tuple[str, ...] = ()
    triggers: tuple[Trigger, ...] = ()  # none: the default ones
    time_interval_s: float | None = None
    throttling_s: float | None = None
    is_active: bool | None = None
    expires_at: str | None = None
    expires_ms: int | None = None
    lang: str | None = None
    jsonld_context: str | None = None
    subscriber_location: tuple[float, float] | None = None  # longitude, latitude
    scopes: dict[str, str] = {}

    def has_expired(self, now_ms: int) -> bool:
        return self.expires_ms is not None and self.expires_ms <= now_ms

    def is_live(self, now_ms: int) -> bool:
        return self.is_active is not False and not self.has_expired(now_ms)

    def status(self, now_ms: int) -> str:
        if self.has_expired(now_ms):
            return "expired"
        return "paused" if self.is_active is False else "active"

    @property
    def context_source(self) -> Any:
        """What notifications are written in."""
        return self.jsonld_context if self.jsonld_context is not None else self.context


def settled(subscription: NgsiSubscription) -> NgsiSubscription:
    """The same after it has been read back from JSON, which knows no tuples."""
    geo = subscription.query.geo
    if geo is None:
        return subscription
    geo = msgspec.structs.replace(geo, coordinates=_tuples(geo.coordinates))
    return msgspec.structs.replace(subscription, query=msgspec.structs.replace(subscription.query, geo=geo))


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


class Counters(Struct, omit_defaults=True):
    """How sending goes; kept beside the subscription, because it changes with each notification."""

    times_sent: int = 0
    times_failed: int = 0
    last_notification: str | None = None
    last_success: str | None = None
    last_failure: str | None = None
    failed: bool = False  # the last one did

    def to_json(self) -> dict[str, Any]:
        if not self.times_sent:
            return {}
        return present(
            status="failed" if self.failed else "ok",
            timesSent=self.times_sent,
            timesFailed=self.times_failed,
            lastNotification=self.last_notification,
            lastSuccess=self.last_success,
            lastFailure=self.last_failure,
        )


# --- when it fires ----------------------------------------------------------------------------------------------------


class _When(Struct, frozen=True):
    """The triggers of a subscription, sorted by what they look at."""

    created: bool
    deleted: bool
    updated: bool
    kinds: frozenset[str]  # of changes of attributes
    watched: frozenset[str]


@lru_cache(maxsize=4096)
def _when(triggers: tuple[Trigger, ...], watched: tuple[str, ...]) -> _When:
    chosen = triggers or DEFAULT_TRIGGERS
    updated = "entityUpdated" in chosen
    kinds = {kind for kind in ("created", "updated", "deleted") if updated or f"attribute{kind.capitalize()}" in chosen}
    return _When("entityCreated" in chosen, "entityDeleted" in chosen, updated, frozenset(kinds), frozenset(watched))


def fires(subscription: NgsiSubscription, change: Change, now_ms: int, quality_of: QualityOf | None = None) -> bool:
    """Whether a change is one that this subscription wants to hear of: live, triggered, and the query would match.

    `quality_of` says what the quality of the entity was when the change was accepted; without it, the default measure does.
    """
    return (
        subscription.time_interval_s is None
        and subscription.is_live(now_ms)
        and is_triggered(subscription, change)
        and matches(subscription.query, change.entity, quality_of or default_measure().of_entity(change.at))
    )


def is_triggered(subscription: NgsiSubscription, change: Change) -> bool:
    when = _when(subscription.triggers, subscription.watched)
    watched = when.watched
    if change.kind == "updated":
        kinds = when.kinds
        for attribute in change.attributes:
            if attribute.kind in kinds and (not watched or attribute.name in watched):
                return True
        return when.updated and not watched and is_reclassified(change)
    whole = when.created if change.kind == "created" else when.deleted
    if not whole and change.kind not in when.kinds:
        return False
    attributes = change.entity.attributes
    if watched:
        return not watched.isdisjoint(attributes)
    return whole or bool(attributes)


def shows_deleted(subscription: NgsiSubscription, name: str) -> bool:
    """Whether an attribute that has been deleted is shown, as null, to those who asked to hear of deletions."""
    when = _when(subscription.triggers, subscription.watched)
    return "deleted" in when.kinds and (not when.watched or name in when.watched)


def is_reclassified(change: Change) -> bool:
    before, after = change.before, change.after
    return before is not None and after is not None and (before.types != after.types or before.scopes != after.scopes)


def news(change: Change) -> tuple[str, ...]:
    """What a change tells of, by the names that `core_subscription` waits for: triggers, changed attributes, and scopes."""
    scopes = scope_prefixes(change.entity.scopes)
    if change.kind == "updated":
        names = {"entityUpdated", *scopes}
        for attribute in change.attributes:
            names.add(attribute.name)
            names.add(_ATTRIBUTE_TRIGGER[attribute.kind])
        return tuple(names)
    trigger = "entityCreated" if change.kind == "created" else "entityDeleted"
    return trigger, "entityUpdated", _ATTRIBUTE_TRIGGER[change.kind], *change.entity.attributes, *scopes


_ATTRIBUTE_TRIGGER: Final = {
    "created": "attributeCreated",
    "updated": "attributeUpdated",
    "deleted": "attributeDeleted",
}


def core_subscription(subscription: NgsiSubscription) -> Subscription:
    """What the broker's index can answer of it: never less than `fires` lets through.

    One with a geofence gets only what is located by a single point; see `is_at_a_point`.
    """
    query = subscription.query
    selectors = _core_selectors(query, with_ids=True)
    if len(selectors) > ENTITIES_MAX:
        selectors = _core_selectors(query, with_ids=False)
    return Subscription(
        id=subscription.id,
        client=CLIENT + subscription.id,
        selectors=selectors if len(selectors) <= ENTITIES_MAX else (),
        news=_awaited(subscription),
        q="" if _asks_of_entity(query.q) else query.q,
        quality=query.quality,
        geofence=WORLD if query.geo is None else geofence_of(query.geo),
        scopes=subscription.scopes,
        expires_at_ms=subscription.expires_ms,
    )


def _awaited(subscription: NgsiSubscription) -> tuple[str, ...]:
    """The news that it waits for, of which it needs at least one: whatever is likely to be the rarest."""
    if subscription.watched:
        return subscription.watched
    if subscription.query.scope_q and (keys := scope_keys(subscription.query.scope_q)):
        return keys
    # what everyone waits for sorts nobody out
    return () if set(subscription.triggers) >= set(DEFAULT_TRIGGERS) else subscription.triggers


def _core_selectors(query: EntityQuery, *, with_ids: bool) -> tuple[Selector, ...]:
    """Any of these; of types that must come together, the core looks for the first."""
    selectors = (
        Selector(type=alternative[0] if alternative else None, id=id_, id_pattern=selector.id_pattern)
        for selector in query.selectors
        for alternative in (selector.types or ((),))
        for id_ in ((with_ids and selector.ids) or (None,))
    )
    return tuple(dict.fromkeys(selectors))


def _asks_of_entity(q: str) -> bool:
    """Whether a filter asks for more than attributes, which are all that the core sees."""
    return any(path.names[0] in ENTITY_MEMBERS for path in compile_q(q).paths)


def subscriber_location(subscription: NgsiSubscription) -> Location | None:
    place = subscription.subscriber_location
    return None if place is None else Location(place[1], place[0])


# --- reading ----------------------------------------------------------------------------------------------------------


def parse_subscription(
    body: Any, context: Context, now: str, criteria: Registry | None = None, *, new_id: str = ""
) -> NgsiSubscription:
    """A whole subscription, quality by these criteria; one without an id gets `new_id`. Raises BadRequestData."""
    if not isinstance(body, dict):
        raise BadRequestData("a subscription is a JSON object")
    if body.get("type") != "Subscription":
        raise BadRequestData('the type of a subscription is "Subscription"')
    id_ = check_uri(body["id"], "the id of the subscription") if body.get("id") is not None else new_id
    fields = _members(body, context, criteria, is_patch=False)
    if fields.get("notification") is None:
        raise BadRequestData("a subscription needs a notification with an endpoint")
    return _checked(NgsiSubscription(**fields, id=id_, context=context.source, created_at=now, modified_at=now), fields, now)


def patch_subscription(
    old: NgsiSubscription, body: Any, context: Context, now: str, criteria: Registry | None = None
) -> NgsiSubscription:
    """The subscription with the members of the patch in the place of its own; null takes a member away. Raises BadRequestData."""
    if not isinstance(body, dict):
        raise BadRequestData("a patch of a subscription is a JSON object")
    if body.get("type", "Subscription") != "Subscription":
        raise BadRequestData('the type of a subscription is "Subscription"')
    if body.get("id", old.id) != old.id:
        raise BadRequestData(f"the id of a subscription cannot be changed; leave it out, or write {old.id}")
    fields = _members(body, context, criteria, is_patch=True)
    if "notification" in fields and fields["notification"] is None:
        raise BadRequestData("a subscription needs its notification; it can be replaced, not removed")
    parts = fields.pop("query", None)
    if parts is not None:
        fields["query"] = msgspec.structs.replace(old.query, **parts)
    return _checked(msgspec.structs.replace(old, **fields, modified_at=now), fields, now)


def _members(body: dict[str, Any], context: Context, criteria: Registry | None, *, is_patch: bool) -> dict[str, Any]:
    """Fields of `NgsiSubscription` for the members of a body. A null member is its default, or in a new one no member at all."""
    fields: dict[str, Any] = {}
    query: dict[str, Any] = {}
    for name, value in body.items():
        absent = value is None or value == NULL
        if absent and not is_patch:
            continue
        if name in READERS:
            field, read = READERS[name]
            fields[field] = _DEFAULTS[field] if absent else _read(read, value, name, context)
        elif name == "expiresAt":
            fields["expires_at"], fields["expires_ms"] = (None, None) if absent else (value, instant_ms(value, name))
        elif name == "qualityQ":
            query["quality"] = "" if absent else parse_quality_member(value, context, criteria)
            fields["given_quality"] = "" if absent else value
        elif name in QUERY_READERS:
            field, empty, read = QUERY_READERS[name]
            query[field] = empty if absent else _read(read, value, name, context)
            if name == "q":
                fields["given_q"] = "" if absent else value
            elif name == "geoQ":
                fields["given_geo"] = None if absent else value
    if query:
        fields["query"] = query if is_patch else EntityQuery(**query)
    return fields


def _read(read: Reader, value: Any, name: str, context: Context) -> Any:
    try:
        return read(value, name, context)
    except NgsiLdError:
        raise
    except InvalidInput as error:
        raise BadRequestData(f"{name}: {error}") from None


def _checked(subscription: NgsiSubscription, fields: dict[str, Any], now: str) -> NgsiSubscription:
    """What no member can say alone."""
    query = subscription.query
    if not query.selectors and not subscription.watched:
        raise BadRequestData("a subscription needs entities, watchedAttributes, or both")
    if subscription.time_interval_s is not None:
        if subscription.throttling_s is not None:
            raise BadRequestData("timeInterval and throttling exclude each other; leave one out")
        if subscription.watched:
            raise BadRequestData("timeInterval and watchedAttributes exclude each other; leave one out")
    if fields.get("expires_ms") is not None and fields["expires_ms"] <= instant_ms(now, "now"):
        raise BadRequestData("expiresAt lies in the past; give a time that is yet to come")
    return subscription


_DEFAULTS: Final[dict[str, Any]] = {
    field.name: None if field.default is msgspec.NODEFAULT else field.default
    for field in msgspec.structs.fields(NgsiSubscription)
} | {"scopes": {}}


# --- showing ----------------------------------------------------------------------------------------------------------


def subscription_to_json(
    subscription: NgsiSubscription,
    context: Context,
    counters: Counters,
    now_ms: int,
    *,
    context_url: str | None = None,
    sys_attrs: bool = False,
) -> dict[str, Any]:
    """As clause 5.2.12 has it, with names as `context` has them. `context_url`: where notifications say that theirs is."""
    query, compact = subscription.query, context.compact_iri
    place = subscription.subscriber_location
    shown = present(
        id=subscription.id,
        type="Subscription",
        subscriptionName=subscription.name,
        description=subscription.description,
        entities=[selector_to_json(selector, context) for selector in query.selectors],
        watchedAttributes=[compact(name) for name in subscription.watched],
        timeInterval=subscription.time_interval_s,
        q=subscription.given_q,
        geoQ=_geo_to_json(subscription, context),
        scopeQ=query.scope_q,
        qualityQ=subscription.given_quality,
        csf=subscription.csf,
        datasetId=list(query.dataset_ids),
        lang=subscription.lang,
        expiresAt=subscription.expires_at,
        throttling=subscription.throttling_s,
        scopes=subscription.scopes,
        subscriberLocation=place and {"type": "Point", "coordinates": list(place)},
        jsonldContext=subscription.jsonld_context or context_url,
    )
    if subscription.is_active is not None:
        shown["isActive"] = subscription.is_active
    if subscription.time_interval_s is None or subscription.triggers:
        shown["notificationTrigger"] = list(subscription.triggers or DEFAULT_TRIGGERS)
    shown["notification"] = notice_to_json(subscription.notification, context) | counters.to_json()
    shown["status"] = subscription.status(now_ms)
    if sys_attrs:
        shown["createdAt"], shown["modifiedAt"] = subscription.created_at, subscription.modified_at
    return shown


def _geo_to_json(subscription: NgsiSubscription, context: Context) -> dict[str, Any] | None:
    given, geo = subscription.given_geo, subscription.query.geo
    if given is None or geo is None or "geoproperty" not in given:
        return given
    return given | {"geoproperty": context.compact_iri(geo.geoproperty)}
