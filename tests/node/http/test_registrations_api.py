"""Registrations, subscriptions to them, entity maps, snapshots and the node's identity, as a client sees them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPMessage
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import pytest
from tests.serving import serving

CORE = "https://uri.etsi.org/ngsi-ld/v1/ngsi-ld-core-context-v1.9.jsonld"


class Reply(NamedTuple):
    status_code: int
    headers: HTTPMessage
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Api:
    def __init__(self, url: str) -> None:
        self._address = urlsplit(url).netloc

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        params: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        connection = HTTPConnection(self._address, timeout=10)
        data = None if body is None else json.dumps(body)
        given = ({} if body is None else {"Content-Type": "application/json"}) | (headers or {})
        try:
            connection.request(method, f"/ngsi-ld/v1{path}{'?' + urlencode(params) if params else ''}", data, given)
            answer = connection.getresponse()
            return Reply(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, path: str, params: dict[str, Any] | None = None, headers: dict[str, str] | None = None) -> Reply:
        return self.request("GET", path, None, params, headers)

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> Reply:
        return self.request("POST", path, body, None, headers)

    def patch(self, path: str, body: Any) -> Reply:
        return self.request("PATCH", path, body)

    def delete(self, path: str, params: dict[str, Any] | None = None) -> Reply:
        return self.request("DELETE", path, None, params)


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with serving() as node:
        yield Api(node)


@pytest.fixture
def inbox() -> Iterator[tuple[str, Queue[dict[str, Any]]]]:
    """A subscriber's endpoint, and what came to it."""
    came: Queue[dict[str, Any]] = Queue()

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/notify", came
    server.shutdown()
    thread.join()
    server.server_close()


def registration(id_: str, kind: str, **members: Any) -> dict[str, Any]:
    return {
        "id": id_,
        "type": "ContextSourceRegistration",
        "endpoint": "http://source.example",
        "information": [{"entities": [{"type": kind}]}],
    } | members


def test_a_registration_lives(api: Api) -> None:
    body = registration("urn:r:life", "Lighthouse", location={"type": "Point", "coordinates": [8.7, 53.9]})
    created = api.post("/csourceRegistrations", body)
    assert (created.status_code, created.headers["location"]) == (201, "/ngsi-ld/v1/csourceRegistrations/urn:r:life")
    assert api.post("/csourceRegistrations", body).status_code == 409
    assert api.get("/csourceRegistrations/urn:r:life").json() == body
    found = api.get("/csourceRegistrations/urn:r:life", params={"options": "sysAttrs"}, headers={"Accept": "application/ld+json"})
    assert found.json()["@context"] == CORE
    assert "createdAt" in found.json()
    near = {"type": "Lighthouse", "georel": "near;maxDistance==5000", "geometry": "Point", "coordinates": "[8.7,53.9]"}
    assert [item["id"] for item in api.get("/csourceRegistrations", params=near).json()] == ["urn:r:life"]
    assert api.patch("/csourceRegistrations/urn:r:life", {"endpoint": "http://other.example"}).status_code == 204
    assert api.get("/csourceRegistrations/urn:r:life").json()["endpoint"] == "http://other.example"
    assert api.delete("/csourceRegistrations/urn:r:life").status_code == 204
    assert api.get("/csourceRegistrations/urn:r:life").status_code == 404


