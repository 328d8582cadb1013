"""What clients send becomes the internal shape, whichever form it is in; and nonsense is refused with an NGSI-LD error."""

from __future__ import annotations

from typing import Any

import pytest

from hanse.ngsild.contexts import CORE, compile_context
from hanse.ngsild.entity import DEFAULT_VOCAB, LOCATION, NULL, Instance
from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.limits import ARRAY_LENGTH_MAX, STRING_LENGTH_MAX, VALUE_DEPTH_MAX
from hanse.ngsild.parsing import parse_attribute, parse_entity, parse_fragment, split_context
from hanse.ngsild.representation import View, represent

NOW = "2026-01-31T12:00:00.000000Z"
TIMES = {"createdAt": NOW, "modifiedAt": NOW}
ID = {"id": "urn:ngsi-ld:Car:1", "type": "Car"}
POINT = {"type": "Point", "coordinates": [8.5, 47.4]}


def name(short: str) -> str:
    return DEFAULT_VOCAB + short


def instances(value: Any, **options: bool) -> list[Instance]:
    return parse_entity(ID | {"a": value}, CORE, NOW, **options).attributes[name("a")]


def one(value: Any, **options: bool) -> Instance:
    (instance,) = instances(value, **options)
    assert {key: instance.pop(key) for key in TIMES} == TIMES
    return instance


def patch(value: Any) -> Instance:
    (instance,) = parse_fragment({"a": value}, CORE, NOW, allow_null=True).attributes[name("a")]
    return {key: item for key, item in instance.items() if key not in TIMES}


def test_an_entity() -> None:
    entity = parse_entity(
        ID
        | {
            "scope": ["/A/B", "C"],
            "expiresAt": "2030-01-01T00:00:00Z",
            "createdAt": "then",
            "speed": {"type": "Property", "value": 5},
        },
        CORE,
        NOW,
    )
    assert (entity.id, entity.types, entity.scopes) == ("urn:ngsi-ld:Car:1", (name("Car"),), ("/A/B", "/C"))
    assert (entity.created_at, entity.modified_at, entity.expires_at) == (NOW, NOW, "2030-01-01T00:00:00Z")
    assert entity.attributes == {name("speed"): [{"type": "Property", "value": 5, **TIMES}]}


