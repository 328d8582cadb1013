"""An entity for people: its attributes, quality, history and relationships, from what a node says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import hanse
from hanse.dashboard.criteria import criteria_of
from hanse.dashboard.entities import (
    GRAPH_MAX,
    TEXT_MAX,
    Edge,
    Indicator,
    attributes_of,
    charts,
    edges_of,
    graph,
    place_of,
    preview,
    quality_of,
    short,
    track,
)
from hanse.ngsild.quality import Measure
from hanse.quality import default_registry, load
from tests.serving import serving, settings_with

STRICT = """
[[criteria]]
id = "10"
name = "precision"
[[criteria.definitions]]
id = "10.1"
unit = "percent"
unit_code = "P1"
min = 0.0
max = 100.0
levels = { medium = 80.0, high = 99.0 }
"""


def observed(value: float, at: datetime, **more: Any) -> dict[str, Any]:
    return {"type": "Property", "value": value, "observedAt": at.isoformat().replace("+00:00", "Z"), **more}


def test_quality_is_the_one_that_a_node_finds() -> None:
    now = datetime.now(UTC)
    precise = {"precision": {"type": "Property", "value": 85}, "unitCode": "CEL"}
    room = {"id": "urn:x:1", "type": "Room", "temperature": observed(21.5, now - timedelta(seconds=300), **precise)}
    with serving() as url, hanse.connect_sync(url) as node:
        node.create(room)
        told = node.get("urn:x:1", sys_attrs=True)
        found = quality_of(told)
        assert [one.name for one in found["temperature"]] == ["precision", "freshness"]
        assert found["temperature"][0] == Indicator("precision", "85 %", "high")
        assert found["temperature"][1].level == "medium"
        for asked, count in (("precision>=high", 1), ("freshness>=high", 0), ("freshness<=600;freshness>=300", 1)):
            assert node.count(type="Room", quality_q=asked) == count, asked
    assert [one.name for one in found[""]] == ["precision", "freshness"]  # of the whole, too
    (shown,) = attributes_of(told)
    assert (shown.name, shown.kind, shown.text, shown.unit) == ("temperature", "Property", "21.5", "CEL")
    assert shown.observed.startswith(str((now - timedelta(seconds=300)).year))


def test_levels_are_those_of_the_node_s_own_criteria(tmp_path: Path) -> None:
    file = tmp_path / "criteria.toml"
    file.write_text(STRICT)
    settings = settings_with(quality={"criteria": str(file)})
    room = {
        "id": "urn:x:1",
        "type": "Room",
        "t": {"type": "Property", "value": 1, "precision": {"type": "Property", "value": 85}},
    }
    with serving(settings) as url, hanse.connect_sync(url) as node:
        node.create(room)
        criteria = node.run(criteria_of(node.node))
        assert criteria == load(file)
        assert [node.count(type="Room", quality_q=f"t.precision>={level}") for level in ("medium", "high")] == [1, 0]
        found = quality_of(node.get("urn:x:1"), Measure(criteria))
    assert found["t"] == [Indicator("precision", "85 %", "medium")]
    assert quality_of(room)["t"] == [Indicator("precision", "85 %", "high")]  # by the starting set


def test_a_node_that_does_not_tell_its_criteria_has_the_starting_set() -> None:
    with serving() as url, hanse.connect_sync(f"{url}/elsewhere") as node:
        assert node.run(criteria_of(node.node)) == default_registry()


def test_what_cannot_be_read_has_no_quality() -> None:
    assert quality_of({"id": "no uri", "type": 7}) == {}


def test_values_of_every_kind_are_shown_shortly() -> None:
    entity = {
        "id": "urn:x:1",
        "type": ["A", "B"],
        "name": {"type": "LanguageProperty", "languageMap": {"en": "tower"}},
        "kind": {"type": "VocabProperty", "vocab": "big"},
        "raw": {"type": "JsonProperty", "json": {"a": None}},
        "several": [{"type": "Property", "value": 1, "datasetId": "urn:d:1"}, {"type": "Property", "value": 2}],
        "near": {"type": "Relationship", "object": ["urn:x:2", "urn:x:3"]},
        "row": {"type": "ListRelationship", "objectList": [{"object": "urn:x:4"}]},
        "modifiedAt": "2026-01-01T00:00:00Z",
    }
    shown = {one.name: one for one in attributes_of(entity)}
    assert shown["name"].text == '{"en":"tower"}'
    assert shown["kind"].text == "big"
    assert shown["raw"].text == '{"a":null}'
    assert (shown["several (urn:d:1)"].text, shown["several"].text) == ("1", "2")
    assert (shown["near"].objects, shown["row"].objects) == (["urn:x:2", "urn:x:3"], ["urn:x:4"])
    assert "modifiedAt" not in shown
    assert preview(entity, 2) == 'name {"en":"tower"}, kind big, …'
    assert edges_of(entity) == [Edge("urn:x:1", "near", f"urn:x:{i}") for i in (2, 3)] + [Edge("urn:x:1", "row", "urn:x:4")]
    assert len(short("x" * 10_000)) == TEXT_MAX


def test_history_is_drawn_where_there_were_numbers_in_the_order_of_time() -> None:
    now = datetime.now(UTC)
    with serving() as url, hanse.connect_sync(url) as node:
        for i in (0, 2, 1):
            place = {"type": "GeoProperty", "value": {"type": "Point", "coordinates": [9 + i, 53]}}
            late = observed(20 + i, now + timedelta(seconds=i))
            node.upsert(
                [{"id": "urn:x:1", "type": "Room", "t": late, "on": {"type": "Property", "value": True}, "location": place}]
            )
        told = {name: node.temporal("urn:x:1", attrs=name, values=True)[name] for name in ("t", "on", "location")}
        entity = node.get("urn:x:1")
    (chart,) = charts(told, {"t": "CEL"})
    assert chart.words == "t: 3 values from 20 to 22, last 22 CEL"
    assert [value for _, value in chart.options["series"][0]["data"]] == [20, 21, 22]
    assert track(told) == [(9, 53), (11, 53), (10, 53)]
    assert place_of(entity) == (10, 53)
    assert place_of({"location": {"type": "GeoProperty", "value": {"type": "Polygon", "coordinates": [[[0, 0]]]}}}) is None


def test_the_graph_is_bounded_and_has_only_ends_that_it_shows() -> None:
    edges = [Edge("urn:x:0", "knows", f"urn:x:{i}") for i in range(1, 500)] + [Edge("urn:x:499", "knows", "urn:x:498")]
    series = graph("urn:x:0", edges, {"urn:x:0": "Room"}, {"Room": "#123456"})["series"][0]
    ids = {point["id"] for point in series["data"]}
    assert len(ids) == GRAPH_MAX
    assert all({link["source"], link["target"]} <= ids for link in series["links"])
    assert series["data"][0]["itemStyle"]["color"] == "#123456"
