"""/jsonldContexts as a client sees it: add, use, list, serve, delete, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from tests.serving import serving

CORE = "https://uri.etsi.org/ngsi-ld/v1/ngsi-ld-core-context-v1.9.jsonld"
TERMS = {"@context": {"speed": "https://cars.example/speed"}}
LD = {"Content-Type": "application/ld+json"}


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    with serving() as url:
        yield url


def ask(node: str, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> tuple[int, Any, str]:
    """Status, body, and where it is if it is new."""
    connection = HTTPConnection(urlsplit(node).netloc, timeout=10)
    try:
        data = body if body is None or isinstance(body, str) else json.dumps(body)
        connection.request(
            method, f"/ngsi-ld/v1{path}", data, ({} if body is None else {"Content-Type": "application/json"}) | (headers or {})
        )
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None, answer.headers.get("Location", "")
    finally:
        connection.close()


def test_a_hosted_context_from_its_birth_to_its_death(node: str) -> None:
    status, _, location = ask(node, "POST", "/jsonldContexts", TERMS)
    assert status == 201
    path = location.removeprefix("/ngsi-ld/v1")
    assert ask(node, "GET", path)[:2] == (200, TERMS)
    url = f"http://{urlsplit(node).netloc}{location}"
    car = {"id": "urn:ngsi-ld:Car:1", "type": "Car", "speed": 5, "@context": [url, CORE]}
    assert ask(node, "POST", "/entities", car, LD)[0] == 201
    assert "https://cars.example/speed" in ask(node, "GET", "/entities/urn:ngsi-ld:Car:1")[1]
    link = {"Link": f'<{url}>; rel="http://www.w3.org/ns/json-ld#context"; type="application/ld+json"'}
    assert ask(node, "GET", "/entities/urn:ngsi-ld:Car:1", headers=link)[1]["speed"]["value"] == 5
    details = ask(node, "GET", path + "?details=true")[1]
    assert (details["kind"], details["URL"].endswith(location), details["numberOfHits"]) == ("Hosted", True, 3)
    assert details["URL"] in ask(node, "GET", "/jsonldContexts?kind=Hosted")[1]
    assert ask(node, "DELETE", path)[0] == 204
    assert ask(node, "GET", path)[0] == 404
    assert ask(node, "GET", "/entities/urn:ngsi-ld:Car:1", headers=link)[0] == 504


def test_the_core_context_is_there_and_stays(node: str) -> None:
    core = f"/jsonldContexts/{quote(CORE, safe='')}"
    assert CORE in ask(node, "GET", "/jsonldContexts")[1]
    assert ask(node, "GET", core + "?details=true")[1]["kind"] == "Cached"
    assert ask(node, "GET", core)[0] == 422
    assert ask(node, "DELETE", core)[0] == 400
    assert ask(node, "DELETE", core + "?reload=true")[0] == 204


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"a": "b"}, "InvalidRequest"),
        ([], "InvalidRequest"),
        ('{"a" "b"}', "InvalidRequest"),
        ({"@context": 42}, "BadRequestData"),
    ],
)
def test_what_cannot_be_hosted(node: str, body: Any, problem: str) -> None:
    status, said, _ = ask(node, "POST", "/jsonldContexts", body)
    assert (status, said["type"].rpartition("/")[2]) == (400, problem)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "?kind=other", 400),
        ("GET", "?details=other", 400),
        ("GET", "/unknown", 404),
        ("DELETE", "/unknown", 404),
        ("DELETE", "/unknown?reload=true", 400),
        ("DELETE", "/unknown?reload=perhaps", 400),
    ],
)
def test_what_is_refused(node: str, method: str, path: str, status: int) -> None:
    assert ask(node, method, "/jsonldContexts" + path)[0] == status
