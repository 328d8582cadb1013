from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.ngsild.contexts import CORE, compile_context
from hanse.ngsild.entity import DEFAULT_VOCAB, Entity, now_text
from hanse.ngsild.errors import BadRequestData
from hanse.ngsild.model_schemas import DEPTH_MAX, PROPERTIES_MAX, SCHEMAS_MAX
from hanse.ngsild.models import (
    BYTES_MAX,
    LINEAGE_MAX,
    VIOLATIONS_MAX,
    CompiledModel,
    DataModel,
    check_model,
    decode_model,
    encode_model,
    parse_model,
    resolve,
    violations,
)
from hanse.ngsild.parsing import parse_entity

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"
COMMON = "https://smart-data-models.github.io/data-models/common-schema.json#/definitions/"
NOW = "2026-01-01T00:00:00.000000Z"


def _dashed(members: dict[str, Any]) -> dict[str, Any]:
    """x_extends is x-extends, which is no name in Python."""
    return {name.replace("x_", "x-"): value for name, value in members.items()}


def schema(type_: str = "Room", properties: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"type": {"const": type_}} | (properties or {})} | _dashed(more)


def model(type_: str = "Room", properties: dict[str, Any] | None = None, **more: Any) -> DataModel:
    return parse_model(schema(type_, properties, **more), CORE)


def compiled(properties: dict[str, Any] | None = None, **more: Any) -> CompiledModel:
    return resolve(model("Room", properties, **more), {})


def entity(**attributes: Any) -> Entity:
    return parse_entity({"id": "urn:r:1", "type": "Room"} | attributes, CORE, NOW)


def told(found: CompiledModel, *changed: str, **attributes: Any) -> list[str]:
    return violations(found, entity(**attributes), changed=[CORE.expand_name(name) for name in changed] or None)


def by_type(*models: DataModel) -> dict[str, DataModel]:
    return {one.type: one for one in models}


# --- reading ----------------------------------------------------------------------------------------------------------


def test_a_model_says_what_its_entities_look_like() -> None:
    found = parse_model(
        {
            "$schema": "http://json-schema.org/schema#",
            "$schemaVersion": "0.1.2",
            "$id": "https://smart-data-models.github.io/dataModel.Device/Device/schema.json",
            "title": "A device",
            "type": "object",
            "allOf": [
                {"$ref": COMMON + "GSMA-Commons"},
                {"$ref": COMMON + "Location-Commons"},
                {
                    "properties": {
                        "type": {"enum": ["Device"]},
                        "level": {"type": "number", "description": "Property. Model:'https://schema.org/Number'. How full it is"},
                        "owner": {"x-ngsi": {"type": "Relationship"}},
                        "partOf": {"type": "string", "description": "Relationship. What it belongs to"},
                    }
                },
            ],
            "required": ["id", "type", "level"],
        },
        CORE,
    )
    assert (found.type, found.name, found.title, found.version) == (DEFAULT_VOCAB + "Device", "Device", "A device", "0.1.2")
    whole = resolve(found, {})
    assert {"name", "location", "address", "level", "owner", "partOf"} <= whole.properties.keys()
    assert "id" not in whole.properties
    assert "type" not in whole.properties
    assert whole.relationships == ["owner", "partOf"]
    assert whole.of(dynamic=True) == ["level"]
    level = whole.properties["level"]
    assert (level.kind, level.is_required, level.uri) == ("Property", True, DEFAULT_VOCAB + "level")
    assert level.description.endswith("How full it is")
    assert whole.properties["location"].kind == "GeoProperty"


def test_names_are_those_of_the_context() -> None:
    context = compile_context({"Room": "https://a.example/Room", "level": "https://a.example/level"})
    found = resolve(parse_model(schema("Room", {"level": {"type": "number"}}), context), {})
    assert found.type == "https://a.example/Room"
    body = {"id": "urn:r:1", "type": "Room", "level": "high"}
    assert violations(found, parse_entity(body, context, NOW)) == ['level: "high" is not of type "number" (rule: type)']
    assert violations(found, parse_entity(body, CORE, NOW)) == []  # another attribute, by the same short name


