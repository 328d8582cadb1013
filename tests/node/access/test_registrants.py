"""Who registers a context source gets neither tokens of others, nor what they write, nor how other sources are asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.node.access.town import ADMIN, POLICIES, TOWN, Town, token, town

ENTITIES = "/ngsi-ld/v1/entities"
REGISTRATIONS = "/ngsi-ld/v1/csourceRegistrations"
MORE = """
@id("whoever offers may offer anything")
permit (principal in Role::"offers", action == Action::"advertise", resource);
@id("readers read all rooms")
permit (principal in Role::"reads", action == Action::"read", resource) when { resource.types.contains("Room") };
"""
OFFERS = token("o", "town", roles=("offers",))
OFFERS_AND_READS = token("r", roles=("offers", "reads"))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with town(tmp_path_factory.mktemp("town"), POLICIES.partition('@id("nobody')[0] + MORE) as running:
        yield running


@contextmanager
def source() -> Iterator[tuple[str, list[tuple[str, dict[str, str]]]]]:
    """One that has nothing, and remembers what it was asked."""
    asked: list[tuple[str, dict[str, str]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def registers(node: Town, who: str, url: str, **more: Any) -> Any:
    body = {"type": "ContextSourceRegistration", "information": [{"entities": [{"type": "Room"}]}], "endpoint": url}
    return node.ask("POST", REGISTRATIONS, who, body | more)


@pytest.mark.parametrize(("who", "is_passed_on"), [(OFFERS, False), (ADMIN, True)])
def test_tokens_of_others_are_an_operators_to_pass_on(node: Town, who: str, is_passed_on: bool) -> None:
    info = [{"key": "Authorization", "value": "urn:ngsi-ld:request"}, {"key": "X-Own", "value": "own"}]
    with source() as (url, asked):
        made = registers(node, who, url, contextSourceInfo=info)
        assert made.status == 201, made.data
        try:
            node.ask("GET", f"{ENTITIES}/urn:room:elsewhere", TOWN)
        finally:
            assert node.ask("DELETE", made.headers["location"], who).status == 204
    ((_, headers),) = asked
    assert headers["x-own"] == "own"
    assert ("authorization" in headers) is is_passed_on


def test_how_a_source_is_asked_is_its_owners(node: Town) -> None:
    info = [{"key": "X-Token", "value": "a secret"}]
    made = registers(node, ADMIN, "http://127.0.0.1:9", contextSourceInfo=info, operations=["retrieveOps"])
    where = made.headers["location"]
    try:
        assert node.ask("GET", where, ADMIN).data["contextSourceInfo"] == info
        for path in (where, f"{REGISTRATIONS}?type=Room"):
            shown = node.ask("GET", path, TOWN)
            assert shown.status == 200
            assert "endpoint" in str(shown.data)
            assert "a secret" not in str(shown.data)
    finally:
        assert node.ask("DELETE", where, ADMIN).status == 204


def test_what_others_write_goes_to_those_who_may_read_all_of_it(node: Town) -> None:
    for operations in (["redirectionOps"], ["updateEntity"], ["createBatch"]):
        refused = registers(node, OFFERS, "http://127.0.0.1:9", operations=operations, mode="redirect")
        assert refused.status == 403, refused.data
        made = registers(node, OFFERS_AND_READS, "http://127.0.0.1:9", operations=operations)
        assert made.status == 201, made.data
        assert node.ask("DELETE", made.headers["location"], OFFERS_AND_READS).status == 204
    made = registers(node, OFFERS, "http://127.0.0.1:9", operations=["retrieveOps", "queryBatch"])
    assert made.status == 201, made.data
    changed = node.ask("PATCH", made.headers["location"], OFFERS, {"operations": ["updateOps"]})
    assert changed.status == 403, changed.data
    assert node.ask("DELETE", made.headers["location"], OFFERS).status == 204
