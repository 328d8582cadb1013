"""Which entities may be there: of nearly all that are not, it says so without asking the disk.

Whoever creates an entity asks whether there is one already, and to ask the disk would be a fifth of the work for the request. An
id that is known leaves two marks in one byte of a table; where one of them is missing the id is unknown. What is deleted stays
known, and others may have left the same marks: then the disk is asked, as it is if there are too many to read at the start.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

READ_MAX: Final = 500_000  # ids, when a store is opened: a quarter of a second

_BITS: Final = 20
_PLACES: Final = (1 << _BITS) - 1
_MARKS: Final = tuple(1 << (number & 7) | 1 << (number >> 3) for number in range(64))


class KnownIds:
    def __init__(self, ids: Iterable[str]) -> None:
        self._table = bytearray(_PLACES + 1)
        ids = iter(ids)
        for id_ in islice(ids, READ_MAX):
            self.add(id_)
        if next(ids, None) is not None:
            self._table = bytearray(b"\xff") * (_PLACES + 1)

    def add(self, id_: str) -> None:
        number = hash(id_)
        self._table[number & _PLACES] |= _MARKS[number >> _BITS & 63]

    def __contains__(self, id_: str) -> bool:
        """False: it is not there. True: it may be."""
        number = hash(id_)
        marks = _MARKS[number >> _BITS & 63]
        return self._table[number & _PLACES] & marks == marks
