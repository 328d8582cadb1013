"""Remembering the newest of something, and no more."""

from __future__ import annotations

from itertools import islice
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def room(most: int) -> int:
    """The most that there ever is of what `remember` keeps `most` of."""
    return most + most // 4


def remember(memory: dict[K, V], key: K, value: V, most: int) -> None:
    """Put `key` last, and forget the oldest when there are a quarter more than `most`, down to `most`.

    A quarter at a time, because taking the first key out of a dictionary gets slower with each one taken.
    """
    memory.pop(key, None)
    memory[key] = value
    if len(memory) > room(most):
        for old in list(islice(memory, len(memory) - most)):
            del memory[old]
