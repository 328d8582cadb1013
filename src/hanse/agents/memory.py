"""What the node was told already, so that it is told once: a fingerprint for each attribute.

A new time of arrival alone is no change: an attribute whose `observedAt` is the time of arrival is compared without it. A time
that the source gives is part of what it says: the same value, observed again, is news.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

REMEMBERED_MAX: Final = 200_000  # entities; those longest unchanged are forgotten first, and written once too often

_ENCODER = msgspec.json.Encoder(order="deterministic")
_NAMES: Final = frozenset({"id", "type", "@context", "scope"})


def fingerprint(attribute: Any, arrived: str) -> int:
    if isinstance(attribute, Mapping) and attribute.get("observedAt") == arrived:
        attribute = {name: value for name, value in attribute.items() if name != "observedAt"}
    return hash(_ENCODER.encode(attribute))


class Memory:
    def __init__(self, derived: Iterable[str] = (), bound: int = REMEMBERED_MAX) -> None:
        """`derived`: attributes that follow from others or from the time; they go along with a change and are none."""
        self._derived = frozenset(derived)
        self._bound = bound
        self._told: dict[str, dict[str, int]] = {}

    def __contains__(self, id_: str) -> bool:
        return id_ in self._told

    def change(self, entity: Mapping[str, Any], arrived: str) -> dict[str, Any] | None:
        """The part of an entity that is news, or None; from here on it counts as told."""
        id_ = str(entity["id"])
        told = self._told.get(id_, {})
        prints = {name: fingerprint(value, arrived) for name, value in entity.items() if name not in _NAMES}
        news = {name for name, mark in prints.items() if name not in self._derived and told.get(name) != mark}
        if not news and id_ in self._told:
            return None
        self.learn(id_, told | prints)
        return {name: value for name, value in entity.items() if name in _NAMES or name in news or name in self._derived}

    def vanished(self, entity: Mapping[str, Any]) -> list[str]:
        """What was told of an entity and is not there any more, in a source that gives whole entities; forgotten with this."""
        told = self._told.get(str(entity["id"]), {})
        return [name for name in list(told) if name not in entity and told.pop(name, None) is not None]

    def recall(self, found: Mapping[str, Any], entity: Mapping[str, Any], arrived: str) -> None:
        """What the node has of an entity, from before this memory began. Only what the source speaks of is remembered."""
        told = {}
        for name, value in found.items():
            if name in _NAMES or name not in entity:
                continue
            given = entity[name]
            stamped = isinstance(given, Mapping) and given.get("observedAt") == arrived
            told[name] = fingerprint(value, value.get("observedAt", "") if stamped and isinstance(value, Mapping) else "")
        self.learn(str(found["id"]), told)

    def learn(self, id_: str, told: dict[str, int]) -> None:
        self._told.pop(id_, None)
        self._told[id_] = told
        while len(self._told) > self._bound:
            del self._told[next(iter(self._told))]

    def said(self, id_: str, name: str, value: Any) -> bool:
        """Whether this is what the agent itself wrote last: an echo."""
        mark = self._told.get(id_, {}).get(name)
        if mark is None:
            return False
        return mark in (
            fingerprint(value, ""),
            fingerprint(value, value.get("observedAt", "") if isinstance(value, dict) else ""),
        )

    def forget(self, id_: str, name: str | None = None) -> None:
        if name is None:
            self._told.pop(id_, None)
        elif id_ in self._told:
            self._told[id_].pop(name, None)