def test_keywords_of_json_ld_may_be_used_for_id_and_type() -> None:
    entity = parse_entity({"@id": "urn:a:1", "@type": ["Car", "Toy", "Car"], "a": {"@type": "Property", "value": 1}}, CORE, NOW)
    assert (entity.id, entity.types) == ("urn:a:1", (name("Car"), name("Toy")))
    assert entity.attributes[name("a")][0]["type"] == "Property"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"type": "Property", "value": {"x": [1, "a", True]}}, {"type": "Property", "value": {"x": [1, "a", True]}}),
        ({"type": "Property", "value": 10**20}, {"type": "Property", "value": 10**20}),
        ({"type": "ngsi-ld:Property", "value": 1}, {"type": "Property", "value": 1}),
        ({"type": "GeoProperty", "value": POINT}, {"type": "GeoProperty", "value": POINT}),
        ({"type": "Relationship", "object": "urn:a:b"}, {"type": "Relationship", "object": "urn:a:b"}),
        (
            {"type": "Relationship", "object": ["urn:a:b", "urn:a:c"], "objectType": "Car"},
            {"type": "Relationship", "object": ["urn:a:b", "urn:a:c"], "objectType": name("Car")},
        ),
        (
            {"type": "LanguageProperty", "languageMap": {"en": "Bridge", "pt-BR": ["Ponte", "Viaduto"], "@none": "x"}},
            {"type": "LanguageProperty", "languageMap": {"en": "Bridge", "pt-BR": ["Ponte", "Viaduto"], "@none": "x"}},
        ),
        (
            {"type": "JsonProperty", "json": {"id": 1, "none": None, "@context": []}},
            {"type": "JsonProperty", "json": {"id": 1, "none": None, "@context": []}},
        ),
        ({"type": "VocabProperty", "vocab": "monument"}, {"type": "VocabProperty", "vocab": name("monument")}),
        ({"type": "VocabProperty", "vocab": ["a", "urn:b:c"]}, {"type": "VocabProperty", "vocab": [name("a"), "urn:b:c"]}),
        ({"type": "ListProperty", "valueList": [1, [2], {"a": 3}]}, {"type": "ListProperty", "valueList": [1, [2], {"a": 3}]}),
        (
            {"type": "ListRelationship", "objectList": ["urn:a:b", {"object": "urn:a:c"}]},
            {"type": "ListRelationship", "objectList": [{"object": "urn:a:b"}, {"object": "urn:a:c"}]},
        ),
    ],
)
def test_every_kind_of_attribute(value: Any, expected: Instance) -> None:
    assert one(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, {"type": "Property", "value": 5}),
        ("text", {"type": "Property", "value": "text"}),
        ([1, 2], {"type": "Property", "value": [1, 2]}),
        ([], {"type": "Property", "value": []}),
        ([{"x": 1}], {"type": "Property", "value": [{"x": 1}]}),
        (POINT, {"type": "GeoProperty", "value": POINT}),
        ({"value": 5, "unitCode": "CEL"}, {"type": "Property", "value": 5, "unitCode": "CEL"}),
        ({"value": POINT}, {"type": "GeoProperty", "value": POINT}),
        ({"object": "urn:a:b"}, {"type": "Relationship", "object": "urn:a:b"}),
        ({"languageMap": {"en": "x"}}, {"type": "LanguageProperty", "languageMap": {"en": "x"}}),
        ({"json": [5]}, {"type": "JsonProperty", "json": [5]}),
        ({"vocab": "x"}, {"type": "VocabProperty", "vocab": name("x")}),
        ({"valueList": []}, {"type": "ListProperty", "valueList": []}),
        ({"objectList": ["urn:a:b"]}, {"type": "ListRelationship", "objectList": [{"object": "urn:a:b"}]}),
    ],
)
def test_the_concise_form(value: Any, expected: Instance) -> None:
    assert one(value) == expected


def test_members_and_attributes_of_an_attribute() -> None:
    instance = one(
        {
            "type": "Property",
            "value": 5,
            "observedAt": "2026-01-01T00:00:00,5Z",
            "datasetId": "urn:a:b",
            "createdAt": "ignored",
            "instanceId": "ignored",
            "accuracy": 0.5,
            "source": [{"object": "urn:a:1"}, {"object": "urn:a:2", "datasetId": "urn:d:2"}],
        }
    )
    assert instance == {
        "type": "Property",
        "value": 5,
        "observedAt": "2026-01-01T00:00:00.5Z",
        "datasetId": "urn:a:b",
        name("accuracy"): [{"type": "Property", "value": 0.5, **TIMES}],
        name("source"): [
            {"type": "Relationship", "object": "urn:a:1", **TIMES},
            {"type": "Relationship", "object": "urn:a:2", "datasetId": "urn:d:2", **TIMES},
        ],
    }


def test_many_instances_of_an_attribute() -> None:
    found = instances([{"value": 1}, {"value": 2, "datasetId": "urn:a:b"}, {"value": 3, "datasetId": "urn:a:c"}])
    assert [item.get("datasetId") for item in found] == [None, "urn:a:b", "urn:a:c"]
    for same in (
        [{"value": 1}, {"value": 2}],
        [{"value": 1}, {"value": 2, "datasetId": "@none"}],
        [{"value": 1, "datasetId": "urn:a:b"}] * 2,
    ):
        with pytest.raises(BadRequestData, match="same datasetId"):
            instances(same)
        assert len(instances(same, temporal=True)) == 2


def test_an_attribute_named_like_a_member_of_attributes() -> None:
    entity = parse_entity(ID | {"vocab": {"type": "VocabProperty", "vocab": "x"}}, CORE, NOW)
    assert entity.attributes[CORE.expand_term("vocab")][0]["vocab"] == name("x")