def test_a_type_can_be_given_beside_the_schema() -> None:
    assert parse_model({"properties": {}}, CORE, type_="urn:t:Room").type == "urn:t:Room"
    with pytest.raises(BadRequestData, match="not for"):
        parse_model(schema(), CORE, type_="urn:t:Room")


def test_a_model_can_be_stored_and_sent() -> None:
    found = msgspec.structs.replace(model("Room", {"level": {"type": "number"}}), modified_at=now_text())
    again = decode_model(encode_model(found))
    assert again == found
    assert again.digest == found.digest
    check_model(again)
    assert violations(resolve(again, {}), entity(level="high"))


@pytest.mark.parametrize(
    "members",
    [
        {"type": "no URI"},
        {"names": {}},
        {"names": {"level": "no URI"}},
        {"extends": ("no URI",)},
        {"modified_at": "soon"},
        {"modified_at": "9999-12-31T23:59:59.999999Z"},
        {"modified_at": "2026-02-31T00:00:00.000000Z"},
        {"schema": {"properties": 5}},
        {"title": "x" * 2 * BYTES_MAX},
    ],
)
def test_what_another_sends_is_looked_at(members: dict[str, Any]) -> None:
    good = msgspec.structs.replace(model("Room", {"level": {"type": "number"}}), modified_at=NOW)
    check_model(good)
    with pytest.raises(BadRequestData):
        check_model(msgspec.structs.replace(good, **members))


def nested(depth: int) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    for _ in range(depth):
        inner = {"items": inner}
    return inner


BOMB = {f"d{n}": {"allOf": [{"$ref": f"#/definitions/d{n + 1}"}] * 2} for n in range(20)} | {"d20": {"minimum": 1}}


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        (b"{", "not JSON"),
        (b"[]", "JSON object"),
        (b'{"a": "' + b"x" * BYTES_MAX + b'"}', "larger than"),
        (b"[" * 100_000, "not JSON"),
        ({"properties": {}}, "which type"),
        ({"properties": {"type": {"enum": ["A", "B"]}}}, "several types"),
        (schema("no name!"), "not legal"),
        (schema(properties={"no name!": {}}), "not legal"),
        (schema(properties={"a": 5}), "JSON object, not 5"),
        (schema(properties={"a": {"type": "nonsense"}}), "not valid JSON Schema"),
        (schema(properties={"a": {"minimum": "x"}}), "not valid JSON Schema"),
        (schema(properties={"a": {"pattern": "("}}), "regex"),
        (schema(properties={"a": {"pattern": "(?=a)b"}}), "look-around"),
        (schema(properties={"a": {"pattern": "^(\\w{1,1000}){1,1000}$"}}), "regex"),
        (schema(required=[[]]), "not valid JSON Schema"),
        (schema(allOf={}), "array of schemas"),
        (schema(properties={"a": {"$ref": 5}}), "is a text"),
        (schema(properties={"a": {"$ref": "#/definitions/b"}}), "leads nowhere"),
        (schema(properties={"a": {"$ref": "#b"}}), "no path"),
        (schema(properties={"a": {"$ref": "#"}}), "refers to itself"),
        (
            schema(properties={"a": {"$ref": "#/definitions/b"}}, definitions={"b": {"items": {"$ref": "#/definitions/b"}}}),
            "itself",
        ),
        (schema(properties={"a": {"$ref": "https://elsewhere.example/schema.json"}}), "not fetched"),
        (schema(properties={"a": {"$ref": "https://elsewhere.example/x#/definitions/y"}}), "not fetched"),
        (schema(properties={"a": {"$ref": "file:///etc/passwd.json"}}), "not fetched"),
        (schema(properties={"a": {"$ref": "Device"}}), "not within a property"),
        (schema(anyOf=[{"$ref": "Device"}]), "not within a property"),
        (schema(properties={"a": nested(DEPTH_MAX)}), "deep"),
        (schema(properties={f"a{n}": {} for n in range(PROPERTIES_MAX + 1)}), "more than"),
        (schema(properties={"a": {"anyOf": [{}] * SCHEMAS_MAX}}), "parts"),
        (schema(properties={"a": {"$ref": "#/definitions/d0"}}, definitions=BOMB), "parts"),
        (schema(x_dynamic=5), "x-dynamic"),
        (schema(x_extends=[5]), "x-extends"),
        (schema(title=5), "title"),
        (schema(properties={"a": {}, DEFAULT_VOCAB + "a": {}}), "same attribute"),
    ],
)
def test_what_is_no_usable_schema_is_refused(given_: Any, says: str) -> None:
    with pytest.raises(BadRequestData, match=says):
        parse_model(given_, CORE)


