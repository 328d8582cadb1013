"""In which order entities come (clause 4.23): `orderBy=type;asc,name.subProperty;desc,location;dist-asc`.

Numbers come before texts, texts before booleans, and entities without a value at the path come last, ascending or descending.
Several values at one path count as the one that comes first in the order asked for. Entities that are equal in all of it are
ordered by id. Texts are compared by code points, or, with a collation, by base letters first, then accents, then case: the
root order of Unicode for nearly all texts, whatever language the collation names.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cmp_to_key, lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from hanse.filters.paths import parse_path, path_getter, renamed_path
from hanse.model import InvalidInput
from hanse.ngsild.entity import RESERVED_MEMBERS
from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.geo import distance_m, parse_geo_query
from hanse.ngsild.query import ENTITY_MEMBERS, Order, with_members

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hanse.ngsild.contexts import Context
    from hanse.ngsild.entity import Entity
    from hanse.ngsild.geo import GeoQuery

MAX_ORDERS: Final = 16

Key: TypeAlias = tuple[int, Any]  # rank of the kind, and what is compared within it

ABSENT: Final[Key] = (9, 0)
_TERM = re.compile(r"\s*([^;,]+?)\s*(?:;\s*(asc|desc|dist-asc|dist-desc)\s*)?")
# as of BCP 47, with the extensions of RFC 6067 (-u-co-phonebk)
_COLLATION = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")


def parse_order_by(
    text: str, context: Context, *, collation: str | None = None, origin: Any = None, origin_geometry: str = "Point"
) -> tuple[Order, ...]:
    """`origin`: the coordinates that dist-asc and dist-desc measure from. Raises BadRequestData."""
    if collation is not None and not _COLLATION.fullmatch(collation):
        raise BadRequestData(f"{collation[:60]!r} is not a collation; write a language tag such as und, de or de-u-co-phonebk")
    near = None
    if origin is not None:
        reference = {"georel": "near;maxDistance==1", "geometry": origin_geometry, "coordinates": origin}
        near = parse_geo_query(reference, context)
    orders = []
    for term in text.split(","):
        found = _TERM.fullmatch(term)
        if found is None:
            raise BadRequestData(f"{term[:60]!r} is no order; write name, name;desc or location;dist-asc")
        orders.append(_order(found[1], found[2] or "asc", context, collation, near))
    if len(orders) > MAX_ORDERS:
        raise BadRequestData(f"orderBy has {len(orders)} terms; {MAX_ORDERS} are allowed")
    return tuple(orders)


def _order(path: str, direction: str, context: Context, collation: str | None, near: GeoQuery | None) -> Order:
    if direction.startswith("dist") and near is None:
        raise BadRequestData(f"ordering by distance needs to know from where; add orderFrom=[lon,lat] for {path[:60]!r}")
    return Order(
        path=expand_path(path, context),
        descending=direction.endswith("desc"),
        collation=collation,
        near=near if direction.startswith("dist") else None,
    )


def expand_path(text: str, context: Context) -> str:
    """A path as in q, with expanded names; members that NGSI-LD names itself keep their names."""
    try:
        path = parse_path(text.strip())
        return renamed_path(path, lambda name: expand_head(name, context), lambda name: expand_member(name, context)).text
    except InvalidInput as error:
        raise BadRequestData(error.message) from None


def expand_head(name: str, context: Context) -> str:
    """The first name of a path: an attribute, or a member of the entity itself."""
    return name if name in ENTITY_MEMBERS else context.expand_term(name)


def expand_member(name: str, context: Context) -> str:
    """A later name of a path: a sub-attribute, or a member that NGSI-LD names itself."""
    return name if name in RESERVED_MEMBERS else context.expand_term(name)


def order_entities(entities: Iterable[Entity], orders: tuple[Order, ...]) -> list[Entity]:
    """As the orders say; without any, as they came."""
    if not orders:
        return list(entities)
    keyed = [(tuple(order_key(order, entity) for order in orders), entity) for entity in entities]
    signs = [-1 if order.descending else 1 for order in orders]

    def compare(one: tuple[tuple[Key, ...], Entity], other: tuple[tuple[Key, ...], Entity]) -> int:
        for sign, a, b in zip(signs, one[0], other[0], strict=True):
            if a != b:
                if ABSENT in (a, b):
                    return 1 if a == ABSENT else -1
                return sign if a > b else -sign
        return (one[1].id > other[1].id) - (one[1].id < other[1].id)

    return [entity for _, entity in sorted(keyed, key=cmp_to_key(compare))]


def order_key(order: Order, entity: Entity) -> Key:
    """Where an entity stands; of equal keys the id decides. ABSENT is last in either direction."""
    best = max if order.descending else min
    if order.near is not None:
        near = order.near
        instances = entity.attributes.get(order.path, ())
        distances = [distance_m(near, instance.get("value")) for instance in instances]
        known = [distance for distance in distances if distance is not None]
        return (0, best(known)) if known else ABSENT
    get, collate = _getter(order.path), _collation_of(order.collation)
    keys = [key for key in (_key(value, collate) for value in get(entity)) if key is not None]
    return best(keys) if keys else ABSENT


@lru_cache(maxsize=1024)
def _getter(path: str) -> Callable[[Entity], list[Any]]:
    get = path_getter(path)
    if parse_path(path).names[0] in ENTITY_MEMBERS:
        return lambda entity: get(with_members(entity))
    return lambda entity: get(entity.attributes)


def _key(value: Any, collate: Callable[[str], Any]) -> Key | None:
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, int | float):
        return 0, value
    if isinstance(value, str):
        return 1, collate(value)
    return None


def _collation_of(collation: str | None) -> Callable[[str], Any]:
    return _plain if collation is None else collation_key


def _plain(text: str) -> str:
    return text


def collation_key(text: str) -> tuple[str, str, str]:
    """Base letters, then accents, then case (small letters first)."""
    parts = unicodedata.normalize("NFKD", text)
    base = "".join(c for c in parts if not unicodedata.combining(c)).casefold()
    return base, parts.casefold(), text.swapcase()
