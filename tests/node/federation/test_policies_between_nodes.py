"""Two communities and a third in between: what policy forbids another community is nowhere to be found there."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import jwt
import pytest
from tests.node.federation.linked import WAIT_S, description, until
from tests.receiving import receiver
from tests.serving import serving, settings_with

import hanse
from hanse.client import NgsiLdClientError, SyncNodeClient

KEY = "a key that is long enough for a test of tokens"
OPERATOR = {
    "Authorization": "Bearer " + jwt.encode({"sub": "operator", "roles": ["admin"], "exp": time.time() + 3600}, KEY, "HS256")
}
# c sees rooms, their temperature by tens and nothing of who is in them; b, which is in between, sees nothing
POLICIES = """
@id("people") permit (principal is User, action, resource);
@id("open") permit (principal is Node, action in [Action::"read", Action::"subscribe"], resource)
    when { resource.types.contains("Bench") };
@id("coarse") @obfuscate("round 10")
permit (principal in Community::"cs", action in [Action::"read", Action::"subscribe"], resource)
    when { resource.types.contains("Room") && ["", "temperature"].contains(resource.attribute) };
"""
MANY = 918273645546  # a number that is nowhere by chance
ROOM = {
    "id": "urn:room:1",
    "type": "Room",
    "temperature": {"type": "Property", "value": 23, "observedAt": "2026-01-01T00:00:00Z"},
    "occupancy": {"type": "Property", "value": MANY, "observedAt": "2026-01-01T00:00:00Z"},
}
SECRETS = (str(MANY), "occupancy")


class Node:
    def __init__(self, client: SyncNodeClient) -> None:
        self._client = client

    def ask(self, method: str, path: str, **more: Any) -> Any:
        return self._client.request(method, path, headers=OPERATOR, **more)

    def get(self, path: str, **params: str) -> Any:
        return self.ask("GET", path, params=params).data

    def subscribe(self, uri: str, **more: Any) -> None:
        body = {"type": "Subscription", "entities": [{"type": "Room"}], "notification": {"endpoint": {"uri": uri}}}
        assert self.ask("POST", "/ngsi-ld/v1/subscriptions", json=body | more).status == 201

    def create(self, **more: Any) -> None:
        assert self.ask("POST", "/ngsi-ld/v1/entities", json=ROOM | more).status == 201

    def patch(self, **attributes: Any) -> None:
        body = {name: {"type": "Property", "value": value} for name, value in attributes.items()}
        assert self.ask("PATCH", "/ngsi-ld/v1/entities/urn:room:1/attrs", json=body).status == 204

    def override(self, minutes: float = 10.0) -> None:
        """The fire brigade sees occupancy during an alarm."""
        policies = (
            """@id("alarm") permit (principal in Community::"cs", action, resource) when { resource.types.contains("Room") };"""
        )
        body = {"name": "fire", "policies": policies, "minutes": minutes, "reason": "there is smoke"}
        assert self.ask("POST", "/hanse/v1/policies/overrides", json=body).status == 201

    def end_override(self) -> None:
        assert self.ask("DELETE", "/hanse/v1/policies/overrides/fire").status == 204

    @property
    def held(self) -> int:
        return next(int(bound["used"]) for bound in self.get("/hanse/v1/bounds") if bound["name"] == "broker_subscriptions")


@contextmanager
def communities(folder: Path, strategy: str, policies: Mapping[str, str], rule: str = "") -> Iterator[dict[str, Node]]:
    """a - b - c, each of a community of its own; `rule`: what crosses from a to b."""
    (folder / "federation.toml").write_text(description("abc", [f"ab {rule}", "bc"], strategy))
    with ExitStack() as stack:
        found = {name: stack.enter_context(running(folder, name, policies.get(name, ""))) for name in "abc"}
        all_there(found)
        yield found


@contextmanager
def running(folder: Path, name: str, policies: str = "") -> Iterator[Node]:
    access = {}
    if policies:
        cedar = folder / f"{name}.cedar"
        cedar.write_text(policies)
        access = {"policies": str(cedar), "key": KEY}
    federation, store = {"file": str(folder / "federation.toml")}, {"data": str(folder / name)}
    with (
        serving(settings_with(node={"id": name}, federation=federation, store=store, access=access)) as url,
        hanse.connect_sync(url) as client,
    ):
        yield Node(client)


def all_there(nodes: Mapping[str, Node]) -> None:
    until(lambda: all(_sees(node) >= set(nodes) for node in nodes.values()), "all see each other")


def _sees(node: Node) -> set[str]:
    return {other["id"] for other in node.get("/hanse/v1/federation")["nodes"] if other["reachable"]}


def _files(folder: Path, node: str) -> bytes:
    """All that a node has on its disk, the log of changes and the journal of its broker included."""
    return b"".join(path.read_bytes() for path in (folder / node).rglob("*") if path.is_file())


@pytest.mark.parametrize("strategy", ["advertised", "flood-events", "dht"])
def test_what_policy_forbids_is_nowhere_to_be_found(strategy: str, tmp_path: Path) -> None:
    with communities(tmp_path, strategy, {"a": POLICIES}) as nodes, receiver() as (near_uri, near), receiver() as (uri, far):
        a, b, c = nodes["a"], nodes["b"], nodes["c"]
        b.subscribe(near_uri)
        c.subscribe(uri)
        a.create()
        told = far.get(timeout=WAIT_S)["data"][0]
        assert told["temperature"]["value"] == 20
        assert "occupancy" not in told

        assert [room["temperature"]["value"] for room in c.get("/ngsi-ld/v1/entities", type="Room")] == [20]
        assert c.get("/ngsi-ld/v1/entities/urn:room:1")["temperature"]["value"] == 20
        assert b.get("/ngsi-ld/v1/entities", type="Room") == []
        with pytest.raises(NgsiLdClientError):
            b.get("/ngsi-ld/v1/entities/urn:room:1")
        past = c.get("/ngsi-ld/v1/temporal/entities/urn:room:1", timerel="after", timeAt="2000-01-01T00:00:00Z")
        assert _values(past["temperature"]) == [20]
        assert "occupancy" not in past
        with pytest.raises(NgsiLdClientError):
            b.get("/ngsi-ld/v1/temporal/entities/urn:room:1", timerel="after", timeAt="2000-01-01T00:00:00Z")

        _nothing(near)
        for node in "bc":
            said = json.dumps([nodes[node].get("/hanse/v1/federation/traces"), nodes[node].get("/hanse/v1/log")])
            assert not any(secret in said for secret in SECRETS)
            assert not any(secret.encode() in _files(tmp_path, node) for secret in SECRETS)
        assert b"urn:room:1" not in _files(tmp_path, "b")


def _values(attribute: Any) -> list[Any]:
    return [one["value"] for one in (attribute if isinstance(attribute, list) else [attribute])]


def _nothing(queue: Queue[Any]) -> None:
    with pytest.raises(Empty):
        queue.get(timeout=0.5)


@pytest.mark.parametrize("strategy", ["advertised", "scoped"])
def test_export_rules_count_as_well(strategy: str, tmp_path: Path) -> None:
    """What the policy leaves for c goes to it under the rules of all links between, though b may not see it."""
    every = POLICIES.replace('["", "temperature"].contains(resource.attribute)', 'resource.attribute != "occupancy"')
    rule = "export = { deny_attributes = ['humidity'] }"
    with communities(tmp_path, strategy, {"a": every}, rule) as nodes, receiver() as (uri, far):
        nodes["c"].subscribe(uri)
        nodes["a"].create(humidity={"type": "Property", "value": MANY + 3})
        told = far.get(timeout=WAIT_S)["data"][0]
        assert told["temperature"]["value"] == 20
        assert "humidity" not in told
        assert "humidity" not in nodes["c"].get("/ngsi-ld/v1/entities/urn:room:1")
        assert "occupancy" not in told
        assert b"urn:room:1" not in _files(tmp_path, "b")
        assert str(MANY + 3).encode() not in _files(tmp_path, "c")


def test_filters_of_another_community_see_its_view(tmp_path: Path) -> None:
    with communities(tmp_path, "advertised", {"a": POLICIES}) as nodes, receiver() as (uri, far):
        a, c = nodes["a"], nodes["c"]
        a.create()
        until(lambda: c.get("/ngsi-ld/v1/entities", type="Room"), "c knows of rooms")
        assert c.get("/ngsi-ld/v1/entities", type="Room", q=f"occupancy=={MANY}") == []
        assert c.get("/ngsi-ld/v1/entities", type="Room", q="temperature==23") == []
        assert len(c.get("/ngsi-ld/v1/entities", type="Room", q="temperature==20")) == 1
        before = a.held
        c.subscribe(uri, q="temperature==30")
        until(lambda: a.held == before + 1, "the subscription is where it is matched")
        a.patch(temperature=23.5)
        a.patch(temperature=33)
        assert far.get(timeout=WAIT_S)["data"][0]["temperature"]["value"] == 30
        a.patch(occupancy=1)  # which is nothing to c, not even that something has changed
        _nothing(far)


def test_what_every_community_may_see_travels_as_ever(tmp_path: Path) -> None:
    with communities(tmp_path, "dht", {"a": POLICIES}) as nodes, receiver() as (near_uri, near), receiver() as (uri, far):
        bench = {"entities": [{"type": "Bench"}]}
        nodes["b"].subscribe(near_uri, **bench)
        nodes["c"].subscribe(uri, **bench)
        nodes["a"].create(id="urn:bench:1", type="Bench")
        for queue in (near, far):
            assert queue.get(timeout=WAIT_S)["data"][0]["occupancy"]["value"] == MANY


def test_the_trace_says_which_policy_kept_what_from_whom(tmp_path: Path) -> None:
    with communities(tmp_path, "advertised", {"a": POLICIES}) as nodes:
        nodes["a"].create()
        (newest, *_) = nodes["a"].get("/hanse/v1/federation/traces", limit="1")
        found = nodes["a"].get("/hanse/v1/federation/trace", publisher=newest["publisher"], id=newest["id"])
        kept_back = {step["other"]: (step["did"], step["how"]) for step in found["steps"] if step["did"] != "published"}
        assert kept_back["b"] == ("withheld", "it may not subscribe to temperature, occupancy: no policy permits it")
        why = (
            "it may read temperature after round 10: policy 'coarse' permits it; it may not read occupancy: no policy permits it"
        )
        assert kept_back["c"] == ("reduced", why)
        told = {"publisher": newest["publisher"], "id": newest["id"]}
        assert nodes["a"].get("/hanse/v1/federation/trace", **told, reader="b")["notification"] is None
        shown = nodes["a"].get("/hanse/v1/federation/trace", **told, reader="c")["notification"]
        assert [instance["value"] for instances in shown["attributes"].values() for instance in instances] == [20]


# --- overrides ------------------------------------------------------------------------------------------------------------


def test_an_override_opens_and_closes_again_at_once(tmp_path: Path) -> None:
    with communities(tmp_path, "flood-events", {"a": POLICIES}) as nodes, receiver() as (uri, far):
        a, c = nodes["a"], nodes["c"]
        c.subscribe(uri, notificationTrigger=["attributeUpdated"])
        a.create()
        a.override()
        a.patch(occupancy=1)
        assert far.get(timeout=WAIT_S)["data"][0]["occupancy"]["value"] == 1
        assert c.get("/ngsi-ld/v1/entities/urn:room:1")["temperature"]["value"] == 23
        a.end_override()
        a.patch(occupancy=2)
        a.patch(temperature=41)
        told = far.get(timeout=WAIT_S)["data"][0]
        assert told["temperature"]["value"] == 40
        assert "occupancy" not in told
        assert "occupancy" not in c.get("/ngsi-ld/v1/entities/urn:room:1")


def test_an_override_ends_by_itself(tmp_path: Path) -> None:
    with communities(tmp_path, "advertised", {"a": POLICIES}) as nodes:
        a, c = nodes["a"], nodes["c"]
        a.create()
        until(lambda: c.get("/ngsi-ld/v1/entities", type="Room"), "c knows of rooms")
        a.override(minutes=0.05)
        until(lambda: "occupancy" not in c.get("/ngsi-ld/v1/entities/urn:room:1"), "it is closed again")
        assert [entry["what"] for entry in a.get("/hanse/v1/policies/audit")][:1] == ["started"]


def test_what_waits_for_a_node_that_is_away_obeys_the_policies_when_it_is_back(tmp_path: Path) -> None:
    (tmp_path / "federation.toml").write_text(description("abc", ["ab", "bc"], "flood-events"))
    with running(tmp_path, "a", POLICIES) as a, running(tmp_path, "b") as b, receiver() as (uri, far):
        with running(tmp_path, "c") as c:
            all_there({"a": a, "b": b, "c": c})
            c.subscribe(uri)
            a.create()
            far.get(timeout=WAIT_S)
        a.override()
        a.patch(occupancy=MANY + 1)  # while c is away, and may see it
        a.end_override()
        with running(tmp_path, "c") as c:
            all_there({"a": a, "b": b, "c": c})
            a.patch(temperature=77)
            while (told := far.get(timeout=WAIT_S)["data"][0])["temperature"]["value"] != 80:
                assert "occupancy" not in told
            assert str(MANY + 1).encode() not in _files(tmp_path, "c")


@pytest.mark.parametrize("strategy", ["flood-events", "advertised"])
def test_what_was_for_everyone_does_not_reach_whom_it_is_kept_from_since(strategy: str, tmp_path: Path) -> None:
    """It waits in an outbox as it is, and the policies change before the other node is back."""
    (tmp_path / "federation.toml").write_text(description("abc", ["ab", "bc"], strategy))
    benches = {"entities": [{"type": "Bench"}]}
    bench = {"id": "urn:bench:1", "type": "Bench"}
    with running(tmp_path, "a", POLICIES) as a, running(tmp_path, "b") as b, receiver() as (uri, far):
        with running(tmp_path, "c") as c:
            all_there({"a": a, "b": b, "c": c})
            c.subscribe(uri, **benches)
            a.create(**bench)
            far.get(timeout=WAIT_S)
        a.create(id="urn:bench:2", type="Bench", occupancy={"type": "Property", "value": MANY + 2})
        (tmp_path / "a.cedar").write_text(
            POLICIES.replace('resource.types.contains("Bench")', 'resource.attribute == "temperature"')
        )
        a.ask("POST", "/hanse/v1/policies/reload")
        with running(tmp_path, "c") as c:
            all_there({"a": a, "b": b, "c": c})
            told = far.get(timeout=WAIT_S)["data"][0]
            assert told["id"] == "urn:bench:2"
            assert "temperature" in told
            assert "occupancy" not in told
            assert str(MANY + 2).encode() not in _files(tmp_path, "c")


def test_policies_that_are_read_again_count_at_once(tmp_path: Path) -> None:
    with communities(tmp_path, "advertised", {"a": POLICIES}) as nodes:
        a, b = nodes["a"], nodes["b"]
        a.create()
        until(lambda: nodes["c"].get("/ngsi-ld/v1/entities", type="Room"), "c knows of rooms")
        assert b.get("/ngsi-ld/v1/entities", type="Room") == []
        (tmp_path / "a.cedar").write_text(POLICIES.replace('"cs"', '"bs"'))
        a.ask("POST", "/hanse/v1/policies/reload")
        assert [room["temperature"]["value"] for room in b.get("/ngsi-ld/v1/entities", type="Room")] == [20]
        assert nodes["c"].get("/ngsi-ld/v1/entities", type="Room") == []
