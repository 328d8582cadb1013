"""The mapping of MQTT devices: messages as entities, changes as commands, faults in one line, and rubbish."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.agents.mqtt_client import parse_address
from hanse.agents.mqtt_mapping import Device, commands_of, decode_payload, load_mapping, parse_mapping, value_at
from hanse.model import InvalidInput

EXAMPLE = Path(__file__).parents[2] / "examples" / "agents" / "devices.toml"
AT = "2026-05-01T12:00:00.000Z"
RULE = '[[devices]]\ntopic = "a/{x}"\ntype = "A"\nid = "urn:a:{x}"\n'


def device(number: int) -> Device:
    return load_mapping(EXAMPLE).devices[number]


def mapped(text: str) -> Device:
    return parse_mapping(RULE + text, "m.toml").devices[0]


def test_a_message_of_the_example() -> None:
    payload = {"t": 21.5, "hum": 48, "time": "2026-05-01T14:00:00+03:00", "set": {"target": 20}}
    at = {"observedAt": "2026-05-01T11:00:00.000Z"}
    assert device(0).read("warehouse/hall 7/climate", payload, AT) == {
        "id": "urn:ngsi-ld:Warehouse:hall%207",
        "type": "Warehouse",
        "temperature": {"type": "Property", "value": 21.5, "unitCode": "CEL", **at},
        "relativeHumidity": {"type": "Property", "value": 48, "unitCode": "P1", **at},
        "targetTemperature": {"type": "Property", "value": 20, "unitCode": "CEL", **at},
        "locatedIn": {"type": "Relationship", "object": "urn:ngsi-ld:Port:heraklion"},
    }
    assert device(0).read("warehouse/7/climate/set", payload, AT) is None
    assert device(1).read("warehouse/7/climate", payload, AT) is None


def test_places_and_bare_values() -> None:
    truck = device(1).read("trucks/HKH-17/gps", {"pos": [{"lon": 25.14, "lat": 35.34}]}, AT)
    place = {"type": "Point", "coordinates": [25.14, 35.34]}
    assert truck == {
        "id": "urn:ngsi-ld:Vehicle:HKH-17",
        "type": "Vehicle",
        "location": {"type": "GeoProperty", "value": place, "observedAt": AT},
    }
    assert device(2).read("gates/3/open", True, AT) == {
        "id": "urn:ngsi-ld:Gate:3",
        "type": "Gate",
        "open": {"type": "Property", "value": True, "observedAt": AT},
    }
    found = mapped('attributes = { where = "geo" }').read("a/1", {"geo": place}, AT)
    assert found is not None
    assert found["where"] == {"type": "GeoProperty", "value": place, "observedAt": AT}


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (1777636800, AT),
        (1777636800000, AT),
        (1777636800.5, "2026-05-01T12:00:00.500Z"),
        ("2026-05-01T12:00:00", AT),
        ("2026-05-01T12:00:00Z", AT),
    ],
)
def test_times_that_devices_write(time: Any, expected: str) -> None:
    found = mapped('observed_at = "ts"\nattributes = { t = "t" }').read("a/1", {"ts": time, "t": 1}, "later")
    assert found is not None
    assert found["t"]["observedAt"] == expected


def test_messages_that_cannot_be_used_say_why() -> None:
    timed = mapped('observed_at = "ts"\nattributes = { t = "t" }')
    placed = mapped('attributes = { p = { longitude = "x", latitude = "y" } }')
    for made, payload, complaint in (
        (timed, {"t": 1}, "there is no ts (observed_at) in the payload"),
        (timed, {"t": 1, "ts": "yesterday"}, "'yesterday' is no time"),
        (timed, {"t": 1, "ts": 1e300}, "is no time"),
        (timed, {"t": None, "ts": 1}, "none of t is in the payload"),
        (placed, {"x": 1}, "none of p is in the payload"),
        (placed, {"x": 1, "y": "north"}, "x and y are not both numbers"),
        (placed, {"x": 1, "y": 91}, "no place on the earth"),
    ):
        with pytest.raises(InvalidInput) as error:
            made.read("a/1", payload, AT)
        assert complaint in str(error.value)
    with pytest.raises(InvalidInput, match="the payload is not JSON"):
        decode_payload(b"{half")
    with pytest.raises(InvalidInput, match="more than"):
        decode_payload(b" " * 2_000_000)


def test_a_change_at_the_node_is_a_command() -> None:
    made = device(0)
    topic = "warehouse/hall 7/climate/set"
    assert made.command("targetTemperature", "urn:ngsi-ld:Warehouse:hall%207", 18) == (topic, b'{"target":18}')
    assert made.command("temperature", "urn:ngsi-ld:Warehouse:7", 18) is None
    assert made.command("targetTemperature", "urn:ngsi-ld:Room:7", 18) is None
    with pytest.raises(InvalidInput, match="no level of a topic"):
        made.command("targetTemperature", "urn:ngsi-ld:Warehouse:7%2F%23", 18)
    deep = mapped('attributes = { t = "" }\ncommands = { t = { topic = "s/{x}", path = "a.b" }, u = { topic = "all" } }')
    assert deep.command("t", "urn:a:1", [1]) == ("s/1", b'{"a":{"b":[1]}}')
    assert deep.command("u", "urn:a:1", "on") == ("all", b'"on"')
    assert list(commands_of(load_mapping(EXAMPLE))) == [("Warehouse", "targetTemperature")]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "m.toml: Object missing required field `devices`"),
        ("devices = []", "m.toml: it names no [[devices]]"),
        ("x = ", "m.toml: Invalid value"),
        (RULE + 'atributes = { t = "t" }', "contains unknown field `atributes`"),
        (RULE, "m.toml: [[devices]] number 1: attributes: name at least one"),
        (RULE.replace("a/{x}", "a/+") + 'attributes = { t = "t" }', "stands for a whole level"),
        (RULE.replace("a/{x}", "a/n{x}") + 'attributes = { t = "t" }', "stands for a whole level"),
        (RULE.replace("a/{x}", "a/{1x}") + 'attributes = { t = "t" }', "has a placeholder that is none"),
        (RULE.replace("a/{x}", "a/{x}/{x}") + 'attributes = { t = "t" }', "has a placeholder twice"),
        (RULE.replace("urn:a:{x}", "urn:a:{y}") + 'attributes = { t = "t" }', "id: {y} is not in the topic 'a/{x}'"),
        (RULE.replace("urn:a:{x}", "{x}") + 'attributes = { t = "t" }', "makes no URI"),
        (RULE + "attributes = { t = {} }", "attributes.t: give either path, or longitude and latitude"),
        (RULE + 'attributes = { t = { longitude = "x" } }', "attributes.t: give either path, or longitude and latitude"),
        (RULE + 'attributes = { t = "t" }\ncommands = { t = { topic = "s/{z}" } }', "commands.t.topic: {z} is not in the id"),
        (RULE + 'attributes = { t = "t" }\ncommands = { t = { topic = "s/#" } }', "'s/#' is no topic to publish to"),
        (RULE + 'relationships = { r = "urn:b:{q}" }', "relationships.r: {q} is not in the topic"),
    ],
)
def test_a_mapping_that_cannot_be_used_says_where_it_is_wrong(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInput) as error:
        parse_mapping(text, "m.toml")
    assert str(error.value).startswith("m.toml: ")
    assert complaint in str(error.value)


def test_paths() -> None:
    payload = {"a": [{"b": 1}, 2], "": 3}
    assert [value_at(payload, path) for path in ("a.0.b", "a.1", "")] == [1, 2, payload]
    missing = {id(value_at(payload, path)) for path in ("a.2", "a.-1", "a.x", "b", "a.0.b.c", "a.0.0", "a.²")}
    assert len(missing) == 1
    assert value_at(payload, "a.2") is not None


@pytest.mark.parametrize(
    "url", ["", "http://a", "mqtt://", "mqtt://a:0", "mqtt://a:x", "mqtt://a/topic", "mqtt://[", "mqtt://a?x"]
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(InvalidInput, match="no MQTT broker"):
        parse_address(url)


def test_addresses() -> None:
    assert str(parse_address("mqtt://127.0.0.1")) == "mqtt://127.0.0.1:1883"
    address = parse_address("mqtts://me:s%40crt@host")
    assert (address.port, address.tls, address.user, address.password) == (8883, True, "me", "s@crt")
    assert "s@crt" not in str(address)


levels = st.text(st.characters(exclude_characters="/+#\0", exclude_categories=["Cs"]), min_size=1, max_size=8)


@given(levels, st.integers())
def test_what_a_device_is_called_survives_the_way_there_and_back(level: str, value: int) -> None:
    made = mapped('attributes = { t = "" }\ncommands = { t = { topic = "a/{x}/set" } }')
    entity = made.read(f"a/{level}", value, AT)
    assert entity is not None
    assert entity["id"].isascii()
    assert made.command("t", entity["id"], value) == (f"a/{level}/set", str(value).encode())


trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["t", "time", "set", "pos", "lon", "x"]), inner),
    max_leaves=8,
)


@given(trees)
def test_no_payload_breaks_it(payload: Any) -> None:
    for made, topic in zip(load_mapping(EXAMPLE).devices, ("warehouse/1/climate", "trucks/1/gps", "gates/1/open"), strict=True):
        try:
            entity = made.read(topic, payload, AT)
        except InvalidInput:
            pass
        else:
            assert entity is not None
            assert len(entity) > 2


@given(st.binary(max_size=50))
def test_no_bytes_break_it(raw: bytes) -> None:
    with contextlib.suppress(InvalidInput):
        decode_payload(raw)


@given(st.integers(0, 10**6), st.text(st.sampled_from('{}[]="./#+a\n0 '), max_size=8))
def test_no_mapping_file_breaks_it(place: int, rubbish: str) -> None:
    good = EXAMPLE.read_text(encoding="utf-8")
    at = place % len(good)
    with contextlib.suppress(InvalidInput):
        parse_mapping(good[:at] + rubbish + good[at + len(rubbish) :], "m.toml")
