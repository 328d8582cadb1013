"""Where the subscribers are: a dictionary that is always right, and an array of unit vectors that catches up when asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hanse.matching.interned import Interned
from hanse.matching.sphere import unit_vectors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hanse.model import Location


class Clients:
    __slots__ = ("_codes", "_moved", "_vectors", "locations")

    def __init__(self) -> None:
        self.locations: dict[str, Location] = {}
        self._codes: Interned[str] = Interned()
        self._vectors: NDArray[np.float64] | None = None
        self._moved: set[str] = set()

    def move(self, client: str, location: Location | None) -> None:
        if location is None:
            self.locations.pop(client, None)
        else:
            self.locations[client] = location
        if self._vectors is not None and self._codes.find(client) is not None:
            self._moved.add(client)

    def acquire(self, client: str) -> int:
        if self._vectors is not None and self._codes.find(client) is None:
            self._moved.add(client)
        return self._codes.acquire(client)

    def release(self, code: int) -> None:
        client = self._codes.release(code)
        if client is not None:
            self._moved.discard(client)

    def location(self, code: int) -> Location | None:
        client = self._codes.things[code]
        return None if client is None else self.locations.get(client)

    def vectors(self) -> NDArray[np.float64]:
        """The unit vector of each client by its code; NaN where the location is unknown."""
        size = len(self._codes)
        if self._vectors is None or len(self._vectors) < size:
            self._vectors = unit_vectors([self.location(code) for code in range(size)])
            grown = np.full((size + size // 2, 3), np.nan)
            grown[:size] = self._vectors
            self._vectors = grown
        elif self._moved:
            codes = [code for client in self._moved if (code := self._codes.find(client)) is not None]
            if codes:
                self._vectors[codes] = unit_vectors([self.location(code) for code in codes])
        self._moved.clear()
        return self._vectors
