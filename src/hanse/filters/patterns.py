"""Patterns of `~=` and `!~=`, by RE2: time linear in the text whatever the pattern, so that no subscription can hang a node."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

import re2

from hanse.model import InvalidInput

MAX_PATTERN_LENGTH: Final = 512
MAX_PATTERN_MEMORY_BYTES: Final = 1 << 20

Search: TypeAlias = Callable[[str], bool]


@lru_cache(maxsize=1024)
def pattern_search(pattern: str) -> Search:
    """Whether the pattern is found anywhere in a text."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise InvalidInput(f"the pattern has {len(pattern)} characters; {MAX_PATTERN_LENGTH} are allowed")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True  # only whether it is found is asked
    options.max_mem = MAX_PATTERN_MEMORY_BYTES
    try:
        search = re2.compile(pattern, options).search
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0]
        words = (reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)).split()
        raise InvalidInput(
            f"the pattern {pattern[:60]!r} cannot be used: {' '.join(words)[:80]}; write it in RE2 syntax"
        ) from None

    def found(text: str) -> bool:
        try:
            return search(text.encode()) is not None
        except UnicodeEncodeError:  # a lone surrogate, which is no text that a pattern could find
            return False

    return found
