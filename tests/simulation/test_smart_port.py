"""The port has what the paper counts, and everything is contained in something that is there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.model import InvalidInput
from hanse.ngsild.contexts import CORE
from hanse.ngsild.parsing import parse_entity
from hanse.node.federation.description import read_file
from hanse.simulation.smart_port import AREA_B, COMMUNITIES, KINDS, PORT_AREA_B, smart_port

EXAMPLE = Path(__file__).parents[2] / "examples" / "smart-port" / "federation.toml"
PLACES = {
    "Building": {"Community"},
    "BuildingFloor": {"Building"},
    "Room": {"BuildingFloor"},
    "Window": {"Room"},
    "Door": {"Room"},
    "Device": {"Room", "Window", "Door"},
}


def test_port_area_b_is_the_papers_to_the_number() -> None:
    port = smart_port()
    assert Counter(made.entity["type"] for made in port.entities if made.node == AREA_B) == PORT_AREA_B


def test_all_together_are_as_many_as_in_the_paper() -> None:
    port = smart_port()
    counts = Counter(made.entity["type"] for made in port.entities)
    assert counts.pop("Community") == len(COMMUNITIES) == 3
    assert (sum(counts.values()), counts["Device"], len(port.devices)) == (15_000, 1_700, 1_700)
    assert len({made.entity["id"] for made in port.entities}) == 15_003


@given(seed=st.integers(0, 1_000), scale=st.floats(0.001, 0.02))
def test_everything_is_contained_in_something_of_the_right_type_at_its_own_node(seed: int, scale: float) -> None:
    port = smart_port(seed=seed, scale=scale)
    by_id = {made.entity["id"]: made for made in port.entities}
    top = {node: nodes[0] for nodes in COMMUNITIES.values() for node in nodes}
    for made in port.entities:
        if made.entity["type"] != "Community":
            inside = by_id[made.entity["containedIn"]["object"]]
            assert inside.entity["type"] in PLACES[made.entity["type"]]
            assert inside.node == (top[made.node] if inside.entity["type"] == "Community" else made.node)


def test_the_same_seed_gives_the_same_port_and_another_one_another() -> None:
    assert smart_port(seed=3, scale=0.01) == smart_port(seed=3, scale=0.01)
    assert smart_port(seed=3, scale=0.01) != smart_port(seed=4, scale=0.01)


def test_devices_speak_at_their_pace_and_length() -> None:
    port = smart_port(scale=0.2)
    messages = port.messages(600)
    assert [m.at_ms for m in messages] == sorted(m.at_ms for m in messages)
    assert messages == port.messages(600) != port.messages(600, seed=2)
    for kind in KINDS:
        own = [m for m in messages if m.device.kind is kind]
        devices = sum(device.kind is kind for device in port.devices)
        assert len(own) / devices == pytest.approx(600 / kind.period_s, rel=0.15)
        values = [len(str(m.attributes["value"]["value"])) + len(m.attributes["report"]["value"]) for m in own]
        assert mean(values) == kind.message_bytes


def test_the_nodes_are_those_of_the_example() -> None:
    described = {node.id: node.community for node in read_file(EXAMPLE).nodes}
    assert described == {node: community for community, nodes in COMMUNITIES.items() for node in nodes}
    assert {made.node for made in smart_port(scale=0.01).entities} <= described.keys()


def test_every_entity_is_ngsi_ld() -> None:
    for made in smart_port(scale=0.005).entities:
        parsed = parse_entity(made.entity, CORE, "2026-01-01T00:00:00Z")
        assert parsed.id == made.entity["id"]
        assert len(parsed.attributes) == len(made.entity) - 2


@pytest.mark.parametrize("scale", [0, -1, 11])
def test_a_port_has_some_size(scale: float) -> None:
    with pytest.raises(InvalidInput, match="times as large"):
        smart_port(scale=scale)
