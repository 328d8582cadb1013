"""What a pattern of ids surely begins with: then the index of ids helps."""

from __future__ import annotations

from typing import Final

_META: Final = frozenset(".[](){}*+?^$|\\")
_REPEATS: Final = frozenset("*?{")


def literal_prefix(pattern: str) -> str:
    """The empty text if it may begin with anything."""
    if not pattern.startswith("^") or "|" in pattern:
        return ""
    prefix, position = "", 1
    while position < len(pattern):
        character = pattern[position]
        step = 1
        if character == "\\":
            escaped = pattern[position + 1 : position + 2]
            if not escaped or escaped.isalnum() or not escaped.isascii():
                break
            character, step = escaped, 2
        elif character in _META:
            break
        if pattern[position + step : position + step + 1] in _REPEATS and position + step < len(pattern):
            break
        prefix += character
        position += step
    return prefix