def test_discovery_has_pages(api: Api) -> None:
    for number in range(3):
        assert api.post("/csourceRegistrations", registration(f"urn:r:page:{number}", "Buoy")).status_code == 201
    page = api.get("/csourceRegistrations", params={"type": "Buoy", "limit": 1, "offset": 1, "count": "true"})
    assert [item["id"] for item in page.json()] == ["urn:r:page:1"]
    assert page.headers["NGSILD-Results-Count"] == "3"
    links = " ".join(page.headers.get_all("link", []))
    assert 'rel="prev"' in links
    assert 'rel="next"' in links
    counted = api.get("/csourceRegistrations", params={"type": "Buoy", "limit": 0, "count": "true"})
    assert (counted.json(), counted.headers["NGSILD-Results-Count"]) == ([], "3")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/csourceRegistrations", None, 400),
        ("GET", "/csourceRegistrations?type=A&limit=-1", None, 400),
        ("GET", "/csourceRegistrations?type=A&limit=0", None, 400),
        ("GET", "/csourceRegistrations?type=A&limit=100000", None, 400),
        ("GET", "/csourceRegistrations?type=A&offset=x", None, 400),
        ("GET", "/csourceRegistrations?colour=red", None, 400),
        ("GET", "/csourceRegistrations/invalid", None, 400),
        ("GET", "/csourceRegistrations/urn:r:unknown", None, 404),
        ("POST", "/csourceRegistrations", {"type": "ContextSourceRegistration"}, 400),
        ("PATCH", "/csourceRegistrations/invalid", {"endpoint": "http://a.example"}, 400),
        ("PATCH", "/csourceRegistrations/urn:r:unknown", {"endpoint": "http://a.example"}, 404),
        ("DELETE", "/csourceRegistrations/urn:r:unknown", None, 404),
        ("GET", "/csourceSubscriptions/invalid", None, 400),
        ("GET", "/csourceSubscriptions/urn:s:unknown", None, 404),
        ("GET", "/csourceSubscriptions?limit=-5", None, 400),
        ("POST", "/csourceSubscriptions", {"type": "Subscription"}, 400),
        ("PATCH", "/csourceSubscriptions/urn:s:unknown", {"isActive": False}, 404),
        ("DELETE", "/csourceSubscriptions/urn:s:unknown", None, 404),
        ("GET", "/entityMaps", None, 400),
        ("GET", "/entityMaps?type=A&entityMapLifetime=long", None, 400),
        ("GET", "/entityMaps/urn:m:unknown", None, 404),
        ("PATCH", "/entityMaps/urn:m:unknown", {"expiresAt": "2099-01-01T00:00:00Z"}, 404),
        ("DELETE", "/entityMaps/not%20a%20uri", None, 400),
        ("GET", "/temporal/entityMaps?type=A", None, 400),
        ("POST", "/snapshots", {"type": "Snapshot"}, 400),
        ("GET", "/snapshots/urn:s:unknown", None, 404),
        ("DELETE", "/snapshots?q=speed>50", None, 400),
        ("DELETE", "/snapshots", None, 400),
        ("POST", "/snapshots/urn:s:unknown/clone", {"type": "Snapshot"}, 404),
    ],
)
def test_what_is_refused(api: Api, method: str, path: str, body: Any, status: int) -> None:
    answer = api.request(method, path, body)
    assert answer.status_code == status
    assert answer.json()["title"]


def test_a_subscriber_hears_of_registrations(api: Api, inbox: tuple[str, Queue[dict[str, Any]]]) -> None:
    endpoint, came = inbox
    body = {
        "id": "urn:s:ferry",
        "type": "Subscription",
        "entities": [{"type": "Ferry"}],
        "notification": {"endpoint": {"uri": endpoint, "accept": "application/json"}},
    }
    assert api.post("/csourceRegistrations", registration("urn:r:ferry:1", "Ferry")).status_code == 201
    assert api.post("/csourceSubscriptions", body).status_code == 201
    assert api.post("/csourceSubscriptions", body).status_code == 409
    first = came.get(timeout=10)
    assert (first["type"], first["triggerReason"]) == ("ContextSourceNotification", "newlyMatching")
    assert [item["id"] for item in first["data"]] == ["urn:r:ferry:1"]
    assert api.patch("/csourceRegistrations/urn:r:ferry:1", {"description": "a new one"}).status_code == 204
    assert came.get(timeout=10)["triggerReason"] == "updated"
    assert api.delete("/csourceRegistrations/urn:r:ferry:1").status_code == 204
    assert came.get(timeout=10)["triggerReason"] == "noLongerMatching"
    shown = api.get("/csourceSubscriptions/urn:s:ferry").json()
    assert (shown["status"], shown["notification"]["timesSent"]) == ("active", 3)
    assert api.patch("/csourceSubscriptions/urn:s:ferry", {"isActive": False}).status_code == 204
    assert [item["status"] for item in api.get("/csourceSubscriptions").json()] == ["paused"]
    assert api.delete("/csourceSubscriptions/urn:s:ferry").status_code == 204