# --- inheriting -------------------------------------------------------------------------------------------------------


def test_a_model_inherits_from_another() -> None:
    asset = model("Asset", {"name": {"type": "string"}, "weight": {"minimum": 0}}, required=["name"])
    device = parse_model(schema("Room", {"weight": {"type": "number"}, "level": {}}, allOf=[{"$ref": "Asset"}]), CORE)
    assert device.extends == (DEFAULT_VOCAB + "Asset",)
    found = resolve(device, by_type(asset))
    assert found.lineage == (DEFAULT_VOCAB + "Asset", DEFAULT_VOCAB + "Room")
    assert found.properties["name"].model == DEFAULT_VOCAB + "Asset"
    assert found.properties["level"].model == DEFAULT_VOCAB + "Room"
    assert told(found, weight=-1) == [
        "name: it is missing (rule: required)",
        "weight: -1 is less than the minimum of 0 (rule: minimum)",
    ]
    assert told(found, name="x", weight="heavy") == ['weight: "heavy" is not of type "number" (rule: type)']


@pytest.mark.parametrize(
    "ref", ["Asset", DEFAULT_VOCAB + "Asset", "https://smart-data-models.github.io/dataModel.X/Asset/schema.json"]
)
def test_a_parent_is_named_in_several_ways(ref: str) -> None:
    assert parse_model(schema(allOf=[{"$ref": ref}]), CORE).extends == (DEFAULT_VOCAB + "Asset",)
    if "schema.json" not in ref:
        assert parse_model(schema(x_extends=ref), CORE).extends == (DEFAULT_VOCAB + "Asset",)


def test_several_parents_and_a_common_ancestor() -> None:
    models = by_type(
        model("A", {"a": {}}),
        model("B", {"b": {}}, x_extends="A"),
        model("C", {"c": {}}, x_extends="A"),
    )
    found = resolve(model("D", {"d": {}}, x_extends=["B", "C"]), models)
    assert [name.removeprefix(DEFAULT_VOCAB) for name in found.lineage] == ["A", "B", "C", "D"]
    assert list(found.properties) == ["a", "b", "c", "d"]


def test_no_model_extends_itself() -> None:
    a, b = model("A", x_extends="B"), model("B", x_extends="A")
    with pytest.raises(BadRequestData, match="cannot extend itself"):
        resolve(a, by_type(a, b))
    own = model("A", x_extends="A")
    with pytest.raises(BadRequestData, match="cannot extend itself"):
        resolve(own, {})


def test_a_parent_must_be_there() -> None:
    with pytest.raises(BadRequestData, match="of which there is no model"):
        resolve(model("A", x_extends="B"), {})
    gone = DataModel(type=DEFAULT_VOCAB + "B", name="B", is_deleted=True)
    with pytest.raises(BadRequestData, match="of which there is no model"):
        resolve(model("A", x_extends="B"), by_type(gone))


def test_the_line_of_ancestors_is_bounded() -> None:
    chain = [model("T0"), *(model(f"T{n}", x_extends=f"T{n - 1}") for n in range(1, LINEAGE_MAX + 1))]
    resolve(chain[LINEAGE_MAX - 1], by_type(*chain))
    with pytest.raises(BadRequestData, match="inherits from more than"):
        resolve(chain[LINEAGE_MAX], by_type(*chain))


def test_one_name_means_one_thing_in_parent_and_heir() -> None:
    parent = parse_model(schema("A", {"level": {}}), compile_context({"level": "https://a.example/level"}))
    with pytest.raises(BadRequestData, match="same @context"):
        resolve(model("B", {"level": {}}, x_extends="A"), by_type(parent))


