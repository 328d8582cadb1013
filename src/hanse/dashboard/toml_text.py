"""Values as TOML, for files that a person is given: msgspec reads TOML and cannot write it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

_BARE: Final = re.compile(r"^[A-Za-z0-9_-]+$")


def key(name: str) -> str:
    """A key, in quotes only where it needs them."""
    return name if _BARE.match(name) else value(name)


def value(given: Any) -> str:
    """A value in one line. Strings and numbers are JSON's, but for the one character that only TOML wants written out."""
    if isinstance(given, Mapping):
        if not given:
            return "{}"
        return "{ " + ", ".join(f"{key(str(name))} = {value(item)}" for name, item in given.items()) + " }"
    if isinstance(given, (list, tuple)):
        return "[" + ", ".join(map(value, given)) + "]"
    return msgspec.json.encode(given).decode().replace("\x7f", "\\u007F")


def lines(given: Mapping[str, Any]) -> Iterable[str]:
    """`key = value` for each that says something: what is empty is left out."""
    return (f"{key(name)} = {value(item)}" for name, item in given.items() if item not in ("", [], (), {}, None))
