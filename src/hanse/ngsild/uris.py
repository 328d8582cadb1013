"""What may stand where NGSI-LD wants a URI."""

from __future__ import annotations

import re
from functools import lru_cache

from hanse.ngsild.errors import BadRequestData

URI_LENGTH_MAX = 2048
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:[^\s<>\"{}|\\^`\x00-\x20\x7f]+")

# printable to Unicode, but nothing to be seen: two ids that look alike must not differ
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")


@lru_cache(maxsize=65_536)
def is_uri(text: str) -> bool:
    """Absolute, without blanks and what RFC 3986 forbids; letters beyond ASCII (IRIs) are fine, if one can see them."""
    if len(text) > URI_LENGTH_MAX or _URI.fullmatch(text) is None:
        return False
    return text.isascii() or (text.isprintable() and _INVISIBLE.search(text) is None)


def check_uri(text: object, what: str) -> str:
    if not isinstance(text, str) or not is_uri(text):
        raise BadRequestData(f"{what} is not a URI: {str(text)[:60]!r}; write it like urn:ngsi-ld:Building:1")
    return text
