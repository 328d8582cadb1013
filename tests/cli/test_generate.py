"""`hanse generate`: the same port for the same seed, as a file and at a real node, by HTTP and by MQTT."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Ran
from tests.serving import serving, settings_with

import hanse as library
from hanse.model.ports import free_port
from hanse.ngsild.contexts import CORE
from hanse.ngsild.parsing import parse_entity

SMALL = ("generate", "--scale", 0.002)


def test_the_same_seed_gives_the_same_entities_in_either_form(hanse: Callable[..., Ran], tmp_path: Path) -> None:
    lines = hanse(*SMALL, "--seed", 7)
    assert lines.code == 0
    entities = [json.loads(line) for line in lines.out.splitlines()]
    for entity in entities:
        parse_entity(entity, CORE, "2026-01-01T00:00:00Z")
    file = tmp_path / "port.json"
    made = hanse(*SMALL, "--seed", 7, "--format", "array", "--out", file, "--json")
    assert json.loads(file.read_text()) == entities
    summary = json.loads(made.out)
    assert summary["entities"] == len(entities) == sum(summary["types"].values())
    assert sum(kind["number"] for kind in summary["devices"]) == summary["types"]["Device"]
    assert [json.loads(line) for line in hanse(*SMALL, "--seed", 8).out.splitlines()] != entities
    assert f"{len(entities)} entities: 3 Community" in lines.err


def test_one_node_of_the_port_alone(hanse: Callable[..., Ran]) -> None:
    fire = [json.loads(line)["id"] for line in hanse(*SMALL, "--at", "fire").out.splitlines()]
    assert "urn:ngsi-ld:Room:fire:0" in fire
    assert all(":fire" in id_ for id_ in fire)


@pytest.mark.parametrize("way", ["http", "mqtt"])
def test_devices_measure_at_a_node(hanse: Callable[..., Ran], way: str) -> None:
    port = free_port()
    with serving(settings_with(mqtt={"embedded": way == "mqtt", "port": port})) as url:
        target = url if way == "http" else f"mqtt://127.0.0.1:{port}"
        ran = hanse(*SMALL, "--play", target, "--seconds", 1, "--speed", 100, "--json")
        assert ran.code == 0, ran.err
        told = json.loads(ran.out)
        played = told["played"]
        assert played["to"] == target
        assert (played["entities"], played["refused"]) == (told["entities"], 0)
        assert played["messages"] > 0
        with library.connect_sync(url) as node:
            changes = node.log(0, limit=1000)
            kept = list(node.query(type="Device", format="simplified"))
        assert len(changes) == played["entities"] + played["messages"]
        assert all({"category", "containedIn", "value", "report"} <= device.keys() for device in kept)  # what they are stays


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--format", "xml"), "lines or array"),
        (("--scale", 11), "0 to 10 times"),
        (("--at", "moon"), "no node 'moon'"),
        (("--out", "/nowhere/at/all.json"), "cannot be written"),
        (("--play", "http://127.0.0.1:1", "--seconds", 0), "--seconds"),
        (("--play", "http://127.0.0.1:1", "--speed", 0), "--speed"),
        (("--play", "http://127.0.0.1:1", "--seconds", 86_400, "--speed", 1000), "are allowed"),
        (("--play", "ftp://127.0.0.1"), "no URL of a node"),
        (("--play", "mqtt://127.0.0.1:1", "--tenant", "a"), "have no tenant"),
    ],
)
def test_what_cannot_be_is_one_line(hanse: Callable[..., Ran], wrong: tuple[object, ...], said: str) -> None:
    ran = hanse(*SMALL, *wrong)
    assert ran.code == 2
    assert ran.err.startswith("hanse: ")
    assert said in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "mqtt://127.0.0.1:1"])
def test_nobody_there_is_said(hanse: Callable[..., Ran], url: str) -> None:
    ran = hanse(*SMALL, "--play", url)
    assert ran.code == 1
    assert "127.0.0.1:1" in ran.err
    assert ran.err.count("\n") == 1
