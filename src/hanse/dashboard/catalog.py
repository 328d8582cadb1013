"""Which types and attributes there are, as nodes tell; for lists to choose from and for suggestions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from msgspec import Struct, field

from hanse.client import NgsiLdClientError

if TYPE_CHECKING:
    from hanse.client import NodeClient

TYPES: Final = "/ngsi-ld/v1/types"
TYPES_MAX: Final = 100  # of one node
RELATIONSHIP: Final = "Relationship"


class TypeKnown(Struct):
    """How many entities of a type there are, and the kinds of attribute that each of their attributes is."""

    count: int = 0
    attributes: dict[str, set[str]] = field(default_factory=dict)


class Catalog(Struct):
    """By the name of the type; of all nodes that were asked together."""

    types: dict[str, TypeKnown] = field(default_factory=dict)

    def add(self, said: dict[str, Any]) -> None:
        """What a node says of one type (EntityTypeInfo)."""
        known = self.types.setdefault(str(said["typeName"]), TypeKnown())
        known.count += int(said.get("entityCount", 0))
        for one in said.get("attributeDetails", ()):
            known.attributes.setdefault(str(one["attributeName"]), set()).update(one.get("attributeTypes", ()))

    def attributes(self, type_: str = "") -> list[str]:
        """Of a type; of all of them, if it is not known."""
        chosen = [self.types[type_]] if type_ in self.types else self.types.values()
        return sorted({name for known in chosen for name in known.attributes})

    def relationships(self) -> list[str]:
        return sorted({n for known in self.types.values() for n, kinds in known.attributes.items() if RELATIONSHIP in kinds})


async def read_catalog(clients: Iterable[NodeClient]) -> Catalog:
    """Of all these nodes; one that does not answer, or does not tell, adds nothing."""
    catalog = Catalog()
    for told in await asyncio.gather(*(_told(client) for client in clients)):
        for said in told:
            catalog.add(said)
    return catalog


async def _told(client: NodeClient) -> list[dict[str, Any]]:
    try:
        names = (await client.types())[:TYPES_MAX]
        answers = await asyncio.gather(*(client.request("GET", f"{TYPES}/{quote(name, safe='')}") for name in names))
    except (NgsiLdClientError, OSError):
        return []
    return [answer.data for answer in answers]
