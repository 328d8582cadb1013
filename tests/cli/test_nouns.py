"""get, pub, sub, letters and backup against a real node, as typed."""

from __future__ import annotations

import io
import json
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from tests.cli.conftest import Ran
from tests.cli.node_process import served
from tests.serving import serving, settings_with

import hanse as library
from hanse.cli import NOUNS


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(HANSE_NOTIFICATIONS__ATTEMPTS_MAX="1", HANSE_LOG__LEVEL="error") as (_, found):
        yield found


@pytest.fixture(autouse=True)
def _node(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANSE_URL", url)


def test_pub_then_get(hanse: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    made = hanse("pub", "urn:ngsi-ld:Room:1", "--type", "Room", "temperature=21.5", "name=the hall")
    assert (made.code, made.out) == (0, "published: urn:ngsi-ld:Room:1\n")
    assert hanse("pub", "urn:ngsi-ld:Room:1", "temperature=22").code == 0
    found = json.loads(hanse("get", "urn:ngsi-ld:Room:1").out)
    assert found == {"id": "urn:ngsi-ld:Room:1", "type": "Room", "temperature": 22, "name": "the hall"}
    point = '{"type": "Point", "coordinates": [2.3, 48.8]}'
    assert hanse("pub", "urn:ngsi-ld:Room:1", f"location={point}").code == 0
    assert json.loads(hanse("get", "urn:ngsi-ld:Room:1", "--full").out)["location"]["type"] == "GeoProperty"
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(b'[{"id": "urn:a:1", "type": "A"}, {"id": "no uri", "type": "A"}]'))
    )
    both = hanse("pub", "--json")
    assert both.code == 1
    assert json.loads(both.out)["success"] == ["urn:a:1"]
    table = hanse("get", "--type", "Room", "--q", "temperature>20").out
    assert "urn:ngsi-ld:Room:1" in table
    assert "the hall" in table
    assert json.loads(hanse("get", "--type", "Nothing", "--json").out) == []


def test_get_asks_for_quality(hanse: Callable[..., Ran], url: str) -> None:
    with library.connect_sync(url) as node:
        for number, precision in enumerate((30, 50)):
            speed = {"type": "Property", "value": 1, "precision": {"type": "Property", "value": precision}}
            node.create({"id": f"urn:ngsi-ld:Car:{number}", "type": "Car", "speed": speed})
    good = hanse("get", "--type", "Car", "--quality", "speed.precision>=medium", "--json")
    assert [entity["id"] for entity in json.loads(good.out)] == ["urn:ngsi-ld:Car:1"]
    wrong = hanse("get", "--type", "Car", "--quality", "speed.precison>=40")
    assert wrong.code != 0
    assert "precision" in wrong.err


def test_sub_prints_what_comes(hanse: Callable[..., Ran], url: str, capsys: pytest.CaptureFixture[str]) -> None:
    done: Queue[Any] = Queue()

    def publish() -> None:
        with library.connect_sync(url) as node:
            while not list(node.subscriptions()):
                pass
            node.create({"id": "urn:ngsi-ld:Lamp:1", "type": "Lamp", "on": True})
        done.put(None)

    thread = threading.Thread(target=publish, daemon=True)
    thread.start()
    ran = hanse("sub", "--type", "Lamp", "--count", 1)
    thread.join(20)
    assert ran.code == 0
    assert json.loads(ran.out) == {"id": "urn:ngsi-ld:Lamp:1", "type": "Lamp", "on": True}
    assert ran.err.startswith("subscribed: urn:")


def test_letters(hanse: Callable[..., Ran], url: str) -> None:
    assert hanse("letters", "list").out == "no dead letters\n"
    with library.connect_sync(url) as node:
        endpoint = {"uri": "http://127.0.0.1:9/"}
        node.create_subscription({"type": "Subscription", "entities": [{"type": "Door"}], "notification": {"endpoint": endpoint}})
        node.create({"id": "urn:ngsi-ld:Door:1", "type": "Door", "open": True})
    letters: list[dict[str, Any]] = []
    while not letters:
        letters = json.loads(hanse("letters", "list", "--json").out)
    number = letters[0]["id"]
    assert "http://127.0.0.1:9/" in hanse("letters", "list").out
    assert json.loads(hanse("letters", "show", number).out)["body"]["data"][0]["id"] == "urn:ngsi-ld:Door:1"
    assert hanse("letters", "resend", number).out == "resent: 1\n"
    while not (letters := json.loads(hanse("letters", "list", "--json").out)):
        pass
    assert hanse("letters", "drop", "--all").out == "dropped: 1\n"
    assert hanse("letters", "drop").code == 2
    assert hanse("letters", "show", 1_000_000).code == 1


def test_backup_of_a_running_node_can_be_served(hanse: Callable[..., Ran], url: str, tmp_path: Path) -> None:
    with library.connect_sync(url, tenant="other") as node:
        node.create({"id": "urn:ngsi-ld:Room:7", "type": "Room"})
    ran = hanse("backup", url, tmp_path / "one.sqlite", "--tenant", "other")
    assert ran.code == 0
    with closing(sqlite3.connect(tmp_path / "one.sqlite")) as copied:
        assert copied.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert hanse("backup", url, tmp_path / "one.sqlite").code == 2
    assert len(json.loads(hanse("backup", url, tmp_path / "all", "--json").out)["files"]) >= 2
    with (
        serving(settings_with(store={"data": str(tmp_path / "all")})) as again,
        library.connect_sync(again, tenant="other") as node,
    ):
        assert node.get("urn:ngsi-ld:Room:7")["type"] == "Room"
    assert hanse("backup", tmp_path / "all", tmp_path / "again").code == 0
    assert sorted(p.name for p in (tmp_path / "again").iterdir()) == sorted(p.name for p in (tmp_path / "all").glob("*.sqlite"))
    assert hanse("backup", tmp_path / "nothing", tmp_path / "x.sqlite").code == 2


def test_what_is_wrong_is_one_line(hanse: Callable[..., Ran]) -> None:
    for arguments, code in (
        (("pub", "urn:a:1", "temperature"), 2),
        (("pub", "urn:a:1"), 2),
        (("get", "urn:a:missing"), 1),
        (("get", "--type", "Room", "--q", "("), 1),
        (("get", "--url", "ftp://x"), 2),
        (("get", "--url", "http://127.0.0.1:9"), 1),
    ):
        ran = hanse(*arguments)
        assert (ran.code, ran.err.count("\n")) == (code, 1), (arguments, ran)
        assert ran.err.startswith("hanse: ")


@pytest.mark.parametrize("noun", NOUNS)
def test_every_noun_helps(hanse: Callable[..., Ran], noun: str) -> None:
    ran = hanse(noun, "--help")
    assert ran.code == 0
    assert "Usage: hanse" in ran.out


def test_every_command_of_a_node_has_an_example(hanse: Callable[..., Ran]) -> None:
    nouns = [("serve",), ("config", "check"), ("get",), ("pub",), ("sub",), ("backup",)]
    for words in [*nouns, *(("letters", verb) for verb in ("list", "show", "resend", "drop"))]:
        assert f"Example: hanse {' '.join(words)}" in " ".join(hanse(*words, "--help").out.split())
