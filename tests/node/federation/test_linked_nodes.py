"""Nodes that are linked for real: what one has, clients of another hear of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import pytest
from tests.node.federation.linked import WAIT_S, description, linked, running, seen, until
from tests.receiving import receiver

from hanse.client import NgsiLdClientError, SyncNodeClient

ROOM = {"id": "urn:room:1", "type": "Room", "temperature": {"type": "Property", "value": 20}}
Nodes = dict[str, SyncNodeClient]


def subscribe(node: SyncNodeClient, uri: str, id_: str = "urn:s:1", **more: Any) -> None:
    body = {"id": id_, "type": "Subscription", "entities": [{"type": "Room"}], "notification": {"endpoint": {"uri": uri}}} | more
    assert node.request("POST", "/ngsi-ld/v1/subscriptions", json=body).status == 201


def create(node: SyncNodeClient, **more: Any) -> None:
    assert node.request("POST", "/ngsi-ld/v1/entities", json=ROOM | more).status == 201


def patch(node: SyncNodeClient, value: Any, entity: str = "urn:room:1", **more: Any) -> None:
    body = {"temperature": {"type": "Property", "value": value}} | more
    assert node.request("PATCH", f"/ngsi-ld/v1/entities/{entity}/attrs", json=body).status == 204


def heard(got: Queue[Any]) -> Any:
    return got.get(timeout=WAIT_S)["data"][0]


def held(node: SyncNodeClient) -> int:
    """How many subscriptions the node matches."""
    return next(
        int(bound["used"]) for bound in node.request("GET", "/hanse/v1/bounds").data if bound["name"] == "broker_subscriptions"
    )


def nothing_more(got: Queue[Any]) -> None:
    with pytest.raises(Empty):
        got.get(timeout=0.3)


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Nodes]:
    """a - b - c."""
    with linked(tmp_path, description("abc", ["ab", "bc"]), "abc") as nodes:
        yield nodes


def test_a_change_is_heard_of_two_links_away(chain: Nodes) -> None:
    with receiver() as (uri, got):
        subscribe(chain["c"], uri)
        subscribe(chain["a"], uri, notification={"endpoint": {"uri": uri}, "format": "keyValues"})  # the same id, another node
        create(chain["a"])
        first = [heard(got), heard(got)]
        assert sorted(str(entity["temperature"]) for entity in first) == ["20", "{'type': 'Property', 'value': 20}"]
        patch(chain["a"], 21)
        assert {str(heard(got)["temperature"]) for _ in range(2)} == {"21", "{'type': 'Property', 'value': 21}"}
        assert chain["a"].request("DELETE", "/ngsi-ld/v1/subscriptions/urn:s:1").status == 204
        patch(chain["a"], 22)
        assert heard(got)["temperature"]["value"] == 22
        nothing_more(got)


def test_only_what_is_asked_for_comes(chain: Nodes) -> None:
    with receiver() as (uri, got):
        subscribe(chain["c"], uri, q="temperature>30", watchedAttributes=["temperature"])
        create(chain["a"])
        patch(chain["a"], 31)
        assert heard(got)["temperature"]["value"] == 31
        patch(chain["a"], 25)
        assert chain["a"].request(
            "POST", "/ngsi-ld/v1/entities/urn:room:1/attrs", json={"name": {"type": "Property", "value": "x"}}
        ).status in (204, 207)
        patch(chain["a"], 32)
        assert heard(got)["temperature"]["value"] == 32
        nothing_more(got)


def test_what_a_subscriber_is_shown_is_as_if_it_had_happened_there(chain: Nodes) -> None:
    with receiver() as (uri, got):
        subscribe(
            chain["c"],
            uri,
            notification={"endpoint": {"uri": uri}, "showChanges": True},
            notificationTrigger=["attributeUpdated", "entityDeleted"],
        )
        create(chain["a"])
        patch(chain["a"], 21)
        assert heard(got)["temperature"] == {"type": "Property", "value": 21, "previousValue": 20}
        assert chain["a"].request("DELETE", "/ngsi-ld/v1/entities/urn:room:1").status == 204
        assert "deletedAt" in heard(got)


def test_the_last_entity_takes_its_advertisement_along(chain: Nodes) -> None:
    def offers(node: str) -> set[str]:
        answer = chain[node].request("GET", "/hanse/v1/federation").data
        return {offer["type"].rsplit("/", 1)[-1] for node in answer["nodes"] if node["id"] == "a" for offer in node["offers"]}

    create(chain["a"])
    until(lambda: offers("c") == {"Room"}, "the advertisement has come")
    create(chain["a"], id="urn:room:2")
    assert chain["a"].request("DELETE", "/ngsi-ld/v1/entities/urn:room:1").status == 204
    assert offers("c") == {"Room"}
    assert chain["a"].request("DELETE", "/ngsi-ld/v1/entities/urn:room:2").status == 204
    until(lambda: offers("c") == set(), "the advertisement has gone")


def test_a_node_that_was_away_hears_of_it_later(tmp_path: Path) -> None:
    text = description("ab", ["ab"])
    file = tmp_path / "federation.toml"
    file.write_text(text)
    with receiver() as (uri, got), running(tmp_path, file, "a") as a:
        with running(tmp_path, file, "b") as b:
            until(lambda: "b" in seen(a), "a sees b")
            subscribe(b, uri)
            create(a)
            assert heard(got)["temperature"]["value"] == 20
        until(lambda: "b" not in seen(a), "a sees that b is away")
        for value in (21, 22, 23):
            patch(a, value)
        with running(tmp_path, file, "b"):
            assert [heard(got)["temperature"]["value"] for _ in range(3)] == [21, 22, 23]
            nothing_more(got)


def test_export_rules_hold(tmp_path: Path) -> None:
    rules = 'export = { types = ["Room"], deny_attributes = ["secret"] }'
    with linked(tmp_path, description("ab", [f"ab {rules}"]), "ab") as nodes, receiver() as (uri, got):
        subscribe(nodes["b"], uri, entities=[{"type": "Room"}, {"type": "Safe"}])
        subscribe(nodes["b"], uri, "urn:s:2", q="secret==7")
        secret = {"type": "Property", "value": 7}
        create(nodes["a"], id="urn:safe:1", type="Safe")
        create(nodes["a"], secret=secret)
        entity = heard(got)
        assert entity == {"id": "urn:room:1", "type": "Room", "temperature": {"type": "Property", "value": 20}}
        patch(nodes["a"], 21, secret={"type": "Property", "value": 8})
        assert heard(got)["temperature"]["value"] == 21
        nothing_more(got)


def test_a_strategy_of_its_own_for_a_type(tmp_path: Path) -> None:
    text = description("ab", ["ab"], more='[federation.overrides]\nBus = "flood-events"\n')
    with linked(tmp_path, text, "ab") as nodes, receiver() as (uri, got):
        subscribe(nodes["b"], uri, entities=[{"type": "Room"}, {"type": "Bus"}])
        create(nodes["a"])
        create(nodes["a"], id="urn:bus:1", type="Bus")
        create(nodes["a"], id="urn:both:1", type=["Bus", "Room"])
        assert {heard(got)["id"] for _ in range(3)} == {"urn:room:1", "urn:bus:1", "urn:both:1"}
        nothing_more(got)


def test_nodes_that_do_not_agree_do_not_link(tmp_path: Path) -> None:
    ports = description("ab", ["ab"])
    ours, theirs = tmp_path / "ours.toml", tmp_path / "theirs.toml"
    ours.write_text(ports)
    theirs.write_text(ports.replace("advertised", "dht"))

    def refused(node: SyncNodeClient) -> str:
        return str(node.request("GET", "/hanse/v1/federation").data["refused"])

    with running(tmp_path, ours, "a") as a, running(tmp_path, theirs, "b") as b, receiver() as (uri, got):
        until(lambda: "strategy is 'dht' there and 'advertised' here" in refused(a), "a says why")
        until(lambda: "strategy is 'advertised' there and 'dht' here" in refused(b), "b says why")
        subscribe(b, uri)
        create(a)
        nothing_more(got)


def test_a_client_moves_from_node_to_node(tmp_path: Path) -> None:
    with linked(tmp_path, description("abc", ["ab", "bc"], "geo-publisher"), "abc") as nodes, receiver() as (uri, got):
        a, b, c = (nodes[name] for name in "abc")

        def say(node: SyncNodeClient, path: str, body: Any, method: str = "PUT") -> None:
            assert node.request(method, f"/hanse/v1/clients/{path}", json=body).status in (200, 202, 204), path

        say(a, "walker", {"endpoint": uri, "location": {"lat": 0.0, "lon": 0.0}})
        say(a, "walker/subscriptions/s", {"selectors": [{"type": "Alarm"}]})
        until(lambda: held(c), "the subscription is where it is matched")
        say(c, "siren", {"location": {"lat": 0.0, "lon": 2.0}})
        say(c, "siren/notifications", {"id": "1", "types": ["Alarm"]}, "POST")
        assert got.get(timeout=WAIT_S)["id"] == "1"
        say(b, "walker", {"endpoint": uri, "location": {"lat": 0.0, "lon": 1.0}, "previous": "a"})
        until(lambda: "Alarm" in str(b.request("GET", "/hanse/v1/clients/walker").data), "b has it all")
        until(lambda: "walker" not in str(a.request("GET", "/hanse/v1/clients").data), "a has handed it over")
        say(c, "siren/notifications", {"id": "2", "types": ["Alarm"]}, "POST")
        assert got.get(timeout=WAIT_S)["id"] == "2"
        nothing_more(got)


# --- reading ----------------------------------------------------------------------------------------------------------


def get(node: SyncNodeClient, path: str, **params: Any) -> Any:
    return node.request("GET", f"/ngsi-ld/v1{path}", params=params)


def offered(node: SyncNodeClient, provider: str) -> bool:
    answer = node.request("GET", "/hanse/v1/federation").data
    return any(found["offers"] for found in answer["nodes"] if found["id"] == provider)


def test_a_query_finds_what_others_have(chain: Nodes) -> None:
    for i, node in enumerate("aab"):
        create(chain[node], id=f"urn:room:{i}", temperature={"type": "Property", "value": 20 + i})
    until(lambda: offered(chain["c"], "a") and offered(chain["c"], "b"), "c knows who has rooms")
    c = chain["c"]
    found = get(c, "/entities", type="Room", orderBy="temperature;desc", count="true")
    assert [entity["id"] for entity in found.data] == ["urn:room:2", "urn:room:1", "urn:room:0"]
    assert found.headers["NGSILD-Results-Count"] == "3"
    assert [entity["id"] for entity in get(c, "/entities", type="Room", q="temperature>20", limit=1).data] == ["urn:room:1"]
    assert len(get(c, "/entities", type="Room", limit=2, offset=2).data) == 1
    assert get(c, "/entities", type="Room", local="true").data == []
    assert get(c, "/entities/urn:room:2").data["temperature"]["value"] == 22
    assert get(c, "/temporal/entities/urn:room:2").data["temperature"][0]["value"] == 22
    past = get(c, "/temporal/entities", type="Room", timerel="after", timeAt="2020-01-01T00:00:00Z", timeproperty="modifiedAt")
    assert {entity["id"] for entity in past.data} == {"urn:room:0", "urn:room:1", "urn:room:2"}


def test_parts_of_an_entity_are_put_together(chain: Nodes) -> None:
    create(chain["a"])
    create(chain["b"], temperature={"type": "Property", "value": 25}, name={"type": "Property", "value": "hall"})
    until(lambda: offered(chain["c"], "a") and offered(chain["c"], "b"), "c knows who has rooms")
    (entity,) = get(chain["c"], "/entities", type="Room").data
    assert (entity["temperature"]["value"], entity["name"]["value"]) == (25, "hall")  # of two, the newer one
    assert get(chain["c"], "/entities/urn:room:1").data == entity


def test_queries_obey_export_rules(tmp_path: Path) -> None:
    rules = 'export = { types = ["Room"], deny_attributes = ["secret"] }'
    with linked(tmp_path, description("ab", [f"ab {rules}"]), "ab") as nodes:
        secret = {"type": "Property", "value": 7}
        create(nodes["a"], secret=secret)
        create(nodes["a"], id="urn:safe:1", type="Safe")
        until(lambda: offered(nodes["b"], "a"), "b knows that a has rooms")
        b = nodes["b"]
        (entity,) = get(b, "/entities", q="temperature==20", count="true").data
        assert "secret" not in entity
        assert get(b, "/entities", type="Room", q="secret==7").data == []
        assert get(b, "/entities", attrs="secret").data == []
        create(nodes["a"], id="urn:room:2")
        assert len(get(b, "/entities", type="Room", q="!secret").data) == 2  # to whom it is hidden, neither has it
        assert [entity["id"] for entity in get(b, "/entities", type="Room", orderBy="secret;desc").data] == [
            "urn:room:1",
            "urn:room:2",
        ]
        assert get(b, "/entities", type="Safe").data == []
        assert "secret" not in get(b, "/entities/urn:room:1").data
        assert "secret" not in get(b, "/temporal/entities/urn:room:1").data
        with pytest.raises(NgsiLdClientError, match="404"):
            get(b, "/entities/urn:safe:1")


def test_who_is_away_is_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "federation.toml"
    file.write_text(description("ab", ["ab"]))
    with running(tmp_path, file, "b") as b:
        with running(tmp_path, file, "a") as a:
            until(lambda: "a" in seen(b), "b sees a")
            create(a)
            create(b, id="urn:room:2")
            until(lambda: offered(b, "a"), "b knows that a has rooms")
            assert len(get(b, "/entities", type="Room").data) == 2
        until(lambda: "a" not in seen(b), "b sees that a is away")
        partial = get(b, "/entities", type="Room")
        assert [entity["id"] for entity in partial.data] == ["urn:room:2"]
        assert partial.headers["NGSILD-Warning"] == '199 - "a is away"'
