"""A batch that is sent again under its name is done once, whatever happened in between."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.serving import serving, settings_with

import hanse
from hanse.client.sync import SyncNodeClient
from hanse.node import batch_keys

UPSERT = "/ngsi-ld/v1/entityOperations/upsert"
REPEATED = "Hanse-Batch-Repeated"


def rooms(number: int, value: int = 1, first: int = 0) -> list[dict[str, Any]]:
    return [
        {"id": f"urn:room:{i}", "type": "Room", "heat": {"type": "Property", "value": value}}
        for i in range(first, first + number)
    ]


def send(node: SyncNodeClient, key: str, documents: Any) -> Any:
    return node.request("POST", UPSERT, json=documents, params={"options": "update"}, headers={"Hanse-Batch": key})


@pytest.fixture
def node() -> Iterator[SyncNodeClient]:
    with serving() as url, hanse.connect_sync(url) as client:
        yield client


def test_what_was_done_is_not_done_again(node: SyncNodeClient) -> None:
    first = send(node, "q/0/0/0", rooms(3))
    assert first.status == 201
    assert REPEATED not in first.headers
    again = send(node, "q/0/0/0", rooms(3))
    assert again.status == 204
    assert again.headers[REPEATED] == "3"
    assert len(node.log()) == 3


def test_each_part_partition_batch_and_stream_is_its_own(node: SyncNodeClient) -> None:
    for key in ("q/0/0/0", "q/0/0/1", "q/0/1/0", "q/1/0/0", "r/0/0/0"):
        assert REPEATED not in send(node, key, rooms(1)).headers
    assert len(node.log()) == 5


def test_what_is_refused_is_told_every_time_and_the_rest_done_once(node: SyncNodeClient) -> None:
    documents = [*rooms(1), {"id": "no uri", "type": "Room"}, *rooms(1, first=1)]
    for _ in range(2):
        answer = send(node, "q/0/0/0", documents)
        assert answer.status == 207
        assert [error["entityId"] for error in answer.data["errors"]] == ["no uri"]
    assert len(node.log()) == 2


def test_a_batch_that_another_has_followed_was_done(node: SyncNodeClient) -> None:
    send(node, "q/4/0/0", rooms(1))
    send(node, "q/5/0/0", rooms(1))
    late = send(node, "q/4/7/0", rooms(2))
    assert late.headers[REPEATED] == "2"
    assert len(node.log()) == 2


def test_it_is_remembered_over_a_restart_and_forgotten_when_it_is_settled(tmp_path: Path) -> None:
    settings = settings_with(store={"data": str(tmp_path)})
    with serving(settings) as url, hanse.connect_sync(url) as node:
        send(node, "q/0/0/0", rooms(2))
        send(node, "q/1/0/0", rooms(2))
        send(node, "q/1/1/0", rooms(1))
    with serving(settings) as url, hanse.connect_sync(url) as node:
        assert send(node, "q/1/0/0", rooms(2)).headers[REPEATED] == "2"
        assert send(node, "q/0/0/0", rooms(2)).headers[REPEATED] == "2"
        assert len(node.log()) == 5
        bounds = {bound["name"]: bound["used"] for bound in node.request("GET", "/hanse/v1/bounds").data}
        assert bounds["batch_parts"] == 2
        send(node, "q/2/0/0", rooms(1))
    import sqlite3

    with sqlite3.connect(tmp_path / "default.sqlite") as store:
        assert [id_ for (id_,) in store.execute("SELECT id FROM documents WHERE kind = 'batch'")] == ["User:anonymous q/2/0/0"]
    store.close()


def test_two_at_the_same_time_are_done_once(node: SyncNodeClient) -> None:
    url = node.url
    failures: list[BaseException] = []

    def again() -> None:
        try:
            with hanse.connect_sync(url) as other:
                send(other, "q/0/0/0", rooms(200))
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=again) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(node.log(limit=1000)) == 200


def test_streams_that_nobody_hears_of_are_forgotten(node: SyncNodeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_keys, "PARTS_MAX", 3)
    for stream in "abcd":
        send(node, f"{stream}/0/0/0", rooms(1))
    assert REPEATED in send(node, "d/0/0/0", rooms(1)).headers
    assert REPEATED not in send(node, "a/0/0/0", rooms(1)).headers


@pytest.mark.parametrize("key", ["", "q", "q/1/2", "q/1/2/x", "q/1/2/3/4", "ä/1/2/3", "q/-1/0/0", "x" * 101 + "/0/0/0"])
def test_names_that_are_none(node: SyncNodeClient, key: str) -> None:
    with pytest.raises(hanse.NgsiLdClientError) as error:
        send(node, key, rooms(1))
    assert error.value.status == 400


def test_deletions_have_no_names(node: SyncNodeClient) -> None:
    with pytest.raises(hanse.NgsiLdClientError) as error:
        node.request("POST", "/ngsi-ld/v1/entityOperations/delete", json=["urn:a"], headers={"Hanse-Batch": "q/0/0/0"})
    assert error.value.status == 400
