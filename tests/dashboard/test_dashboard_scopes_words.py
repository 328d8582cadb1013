"""Graphs of scopes as pictures, and a characterisation in the making, without any node."""

from __future__ import annotations

from pathlib import Path

import pytest

from hanse.dashboard import federation_graph, scope_graph
from hanse.dashboard.characterising import Draft, DraftDimension, DraftParent, DraftScope, DraftViewpoint, possible_parents
from hanse.dashboard.mosquitto import read_files
from hanse.dashboard.steering import Border
from hanse.scopes import load

EXAMPLES = Path(__file__).parents[2] / "examples"
PARIS = EXAMPLES / "olympic-paris" / "characterisation.toml"


def test_superscopes_stand_above_and_borders_show_what_crosses() -> None:
    borders = [
        Border("area", "harbour", "town", "public==true"),
        Border("area", "quay", "harbour", "false", "false"),
        Border("area", "gate", "town"),
        Border("area", "gate", "harbour"),
    ]
    scopes = ["gate", "harbour", "quay", "town"]
    assert scope_graph.levels(scopes, borders) == {"town": 0, "harbour": 1, "quay": 2, "gate": 2}
    at = scope_graph.places(scopes, borders)
    assert at["town"][1] < at["harbour"][1] < at["quay"][1]
    assert len(set(at.values())) == 4
    drawn = scope_graph.options(scopes, borders, {"quay": ["port-a"]}, ("gate", "town"))["series"][0]
    lines = {(line["source"], line["target"]): line["lineStyle"] for line in drawn["links"]}
    assert lines["town", "harbour"]["color"] == scope_graph.FILTERED
    assert lines["harbour", "quay"]["color"] == scope_graph.SHUT
    assert (lines["town", "gate"]["color"], lines["town", "gate"]["width"]) == (scope_graph.OPEN, 6)
    assert next(point["value"] for point in drawn["data"] if point["name"] == "quay") == "1 nodes: port-a"
    assert scope_graph.in_words(borders[0]) == "what has public==true leaves harbour to town; everything comes in from there"
    assert scope_graph.in_words(borders[1]) == "nothing leaves quay, and nothing comes in"


def test_the_federation_is_drawn_by_community_and_stands_still() -> None:
    topology = read_files({"f.toml": (EXAMPLES / "smart-port" / "federation.toml").read_text()})
    drawn = federation_graph.options(topology, {"port": 1000}, frozenset({"fire"}), "bus|port")["series"][0]
    points = {point["name"]: point for point in drawn["data"]}
    assert len({(point["x"], point["y"]) for point in points.values()}) == 7
    assert points["port"]["symbolSize"] > points["bus"]["symbolSize"]
    assert points["port"]["itemStyle"]["color"] == points["port-a"]["itemStyle"]["color"] != points["bus"]["itemStyle"]["color"]
    assert points["fire"]["itemStyle"]["color"] == federation_graph.AWAY
    lines = {frozenset((line["source"], line["target"])): line for line in drawn["links"]}
    assert lines[frozenset(("port", "bus"))]["lineStyle"]["color"] == federation_graph.GUARDED
    assert lines[frozenset(("port", "bus"))]["lineStyle"]["width"] > lines[frozenset(("port", "port-a"))]["lineStyle"]["width"]
    assert "Person and Camera may not cross" in lines[frozenset(("port", "bus"))]["value"]
    assert federation_graph.options(topology, {})["series"][0]["data"][0]["x"] == points[topology.nodes[0].id]["x"]


def test_a_characterisation_comes_back_as_it_was() -> None:
    for file in (PARIS, EXAMPLES / "smart-port" / "scopes.toml"):
        assert Draft.of(file.read_text()).checked() == load(file)
    assert Draft.first().problem() == ""


def test_it_says_what_is_missing_step_by_step_and_ends_with_a_file() -> None:
    draft = Draft()
    assert "Add a viewpoint" in draft.problem()
    draft.viewpoints.append(DraftViewpoint())
    assert "Give the viewpoint a name" in draft.problem()
    draft.viewpoints[0].name = 'the "near" view'
    assert "Add a dimension" in draft.problem()
    dimension = DraftDimension()
    draft.viewpoints[0].dimensions.append(dimension)
    assert "Give each dimension" in draft.problem()
    dimension.name = "area"
    assert "scales, the largest first" in draft.problem()
    dimension.scales = ["city", "quarter"]
    assert draft.problem() == ""
    town, harbour = DraftScope("town", "city"), DraftScope("harbour")
    dimension.scopes += [town, harbour]
    assert "which scale the scope 'harbour' has: city, quarter" in draft.problem()
    harbour.scale = "quarter"
    harbour.parents.append(DraftParent("tonw"))
    assert "its parent 'tonw' is no scope of this dimension" in draft.problem()
    assert possible_parents(dimension, harbour) == ["town"]
    harbour.parents[0] = DraftParent("town", out="level>>3")
    assert "visibility filter 'out': column 7" in draft.problem()
    harbour.parents[0].out = "level>3"
    assert draft.problem() == ""
    assert draft.checked().scopes().graphs["area"].parents("harbour") == ("town",)


@pytest.mark.parametrize("name", ["\x7f", "é\n", '"', "\\"])
def test_names_that_toml_wants_written_otherwise_are(name: str) -> None:
    draft = Draft.first()
    draft.title = name
    assert draft.checked().title == name
