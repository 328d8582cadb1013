"""What is asked of quality, over several sources: who cannot have it is not asked, and who has it says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.node.distributed.test_distributed_nodes import CAR, Api, answering
from tests.node.distributed.test_distributed_subscriptions import BOTH, server, subscription
from tests.serving import serving, settings_with

ASKED = {"type": "Vehicle", "qualityQ": "speed.precision>=40"}


def car(number: int, precision: float | None = None) -> dict[str, Any]:
    speed: dict[str, Any] = {"type": "Property", "value": 50}
    if precision is not None:
        speed["precision"] = {"type": "Property", "value": precision}
    return {"id": f"urn:ngsi-ld:Vehicle:{number}", "type": "Vehicle", "speed": speed}


def numbers(found: Any) -> list[int]:
    return [int(entity["id"].rpartition(":")[2]) for entity in found]


@pytest.fixture
def nodes() -> Iterator[tuple[Api, Api]]:
    with ExitStack() as stack:
        a, b = (Api(stack.enter_context(serving(settings_with(node={"id": name})))) for name in "ab")
        yield a, b


def test_a_source_is_asked_for_the_quality(nodes: tuple[Api, Api]) -> None:
    a, b = nodes
    a.registers("b", b.url)
    for number, precision in enumerate((30, 50, None)):
        assert b("POST", "/entities", car(number, precision)).status == 201
    assert a("POST", "/entities", car(3, 90), {"local": "true"}).status == 201
    assert a("POST", "/entities", car(4, 9), {"local": "true"}).status == 201
    found = a("GET", "/entities", params=ASKED | {"count": "true"})
    assert (numbers(found.json()), found.headers["NGSILD-Results-Count"]) == ([1, 3], "2")
    body = {"type": "Query", "entities": [{"type": "Vehicle"}], "qualityQ": "speed.precision>=medium"}
    assert numbers(a("POST", "/entityOperations/query", body).json()) == [1, 3]


def test_one_whose_guarantee_rules_it_out_is_not_asked(nodes: tuple[Api, Api]) -> None:
    a, _ = nodes
    with answering(200, json.dumps([car(1, 50)]).encode()) as good, answering(200, b"[]") as bad:
        a.registers("good", good.url, qualityQ="speed.precision>=20")
        a.registers("bad", bad.url, qualityQ="speed.precision<20")
        assert numbers(a("GET", "/entities", params=ASKED).json()) == [1]
        (asked,) = (parse_qs(urlsplit(path).query) for _, path, _, _ in good.seen)
        assert asked["qualityQ"] == ["speed.precision>=40"]
        assert bad.seen == []
        assert a("GET", "/entities", params={"type": "Vehicle"}).status == 200
        assert len(bad.seen) == 1


def test_one_that_does_not_know_the_parameter_is_not_believed(nodes: tuple[Api, Api]) -> None:
    a, _ = nodes
    with answering(200, json.dumps([car(1, 50), car(2, 30), car(3)]).encode()) as source:
        a.registers("source", source.url)
        assert numbers(a("GET", "/entities", params=ASKED).json()) == [1]


def test_the_past_of_sources_is_asked_for_so_as_well(nodes: tuple[Api, Api]) -> None:
    a, b = nodes
    operations = ["queryTemporal", "retrieveTemporal"]
    a.registers("b", b.url, operations=operations)
    for number, precision in enumerate((30, 50)):
        assert b("POST", "/entities", car(number, precision)).status == 201
    window = {"timerel": "after", "timeAt": "2020-01-01T00:00:00Z", "timeproperty": "modifiedAt"}
    assert numbers(a("GET", "/temporal/entities", params=ASKED | window).json()) == [1]


def test_split_entities_are_judged_once_they_are_whole(nodes: tuple[Api, Api]) -> None:
    a, b = nodes
    a.registers("b", b.url)
    a.keeps(brand="BMW")
    assert b("POST", "/entities", car(1, 50)).status == 201
    asked = ASKED | {"q": 'brand=="BMW"'}
    assert a("GET", "/entities", params=asked).json() == []
    assert [entity["id"] for entity in a("GET", "/entities", params=asked | {"splitEntities": "true"}).json()] == [CAR]


def test_a_source_is_subscribed_to_for_the_quality_and_not_believed_either(nodes: tuple[Api, Api]) -> None:
    a, _ = nodes
    with server() as subscriber, server() as source:
        a.registers("source", source.url, operations=BOTH)
        wish = subscription(subscriber.url, qualityQ="speed.precision>=medium")
        assert a("POST", "/subscriptions", wish).status == 201
        copy = source.until("POST")
        assert copy["qualityQ"] == "speed.precision>=40"
        told = {"id": "urn:n:1", "type": "Notification", "subscriptionId": copy["id"], "data": [car(1, 30), car(2, 50), car(3)]}
        connection = HTTPConnection(urlsplit(a.url).netloc, timeout=30)
        connection.request("POST", "/hanse/v1/remote-notifications", json.dumps(told), {"Content-Type": "application/json"})
        assert connection.getresponse().status == 204
        connection.close()
        _, _, heard = subscriber.next()
        assert [entity["id"] for entity in heard["data"]] == ["urn:ngsi-ld:Vehicle:2"]