def test_what_is_dynamic() -> None:
    properties: dict[str, Any] = {"name": {}, "location": {}, "speed": {}, "owner": {"description": "Relationship. Whose it is"}}
    assert compiled(properties).of(dynamic=True) == ["speed"]
    parent = model("A", properties)
    heir = resolve(model("B", {"load": {}, "colour": {}}, x_extends="A", x_dynamic=["load", "location"]), by_type(parent))
    assert heir.of(dynamic=True) == ["location", "speed", "load"]
    with pytest.raises(BadRequestData, match="x-dynamic"):
        compiled(properties, x_dynamic=["weight"])


def test_a_closed_model_knows_what_it_inherits() -> None:
    parent = model("A", {"a": {}}, additionalProperties=False)
    found = resolve(model("Room", {"b": {}}, x_extends="A"), by_type(parent))
    assert told(found, a=1, b=2) == []
    assert told(found, a=1, c=2) == ["c: the model does not know it (rule: unevaluatedProperties)"]
    assert told(found, "a", a=1, c=2) == []
    assert told(found, "c", a=1, c=2) != []


# --- checking ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ({"type": "number"}, 21.5, "warm"),
        ({"type": "integer", "minimum": 0, "maximum": 9}, 4, 10),
        ({"enum": ["a", "b"]}, "a", "c"),
        ({"type": "string", "format": "date-time"}, "2026-01-01T00:00:00Z", "tomorrow"),
        ({"format": "date-time", "type": "string"}, {"value": {"@type": "DateTime", "@value": "2026-01-01T00:00:00Z"}}, 5),
        ({"type": "string", "pattern": "^[a-z]+$"}, "abc", "ABC"),
        ({"type": "array", "items": {"type": "string"}}, {"value": ["a"]}, {"value": ["a", 1]}),
        ({"items": [{"type": "string"}, {}], "additionalItems": False}, {"value": ["a", 1]}, {"value": ["a", 1, 2]}),
        ({"type": "object", "required": ["x"]}, {"value": {"x": 1}}, {"value": {"y": 1}}),
        ({"$ref": "#/definitions/percent"}, 50, 101),
        ({"$ref": COMMON + "GSMA-Commons/properties/name"}, "x", None),
        ({"anyOf": [{"type": "number"}, {"enum": ["none"]}]}, "none", "some"),
        ({"description": "Relationship. x"}, {"object": "urn:b:1"}, "urn:b:1"),
        ({"type": "string", "description": "Relationship. x"}, {"object": "urn:b:1"}, {"object": ["urn:b:1", "urn:b:2"]}),
        ({"type": "array"}, {"objectList": [{"object": "urn:b:1"}]}, {"object": "urn:b:1"}),
        ({"description": "Property. x"}, "urn:b:1", {"object": "urn:b:1"}),
        ({"description": "GeoProperty. x"}, {"type": "GeoProperty", "value": {"type": "Point", "coordinates": [1, 2]}}, 5),
        ({"maxLength": 3}, {"languageMap": {"en": "abc", "de": "def"}}, {"languageMap": {"en": "abc", "de": "long"}}),
        ({"enum": ["on", "off"]}, {"vocab": "on"}, {"vocab": "maybe"}),
        ({"type": "object"}, {"json": {"a": 1}}, {"json": [1]}),
        ({"minimum": 0}, [{"value": 1}, {"value": 2, "datasetId": "urn:d"}], [{"value": 1}, {"value": -1, "datasetId": "urn:d"}]),
    ],
)  # fmt: skip
def test_every_kind_of_rule_and_value(rule: dict[str, Any], good: Any, bad: Any) -> None:
    found = compiled({"a": rule}, definitions={"percent": {"type": "number", "maximum": 100}})
    assert told(found, a=good) == []
    assert told(found, "a", a=good) == []
    if bad is None:
        return
    for words in (told(found, a=bad), told(found, "a", a=bad)):
        assert len(words) == 1
        assert words[0].startswith("a")
        assert "(rule: " in words[0]


