"""The native API of a real node: clients that publish, subscribe, advertise and join scopes; the log; dead letters."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.receiving import receiver
from tests.serving import serving, settings_with
from tests.xml_examples import LISTING_1, OBSERVATION

import hanse
from hanse.client import SyncNodeClient
from hanse.client.events import EventReader
from hanse.node.http.native import GEOFENCES_SHOWN_MAX

V1 = "/hanse/v1"
TOML = {"Content-Type": "application/toml"}
CHARACTERISATION = Path(__file__).parents[3] / "examples" / "olympic-paris" / "characterisation.toml"


@pytest.fixture(scope="module")
def node() -> Iterator[SyncNodeClient]:
    with serving() as url, hanse.connect_sync(url) as found:
        yield found


def put(node: SyncNodeClient, path: str, body: Any) -> None:
    assert node.request("PUT", f"{V1}{path}", json=body).status == 204


def publish(node: SyncNodeClient, client: str, body: Any) -> dict[str, Any]:
    reply = node.request("POST", f"{V1}/clients/{client}/notifications", json=body)
    assert reply.status == 202
    return dict(reply.data)


def test_who_subscribes_is_told_at_its_endpoint(node: SyncNodeClient) -> None:
    with receiver() as (endpoint, got):
        put(node, "/clients/fire-brigade", {"endpoint": endpoint, "location": {"lat": 48.85, "lon": 2.35}})
        put(node, "/clients/sensor", {})
        put(node, "/clients/fire-brigade/subscriptions/hot", {"selectors": [{"topic": "rooms"}], "q": "temperature>50"})
        assert publish(node, "sensor", {"topic": "rooms", "attributes": {"temperature": 20}})["heard"] == 0
        said = publish(node, "sensor", {"topic": "rooms", "attributes": {"temperature": 60}, "payload": {"room": "hall"}})
        assert said["heard"] == 1
        told = got.get(timeout=20)
        assert (told["subscription"], told["id"], told["payload"]) == ("hot", said["id"], {"room": "hall"})
        shown = node.request("GET", f"{V1}/clients/fire-brigade").data
        assert shown["subscriptions"]["hot"]["q"] == "temperature>50"
        assert node.request("DELETE", f"{V1}/clients/fire-brigade/subscriptions/hot").status == 204
        assert publish(node, "sensor", {"topic": "rooms", "attributes": {"temperature": 60}})["heard"] == 0


def test_clients_are_listed_in_pages_with_where_they_are_and_listen_to() -> None:
    square = [[25.0, 35.0], [25.1, 35.0], [25.1, 35.1], [25.0, 35.0]]
    with serving() as url, hanse.connect_sync(url) as node:
        for number in range(5):
            put(node, f"/clients/crew-{number}", {"location": {"lat": 35.0, "lon": 25.0 + number}})
        put(node, "/clients/crew-1/subscriptions/anywhere", {})
        put(node, "/clients/crew-1/subscriptions/near", {"geofence": {"type": "Polygon", "coordinates": [square]}})
        for number in range(GEOFENCES_SHOWN_MAX + 3):
            fence = {"type": "Point", "coordinates": [25, 35], "radius": 100 + number}
            put(node, f"/clients/crew-2/subscriptions/s{number}", {"geofence": fence})
        first = node.request("GET", f"{V1}/clients", params={"limit": "2", "count": "true", "geofences": "true"})
        assert first.headers["NGSILD-Results-Count"] == "5"
        assert 'offset=2>; rel="next"' in first.headers["Link"]
        assert [(one["client"], one["geofences"]) for one in first.data] == [
            ("crew-0", {}),
            ("crew-1", {"near": {"type": "polygon", "polygons": [[square]]}}),
        ]
        last = node.request("GET", f"{V1}/clients", params={"limit": "3", "offset": "2", "geofences": "true"})
        assert "next" not in last.headers["Link"]
        assert [one["location"]["lon"] for one in last.data] == [27.0, 28.0, 29.0]
        assert [len(one["geofences"]) for one in last.data] == [GEOFENCES_SHOWN_MAX, 0, 0]
        everyone = node.request("GET", f"{V1}/clients").data
        assert [set(one) for one in everyone] == [{"client", "endpoint", "location"}] * 5
        with pytest.raises(hanse.NgsiLdClientError, match="limit is a whole number from 0 to 1000, not 'all'"):
            node.request("GET", f"{V1}/clients", params={"limit": "all"})


def test_xml_is_handed_on_as_it_is(node: SyncNodeClient) -> None:
    put(node, "/clients/reader", {})
    put(node, "/clients/writer", {})
    put(node, "/clients/reader/subscriptions/all", {"selectors": [{"type": "Letter"}]})
    sent = "<letter><to>reader</to></letter>"
    assert publish_xml(node, "writer", sent, "type=Letter&id=n1&lat=1&lon=2") == {"id": "n1", "publisher": "writer", "heard": 1}
    (event,) = first_events(node, "reader", 1)
    assert (event["payload"], event["media_type"], event["location"]) == (sent, "application/xml", [1.0, 2.0])
    with pytest.raises(hanse.NgsiLdClientError, match="not well-formed XML"):
        publish_xml(node, "writer", "<letter>", "type=Letter&id=n2")


def publish_xml(node: SyncNodeClient, client: str, payload: str, parameters: str) -> dict[str, Any]:
    path = f"{V1}/clients/{client}/notifications?{parameters}"

    async def post() -> Any:
        headers = {"Content-Type": "application/xml"}
        async with node.node._session.exchange("POST", path, body=payload.encode(), headers=headers) as response:
            return await response.json()

    return dict(node.run(post()))


def test_xml_is_filtered_by_xpath_and_by_the_quality_that_is_in_it(node: SyncNodeClient) -> None:
    put(node, "/clients/bob", {})
    put(node, "/clients/station", {})
    put(node, "/clients/bob/subscriptions/xpath", {"xpath": list(LISTING_1)})
    put(node, "/clients/bob/subscriptions/quality", {"selectors": [{"topic": "air"}], "quality": "pollution.precision>=40"})
    put(node, "/clients/bob/subscriptions/sharper", {"xpath": [LISTING_1[2].replace("40", "50")]})
    assert node.request("GET", f"{V1}/clients/bob").data["subscriptions"]["xpath"]["xpath"] == list(LISTING_1)
    assert publish_xml(node, "station", OBSERVATION, "topic=air")["heard"] == 2
    assert publish_xml(node, "station", OBSERVATION.replace('"45"', '"39"'), "topic=air")["heard"] == 0
    events = first_events(node, "bob", 2)
    assert {event["subscription"] for event in events} == {"xpath", "quality"}
    assert all(event["quality"]["precision"] == event["quality"]["pollution.precision"] == 45 for event in events)


def test_an_advertisement_restricts_the_xml_that_is_published(node: SyncNodeClient) -> None:
    put(node, "/clients/kiosk", {})
    put(node, "/clients/kiosk/advertisements/a", {"xpath": [LISTING_1[0]], "quality": "pollution.precision>=40"})
    assert publish_xml(node, "kiosk", OBSERVATION, "advertisement=a")["heard"] >= 0
    with pytest.raises(hanse.NgsiLdClientError, match="the payload is not what") as error:
        publish_xml(node, "kiosk", OBSERVATION.replace("#pollution", "#noise"), "advertisement=a")
    assert error.value.status == 400
    with pytest.raises(hanse.NgsiLdClientError, match="below the guarantee"):
        publish_xml(node, "kiosk", OBSERVATION.replace('"45"', '"39"'), "advertisement=a")


def test_a_document_type_and_a_wrong_xpath_are_refused_in_words(node: SyncNodeClient) -> None:
    put(node, "/clients/mallory", {})
    bomb = '<!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;">]>'
    with pytest.raises(hanse.NgsiLdClientError, match="declares a document type; leave it out") as error:
        publish_xml(node, "mallory", bomb + OBSERVATION.partition("?>")[2], "topic=air")
    assert error.value.status == 400
    with pytest.raises(hanse.NgsiLdClientError, match="column 3: a path has one // at most") as error:
        put(node, "/clients/mallory/subscriptions/s", {"xpath": ["//a//b"]})
    assert error.value.status == 400
    with pytest.raises(hanse.NgsiLdClientError, match="more than 32 XPath constraints"):
        put(node, "/clients/mallory/subscriptions/s", {"xpath": ["//a"] * 33})


def first_events(node: SyncNodeClient, client: str, number: int) -> list[dict[str, Any]]:
    async def read() -> list[dict[str, Any]]:
        reader = EventReader()
        found: list[dict[str, Any]] = []
        headers = {"Accept": "text/event-stream"}
        async with node.node._session.exchange("GET", f"{V1}/clients/{client}/stream", headers=headers, endless=True) as response:
            while len(found) < number:
                found += [json.loads(event.data) for event in reader.feed(await response.content.readany())]
        return found

    return node.run(read())


def test_a_stream_has_what_came_while_nobody_listened(node: SyncNodeClient) -> None:
    put(node, "/clients/page", {})
    put(node, "/clients/page/subscriptions/a", {"selectors": [{"topic": "news"}]})
    put(node, "/clients/press", {})
    for number in range(3):
        publish(node, "press", {"id": f"n{number}", "topic": "news"})
    assert [event["id"] for event in first_events(node, "page", 3)] == ["n0", "n1", "n2"]
    publish(node, "press", {"id": "n2", "topic": "news"})  # the same again is not delivered again
    assert publish(node, "press", {"id": "n3", "topic": "news"})["heard"] == 1


def test_stated_quality_is_completed_as_that_of_an_entity_is(node: SyncNodeClient) -> None:
    put(node, "/clients/meter", {})
    put(node, "/clients/inspector", {})
    put(node, "/clients/inspector/subscriptions/whole", {"selectors": [{"topic": "meters"}], "quality": "precision>=40"})
    stated = {"NO2.precision": 80, "CO.precision": 50, "CO.mood": 3}
    assert publish(node, "meter", {"topic": "meters", "quality": stated})["heard"] == 1
    assert publish(node, "meter", {"topic": "meters", "quality": stated | {"CO.precision": 30}})["heard"] == 0
    assert publish(node, "meter", {"topic": "meters", "quality": stated | {"precision": 30}})["heard"] == 0
    (event,) = first_events(node, "inspector", 1)
    assert event["quality"] == stated | {"precision": 50}
    with pytest.raises(hanse.NgsiLdClientError, match=r"NO2\.precision is 400; precision is a number from 0 to 100, in percent"):
        publish(node, "meter", {"topic": "meters", "quality": {"NO2.precision": 400}})


def test_what_is_published_must_be_as_advertised(node: SyncNodeClient) -> None:
    put(node, "/clients/bus", {})
    put(node, "/clients/bus/advertisements/a", {"selectors": [{"type": "Bus"}], "quality": "accuracy<=10"})
    ok = {"types": ["Bus"], "advertisement": "a", "quality": {"accuracy": 5}}
    assert publish(node, "bus", ok)["heard"] == 0
    with pytest.raises(hanse.NgsiLdClientError, match="below the guarantee") as error:
        publish(node, "bus", ok | {"quality": {"accuracy": 50}})
    assert error.value.status == 400
    with pytest.raises(hanse.NgsiLdClientError, match="does not match advertisement"):
        publish(node, "bus", ok | {"types": ["Tram"]})
    assert node.request("DELETE", f"{V1}/clients/bus/advertisements/a").status == 204
    with pytest.raises(hanse.NgsiLdClientError) as error:
        node.request("DELETE", f"{V1}/clients/bus/advertisements/a")
    assert error.value.status == 404


def characterise(node: SyncNodeClient) -> None:
    async def send() -> int:
        body = CHARACTERISATION.read_bytes()
        async with node.node._session.exchange("PUT", f"{V1}/scopes", body=body, headers=TOML) as response:
            return response.status

    assert node.run(send()) == 204


def test_scopes_decide_who_may_see_what(node: SyncNodeClient) -> None:
    characterise(node)
    known = node.request("GET", f"{V1}/scopes").data
    dimension = "membership"
    assert "uk" in known["dimensions"][dimension]
    border = {"dimension": dimension, "scope": "uk", "superscope": "su", "out": "producerScopeOnly==false", "into": ""}
    assert [one for one in known["borders"] if one["scope"] == "uk"] == [border]
    assert all(one["scope"] != "su" for one in known["borders"])  # a root has no border
    assert node.request("PUT", f"{V1}/scopes/{dimension}/uk").status == 204
    assert node.request("GET", f"{V1}/scopes").data["joined"] == [{"dimension": dimension, "scope": "uk"}]
    with pytest.raises(hanse.NgsiLdClientError, match="has no scope 'mars'"):
        node.request("PUT", f"{V1}/scopes/{dimension}/mars")
    assert node.request("DELETE", f"{V1}/scopes/{dimension}/uk").status == 204
    with pytest.raises(hanse.NgsiLdClientError) as error:
        node.request("DELETE", f"{V1}/scopes/{dimension}/uk")
    assert error.value.status == 404
    put(node, "/clients/s", {})
    with pytest.raises(hanse.NgsiLdClientError, match="has no scope"):
        put(node, "/clients/s/subscriptions/x", {"scopes": {dimension: "mars"}})


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/clients/nobody", None, 404),
        ("PUT", "/clients/ngsi-ld%2Fx", {}, 400),
        ("PUT", "/clients/x", {"endpoint": "ftp://x"}, 400),
        ("PUT", "/clients/x", {"where": 1}, 400),
        ("PUT", "/clients/x", {"location": {"lat": 95, "lon": 0}}, 400),
        ("PUT", "/clients/x", {"previous": "elsewhere"}, 400),
        ("PUT", "/clients/nobody/subscriptions/a", {}, 404),
        ("POST", "/clients/nobody/notifications", {"topic": "x"}, 404),
        ("PUT", "/clients/nobody/location", {"lat": 1, "lon": 2}, 404),
        ("DELETE", "/clients/nobody", None, 404),
        ("GET", "/log?limit=many", None, 400),
        ("GET", "/log?wait=-1", None, 400),
        ("GET", "/dead-letters/1", None, 404),
        ("POST", "/dead-letters/1/resend", None, 404),
    ],
)
def test_what_is_wrong_is_told(node: SyncNodeClient, method: str, path: str, body: Any, status: int) -> None:
    with pytest.raises(hanse.NgsiLdClientError) as error:
        node.request(method, V1 + path, json=body)
    assert error.value.status == status
    assert error.value.detail


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_members = st.sampled_from(
    ["id", "topic", "types", "entity", "attributes", "quality", "payload", "location", "geofence", "scopes", "q", "selectors"]
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["notifications", "subscriptions/s", "advertisements/a", "location", ""]), st.dictionaries(_members, _json)
)
def test_strange_bodies_are_refused_and_nothing_breaks(node: SyncNodeClient, what: str, body: dict[str, Any]) -> None:
    method = "POST" if what == "notifications" else "PUT"
    refused = None
    try:
        node.request(method, f"{V1}/clients/fuzz/{what}".rstrip("/"), json=body)
    except hanse.NgsiLdClientError as error:
        refused = error
    assert refused is None or 400 <= refused.status < 500, refused.problem


def test_the_log_by_offset_as_json_and_as_arrow() -> None:
    with serving() as url, hanse.connect_sync(url) as node:
        assert node.log() == []
        for number in range(3):
            node.create({"id": f"urn:ngsi-ld:Room:{number}", "type": "Room", "temperature": number})
        log = node.log()
        assert [record["offset"] for record in log] == [1, 2, 3]
        assert [record["entity"] for record in node.log(1, limit=1)] == ["urn:ngsi-ld:Room:1"]
        import pyarrow as pa

        raw = node.request("GET", f"{V1}/log", headers={"Accept": "application/vnd.apache.arrow.stream"}).data
        table = pa.ipc.open_stream(raw).read_all()
        assert table.column("offset").to_pylist() == [1, 2, 3]
        assert table.column("types").to_pylist() == [record["types"] for record in log]
        assert json.loads(table.column("attributes")[2].as_py()) == log[2]["attributes"]


def test_who_waits_for_the_log_is_told_when_there_is_something() -> None:
    with serving() as url, hanse.connect_sync(url) as node, hanse.connect_sync(url) as other:
        got: Queue[Any] = Queue()
        thread = threading.Thread(target=lambda: got.put(other.log(0, wait_s=30)), daemon=True)
        thread.start()
        node.create({"id": "urn:ngsi-ld:Room:1", "type": "Room"})
        assert [record["entity"] for record in got.get(timeout=20)] == ["urn:ngsi-ld:Room:1"]
        thread.join()


def test_what_clients_have_outlives_a_restart(tmp_path: Path) -> None:
    kept = settings_with(store={"data": str(tmp_path)})
    with serving(kept) as url, hanse.connect_sync(url) as node:
        characterise(node)
        put(node, "/clients/page", {"location": {"lat": 1, "lon": 2}})
        put(node, "/clients/page/subscriptions/a", {"selectors": [{"topic": "news"}], "scopes": {"membership": "uk"}})
        put(node, "/clients/page/advertisements/b", {"selectors": [{"topic": "views"}]})
        node.request("PUT", f"{V1}/scopes/membership/uk")
        before = node.request("GET", f"{V1}/clients/page").data
    with serving(kept) as url, hanse.connect_sync(url) as node:
        assert node.request("GET", f"{V1}/clients/page").data == before
        assert node.request("GET", f"{V1}/scopes").data["joined"] == [{"dimension": "membership", "scope": "uk"}]
        assert publish(node, "page", {"topic": "news"})["heard"] == 1
        assert node.request("DELETE", f"{V1}/clients/page").status == 204
    with serving(kept) as url, hanse.connect_sync(url) as node:
        assert node.request("GET", f"{V1}/clients").data == []


def test_a_letter_that_nobody_takes_can_be_looked_at_and_sent_again() -> None:
    once = settings_with(notifications={"attempts_max": 1, "timeout_s": 1.0})
    with serving(once) as url, hanse.connect_sync(url) as node:
        with receiver() as (endpoint, _):
            pass  # it is gone again
        put(node, "/clients/gone", {"endpoint": endpoint})
        put(node, "/clients/gone/subscriptions/a", {})
        publish(node, "gone", {"topic": "x", "payload": {"for": "nobody"}})
        letters: list[Any] = []
        while not letters:
            letters = node.request("GET", f"{V1}/dead-letters").data
        (letter,) = letters
        assert letter["endpoint"] == endpoint
        assert node.request("GET", f"{V1}/dead-letters/{letter['id']}").data["body"]["payload"] == {"for": "nobody"}
        assert node.request("POST", f"{V1}/dead-letters/{letter['id']}/resend").status == 202
        while not (letters := node.request("GET", f"{V1}/dead-letters").data):
            pass
        assert letters[0]["id"] > letter["id"]
        assert node.request("DELETE", f"{V1}/dead-letters/{letters[0]['id']}").status == 204
        assert node.request("GET", f"{V1}/dead-letters").data == []
