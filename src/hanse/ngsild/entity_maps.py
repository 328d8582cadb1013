"""Entity maps (clauses 4.5.25, 5.14): the result of a query, frozen as a list of ids, so that its pages fit together.

While a client turns pages the data goes on changing. With a map the candidates stay those of the first query, in their order;
one that no longer fits is left out, and goes from the map.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from hanse.ngsild.errors import BadRequestData

if TYPE_CHECKING:
    from collections.abc import Iterable

LIFETIME_S: Final = 3_600.0  # if the request says nothing
LIFETIME_S_MAX: Final = 86_400.0  # however long a request wants it
LOCAL: Final = "@none"  # where an entity is, if it is here
TYPE: Final = "EntityMap"

_DURATION = re.compile(
    r"P(?=.)(?:(?P<years>\d+(?:\.\d+)?)Y)?(?:(?P<months>\d+(?:\.\d+)?)M)?(?:(?P<weeks>\d+(?:\.\d+)?)W)?(?:(?P<days>\d+(?:\.\d+)?)D)?"
    r"(?:T(?=.)(?:(?P<hours>\d+(?:\.\d+)?)H)?(?:(?P<minutes>\d+(?:\.\d+)?)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.ASCII,
)
_SECONDS: Final = {
    "years": 31_556_952,
    "months": 2_629_746,
    "weeks": 604_800,
    "days": 86_400,
    "hours": 3_600,
    "minutes": 60,
    "seconds": 1,
}
_DURATION_LENGTH_MAX: Final = 64


class EntityMap(Struct, kw_only=True, omit_defaults=True):
    id: str
    expires_at: str
    ids: list[str]  # in the order of the query
    linked: dict[str, str] = {}  # the maps of other sources, by registration

    def is_over(self, now: str) -> bool:
        return self.expires_at <= now


def represent_map(entity_map: EntityMap) -> dict[str, Any]:
    return {
        "id": entity_map.id,
        "type": TYPE,
        "expiresAt": entity_map.expires_at,
        "entityMap": {id_: [LOCAL] for id_ in entity_map.ids},
        "linkedMaps": entity_map.linked,
    }


def map_id(reference: str) -> str:
    """The id that the header NGSILD-EntityMap names: itself, or the last segment of a path or URL."""
    return reference.strip().rstrip("/").rpartition("/")[2]


def expiry(now: str, lifetime_s: float = LIFETIME_S, longest_s: float = LIFETIME_S_MAX) -> str:
    """When something ends that begins now, however long it was meant to be."""
    return written(moment(now, "now") + timedelta(seconds=min(lifetime_s, longest_s)))


def patched_expiry(body: Any, now: str, longest_s: float = LIFETIME_S_MAX) -> str | None:
    """When a map ends, by a fragment of one; None: it says nothing of that. What only the node sets is ignored (5.14.2)."""
    if not isinstance(body, dict):
        raise BadRequestData('a fragment of an EntityMap is an object: {"expiresAt": "2030-01-01T00:00:00Z"}')
    if body.get("type", TYPE) != TYPE:
        raise BadRequestData(f"the type is {TYPE}, not {str(body['type'])[:60]!r}")
    for name in body:
        if name not in ("id", "type", "expiresAt", "entityMap", "linkedMaps"):
            raise BadRequestData(f"an EntityMap has no member {name[:60]!r}")
    if "expiresAt" not in body:
        return None
    wanted = moment(body["expiresAt"], "expiresAt")
    return written(min(wanted, moment(now, "now") + timedelta(seconds=longest_s)))


# --- times, as this and registrations read them ------------------------------------------------------------------------

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:\d\d)", re.ASCII)


def moment(text: Any, what: str) -> datetime:
    """A DateTime (clause 4.6.3). Raises BadRequestData."""
    if isinstance(text, str) and _MOMENT.fullmatch(text):
        try:
            return datetime.fromisoformat(re.sub(r"[.,](\d{1,6})\d*", r".\1", text)).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise BadRequestData(f"{what} is a time like 2030-01-31T12:00:00Z, not {str(text)[:60]!r}")


def written(at: datetime) -> str:
    """As the node writes its own times: UTC with microseconds, so that their order as texts is their order in time."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def duration_s(text: Any, what: str) -> float:
    """An ISO 8601 duration in seconds; a month is a twelfth of a mean year. Raises BadRequestData."""
    found = _DURATION.fullmatch(text) if isinstance(text, str) and len(text) <= _DURATION_LENGTH_MAX else None
    if found is None:
        raise BadRequestData(f"{what} is an ISO 8601 duration like PT15M or P1D, not {str(text)[:60]!r}")
    return sum(float(found[name]) * seconds for name, seconds in _SECONDS.items() if found[name])


def without(ids: list[str], gone: Iterable[str]) -> list[str]:
    missing = frozenset(gone)
    return [id_ for id_ in ids if id_ not in missing]
