"""A federation as a file says it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.model import InvalidInput
from hanse.ngsild.entity import DEFAULT_VOCAB
from hanse.node.federation.description import Description, read_file, rule_of

SMART_PORT = Path(__file__).parents[3] / "examples" / "smart-port" / "federation.toml"
TWO = """
[federation]
name = "two"
[[nodes]]
id = "a"
listen = "tcp/127.0.0.1:1"
[[nodes]]
id = "b"
listen = "tcp/127.0.0.1:2"
[[links]]
between = ["a", "b"]
export = { types = ["Bus"] }
"""


def described(folder: Path, text: str, node: str = "a") -> Description:
    path = folder / "f.toml"
    path.write_text(text)
    return Description(read_file(path), node, folder)


def test_the_smart_port_of_the_paper() -> None:
    file = read_file(SMART_PORT)
    assert len(file.nodes) == 7
    assert len({node.community for node in file.nodes}) == 3
    port = Description(file, "port", SMART_PORT.parent)
    assert set(port.own().links) == {"port-a", "port-b", "bus", "fire"}
    assert not port.own().links["fire"].allows_type(DEFAULT_VOCAB + "Person")
    assert port.own().links["fire"].allows_type(DEFAULT_VOCAB + "Room")


def test_the_first_end_calls_the_second(tmp_path: Path) -> None:
    assert described(tmp_path, TWO, "a").connect() == ["tcp/127.0.0.1:2"]
    assert described(tmp_path, TWO, "b").connect() == []
    assert described(tmp_path, TWO + 'via = "tcp/127.0.0.1:9"\n', "a").connect() == ["tcp/127.0.0.1:9"]


def test_short_names_stand_for_the_default_vocabulary_too() -> None:
    rule = rule_of({"types": ["Bus*"], "deny_attributes": ["driver", "urn:x:y"]})
    assert rule.allows_type("BusStop")
    assert rule.allows_type(DEFAULT_VOCAB + "BusStop")
    assert not rule.allows_type("https://example.org/Bus")
    assert not rule.shows(DEFAULT_VOCAB + "driver")
    assert not rule.shows("urn:x:y")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "description of a federation"),
        ("[federation]\nname = 'x'\n", "description of a federation"),
        ("[federation]\nname = 'x'\n[[nodes]]\nid = 'a'\n[[nodes]]\nid = 'a'\n", "the same id"),
        (TWO.replace('"b"]', '"c"]'), "none of"),
        (TWO.replace('"b"]', '"a"]'), "joins a node to itself"),
        (TWO.replace("types", "typse"), "has no 'typse'"),
        (TWO.replace('["Bus"]', '"Bus"'), "cannot be used"),
        (TWO.replace('name = "two"', 'name = "two"\nstrategy = "luck"'), "there is no strategy 'luck'"),
        (TWO.replace('name = "two"', 'name = "two"\nstrategy = "broadcast-groups"'), "needs a cloud"),
        ("\x00", "description of a federation"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as told:
        described(tmp_path, text)
    assert "\n" not in str(told.value)


def test_a_node_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is one of a, b"):
        described(tmp_path, TWO, "z")
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_file(tmp_path / "missing.toml")


keys = st.sampled_from(["types", "ids", "deny", "attributes", "scopes", "area", "quality", "x"])
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(keys, anything, max_size=3))
def test_rules_from_anything_are_rules_or_refused(given_rule: dict[str, object]) -> None:
    with suppress(InvalidInput):
        rule_of(given_rule)
