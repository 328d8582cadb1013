"""One entity out of several: the order of sources does not matter, saying a thing twice changes nothing, the newest wins."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.ngsild.contexts import CORE
from hanse.ngsild.distributed_merge import merged, read_entity
from hanse.ngsild.entity import Entity
from hanse.ngsild.errors import NgsiLdError
from hanse.ngsild.representation import View, represent

CAR = "urn:ngsi-ld:Vehicle:1"
TIMES = st.sampled_from(["2030-01-01T00:00:00Z", "2030-01-01T00:00:00.5Z", "2030-01-02T00:00:00+02:00", "2031-01-01T00:00:00Z"])
INSTANCES = st.builds(
    lambda value, observed, modified, dataset: (
        {"type": "Property", "value": value}
        | ({"observedAt": observed} if observed else {})
        | ({"modifiedAt": modified} if modified else {})
        | ({"datasetId": dataset} if dataset else {})
    ),
    st.integers(0, 3),
    st.none() | TIMES,
    st.none() | TIMES,
    st.none() | st.sampled_from(["urn:a:1", "urn:a:2"]),
)
ATTRIBUTES = st.dictionaries(
    st.sampled_from(["urn:speed", "urn:brand"]),
    st.lists(INSTANCES, min_size=1, max_size=3, unique_by=lambda instance: instance.get("datasetId")),
)
ENTITIES = st.builds(
    lambda types, scopes, attributes, modified: Entity(
        id=CAR, types=tuple(types), scopes=tuple(scopes), attributes=attributes, modified_at=modified or ""
    ),
    st.lists(st.sampled_from(["urn:Vehicle", "urn:Car"]), min_size=1, unique=True),
    st.lists(st.sampled_from(["/a", "/b"]), unique=True),
    ATTRIBUTES,
    st.none() | TIMES,
)


@given(st.lists(ENTITIES, min_size=1, max_size=4), st.lists(ENTITIES, max_size=2), st.randoms())
def test_the_order_of_sources_does_not_matter(entities: list[Entity], auxiliary: list[Entity], random: Any) -> None:
    expected = merged(entities, auxiliary)
    random.shuffle(entities)
    random.shuffle(auxiliary)
    assert merged(entities, auxiliary) == expected


@given(st.lists(ENTITIES, min_size=1, max_size=4))
def test_saying_it_twice_changes_nothing(entities: list[Entity]) -> None:
    once = merged(entities)
    assert once is not None
    assert merged([*entities, *entities]) == once
    assert merged([once, *entities]) == once
    assert merged([once], entities) == once


@given(st.lists(ENTITIES, min_size=1, max_size=3), st.lists(ENTITIES, max_size=3))
def test_auxiliary_sources_only_fill_gaps(entities: list[Entity], auxiliary: list[Entity]) -> None:
    alone, together = merged(entities), merged(entities, auxiliary)
    assert alone is not None
    assert together is not None
    for name, instances in alone.attributes.items():
        for instance in instances:
            assert instance in together.attributes[name]
    for name, instances in together.attributes.items():
        for instance in instances:
            assert any(instance in entity.attributes.get(name, ()) for entity in [*entities, *auxiliary])


def one(**members: Any) -> Entity:
    return Entity(id=CAR, types=("urn:Vehicle",), attributes={"urn:speed": [{"type": "Property", **members}]})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"observedAt": "2030-01-01T00:00:00Z"}, {"observedAt": "2030-01-01T01:00:00.25Z"}),
        ({"observedAt": "2030-01-01T01:30:00+02:00"}, {"observedAt": "2030-01-01T00:00:00Z"}),
        ({"modifiedAt": "2030-01-01T00:00:00Z"}, {"modifiedAt": "2030-01-02T00:00:00Z"}),
        ({}, {"modifiedAt": "2030-01-02T00:00:00Z"}),
        ({"modifiedAt": "2030-01-01T00:00:00Z"}, {"observedAt": "2030-01-02T00:00:00Z"}),
    ],
)
def test_the_newest_wins(old: dict[str, Any], new: dict[str, Any]) -> None:
    found = merged([one(value=1, **new), one(value=2, **old)])
    assert found is not None
    assert [item["value"] for item in found.attributes["urn:speed"]] == [1]


def test_instances_with_different_datasets_stand_side_by_side() -> None:
    found = merged([one(value=1), one(value=2, datasetId="urn:a:1")])
    assert found is not None
    assert [item["value"] for item in found.attributes["urn:speed"]] == [1, 2]


def test_an_entity_is_read_with_the_times_that_it_says() -> None:
    body = {
        "id": CAR,
        "type": "Vehicle",
        "createdAt": "2020-01-01T00:00:00Z",
        "speed": {
            "type": "Property",
            "value": 1,
            "modifiedAt": "2020-01-02T00:00:00Z",
            "unit": {"type": "Property", "value": "x"},
        },
        "brand": {"type": "Property", "value": "b"},
    }
    entity = read_entity(body, CORE)
    assert represent(entity, CORE, View(sys_attrs=True)) == body  # and with no others


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["id", "type", "value", "createdAt", "speed", "object", "@context", "scope"]), inner
            )
        ),
    )
)
def test_whatever_a_source_says_is_an_entity_or_refused(body: Any) -> None:
    try:
        read_entity(body, CORE)
    except NgsiLdError:
        return
    assert isinstance(body, dict)
    assert "id" in body or "@id" in body
