"""Transient attributes: instances with an `expiresAt` (4.22). Who has one is remembered, durably, until it is removed.

Transient entities are found by their own column in the store; an attribute's end is not in any index, so that it costs nothing to
those who use none. What ends is removed within a second, as if someone had deleted it.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from hanse.node.store import DeleteDocument, PutDocument
from hanse.node.store.times import to_us

if TYPE_CHECKING:
    from hanse.ngsild.entity import Change, Entity
    from hanse.node.store import Store, Write

KIND: Final = "transient"
AT_ONCE: Final = 1_000


class Transient:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._first: dict[str, int] = {}  # entity -> when the first of its instances ends
        self._queue: list[tuple[int, str]] = []  # the same in order, with what is no longer true among it

    def restore(self) -> None:
        for id_, data in self._store.documents(KIND):
            self._remember(id_, int(data))

    def writes(self, change: Change) -> list[Write]:
        """What to store with a change, so that the end of its attributes is not forgotten."""
        for one in change.attributes:
            if (one.after is not None and "expiresAt" in one.after) or (one.before is not None and "expiresAt" in one.before):
                break
        else:
            return []
        id_ = change.entity.id
        first = None if change.after is None else _first_end(change.after)
        if first == self._first.get(id_):
            return []
        if first is None:
            return [self.forget(id_)]
        self._remember(id_, first)
        return [PutDocument(KIND, id_, str(first).encode())]

    def undo(self, id_: str, entity: Entity | None) -> None:
        """A change was not stored after all: what counts is what the entity still is."""
        first = None if entity is None else _first_end(entity)
        if first is None:
            self._first.pop(id_, None)
        elif first != self._first.get(id_):
            self._remember(id_, first)

    def forget(self, id_: str) -> Write:
        self._first.pop(id_, None)
        return DeleteDocument(KIND, id_)

    def due(self, now: str) -> list[str]:
        """Entities of which something has ended. They stay due until a change has removed it."""
        at = to_us(now) or 0
        found: dict[str, None] = {}  # the queue may have one twice
        while self._queue and self._queue[0][0] <= at and len(found) < AT_ONCE:
            first, id_ = heappop(self._queue)
            if self._first.get(id_) == first:
                found[id_] = None
        for id_ in found:
            heappush(self._queue, (self._first[id_], id_))
        return list(found)

    def bounds(self) -> dict[str, tuple[int, int | None]]:
        return {"entities_with_transient_attributes": (len(self._first), None)}

    def _remember(self, id_: str, first: int) -> None:
        self._first[id_] = first
        heappush(self._queue, (first, id_))


def _first_end(entity: Entity) -> int | None:
    ends = (item.get("expiresAt") for instances in entity.attributes.values() for item in instances)
    return min((at for at in (to_us(end) for end in ends if end) if at is not None), default=None)
