"""Linked entities, inside the answer and beside it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from hanse.ngsild import joins
from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import DEFAULT_VOCAB, LOCATION, Entity
from hanse.ngsild.errors import TooManyResults
from hanse.ngsild.joins import joined, linked_ids, with_linked
from hanse.ngsild.parameters import parse_view

V = DEFAULT_VOCAB


def entity(key_: str, link: Any = None, **values: Any) -> Entity:
    attributes: dict[str, Any] = {V + key: [{"type": "Property", "value": value}] for key, value in values.items()}
    if link is not None:
        attributes[V + "in"] = [{"type": "Relationship", "object": link}]
    return Entity(id="urn:" + key_, types=(V + "Thing",), attributes=attributes)


HOUSE = entity("h:1", "urn:c:1", name="House")
CITY = entity("c:1", "urn:n:1", name="City")
LAND = entity("n:1", name="Land", size=5)
STORE = {one.id: one for one in (HOUSE, CITY, LAND)}


def show(what: Any, **params: str) -> Any:
    return joined(what, CORE, parse_view({"options": "keyValues", **params}, CORE), STORE.get)


def test_inline() -> None:
    assert show(HOUSE, join="inline") == {
        "id": "urn:h:1",
        "type": "Thing",
        "name": "House",
        "in": {"id": "urn:c:1", "type": "Thing", "name": "City", "in": "urn:n:1"},
    }
    assert show(HOUSE, join="inline", joinLevel="2")["in"]["in"] == {"id": "urn:n:1", "type": "Thing", "name": "Land", "size": 5}
    normalized = show(HOUSE, join="inline", options="normalized")["in"]
    assert normalized["object"] == "urn:c:1"
    assert normalized["entity"]["in"] == {"type": "Relationship", "object": "urn:n:1"}
    assert show([HOUSE], join="inline") == [show(HOUSE, join="inline")]


def test_flat() -> None:
    ids = [item["id"] for item in show(HOUSE, join="flat", joinLevel="5")]
    assert ids == ["urn:h:1", "urn:c:1", "urn:n:1"]
    assert [item["id"] for item in show([HOUSE, CITY], join="flat")] == ["urn:h:1", "urn:c:1", "urn:n:1"]
    assert show(HOUSE, join="flat")[0]["in"] == "urn:c:1"
    assert with_linked([HOUSE], CORE, parse_view({"join": "flat"}, CORE), STORE.get)[1]["id"] == "urn:c:1"


@pytest.mark.parametrize("join", ["inline", "flat"])
def test_what_is_not_there_is_left_alone(join: str) -> None:
    lonely = entity("x:1", "urn:gone:1")
    assert show(lonely, join=join) == {"id": "urn:x:1", "type": "Thing", "in": "urn:gone:1"}
    assert show(lonely, join=join, containedBy="urn:gone:1")["in"] == "urn:gone:1"
    assert show(HOUSE, join="inline", containedBy="urn:c:1")["in"] == "urn:c:1"


def test_picking_and_omitting_along_the_links() -> None:
    assert show(HOUSE, join="inline", pick="id,name") == {"id": "urn:h:1", "name": "House"}
    assert show(HOUSE, join="flat", pick="id,name") == {"id": "urn:h:1", "name": "House"}
    assert show(HOUSE, join="inline", joinLevel="2", pick="id,in{id,in{size}}") == {
        "id": "urn:h:1",
        "in": {"id": "urn:c:1", "in": {"size": 5}},
    }
    assert show(HOUSE, join="inline", joinLevel="2", omit="type,in{name,in{size}}") == {
        "id": "urn:h:1",
        "name": "House",
        "in": {"id": "urn:c:1", "type": "Thing", "in": {"id": "urn:n:1", "type": "Thing", "name": "Land"}},
    }
    assert show(HOUSE, join="flat", pick="id,in{id,name}") == [
        {"id": "urn:h:1", "in": "urn:c:1"},
        {"id": "urn:c:1", "name": "City"},
    ]


def test_a_circle_ends() -> None:
    store = {"urn:a:1": entity("a:1", "urn:b:1"), "urn:b:1": entity("b:1", "urn:a:1")}
    view = parse_view({"options": "keyValues", "join": "inline", "joinLevel": "9"}, CORE)
    inner = joined(store["urn:a:1"], CORE, view, store.get)["in"]
    assert inner == {"id": "urn:b:1", "type": "Thing", "in": "urn:a:1"}
    view = parse_view({"options": "keyValues", "join": "flat", "joinLevel": "9"}, CORE)
    assert len(joined(store["urn:a:1"], CORE, view, store.get)) == 2


def test_several_objects() -> None:
    several = entity("x:1", ["urn:c:1", "urn:gone:1"])
    first, second = show(several, join="inline")["in"]
    assert (first["id"], second) == ("urn:c:1", "urn:gone:1")
    listed = replace(several, attributes={V + "in": [{"type": "ListRelationship", "objectList": [{"object": "urn:n:1"}]}]})
    assert show(listed, join="inline")["in"] == [show(LAND, join="inline")]
    assert linked_ids({"type": "ListRelationship", "objectList": [{"object": "urn:n:1"}, "urn:n:2", 5]}) == ["urn:n:1", "urn:n:2"]


def test_geojson() -> None:
    point = {"type": "Point", "coordinates": [1, 2]}
    placed = replace(HOUSE, attributes=HOUSE.attributes | {LOCATION: [{"type": "GeoProperty", "value": point}]})
    view = parse_view({"options": "keyValues", "join": "inline"}, CORE, geojson=True)
    shown = joined(placed, CORE, view, STORE.get)
    assert shown["geometry"] == point
    assert shown["properties"]["in"]["name"] == "City"
    assert joined([placed], CORE, view, STORE.get) == {"type": "FeatureCollection", "features": [shown]}


def test_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joins, "JOINED_MAX", 1)
    with pytest.raises(TooManyResults):
        show([HOUSE, CITY], join="inline")
