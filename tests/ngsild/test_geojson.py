"""Entities as features."""

from __future__ import annotations

from typing import Any

from hanse.ngsild.contexts import CORE
from hanse.ngsild.entity import DEFAULT_VOCAB, LOCATION, NGSI_LD, Entity
from hanse.ngsild.geojson import feature, feature_collection
from hanse.ngsild.representation import View

HERE = {"type": "Point", "coordinates": [1, 2]}
THERE = {"type": "Point", "coordinates": [9, 9]}
SPEED = DEFAULT_VOCAB + "speed"


def entity(**attributes: Any) -> Entity:
    names = {"location": LOCATION, "observationSpace": NGSI_LD + "observationSpace", "speed": SPEED}
    return Entity(id="urn:x:1", types=(DEFAULT_VOCAB + "Vehicle",), attributes={names[k]: v for k, v in attributes.items()})


def test_a_feature() -> None:
    shown = feature(entity(location=[{"type": "GeoProperty", "value": HERE}], speed=[{"type": "Property", "value": 5}]), CORE)
    assert shown == {
        "id": "urn:x:1",
        "type": "Feature",
        "geometry": HERE,
        "properties": {
            "type": "Vehicle",
            "location": {"type": "GeoProperty", "value": HERE},
            "speed": {"type": "Property", "value": 5},
        },
    }


def test_a_simplified_feature() -> None:
    shown = feature(entity(location=[{"type": "GeoProperty", "value": HERE}]), CORE, View(format="simplified"))
    assert shown["properties"] == {"type": "Vehicle", "location": HERE}


def test_the_default_instance_is_the_geometry() -> None:
    two = [{"type": "GeoProperty", "value": THERE, "datasetId": "urn:d:1"}, {"type": "GeoProperty", "value": HERE}]
    assert feature(entity(location=two), CORE)["geometry"] == HERE
    assert feature(entity(location=two[:1]), CORE)["geometry"] == THERE
    assert feature(entity(location=two), CORE, View(dataset_ids=("urn:d:1",)))["geometry"] == THERE
    assert feature(entity(location=two), CORE, View(dataset_ids=("urn:d:2",)))["geometry"] is None


def test_another_property_as_the_geometry() -> None:
    one = entity(
        location=[{"type": "GeoProperty", "value": HERE}],
        observationSpace=[{"type": "GeoProperty", "value": THERE}],
        speed=[{"type": "Property", "value": 5}],
    )
    assert feature(one, CORE, View(geometry_property=NGSI_LD + "observationSpace"))["geometry"] == THERE
    assert feature(one, CORE, View(geometry_property=NGSI_LD + "operationSpace"))["geometry"] is None
    assert feature(one, CORE, View(geometry_property=SPEED))["geometry"] is None


def test_parts_of_a_feature() -> None:
    one = entity(location=[{"type": "GeoProperty", "value": HERE}], speed=[{"type": "Property", "value": 5}])
    shown = feature(one, CORE, View(pick=("id", SPEED)))
    assert shown == {
        "id": "urn:x:1",
        "type": "Feature",
        "geometry": HERE,
        "properties": {"speed": {"type": "Property", "value": 5}},
    }
    assert "id" not in feature(one, CORE, View(omit=("id",)))


def test_a_collection() -> None:
    one = entity(location=[{"type": "GeoProperty", "value": HERE}])
    assert feature_collection([one, one], CORE) == {"type": "FeatureCollection", "features": [feature(one, CORE)] * 2}
    assert feature_collection([], CORE) == {"type": "FeatureCollection", "features": []}
