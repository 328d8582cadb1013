"""`hanse federation trace` where nodes have policies: what was kept from whom, by which policy; over certified links."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import jwt
import pytest
from tests.cli.conftest import Ran
from tests.node.federation.linked import until

import hanse as library
from hanse.model.ports import free_port
from hanse.node.federation.local import LocalFederation

KEY = "a key that is long enough for a test of tokens"
TOKEN = jwt.encode({"sub": "operator", "roles": ["admin"], "exp": time.time() + 3600}, KEY, "HS256")
POLICIES = """
@id("people") permit (principal is User, action, resource);
@id("coarse") @obfuscate("round 10")
permit (principal in Community::"fire", action in [Action::"read", Action::"subscribe"], resource)
    when { resource.types.contains("Room") && resource.attribute != "occupancy" };
@id("private") forbid (principal is Node, action, resource) when { resource.types.contains("Person") };
"""
Run = Callable[..., Ran]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFederation]:
    """The town and the fire brigade, with the same policies."""
    folder = tmp_path_factory.mktemp("policies")
    text = '[federation]\nname = "test"\n'
    for i, (node, community) in enumerate((("a", "town"), ("b", "fire"))):
        text += f'[[nodes]]\nid = "{node}"\ncommunity = "{community}"\nlocation = [{i}, 0]\n'
        text += f'http = "127.0.0.1:{free_port()}"\nlisten = "tcp/127.0.0.1:{free_port()}"\n'
    (folder / "federation.toml").write_text(text + '[[links]]\nbetween = ["a", "b"]\n')
    (folder / "policies.cedar").write_text(POLICIES)
    access = {"policies": str(folder / "policies.cedar"), "key": KEY}
    with LocalFederation(folder / "federation.toml", folder / "data", settings={"access": access}, secure=True) as federation:
        federation.start()
        until(lambda: ask(federation, "b", "GET", "/hanse/v1/federation")["nodes"][0]["reachable"], "b sees a")
        for node in "ab":
            ask(federation, node, "PUT", f"/hanse/v1/clients/{node}1", {})
        for type_ in ("Room", "Person"):
            body = {"selectors": [{"type": type_}]}
            ask(federation, "b", "PUT", f"/hanse/v1/clients/b1/subscriptions/{type_}", body)
        yield federation


def ask(nodes: LocalFederation, node: str, method: str, path: str, body: Any = None) -> Any:
    with library.connect_sync(nodes.url(node), token=TOKEN) as client:
        return client.request(method, path, json=body).data


def publish(nodes: LocalFederation, **given: Any) -> str:
    return str(ask(nodes, "a", "POST", "/hanse/v1/clients/a1/notifications", given)["id"])


def trace(hanse: Run, nodes: LocalFederation, id_: str, subscription: str) -> Ran:
    why = ("--subscription", subscription, "--subscriber-node", nodes.url("b"))
    return hanse("federation", "trace", "a1", id_, "--at", nodes.url("a"), *why)


def test_it_says_which_policy_reduces_something(hanse: Run, nodes: LocalFederation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANSE_TOKEN", TOKEN)
    id_ = publish(nodes, types=["Room"], attributes={"temperature": 23, "occupancy": 4})
    until(lambda: id_ in json.dumps(ask(nodes, "b", "GET", "/hanse/v1/federation/traces?limit=1000")), "b has heard of it")
    told = trace(hanse, nodes, id_, "Room")
    assert told.code == 0, told.err
    why = "it may read temperature after round 10: policy 'coarse' permits it; it may not read occupancy: no policy permits it"
    assert f"a: for b only a part of it: {why}" in told.out
    assert "subscription Room at b: delivered" in told.out
    assert f"  yes  policy: a lets b see only a part of it: {why}." in told.out
    there = ask(nodes, "b", "GET", f"/hanse/v1/federation/trace?publisher=a1&id={id_}")["notification"]
    assert there["attributes"] == {"temperature": 20}


def test_it_says_which_policy_withholds_something(hanse: Run, nodes: LocalFederation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANSE_TOKEN", TOKEN)
    id_ = publish(nodes, types=["Person"], attributes={"name": "Ada"})
    told = trace(hanse, nodes, id_, "Person")
    assert told.code == 0, told.err
    why = "it may not subscribe to it, since policy 'private' forbids it"
    assert f"a: kept from b: {why}" in told.out
    assert "heard" not in told.out
    assert "subscription Person at b: not delivered" in told.out
    assert f"  NO   policy: a lets b see nothing of it: {why}." in told.out
