"""Topics and payloads, there and back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.ngsild.contexts import CORE, compile_context
from hanse.ngsild.entity import DEFAULT_VOCAB, Entity
from hanse.ngsild.errors import NgsiLdError
from hanse.ngsild.operations import create
from hanse.ngsild.parsing import parse_attribute, parse_entity
from hanse.node.mqtt.mapping import (
    Place,
    Sought,
    Topics,
    attribute_body,
    attribute_payload,
    decode_payload,
    entity_body,
    topic_matches,
)

NOW = "2026-01-01T00:00:00.000000Z"
PORT = Topics("port")

names = st.text(min_size=1).filter(lambda name: name != "-" and name.isprintable())


@pytest.mark.parametrize(
    ("topic", "place"),
    [
        ("port/entities/-/Crane/urn:x:7/load", Place("", "Crane", "urn:x:7", "load")),
        ("port/entities/-/Crane/urn:x:7", Place("", "Crane", "urn:x:7")),
        (
            "port/entities/https:%2F%2Fc.example%2Fc.jsonld/Crane/http:%2F%2Fx%2F7%2520a/a%2Bb",
            Place("https://c.example/c.jsonld", "Crane", "http://x/7%20a", "a+b"),
        ),
        ("port/entities/-/Kranführer/urn:ü/größe", Place("", "Kranführer", "urn:ü", "größe")),
    ],
)
def test_a_topic_names_a_place_and_a_place_its_topic(topic: str, place: Place) -> None:
    assert PORT.parse(topic) == place
    assert PORT.of(place) == topic


@given(st.builds(Place, st.just("") | names, names, names, st.none() | names))
def test_every_place_has_a_topic_that_names_it(place: Place) -> None:
    topic = PORT.of(place)
    assert not set("+#\0") & set(topic)
    assert PORT.parse(topic) == place
    assert topic_matches(PORT.everything, topic)
    assert topic_matches("port/entities/+/+/+" + ("/+" if place.attribute is not None else ""), topic)
    assert PORT.sought(topic) == (Sought(place.context, place.type, place.id) if place.attribute is not None else None)


@pytest.mark.parametrize(
    "topic",
    [
        "",
        "port",
        "other/entities/-/T/urn:x/a",
        "port/entities/",
        "port/entities/-/T",
        "port/entities/-/T/urn:x/a/b",
        "port/entities/-//urn:x/a",
        "port/entities/-/T/urn:x/",
        "port/entities/-/T/%zz/a",
        "port/entities/-/T/%FF/a",
    ],
)
def test_a_topic_that_is_no_place_is_refused(topic: str) -> None:
    with pytest.raises(NgsiLdError):
        PORT.parse(topic)


def test_what_is_wrong_is_told_at_the_same_place_below_errors() -> None:
    assert PORT.error("port/entities/-/T/urn:x/a") == "port/errors/-/T/urn:x/a"


@pytest.mark.parametrize(
    ("pattern", "sought"),
    [
        ("#", Sought(None, None, None)),
        ("port/#", Sought(None, None, None)),
        ("port/entities/#", Sought(None, None, None)),
        ("+/entities/-/Crane/#", Sought("", "Crane", None)),
        ("port/entities/+/Crane/urn:x/+", Sought(None, "Crane", "urn:x")),
        ("port/entities/a%2Fb/+/+/load", Sought("a/b", None, None)),
        ("port/errors/#", None),
        ("other/#", None),
        ("port/entities/-/Crane", None),
    ],
)
def test_a_pattern_says_which_entities_it_asks_for(pattern: str, sought: Sought | None) -> None:
    assert PORT.sought(pattern) == sought


@pytest.mark.parametrize(
    ("pattern", "topic", "expected"),
    [
        ("a/b", "a/b", True),
        ("a/+", "a/b", True),
        ("a/+", "a/b/c", False),
        ("a/#", "a", True),
        ("a/#", "a/b/c", True),
        ("#", "$SYS/x", False),
        ("+/x", "$SYS/x", False),
        ("$SYS/#", "$SYS/x", True),
        ("a/b/c", "a/b", False),
    ],
)
def test_patterns_of_topics(pattern: str, topic: str, expected: bool) -> None:
    assert topic_matches(pattern, topic) is expected


POINT = {"type": "Point", "coordinates": [8.8, 53.1]}


@pytest.mark.parametrize(
    ("payload", "attribute"),
    [
        (30, {"type": "Property", "value": 30}),
        ("open", {"type": "Property", "value": "open"}),
        ([1, 2], {"type": "Property", "value": [1, 2]}),
        ({"left": 3}, {"type": "Property", "value": {"left": 3}}),
        (POINT, {"type": "GeoProperty", "value": POINT}),
        ({"value": 30, "unitCode": "CEL"}, {"value": 30, "unitCode": "CEL"}),
        ({"object": "urn:x"}, {"object": "urn:x"}),
        ({"type": "Relationship", "object": "urn:x"}, {"type": "Relationship", "object": "urn:x"}),
        ([{"value": 1}, {"value": 2, "datasetId": "urn:d"}], [{"value": 1}, {"value": 2, "datasetId": "urn:d"}]),
    ],
)
def test_a_payload_is_a_bare_value_or_an_attribute(payload: Any, attribute: Any) -> None:
    assert attribute_body(payload) == attribute
    place = Place("", "Crane", "urn:x:7", "load")
    assert entity_body(place, payload) == {"id": "urn:x:7", "type": "Crane", "load": attribute}


def test_an_entity_may_leave_out_what_the_topic_says() -> None:
    place = Place("", "Crane", "urn:x:7")
    full = {"id": "urn:x:7", "type": "Crane", "load": {"type": "Property", "value": 3}}
    assert entity_body(place, {"load": 3}) == full
    assert entity_body(place, {"id": "urn:x:7", "type": "Crane", "load": 3}) == full
    for wrong in ({"id": "urn:x:8"}, [1], 3, None):
        with pytest.raises(NgsiLdError):
            entity_body(place, wrong)


def test_id_and_type_are_not_attributes() -> None:
    with pytest.raises(NgsiLdError):
        entity_body(Place("", "Crane", "urn:x:7", "type"), "Ship")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "value", "object", "a", "coordinates", "unitCode"]) | st.text(), inner, max_size=4
        )
    ),
    max_leaves=8,
)


@given(st.binary() | json_values.map(msgspec.json.encode), st.booleans())
def test_whatever_a_device_sends_it_is_an_entity_or_refused(payload: bytes, whole: bool) -> None:
    try:
        place = PORT.parse("port/entities/-/Crane/urn:x:7" + ("" if whole else "/load"))
        entity = parse_entity(entity_body(place, decode_payload(payload)), CORE, NOW)
    except NgsiLdError:
        return
    assert entity.id == "urn:x:7"
    assert create(entity, NOW).after is entity


@given(st.text())
def test_whatever_the_topic_is_it_is_a_place_or_refused(topic: str) -> None:
    for given_topic in (topic, PORT.entities + topic):
        try:
            PORT.parse(given_topic)
            PORT.sought(given_topic)
        except NgsiLdError:
            pass


CONTEXT = compile_context({"load": "https://port.example/load", "Crane": "https://port.example/Crane"})

attributes = st.one_of(
    json_values.filter(lambda value: value is not None and value != [] and value != {}).map(
        lambda value: {"type": "Property", "value": value}
    ),
    st.just({"type": "GeoProperty", "value": POINT}),
    st.just({"type": "Property", "value": POINT}),
    st.just({"type": "Relationship", "object": "urn:x:8", "since": {"type": "Property", "value": 3}}),
    st.just({"type": "LanguageProperty", "languageMap": {"de": "Kran", "en": "crane"}}),
    st.just({"type": "Property", "value": 30, "unitCode": "CEL", "observedAt": "2026-01-01T00:00:00Z"}),
    st.just({"type": "JsonProperty", "json": {"value": 3}}),
    st.just([{"type": "Property", "value": 1}, {"type": "Property", "value": 2, "datasetId": "urn:d"}]),
    st.just([{"type": "Property", "value": 2, "datasetId": "urn:d"}]),
)


@given(attributes)
def test_what_the_node_publishes_means_the_same_to_another_node(attribute: Any) -> None:
    try:
        instances = parse_attribute("load", attribute, CONTEXT, NOW)
    except NgsiLdError:
        return
    payload = attribute_payload(instances, CONTEXT)
    assert parse_attribute("load", attribute_body(decode_payload(payload)), CONTEXT, NOW) == instances


@pytest.mark.parametrize(
    ("attribute", "concise", "simplified"),
    [
        ({"type": "Property", "value": 30}, b"30", b"30"),
        ({"type": "Property", "value": 30, "unitCode": "CEL"}, b'{"value":30,"unitCode":"CEL"}', b"30"),
        ({"type": "Relationship", "object": "urn:x"}, b'{"object":"urn:x"}', b'"urn:x"'),
        ({"type": "GeoProperty", "value": POINT}, msgspec.json.encode(POINT), msgspec.json.encode(POINT)),
    ],
)
def test_the_two_forms_of_a_last_value(attribute: Any, concise: bytes, simplified: bytes) -> None:
    instances = parse_attribute("load", attribute, CONTEXT, NOW)
    assert attribute_payload(instances, CONTEXT) == concise
    assert attribute_payload(instances, CONTEXT, "simplified") == simplified


def test_topics_are_in_the_context_that_is_asked_for() -> None:
    entity = Entity(id="urn:x:7", types=("https://port.example/Crane",))
    assert PORT.of_attribute(entity, "https://port.example/load", CONTEXT, "u") == "port/entities/u/Crane/urn:x:7/load"
    assert PORT.of_attribute(Entity(id="urn:x:7", types=(DEFAULT_VOCAB + "Crane",)), DEFAULT_VOCAB + "load", CORE, "") == (
        "port/entities/-/Crane/urn:x:7/load"
    )
