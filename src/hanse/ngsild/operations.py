"""What each operation on an entity does to it: the entity as it is in, a `Change` out. Nothing is done in place.

An instance of an attribute is found by its name and datasetId. `append`, `update` and `replace...` put whole instances in the
place of others; `partial_update` and `merge` change members of them. The time of creation of whatever stays in place is kept, of
attributes and of the attributes of attributes. A change that does not change anything is None.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType

from hanse.ngsild.entity import (
    NGSI_LD,
    NULL,
    RESERVED_MEMBERS,
    VALUE_MEMBER,
    AttributeChange,
    Attributes,
    Change,
    Entity,
    Instance,
)
from hanse.ngsild.errors import BadRequestData, ResourceNotFound
from hanse.ngsild.parsing import Fragment
from hanse.ngsild.patching import instance_patched, resolved
from hanse.ngsild.values import check_date_time

SCOPE: Final = NGSI_LD + "scope"


class Outcome(Struct, frozen=True, gc=False):
    change: Change | None
    updated: tuple[str, ...] = ()  # names of attributes, expanded
    not_updated: tuple[tuple[str, str], ...] = ()  # and of those that stayed as they were, with the reason
    missing: tuple[str, ...] = ()  # and of those that were to be deleted, and are not there


def create(entity: Entity, now: str) -> Change:
    changes = [AttributeChange(name, "created", None, item) for name, items in entity.attributes.items() for item in items]
    return Change("created", now, None, entity, tuple(changes))


def delete(entity: Entity, now: str) -> Change:
    changes = [AttributeChange(name, "deleted", item, None) for name, items in entity.attributes.items() for item in items]
    return Change("deleted", now, entity, None, tuple(changes))


def replace(old: Entity, new: Entity, now: str) -> Change:
    """Another entity in the place of the old one, which had the same id: only its time of creation stays."""
    changes: list[AttributeChange] = []
    for name, instances in old.attributes.items():
        others = new.attributes.get(name, ())
        for item in instances:
            if _of_dataset(others, item.get("datasetId")) is None:
                changes.append(AttributeChange(name, "deleted", item, None))
    attributes: Attributes = {}
    for name, instances in new.attributes.items():
        others = old.attributes.get(name, ())
        attributes[name] = placed = []
        for item in instances:
            before = _of_dataset(others, item.get("datasetId"))
            put = item if before is None else as_old_as(item, before)
            changes.append(AttributeChange(name, "created" if before is None else "updated", before, put))
            placed.append(put)
    after = Entity(
        id=old.id,
        types=new.types,
        scopes=new.scopes,
        attributes=attributes,
        created_at=old.created_at,
        modified_at=now,
        expires_at=new.expires_at,
    )
    return Change("updated", now, old, after, tuple(changes))


def append(entity: Entity, fragment: Fragment, now: str, overwrite: bool = True) -> Outcome:
    """Put whole instances there. Without `overwrite`, those that exist already stay; scopes are added to then."""
    work = _Work(entity, now)
    for name, instances in fragment.attributes.items():
        for item in instances:
            old = work.find(name, item.get("datasetId"))
            if not overwrite and old is not None:
                work.refuse(name, "it exists already, and noOverwrite was asked for")
            else:
                work.put(name, resolved(item, old, name, expand=fragment.context.expand_term), old)
    scopes = fragment.scopes
    if scopes is not None and not overwrite:
        scopes = _union(entity.scopes, scopes)
    expires: str | UnsetType | None = UNSET
    if fragment.expires_at is not None and (overwrite or entity.expires_at is None):
        expires = fragment.expires_at
    return work.outcome(types=_union(entity.types, fragment.types), scopes=scopes, expires_at=expires)


def update(entity: Entity, fragment: Fragment, now: str) -> Outcome:
    """Put whole instances there, in the place of those that exist, or new; NGSI-LD's Null deletes. Types are added to."""
    work = _Work(entity, now)
    for name, instances in fragment.attributes.items():
        for item in instances:
            if deletes(item):
                if not work.delete(name, item):
                    work.refuse(name, "there is no such attribute to be deleted")
            else:
                old = work.find(name, item.get("datasetId"))
                work.put(name, resolved(item, old, name, expand=fragment.context.expand_term), old)
    scopes = fragment.scopes
    if scopes is not None and not entity.scopes:
        work.refuse(SCOPE, "the entity has no scope to be updated; append one")
        scopes = None
    return work.outcome(types=_union(entity.types, fragment.types), scopes=scopes, expires_at=_expiry(fragment))


