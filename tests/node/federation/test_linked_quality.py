"""Quality between linked nodes: what is asked at one is judged at the other, when it accepts a change."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.node.federation.linked import WAIT_S, description, linked, until
from tests.receiving import receiver

from hanse.client import SyncNodeClient

Nodes = dict[str, SyncNodeClient]


def prop(value: Any = 1, **members: Any) -> dict[str, Any]:
    return {"type": "Property", "value": value} | members


def room(number: int, **attributes: Any) -> dict[str, Any]:
    return {"id": f"urn:room:{number}", "type": "Room"} | attributes


def ago(seconds: int) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def held(node: SyncNodeClient) -> int:
    bounds = node.request("GET", "/hanse/v1/bounds").data
    return next(int(bound["used"]) for bound in bounds if bound["name"] == "broker_subscriptions")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Nodes]:
    with linked(tmp_path, description("ab", ["ab"]), "ab") as nodes:
        yield nodes


def test_a_change_elsewhere_is_told_if_it_was_good_enough_there(pair: Nodes) -> None:
    here, there = pair["a"], pair["b"]
    there.create(room(0, temperature=prop()))
    with receiver() as (uri, got):
        body = {
            "type": "Subscription",
            "entities": [{"type": "Room"}],
            "qualityQ": "temperature.precision>=medium;freshness<=500",
        }
        here.create_subscription(body | {"notification": {"endpoint": {"uri": uri}}})
        until(lambda: held(there) == 1, "the other node knows of the subscription")
        for number, (precision, age) in enumerate(((50, 0), (30, 0), (50, 1000), (60, 100)), 1):
            there.create(room(number, temperature=prop(precision=prop(precision), observedAt=ago(age))))
        assert {got.get(timeout=WAIT_S)["data"][0]["id"] for _ in range(2)} == {"urn:room:1", "urn:room:4"}
        assert got.empty()


def test_a_query_finds_what_is_good_enough_at_all_nodes(pair: Nodes) -> None:
    for number, (node, precision) in enumerate((("a", 50), ("a", 30), ("b", 50), ("b", 30))):
        pair[node].create(room(number, temperature=prop(precision=prop(precision), observedAt=ago(0))))
    asked: dict[str, Any] = {"type": "Room", "quality_q": "temperature.precision>=40;freshness<=500"}
    until(lambda: pair["a"].count(type="Room") == 4, "all is known")
    assert sorted(entity["id"] for entity in pair["a"].query(**asked)) == ["urn:room:0", "urn:room:2"]
    assert pair["b"].count(**asked) == 2
    after: dict[str, Any] = {"timerel": "after", "time_at": ago(5000)}
    assert sorted(entity["id"] for entity in pair["a"].query_temporal(**asked, **after)) == ["urn:room:0", "urn:room:2"]


def test_a_link_that_wants_quality_lets_what_has_it_be_read(tmp_path: Path) -> None:
    rule = 'export = { quality = "precision>=40" }'  # for what a lets go to b
    with linked(tmp_path, description("ab", [f"ab {rule}"]), "ab") as nodes:
        for number, precision in enumerate((50, 30)):
            nodes["a"].create(room(number, temperature=prop(precision=prop(precision))))
        until(lambda: nodes["b"].count(type="Room") == 1, "what is good enough is seen")
        assert [entity["id"] for entity in nodes["b"].query(type="Room")] == ["urn:room:0"]


def test_nobody_finds_out_how_good_something_hidden_is(tmp_path: Path) -> None:
    rule = 'export = { deny_attributes = ["secret"] }'
    with linked(tmp_path, description("ab", [f"ab {rule}"]), "ab") as nodes, receiver() as (uri, got):
        for number, asked in enumerate(("secret.precision", "temperature.precision")):
            body = {"id": f"urn:s:{number}", "type": "Subscription", "entities": [{"type": "Room"}], "qualityQ": asked}
            nodes["b"].create_subscription(body | {"notification": {"endpoint": {"uri": uri}}})
        nodes["a"].create(room(0, temperature=prop()))
        until(lambda: held(nodes["a"]) == 2, "both subscriptions are known")
        nodes["a"].create(room(1, temperature=prop(precision=prop(50)), secret=prop(precision=prop(50))))
        assert got.get(timeout=WAIT_S)["subscriptionId"] == "urn:s:1"
        assert nodes["b"].count(type="Room", quality_q="temperature.precision") == 1
        assert nodes["b"].count(type="Room", quality_q="secret.precision") == 0
        assert got.empty()
