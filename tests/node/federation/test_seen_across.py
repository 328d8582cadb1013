"""What other nodes show a node is seen by its callers under its own policies: neither filters nor order nor counts tell more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import jwt
import pytest
from tests.node.federation.linked import description, until
from tests.raw_http import RawClient, Reply
from tests.serving import serving, settings_with

KEY = "a key that is long enough for a test of tokens"
POLICIES = """
@id("operators") permit (principal in Role::"admin", action, resource);
@id("rooms, about") @obfuscate("round 10")
permit (principal in Community::"town", action == Action::"read", resource)
when { resource.types.contains("Room") && ["", "temperature"].contains(resource.attribute) };
"""
NGSI = "/ngsi-ld/v1"
PAST = "timerel=before&timeAt=2030-01-01T00:00:00Z"


def token(**claims: Any) -> str:
    return jwt.encode({"sub": "x", "exp": time.time() + 3600} | claims, KEY, "HS256")


OPERATOR, TOWN = token(roles=["admin"]), token(community="town")


class Node:
    def __init__(self, url: str) -> None:
        self._client = RawClient(url)

    def get(self, path: str, who: str) -> Reply:
        reply = self._client.send("GET", path, [(b"Authorization", f"Bearer {who}".encode())])
        assert reply is not None
        return reply

    def post(self, path: str, body: Any) -> None:
        assert self._client.json("POST", path, body, Authorization=f"Bearer {OPERATOR}").status == 201


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with policies and one room; its neighbour, which shows it everything, has three."""
    folder = tmp_path_factory.mktemp("town")
    (folder / "federation.toml").write_text(description("ab", ["ab"], "flood-events"))
    (folder / "a.cedar").write_text(POLICIES)
    with ExitStack() as stack:
        nodes = {}
        for name, access in (("a", {"policies": str(folder / "a.cedar"), "key": KEY}), ("b", {})):
            federation, store = {"file": str(folder / "federation.toml")}, {"data": str(folder / name)}
            settings = settings_with(node={"id": name}, federation=federation, store=store, access=access)
            nodes[name] = Node(stack.enter_context(serving(settings)))
        for id_, node, temperature, occupancy in (("0", "a", 3, 1), ("1", "b", 17, 9), ("2", "b", 44, 1), ("3", "b", 61, 5)):
            room: dict[str, Any] = {"id": f"urn:room:{id_}", "type": "Room"}
            for name, value in (("temperature", temperature), ("occupancy", occupancy)):
                room[name] = {"type": "Property", "value": value, "observedAt": "2026-01-01T00:00:00Z"}
            nodes[node].post(f"{NGSI}/entities", room)
        nodes["b"].post(f"{NGSI}/entities", {"id": "urn:safe:1", "type": "Safe", "gold": {"type": "Property", "value": 1}})
        until(lambda: len(nodes["a"].get(f"{NGSI}/entities?type=Room", OPERATOR).data) == 4, "they see each other")
        yield nodes["a"]


@pytest.mark.parametrize(
    ("params", "count", "ids"),
    [
        ("type=Room", 4, "0123"),
        ("type=Room&limit=1&offset=1", 4, "1"),
        ("type=Room&q=occupancy>4", 0, ""),
        ("type=Room&q=occupancy>4&limit=1", 0, ""),
        ("type=Room&q=occupancy>0&limit=0", 0, ""),
        ("type=Room&q=!occupancy", 4, "0123"),
        ("type=Room&attrs=occupancy&limit=1", 0, ""),
        ("type=Room&q=temperature==20", 1, "1"),
        ("type=Room&q=temperature>60&limit=1", 0, ""),
        ("type=Room&orderBy=occupancy", 4, "0123"),
        ("type=Room&orderBy=temperature;desc", 4, "3210"),
        ("type=Room,Safe&limit=2&offset=3", 4, "3"),
        ("type=Safe&limit=0", 0, ""),
    ],
)
def test_queries(here: Node, params: str, count: int, ids: str) -> None:
    answer = here.get(f"{NGSI}/entities?count=true&{params}", TOWN)
    assert answer.status == 200, answer.data
    assert [entity["id"] for entity in answer.data] == [f"urn:room:{id_}" for id_ in ids]
    assert answer.headers["ngsild-results-count"] == str(count)
    assert "occupancy" not in str(answer.data)


def test_who_sees_everything_is_answered_by_all(here: Node) -> None:
    answer = here.get(f"{NGSI}/entities?count=true&type=Room&q=occupancy>4&limit=1", OPERATOR)
    assert answer.headers["ngsild-results-count"] == "2"
    assert len(answer.data) == 1


@pytest.mark.parametrize(
    ("params", "count", "ids"),
    [
        ("type=Room", 4, "0123"),
        ("type=Room&limit=1&offset=2", 4, "2"),
        ("type=Room&attrs=occupancy&limit=1", 0, ""),
        ("type=Room&q=occupancy>4&limit=1", 0, ""),
        ("type=Room&q=temperature>60&limit=1", 0, ""),
        ("type=Safe&limit=1", 0, ""),
    ],
)
def test_the_past(here: Node, params: str, count: int, ids: str) -> None:
    answer = here.get(f"{NGSI}/temporal/entities?count=true&{PAST}&{params}", TOWN)
    assert answer.status == 200, answer.data
    assert [entity["id"] for entity in answer.data] == [f"urn:room:{id_}" for id_ in ids]
    assert answer.headers["ngsild-results-count"] == str(count)
    assert "occupancy" not in str(answer.data)


def test_what_is_computed_of_exact_values_elsewhere_is_not_shown(here: Node) -> None:
    asked = f"{PAST}&type=Room&options=aggregatedValues&aggrMethods=sum&aggrPeriodDuration=P1D"
    exact = here.get(f"{NGSI}/temporal/entities?{asked}", OPERATOR)
    assert "17" in str([entity["temperature"] for entity in exact.data])
    seen = here.get(f"{NGSI}/temporal/entities?{asked}", TOWN)
    assert [entity["id"] for entity in seen.data] == ["urn:room:0"]