def merge(entity: Entity, fragment: Fragment, now: str, observed_at: str | None = None, lang: str | None = None) -> Outcome:
    """Merge member by member, down to the members of values (JSON Merge Patch, with NGSI-LD's Null to delete).

    `observed_at` is the time of what had such a time and gets none by the patch; `lang` the language of plain texts.
    """
    if observed_at is not None:
        observed_at = check_date_time(observed_at, "observedAt")
    work = _Work(entity, now)
    for name, instances in fragment.attributes.items():
        for item in instances:
            old = work.find(name, item.get("datasetId"))
            if deletes(item):
                work.delete(name, item)
            elif old is None:
                work.put(name, resolved(item, None, name, lang=lang, expand=fragment.context.expand_term), None)
            else:
                new = instance_patched(old, item, name, now, deep=True, lang=lang, expand=fragment.context.expand_term)
                if new.get("languageMap") == {}:  # its last text is deleted
                    work.remove(name, old)
                    continue
                if observed_at is not None and "observedAt" in old and "observedAt" not in item:
                    new["observedAt"] = observed_at
                work.set(name, old, new)
    return work.outcome(types=_union(entity.types, fragment.types), scopes=fragment.scopes, expires_at=_expiry(fragment))


def partial_update(entity: Entity, name: str, instances: Iterable[Instance], now: str) -> Outcome:
    """Change members of instances that exist, each as a whole; NGSI-LD's Null deletes the member, or the instance."""
    work = _Work(entity, now)
    for item in instances:
        old = _existing(work, entity, name, item)
        if deletes(item):
            work.delete(name, item)
            continue
        kind = old["type"]
        if "type" in item and item["type"] != kind:
            raise BadRequestData(
                f"the attribute is a {kind}; a partial update cannot make it a {item['type']}, replace it instead"
            )
        work.set(name, old, instance_patched(old, item, name, now, deep=False))
    return work.outcome()


def replace_attribute(entity: Entity, name: str, instances: Iterable[Instance], now: str) -> Outcome:
    """Put whole instances in the place of those that exist, maybe of another kind."""
    work = _Work(entity, now)
    for item in instances:
        work.put(name, item, _existing(work, entity, name, item))
    return work.outcome()


def delete_attribute(entity: Entity, name: str, dataset_id: str | None, delete_all: bool, now: str) -> Outcome:
    """Delete the instance with the datasetId, or without one; or all of them. The scope of an entity goes the same way."""
    work = _Work(entity, now)
    if name == SCOPE:
        if not entity.scopes:
            raise ResourceNotFound(f"the entity {entity.id!r} has no scope")
        return work.outcome(scopes=(), updated=(SCOPE,))
    if name.startswith("@"):
        raise BadRequestData("the id and the type of an entity cannot be deleted")
    if name not in entity.attributes:
        raise ResourceNotFound(f"the entity {entity.id!r} has no attribute {name!r}")
    if delete_all:
        for item in entity.attributes[name]:
            work.remove(name, item)
    else:
        work.remove(
            name, _existing(work, entity, name, {"datasetId": dataset_id} if dataset_id and dataset_id != "@none" else {})
        )
    return work.outcome()


def purge(
    entity: Entity | None, now: str, *, keep: Collection[str] | None = None, drop: Collection[str] | None = None
) -> Change | None:
    """Delete the entity; or only the attributes in `drop`; or all but those in `keep`."""
    if entity is None:
        return None
    if keep is None and drop is None:
        return delete(entity, now)
    work = _Work(entity, now)
    for name, instances in entity.attributes.items():
        if (drop is not None and name in drop) or (keep is not None and name not in keep):
            for item in instances:
                work.remove(name, item)
    no_scope = entity.scopes and ((drop is not None and SCOPE in drop) or (keep is not None and SCOPE not in keep))
    return work.outcome(scopes=() if no_scope else None).change


def expire(entity: Entity | None, now: str) -> Change | None:
    """Delete what is transient and past its time: the entity, or instances of its attributes."""
    if entity is None:
        return None
    moment = datetime.fromisoformat(now)
    if _past(entity.expires_at, moment):
        return delete(entity, now)
    work = _Work(entity, now)
    for name, instances in entity.attributes.items():
        for item in instances:
            if _past(item.get("expiresAt"), moment):
                work.remove(name, item)
    return work.outcome().change


def deletes(item: Instance) -> bool:
    """Whether an instance in a patch says NGSI-LD's Null: the one in its place is to be deleted."""
    return item.get(VALUE_MEMBER[item["type"]] if "type" in item else "value") == NULL or (
        "type" not in item and any(item.get(member) == NULL for member in VALUE_MEMBER.values())
    )