def test_the_simplified_form() -> None:
    assert one("urn:a:b", simplified=True) == {"type": "Property", "value": "urn:a:b"}
    assert one({"type": "x", "value": 5}, simplified=True) == {"type": "Property", "value": {"type": "x", "value": 5}}
    assert one(POINT, simplified=True) == {"type": "GeoProperty", "value": POINT}
    assert one({"languageMap": {"en": "x"}}, simplified=True) == {"type": "LanguageProperty", "languageMap": {"en": "x"}}
    assert one({"vocab": "x"}, simplified=True) == {"type": "VocabProperty", "vocab": name("x")}
    assert one({"json": {"a": None}}, simplified=True) == {"type": "JsonProperty", "json": {"a": None}}
    found = instances({"dataset": {"@none": 1, "urn:a:b": 2}}, simplified=True)
    assert [(item["value"], item.get("datasetId")) for item in found] == [(1, None), (2, "urn:a:b")]


def test_names_are_those_of_the_context() -> None:
    context = compile_context(
        {"speed": "https://cars.example/speed", "Car": "https://cars.example/Car", "fast": "https://cars.example/fast"}
    )
    entity = parse_entity(ID | {"speed": {"vocab": "fast"}, "location": POINT}, context, NOW)
    assert entity.types == ("https://cars.example/Car",)
    assert entity.attributes["https://cars.example/speed"][0]["vocab"] == "https://cars.example/fast"
    assert LOCATION in entity.attributes
    with pytest.raises(BadRequestData, match="twice"):
        parse_entity(ID | {"speed": 1, "https://cars.example/speed": 2}, context, NOW)


GEOMETRIES = [
    POINT,
    {"type": "Point", "coordinates": [180, -90, 100.5]},
    {"type": "MultiPoint", "coordinates": [[0, 0]]},
    {"type": "LineString", "coordinates": [[0, 0], [1, 1]]},
    {"type": "MultiLineString", "coordinates": [[[0, 0], [1, 1]]]},
    {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]], "bbox": [0, 0, 1, 1]},
    {"type": "MultiPolygon", "coordinates": [[[[0, 0], [1, 0], [1, 1], [0, 0]]]]},
]


@pytest.mark.parametrize("value", GEOMETRIES)
def test_a_geometry(value: Any) -> None:
    assert one({"type": "GeoProperty", "value": value})["value"] == value


def test_a_geometry_in_a_text() -> None:
    assert one({"type": "GeoProperty", "value": '{"type": "Point", "coordinates": [8.5, 47.4]}'})["value"] == POINT


BAD_GEOMETRIES = [
    5,
    "POINT(1 1)",
    {},
    {"type": "Circle", "coordinates": [0, 0]},
    {"type": ["Point"], "coordinates": [0, 0]},
    {"type": "Point"},
    {"type": "Point", "coordinates": [0]},
    {"type": "Point", "coordinates": [0, 0, 0, 0, 0]},
    {"type": "Point", "coordinates": ["0", "0"]},
    {"type": "Point", "coordinates": [True, 0]},
    {"type": "Point", "coordinates": [None, 0]},
    {"type": "Point", "coordinates": [181, 0]},
    {"type": "Point", "coordinates": [0, 90.1]},
    {"type": "Point", "coordinates": [float("nan"), 0]},
    {"type": "Point", "coordinates": [0, 0, float("inf")]},
    {"type": "Point", "coordinates": [10**400, 0]},
    {"type": "LineString", "coordinates": [[0, 0]]},
    {"type": "LineString", "coordinates": [0, 0]},
    {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [0, 0]]]},
    {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1]]]},
    {"type": "Polygon", "coordinates": []},
    {"type": "GeometryCollection", "geometries": [POINT]},
    '{"type": "Point"}',
]


