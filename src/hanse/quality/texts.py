"""What texts may be in observations and indicators, so that XML and JSON can both carry them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from hanse.model.errors import InvalidInput

MAX_CHARACTERS: Final = 65_536

# levels, members of an attribute in NGSI-LD, and what `json_form` adds to those
RESERVED_NAMES: Final = (
    frozenset({"low", "medium", "high"})
    | frozenset({"id", "type", "scope", "value", "object", "languageMap", "json", "vocab", "valueList", "objectList", "lang"})
    | frozenset({"unitCode", "datasetId", "instanceId", "objectType", "valueType", "observedAt", "createdAt", "modifiedAt"})
    | frozenset({"deletedAt", "expiresAt", "ngsildConf", "entity", "entityList", "entityIdSealed", "entityTypeSealed"})
    | frozenset({"previousValue", "previousObject", "previousLanguageMap", "previousJson", "previousVocab"})
    | frozenset({"previousValueList", "previousObjectList", "observationId", "qocIndicator"})
)

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NOT_IN_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)",
    re.ASCII,
)


def check_text(text: str, what: str, characters_max: int = MAX_CHARACTERS) -> None:
    if len(text) > characters_max:
        raise InvalidInput(f"{what}: a text has {len(text)} characters; {characters_max} are allowed")
    if found := _NOT_IN_XML.search(text):
        raise InvalidInput(f"{what}: the character U+{ord(found[0]):04X} cannot stand in XML; leave it out")


def check_name(text: str, what: str) -> None:
    """A word that can stand in a filter and be the name of a sub-property."""
    if not _NAME.fullmatch(text):
        raise InvalidInput(f"{what} is {text[:60]!r}; a name has letters, digits and _ only, and no digit first")
    if text in RESERVED_NAMES:
        raise InvalidInput(f"{what} is {text!r}, which means something else already; choose another name")


def checked_time(text: str, what: str) -> str:
    """A date and time (RFC 3339) as UTC, which is how NGSI-LD has it."""
    found = _TIME.fullmatch(text)
    if found is not None:
        second, fraction, zone = found.groups()
        try:
            moment = datetime.fromisoformat(second + zone.replace("Z", "+00:00"))
            in_utc = second if zone == "Z" else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
        except (ValueError, OverflowError):
            pass
        else:
            return f"{in_utc.rjust(19, '0')}{fraction or ''}Z"
    raise InvalidInput(f"{what} is not a time: {text[:60]!r}; write it like 2026-01-31T12:00:00Z")
