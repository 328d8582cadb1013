"""Data models over HTTP, at a real node."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any
from urllib.parse import quote

import pytest
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion
from tests.serving import serving, settings_with

import hanse
from hanse.client import SyncNodeClient
from hanse.client.errors import NgsiLdClientError
from hanse.model.ports import free_port
from hanse.ngsild.entity import DEFAULT_VOCAB

MODELS = "/hanse/v1/models"
EXAMPLES = Path(__file__).parents[3] / "examples" / "models"
ROOM = {
    "title": "A room",
    "properties": {"type": {"const": "Room"}, "level": {"type": "number", "maximum": 10}, "name": {"type": "string"}},
    "required": ["name"],
}


def example(name: str) -> Any:
    return json.loads((EXAMPLES / f"{name}.json").read_bytes())


@pytest.fixture
def node() -> Iterator[SyncNodeClient]:
    with serving() as url, hanse.connect_sync(url) as found:
        yield found


def refused(node: SyncNodeClient, method: str, path: str, status: int, **more: Any) -> str:
    with pytest.raises(NgsiLdClientError) as raised:
        node.request(method, path, **more)
    assert raised.value.status == status
    return raised.value.detail


def test_the_life_of_a_model(node: SyncNodeClient) -> None:
    assert node.request("GET", MODELS).data == []
    made = node.request("POST", MODELS, json=ROOM)
    assert made.status == 201
    place = made.headers["Location"]
    assert place == f"{MODELS}/{quote(DEFAULT_VOCAB + 'Room', safe='')}"
    (listed,) = node.request("GET", MODELS).data
    assert (listed["name"], listed["title"], listed["mode"], listed["properties"]) == ("Room", "A room", "off", ["level", "name"])
    for path in (place, f"{MODELS}/Room"):
        found = node.request("GET", path).data
        assert found["schema"] == ROOM
        assert found["properties"][0]["name"] == "level"
        assert found["properties"][0]["dynamic"]
        assert found["properties"][1]["required"]
    bare = node.request("GET", place, headers={"Accept": "application/schema+json"})
    assert json.loads(bare.data) == ROOM
    assert refused(node, "POST", MODELS, 409, json=ROOM)
    assert node.request("PUT", f"{MODELS}/Room", json=ROOM | {"title": "Another"}).status == 204
    assert node.request("GET", place).data["title"] == "Another"
    assert node.request("PUT", f"{MODELS}/Hall", json={"properties": {}}).status == 201
    assert "not for" in refused(node, "PUT", f"{MODELS}/Hall", 400, json=ROOM)
    assert node.request("DELETE", place).status == 204
    refused(node, "GET", place, 404)
    refused(node, "DELETE", place, 404)
    refused(node, "PATCH", place, 404, json={"mode": "warn"})


def test_enforcing_over_http(node: SyncNodeClient) -> None:
    node.request("POST", MODELS, json=ROOM)
    node.create({"id": "urn:r:old", "type": "Room", "level": 99})
    assert node.request("PATCH", f"{MODELS}/Room", json={"mode": "enforce"}).status == 204
    assert node.request("GET", f"{MODELS}/Room").data["mode"] == "enforce"
    detail = refused(node, "POST", "/ngsi-ld/v1/entities", 400, json={"id": "urn:r:1", "type": "Room", "level": 11, "name": "x"})
    assert "level: 11 is greater than the maximum of 10 (rule: maximum)" in detail
    assert "'Room'" in detail
    refused(node, "GET", "/ngsi-ld/v1/entities/urn:r:1", 404)
    node.create({"id": "urn:r:1", "type": "Room", "level": 1, "name": "x"})
    for method, path, body in (
        ("PATCH", "urn:r:1/attrs", {"level": "high"}),
        ("POST", "urn:r:1/attrs", {"level": 11}),
        ("PATCH", "urn:r:1/attrs/level", {"value": 11}),
        ("PUT", "urn:r:1/attrs/level", {"type": "Property", "value": 11}),
        ("PATCH", "urn:r:1", {"level": 11}),
        ("PUT", "urn:r:1", {"type": "Room", "level": 1}),
        ("DELETE", "urn:r:1/attrs/name", None),
    ):
        refused(node, method, f"/ngsi-ld/v1/entities/{path}", 400, json=body)
    assert node.get("urn:r:1", format="simplified") == {"id": "urn:r:1", "type": "Room", "level": 1, "name": "x"}
    node.update("urn:r:old", {"other": 1})  # it was bad before, and is no worse now
    node.request("PATCH", f"{MODELS}/Room", json={"mode": None})
    node.update("urn:r:1", {"level": 11})


def test_in_a_batch_only_the_bad_one_fails(node: SyncNodeClient) -> None:
    node.request("POST", MODELS, json=ROOM)
    node.request("PATCH", f"{MODELS}/Room", json={"mode": "enforce"})
    batch = [
        {"id": "urn:r:1", "type": "Room", "name": "x"},
        {"id": "urn:r:2", "type": "Room", "name": 5},
        {"id": "urn:r:3", "type": "Other", "name": 5},
    ]
    for operation in ("create", "upsert"):
        answer = node.request("POST", f"/ngsi-ld/v1/entityOperations/{operation}", json=batch)
        if operation == "create":
            assert answer.data["success"] == ["urn:r:1", "urn:r:3"]
        assert answer.status == 207
        (error,) = [one for one in answer.data["errors"] if one["entityId"] == "urn:r:2"]
        assert "name: 5 is not of type" in error["error"]["detail"]


def test_warn_lets_pass_and_counts(node: SyncNodeClient) -> None:
    def violations() -> int:
        lines = node.request("GET", "/metrics").data.decode().splitlines()
        found = [line for line in lines if line.startswith('hanse_model_violations_total{kind="warn"}')]
        return int(float(found[0].split()[-1])) if found else 0

    node.request("POST", MODELS, json=ROOM)
    node.request("PATCH", f"{MODELS}/Room", json={"mode": "warn"})
    before = violations()
    node.create({"id": "urn:r:1", "type": "Room", "level": 11})
    assert node.get("urn:r:1", format="simplified")["level"] == 11
    assert violations() == before + 1


def test_a_device_is_told_what_does_not_fit() -> None:
    port = free_port()
    mqtt, models = {"embedded": True, "port": port}, {"types": {"Room": "enforce"}}
    heard: Queue[tuple[str, Any]] = Queue()
    subscribed = threading.Event()
    device = paho.Client(CallbackAPIVersion.VERSION2)
    device.on_message = lambda _client, _data, message: heard.put((message.topic, json.loads(message.payload)))
    device.on_subscribe = lambda *_: subscribed.set()
    with serving(settings_with(mqtt=mqtt, models=models, node={"id": "port"})) as url, hanse.connect_sync(url) as node:
        node.request("POST", MODELS, json=ROOM)
        node.create({"id": "urn:r:1", "type": "Room", "name": "x", "level": 1})
        device.connect("127.0.0.1", port)
        device.loop_start()
        try:
            device.subscribe("port/errors/#", qos=1)
            assert subscribed.wait(20)
            device.publish("port/entities/-/Room/urn:r:1/level", "11", qos=1)
            topic, problem = heard.get(timeout=20)
        finally:
            device.disconnect()
            device.loop_stop()
        assert topic.endswith("/Room/urn:r:1/level")
        assert "maximum" in json.dumps(problem)
        assert node.get("urn:r:1", format="simplified")["level"] == 1


def test_models_and_modes_survive_a_restart(tmp_path: Path) -> None:
    settings = settings_with(store={"data": str(tmp_path)})
    with serving(settings) as url, hanse.connect_sync(url) as node:
        node.request("POST", MODELS, json=ROOM)
        node.request("PATCH", f"{MODELS}/Room", json={"mode": "enforce"})
    with serving(settings) as url, hanse.connect_sync(url) as node:
        refused(node, "POST", "/ngsi-ld/v1/entities", 400, json={"id": "urn:r:1", "type": "Room"})


def test_inheritance_over_http(node: SyncNodeClient) -> None:
    assert "Asset" in refused(node, "POST", MODELS, 400, json=example("vehicle"))
    node.request("POST", MODELS, json=example("asset"))
    node.request("POST", MODELS, json=example("vehicle"))
    own = node.request("GET", f"{MODELS}/Vehicle").data
    assert [found["name"] for found in own["properties"]] == ["vehicleType", "speed", "heading"]
    assert own["extends"] == [DEFAULT_VOCAB + "Asset"]
    whole = node.request("GET", f"{MODELS}/Vehicle", params={"resolved": "true"}).data
    assert {"name", "ownedBy", "speed"} <= {found["name"] for found in whole["properties"]}
    assert "$ref" not in json.dumps(whole["schema"])
    assert "extends" in refused(node, "DELETE", f"{MODELS}/Asset", 409)


def test_a_model_in_a_context_of_its_own(node: SyncNodeClient) -> None:
    context = {"Room": "https://a.example/Room", "level": "https://a.example/level"}
    made = node.request("POST", MODELS, json=ROOM | {"@context": context})
    assert made.headers["Location"] == f"{MODELS}/{quote('https://a.example/Room', safe='')}"
    assert node.request("PATCH", f"{MODELS}/Room", json={"mode": "enforce"}).status == 204  # the only one of that name
    node.create({"id": "urn:r:1", "type": "Room", "level": 11})
    body = {"@context": context, "id": "urn:r:2", "type": "Room", "level": 11, "name": "x"}
    assert "level" in refused(node, "POST", "/ngsi-ld/v1/entities", 400, json=body)


def test_tenants_have_models_of_their_own() -> None:
    with serving() as url, hanse.connect_sync(url, tenant="t") as mine, hanse.connect_sync(url) as other:
        mine.request("POST", MODELS, json=ROOM)
        assert len(mine.request("GET", MODELS).data) == 1
        assert other.request("GET", MODELS).data == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", MODELS, {"properties": 5}),
        ("POST", MODELS, [1]),
        ("POST", MODELS, {"properties": {"type": {"const": "Room"}, "a": {"$ref": "http://127.0.0.1:9/x.json"}}}),
        ("PUT", f"{MODELS}/no%20name", ROOM),
        ("PATCH", f"{MODELS}/Room", {"mode": "strict"}),
        ("PATCH", f"{MODELS}/Room", {"title": "x"}),
        ("PATCH", f"{MODELS}/Room", [1]),
        ("GET", f"{MODELS}/Room?resolved=perhaps", None),
        ("GET", f"{MODELS}/Room?other=1", None),
    ],
)
def test_what_is_wrong_is_told(node: SyncNodeClient, method: str, path: str, body: Any) -> None:
    node.request("POST", MODELS, json=ROOM)
    assert refused(node, method, path, 400, json=body)


def test_a_schema_may_come_as_such(node: SyncNodeClient) -> None:
    headers = {"Content-Type": "application/schema+json"}
    assert node.request("POST", MODELS, json=ROOM, headers=headers).status == 201
    refused(node, "POST", MODELS, 415, json=ROOM, headers={"Content-Type": "text/plain"})
