"""What the indexes say about an entity, and how they follow a change of it.

A fact is a scalar value of a top-level attribute, exactly as a filter sees it (`values_at`): a number is a double, a boolean 0 or
1, a moment its nanoseconds in nine bytes (its text as well), and a text itself, cut after TEXT_MAX + 1 characters. So every
comparison with a text of at most TEXT_MAX characters is decided by the fact alone. Attributes whose instances are the very
same objects before and after a change cost nothing.

A place that is a plain point, as nearly all are, is a fact of its own: its cell (see cells.py) and where it is. Of other
geometries the fact is their number in the R*Tree.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from hanse.filters.paths import values_at
from hanse.filters.values import number_value, temporal_value
from hanse.ngsild.entity import VALUE_MEMBER
from hanse.ngsild.geo import Box, geometry_box
from hanse.node.store.cells import CELL_BYTES, cell
from hanse.node.store.filing import FactKey
from hanse.node.store.inserting import Row

if TYPE_CHECKING:
    from hanse.ngsild.entity import Attributes, Entity, Instance
    from hanse.node.store.connection import Writer

# kinds of facts; an attribute's key is its name's number * KINDS + kind
NOTHING, NUMBER, TEXT, BOOLEAN, INSTANT, TIME, OTHER, PLACE = range(8)
KINDS: Final = 8
TEXT_MAX: Final = 200
MOMENT_BYTES: Final = 9
NAME_BITS: Final = 20
INSTANCE_BITS: Final = 10
TEMPORAL_KINDS: Final = {"instant": INSTANT, "time": TIME}

SHAPES: Final = {kind: number for number, kind in enumerate(VALUE_MEMBER, 1)}
SHAPE_NAMES: Final = {number: kind for kind, number in SHAPES.items()}

_PROPERTY, _RELATIONSHIP, _PLACE_SHAPE = SHAPES["Property"], SHAPES["Relationship"], SHAPES["GeoProperty"]
_SCALARS: Final = (str, float, int)
_EXACT: Final = 1 << 53  # integers up to here are doubles

Fact: TypeAlias = tuple[int, Any, int]  # kind, value, shape
Place: TypeAlias = tuple[Box, bool]  # whether it is a plain point

_NUMBER: Final = Struct(">q")
_POSITION: Final = Struct(">dd")
_POINT_BYTES: Final = CELL_BYTES + _POSITION.size


def facts(instances: list[Instance]) -> dict[tuple[int, Any], int]:
    """The facts of one attribute, of places at most one plain point: (kind, value) -> shape."""
    fact = _scalar_fact(instances)
    if fact is not None:
        kind, value, shape = fact
        return {(kind, value): shape}
    found: dict[tuple[int, Any], int] = {}
    for instance in instances:
        found |= _facts([instance], SHAPES.get(instance.get("type", ""), 0))
    if len(found) > 1:
        found.pop((NOTHING, 0), None)
    return found


def _scalar_fact(instances: list[Instance]) -> Fact | None:
    """The one fact that nearly every attribute is, without looking for what it might be; None: look closer."""
    if len(instances) != 1:
        return None
    instance = instances[0]
    shape = SHAPES.get(instance.get("type", ""), 0)
    if shape == _PLACE_SHAPE:
        position = point(instance.get("value"))
        return None if position is None else (PLACE, point_value(*position), shape)
    value = instance.get("value") if shape == _PROPERTY else instance.get("object") if shape == _RELATIONSHIP else None
    if value.__class__ is str:
        return (TEXT, value[: TEXT_MAX + 1], shape) if temporal_value(value) is None else None
    if value.__class__ is float and value == value:  # noqa: PLR0124
        return NUMBER, value, shape
    if value.__class__ is int and -_EXACT <= value <= _EXACT:
        return NUMBER, float(value), shape
    return None


def _facts(instances: list[Instance], shape: int) -> dict[tuple[int, Any], int]:
    found: dict[tuple[int, Any], int] = {}
    for value in values_at({"_": instances}, "_"):
        if isinstance(value, str):
            found[TEXT, value[: TEXT_MAX + 1]] = shape
            moment = temporal_value(value)
            if moment is not None:
                found[TEMPORAL_KINDS[moment[0]], moment_key(moment[1])] = shape
        elif isinstance(value, bool):
            found[BOOLEAN, int(value)] = shape
        else:
            number = number_value(value)
            if number is None:
                found[OTHER, 0] = shape
            else:
                found[NUMBER, number] = shape
    return found or {(NOTHING, 0): shape}


def moment_key(ns: int) -> bytes:
    """Nanoseconds as bytes in the same order: 64 bits hold too few years."""
    return ns.to_bytes(MOMENT_BYTES, "big")


def places(instances: list[Instance]) -> list[Place]:
    """Where the geometries of an attribute are."""
    found: list[Place] = []
    for instance in instances:
        if instance.get("type") == "GeoProperty":
            value = instance.get("value")
            position = point(value)
            if position is not None:
                found.append((position * 2, True))
            elif (box := geometry_box(value)) is not None:
                found.append((box, False))
    return found


def point_value(lon: float, lat: float) -> bytes:
    """What the fact of a point says."""
    return cell(lon, lat) + _POSITION.pack(lon, lat)


def place_point(value: bytes) -> tuple[float, float] | None:
    return _POSITION.unpack_from(value, CELL_BYTES) if len(value) == _POINT_BYTES else None


def point(value: Any) -> tuple[float, float] | None:
    """Where a plain point is, which nearly all geometries are; None: look closer."""
    if value.__class__ is dict and value.get("type") == "Point":
        position = value.get("coordinates")
        if position.__class__ is list and len(position) == 2:
            lon, lat = position
            is_plain = lon.__class__ in (float, int) and lat.__class__ in (float, int)
            if is_plain and -180.0 <= lon <= 180.0 and -90.0 <= lat <= 90.0:
                return lon, lat
    return None


_NO_ATTRIBUTES: Final[Attributes] = {}
_NO_ROWS: Final[tuple[dict[FactKey, int], dict[int, Row]]] = ({}, {})


def follow(writer: Writer, n: int, before: Entity | None, after: Entity | None, type_set: int) -> None:
    """Stage the index rows of entity number `n`, from what `before` had to what `after` has."""
    old = before.attributes if before is not None else _NO_ATTRIBUTES
    new = after.attributes if after is not None else _NO_ATTRIBUTES
    if before is not None and after is not None and before.types != after.types:
        _follow(writer, n, old, _NO_ATTRIBUTES, type_set)
        old = _NO_ATTRIBUTES
    _follow(writer, n, old, new, type_set)
    old_scopes = before.scopes if before is not None else ()
    new_scopes = after.scopes if after is not None else ()
    if old_scopes != new_scopes:
        for scope in old_scopes:
            writer.stage.drop_scope((scope, n))
        writer.stage.scopes_added.update((scope, n) for scope in new_scopes)


def _begin(writer: Writer, n: int, new: Attributes, type_set: int) -> None:
    """`_follow` for an entity that had nothing: there is nothing to compare, which is worth saying once for all attributes."""
    names, added = writer.names, writer.stage.facts_added
    for name, instances in new.items():
        fact = _scalar_fact(instances)
        if fact is None:
            _compare(writer, n, name, None, instances, type_set)
        else:
            kind, value, shape = fact
            key = (names.get(name) or writer.name_id(name)) * KINDS + kind
            added[key, n, value] = key, n, value, type_set, shape


def _follow(writer: Writer, n: int, old: Attributes, new: Attributes, type_set: int) -> None:
    if not old:
        _begin(writer, n, new, type_set)
        return
    for name, instances in new.items():
        known = old.get(name)
        if known is not instances:
            _compare(writer, n, name, known, instances, type_set)
    if old:
        for name, known in old.items():
            if name not in new:
                _compare(writer, n, name, known, None, type_set)


def _is_same_scalar(known: list[Instance], instances: list[Instance]) -> bool:
    """Whether both are one instance with the same number or text, so that their facts are the same, whatever these are."""
    if len(known) != 1 or len(instances) != 1:
        return False
    old, new = known[0], instances[0]
    kind = new.get("type")
    if old.get("type") != kind:
        return False
    member = "value" if kind == "Property" else "object"
    value = new.get(member)
    other = old.get(member)
    return value.__class__ in _SCALARS and value.__class__ is other.__class__ and bool(value == other)


def _compare(
    writer: Writer, n: int, name: str, known: list[Instance] | None, instances: list[Instance] | None, type_set: int
) -> None:
    if known and instances and _is_same_scalar(known, instances):
        return
    name_id = writer.name_id(name)
    stage = writer.stage
    if instances and (fact := _scalar_fact(instances)) is not None:
        old = _scalar_fact(known) if known else None
        if old is not None or not known:
            if fact != old:
                base = name_id * KINDS
                if old is not None:
                    stage.drop_fact((base + old[0], n, old[1]))
                key = base + fact[0]
                stage.facts_added[key, n, fact[1]] = key, n, fact[1], type_set, fact[2]
            return
    is_, is_in = _rows(name_id, n, instances) if instances else _NO_ROWS
    if known:
        was, was_in = _rows(name_id, n, known)
        for fact, shape in was.items():
            if is_.get(fact) == shape:
                del is_[fact]
            else:
                stage.drop_fact(fact)
        for id_, place in was_in.items():
            if is_in.get(id_) == place:
                del is_in[id_]
            else:
                stage.drop_place(id_)
    for fact, shape in is_.items():
        stage.facts_added[fact] = (*fact, type_set, shape)
    if is_in:
        stage.places_added.update(is_in)


def _rows(name_id: int, n: int, instances: list[Instance]) -> tuple[dict[FactKey, int], dict[int, Row]]:
    """What `facts` and `places` say of one attribute: facts with their shapes, and places by their numbers."""
    base = name_id * KINDS
    found = {(base + kind, n, value): shape for (kind, value), shape in facts(instances).items()}
    somewhere: dict[int, Row] = {}
    if any(instance.get("type") == "GeoProperty" for instance in instances):
        found_places = places(instances)
        for i, ((west, south, east, north), is_point) in enumerate(found_places):
            if is_point:
                value = point_value(west, south)
            else:
                id_ = _place_id(n, name_id, i)
                somewhere[id_] = id_, west, east, south, north, n, name_id
                value = _NUMBER.pack(id_)
            found[base + PLACE, n, value] = _PLACE_SHAPE
        if found_places:  # that it is somewhere says that it is
            found.pop((base + OTHER, n, 0), None)
    return found, somewhere


def _place_id(n: int, name_id: int, i: int) -> int:
    """The number of a place in the R*Tree: found again without looking it up."""
    if name_id >= 1 << NAME_BITS or i >= 1 << INSTANCE_BITS:
        raise OverflowError("there are more attribute names, or geometries in one attribute, than places can be numbered")
    return (n << NAME_BITS | name_id) << INSTANCE_BITS | i