@pytest.mark.parametrize("value", BAD_GEOMETRIES)
def test_what_is_no_geometry(value: Any) -> None:
    with pytest.raises(BadRequestData):
        one({"type": "GeoProperty", "value": value})


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def nested_attribute(depth: int) -> Any:
    return {"value": 1, "a": nested_attribute(depth - 1)} if depth else 1


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        {"a": 1},
        NULL,
        {"type": "Car", "value": 1},
        {"type": 5, "value": 1},
        {"type": [], "value": 1},
        {"type": None, "a": 1},
        {"type": "Property"},
        {"type": "Property", "value": None},
        {"type": "Property", "value": {"a": None}},
        {"type": "Property", "value": [None]},
        {"type": "Property", "value": NULL},
        {"type": "Property", "value": {"a": NULL}},
        {"type": "Property", "value": float("nan")},
        {"type": "Property", "value": float("inf")},
        {"type": "Property", "value": 10**400},
        {"type": "Property", "value": [-(10**400)]},
        {"type": "Property", "value": nested(VALUE_DEPTH_MAX + 1)},
        {"type": "Property", "value": "a" * (STRING_LENGTH_MAX + 1)},
        {"type": "Property", "value": [0] * (ARRAY_LENGTH_MAX + 1)},
        {"type": "Property", "value": {"@type": "DateTime", "@value": "yesterday"}},
        {"type": "Property", "object": "urn:a:b"},
        {"type": "Property", "value": 1, "object": "urn:a:b"},
        {"value": 1, "object": "urn:a:b"},
        {"type": "Relationship", "value": 1},
        {"type": "Relationship", "object": "no uri"},
        {"type": "Relationship", "object": []},
        {"type": "Relationship", "object": [1]},
        {"type": "Relationship", "object": {"id": "urn:a:b"}},
        {"type": "Relationship", "object": "urn:a:b", "objectType": 5},
        {"type": "LanguageProperty"},
        {"type": "LanguageProperty", "languageMap": {}},
        {"type": "LanguageProperty", "languageMap": "text"},
        {"type": "LanguageProperty", "languageMap": {"en": 5}},
        {"type": "LanguageProperty", "languageMap": {"en": NULL}},
        {"type": "LanguageProperty", "languageMap": {"no language": "x"}},
        {"type": "JsonProperty", "json": None},
        {"type": "JsonProperty", "json": 5},
        {"type": "JsonProperty", "json": {}, "unitCode": "CEL"},
        {"type": "Relationship", "object": "urn:a:b", "unitCode": "CEL"},
        {"type": "Property", "value": 1, "previousValue": 2},
        {"type": "JsonProperty", "value": 1},
        {"type": "VocabProperty", "vocab": 5},
        {"type": "VocabProperty", "vocab": ""},
        {"type": "VocabProperty", "vocab": [["a"]]},
        {"type": "VocabProperty", "vocab": []},
        {"type": "ListProperty", "valueList": 5},
        {"type": "ListProperty", "valueList": [None]},
        {"type": "ListRelationship", "objectList": "urn:a:b"},
        {"type": "ListRelationship", "objectList": [5]},
        {"value": 1, "observedAt": "2026-01-01"},
        {"value": 1, "observedAt": "2026-01-01T00:00:00+01:00"},
        {"value": 1, "observedAt": "2026-02-30T00:00:00Z"},
        {"value": 1, "observedAt": "2026-01-01T25:00:00Z"},
        {"value": 1, "observedAt": {"type": "Property", "value": "2026-01-01T00:00:00Z"}},
        {"value": 1, "observedAt": NULL},
        {"value": 1, "unitCode": 5},
        {"value": 1, "unitCode": ""},
        {"value": 1, "datasetId": "no uri"},
        {"value": 1, "datasetId": NULL},
        {"value": 1, "expiresAt": "never"},
        {"value": 1, "entity": {}},
        {"value": 1, "my attr": 1},
        {"value": 1, "": 1},
        {"value": 1, "@id": "urn:a:b"},
        {"value": 1, "id": "urn:a:b"},
        {"value": 1, "b": None},
        {"value": 1, "b": NULL},
        [{"value": 1}, 5],
        [{"value": 1}, None],
        [None],
        nested_attribute(30),
    ],
)
def test_an_attribute_that_makes_no_sense(value: Any) -> None:
    with pytest.raises(BadRequestData):
        instances(value)


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        "text",
        {},
        {"id": "urn:a:b"},
        {"type": "Car"},
        {"id": "nouri", "type": "Car"},
        {"id": 5, "type": "Car"},
        {"id": [], "type": "Car"},
        {"id": NULL, "type": "Car"},
        {"id": "urn:a:b", "type": "type"},
        {"id": "urn:a:b", "type": "9Car"},
        {"id": "urn:a:b", "type": ""},
        {"id": "urn:a:b", "type": []},
        {"id": "urn:a:b", "type": [5]},
        {"id": "urn:a:b", "type": None},
        {"id": "urn:a:b", "type": {"a": 1}},
        ID | {"scope": 5},
        ID | {"scope": "9bad"},
        ID | {"scope": "/a//b"},
        ID | {"scope": "a-b"},
        ID | {"scope": NULL},
        ID | {"scope": None},
        ID | {"scope": ["/ok", "9bad"]},
        ID | {"scope": [["/ok"]]},
        ID | {"expiresAt": "soon"},
        ID | {"expiresAt": None},
        ID | {"expiresAt": NULL},
        ID | {"observedAt": "2026-01-01T00:00:00Z"},
        ID | {"value": 5},
        ID | {"my attr": 1},
        ID | {"location": 5},
        ID | {"location": {"type": "Property", "value": 7}},
        ID | {"<a>": 1},
        ID | {"@foo": 1},
    ],
)
def test_an_entity_that_makes_no_sense(body: Any) -> None:
    with pytest.raises(BadRequestData):
        parse_entity(body, CORE, NOW)


