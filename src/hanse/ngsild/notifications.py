"""What a subscriber gets: the notification of clause 5.3.1, in the form that the subscription asks for.

A change is shown as the entity after it. What the change took away is shown as null (`urn:ngsi-ld:null`) to those who asked to
hear of deletions; with `showChanges` a changed attribute says its value before. A deleted entity shows when it was deleted, and
little else. A `Letter` is a notification ready for sending: all that a notifier needs, now or after a restart.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import msgspec
from msgspec import Struct

from hanse.ngsild.entity import NULL, PREVIOUS_MEMBER, VALUE_MEMBER, Attributes, Change, Entity, Instance
from hanse.ngsild.geojson import as_feature
from hanse.ngsild.joins import with_linked
from hanse.ngsild.representation import View, represent
from hanse.ngsild.subscription_members import Pairs, Receiver
from hanse.ngsild.subscriptions import NgsiSubscription, shows_deleted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hanse.ngsild.contexts import Context

JSON: Final = "application/json"
LD_JSON: Final = "application/ld+json"
GEO_JSON: Final = "application/geo+json"

_encode = msgspec.json.Encoder().encode
_CONTEXT_REL: Final = "http://www.w3.org/ns/json-ld#context"
_OWN_HEADERS: Final = frozenset({"content-type", "content-length", "transfer-encoding", "connection", "host", "link"})


class Letter(Struct, frozen=True, array_like=True):
    """A notification as it leaves. Letters of one `order` go one after the other; others may overtake them."""

    uri: str
    body: bytes
    headers: Pairs = ()
    order: str = ""
    timeout_s: float | None = None  # None: as the node's settings say
    cooldown_s: float = 0.0
    mqtt_version: str = ""  # "5", "3.1.1", or whichever the broker speaks
    mqtt_qos: int = 0


class LastShown:
    """What was written of the entity that was shown last: subscriptions that want to see a change alike share it."""

    __slots__ = ("entity", "written")

    def __init__(self) -> None:
        self.entity: Entity | None = None
        self.written: dict[object, bytes | None] = {}


@lru_cache(maxsize=256)
def _look(*_what: object) -> object:
    """The same object for the same arguments: quicker to look up than they are."""
    return object()


class Writer:
    """Writes the notifications of one subscription; what does not change from one to the next is made once."""

    __slots__ = (
        "_context",
        "_document",
        "_fetch",
        "_head",
        "_headers",
        "_last",
        "_look",
        "_receiver",
        "_tail",
        "_view",
        "subscription",
    )

    def __init__(
        self,
        subscription: NgsiSubscription,
        context: Context,
        fetch: Callable[[str], Entity | None],
        tenant: str = "",
        last: LastShown | None = None,
    ) -> None:
        """`fetch` finds the entities that relationships point to, for those who want them joined; writers may share `last`."""
        self.subscription = subscription
        self._context = context
        self._fetch = fetch
        self._receiver = receiver = subscription.notification.endpoint
        self._view = view_of(subscription)
        embeds = embeds_context(receiver)
        self._last = last if last is not None else LastShown()
        self._look = _look(self._view, context, embeds)
        self._document = context.document() if embeds else None
        self._headers = headers_of(receiver, None if embeds else context.link_url, tenant)
        self._head = f',"type":"Notification","subscriptionId":{_encode(subscription.id).decode()},"notifiedAt":"'.encode()
        self._tail = b',"@context":' + _encode(self._document) + b"}" if embeds else b"}"

    def body(self, changes: Iterable[Change], now: str) -> bytes | None:
        """The notification as JSON; None if the subscription leaves nothing to show of the changes."""
        return self._notification([changed_entity(self.subscription, change) for change in changes], now)

    def body_of_entities(self, entities: Iterable[Entity], now: str) -> bytes | None:
        """The same for entities as they are, without a change: what a subscription in time gets."""
        return self._notification([(entity, None) for entity in entities], now)

    def letter(self, body: bytes, order: str) -> Letter:
        return sealed(self._receiver, body, self._headers, order)

    def _notification(self, entities: list[tuple[Entity, str | None]], now: str) -> bytes | None:
        data = self._data(entities)
        if data is None:
            return None
        head = f'{{"id":"urn:ngsi-ld:Notification:{uuid4()}"'.encode()
        return b"".join((head, self._head, now.encode(), b'","data":', data, self._tail))

    def _data(self, entities: list[tuple[Entity, str | None]]) -> bytes | None:
        if len(entities) != 1 or entities[0][1] is not None or self._view.join is not None:
            return self._written(entities)
        entity, last = entities[0][0], self._last
        if last.entity is not entity:
            last.entity = entity
            last.written.clear()
        elif self._look in last.written:
            return last.written[self._look]
        written = last.written[self._look] = self._written(entities)
        return written

    def _written(self, entities: list[tuple[Entity, str | None]]) -> bytes | None:
        shown = [item for entity, deleted_at in entities for item in self._shown(entity, deleted_at)]
        if not shown:
            return None
        data: Any = shown
        if self._view.geojson:
            data = {"type": "FeatureCollection", "features": shown}
            if self._document is not None:
                data["@context"] = self._document
        elif self._document is not None:
            for item in shown:
                item["@context"] = self._document
        return _encode(data)

    def _shown(self, entity: Entity, deleted_at: str | None) -> list[dict[str, Any]]:
        """What is to be seen of one entity, and of those that it is linked to."""
        view = self._view
        if view.join is None or deleted_at is not None:
            one = represent(entity, self._context, view)
            if not one:
                return []
            if deleted_at is not None:
                one["deletedAt"] = deleted_at
            return [as_feature(entity, one, view) if view.geojson else one]
        found = with_linked([entity], self._context, view, self._fetch)
        return [as_feature(entity, item, view) for item in found[:1]] if view.geojson else found


def view_of(subscription: NgsiSubscription) -> View:
    notice = subscription.notification
    format_ = notice.format or "normalized"
    return View(
        format="simplified" if format_ == "keyValues" else format_,
        sys_attrs=notice.sys_attrs,
        lang=subscription.lang,
        pick=notice.pick.names,
        omit=notice.omit.names,
        pick_linked=notice.pick.linked,
        omit_linked=notice.omit.linked,
        attrs=notice.attributes,
        dataset_ids=subscription.query.dataset_ids,
        geojson=notice.endpoint.accept == GEO_JSON,
        join=notice.join,
        join_level=notice.join_level or 1,
    )


# --- letters ----------------------------------------------------------------------------------------------------------


def embeds_context(receiver: Receiver) -> bool:
    """Whether the @context is in the body of what this endpoint gets, not in a Link header."""
    if receiver.accept != GEO_JSON:
        return receiver.accept == LD_JSON
    wishes = [text.replace(" ", "") for key, text in receiver.receiver_info if key.lower() == "prefer"]
    return "body=json" not in wishes


def headers_of(receiver: Receiver, link_url: str | None, tenant: str) -> Pairs:
    """What is said beside the body; what the subscriber wants to be told is told as it is."""
    headers = [("Content-Type", receiver.accept or JSON)]
    if link_url is not None:
        headers.append(("Link", f'<{link_url}>; rel="{_CONTEXT_REL}"; type="{LD_JSON}"'))
    if tenant:
        headers.append(("NGSILD-Tenant", tenant))
    return (*headers, *(pair for pair in receiver.receiver_info if pair[0].lower() not in _OWN_HEADERS))


def sealed(receiver: Receiver, body: bytes, headers: Pairs, order: str) -> Letter:
    """A notification, whatever it is about, ready for its endpoint."""
    timeout_s = None if receiver.timeout_ms is None else receiver.timeout_ms / 1000
    cooldown_s = 0.0 if receiver.cooldown_ms is None else receiver.cooldown_ms / 1000
    if not receiver.uri.startswith("mqtt"):
        return Letter(receiver.uri, body, headers, order, timeout_s, cooldown_s)
    info = dict(receiver.notifier_info)
    # MQTT has no headers that every version knows, so that what HTTP says in headers travels beside the body
    whole = b"".join((b'{"metadata":', _encode(dict(headers)), b',"body":', body, b"}"))
    version = info.get("MQTT-Version", "").removeprefix("mqtt").removesuffix(".0")
    return Letter(receiver.uri, whole, (), order, timeout_s, cooldown_s, version, int(info.get("MQTT-QoS", "0")))


# --- what a change looks like -----------------------------------------------------------------------------------------


def changed_entity(subscription: NgsiSubscription, change: Change) -> tuple[Entity, str | None]:
    """The entity that a notification shows of a change, and when it was deleted, if it was."""
    notice = subscription.notification
    if change.kind == "deleted":
        return _deleted_entity(subscription, change), change.at
    entity = change.entity
    if change.kind == "created" or not change.attributes:
        return entity, None
    attributes = entity.attributes
    if notice.only_changed:
        changed = {attribute.name for attribute in change.attributes}
        attributes = {name: instances for name, instances in attributes.items() if name in changed}
    if notice.show_changes:
        attributes = _with_previous(attributes, change)
    gone = _gone(subscription, change)
    if gone:
        attributes = attributes | {name: [*attributes.get(name, ()), *instances] for name, instances in gone.items()}
    if attributes is entity.attributes:
        return entity, None
    return msgspec.structs.replace(entity, attributes=attributes), None


def _deleted_entity(subscription: NgsiSubscription, change: Change) -> Entity:
    """Without attributes, unless their deletion or their old values were asked for."""
    entity = change.entity
    notice = subscription.notification
    attributes: Attributes = {}
    for name, instances in entity.attributes.items():
        if notice.show_changes or shows_deleted(subscription, name):
            attributes[name] = _nulls(instances, subscription, change.at, is_gone=True)
    return msgspec.structs.replace(entity, attributes=attributes)


def _gone(subscription: NgsiSubscription, change: Change) -> Attributes:
    """The attributes, or instances of one, that a change took away, for those who want to hear of it."""
    taken: dict[str, list[Instance]] = {}
    for attribute in change.attributes:
        if attribute.kind == "deleted" and attribute.before is not None and shows_deleted(subscription, attribute.name):
            taken.setdefault(attribute.name, []).append(attribute.before)
    left = change.entity.attributes
    return {name: _nulls(instances, subscription, change.at, is_gone=name not in left) for name, instances in taken.items()}


def _nulls(instances: list[Instance], subscription: NgsiSubscription, at: str, *, is_gone: bool) -> list[Instance]:
    """Each as null; one null for all of them if nothing is left of the attribute."""
    if is_gone and len(instances) > 1:
        default = next((instance for instance in instances if "datasetId" not in instance), instances[0])
        instances = [{name: value for name, value in default.items() if name != "datasetId"}]
    return [_null(instance, subscription, at) for instance in instances]


def _null(before: Instance, subscription: NgsiSubscription, at: str) -> Instance:
    kind = before["type"]
    member = VALUE_MEMBER.get(kind, "value")
    null: Instance = {"type": kind, member: {"@none": NULL} if kind == "LanguageProperty" else NULL}
    if "datasetId" in before:
        null["datasetId"] = before["datasetId"]
    if subscription.notification.sys_attrs:
        null |= {name: before[name] for name in ("createdAt", "modifiedAt") if name in before}
        null["deletedAt"] = at
    if subscription.notification.show_changes and member in before:
        null[PREVIOUS_MEMBER[member]] = before[member]
    return null


def _with_previous(attributes: Attributes, change: Change) -> Attributes:
    """Each changed instance with the value that it had."""
    shown = dict(attributes)
    for attribute in change.attributes:
        before, after = attribute.before, attribute.after
        if attribute.kind != "updated" or before is None or after is None or attribute.name not in shown:
            continue
        member = VALUE_MEMBER.get(before["type"], "value")
        if member not in before:
            continue
        dataset = after.get("datasetId")
        shown[attribute.name] = [
            instance | {PREVIOUS_MEMBER[member]: before[member]} if instance.get("datasetId") == dataset else instance
            for instance in shown[attribute.name]
        ]
    return shown