class _Work:
    """An entity under change: what it will be, and what has happened to it on the way."""

    __slots__ = ("attributes", "before", "changes", "missing", "names", "now", "refused")

    def __init__(self, before: Entity, now: str) -> None:
        self.before = before
        self.now = now
        self.attributes: Attributes = before.attributes.copy()
        self.changes: list[AttributeChange] = []
        self.names: dict[str, None] = {}
        self.refused: dict[str, str] = {}
        self.missing: dict[str, None] = {}

    def find(self, name: str, dataset: str | None) -> Instance | None:
        return _of_dataset(self.attributes.get(name, ()), dataset)

    def refuse(self, name: str, reason: str) -> None:
        self.refused[name] = reason

    def put(self, name: str, item: Instance, old: Instance | None) -> None:
        """A whole instance, in the place of the one with its datasetId, which is what `find` gives; or new."""
        if old is None:
            self.attributes[name] = [*self.attributes.get(name, ()), item]
            self.changes.append(AttributeChange(name, "created", None, item))
            self.names[name] = None
        else:
            self.set(name, old, as_old_as(item, old))

    def set(self, name: str, old: Instance, new: Instance) -> None:
        self.attributes[name] = [new if item is old else item for item in self.attributes[name]]
        self.changes.append(AttributeChange(name, "updated", old, new))
        self.names[name] = None

    def delete(self, name: str, item: Instance) -> bool:
        """What a Null says is to be deleted: one instance; all of them, if it stood for the attribute itself."""
        if "type" not in item and "createdAt" not in item:
            found = list(self.attributes.get(name, ()))
        else:
            old = self.find(name, item.get("datasetId"))
            found = [] if old is None else [old]
        for old in found:
            self.remove(name, old)
        if not found:
            self.missing[name] = None
        return bool(found)

    def remove(self, name: str, old: Instance) -> None:
        rest = [item for item in self.attributes[name] if item is not old]
        if rest:
            self.attributes[name] = rest
        else:
            del self.attributes[name]
        self.changes.append(AttributeChange(name, "deleted", old, None))
        self.names[name] = None

    def outcome(
        self,
        *,
        types: tuple[str, ...] | None = None,
        scopes: tuple[str, ...] | None = None,
        expires_at: str | UnsetType | None = UNSET,
        updated: tuple[str, ...] = (),
    ) -> Outcome:
        before = self.before
        types = before.types if types is None else types
        expires = before.expires_at if expires_at is UNSET else expires_at
        names = [name for name in self.names if name not in self.refused]
        if scopes is not None:
            names += [] if updated else [SCOPE]
        else:
            scopes = before.scopes
        change = None
        if self.changes or types != before.types or scopes != before.scopes or expires != before.expires_at:
            after = Entity(
                id=before.id,
                types=types,
                scopes=scopes,
                attributes=self.attributes,
                created_at=before.created_at,
                modified_at=self.now,
                expires_at=expires,
            )
            change = Change("updated", self.now, before, after, tuple(self.changes))
        return Outcome(change, (*names, *updated), tuple(self.refused.items()), tuple(self.missing))


def as_old_as(new: Instance, old: Instance) -> Instance:
    """The new instance with the old one's time of creation, and so for the attributes of it that were there before."""
    result = {**new, "createdAt": old.get("createdAt", new.get("createdAt"))}
    for name, instances in new.items():
        if name in RESERVED_MEMBERS or name not in old:
            continue
        by_dataset = {item.get("datasetId"): item for item in old[name]}
        result[name] = [
            as_old_as(item, by_dataset[item.get("datasetId")]) if item.get("datasetId") in by_dataset else item
            for item in instances
        ]
    return result


def _of_dataset(instances: Iterable[Instance], dataset: str | None) -> Instance | None:
    for item in instances:
        if item.get("datasetId") == dataset:
            return item
    return None


def _existing(work: _Work, entity: Entity, name: str, item: Instance) -> Instance:
    dataset = item.get("datasetId")
    old = work.find(name, dataset)
    if old is None:
        if name not in entity.attributes:
            raise ResourceNotFound(f"the entity {entity.id!r} has no attribute {name!r}")
        which = f"with the datasetId {dataset!r}" if dataset else "without a datasetId"
        raise ResourceNotFound(f"the attribute {name!r} of {entity.id!r} has no instance {which}")
    return old


def _union(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(old + new)) if new else old


def _expiry(fragment: Fragment) -> str | UnsetType | None:
    if fragment.expires_at is None:
        return UNSET
    return None if fragment.expires_at == NULL else fragment.expires_at


def _past(text: Any, moment: datetime) -> bool:
    return text is not None and datetime.fromisoformat(text) <= moment
