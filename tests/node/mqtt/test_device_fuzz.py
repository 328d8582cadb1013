# ruff: noqa: E501  (tables of odd values)
"""Whatever a device says: the node goes on, refusals are told at the topic for errors, and what was refused changed nothing.

`make fuzz` runs it for longer, with examples that nobody has seen before.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import quote

import msgspec
import paho.mqtt.client as paho
import pytest
from hypothesis import strategies as st
from msgspec import Struct
from paho.mqtt.enums import CallbackAPIVersion
from tests.node.http import fuzzing
from tests.node.http.test_fuzz import explored, running
from tests.raw_http import RawClient

PUBLICATIONS = 400
CONVERSATIONS = 100
PATIENCE_S = 30
ENTITY = "urn:ngsi-ld:Fuzz:1"


class Publication(Struct, frozen=True):
    topic: str
    payload: bytes
    retain: bool


class Scene:
    """A device, and one who listens for errors, at a node."""

    def __init__(self, url: str, port: int) -> None:
        self.http = RawClient(url)
        self.port = port
        self.errors: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        listening: SimpleQueue[bool] = SimpleQueue()
        self.device = paho.Client(CallbackAPIVersion.VERSION2, "device")
        self.listener = paho.Client(CallbackAPIVersion.VERSION2, "listener")
        self.listener.on_message = lambda _client, _data, message: self.errors.put((message.topic, json.loads(message.payload)))
        self.listener.on_subscribe = lambda *_: listening.put(True)
        for client in (self.device, self.listener):
            client.connect("127.0.0.1", port)
            client.loop_start()
        self.listener.subscribe("hanse/errors/#", 1)
        listening.get(timeout=PATIENCE_S)

    def publish(self, said: Publication) -> None:
        """Until the node has taken it."""
        sent = self.device.publish(said.topic, said.payload, 1, said.retain)
        sent.wait_for_publish(PATIENCE_S)
        assert sent.is_published(), said

    def refusals(self) -> Iterator[tuple[str, Any]]:
        try:
            while True:
                yield self.errors.get_nowait()
        except Empty:
            return

    def log_end(self) -> str:
        return self.http.get("/hanse/v1/log?limit=0").headers["hanse-log-end"]

    def close(self) -> None:
        for client in (self.device, self.listener):
            client.disconnect()
            client.loop_stop()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with running(tmp_path_factory.mktemp("devices"), "--mqtt-port", "0") as (url, log):
        (port,) = (json.loads(line)["port"] for line in log.read_text().splitlines() if "MQTT broker is ready" in line)
        found = Scene(url, port)
        try:
            yield found
            assert found.http.get("/healthz").status == 200
        finally:
            found.close()
        faults = [line for line in log.read_text().splitlines() if "Traceback" in line or '"level":"error"' in line]
        assert not faults, "\n".join(faults[:20])


_LEVELS = [
    "-", "", "%", "%2", "%ff", "%00", "%2F", "%2B", "%23", "x" * 2100, "x" * 5000, "é", "\U0001f600", "Fuzz", "$SYS", " ", "type", "id", "@context", "scope",
    "urn:a b", "urn:", "http:%2F%2F127.0.0.1:9%2Fc.jsonld", "file:%2F%2F%2Fetc%2Fpasswd", "temperature", "location", "eventGeofence", "urn:ngsi-ld:null", "..",
]  # fmt: skip
_levels = st.sampled_from(_LEVELS) | st.text(st.characters(codec="utf-8", exclude_characters="+#\x00/"), max_size=6)


@st.composite
def publications(draw: st.DrawFn) -> Publication:
    levels = ["hanse", "entities", "-", "Fuzz", ENTITY]
    if draw(st.booleans()):
        levels.append(draw(st.sampled_from([*fuzzing.ATTRIBUTES, "load"])))
    if draw(st.integers(0, 2)) == 0:
        levels[draw(st.integers(1, len(levels) - 1))] = draw(_levels)
    if draw(st.integers(0, 20)) == 0:
        levels.append(draw(_levels))
    value: Any = fuzzing.ATTRIBUTES.get(levels[-1], fuzzing.ATTRIBUTES) if len(levels) > 5 else fuzzing.ATTRIBUTES
    payload = draw(st.sampled_from([b"", b"3", b'"x"', b"?", b"\xff\xfe", b"[" * 5000]) | fuzzing.bodies(value, ld=False))
    return Publication("/".join(levels), payload, draw(st.booleans()))


def test_bent_publications(scene: Scene) -> None:
    changed: dict[str, bool] = {}  # by topics that are used once, so that an error is about that publication

    def check(said: Publication) -> None:
        if len(changed) % 2:  # the others change the same entity again and again
            said = msgspec.structs.replace(said, topic=said.topic.replace(ENTITY, f"{ENTITY}-{len(changed)}"))
        before = scene.log_end()
        scene.publish(said)
        changed[said.topic] = scene.log_end() != before
        for topic, problem in scene.refusals():
            assert problem["type"].startswith("https://uri.etsi.org/ngsi-ld/errors/"), problem
            assert problem["status"] < 500 or problem["status"] in (503, 504), (said, problem)
            told = topic.replace("/errors/", "/entities/", 1)
            assert f"{ENTITY}-" not in told or not changed.get(told), (said, problem)

    explored(publications(), check, PUBLICATIONS)
    scene.publish(Publication(f"hanse/entities/-/Fuzz/{quote('urn:ngsi-ld:Fuzz:99')}/load", b"7", False))
    assert scene.http.get("/ngsi-ld/v1/entities/urn:ngsi-ld:Fuzz:99?options=keyValues").data["load"] == 7


_HELLO = b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04fuzz"
_PIECES = [
    _HELLO, b"\x10\x00", b"\x10\xff\xff\xff\xff\xff", b"\x10\xff\xff\xff\x7f", b"\x00\x00", b"\xf0\x00", b"\xc0\x00", b"\xe0\x00", b"\x30\x00", b"\x30\x02\x00\x00", b"\x32\x05\x00\x03a/b",
    b"\x30\x05\x00\x03a/#x", b"\x82\x00", b"\x82\x05\x00\x01\x00\x00\x00", b"\x82\x08\x00\x01\x00\x03a/#\x09", b"\xa2\x02\x00\x01", b"\x40\x02\x00\x63", b"\x62\x02\x00\x01", b"\x20\x02\x00\x00",
    b"\x30\x07\x00\x03\xff\xfe\xfdabc", b"\x36\x05\x00\x01a\x00\x01", b"GET / HTTP/1.1\r\n\r\n", b"\x10\x10\x00\x04MQTT\x05\x02\x00\x3c\x00\x04fuzz", b"\x10\x0e\x00\x06MQIsdp\x03\x02\x00\x3c\x00\x00",
    b"\x10\x10\x00\x04MQTT\x04\xff\x00\x00\x00\x04fuzz",
]  # fmt: skip


def test_what_is_no_mqtt(scene: Scene) -> None:
    def check(pieces: list[bytes]) -> None:
        with socket.create_connection(("127.0.0.1", scene.port), timeout=PATIENCE_S) as connection:
            connection.sendall(b"".join(pieces))

    explored(st.lists(st.sampled_from(_PIECES) | st.binary(max_size=20), min_size=1, max_size=6), check, CONVERSATIONS)
    scene.publish(Publication("hanse/entities/-/Fuzz/urn:ngsi-ld:Fuzz:98/load", b"8", False))
    assert re.search("load", scene.http.get("/ngsi-ld/v1/entities/urn:ngsi-ld:Fuzz:98").body.decode())
