"""The OpenAPI document names every route, with words for each and for every parameter."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from starlette.routing import Route
from tests.serving import serving

import hanse
from hanse.node.http import health, live, openapi, streams
from hanse.node.http.app import PATHS
from hanse.node.http.openapi import document

OTHERS = [*health.routes, *openapi.routes, *streams.routes, *live.routes]


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return document(PATHS, OTHERS)


def operations(described: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(method, path, op) for path, item in described["paths"].items() for method, op in item.items()]


def test_every_route_is_there(described: dict[str, Any]) -> None:
    for path in PATHS:
        assert set(described["paths"][path.template]) >= {method.lower() for method in path.endpoints}
    for route in OTHERS:
        if isinstance(route, Route):
            assert route.path in described["paths"]


def test_every_operation_has_its_words_and_every_parameter_a_meaning(described: dict[str, Any]) -> None:
    for method, path, operation in operations(described):
        assert operation["summary"], (method, path)
        assert "_" not in operation["summary"], (method, path)
        for parameter in operation["parameters"]:
            assert parameter["description"], (method, path, parameter["name"])
        assert {p["name"] for p in operation["parameters"] if p["in"] == "path"} == set(re.findall(r"{([^}]+)}", path))


def test_operation_ids_are_unique_and_references_lead_somewhere(described: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, _, operation in operations(described)]
    assert len(ids) == len(set(ids))
    for reference in re.findall(r'"\$ref":"#/([^"]+)"', msgspec.json.encode(described).decode()):
        place: Any = described
        for name in reference.split("/"):
            place = place[name]


def test_no_words_are_left_without_a_route() -> None:
    there = {f"{method} {path.template}" for path in PATHS for method in path.endpoints}
    there |= {f"GET {route.path}" for route in OTHERS if isinstance(route, Route)}
    assert set(openapi._words()["operations"]) <= there


def test_the_page_needs_nothing_from_elsewhere() -> None:
    with serving() as url, hanse.connect_sync(url) as node:
        page = node.request("GET", "/docs", headers={"Accept": "text/html"}).data.decode()
        assert "https://" not in page
        assert "http://" not in page
        found = node.request("GET", "/openapi.json").data
        assert found["openapi"] == "3.1.0"
        assert "/ngsi-ld/v1/entities" in found["paths"]
