"""Which registrations may concern what is selected, without looking at all of them: each device may have its own.

`candidates` names at least those that `matching_information` finds; property tests hold it to that.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hanse.ngsild.query import EntitySelector, TypeQuery
    from hanse.ngsild.registrations import Registration


class RegistrationIndex:
    def __init__(self) -> None:
        self._order: dict[str, int] = {}  # of all, as they came
        self._came = 0
        self._of_any: set[str] = set()  # entities
        self._by_id: defaultdict[str, set[str]] = defaultdict(set)  # of an entity
        self._by_type: defaultdict[str, set[str]] = defaultdict(set)  # of entities, named or not
        self._open_by_type: defaultdict[str, set[str]] = defaultdict(set)  # of those that are not named

    def add(self, registration: Registration) -> None:
        if registration.id not in self._order:
            self._came += 1
            self._order[registration.id] = self._came
        for _, _, ids in self._places(registration):
            ids.add(registration.id)

    def remove(self, registration: Registration) -> None:
        for places, key, ids in self._places(registration):
            ids.discard(registration.id)
            if places is not None and not ids:
                places.pop(key, None)

    def forget(self, registration: Registration) -> None:
        """Remove it, and its place in the order."""
        self.remove(registration)
        self._order.pop(registration.id, None)

    def _places(self, registration: Registration) -> Iterator[tuple[defaultdict[str, set[str]] | None, str, set[str]]]:
        for info in registration.information:
            if not info.entities:
                yield None, "", self._of_any
            for entity in info.entities:
                if entity.id is not None:
                    yield self._by_id, entity.id, self._by_id[entity.id]
                for name in entity.types:
                    yield self._by_type, name, self._by_type[name]
                    if entity.id is None:
                        yield self._open_by_type, name, self._open_by_type[name]

    def candidates(self, selectors: Sequence[EntitySelector]) -> list[str]:
        """The ids of registrations, in the order in which they came."""
        if not selectors:
            return list(self._order)
        found = set(self._of_any)
        for selector in selectors:
            if selector.ids and selector.id_pattern is None:
                found.update(*(self._by_id.get(id_, ()) for id_ in selector.ids), *_of(self._open_by_type, selector.types))
            else:
                found.update(*_of(self._by_type, selector.types))
        return sorted(found, key=self._order.__getitem__)


def _of(places: dict[str, set[str]], types: TypeQuery) -> Iterable[set[str]]:
    """Of types that must come together, one will do to look for."""
    if not types or not all(types):
        return places.values()
    return (places.get(alternative[0], set()) for alternative in types)
