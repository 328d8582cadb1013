"""Topologies read, written and compared, and what a change would mean, without any node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.dashboard import mosquitto
from hanse.dashboard.rules import RuleForm, lets_pass, sentences, short
from hanse.dashboard.topology import (
    Topology,
    TopologyLink,
    TopologyNode,
    concerns,
    concerns_of_removal,
    difference,
    from_plain,
    node_configuration,
    reached,
    shortest,
    to_json,
    to_plain,
    to_toml,
)
from hanse.model import InvalidInput
from hanse.node.federation.description import read_file
from hanse.node.settings import load

EXAMPLE = Path(__file__).parents[2] / "examples" / "smart-port" / "federation.toml"


def port() -> Topology:
    return mosquitto.read_files({"federation.toml": EXAMPLE.read_text()})


# --- reading and writing ----------------------------------------------------------------------------------------------


def test_json_and_toml_come_back_as_they_were(tmp_path: Path) -> None:
    known = port()
    assert len(known.nodes) == 7
    assert mosquitto.read_files({"t.json": to_json(known)}) == known
    again = mosquitto.read_files({"t.toml": to_toml(known)})
    assert (again.nodes, again.links) == (known.nodes, known.links)
    file = tmp_path / "federation.toml"
    file.write_text(to_toml(known))
    described = read_file(file)  # `hanse federation up` takes it
    assert [link.between for link in described.links] == [link.between for link in known.links]
    assert described.federation.strategy == "advertised"


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)
RULES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {"types": ["Bus"]}, {"deny_types": ["Person"]}, {"deny": True}, {"quality": "precision>=40"}]
)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    ids = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
    nodes = tuple(TopologyNode(id_, draw(NAMES), (draw(st.floats(-180, 180)), 1.5)) for id_ in ids)
    pairs = [(a, b) for i, a in enumerate(ids) for b in ids[i + 1 :]]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return Topology(nodes, tuple(TopologyLink(pair, draw(RULES), draw(RULES)) for pair in chosen), {"name": draw(NAMES)})


@given(topologies())
def test_whatever_its_names_are_a_topology_is_read_back(known: Topology) -> None:
    assert mosquitto.read_files({"t.json": to_json(known)}) == known
    assert mosquitto.read_files({"t.toml": to_toml(known)}) == known
    bridged = mosquitto.read(mosquitto.write(known)) if len(mosquitto.write(known)) == len(known.nodes) else None
    if bridged is not None:
        assert {node.id for node in bridged.nodes} == {node.id for node in known.nodes}
        assert not difference(known, bridged)
        assert not difference(bridged, known)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "names no nodes"),
        ("{", "neither JSON nor TOML"),
        ('{"nodes": [{"id": 1}]}', "is no id of a node"),
        ('{"nodes": [{"id": "a"}, {"id": "a"}]}', "the same id"),
        ('{"nodes": [{"id": "a"}], "links": [{"between": ["a", "b"]}]}', "'b', which is none of the nodes"),
        ('{"nodes": [{"id": "a"}], "links": [{"between": ["a", "a"]}]}', "joins a node to itself"),
        ('{"nodes": [{"id": "a"}, {"id": "b"}], "links": [{"between": ["a", "b"], "export": {"tpyes": []}}]}', "has no 'tpyes'"),
        ('{"nodes": [{"id": "a", "location": "here"}]}', "is no node"),
        ('{"nodes": [7]}', "is no node"),
    ],
)
def test_what_is_no_topology_is_refused_in_words(text: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        mosquitto.read_files({"t.json": text})


# --- Mosquitto --------------------------------------------------------------------------------------------------------


def test_a_link_is_a_bridge_for_offers_as_far_as_its_rule_goes() -> None:
    files = mosquitto.write(port())
    assert len(files) == 7
    fire = files["fire_mosquitto.conf"]
    assert "connection fire_to_port\naddress 127.0.0.1:1883\n" in fire
    assert 'topic provider/+/+/+/Alert/# out 2 "" ""\ntopic provider/+/+/+/Vehicle/# out 2 "" ""' in fire
    assert 'topic provider/# out 2 "" ""' in files["port-a_mosquitto.conf"]
    assert "connection port_to_bus" not in files["port_mosquitto.conf"]  # it denies, which a bridge cannot
    assert set(mosquitto.not_bridged(port())) == {"port to bus", "bus to port"}
    assert not difference(port(), mosquitto.read(files))


def test_the_files_of_others_are_read_too() -> None:
    found = mosquitto.read(
        {
            "conf/mosquitto-a.conf": 'listener 1026\nconnection a_to_b\naddress localhost:1029\ntopic provider/# out 2 "" ""\n',
            "b_mosquitto.conf": "listener 1029 localhost\npersistence true\n"
            "connection up\naddress 10.0.0.7:1890\ntopic provider/+/+/+/Room/# both 0\n",
        }
    )
    assert [node.id for node in found.nodes] == ["a", "b", "up"]
    assert [(link.between, link.export, link.back) for link in found.links] == [
        (("a", "b"), {}, {"deny": True}),
        (("b", "up"), {"types": ["Room"]}, {"types": ["Room"]}),
    ]


def test_the_topology_of_the_comdex_demo_is_read() -> None:
    text = """{"nodes": [{"id": "Example 1", "ip": "192.168.1.1", "port": "1883", "community": "C1", "position": {"x": 1}},
        {"id": "Example 2", "ip": "192.168.1.2", "port": "1884", "community": "C1"}],
        "edges": [{"id": "Edge 1", "source": "Example 1", "target": "Example 2", "topic": "provider/#"}]}"""
    found = mosquitto.read_files({"topology.json": text})
    assert [(node.id, node.community, node.mqtt) for node in found.nodes] == [
        ("Example 1", "C1", 1883),
        ("Example 2", "C1", 1884),
    ]
    assert found.links == (TopologyLink(("Example 1", "Example 2"), {}, {"deny": True}),)
    assert "listener 1884 192.168.1.2" in mosquitto.write(found)["Example_2_mosquitto.conf"]


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"a.conf": "listener here"}, "a.conf, line 1: 'here' is no port"),
        ({"a.conf": "connection x\ntopic # out"}, "says no address"),
        ({"a.conf": "connection x\naddress b:1\ntopic # sideways"}, "'sideways' is no direction"),
        ({"a.conf": "# hanse node {"}, "is not JSON any more"),
        ({"a.conf": "", "b.toml": ""}, "all of them end with .conf"),
        ({}, "no file to read"),
    ],
)
def test_what_is_no_configuration_is_refused_in_words(files: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        mosquitto.read_files(files)


# --- what a change would mean -----------------------------------------------------------------------------------------


def told(topology: Topology, link: TopologyLink, *types: str) -> str:
    return "\n".join(concern.text for concern in concerns(topology, link, types))


def test_a_ring_is_explained_before_it_is_made() -> None:
    assert "a ring: port-a – port – port-b – port-a" in told(port(), TopologyLink(("port-a", "port-b")))
    assert "Offers come along both ways" in told(port(), TopologyLink(("port-a", "port-b")))
    assert "ring" not in told(port(), TopologyLink(("port", "bus")))  # it is there already: only its rules change


def test_a_way_round_a_rule_is_told() -> None:
    link = TopologyLink(("bus-transport", "fire"))
    words = told(port(), link, "Vehicle")
    assert "Camera, Driver, Person and anything else of bus-transport would reach fire, which export rules prevent now." in words
    assert "Vehicle" not in words  # that may go there anyway
    assert "Driver of bus-transport would reach fire" in told(
        port(), TopologyLink(link.between, {"types": ["Driver"]}, {"deny": True})
    )
    assert "joins two communities" in words
    closed = TopologyLink(("bus-transport", "fire"), {"types": ["Vehicle"]}, {"types": ["Alert"]})
    assert "would reach" not in told(port(), closed)
    assert "joins two communities" not in told(port(), closed)


def test_what_cannot_be_is_barred() -> None:
    alone = port().with_node(TopologyNode("x")).with_node(TopologyNode("y"))
    for link, says in (
        (TopologyLink(("port", "port")), "no link to itself"),
        (TopologyLink(("port", "nowhere")), "There is no node 'nowhere'"),
        (TopologyLink(("x", "y")), "nobody can call"),
    ):
        found = concerns(alone, link)
        assert found[0].is_bar
        assert says in found[0].text
    assert not any(concern.is_bar for concern in concerns(alone, TopologyLink(("x", "port"))))
    assert "lets nothing cross" in told(alone, TopologyLink(("x", "port"), {"deny": True}))


def test_removal_says_who_is_cut_off() -> None:
    (cut,) = concerns_of_removal(port(), "port", "port-a")
    assert cut.text.startswith("port-a would be cut off from bus, bus-buildings")
    (left,) = concerns_of_removal(port(), "port", "fire")
    assert left.text == "port and fire still have a way to each other: port – bus – fire."


def test_a_type_reaches_what_rules_let_it() -> None:
    assert reached(port(), "bus-transport", "Driver") == {"bus-transport", "bus", "bus-buildings"}
    assert len(reached(port(), "bus-transport", "Vehicle")) == 7
    assert shortest(port(), "port-a", "bus-transport") == ["port-a", "port", "bus", "bus-transport"]
    assert shortest(port().without_link("port", "port-a"), "port-a", "port") == []


def test_the_difference_is_what_is_to_be_done() -> None:
    wanted = port().without_link("port", "fire").with_node(TopologyNode("ferry", "ferries"))
    wanted = wanted.with_link(TopologyLink(("ferry", "port"))).with_link(TopologyLink(("bus", "port"), {"deny": True}, {}))
    done = [(change.what, change.text.split(" (")[0]) for change in difference(port(), wanted)]
    assert done == [
        ("start", "Start the node ferry of ferries"),
        ("link", "Link ferry and port"),
        ("rule", "Change the rules between bus and port"),
        ("unlink", "Take the link between port and fire away"),
    ]
    assert difference(port(), port()) == []
    turned = from_plain(
        to_plain(port())
        | {
            "links": [
                {"between": [b, a], "export": link["back"], "back": link["export"]}
                for link in to_plain(port())["links"]
                for a, b in [link["between"]]
            ]
        }
    )
    assert difference(port(), turned) == []


def test_a_new_node_has_a_configuration_that_a_node_takes(tmp_path: Path) -> None:
    known = port()
    node = TopologyNode("ferry", "ferries", (25.15, 35.35), "http://127.0.0.1:9111", "tcp/127.0.0.1:7111")
    text = node_configuration(node, [(known.by_id["port"], {"types": ["Ship"]})], {**known.terms, "scopes": "0a"})
    file = tmp_path / "ferry.toml"
    file.write_text(text)
    settings = load(file)
    assert (settings.node.id, settings.node.port, settings.federation.name) == ("ferry", 9111, "smart-port")
    assert (settings.links[0].to, settings.links[0].export) == ("tcp/127.0.0.1:7101", {"types": ["Ship"]})
    assert settings.federation.characterisation == "scopes.toml"


# --- rules ------------------------------------------------------------------------------------------------------------


def test_a_rule_in_sentences() -> None:
    assert sentences({}) == ["Everything crosses."]
    assert sentences({"deny": True}) == ["Nothing crosses."]
    assert sentences(None) == ["This end does not want the link: nothing crosses."]
    assert short({"types": ["Room", "Door"], "deny_attributes": ["owner"]}) == (
        "Only Room and Door may cross; What they say of owner is taken out"
    )
    assert lets_pass({"types": ["Ro*"]}, "Room")
    assert not lets_pass({"deny_types": ["Room"]}, "Room")


def test_a_form_makes_the_rule_and_shows_it_again() -> None:
    form = RuleForm(
        types=["Room, Door", "Room"],
        deny_attributes=["owner"],
        scopes="area: harbour, town",
        area="25.13, 35.33, 25.15, 35.35",
        quality=" precision>=40 ",
    )
    rule = form.rule()
    assert rule["types"] == ["Room", "Door"]
    assert rule["scopes"] == {"area": ["harbour", "town"]}
    assert len(sentences(rule)) == 5
    again = RuleForm.of(rule)
    assert again.area == "25.13, 35.33, 25.15, 35.35"
    assert again.rule() == rule
    assert RuleForm.of({"ids": ["urn:a:1"], "area": {"type": "world"}}).rule() == {"ids": ["urn:a:1"], "area": {"type": "world"}}


@pytest.mark.parametrize(
    ("form", "says"),
    [
        (RuleForm(scopes="harbour"), "names no scopes"),
        (RuleForm(area="1, 2, 3"), "is not west, south, east, north"),
        (RuleForm(area="2, 2, 1, 3"), "off the globe"),
        (RuleForm(quality="room.precision>=4"), "is of an attribute"),
        (RuleForm(quality=">>"), "quality"),
        (RuleForm(types=[f"T{i}" for i in range(201)]), "more than 200 names"),
    ],
)
def test_a_form_says_what_is_wrong(form: RuleForm, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        form.rule()
