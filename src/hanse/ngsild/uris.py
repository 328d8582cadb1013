"""What may stand where NGSI-LD wants a URI."""

from __future__ import annotations

import re
from functools import lru_cache

from hanse.ngsild.errors import BadRequestData

URI_LENGTH_MAX = 2048
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:[^\s<>\"{}|\\^`\x00-\x20\x7f]+")


@lru_cache(maxsize=65_536)
def is_uri(text: str) -> bool:
    """Absolute, without blanks and the characters that RFC 3986 forbids; letters beyond ASCII (IRIs) are fine."""
    return len(text) <= URI_LENGTH_MAX and _URI.fullmatch(text) is not None and text.isprintable()


def check_uri(text: object, what: str) -> str:
    if not isinstance(text, str) or not is_uri(text):
        raise BadRequestData(f"{what} is not a URI: {str(text)[:60]!r}; write it like urn:ngsi-ld:Building:1")
    return text
