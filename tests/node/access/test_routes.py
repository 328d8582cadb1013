"""Every way out of a node over HTTP has a decision about access, and a route without one is refused."""

from __future__ import annotations

from starlette.routing import Route, WebSocketRoute

from hanse.node.access.routes import RULES, rule_of
from hanse.node.http import health, live, openapi, streams
from hanse.node.http.app import PATHS


def routes() -> set[str]:
    found = {f"{method} {path.template}" for path in PATHS for method in path.endpoints}
    for route in (*health.routes, *openapi.routes, *streams.routes, *live.routes):
        assert isinstance(route, Route | WebSocketRoute)
        found.add(f"GET {route.path}")
    return found


def test_every_route_has_a_decision_about_access() -> None:
    assert routes() - set(RULES) == set(), "say in node/access/routes.py what these are to policies"


def test_no_decision_is_left_without_a_route() -> None:
    assert set(RULES) - routes() == set()


def test_what_the_documentation_names_is_there() -> None:
    assert set(openapi._words()["operations"]) <= set(RULES)


def test_what_is_not_decided_is_for_operators() -> None:
    assert rule_of("GET", "/hanse/v1/invented") == "admin"
    assert rule_of("HEAD", "/ngsi-ld/v1/entities") == "view"
