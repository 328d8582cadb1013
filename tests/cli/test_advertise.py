"""`hanse advertise`, and `hanse scopes` at a node: what a producer offers there, and where it is seen."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Ran
from tests.serving import serving

import hanse as library

PARIS = Path(__file__).parents[2] / "examples" / "olympic-paris" / "characterisation.toml"


@pytest.fixture(autouse=True)
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with serving() as found:
        monkeypatch.setenv("HANSE_URL", found)
        yield found


def test_what_is_advertised_is_found_by_consumers_and_kept_to(hanse: Callable[..., Ran], url: str) -> None:
    assert hanse("advertise", "list").out == "nothing is advertised\n"
    made = hanse("advertise", "--type", "Room", "--guarantee", "precision>=40")
    assert (made.code, made.out) == (0, "advertised: Room by cli, which keeps precision>=40\n")
    producers = json.loads(hanse("contract", "producers", "--type", "Room", "--quality", "precision>=30", "--json").out)
    assert [(one["producer"], one["verdict"]) for one in producers] == [("cli", "satisfied")]
    told = {"types": ["Room"], "advertisement": "Room", "quality": {"precision": 10}}
    with library.connect_sync(url) as node, pytest.raises(library.NgsiLdClientError, match="below the guarantee"):
        node.request("POST", "/hanse/v1/clients/cli/notifications", json=told)
    (listed,) = json.loads(hanse("advertise", "list", "--json").out)
    assert (listed["name"], listed["client"], listed["quality"], listed["below_guarantee"]) == ("Room", "cli", "precision>=40", 1)
    assert "precision>=40" in hanse("advertise", "list").out
    assert hanse("advertise", "remove", "Room").out == "removed: Room by cli\n"
    assert json.loads(hanse("advertise", "list", "--json").out) == []


def test_topics_entities_and_an_end(hanse: Callable[..., Ran]) -> None:
    ran = hanse(
        *("advertise", "--type", "Room", "--id", "urn:ngsi-ld:Room:1", "--topic", "storm", "--name", "mine"),
        *("--client", "station", "--seconds", 60, "--json"),
    )
    told = json.loads(ran.out)
    assert (told["client"], told["name"]) == ("station", "mine")
    assert told["expires_at_ms"] > 0
    listed = hanse("advertise", "list", "--client", "station").out
    assert "Room urn:ngsi-ld:Room:1, topic storm" in listed


def test_a_client_that_is_there_keeps_its_endpoint(hanse: Callable[..., Ran], url: str) -> None:
    with library.connect_sync(url) as node:
        node.request("PUT", "/hanse/v1/clients/station", json={"endpoint": "http://127.0.0.1:1/"})
        assert hanse("advertise", "--type", "Room", "--client", "station").code == 0
        assert node.request("GET", "/hanse/v1/clients/station").data["endpoint"] == "http://127.0.0.1:1/"


@pytest.mark.parametrize(
    ("wrong", "code", "said"),
    [
        ((), 2, "say what is offered"),
        (("--id", "urn:a:1", "--topic", "storm"), 2, "add --type"),
        (("--type", "Room", "--scope", "paris"), 2, "DIMENSION=SCOPE"),
        (("--type", "Room", "--guarantee", "precison>=40"), 1, "precision"),
        (("remove", "Nothing"), 1, "no client 'cli'"),
    ],
)
def test_what_is_wrong_is_one_line(hanse: Callable[..., Ran], wrong: tuple[str, ...], code: int, said: str) -> None:
    ran = hanse("advertise", *wrong)
    assert ran.code == code
    assert said in ran.err
    assert ran.err.count("\n") == 1


def test_scopes_of_a_node(hanse: Callable[..., Ran]) -> None:
    assert "no scopes" in hanse("scopes", "known").out
    assert hanse("scopes", "give", PARIS).out.startswith("given: ")
    assert hanse("scopes", "join", "geographical area", "idf").out == "joined: idf in geographical area\n"
    assert "idf*" in hanse("scopes", "known").out
    offered = hanse("advertise", "--type", "Train", "--scope", "geographical area=idf", "--json")
    assert json.loads(offered.out)["scopes"] == {"geographical area": "idf"}
    assert json.loads(hanse("scopes", "leave", "geographical area", "idf", "--json").out) == {"joined": []}
    assert hanse("scopes", "leave", "geographical area", "idf").code == 1
    assert hanse("scopes", "give", "/nowhere.toml").code == 2