def test_what_is_missing_counts_for_the_whole_only() -> None:
    found = compiled({"a": {"type": "number"}, "b": {}}, required=["a", "b"])
    assert told(found, a=1) == ["b: it is missing (rule: required)"]
    assert told(found, "a", a=1) == []
    assert told(found, "b", a=1) == ["b: it is missing (rule: required)"]  # the change took it away
    assert told(found, "b", a="x", b=1) == []  # what was wrong before is not the fault of this change
    assert told(found, "a", a="x", b=1) == ['a: "x" is not of type "number" (rule: type)']


def test_rules_between_attributes() -> None:
    found = compiled({"a": {}, "b": {}}, anyOf=[{"required": ["a"]}, {"required": ["b"]}], dependencies={"a": ["c"]})
    assert told(found, b=1) == []
    assert told(found, a=1) == ["c: it is missing (rule: required)"]
    (words,) = told(found)
    assert words.startswith(
        "the entity: it fits none of the alternatives, or more than one: a: it is missing (rule: required); b:"
    )
    assert words.endswith("(rule: anyOf)")
    assert told(found, "c") == []
    assert told(found, "a") != []


def test_large_entities_are_told_of_in_short() -> None:
    properties = {"a": {"items": {"type": "string"}}, "b": {"type": "number"}}
    found = compiled(properties, required=["c"], additionalProperties=False)
    many = {"value": list(range(50_000))}
    large = "a: it does not fit, and is too large to say why (rule: properties)"
    wrong = 'b: "x" is not of type "number" (rule: type)'
    missing = "c: it is missing (rule: required)"
    unknown = "d: the model does not know it (rule: unevaluatedProperties)"
    assert told(found, a=many, b="x", d=1) == [large, wrong, missing, unknown]
    assert told(found, "b", a=many, b=1) == []
    assert told(found, "b", a=many, b="x") == [wrong]
    assert told(found, "c", a=many, b=1) == [missing]
    assert told(found, "d", a=many, d=1) == [unknown]
    between = compiled({"a": {}}, anyOf=[{"required": ["x"]}, {"required": ["y"]}])
    assert told(between, a=many)[0].startswith("the entity: it breaks a rule between attributes")


def test_many_alternatives_and_many_values_do_not_multiply() -> None:
    """Each value that fits none of the alternatives has as many reasons: all of them together would take minutes."""
    found = compiled({"a": {"items": {"oneOf": [{"const": number} for number in range(SCHEMAS_MAX - 10)]}}})
    assert told(found, a={"value": [-1] * 50_000}) == ["a: it does not fit, and is too large to say why (rule: properties)"]


def test_words_are_bounded() -> None:
    found = compiled({f"a{n}": {"type": "number"} for n in range(100)})
    words = told(found, **{f"a{n}": "x" * 600 for n in range(100)})
    assert len(words) == VIOLATIONS_MAX
    assert all(len(line) < 500 for line in words)
    assert len(told(found, **{f"a{n}": "x" for n in range(100)})) == VIOLATIONS_MAX


def test_an_attribute_of_the_same_short_name_is_another_one() -> None:
    context = compile_context({"a": "https://a.example/a", "Room": DEFAULT_VOCAB + "Room"})
    found = resolve(parse_model(schema("Room", {"a": {"type": "number"}}, additionalProperties=False), context), {})
    assert told(found, a="x") == [f"{DEFAULT_VOCAB}a: the model does not know it (rule: unevaluatedProperties)"]


# --- the examples -----------------------------------------------------------------------------------------------------


def test_the_examples_are_models() -> None:
    models = by_type(
        *(parse_model(file.read_bytes(), CORE) for file in sorted(EXAMPLES.glob("*.json")) if "entity" not in file.name)
    )
    found = {one.name: resolve(one, models) for one in models.values()}
    assert found.keys() == {"Asset", "Device", "Vehicle", "Building"}
    assert found["Vehicle"].of(dynamic=True) == ["location", "speed", "heading"]
    assert found["Device"].relationships == ["ownedBy", "installedIn"]
    truck = {"id": "urn:v:1", "type": "Vehicle", "name": "7", "vehicleType": "truck", "heading": 360}
    assert violations(found["Vehicle"], parse_entity(truck, CORE, NOW)) == [
        "heading: 360 is greater than or equal to the maximum of 360 (rule: exclusiveMaximum)"
    ]


