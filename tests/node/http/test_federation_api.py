"""/hanse/v1/federation over real nodes: who is there, links and rules at run time, visibility, and what came which way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.node.federation.linked import description, linked, running, until
from tests.serving import serving

import hanse
from hanse.client import NgsiLdClientError, SyncNodeClient
from hanse.model import Notification
from hanse.routing import ExportRule

API = "/hanse/v1/federation"
VISIBILITY = "/hanse/v1/scopes/visibility"
SCOPES = """
[[viewpoints]]
name = "place"
[[viewpoints.dimensions]]
name = "area"
scales = ["city", "quarter"]
[[viewpoints.dimensions.scopes]]
name = "town"
scale = "city"
[[viewpoints.dimensions.scopes]]
name = "harbour"
scale = "quarter"
parents = [{ name = "town", out = "official==true" }]
[[viewpoints.dimensions.scopes]]
name = "hills"
scale = "quarter"
parents = ["town"]
"""
Nodes = dict[str, SyncNodeClient]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    folder = tmp_path_factory.mktemp("federation")
    (folder / "scopes.toml").write_text(SCOPES)
    text = description("ab", ["ab back = { deny_types = ['Secret'] }"], more='characterisation = "scopes.toml"')
    with linked(folder, text, "ab") as found:
        yield found


def get(node: SyncNodeClient, path: str = API, **params: Any) -> Any:
    return node.request("GET", path, params=params).data


def attach(node: SyncNodeClient, client: str, **subscriptions: Any) -> None:
    node.request("PUT", f"/hanse/v1/clients/{client}", json={})
    for id_, body in subscriptions.items():
        node.request("PUT", f"/hanse/v1/clients/{client}/subscriptions/{id_}", json=body)


def publish(node: SyncNodeClient, client: str, **given: Any) -> str:
    return str(node.request("POST", f"/hanse/v1/clients/{client}/notifications", json=given).data["id"])


def known(node: SyncNodeClient) -> set[str]:
    """The ids of the notifications that a node has had to do with."""
    return {one["id"] for one in get(node, f"{API}/traces", limit=1000)}


def link_of(node: SyncNodeClient, other: str) -> dict[str, Any]:
    found = get(node)
    return next((link for link in found["links"] if set(link["between"]) == {found["node"], other}), {})


def test_a_node_that_is_alone_is_all_there_is() -> None:
    with serving() as url, hanse.connect_sync(url) as node:
        found = get(node)
        assert found["federation"] is None
        assert [one["id"] for one in found["nodes"]] == [found["node"]]
        assert found["links"] == found["refused"] == []
        for method, path, body in (
            ("GET", f"{API}/topology", None),
            ("POST", f"{API}/links", {"node": "b"}),
            ("GET", f"{API}/traces", None),
            ("POST", VISIBILITY, {"dimension": "area", "scope": "x", "out": "false"}),
        ):
            with pytest.raises(NgsiLdClientError, match="alone"):
                node.request(method, path, json=body)
        assert get(node, VISIBILITY) == []


def test_who_is_there_and_what_they_have(nodes: Nodes) -> None:
    nodes["b"].create({"id": "urn:ngsi-ld:Crane:1", "type": "Crane", "load": 3})
    nodes["b"].create({"id": "urn:ngsi-ld:Secret:1", "type": "Secret", "load": 3})
    until(lambda: {"type": "Crane"} in get(nodes["a"])["nodes"][1]["offers"], "what b has is known to a")
    found = get(nodes["a"])
    assert (found["federation"], found["node"], found["strategy"]) == ("test", "a", "advertised")
    a, b = found["nodes"]
    assert (a["self"], b["self"], b["reachable"], b["linked"], b["community"]) == (True, False, True, True, "bs")
    assert b["location"] == [1.0, 0.0]
    assert b["lastHeard"].endswith("Z")
    assert {"type": "Secret"} not in b["offers"]
    assert get(nodes["b"])["entities"] == 2
    (link,) = found["links"]
    assert link["between"] == ["a", "b"]
    assert (link["agreed"], link["export"], link["back"]) == (True, {}, {"deny_types": ["Secret"]})
    assert link["counts"]["received"] >= 1
    assert (link["counts"]["waiting"], link["counts"]["lost"]) == (0, 0)


def test_what_a_new_node_needs_to_know(nodes: Nodes) -> None:
    found = get(nodes["b"], f"{API}/topology")
    assert (found["federation"]["name"], found["federation"]["strategy"]) == ("test", "advertised")
    assert [node["id"] for node in found["nodes"]] == ["a", "b"]
    assert all(node["listen"][0].startswith("tcp/127.0.0.1:") for node in found["nodes"])
    assert found["links"][0]["back"] == {"deny_types": ["Secret"]}


def test_for_where_a_notification_is(nodes: Nodes) -> None:
    attach(nodes["a"], "crane")
    square = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    near = publish(nodes["a"], "crane", topic="turns", geofence={"type": "Polygon", "coordinates": [square]})
    anywhere = publish(nodes["a"], "crane", topic="turns")
    told = {one["id"]: one.get("geofence") for one in get(nodes["a"], f"{API}/traces")}
    assert told[near] == {"type": "polygon", "polygons": [[square]]}
    assert told[anywhere] is None


def test_every_node_tells_the_areas_of_those_that_have_one(tmp_path: Path) -> None:
    area = [[[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 0.0]]]
    text = description("ab", ["ab"]).replace('id = "a"', f'id = "a"\narea = {area}')
    with linked(tmp_path, text, "ab") as found:
        for node in found.values():
            told = {one["id"]: one.get("area") for one in get(node)["nodes"]}
            assert told == {"a": {"type": "polygon", "polygons": [area]}, "b": None}


def test_the_way_of_a_notification(nodes: Nodes) -> None:
    attach(nodes["b"], "bea", tides={"selectors": [{"topic": "tide"}]}, winds={"selectors": [{"topic": "wind"}]})
    attach(nodes["a"], "ann")
    id_ = publish(nodes["a"], "ann", topic="tide")
    until(lambda: id_ in known(nodes["b"]), "it has come to b")
    here, there = (get(nodes[node], f"{API}/trace", publisher="ann", id=id_) for node in "ab")
    assert [step["did"] for step in here["steps"]] == ["published", "sent"]
    assert [step["did"] for step in there["steps"]] == ["heard", "delivered"]
    assert (here["home"], there["home"]) == ("a", None)
    assert there["notification"]["topic"] == "tide"
    asked = {"publisher": "ann", "id": id_, "home": "a"}
    got = get(nodes["b"], f"{API}/explain", **asked, subscription="tides")
    assert (got["delivered"], got["matched"], got["path"]) == (True, True, ["a", "b"])
    missed = get(nodes["b"], f"{API}/explain", **asked, subscription="bea/winds")
    assert (missed["delivered"], missed["matched"]) == (False, False)
    assert [check["words"] for check in missed["checks"] if not check["passed"]] == [
        "It is about topic tide; asked for is topic wind."
    ]
    asked_of = {"notification": here["notification"], "subscription": "tides", "home": "a"}
    assert nodes["b"].request("POST", f"{API}/explain", json=asked_of).data["delivered"] is True
    newest = get(nodes["a"], f"{API}/traces", limit=1)
    assert [(one["publisher"], one["id"], one["topic"]) for one in newest] == [("ann", id_, "tide")]
    assert get(nodes["a"], f"{API}/trace", publisher="ann", id="never")["steps"] == []


def test_ngsi_ld_has_a_second_look(nodes: Nodes) -> None:
    endpoint = {"uri": "http://127.0.0.1:9/", "accept": "application/json"}
    high, asleep = {"q": "height>10"}, {"notificationTrigger": ["entityDeleted"]}
    for id_, more in (("urn:s:any", {}), ("urn:s:high", high), ("urn:s:end", asleep)):
        body = {"id": id_, "type": "Subscription", "entities": [{"type": "Wave"}], "notification": {"endpoint": endpoint}}
        nodes["b"].request("POST", "/ngsi-ld/v1/subscriptions", json=body | more)
    nodes["a"].create({"id": "urn:ngsi-ld:Wave:1", "type": "Wave", "height": 2})
    until(lambda: any(one["entity"] == "urn:ngsi-ld:Wave:1" for one in get(nodes["b"], f"{API}/traces")), "it has come")
    asked = next(one for one in get(nodes["b"], f"{API}/traces") if one["entity"] == "urn:ngsi-ld:Wave:1")
    asked = {"publisher": asked["publisher"], "id": asked["id"]}
    found = get(nodes["b"], f"{API}/explain", **asked, subscription="urn:s:any")
    assert found["delivered"] is True
    assert found["checks"][-1]["name"] == "NGSI-LD"
    for subscription in ("urn:s:high", "urn:s:end"):
        missed = get(nodes["b"], f"{API}/explain", **asked, subscription=subscription)
        assert missed["delivered"] is False
        assert missed["checks"][-1]["passed"] is False


def test_a_rule_that_is_changed_counts_at_once(nodes: Nodes) -> None:
    attach(nodes["b"], "bob", all={})
    attach(nodes["a"], "al")
    first = publish(nodes["a"], "al", types=["Person"])
    until(lambda: first in known(nodes["b"]), "a person may go to b")
    nodes["a"].request("PATCH", f"{API}/links/b", json={"export": {"deny_types": ["Person"]}})
    assert link_of(nodes["a"], "b")["export"] == {"deny_types": ["Person"]}
    second, third = publish(nodes["a"], "al", types=["Person"]), publish(nodes["a"], "al", types=["Ship"])
    until(lambda: third in known(nodes["b"]), "a ship still goes to b")
    assert second not in known(nodes["b"])
    nodes["a"].request("PATCH", f"{API}/links/b", json={"export": {}})
    fourth = publish(nodes["a"], "al", types=["Person"])
    until(lambda: fourth in known(nodes["b"]), "a person may go to b again")


def test_visibility_is_the_whole_federation_s(nodes: Nodes) -> None:
    before = [{"dimension": "area", "scope": "harbour", "superscope": "town", "out": "official==true", "into": ""}]
    assert get(nodes["a"], VISIBILITY) == get(nodes["b"], VISIBILITY) == before
    nodes["a"].request("POST", VISIBILITY, json={"dimension": "area", "scope": "harbour", "out": "false", "into": "false"})
    shut = [before[0] | {"out": "false", "into": "false"}]
    assert get(nodes["a"], VISIBILITY) == shut
    until(lambda: get(nodes["b"], VISIBILITY) == shut, "b has heard of it")
    nodes["b"].request("DELETE", VISIBILITY, params={"dimension": "area", "scope": "harbour"})
    until(lambda: get(nodes["a"], VISIBILITY) == before, "it is as the characterisation has it")


@pytest.mark.parametrize(
    ("method", "path", "body", "says"),
    [
        ("POST", f"{API}/links", {}, "say where to"),
        ("POST", f"{API}/links", {"to": "http://127.0.0.1:1"}, "no address"),
        ("POST", f"{API}/links", {"to": "tcp/127.0.0.1:x"}, "no address"),
        ("POST", f"{API}/links", {"to": "tls/127.0.0.1:1"}, "certificate"),
        ("POST", f"{API}/links", {"to": "tcp/192.0.2.1:1"}, "stay on this machine"),
        ("POST", f"{API}/links", {"node": "a"}, "itself"),
        ("POST", f"{API}/links", {"node": "c", "export": {"typ": []}}, "no 'typ'"),
        ("POST", f"{API}/links", {"node": "c", "export": {"types": 5}}, "cannot be used"),
        ("PATCH", f"{API}/links/b", {"rule": {}}, "rule"),
        ("PATCH", f"{API}/links/c", {"export": {}}, "no link to 'c'"),
        ("DELETE", f"{API}/links/c", None, "no link to 'c'"),
        ("GET", f"{API}/trace?publisher=x", None, "id is missing"),
        ("GET", f"{API}/traces?limit=0", None, "limit"),
        ("GET", f"{API}/explain?publisher=x&id=y&subscription=s", None, "not known here"),
        ("POST", f"{API}/explain", {"notification": {}, "subscription": "s"}, "no notification"),
        ("POST", f"{API}/explain", {"notification": {"id": "1", "publisher": "p"}, "subscription": "s"}, "home"),
        ("POST", f"{API}/explain", {"notification": {"id": "1", "publisher": "p"}, "subscription": "s", "home": "z"}, "'z'"),
        ("POST", f"{API}/explain", {"notification": {"id": "1", "publisher": "p"}, "subscription": "s", "home": "a"}, "'s'"),
        ("POST", VISIBILITY, {"dimension": "area", "scope": "harbour"}, "say what may cross"),
        ("POST", VISIBILITY, {"dimension": "area", "scope": "sea", "out": ""}, "no scope 'sea'"),
        ("POST", VISIBILITY, {"dimension": "area", "scope": "town", "out": ""}, "no border"),
        ("POST", VISIBILITY, {"dimension": "area", "scope": "hills", "superscope": "harbour", "out": ""}, "not below"),
        ("POST", VISIBILITY, {"dimension": "area", "scope": "hills", "out": "=="}, "hills"),
        ("DELETE", VISIBILITY, None, "dimension is missing"),
    ],
)
def test_what_is_refused_says_why(nodes: Nodes, method: str, path: str, body: Any, says: str) -> None:
    with pytest.raises(NgsiLdClientError) as refused:
        nodes["a"].request(method, path, json=body)
    assert refused.value.status in (400, 404)
    assert says in refused.value.detail
    assert len(get(nodes["a"])["links"]) == 1


def test_a_link_that_is_joined_or_left_stays_so_after_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "federation.toml"
    file.write_text(description("abc", ["ab"]))
    rule = {"types": ["Ship"]}
    with running(tmp_path, file, "a") as a:
        with running(tmp_path, file, "b") as b, running(tmp_path, file, "c") as c:
            address = next(node["listen"][0] for node in get(c)["nodes"] if node["id"] == "c")
            c.request("POST", f"{API}/links", json={"node": "a"})
            a.request("POST", f"{API}/links", json={"to": address, "export": rule})
            until(lambda: link_of(c, "a").get("agreed"), "both ends want the link")
            assert link_of(c, "a")["export"] == rule
            until(lambda: all(node["reachable"] for node in get(b)["nodes"]), "the new node is there for all")
            attach(c, "cy", all={})
            attach(a, "al")
            ship = publish(a, "al", types=["Ship"])
            until(lambda: ship in known(c), "what may go there goes there")
            b.request("DELETE", f"{API}/links/a")
            until(lambda: not link_of(a, "b")["agreed"], "one end is enough to end a link")
        with running(tmp_path, file, "b") as b, running(tmp_path, file, "c") as c:
            until(lambda: link_of(c, "a").get("agreed"), "the link is there again")
            assert link_of(c, "a")["export"] == rule
            assert not link_of(b, "a")["agreed"]
            ship, tug = publish(a, "al", types=["Ship"]), publish(a, "al", types=["Tug"])
            until(lambda: ship in known(c), "it works as before")
            later = publish(a, "al", types=["Ship"])
            until(lambda: later in known(c), "and what came before has come")
            assert tug not in known(c)
    with running(tmp_path, file, "a") as a:
        assert link_of(a, "c")["export"] == rule


def test_a_new_rule_counts_for_what_waits_already(tmp_path: Path) -> None:
    file = tmp_path / "federation.toml"
    file.write_text(description("ab", ["ab"]))
    with running(tmp_path, file, "a") as a:
        attach(a, "al")
        with running(tmp_path, file, "b") as b:
            attach(b, "bob", all={})
            first = publish(a, "al", types=["Ship"])
            until(lambda: first in known(b), "b hears of all")
        waits = [publish(a, "al", types=[type_], attributes={"x": 1, "y": 2}) for type_ in ("Person", "Ship")]
        assert link_of(a, "b")["counts"]["waiting"] >= 2
        a.request("PATCH", f"{API}/links/b", json={"export": {"deny_types": ["Person"], "deny_attributes": ["y"]}})
    with running(tmp_path, file, "a"), running(tmp_path, file, "b") as b:
        until(lambda: waits[1] in known(b), "what may go there has come")
        assert waits[0] not in known(b)
        assert {"type": "Person"} not in get(b)["nodes"][0]["offers"]
        assert get(b, f"{API}/trace", publisher="al", id=waits[1])["notification"]["attributes"] == {"x": 1}


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def odd(*fields: str) -> st.SearchStrategy[Any]:
    names = st.lists(st.text(max_size=6) | st.sampled_from(["*", "T", "[", "a b"]), max_size=2)
    return st.dictionaries(st.sampled_from(fields), JUNK | names, max_size=4)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    odd(*ExportRule.__struct_fields__, "more"),
    odd(*Notification.__struct_fields__, "more"),
    odd("dimension", "scope", "superscope", "out", "into", "more"),
)
def test_odd_bodies_are_taken_or_refused(nodes: Nodes, rule: Any, notification: Any, visibility: Any) -> None:
    told = {"id": "1", "publisher": "urn:hanse:node:a"} | notification
    failed: list[Any] = []
    for method, path, body in (
        ("PATCH", f"{API}/links/b", {"export": rule}),
        ("PATCH", f"{API}/links/b", {"export": {}}),
        ("POST", f"{API}/links", {"node": "z", "to": 5, "export": rule}),
        ("POST", f"{API}/explain", {"notification": told, "subscription": "all"}),
        ("POST", VISIBILITY, {"dimension": "area", "scope": "hills"} | visibility),
        ("DELETE", f"{VISIBILITY}?dimension=area&scope=hills", None),
    ):
        try:
            nodes["a"].request(method, path, json=body)
        except NgsiLdClientError as error:
            if not 400 <= error.status < 500:
                failed.append((path, body, error.detail))
    assert failed == []
    assert link_of(nodes["a"], "b")["export"] == {}