def put(api: Api, id_: str, kind: str, speed: int) -> None:
    body = {"id": id_, "type": kind, "speed": {"type": "Property", "value": speed}}
    assert api.post("/entities", body).status_code == 201


def test_an_entity_map_lives(api: Api) -> None:
    for number in (1, 2):
        put(api, f"urn:tram:{number}", "Tram", 10 * number)
    made = api.get("/entityMaps", params={"type": "Tram", "q": "speed>10", "entityMapLifetime": "PT1M"})
    assert (made.status_code, made.json()["entityMap"]) == (201, {"urn:tram:2": ["@none"]})
    place = made.headers["NGSILD-EntityMap"].removeprefix("/ngsi-ld/v1")
    assert api.get(place).json() == made.json()
    assert api.patch(place, {"expiresAt": "2000-01-01T00:00:00Z"}).status_code == 204
    assert api.get(place).status_code == 404
    past = {"type": "Tram", "timerel": "before", "timeAt": "2999-01-01T00:00:00Z", "timeproperty": "createdAt"}
    temporal = api.get("/temporal/entityMaps", params=past)
    assert (temporal.status_code, list(temporal.json()["entityMap"])) == (201, ["urn:tram:1", "urn:tram:2"])
    empty = api.get("/temporal/entityMaps", params=past | {"timeAt": "2000-01-01T00:00:00Z"})
    assert empty.json()["entityMap"] == {}


def test_a_snapshot_lives(api: Api, inbox: tuple[str, Queue[dict[str, Any]]]) -> None:
    endpoint, came = inbox
    put(api, "urn:crane:1", "Crane", 1)
    body = {"type": "Snapshot", "snapshotQueries": [{"type": "Query", "entities": [{"type": "Crane"}]}], "endpoint": endpoint}
    made = api.post("/snapshots", body)
    assert made.status_code == 201
    place = made.headers["location"].removeprefix("/ngsi-ld/v1")
    assert came.get(timeout=10)["snapshotStatus"] == "success"
    shown = api.get(place).json()
    assert (shown["snapshotStatus"], shown["snapshotPriority"]) == ("success", 5)
    changed = api.patch(place, {"snapshotPriority": 2})
    assert (changed.status_code, changed.json()["snapshotPriority"]) == (200, 2)
    clone = api.post(f"{place}/clone", {"type": "Snapshot", "snapshotPriority": 9})
    assert clone.status_code == 201
    assert api.delete("/snapshots", params={"q": "snapshotPriority<5"}).status_code == 204
    assert api.get(place).status_code == 404
    assert api.delete(clone.headers["location"].removeprefix("/ngsi-ld/v1")).status_code == 204


def test_who_this_is(api: Api) -> None:
    identity = api.get("/info/sourceIdentity").json()
    assert identity["type"] == "ContextSourceIdentity"
    assert identity["contextSourceAlias"] == "hanse"
    assert identity["contextSourceUptime"].startswith("P0DT0H")
    assert api.post("/entities", {"id": "urn:a:1", "type": "A"}, headers={"NGSILD-Tenant": "port"}).status_code == 201
    other = api.get("/info/sourceIdentity", headers={"NGSILD-Tenant": "port"}).json()
    assert other["contextSourceAlias"] == "hanse.port"
