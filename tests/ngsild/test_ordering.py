"""Orders of entities."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import DEFAULT_VOCAB, LOCATION, Entity
from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.ordering import collation_key, expand_path, order_entities, parse_order_by

V = DEFAULT_VOCAB


def entity(number: int, value: Any = None, **more: Any) -> Entity:
    attributes: dict[str, Any] = {V + "name": [{"type": "Property", "value": value}]} if value is not None else {}
    return Entity(id=f"urn:x:{number}", types=(V + "T",), attributes=attributes, **more)


def ids(entities: list[Entity], order_by: str, **more: Any) -> list[int]:
    return [int(one.id[6:]) for one in order_entities(entities, parse_order_by(order_by, CORE, **more))]


def test_directions() -> None:
    entities = [entity(1, "b"), entity(2, "c"), entity(3, "a"), entity(4)]
    assert ids(entities, "name") == ids(entities, "name;asc") == [3, 1, 2, 4]
    assert ids(entities, "name;desc") == [2, 1, 3, 4]
    assert ids(entities, "id;desc") == [4, 3, 2, 1]
    assert ids(entities, "type,name;desc") == [2, 1, 3, 4]
    assert order_entities(entities[::-1], ()) == entities[::-1]


def test_kinds() -> None:
    entities = [entity(1, True), entity(2, "a"), entity(3, 7), entity(4), entity(5, {"x": 1}), entity(6, [9, 1])]
    assert ids(entities, "name") == [6, 3, 2, 1, 4, 5]
    assert ids(entities, "name;desc") == [1, 2, 6, 3, 4, 5]


def test_times_and_members() -> None:
    entities = [entity(1, created_at="2024-02-01T00:00:00.000000Z"), entity(2, created_at="2024-01-01T00:00:00.000000Z")]
    assert ids(entities, "createdAt") == [2, 1]
    sub = [
        Entity(
            id=f"urn:x:{i}",
            types=(V + "T",),
            attributes={
                V + "name": [
                    {
                        "type": "Property",
                        "value": 1,
                        "createdAt": f"2024-01-0{9 - i}",
                        V + "sub": [{"type": "Property", "value": i % 2}],
                    }
                ]
            },
        )
        for i in range(3)
    ]
    assert ids(sub, "name.createdAt") == [2, 1, 0]
    assert ids(sub, "name.sub;desc,id;desc") == [1, 2, 0]


def test_within_values() -> None:
    assert ids([entity(1, {"city": "B"}), entity(2, {"city": "A"})], "name[city]") == [2, 1]


def test_distance() -> None:
    places = [(1, [8, 41]), (2, [8, 40.1]), (3, None)]
    entities = [
        Entity(
            id=f"urn:x:{i}",
            types=(V + "T",),
            attributes={LOCATION: [{"type": "GeoProperty", "value": {"type": "Point", "coordinates": place}}]} if place else {},
        )
        for i, place in places
    ]
    assert ids(entities, "location;dist-asc", origin="[8,40]") == [2, 1, 3]
    assert ids(entities, "location;dist-desc", origin=[8, 40]) == [1, 2, 3]
    assert ids(entities, "location;dist-asc", origin=[[8, 45], [8, 41]], origin_geometry="LineString") == [1, 2, 3]


def test_collations() -> None:
    entities = [entity(1, "A"), entity(2, "b"), entity(3, "á"), entity(4, "a")]
    assert ids(entities, "name") == [1, 4, 2, 3]
    assert ids(entities, "name", collation="und") == [4, 1, 3, 2]
    assert collation_key("Ähre") < collation_key("Zebra")


def test_paths_are_expanded() -> None:
    assert expand_path("name.observedAt", CORE) == V + "name.observedAt"
    assert expand_path("location", CORE) == LOCATION
    assert expand_path("createdAt", CORE) == "createdAt"


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("", {}),
        ("name,", {}),
        ("name;up", {}),
        ("name;", {}),
        ("a..b", {}),
        ("a[b", {}),
        ("location;dist-asc", {}),
        ("location;dist-asc", {"origin": "8,40"}),
        ("location;dist-asc", {"origin": [8, 400]}),
        ("name", {"collation": "!!nope"}),
        (",".join("abcdefghijklmnopq"), {}),
    ],
)
def test_refusals(text: str, more: dict[str, Any]) -> None:
    with pytest.raises(BadRequestData):
        parse_order_by(text, CORE, **more)


@given(st.text(alphabet="ab.[];,-dist asc") | st.text(), st.none() | st.text(max_size=5))
def test_only_refusals_come_out(text: str, collation: str | None) -> None:
    try:
        orders = parse_order_by(text, CORE, collation=collation)
    except BadRequestData:
        return
    order_entities([entity(1, "x"), entity(2)], orders)


values = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text("ab", max_size=2)


@given(st.lists(values, max_size=6), st.booleans())
def test_the_order_is_total(given_values: list[Any], descending: bool) -> None:
    entities = [entity(number, value) for number, value in enumerate(given_values)]
    orders = parse_order_by("name;desc" if descending else "name", CORE)
    assert order_entities(entities, orders) == order_entities(entities[::-1], orders)
