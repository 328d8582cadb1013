"""The dashboard file for Grafana asks only for what a node really counts, and for all that an operator should see."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import hanse
from hanse.dashboard.metrics import read_metrics
from tests.serving import serving

FILE = Path(__file__).parents[2] / "deploy" / "grafana" / "hanse.json"
ASKED = re.compile(r"\b((?:hanse|process)_\w+)(\{[^}]*\})?")
FAMILY = re.compile(r"^# TYPE (\S+) (\S+)$", re.MULTILINE)
WATCHED = {
    "hanse_bound_used",
    "hanse_bound_max",
    "hanse_requests_total",
    "hanse_notifications_dead_total",
    "hanse_log_offset_total",
}


def panels() -> list[dict[str, Any]]:
    return [panel for panel in json.loads(FILE.read_text())["panels"] if panel["type"] != "row"]


def asked() -> dict[str, set[str]]:
    """Metrics that are asked for, each with the labels that it is chosen or grouped by."""
    found: dict[str, set[str]] = {}
    for panel in panels():
        for target in panel["targets"]:
            grouped = {label.strip() for labels in re.findall(r"by \(([^)]*)\)", target["expr"]) for label in labels.split(",")}
            for name, chosen in ASKED.findall(target["expr"]):
                found.setdefault(name, set()).update(grouped, re.findall(r"(\w+)=", chosen or ""))
    return found


def test_every_metric_and_label_that_is_asked_for_is_one_of_a_real_node() -> None:
    with serving() as url, hanse.connect_sync(url) as node:
        node.create({"id": "urn:ngsi-ld:Room:1", "type": "Room"})
        node.request("PUT", "/hanse/v1/clients/somebody", json={})
        text = bytes(node.request("GET", "/metrics", headers={"Accept": "text/plain"}).data).decode()
    told = read_metrics(text)
    families = dict(FAMILY.findall(text))
    ends = ("_bucket", "_count", "_sum")
    known = set(families) | {name + end for name, kind in families.items() if kind == "histogram" for end in ends}
    assert set(asked()) <= known
    for name, labels in asked().items():
        values = [key for key in told if key == name or key.startswith(name + "{")]
        for label in labels - {"instance"} if values else ():  # Prometheus itself says which instance it is
            assert any(f"{label}=" in key for key in values), (name, label)


def test_what_an_operator_should_see_is_there() -> None:
    assert set(asked()) >= WATCHED
    assert all(panel["title"] and panel["targets"] for panel in panels())


def test_panels_do_not_lie_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(FILE.read_text())["panels"]:
        place = panel["gridPos"]
        mine = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not mine & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= mine
