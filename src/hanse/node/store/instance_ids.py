"""Ids of instances of the past, as they are said and as they are kept.

Those that the store gives itself are 96 bits, kept as such; all others are kept as the texts that they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import getrandbits
from typing import Final

PREFIX: Final = "urn:ngsi-ld:Instance:"
KEY_BYTES: Final = 12

_ENDS: Final = tuple(bytes((number,)) for number in range(256))


def new_keys() -> Iterator[bytes]:
    """New ids for the instances of one change: they differ in their ends only, which costs less than each made anew."""
    while True:
        start = getrandbits(8 * (KEY_BYTES - 1)).to_bytes(KEY_BYTES - 1, "big")
        yield from map(start.__add__, _ENDS)


def new_key() -> bytes:
    return next(new_keys())


def key_of(text: str) -> bytes | str:
    """How an id is kept."""
    if len(text) == len(PREFIX) + 2 * KEY_BYTES and text.startswith(PREFIX):
        digits = text[len(PREFIX) :]
        try:
            key = bytes.fromhex(digits)
        except ValueError:
            return text
        if key.hex() == digits:
            return key
    return text


def text_of(key: bytes | str) -> str:
    """How an id is said."""
    return key if isinstance(key, str) else PREFIX + key.hex()