def test_a_fragment_says_what_it_says() -> None:
    fragment = parse_fragment({"a": 1}, CORE, NOW)
    assert (fragment.id, fragment.types, fragment.scopes, fragment.expires_at) == (None, (), None, None)
    fragment = parse_fragment(ID | {"scope": NULL, "expiresAt": NULL}, CORE, NOW, allow_null=True)
    assert (fragment.id, fragment.types, fragment.scopes, fragment.expires_at) == (ID["id"], (name("Car"),), (), NULL)
    for body in (
        {"scope": NULL},
        {"expiresAt": NULL},
        {"a": NULL},
        {"a": {"value": NULL}},
        {"a": {"unitCode": "CEL"}},
        {"id": "x"},
        5,
    ):
        with pytest.raises(BadRequestData):
            parse_fragment(body, CORE, NOW)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (NULL, {"value": NULL}),
        (5, {"value": 5}),
        ({"value": 5}, {"value": 5}),
        ({"unitCode": "CEL"}, {"unitCode": "CEL"}),
        ({"unitCode": NULL, "observedAt": NULL}, {"unitCode": NULL, "observedAt": NULL}),
        ({"type": "Property", "value": NULL}, {"type": "Property", "value": NULL}),
        ({"type": "Relationship", "object": NULL}, {"type": "Relationship", "object": NULL}),
        ({"type": "GeoProperty", "value": NULL}, {"type": "GeoProperty", "value": NULL}),
        ({"type": "LanguageProperty", "languageMap": {"@none": NULL}}, {"type": "LanguageProperty", "languageMap": NULL}),
        ({"type": "LanguageProperty", "languageMap": {"en": NULL}}, {"type": "LanguageProperty", "languageMap": {"en": NULL}}),
        ({"type": "JsonProperty", "json": NULL}, {"type": "JsonProperty", "json": NULL}),
        ({"type": "VocabProperty", "vocab": NULL}, {"type": "VocabProperty", "vocab": NULL}),
        ({"type": "ListProperty", "valueList": [NULL]}, {"type": "ListProperty", "valueList": NULL}),
        ({"type": "ListRelationship", "objectList": [{"object": NULL}]}, {"type": "ListRelationship", "objectList": NULL}),
        ({"type": "Property", "value": {"a": NULL}}, {"type": "Property", "value": {"a": NULL}}),
        ({"b": NULL}, {name("b"): [{"value": NULL}]}),
    ],
)
def test_a_patch_may_say_less_and_delete(value: Any, expected: Instance) -> None:
    assert patch(value) == expected


@pytest.mark.parametrize(
    "value", [None, {"value": None}, {"value": [NULL]}, {"type": "Property", "value": {"a": [NULL]}}, {"datasetId": NULL}]
)
def test_a_patch_that_makes_no_sense(value: Any) -> None:
    with pytest.raises(BadRequestData):
        patch(value)


