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
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from hanse.filters.paths import values_at
from hanse.filters.values import number_value, temporal_value
from hanse.ngsild.entity import VALUE_MEMBER
from hanse.ngsild.geo import Box, geometry_box
from hanse.node.store.cells import CELL_BYTES, cell

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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


def facts(instances: Sequence[Instance]) -> dict[tuple[int, Any], int]:
    """The facts of one attribute, of places at most one plain point: (kind, value) -> shape."""
    fact = scalar_fact(instances)
    if fact is not None:
        kind, value, shape = fact
        return {(kind, value): shape}
    found: dict[tuple[int, Any], int] = {}
    for instance in instances:
        found |= _facts([instance], SHAPES.get(instance.get("type", ""), 0))
    if len(found) > 1:
        found.pop((NOTHING, 0), None)
    return found


def scalar_fact(instances: Sequence[Instance]) -> Fact | None:
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


def places(instances: Sequence[Instance]) -> list[Place]:
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


class Difference(NamedTuple):
    """What a change does to the indexes, by the names of attributes. One value after the other, since rows of their own would
    take the most of the time until all of it has become bytes and others again; `rows` makes rows of them.
    """

    dropped: list[Any]  # facts: name, kind, value
    added: list[Any]  # and shape
    places_dropped: list[Any]  # places in the R*Tree: name, and which of its instances it is
    places_added: list[Any]  # and its box


def rows(values: list[Any], size: int) -> Iterator[tuple[Any, ...]]:
    """So many values at a time."""
    return zip(*[iter(values)] * size, strict=True)


_NO_ATTRIBUTES: Final[Attributes] = {}


def difference(before: Entity | None, after: Entity | None) -> Difference:
    """From what `before` had to what `after` has."""
    old = before.attributes if before is not None else _NO_ATTRIBUTES
    new = after.attributes if after is not None else _NO_ATTRIBUTES
    found = Difference([], [], [], [])
    if before is not None and after is not None and before.types != after.types:
        _compare_all(found, old, _NO_ATTRIBUTES)
        old = _NO_ATTRIBUTES
    _compare_all(found, old, new)
    return found


def _compare_all(found: Difference, old: Attributes, new: Attributes) -> None:
    for name, instances in new.items():
        known = old.get(name)
        if known is None:
            fact = scalar_fact(instances)
            if fact is not None:  # as nearly always
                found.added.extend((name, *fact))
            else:
                _compare(found, name, (), instances)
        elif known is not instances and not _is_same_scalar(known, instances):
            was, fact = scalar_fact(known), scalar_fact(instances)
            if was is None or fact is None:
                _compare(found, name, known, instances)
            elif was != fact:
                found.dropped.extend((name, *was[:2]))
                found.added.extend((name, *fact))
    for name, known in old.items():
        if name not in new:
            _compare(found, name, known, ())


def _is_same_scalar(known: list[Instance], instances: list[Instance]) -> bool:
    """Whether both are one instance with the same number, text or point, so that their facts are the same, whatever these are."""
    if len(known) != 1 or len(instances) != 1:
        return False
    old, new = known[0], instances[0]
    kind = new.get("type")
    if old.get("type") != kind:
        return False
    if kind == "GeoProperty":
        position = point(old.get("value"))
        return position is not None and position == point(new.get("value"))
    member = "value" if kind == "Property" else "object"
    value = new.get(member)
    other = old.get(member)
    return value.__class__ in _SCALARS and value.__class__ is other.__class__ and bool(value == other)


def _compare(found: Difference, name: str, known: Sequence[Instance], instances: Sequence[Instance]) -> None:
    was, was_in = _rows(known)
    is_, is_in = _rows(instances)
    for fact, shape in was.items():
        if is_.get(fact) != shape:
            found.dropped.extend((name, *fact))
    for fact, shape in is_.items():
        if was.get(fact) != shape:
            found.added.extend((name, *fact, shape))
    for i, box in was_in.items():
        if is_in.get(i) != box:
            found.places_dropped.extend((name, i))
    for i, box in is_in.items():
        if was_in.get(i) != box:
            found.places_added.extend((name, i, box))


def _rows(instances: Sequence[Instance]) -> tuple[dict[tuple[int, Any], int], dict[int, Box]]:
    """What `facts` and `places` say of one attribute: (kind, value) -> shape, and the places that are no plain points."""
    found = facts(instances)
    somewhere: dict[int, Box] = {}
    if any(instance.get("type") == "GeoProperty" for instance in instances):
        found_places = places(instances)
        for i, (box, is_point) in enumerate(found_places):
            if is_point:
                found[PLACE, point_value(*box[:2])] = _PLACE_SHAPE
            else:
                somewhere[i] = box
        if found_places:  # that it is somewhere says that it is
            found.pop((OTHER, 0), None)
    return found, somewhere


def stage_difference(writer: Writer, n: int, type_set: int, change: Difference, *, is_new: bool = False) -> None:
    """The index rows of entity number `n`, which has these types now; `is_new`: it had none."""
    names, stage = writer.names, writer.stage
    for name, kind, value in rows(change.dropped, 3):
        stage.drop_fact(((names.get(name) or writer.name_id(name)) * KINDS + kind, n, value))
    added, created = stage.facts_added, stage.facts_created
    for name, kind, value, shape in rows(change.added, 4):
        key = (names.get(name) or writer.name_id(name)) * KINDS + kind
        if is_new:
            created += (key, n, value, type_set, shape)
        else:
            added[key, n, value] = key, n, value, type_set, shape
    for name, i in rows(change.places_dropped, 2):
        name_id = writer.name_id(name)
        id_ = _place_id(n, name_id, i)
        stage.drop_place(id_)
        stage.drop_fact((name_id * KINDS + PLACE, n, _NUMBER.pack(id_)))
    for name, i, (west, south, east, north) in rows(change.places_added, 3):
        name_id = writer.name_id(name)
        id_ = _place_id(n, name_id, i)
        stage.places_added[id_] = id_, west, east, south, north, n, name_id
        key, value = name_id * KINDS + PLACE, _NUMBER.pack(id_)
        added[key, n, value] = key, n, value, type_set, _PLACE_SHAPE


def _place_id(n: int, name_id: int, i: int) -> int:
    """The number of a place in the R*Tree: found again without looking it up."""
    if name_id >= 1 << NAME_BITS or i >= 1 << INSTANCE_BITS:
        raise OverflowError("there are more attribute names, or geometries in one attribute, than places can be numbered")
    return (n << NAME_BITS | name_id) << INSTANCE_BITS | i
