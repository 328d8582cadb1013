"""One entity out of what several sources say of it (4.5.5).

An instance of an attribute (its name and datasetId) is as the source says that knows the newest of it: by the time of
observation, else of modification. Of what is equally new the greater text wins, so that it never matters who answers first.
Auxiliary sources have a say only where nobody else has.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hanse.ngsild.entity import Entity, Instance
from hanse.ngsild.parsing import parse_entity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hanse.ngsild.contexts import Context
    from hanse.ngsild.entity import Attributes

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_encode = msgspec.json.Encoder(order="sorted").encode


def merged(entities: Sequence[Entity], auxiliary: Sequence[Entity] = ()) -> Entity | None:
    """What they say together; None if there are none."""
    if not entities:
        return merged(auxiliary) if auxiliary else None
    found = _gathered(entities)
    for key, instance in _gathered(auxiliary).items():
        found.setdefault(key, instance)
    attributes: Attributes = {}
    for (name, _), instance in sorted(found.items(), key=lambda item: item[0]):
        attributes.setdefault(name, []).append(instance)
    return Entity(
        id=entities[0].id,
        types=together([entity.types for entity in entities]),
        scopes=together([entity.scopes for entity in entities if entity.scopes]),
        attributes=attributes,
        created_at=min((entity.created_at for entity in entities if entity.created_at), default=""),
        modified_at=max(entity.modified_at for entity in entities),
        expires_at=_last([entity.expires_at for entity in entities]),
    )


def _gathered(entities: Iterable[Entity]) -> dict[tuple[str, str], Instance]:
    """The newest of each instance, by the name of its attribute and its datasetId."""
    found: dict[tuple[str, str], Instance] = {}
    for entity in entities:
        for name, instances in entity.attributes.items():
            for instance in instances:
                key = (name, instance.get("datasetId", ""))
                if key not in found or _newness(instance) > _newness(found[key]):
                    found[key] = instance
    return found


def _newness(instance: Instance) -> tuple[datetime, datetime, bytes]:
    modified = _time(instance.get("modifiedAt"))
    return (_time(instance["observedAt"]) if "observedAt" in instance else modified), modified, _encode(instance)


def _time(text: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return _LONG_AGO
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def together(given: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """All names that any of them has; in their order, if they agree."""
    if len(set(given)) == 1:
        return given[0]
    return tuple(sorted({name for names in given for name in names}))


def _last(times: Sequence[str | None]) -> str | None:
    given = [time for time in times if time is not None]
    return max(given) if len(given) == len(times) else None


def read_entity(body: Any, context: Context) -> Entity:
    """An entity as another source shows it, normalized or concise, with the times that it says. Raises BadRequestData."""
    entity = parse_entity(body, context, "")
    entity.created_at, entity.modified_at = said(body, "createdAt"), said(body, "modifiedAt")
    for name, value in body.items():
        instances = entity.attributes.get(context.expand_term(name))
        if instances is not None:
            put_times(instances, value, context)
    return entity


def put_times(instances: list[Instance], value: Any, context: Context) -> None:
    """Give the instances of an attribute, and what is below them, the times that were said, and no others."""
    bodies = value if isinstance(value, list) and len(value) == len(instances) else [value]
    for instance, body in zip(instances, bodies, strict=False):
        for member in ("createdAt", "modifiedAt"):
            if text := said(body, member):
                instance[member] = text
            else:
                instance.pop(member, None)
        if isinstance(body, dict):
            for name, inner in body.items():
                below = instance.get(context.expand_term(name))
                if isinstance(below, list) and below and isinstance(below[0], dict) and "createdAt" in below[0]:
                    put_times(below, inner, context)


def said(body: Any, member: str) -> str:
    """A time that somebody says; empty if it is none."""
    text = body.get(member) if isinstance(body, dict) else None
    return text if isinstance(text, str) and _time(text) != _LONG_AGO else ""