def test_one_attribute() -> None:
    assert parse_attribute("a", {"value": 1}, CORE, NOW, partial=True) == [{"value": 1, **TIMES}]
    assert parse_attribute("a", {"value": 1}, CORE, NOW) == [{"type": "Property", "value": 1, **TIMES}]
    for wrong in ("@invalid", "scope", "type", "id", "a b", "", "location"):
        with pytest.raises(BadRequestData):
            parse_attribute(wrong, {"value": 1}, CORE, NOW)
    with pytest.raises(BadRequestData):  # only a merge goes into values
        parse_attribute("a", {"value": {"x": NULL}}, CORE, NOW, partial=True)
    with pytest.raises(BadRequestData, match="nothing"):
        parse_attribute("a", {}, CORE, NOW, partial=True)


def test_the_history_of_an_attribute() -> None:
    body = ID | {
        "a": [{"value": 1, "instanceId": "urn:i:1"}, {"value": 2}],
        "b": [],
        "scope": [{"type": "Property", "value": ["/A"]}],
    }
    entity = parse_entity(body, CORE, NOW, temporal=True)
    assert [item["value"] for item in entity.attributes[name("a")]] == [1, 2]
    assert entity.attributes[name("a")][0]["instanceId"] == "urn:i:1"
    assert (entity.attributes[name("b")], entity.scopes) == ([], ("/A",))
    with pytest.raises(BadRequestData):
        parse_entity(ID | {"a": [1, 2]}, CORE, NOW, temporal=True)


def test_the_context_of_a_document() -> None:
    assert split_context({"@context": "x", "a": 1}) == ({"a": 1}, "x")
    assert split_context({"a": 1}) == ({"a": 1}, None)
    assert split_context([1]) == ([1], None)


@pytest.mark.parametrize("term", ["datasetId", "instanceId", "observedAt", "unitCode", "entityIdSealed"])
def test_members_of_attributes_are_no_names_of_attributes(term: str) -> None:
    with pytest.raises(BadRequestData, match=term):
        parse_entity(ID | {term: {"type": "Property", "value": 1}}, CORE, NOW)


PROOF = {"type": "Property", "value": {"type": "DataIntegrityProof", "proofValue": "z"}}


def test_a_proof_says_what_it_is_of() -> None:
    sealed = {"entityIdSealed": ID["id"], "entityTypeSealed": "Car"}
    made = parse_entity(ID | {"ngsildproof": PROOF | sealed}, CORE, NOW)
    (proof,) = made.attributes["https://uri.etsi.org/ngsi-ld/ngsildproof"]
    assert proof == PROOF | {"entityIdSealed": ID["id"], "entityTypeSealed": name("Car")} | TIMES
    assert represent(made, CORE, View())["ngsildproof"] == PROOF | sealed


@pytest.mark.parametrize(
    "attribute",
    [
        {"a": PROOF | {"entityIdSealed": ID["id"]}},
        {"ngsildproof": PROOF | {"entityTypeSealed": 42}},
        {"ngsildproof": PROOF | {"entityIdSealed": "no URI"}},
        {"ngsildproof": PROOF | {"value": "zQe"}},
        {"ngsildproof": {"type": "Relationship", "object": "urn:x:1"}},
        {"a": {"type": "LanguageProperty", "languageMap": {"en": "x"}, "valueType": "xsd:string"}},
    ],
)
def test_proofs_and_value_types_that_make_no_sense(attribute: Any) -> None:
    with pytest.raises(BadRequestData):
        parse_entity(ID | attribute, CORE, NOW)


@pytest.mark.parametrize("unseen", ["\ufe0f", "\U000e0100", "\u115f", "\u3164", "\uffa0", "\u2800", "\u034f", "\u200b", "\u00ad"])
def test_an_id_has_nothing_in_it_that_cannot_be_seen(unseen: str) -> None:
    with pytest.raises(BadRequestData, match="not a URI"):
        parse_entity(ID | {"id": f"urn:ngsi-ld:Car:{unseen}1"}, CORE, NOW)
    assert parse_entity(ID | {"id": "urn:ngsi-ld:Car:äß한ю"}, CORE, NOW).id.endswith("한ю")
