"""An entity as Hanse keeps it, and what a change of one is.

There is one internal shape, whatever representation came in: names of types and attributes are expanded to URIs, every
attribute is a list of its instances (one without a `datasetId` at most, the default one), and an instance is a normalized
attribute, `{"type": "Property", "value": 30, "unitCode": "CEL", ...}`. Members that NGSI-LD names itself keep their short names;
every other member is a sub-attribute: an expanded name, and again a list of instances. Values are kept as they were given.
Times that the node sets (`createdAt`, `modifiedAt`) are UTC with microseconds, so that their order as texts is the one in time.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

Instance: TypeAlias = dict[str, Any]
Attributes: TypeAlias = dict[str, list[Instance]]
Kind: TypeAlias = Literal["created", "updated", "deleted"]

NGSI_LD: Final = "https://uri.etsi.org/ngsi-ld/"
DEFAULT_VOCAB: Final = NGSI_LD + "default-context/"
NULL: Final = "urn:ngsi-ld:null"

LOCATION: Final = NGSI_LD + "location"

VALUE_MEMBER: Final = {  # attribute type -> the member that holds its value
    "Property": "value",
    "GeoProperty": "value",
    "Relationship": "object",
    "LanguageProperty": "languageMap",
    "JsonProperty": "json",
    "VocabProperty": "vocab",
    "ListProperty": "valueList",
    "ListRelationship": "objectList",
}
PREVIOUS_MEMBER: Final = {  # and the one that a notification with showChanges says the old value in
    member: "previous" + member[0].upper() + member[1:] for member in VALUE_MEMBER.values()
}
TEMPORAL_MEMBERS: Final = frozenset({"observedAt", "createdAt", "modifiedAt", "deletedAt"})
# members of an instance that are not sub-attributes; all keep their short names in the internal shape
RESERVED_MEMBERS: Final = (
    frozenset({"type", "unitCode", "datasetId", "instanceId", "objectType", "valueType", "expiresAt", "lang", "ngsildConf"})
    | frozenset({"entity", "entityList", "entityIdSealed", "entityTypeSealed"})
    | TEMPORAL_MEMBERS
    | frozenset(VALUE_MEMBER.values())
    | frozenset(PREVIOUS_MEMBER.values())
)


class Entity(Struct, kw_only=True, omit_defaults=True, gc=False):
    """Treat as frozen: operations make new ones, sharing the attributes that they leave alone."""

    id: str
    types: tuple[str, ...]
    scopes: tuple[str, ...] = ()
    attributes: Attributes = {}
    created_at: str = ""
    modified_at: str = ""
    expires_at: str | None = None


class AttributeChange(Struct, frozen=True, gc=False):
    """What happened to one instance of one attribute."""

    name: str
    kind: Kind
    before: Instance | None
    after: Instance | None  # None: deleted

    @property
    def dataset(self) -> str | None:
        instance = self.after if self.after is not None else self.before
        return instance.get("datasetId") if instance else None


class Change(Struct, frozen=True, gc=False):
    """What one accepted request did to one entity. Log, history and notifications are all made of this."""

    kind: Kind
    at: str
    before: Entity | None  # None: it did not exist
    after: Entity | None  # None: it is deleted
    attributes: tuple[AttributeChange, ...] = ()

    @property
    def entity(self) -> Entity:
        """The entity after the change; as it was, if it is gone."""
        entity = self.after if self.after is not None else self.before
        assert entity is not None
        return entity


encode_entity = msgspec.json.Encoder().encode
decode_entity = msgspec.json.Decoder(Entity).decode


def now_text() -> str:
    """The time, as every request needs it: the part down to the second is made once a second."""
    second, nanosecond = divmod(time.time_ns(), 1_000_000_000)
    return f"{_second_text(second)}.{nanosecond // 1000:06d}Z"


@lru_cache(maxsize=2)
def _second_text(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def default_instance(instances: list[Instance]) -> Instance | None:
    """The one without a datasetId, if there is one."""
    for instance in instances:
        if "datasetId" not in instance:
            return instance
    return None
