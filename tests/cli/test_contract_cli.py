"""`hanse contract check` and `producers`, as typed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Ran
from tests.serving import serving

import hanse as library

REGISTRATION: dict[str, Any] = {
    "type": "ContextSourceRegistration",
    "information": [{"entities": [{"type": "AirQuality"}]}],
    "endpoint": "http://127.0.0.1:9",
    "qualityQ": "NO2.precision>=60",
}


def write(path: Path, body: Any) -> Path:
    path.write_text(json.dumps(body), encoding="utf-8")
    return path


def test_a_guarantee_that_satisfies(hanse: Callable[..., Ran]) -> None:
    ran = hanse("contract", "check", "precision>=60;freshness<=30", "precision>=40")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("satisfied")
    assert "missing" not in ran.out


def test_a_guarantee_that_does_not_says_what_is_missing(hanse: Callable[..., Ran]) -> None:
    ran = hanse("contract", "check", "precision>=40", "precision>=60;freshness<=30")
    assert ran.code == 1
    assert ran.out.startswith("possible")
    assert "missing: precision is guaranteed only down to 40; precision>=60 is required" in ran.out
    assert "missing: freshness is not guaranteed; freshness<=30 is required" in ran.out
    assert [cell.strip() for cell in ran.out.splitlines()[3].split("│")] == ["freshness", "freshness<=30", "-", "possible"]
    ran = hanse("contract", "check", "precision<=40", "precision>=60", "--json")
    assert ran.code == 1
    assert json.loads(ran.out)["kind"] == "impossible"


def test_levels(hanse: Callable[..., Ran]) -> None:
    assert hanse("contract", "check", "correctness>=high", "correctness>=medium").code == 0
    assert hanse("contract", "check", "correctness>=low", "correctness>=medium").code == 1


def test_files(hanse: Callable[..., Ran], tmp_path: Path) -> None:
    source = write(tmp_path / "source.json", REGISTRATION)
    wants = {"type": "Subscription", "entities": [{"type": "AirQuality"}], "qualityQ": "NO2.precision>=40"}
    assert hanse("contract", "check", source, write(tmp_path / "wants.json", wants)).code == 0
    assert hanse("contract", "check", source, "NO2.precision>=50").code == 0
    own = REGISTRATION | {"@context": {"NO2": "http://example.org/NO2", "AirQuality": "http://example.org/AirQuality"}}
    ran = hanse("contract", "check", write(tmp_path / "own.json", own), tmp_path / "wants.json")
    assert ran.code == 1
    assert "http://example.org/NO2" in ran.out
    native = write(tmp_path / "native", {"selectors": [{"topic": "north"}], "quality": "precision>=40"})
    assert hanse("contract", "check", native, "precision>=30").code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("precison>=40", "precision>=40"),
        ("precision>=", "precision>=40"),
        ("nowhere.json", "precision>=40"),
        ("precision>=40", "{wrong}"),
        ("precision>=40", "{remote}"),
    ],
)
def test_what_is_wrong_is_one_line(hanse: Callable[..., Ran], tmp_path: Path, arguments: tuple[str, str]) -> None:
    (tmp_path / "wrong.json").write_text("[", encoding="utf-8")
    write(tmp_path / "remote.json", REGISTRATION | {"@context": "http://127.0.0.1:9/context.jsonld"})
    files = {name: str(tmp_path / f"{name}.json") for name in ("wrong", "remote")}
    ran = hanse("contract", "check", *(one.format(**files) for one in arguments))
    assert (ran.code, ran.err.count("\n"), ran.out) == (2, 1, "")
    assert ran.err.startswith("hanse: ")


def test_producers_of_a_node(hanse: Callable[..., Ran], tmp_path: Path) -> None:
    with serving() as url, library.connect_sync(url) as node:
        node.request("PUT", "/hanse/v1/clients/sensor", json={})
        offer = {"selectors": [{"type": "AirQuality"}], "quality": "NO2.precision>=60"}
        node.request("PUT", "/hanse/v1/clients/sensor/advertisements/a", json=offer)
        ran = hanse("contract", "producers", "--url", url, "--type", "AirQuality", "--quality", "NO2.precision>=80")
        assert ran.code == 0
        assert "NO2.precision is guaranteed only down to 60" in ran.out
        wants = write(tmp_path / "wants.json", {"selectors": [{"type": "AirQuality"}], "quality": "NO2.precision>=50"})
        found = json.loads(hanse("contract", "producers", "--url", url, "--subscription", wants, "--json").out)
        assert [(one["producer"], one["verdict"]) for one in found] == [("sensor", "satisfied")]
        assert hanse("contract", "producers", "--url", url, "--type", "Bus").out == "no producers\n"


def test_every_command_has_an_example(hanse: Callable[..., Ran]) -> None:
    for verb in ("check", "producers"):
        assert f"Example: hanse contract {verb}" in " ".join(hanse("contract", verb, "--help").out.split())
