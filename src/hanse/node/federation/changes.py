"""A change of an entity as a notification that travels, and as a change again at the other end.

The notification's attributes are those of the entity after the change (of a deleted one, before it), which is what filters
see. What a subscriber may want beyond that is in the payload: one member "@" for the entity, and one for each changed
attribute, by its name, so that export rules which take out an attribute take that out as well.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from hanse.model import Notification
from hanse.model.values import MAX_PAYLOAD
from hanse.ngsild.entity import AttributeChange, Change, Entity, Instance, Kind
from hanse.routing.export import EVENTS

WHOLE = "@"


class _Entity(Struct, omit_defaults=True):
    kind: Kind
    at: str
    created_at: str
    modified_at: str
    scopes: tuple[str, ...] = ()
    expires_at: str | None = None
    types_before: tuple[str, ...] | None = None
    scopes_before: tuple[str, ...] | None = None


class _Attribute(Struct, omit_defaults=True, array_like=True):
    kind: Kind
    dataset: str | None = None
    before: Instance | None = None


_encode = msgspec.json.Encoder().encode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_entity = msgspec.json.Decoder(_Entity).decode
_attributes = msgspec.json.Decoder(list[_Attribute]).decode


def travelling(notification: Notification, change: Change) -> Notification:
    """What a node tells itself of a change, with all that another one needs to make the change of it again."""
    entity = change.entity
    before = change.before if change.kind == "updated" else None
    about = _Entity(
        change.kind,
        change.at,
        entity.created_at,
        entity.modified_at,
        entity.scopes,
        entity.expires_at,
        before.types if before is not None and before.types != entity.types else None,
        before.scopes if before is not None and before.scopes != entity.scopes else None,
    )
    members: dict[str, Any] = {WHOLE: about}
    if change.kind == "updated":
        for attribute in change.attributes:
            members.setdefault(attribute.name, []).append(_Attribute(attribute.kind, attribute.dataset, attribute.before))
    payload = _encode(members).decode()
    if len(payload) > MAX_PAYLOAD:  # what an attribute was before is worth less than that it has changed
        for name, changed in members.items():
            if name != WHOLE:
                members[name] = [_Attribute(attribute.kind, attribute.dataset) for attribute in changed]
        payload = _encode(members).decode()
    return msgspec.structs.replace(notification, payload=payload)


def change_of(notification: Notification) -> Change | None:
    """The change that a notification tells of; None: it tells of something else."""
    if notification.entity is None or not notification.types or not _are_of_ngsi_ld(notification.attributes):
        return None
    if not notification.payload:  # export rules that take out attributes leave it behind
        return _as_the_news_say(notification)
    try:
        members = _members(notification.payload.encode())
        about = _entity(members.pop(WHOLE))
        told = {name: _attributes(raw) for name, raw in members.items()}
    except (msgspec.MsgspecError, KeyError, UnicodeEncodeError):
        return None
    entity = Entity(
        id=notification.entity,
        types=notification.types,
        scopes=about.scopes,
        attributes=notification.attributes,
        created_at=about.created_at,
        modified_at=about.modified_at,
        expires_at=about.expires_at,
    )
    if about.kind == "deleted":
        return Change("deleted", about.at, entity, None, tuple(_all(entity, "deleted")))
    if about.kind == "created":
        return Change("created", about.at, None, entity, tuple(_all(entity, "created")))
    before = msgspec.structs.replace(
        entity,
        types=about.types_before if about.types_before is not None else entity.types,
        scopes=about.scopes_before if about.scopes_before is not None else entity.scopes,
    )
    changes = tuple(_changed(name, attribute, entity) for name, listed in told.items() for attribute in listed)
    return Change("updated", about.at, before, entity, changes)


def _are_of_ngsi_ld(attributes: dict[str, Any]) -> bool:
    """Whether each has instances: anyone may publish something else."""
    return all(
        isinstance(listed, list | tuple) and all(isinstance(instance, dict) for instance in listed)
        for listed in attributes.values()
    )


def _as_the_news_say(notification: Notification) -> Change | None:
    told = set(notification.news)
    attributes = notification.attributes
    try:
        instances = [instance for listed in attributes.values() for instance in listed]
        created_at = min((instance["createdAt"] for instance in instances), default="")
        modified_at = max((instance["modifiedAt"] for instance in instances), default="")
    except (TypeError, KeyError):
        return None  # no entity of NGSI-LD
    scopes = tuple(name for name in notification.news if name.startswith("/"))
    entity = Entity(
        id=notification.entity or "",
        types=notification.types,
        scopes=tuple(scope for scope in scopes if not any(other.startswith(scope + "/") for other in scopes)),
        attributes=attributes,
        created_at=created_at,
        modified_at=modified_at,
    )
    if "entityDeleted" in told:
        return Change("deleted", modified_at, entity, None, tuple(_all(entity, "deleted")))
    if "entityCreated" in told:
        return Change("created", modified_at, None, entity, tuple(_all(entity, "created")))
    changes = [
        AttributeChange(name, "created" if instance["createdAt"] == instance["modifiedAt"] else "updated", None, instance)
        for name, listed in attributes.items()
        if name in told
        for instance in listed
    ]
    gone = (name for name in told if name not in attributes and name not in EVENTS and not name.startswith("/"))
    changes += [AttributeChange(name, "deleted", {"type": "Property"}, None) for name in sorted(gone)]
    return Change("updated", modified_at, entity, entity, tuple(changes)) if changes else None


def _all(entity: Entity, kind: Kind) -> list[AttributeChange]:
    is_new = kind == "created"
    return [
        AttributeChange(name, kind, None if is_new else instance, instance if is_new else None)
        for name, instances in entity.attributes.items()
        for instance in instances
    ]


def _changed(name: str, attribute: _Attribute, entity: Entity) -> AttributeChange:
    instances = entity.attributes.get(name, ())
    after = next((instance for instance in instances if instance.get("datasetId") == attribute.dataset), None)
    if attribute.kind == "deleted":
        return AttributeChange(name, "deleted", attribute.before or {"type": "Property"}, None)
    return AttributeChange(name, attribute.kind, attribute.before, after)
