"""Operations over several real nodes, and over sources that are slow, dead or talk nonsense."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from email.message import Message
from http.client import HTTPConnection, HTTPMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import pytest
from tests.serving import serving, settings_with

from hanse.model.ports import free_port

CAR = "urn:ngsi-ld:Vehicle:1"
BUS = "urn:ngsi-ld:Vehicle:2"
REGISTRATION = "urn:ngsi-ld:ContextSourceRegistration:"
ALL = ["redirectionOps", "createBatch", "upsertBatch", "updateBatch", "deleteBatch", "mergeBatch", "queryBatch"]
SPEED = "https://uri.etsi.org/ngsi-ld/default-context/speed"


class Reply(NamedTuple):
    status: int
    headers: HTTPMessage
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Api:
    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        params: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=30)
        data = None if body is None else json.dumps(body)
        given = ({} if body is None else {"Content-Type": "application/json"}) | (headers or {})
        try:
            connection.request(method, f"/ngsi-ld/v1{path}{'?' + urlencode(params) if params else ''}", data, given)
            answer = connection.getresponse()
            return Reply(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def registers(self, name: str, endpoint: str, mode: str = "inclusive", *names: str, **more: Any) -> str:
        """A registration for vehicles; for one of them, if it is an exclusive one."""
        entity = {"type": "Vehicle"} | ({"id": CAR} if mode == "exclusive" else {})
        body = {
            "id": REGISTRATION + name,
            "type": "ContextSourceRegistration",
            "information": [{"entities": [entity]} | ({"propertyNames": list(names)} if names else {})],
            "endpoint": endpoint,
            "mode": mode,
        }
        if mode != "auxiliary":
            body["operations"] = ALL
        assert self("POST", "/csourceRegistrations", body | more).status == 201
        return REGISTRATION + name

    def keeps(self, id_: str = CAR, **values: Any) -> None:
        assert self("POST", "/entities", car(id_, **values), {"local": "true"}).status == 201

    def kept(self, id_: str = CAR) -> dict[str, Any] | None:
        """What this node itself has of an entity."""
        reply = self("GET", f"/entities/{id_}", params={"local": "true", "options": "keyValues"})
        return None if reply.status == 404 else reply.json()


def car(id_: str = CAR, **values: Any) -> dict[str, Any]:
    return {"id": id_, "type": "Vehicle"} | {name: {"type": "Property", "value": value} for name, value in values.items()}


@pytest.fixture
def nodes() -> Iterator[tuple[Api, Api, Api]]:
    with ExitStack() as stack:
        yield tuple(  # type: ignore[misc]
            Api(stack.enter_context(serving(settings_with(node={"id": name}, distributed={"timeout_s": 5.0})))) for name in "abc"
        )


class Fake(NamedTuple):
    url: str
    seen: list[tuple[str, str, Message, bytes]]


@contextmanager
def answering(status: int, body: bytes, *, hangs: threading.Event | None = None) -> Iterator[Fake]:
    """A source that always answers the same; or, with an event, nothing until that comes."""
    seen: list[tuple[str, str, Message, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            said = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            seen.append((self.command, self.path, self.headers, said))
            if hangs is not None:
                hangs.wait(30)
                return
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _answer  # noqa: N815

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Fake(f"http://127.0.0.1:{server.server_port}", seen)
    finally:
        if hangs is not None:
            hangs.set()
        server.shutdown()
        server.server_close()
        thread.join(10)


# --- reading ------------------------------------------------------------------------------------------------------------


def test_an_entity_is_what_all_know_of_it_together(nodes: tuple[Api, Api, Api]) -> None:
    a, b, c = nodes
    a.registers("b", b.url)
    a.registers("c", c.url)
    a.keeps(brand="BMW")
    b.keeps(speed=50)
    c.keeps(colour="red")
    c.keeps(BUS, colour="blue")
    assert a("GET", f"/entities/{CAR}", params={"options": "keyValues"}).json() == {
        "id": CAR,
        "type": "Vehicle",
        "brand": "BMW",
        "speed": 50,
        "colour": "red",
    }
    found = a("GET", "/entities", params={"type": "Vehicle", "options": "keyValues", "count": "true"})
    assert [(entity["id"], len(entity)) for entity in found.json()] == [(CAR, 5), (BUS, 3)]
    assert found.headers["NGSILD-Results-Count"] == "2"
    assert "NGSILD-Warning" not in found.headers
    asked = {"type": "Query", "entities": [{"type": "Vehicle"}], "q": "speed>20"}
    assert [entity["id"] for entity in a("POST", "/entityOperations/query", asked).json()] == [CAR]
    assert a("GET", f"/entities/{CAR}", params={"attrs": "speed", "options": "keyValues"}).json()["speed"] == 50
    assert a("GET", f"/entities/{BUS}").status == 200
    assert a("GET", f"/entities/{BUS}", params={"local": "true"}).status == 404
    assert a("GET", "/entities/urn:ngsi-ld:Vehicle:9").status == 404


def test_the_newest_value_wins_wherever_it_is(nodes: tuple[Api, Api, Api]) -> None:
    a, b, _ = nodes
    a.registers("b", b.url)
    a.keeps(speed=1)
    b.keeps(speed=2)
    assert a("GET", f"/entities/{CAR}", params={"options": "keyValues"}).json()["speed"] == 2
    assert a("PATCH", f"/entities/{CAR}/attrs/speed", {"value": 3}, {"local": "true"}).status == 204
    assert a("GET", f"/entities/{CAR}", params={"options": "keyValues"}).json()["speed"] == 3


def test_auxiliary_sources_fill_gaps_and_exclusive_ones_know_best(nodes: tuple[Api, Api, Api]) -> None:
    a, b, c = nodes
    a.keeps(brand="BMW")
    b.keeps(brand="Fiat", colour="red")
    c.keeps(speed=7, brand="Audi")
    a.registers("b", b.url, "auxiliary")
    a.registers("c", c.url, "exclusive", "speed")
    shown = a("GET", f"/entities/{CAR}", params={"options": "keyValues"}).json()
    assert shown == {"id": CAR, "type": "Vehicle", "brand": "BMW", "colour": "red", "speed": 7}


def test_pages_of_what_several_have(nodes: tuple[Api, Api, Api]) -> None:
    a, b, _ = nodes
    a.registers("b", b.url)
    for number in range(6):
        (a if number % 2 else b).keeps(f"urn:ngsi-ld:Vehicle:{number}", speed=number)
    pages = [a("GET", "/entities", params={"type": "Vehicle", "limit": 4, "offset": offset}).json() for offset in (0, 4)]
    assert [entity["id"][-1] for page in pages for entity in page] == list("012345")
    assert a("GET", "/entities", params={"type": "Vehicle", "orderBy": "speed"}).status == 400


def test_split_entities_are_filtered_once_they_are_whole(nodes: tuple[Api, Api, Api]) -> None:
    a, b, _ = nodes
    a.registers("b", b.url)
    a.keeps(brand="BMW")
    b.keeps(speed=50)
    params = {"type": "Vehicle", "q": 'speed>20;brand=="BMW"'}
    assert a("GET", "/entities", params=params).json() == []
    assert [entity["id"] for entity in a("GET", "/entities", params=params | {"splitEntities": "true"}).json()] == [CAR]


def test_names_of_a_context_without_a_url_are_understood(nodes: tuple[Api, Api, Api]) -> None:
    a, b, _ = nodes
    a.registers("b", b.url)
    context = {"pace": SPEED}
    entity = {"@context": context, "id": CAR, "type": "Vehicle", "pace": {"type": "Property", "value": 5}}
    assert a("POST", "/entities", entity, headers={"Content-Type": "application/ld+json"}).status == 201
    assert b.kept() == {"id": CAR, "type": "Vehicle", "speed": 5}


def test_the_past_is_what_all_know_of_it(nodes: tuple[Api, Api, Api]) -> None:
    a, b, c = nodes
    a.registers("b", b.url, operations=["retrieveTemporal", "queryTemporal"])
    a.registers("c", c.url, operations=["queryBatchTemporal"])
    for node, day, id_ in ((a, 1, CAR), (b, 2, CAR), (b, 1, BUS), (c, 3, CAR)):
        instance = {"type": "Property", "value": day, "observedAt": f"2030-01-0{day}T00:00:00Z"}
        assert node("POST", "/temporal/entities", {"id": id_, "type": "Vehicle", "speed": [instance]}).status == 201
    reply = a("GET", f"/temporal/entities/{CAR}", params={"options": "temporalValues"})
    assert [value for value, _ in reply.json()["speed"]["values"]] == [1, 2]
    assert a("GET", f"/temporal/entities/{BUS}").status == 200
    assert a("GET", f"/temporal/entities/{BUS}", params={"local": "true"}).status == 404
    time = {"timerel": "after", "timeAt": "2029-01-01T00:00:00Z"}
    found = a("GET", "/temporal/entities", params={"type": "Vehicle", "options": "temporalValues"} | time).json()
    assert [(item["id"], len(item["speed"]["values"])) for item in found] == [(CAR, 3), (BUS, 1)]
    query = {"type": "Query", "entities": [{"type": "Vehicle"}], "temporalQ": time | {"lastN": 1}}
    found = a("POST", "/temporal/entityOperations/query", query).json()
    assert [[instance["value"] for instance in item["speed"]] for item in found] == [[3], [1]]


def test_types_and_attributes_are_those_of_all(nodes: tuple[Api, Api, Api]) -> None:
    a, b, _ = nodes
    a.registers("b", b.url, "inclusive", "speed", operations=["federationOps"])
    a.keeps(brand="x")
    b.keeps(BUS, speed=1, colour="red")
    assert b("POST", "/entities", {"id": "urn:h:1", "type": "House"}, {"local": "true"}).status == 201
    assert a("GET", "/types").json()["typeList"] == ["Vehicle"]  # the source is not registered with houses
    assert a("GET", "/attributes").json()["attributeList"] == ["brand", "speed"]  # nor with colours
    (vehicle,) = a("GET", "/types", params={"details": "true"}).json()
    assert vehicle["attributeNames"] == ["brand", "speed"]
    vehicle = a("GET", "/types/Vehicle").json()
    assert (vehicle["entityCount"], [item["attributeName"] for item in vehicle["attributeDetails"]]) == (2, ["brand", "speed"])
    speed = a("GET", "/attributes/speed").json()
    assert (speed["attributeCount"], speed["attributeTypes"], speed["typeNames"]) == (1, ["Property"], ["Vehicle"])
    assert a("GET", "/attributes/speed", params={"local": "true"}).status == 404
    assert [item["attributeName"] for item in a("GET", "/attributes", params={"details": "true"}).json()] == ["brand", "speed"]


@pytest.mark.parametrize(
    "rubbish", [b"[7]", b'{"typeList": [7]}', b'[{"typeName": 7}]', b'{"attributeDetails": 7, "typeName": "x"}', b"no"]
)
def test_rubbish_is_no_type(nodes: tuple[Api, Api, Api], rubbish: bytes) -> None:
    a = nodes[0]
    with answering(200, rubbish) as source:
        a.registers("fake", source.url, operations=["federationOps"])
        for path in ("/types", "/attributes", "/types/Vehicle", "/attributes/speed"):
            reply = a("GET", path)
            assert reply.status in (200, 404)
            assert reply.headers["NGSILD-Warning"].startswith("111")


def test_how_many_there_are_is_told_beyond_the_page(nodes: tuple[Api, Api, Api]) -> None:
    a, b, _ = nodes
    a.registers("b", b.url)
    for number in range(5):
        a.keeps(f"urn:ngsi-ld:Vehicle:a{number}", speed=number)
        b.keeps(f"urn:ngsi-ld:Vehicle:b{number}", speed=number)
    found = a("GET", "/entities", params={"type": "Vehicle", "limit": 2, "count": "true"})
    assert (len(found.json()), found.headers["NGSILD-Results-Count"]) == (2, "10")


# --- changing -----------------------------------------------------------------------------------------------------------


def test_what_is_shared_is_changed_at_both(nodes: tuple[Api, Api, Api]) -> None:
    a, b, _ = nodes
    a.registers("b", b.url)
    assert a("POST", "/entities", car(speed=1)).status == 201
    assert a.kept() == b.kept() == {"id": CAR, "type": "Vehicle", "speed": 1}
    assert a("POST", f"/entities/{CAR}/attrs", {"brand": {"type": "Property", "value": "x"}}).status == 204
    assert a("PATCH", f"/entities/{CAR}/attrs", {"speed": {"type": "Property", "value": 2}}).status == 204
    assert a("PATCH", f"/entities/{CAR}", {"brand": {"type": "Property", "value": "y"}}).status == 204
    assert a.kept() == b.kept() == {"id": CAR, "type": "Vehicle", "speed": 2, "brand": "y"}
    assert a("PATCH", f"/entities/{CAR}/attrs/speed", {"value": 3}).status == 204
    assert a("PUT", f"/entities/{CAR}/attrs/brand", {"type": "Property", "value": "z"}).status == 204
    assert a.kept() == b.kept() == {"id": CAR, "type": "Vehicle", "speed": 3, "brand": "z"}
    assert a("DELETE", f"/entities/{CAR}/attrs/brand").status == 204
    assert a("PUT", f"/entities/{CAR}", car(speed=4)).status == 204
    assert a.kept() == b.kept() == {"id": CAR, "type": "Vehicle", "speed": 4}
    assert a("DELETE", f"/entities/{CAR}").status == 204
    assert a.kept() is None
    assert b.kept() is None


def test_a_source_has_for_itself_what_it_says(nodes: tuple[Api, Api, Api]) -> None:
    a, b, c = nodes
    a.registers("b", b.url, "exclusive", "speed")
    assert a("POST", "/entities", car(speed=1, brand="x")).status == 201
    assert a.kept() == {"id": CAR, "type": "Vehicle", "brand": "x"}
    assert b.kept() == {"id": CAR, "type": "Vehicle", "speed": 1}
    assert a("PATCH", f"/entities/{CAR}", {"speed": {"type": "Property", "value": 2}}).status == 204
    assert a("GET", f"/entities/{CAR}", params={"options": "keyValues"}).json()["speed"] == 2
    assert a("DELETE", f"/entities/{CAR}").status == 204
    assert a("DELETE", f"/csourceRegistrations/{REGISTRATION}b").status == 204
    a.registers("c", c.url, "redirect")
    assert a("POST", "/entities", car(speed=1)).status == 201
    assert a.kept() is None
    assert c.kept() == {"id": CAR, "type": "Vehicle", "speed": 1}
    assert a("POST", "/entities", car(speed=1)).status == 409


def test_what_failed_where_is_told(nodes: tuple[Api, Api, Api]) -> None:
    a, b, _ = nodes
    registration = a.registers("b", b.url)
    b.keeps(speed=1)
    reply = a("POST", "/entities", car(speed=2))
    assert reply.status == 207
    (error,) = reply.json()["errors"]
    assert (error["entityId"], error["registrationId"], error["error"]["status"]) == (CAR, registration, 409)
    assert a("DELETE", f"/entities/{CAR}", params={"local": "true"}).status == 204
    reply = a("PATCH", f"/entities/{CAR}/attrs", {"speed": {"type": "Property", "value": 3}})
    assert reply.status == 207
    assert [(item["attributeName"], item.get("registrationId")) for item in reply.json()["notUpdated"]] == [(SPEED, None)]
    assert b.kept() == {"id": CAR, "type": "Vehicle", "speed": 3}
    assert a("POST", "/entities", {"id": "nonsense", "type": "Vehicle"}).status == 400


def test_what_makes_no_sense_is_not_forwarded(nodes: tuple[Api, Api, Api]) -> None:
    a = nodes[0]
    with answering(201, b"") as source:
        a.registers("fake", source.url)
        assert a("POST", "/entities", {"id": CAR, "type": "Vehicle", "speed": {"type": "Nonsense"}}).status == 400
        assert source.seen == []


def test_a_batch_is_dealt_out(nodes: tuple[Api, Api, Api]) -> None:
    a, b, c = nodes
    a.registers("b", b.url, "exclusive", "speed")
    a.registers("c", c.url)
    both = [car(speed=1, brand="x"), car(BUS, speed=2)]
    reply = a("POST", "/entityOperations/create", both)
    assert (reply.status, sorted(reply.json())) == (201, [CAR, BUS])
    assert (a.kept(), a.kept(BUS)) == (c.kept(), c.kept(BUS))
    assert a.kept() == {"id": CAR, "type": "Vehicle", "brand": "x"}
    assert (b.kept(), b.kept(BUS)) == ({"id": CAR, "type": "Vehicle", "speed": 1}, None)
    assert a("POST", "/entityOperations/upsert", [car(brand="y")], {"options": "update"}).status == 204
    assert a.kept() == c.kept() == {"id": CAR, "type": "Vehicle", "brand": "y"}
    reply = a("POST", "/entityOperations/create", [car("urn:ngsi-ld:Vehicle:3", speed=3), car(BUS, speed=2), {"type": "Vehicle"}])
    assert reply.status == 207
    assert reply.json()["success"] == ["urn:ngsi-ld:Vehicle:3"]
    assert [error.get("registrationId") for error in reply.json()["errors"]] == [None, None, REGISTRATION + "c"]
    assert a("POST", "/entityOperations/merge", [car(BUS, speed=9)]).status == 204
    assert c.kept(BUS) == {"id": BUS, "type": "Vehicle", "speed": 9}
    assert a("POST", "/entityOperations/delete", [CAR, BUS]).status == 204
    assert [node.kept() or node.kept(BUS) for node in nodes] == [None, None, None]


def test_a_source_without_batches_gets_one_request_for_each_document(nodes: tuple[Api, Api, Api]) -> None:
    a, b, _ = nodes
    a.registers("b", b.url, operations=["redirectionOps"])
    many = [car(f"urn:ngsi-ld:Vehicle:{number}", speed=number) for number in range(20)]
    assert a("POST", "/entityOperations/create", many).status == 201
    assert len(b("GET", "/entities", params={"type": "Vehicle", "limit": 100}).json()) == 20
    assert a("POST", "/entityOperations/update", [car(speed=30)]).status == 204
    assert a("POST", "/entityOperations/merge", [car(brand="x")]).status == 204
    assert b.kept() == {"id": CAR, "type": "Vehicle", "speed": 30, "brand": "x"}
    reply = a("POST", "/entityOperations/upsert", [car(speed=40), car("urn:ngsi-ld:Vehicle:new", speed=1)])
    assert (reply.status, reply.json()) == (201, ["urn:ngsi-ld:Vehicle:new"])
    assert a.kept() == b.kept() == {"id": CAR, "type": "Vehicle", "speed": 40}
    assert b("DELETE", f"/entities/{BUS}").status == 204
    reply = a("POST", "/entityOperations/delete", [CAR, BUS])
    assert (reply.status, reply.json()["success"]) == (207, [CAR])
    assert [error["registrationId"] for error in reply.json()["errors"]] == [REGISTRATION + "b"]


def test_a_dead_source_is_not_asked_for_each_document(nodes: tuple[Api, Api, Api]) -> None:
    a = nodes[0]
    with answering(200, b"", hangs=threading.Event()) as source:
        a.registers("slow", source.url, operations=["redirectionOps"], management={"timeout": 100})
        reply = a("POST", "/entityOperations/create", [car(f"urn:ngsi-ld:Vehicle:{number}") for number in range(100)])
        assert (reply.status, len(reply.json()["errors"])) == (207, 100)
        assert len(source.seen) <= 16


def test_a_purge_takes_from_a_source_only_what_it_is_registered_with(nodes: tuple[Api, Api, Api]) -> None:
    a, b, _ = nodes
    a.registers("b", b.url, "exclusive", "speed")
    b.keeps(speed=1, brand="x")
    b.keeps(BUS, speed=2)
    a.keeps(BUS, speed=3)
    assert a("DELETE", "/entities", params={"type": "Vehicle"}).status == 204
    assert a.kept(BUS) is None
    assert b.kept() == {"id": CAR, "type": "Vehicle", "brand": "x"}
    assert b.kept(BUS) is not None


# --- loops --------------------------------------------------------------------------------------------------------------


def test_sources_that_name_each_other_answer_once(nodes: tuple[Api, Api, Api]) -> None:
    a, b, _ = nodes
    a.registers("b", b.url)
    b.registers("a", a.url)
    assert a("POST", "/entities", car(speed=1)).status in (201, 207)  # b may try, and find it at a already
    assert a.kept() == b.kept() == {"id": CAR, "type": "Vehicle", "speed": 1}
    assert len(a("GET", "/entities", params={"type": "Vehicle"}).json()) == 1
    assert b("GET", f"/entities/{CAR}").status == 200


def test_a_loop_with_nobody_who_has_it_is_told(nodes: tuple[Api, Api, Api]) -> None:
    a, b, _ = nodes
    a.registers("b", b.url, "redirect")
    b.registers("a", a.url, "redirect")
    assert a("DELETE", f"/entities/{CAR}", headers={"Via": "1.1 a"}).status == 508
    assert a("POST", "/entities", car(speed=1)).status == 508
    assert a("GET", f"/entities/{CAR}").status == 404


def test_the_alias_of_a_source_in_via_keeps_a_request_from_going_there(nodes: tuple[Api, Api, Api]) -> None:
    a = nodes[0]
    with answering(200, json.dumps(car(speed=1)).encode()) as source:
        a.registers("fake", source.url, contextSourceAlias="fake")
        assert a("GET", f"/entities/{CAR}", headers={"Via": "1.1 fake"}).status == 404
        assert source.seen == []
        assert a("GET", f"/entities/{CAR}", headers={"Via": "1.1 other"}).status == 200
        assert source.seen[0][2]["Via"] == "1.1 other, 1.1 a"


# --- sources that fail --------------------------------------------------------------------------------------------------


def test_a_source_that_hangs_costs_its_time_and_no_more(nodes: tuple[Api, Api, Api]) -> None:
    a, b, _ = nodes
    a.keeps(brand="x")
    b.keeps(speed=1)
    with answering(200, b"", hangs=threading.Event()) as source:
        registration = a.registers("slow", source.url, management={"timeout": 200})
        a.registers("b", b.url)
        reply = a("GET", f"/entities/{CAR}", params={"options": "keyValues"})
        assert reply.json() == {"id": CAR, "type": "Vehicle", "brand": "x", "speed": 1}
        assert reply.headers["NGSILD-Warning"] == f'199 {registration} "no answer within 0.2 s"'
        reply = a("PATCH", f"/entities/{CAR}", {"brand": {"type": "Property", "value": "y"}})
        assert reply.status == 207
        assert [item["registrationId"] for item in reply.json()["notUpdated"]] == [registration]


def test_a_source_that_failed_is_left_alone_for_a_while(nodes: tuple[Api, Api, Api]) -> None:
    a = nodes[0]
    with answering(200, b"", hangs=threading.Event()) as source:
        a.registers("slow", source.url, management={"timeout": 100, "cooldown": 60_000})
        assert a("GET", f"/entities/{CAR}").headers["NGSILD-Warning"].startswith("199")
        assert a("GET", f"/entities/{CAR}").headers["NGSILD-Warning"].startswith("112")
        assert len(source.seen) == 1


def test_a_dead_source(nodes: tuple[Api, Api, Api]) -> None:
    a = nodes[0]
    endpoint = f"http://127.0.0.1:{free_port()}"
    a.registers("dead", endpoint, "redirect")
    reply = a("GET", f"/entities/{CAR}")
    assert reply.status == 404
    assert reply.headers["NGSILD-Warning"].startswith("199")
    assert a("POST", "/entities", car(speed=1)).status == 502
    assert a("GET", "/entities", params={"type": "Vehicle"}).json() == []


@pytest.mark.parametrize(
    "rubbish",
    [
        b"no json",
        b"",
        b"{}",
        b"[]",
        b"[[]]",
        b"7",
        b"null",
        b'{"id": 7, "type": "Vehicle"}',
        b'{"id": "urn:ngsi-ld:Vehicle:1"}',
        b'{"id": "urn:ngsi-ld:Vehicle:1", "type": "Vehicle", "speed": {"type": "Odd"}}',
        b'{"@context": {"@vocab": 7}, "id": "urn:ngsi-ld:Vehicle:1", "type": "Vehicle"}',
        b"[" * 5000,
        b"\xff\xfe",
    ],
)
def test_rubbish_is_not_taken_for_an_entity(nodes: tuple[Api, Api, Api], rubbish: bytes) -> None:
    a = nodes[0]
    a.keeps(brand="x")
    with answering(200, rubbish) as source:
        a.registers("fake", source.url)
        for path, params in ((f"/entities/{CAR}", {}), ("/entities", {"type": "Vehicle"})):
            reply = a("GET", path, params={"options": "keyValues"} | params)
            shown = reply.json()
            assert (shown[0] if isinstance(shown, list) else shown) == {"id": CAR, "type": "Vehicle", "brand": "x"}
            if rubbish != b"[]":
                assert reply.headers["NGSILD-Warning"].startswith("111")
        assert a("POST", "/entityOperations/merge", [car(brand="y")]).status in (204, 207)


def test_errors_of_a_source(nodes: tuple[Api, Api, Api]) -> None:
    a = nodes[0]
    with answering(403, b'{"title": "No", "type": "urn:x"}') as source:
        a.registers("fake", source.url, "redirect")
        reply = a("GET", f"/entities/{CAR}")
        assert (reply.status, reply.headers["NGSILD-Warning"][:3]) == (404, "299")
        reply = a("POST", "/entities", car(speed=1))
        assert (reply.status, reply.json()) == (403, {"title": "No", "type": "urn:x", "status": 403})


def test_a_long_answer_is_not_read_to_its_end() -> None:
    with serving(settings_with(distributed={"answer_bytes_max": 1_000})) as url, answering(200, b" " * 2_000) as source:
        a = Api(url)
        a.registers("fake", source.url)
        assert a("GET", "/entities", params={"type": "Vehicle"}).headers["NGSILD-Warning"].startswith("111")


# --- how a source wants to be asked -------------------------------------------------------------------------------------


def test_a_source_is_asked_as_its_registration_says(nodes: tuple[Api, Api, Api]) -> None:
    a = nodes[0]
    info = [
        {"key": "X-Token", "value": "secret"},
        {"key": "user", "value": "urn:ngsi-ld:request"},
        {"key": "Via", "value": "1.1 nobody"},
        {"key": "NGSILD-Tenant", "value": "other"},
        {"key": "contentType", "value": "application/ld+json"},
        {"key": "accept", "value": "application/ld+json"},
    ]
    with answering(404, b"") as source:
        a.registers("fake", source.url + "/base/", contextSourceInfo=info, tenant="city", management={"localOnly": True})
        a("GET", f"/entities/{CAR}", headers={"user": "me"})
        a("GET", f"/entities/{CAR}")
        a("POST", "/entities", car(speed=1))
    (_, path, headers, _), (_, _, without_user, _), (_, _, posted, body) = source.seen
    assert path.startswith(f"/base/ngsi-ld/v1/entities/{CAR}?")
    assert "local=true" in path
    assert (headers["X-Token"], headers["user"], headers["NGSILD-Tenant"], headers["Via"]) == ("secret", "me", "city", "1.1 a")
    assert without_user["user"] is None
    assert headers["Accept"] == posted["Content-Type"] == "application/ld+json"
    assert "@context" in json.loads(body)


def test_a_source_filter_chooses_among_sources(nodes: tuple[Api, Api, Api]) -> None:
    a = nodes[0]
    with answering(200, json.dumps([car(speed=1)]).encode()) as source:
        a.registers("fake", source.url, owner={"type": "Property", "value": "city"})
        ids = [
            [entity["id"] for entity in a("GET", "/entities", params={"type": "Vehicle", "csf": f'owner=="{owner}"'}).json()]
            for owner in ("city", "port")
        ]
    assert ids == [[CAR], []]
    assert len(source.seen) == 1
