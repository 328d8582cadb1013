"""What is refused, how it is said, and that nothing has changed: what fuzzing has found, and the limits of requests."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.raw_http import RawClient, Reply
from tests.serving import serving, settings_with

from hanse.ngsild.errors import DETAIL_LENGTH_MAX
from hanse.node.http.call import is_deeper

N = "/ngsi-ld/v1"
LD = "application/ld+json"


@pytest.fixture(scope="module")
def node() -> Iterator[RawClient]:
    limits = {"depth_max": 20, "body_bytes_max": 100_000, "page_max": 2000}
    with serving(settings_with(limits=limits, store={"pending_writes_max": 1500})) as url:
        yield RawClient(url)


def problem(reply: Reply, status: int, kind: str) -> str:
    """The detail of a ProblemDetails, which must be one."""
    assert reply.status == status, reply
    found = reply.data
    assert found["type"] == f"https://uri.etsi.org/ngsi-ld/errors/{kind}"
    assert found["status"] == status
    return str(found["detail"])


def entity(id_: str, **attributes: Any) -> dict[str, Any]:
    return {"id": id_, "type": "T", **attributes}


def test_a_context_with_a_number_beyond_a_double(node: RawClient) -> None:
    for document in ({"a b": 10**400}, {"a": {"@id": 10**400}}):
        detail = problem(node.json("POST", f"{N}/jsonldContexts", {"@context": document}, LD), 400, "BadRequestData")
        assert "@context" in detail


def test_a_long_name_does_not_come_back_whole(node: RawClient) -> None:
    detail = problem(node.json("DELETE", f"/hanse/v1/clients/{'x' * 5000}", b""), 404, "ResourceNotFound")
    assert len(detail) <= DETAIL_LENGTH_MAX


def test_the_depth_of_a_body(node: RawClient) -> None:
    for levels, status in ((18, 201), (19, 400), (5_000, 400), (30_000, 400)):  # the entity and the attribute are two
        value = b"[" * levels + b"]" * levels
        body = b'{"id":"urn:d:%d","type":"T","a":{"type":"Property","value":%b}}' % (levels, value)
        reply = node.json("POST", f"{N}/entities", body)
        assert reply.status == status, (levels, reply)
        if status == 400:
            assert "nested more than 20 deep" in problem(reply, 400, "InvalidRequest")
            assert node.get(f"{N}/entities/urn:d:{levels}").status == 404


def test_depth_is_counted_by_levels() -> None:
    assert not is_deeper({}, 1)
    assert not is_deeper([[], {"a": 1}], 2)
    assert is_deeper([[], {"a": [1]}], 2)
    assert not is_deeper("text", 0)
    assert is_deeper([], 0)


def test_two_tenants_in_one_request(node: RawClient) -> None:
    reply = node.send("GET", f"{N}/types", [(b"NGSILD-Tenant", b"one"), (b"NGSILD-Tenant", b"two")])
    assert reply is not None
    assert "tenant" in problem(reply, 400, "BadRequestData")


def test_the_length_of_a_body(node: RawClient) -> None:
    problem(node.json("POST", f"{N}/entities", b" " * 100_001), 413, "InvalidRequest")


def test_starlettes_own_refusals_are_problem_details(node: RawClient) -> None:
    problem(node.get("/nothing"), 404, "ResourceNotFound")
    reply = node.json("POST", "/healthz", b"")
    problem(reply, 405, "InvalidRequest")
    assert "GET" in reply.headers["allow"]


def test_a_property_that_looks_like_a_place(node: RawClient) -> None:
    """With a subscription, the broker asks where the entity is."""
    subscription = {
        "type": "Subscription",
        "entities": [{"type": "T"}],
        "notification": {"endpoint": {"uri": "http://127.0.0.1:9/"}},
    }
    assert node.json("POST", f"{N}/subscriptions", subscription | {"id": "urn:s:1"}).status == 201
    context = {"@context": {"place": "https://uri.etsi.org/ngsi-ld/location"}}
    for n, value in enumerate(
        ({"type": "Point"}, {"type": "Point", "coordinates": 5}, {"type": "Point", "coordinates": ["x", None]})
    ):
        body = entity(f"urn:p:{n}", place={"type": "Property", "value": value}) | context
        assert node.json("POST", f"{N}/entities", body, LD).status in (201, 400)
    assert node.json("DELETE", f"{N}/subscriptions/urn:s:1", b"").status == 204


@pytest.mark.parametrize("is_held", [False, True])
def test_a_geofence_that_is_none_is_refused_whoever_listens(node: RawClient, is_held: bool) -> None:
    if is_held:
        subscription = {
            "type": "Subscription",
            "entities": [{"type": "T"}],
            "notification": {"endpoint": {"uri": "http://127.0.0.1:9/"}},
        }
        assert node.json("POST", f"{N}/subscriptions", subscription | {"id": "urn:s:2"}).status == 201
    line = {"type": "LineString", "coordinates": [[0, 0], [1, 1]]}
    fenced = entity("urn:f:1", eventGeofence={"type": "GeoProperty", "value": line})
    assert "eventGeofence" in problem(node.json("POST", f"{N}/entities", fenced), 400, "BadRequestData")
    assert node.get(f"{N}/entities/urn:f:1").status == 404


def test_a_purge_of_more_than_may_wait_for_the_disk(node: RawClient) -> None:
    for start in range(0, 3000, 1000):
        batch = [{"id": f"urn:many:{n}", "type": "Many"} for n in range(start, start + 1000)]
        assert node.json("POST", f"{N}/entityOperations/create", batch).status == 201
    assert node.json("DELETE", f"{N}/entities?type=Many", b"").status == 204
    assert node.get(f"{N}/entities?type=Many&limit=0&count=true").headers["ngsild-results-count"] == "0"


def test_more_selectors_than_a_query_may_have(node: RawClient) -> None:
    """Each is an alternative for the database, which can nest only so many."""
    for count, status in ((100, 200), (101, 400), (1500, 400)):
        selectors = [{"type": "A,B", "idPattern": f"urn:x:{n}"} for n in range(count)]
        body = {"type": "Query", "entities": selectors}
        assert node.json("POST", f"{N}/entityOperations/query", body).status == status


def test_a_body_of_nothing_but_brackets(node: RawClient) -> None:
    with serving() as url:
        body = b'{"id":"urn:b:1","type":"T","a":{"type":"JsonProperty","json":[' + b",".join([b"[]"] * 600_000) + b"]}}"
        reply = RawClient(url).json("POST", f"{N}/entities", body)
        assert "objects and arrays" in problem(reply, 413, "InvalidRequest")


def test_how_much_a_query_may_name(node: RawClient) -> None:
    many = [f"a{n}" for n in range(5000)]
    for member in ("attrs", "pick", "omit"):
        body = {"type": "Query", "entities": [{"type": "T"}], member: many}
        detail = problem(node.json("POST", f"{N}/entityOperations/query", body), 400, "BadRequestData")
        assert "1000 are allowed" in detail


def test_the_length_of_q_is_that_of_what_was_written(node: RawClient) -> None:
    """Full names are longer than the short ones that a context makes them of."""
    for q, status in (("|".join(f"attribute{n}.member==1" for n in range(250)), 200), ("a" * 9000 + "==1", 400)):
        reply = node.json("POST", f"{N}/entityOperations/query", {"type": "Query", "entities": [{"type": "T"}], "q": q})
        assert reply.status == status, reply


def test_a_stream_that_cannot_be_is_refused_before_it_begins(node: RawClient) -> None:
    problem(node.get("/hanse/v1/subscribe?idPattern=%01"), 400, "BadRequestData")


def test_clients_that_hang_up_at_once_leave_nothing_behind(node: RawClient) -> None:
    def used() -> list[int]:
        return [bound["used"] for bound in node.get("/hanse/v1/bounds").data if bound["name"] in ("streams", "subscriptions")]

    before = used()
    for n in range(60):
        target = b"/hanse/v1/subscribe?type=T" if n % 2 else b"/hanse/v1/notifications?subscription=urn:s:9"
        with socket.create_connection(node.address) as connection:
            connection.sendall(b"GET %b HTTP/1.1\r\nHost: test\r\n\r\n" % target)
            if n % 3:
                connection.recv(20)
    assert any(used() == before for _ in range(500))


def head(path: str, length: int) -> bytes:
    lines = f"POST {N}{path} HTTP/1.1", "Host: test", "Content-Type: application/json", f"Content-Length: {length}"
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def test_a_client_that_hangs_up_within_a_body_changes_nothing(node: RawClient) -> None:
    body = b'{"id":"urn:half:1","type":"T"}'
    for sent in (0, 10, len(body) - 1):
        with socket.create_connection(node.address) as connection:
            connection.sendall(head("/entities", len(body)) + body[:sent])
    assert node.get(f"{N}/entities/urn:half:1").status == 404


def test_a_client_that_does_not_wait_for_the_answer_is_served(node: RawClient) -> None:
    """What was sent whole is done whole, though nobody hears of it."""
    for n in range(20):
        body = b'[{"id":"urn:gone:%d-a","type":"Gone"},{"id":"urn:gone:%d-b","type":"Gone"}]' % (n, n)
        with socket.create_connection(node.address) as connection:
            connection.sendall(head("/entityOperations/upsert", len(body)) + body)
    path = f"{N}/entities?type=Gone&limit=0&count=true"
    assert any(node.get(path).headers["ngsild-results-count"] == "40" for _ in range(500))


def test_a_body_that_does_not_come() -> None:
    with serving(settings_with(limits={"body_s_max": 0.2})) as url:
        for begun in (b"", b'{"id":'):
            with socket.create_connection(RawClient(url).address, timeout=30) as connection:
                connection.sendall(head("/entities", 50) + begun)
                answer = b""
                while chunk := connection.recv(4096):  # until the node hangs up
                    answer += chunk
                assert answer.startswith(b"HTTP/1.1 408 ")
                assert b"did not come within 0.2 s" in answer


def test_a_refused_request_makes_no_tenant(tmp_path: Path) -> None:
    with serving(settings_with(store={"data": str(tmp_path)})) as url:
        node = RawClient(url)
        files = sorted(path.name for path in tmp_path.iterdir())
        for body, status in (({"id": "x"}, 400), (b"{", 400), (entity("urn:t:1"), 201), ({"id": "x"}, 400)):
            assert node.json("POST", f"{N}/entities", body, NGSILD_Tenant="new").status == status
            if status == 400 and node.get("/hanse/v1/tenants").data == [""]:
                assert sorted(path.name for path in tmp_path.iterdir()) == files
        assert node.get("/hanse/v1/tenants").data == ["", "new"]
        reply = node.send("GET", f"{N}/entities/urn:t:1", [(b"NGSILD-Tenant", b"new")])
        assert reply is not None
        assert reply.status == 200


def test_a_tenant_that_two_requests_make_stays_if_one_is_refused() -> None:
    with serving() as url, ThreadPoolExecutor(8) as threads:
        node = RawClient(url)
        for n in range(10):
            bodies = [entity(f"urn:t:{i}") if i % 2 else {"id": "x"} for i in range(8)]
            sent = [threads.submit(node.json, "POST", f"{N}/entities", body, NGSILD_Tenant=f"t{n}") for body in bodies]
            assert [found.result().status for found in sent] == [400, 201] * 4
        assert len(node.get("/hanse/v1/tenants").data) == 11


def test_headers_without_end(node: RawClient) -> None:
    for begin, more in ((b"GET /healthz HTTP/1.1\r\nX: ", b"a" * 65_536), (b"GET /", b"a" * 65_536)):
        with socket.create_connection(node.address, timeout=30) as connection:
            connection.sendall(begin)
            answer, sent = b"", 0
            with suppress(ConnectionError):
                while sent < 50_000_000:
                    connection.sendall(more)
                    sent += len(more)
            with suppress(ConnectionError):
                answer = connection.recv(65_536)
        assert sent < 50_000_000  # the node has hung up
        assert not answer or answer.startswith(b"HTTP/1.1 4")
    assert node.get("/healthz").status == 200


def test_what_is_no_http(node: RawClient) -> None:
    reply = node.send("GET", b"/ x y z\x00")
    assert reply is not None
    problem(reply, 400, "InvalidRequest")


def test_a_refused_tenant_takes_no_other_with_it(tmp_path: Path) -> None:
    settings = settings_with(store={"data": str(tmp_path)})
    with serving(settings) as url:
        node = RawClient(url)
        assert node.json("POST", f"{N}/entities", entity("urn:t:1"), NGSILD_Tenant="city.old").status == 201
        files = sorted(path.name for path in tmp_path.iterdir())
        assert node.json("POST", f"{N}/entities", {"id": "x"}, NGSILD_Tenant="city").status == 400
        assert sorted(path.name for path in tmp_path.iterdir()) == files
    with serving(settings) as url:
        reply = RawClient(url).send("GET", f"{N}/entities/urn:t:1", [(b"NGSILD-Tenant", b"city.old")])
        assert reply is not None
        assert reply.status == 200


def test_a_batch_may_cause_more_notifications_than_the_store_takes_at_once() -> None:
    with serving(settings_with(store={"pending_writes_max": 100})) as url:
        node = RawClient(url)
        for n in range(3):
            endpoint = {"uri": f"http://127.0.0.1:9/{n}"}
            body = {"type": "Subscription", "entities": [{"type": "T"}], "notification": {"endpoint": endpoint}}
            assert node.json("POST", f"{N}/subscriptions", body).status == 201
        entities = [entity(f"urn:t:{n}", a=n) for n in range(200)]
        assert node.json("POST", f"{N}/entityOperations/create", entities).status == 201
        assert node.json("POST", f"{N}/entityOperations/delete", [one["id"] for one in entities]).status == 204


def test_a_context_whose_name_would_be_a_header(node: RawClient) -> None:
    body = entity("urn:t:1") | {"@context": "http://127.0.0.1:9/c\r\nX-Injected: 1"}
    detail = problem(node.json("POST", f"{N}/entities", body, LD), 504, "LdContextNotAvailable")
    assert "not a URL" in detail


def test_a_snapshot_has_entities_and_nothing_else(node: RawClient) -> None:
    queries = [{"type": "Query", "entities": [{"type": "T"}]}]
    snapshot = {"id": "urn:snapshot:1", "type": "Snapshot", "snapshotQueries": queries}
    assert node.json("POST", f"{N}/snapshots", snapshot).status == 201
    for path in (f"{N}/snapshots", f"{N}/subscriptions", f"{N}/csourceRegistrations", "/hanse/v1/dead-letters/1/resend"):
        reply = node.json("POST", path, snapshot, NGSILD_Snapshot="urn:snapshot:1")
        assert "NGSILD-Snapshot" in problem(reply, 400, "BadRequestData")
    assert node.json("POST", f"{N}/entities", entity("urn:in:snapshot"), NGSILD_Snapshot="urn:snapshot:1").status == 201
    assert node.get(f"{N}/entities/urn:in:snapshot").status == 404
