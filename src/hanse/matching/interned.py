"""Small numbers for hashable things, counted, so that arrays can speak of them and numbers of forgotten things are used again."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Interned(Generic[T]):
    __slots__ = ("_codes", "_counts", "_free", "things")

    def __init__(self, *first: T) -> None:
        """The `first` things have the codes from 0 on, for ever."""
        self.things: list[T | None] = []
        self._codes: dict[T, int] = {}
        self._counts: list[int] = []
        self._free: list[int] = []
        for thing in first:
            self.acquire(thing)

    def __len__(self) -> int:
        """One more than the greatest code ever given."""
        return len(self.things)

    def find(self, thing: T) -> int | None:
        return self._codes.get(thing)

    def acquire(self, thing: T) -> int:
        code = self._codes.get(thing)
        if code is not None:
            self._counts[code] += 1
            return code
        if self._free:
            code = self._free.pop()
            self.things[code], self._counts[code] = thing, 1
        else:
            code = len(self.things)
            self.things.append(thing)
            self._counts.append(1)
        self._codes[thing] = code
        return code

    def release(self, code: int) -> T | None:
        """The thing, if nobody holds it any more."""
        self._counts[code] -= 1
        if self._counts[code]:
            return None
        thing = self.things[code]
        assert thing is not None
        del self._codes[thing]
        self.things[code] = None
        self._free.append(code)
        return thing
