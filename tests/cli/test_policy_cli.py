"""`hanse policy`, as typed: on files, and against a node."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Ran
from tests.node.access.town import ADMIN, KEY, POLICIES, TOWN, Town, town

from hanse.node.access.passwords import Passwords


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "own.cedar"
    path.write_text(POLICIES, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with town(tmp_path_factory.mktemp("town")) as running:
        yield running


@pytest.fixture
def at(node: Town, monkeypatch: pytest.MonkeyPatch) -> Town:
    monkeypatch.setenv("HANSE_URL", node.url)
    monkeypatch.setenv("HANSE_TOKEN", ADMIN)
    return node


def test_check_says_what_each_policy_does(hanse: Callable[..., Ran], file: Path) -> None:
    ran = hanse("policy", "check", str(file))
    assert ran.code == 0
    assert 'admins do everything: permits everyone in Role::"admin" to do anything with data' in ran.out
    assert "6 policies, all of them valid" in ran.out
    listed = json.loads(hanse("policy", "check", str(file), "--json").out)
    assert listed[-1]["id"] == "nobody sees the safe"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "permit (principal, action, resource) when { resource.typs == 3 };",
            "policy 'policy0': there is no attribute 'typs'; is 'types' meant?",
        ),
        ("nonsense", "the policies cannot be read"),
        (None, "it cannot be read"),
    ],
)
def test_what_cannot_be_used_is_one_line(hanse: Callable[..., Ran], tmp_path: Path, text: str | None, complaint: str) -> None:
    file = tmp_path / "bad.cedar"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    ran = hanse("policy", "check", str(file))
    assert ran.code == 2
    assert complaint in ran.err
    assert str(file) in ran.err
    assert ran.err.count("\n") == 1


def test_settings_say_what_policies_may_name(hanse: Callable[..., Ran], tmp_path: Path) -> None:
    file, config = tmp_path / "p.cedar", tmp_path / "node.toml"
    file.write_text(
        'permit (principal, action, resource) when { principal has clearance && resource.areas.contains("x") };', encoding="utf-8"
    )
    config.write_text('[access]\nattributes = { clearance = "number" }\n', encoding="utf-8")
    assert hanse("policy", "check", str(file)).code == 2
    assert hanse("policy", "check", str(file), "--config", str(config)).code == 0
    ran = hanse(
        "policy",
        "explain",
        "--policies",
        str(file),
        "--config",
        str(config),
        "--principal",
        "a",
        "--known",
        "clearance=3",
        "--area",
        "x",
        "--json",
    )
    assert json.loads(ran.out)["allowed"]


def test_explain_on_a_file(hanse: Callable[..., Ran], file: Path) -> None:
    common = ("policy", "explain", "--policies", str(file), "--principal", "tina", "--community", "town", "--type", "Room")
    ran = hanse(*common, "--attribute", "temperature")
    assert "it is shown after round 10" in ran.out
    assert "the town sees rooms" in ran.out
    denied = json.loads(hanse(*common, "--id", "urn:room:safe", "--attribute", "temperature", "--json").out)
    assert denied["policies"] == ["nobody sees the safe"]
    assert hanse(*common, "--action", "steal").code == 2
    assert hanse(*common, "--quality", "high").code == 2


def test_explain_by_a_node(hanse: Callable[..., Ran], at: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("policy", "explain", "--principal", "tina", "--community", "town", "--type", "Room", "--attribute", "temperature")
    assert "it is shown after round 10" in hanse(*asked).out
    monkeypatch.setenv("HANSE_TOKEN", TOWN)
    refused = hanse(*asked)
    assert refused.code == 1
    assert "role 'admin'" in refused.err


def test_overrides(hanse: Callable[..., Ran], at: Town, tmp_path: Path) -> None:
    file = tmp_path / "alarm.cedar"
    file.write_text("permit (principal, action, resource);", encoding="utf-8")
    assert hanse("policy", "override", "list").out == "no override holds\n"
    started = hanse("policy", "override", "start", "alarm", "--policies", str(file), "--minutes", "5", "--reason", "a fire")
    assert "override alarm holds until" in started.out
    assert "alarm: until" in hanse("policy", "override", "list").out
    assert json.loads(hanse("policy", "override", "list", "--json").out)[0]["reason"] == "a fire"
    assert "override alarm has ended\n" in hanse("policy", "override", "end", "alarm").out
    assert hanse("policy", "override", "end", "alarm").code == 1
    assert 'alarm ended by User::"root": a fire' in hanse("policy", "override", "audit").out
    assert [entry["what"] for entry in json.loads(hanse("policy", "override", "audit", "--json").out)] == ["started", "ended"]


def test_passwords(hanse: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    users = tmp_path / "users"
    for user, password in (("a", "one"), ("b", "two"), ("a", "three")):
        monkeypatch.setattr(sys, "stdin", io.StringIO(password + "\n"))
        assert hanse("policy", "password", user, "--role", "sensor", "--file", str(users)).code == 0
    assert len(users.read_text(encoding="utf-8").splitlines()) == 2
    assert users.stat().st_mode & 0o077 == 0
    known = Passwords(str(users))
    assert asyncio.run(known.principal("a", "one")) is None
    found = asyncio.run(known.principal("a", "three"))
    assert found is not None
    assert found.roles == ("sensor",)
    monkeypatch.setattr(sys, "stdin", io.StringIO("x\n"))
    assert "x:" not in hanse("policy", "password", "a:b").out


def test_a_token_of_the_command_line_is_a_token_of_the_node(hanse: Callable[..., Ran], at: Town, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(KEY + "\n", encoding="utf-8")
    made = hanse(
        "policy", "token", "tina", "--community", "town", "--role", "a", "--role", "b", "--key-file", str(key)
    ).out.strip()
    who = at.ask("GET", "/hanse/v1/policies/whoami", made).data
    assert who == {"id": "tina", "community": "town", "roles": ["a", "b"]}