# --- rubbish ----------------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYWORDS = [
    "$id", "$ref", "$schema", "$schemaVersion", "additionalItems", "additionalProperties", "allOf", "anyOf", "const", "contains",
    "definitions", "dependencies", "dependentRequired", "dependentSchemas", "description", "else", "enum", "exclusiveMinimum",
    "format", "if", "items", "maxLength", "maximum", "minimum", "not", "oneOf", "pattern", "patternProperties", "prefixItems",
    "properties", "propertyNames", "required", "then", "title", "type", "unevaluatedProperties", "uniqueItems", "x-dynamic",
    "x-extends", "x-ngsi",
]  # fmt: skip
REFS = st.sampled_from(
    ["#", "#/definitions/a", "#/properties/a", "Asset", COMMON + "GSMA-Commons", COMMON, "https://x.example/y"]
)
NAMES = st.sampled_from(["a", "b", "type", "id", "name"])


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    values = (
        inner
        | st.lists(inner, max_size=3)
        | st.dictionaries(NAMES, inner, max_size=3)
        | REFS
        | JSON
        | st.lists(NAMES, max_size=3)
        | st.sampled_from(["string", "number", "object"])
    )
    return st.dictionaries(st.sampled_from(KEYWORDS), values, max_size=5)


SCHEMAS = st.recursive(st.just({}) | st.booleans() | JSON, _schemas, max_leaves=12)
VALUES = JSON.filter(lambda value: value is not None)


@given(SCHEMAS, SCHEMAS, st.dictionaries(NAMES.filter(lambda name: name not in {"id", "type"}), VALUES, max_size=3))
def test_rubbish_is_refused_and_nothing_else(first: Any, second: Any, attributes: dict[str, Any]) -> None:
    models = {}
    for name, one in (("Asset", first), ("Room", second)):
        try:
            found = parse_model(one, CORE, type_=DEFAULT_VOCAB + name)
            check_model(msgspec.structs.replace(found, modified_at=NOW))
            models[found.type] = found
        except BadRequestData:
            continue
    for one in models.values():
        try:
            whole = resolve(one, models)
        except BadRequestData:
            continue
        thing = Entity(
            id="urn:r:1",
            types=(one.type,),
            attributes={CORE.expand_name(name): [{"type": "Property", "value": value}] for name, value in attributes.items()},
        )
        for changed in (None, [], list(thing.attributes)):
            assert all(isinstance(line, str) and line for line in violations(whole, thing, changed=changed))
        shown = {"id": "urn:r:1", "type": [name.removeprefix(DEFAULT_VOCAB) for name in thing.types]} | attributes
        assert whole.validator.is_valid(shown) or violations(whole, thing)


@given(st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_bytes_are_a_model_or_refused(data: bytes) -> None:
    with suppress(BadRequestData):
        assert parse_model(data, CORE, type_="urn:t:1").type == "urn:t:1"


def _parts(value: Any) -> Iterator[Any]:
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _parts(inner)


@given(SCHEMAS)
def test_no_reference_is_left_for_anyone_to_follow(one: Any) -> None:
    try:
        found = resolve(parse_model(one, CORE, type_="urn:t:1"), {})
    except BadRequestData:
        return
    keys = {key for part in _parts(_without_data(found.schema)) if isinstance(part, dict) for key in part}
    assert not keys & {"$ref", "$id", "$dynamicRef", "$schema", "definitions"}


def _without_data(value: Any) -> Any:
    """Values of enum, const and the like are no schemas; nor are the names of properties keywords."""
    if isinstance(value, list):
        return [_without_data(item) for item in value]
    if not isinstance(value, dict):
        return value
    plain = {"const", "enum", "x-ngsi", "dependentRequired", "required"}
    kept = {key: item for key, item in value.items() if key not in plain}
    for key in ("properties", "patternProperties", "dependentSchemas"):
        if key in kept:
            kept[key] = list(kept[key].values())
    return {key: _without_data(item) for key, item in kept.items()}
