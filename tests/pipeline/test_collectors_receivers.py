"""Receivers with a real Mosquitto, a real node and real feeds; what they write is collected on real Spark."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import paho.mqtt.client as paho
import pytest
from google.transit import gtfs_realtime_pb2 as pb
from paho.mqtt.enums import CallbackAPIVersion
from tests.mosquitto import Mosquitto
from tests.serving import serving

import hanse
from hanse.model import InvalidInput
from hanse.pipeline.collectors import collect
from hanse.pipeline.mapper import DUPLICATE, UNREADABLE, Mapper
from hanse.pipeline.mapping import load_mapping
from hanse.pipeline.receivers import BrokerReceiver, GtfsReceiver, MqttReceiver, feed_lines
from hanse.pipeline.spool import Envelope, Spool

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT_S = 60.0
DEVICES = load_mapping("""
[source]
name = "devices"
format = "mqtt"
[entity]
id = "urn:x:{@topic[1]}"
type = "Device"
[time]
column = "t"
format = "unix"
[[attributes]]
name = "temperature"
column = "c"
unit = "CEL"
""")


def lines(folder: Path) -> list[Envelope]:
    """What Spark would see."""
    decode = msgspec.json.Decoder(Envelope).decode
    return [decode(line) for file in sorted(folder.glob("[!_]*.jsonl")) for line in file.read_bytes().splitlines()]


def eventually(holds: Callable[[], bool], what: str) -> None:
    pause = threading.Event()
    for _ in range(int(WAIT_S / 0.05)):
        if holds():
            return
        pause.wait(0.05)
    raise AssertionError(what)


def publish(broker: Mosquitto, messages: list[tuple[str, str]]) -> None:
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    for topic, payload in messages:
        client.publish(topic, payload, qos=1).wait_for_publish(WAIT_S)
    client.disconnect()
    client.loop_stop()


def test_what_devices_publish_is_collected_once_even_while_nobody_listens(spark: SparkSession, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    with Mosquitto() as broker:
        with MqttReceiver(broker.url, ["town/#"], spool, client_id="collector") as receiver:
            assert receiver.listening.wait(WAIT_S), receiver.error
            publish(broker, [("town/7", '{"t": 1769860800, "c": 21.5}'), ("town/7", "rubbish"), ("other/1", "no")])
            eventually(lambda: receiver.spool.lines == 2, "both messages come")
        publish(broker, [("town/8", '{"t": 1769860801, "c": 22}'), ("town/7", '{"t": 1769860800, "c": 21.5}')])
        with MqttReceiver(broker.url, ["town/#"], spool, client_id="collector") as receiver:
            eventually(lambda: receiver.spool.lines == 2, f"what was kept comes: {receiver.error}")
    found = collect(spark, DEVICES, str(spool))
    rows = found.observations.collect()
    assert sorted((row.entity, row.value, row.unit) for row in rows) == [("urn:x:7", 21.5, "CEL"), ("urn:x:8", 22.0, "CEL")]
    assert all(row.accepted_at > row.observed_at for row in rows)
    aside = {row.kind: row for row in found.rejected.collect()}
    assert aside[DUPLICATE].place == "town/7"
    assert any(row.line == "rubbish" for row in aside.values())


def test_a_receiver_waits_for_a_broker_that_is_away(tmp_path: Path) -> None:
    broker = Mosquitto()
    with MqttReceiver(broker.url, ["town/#"], tmp_path, client_id="collector") as receiver:
        eventually(lambda: bool(receiver.error), "it says that nobody answers")
        with broker:
            assert receiver.listening.wait(WAIT_S), receiver.error
            assert receiver.error == ""


def test_entities_of_another_broker_come_when_they_change(spark: SparkSession, tmp_path: Path) -> None:
    def air(no2: float) -> dict[str, Any]:
        attribute = {"type": "Property", "value": no2, "observedAt": f"2026-01-31T12:00:{int(no2)}Z"}
        return {"id": "urn:x:1", "type": "Air", "no2": attribute}

    async def put(url: str, entity: dict[str, Any]) -> None:
        async with hanse.connect(url) as node:
            await node.upsert([entity])

    with serving() as url:
        receiver = BrokerReceiver(url, tmp_path, types=["Air"])
        for entity in (air(41), air(41), air(42)):
            asyncio.run(put(url, entity))
            receiver.turn()
            receiver.turn()
            assert receiver.error == ""
    receiver.turn()  # nobody answers
    assert receiver.error
    receiver.stop()
    assert len(lines(tmp_path)) == 2
    found = collect(spark, load_mapping('[source]\nname = "other"\nformat = "ngsi-ld"'), str(tmp_path))
    assert sorted((row.entity, row.type, row.attribute, row.value) for row in found.observations.collect()) == [
        ("urn:x:1", "Air", "no2", 41.0),
        ("urn:x:1", "Air", "no2", 42.0),
    ]
    assert found.counts() == {"": 2}


def feed(at: int) -> Any:
    made = pb.FeedMessage()
    made.header.gtfs_realtime_version = "2.0"
    made.header.timestamp = at
    vehicle = made.entity.add(id="1").vehicle
    vehicle.vehicle.id = "bus-7"
    vehicle.position.latitude, vehicle.position.longitude, vehicle.position.speed = 44.5, -0.5, 8.25
    vehicle.timestamp = 1769860800
    update = made.entity.add(id="2").trip_update
    update.trip.trip_id = "t"
    for stop in ("a", "b"):
        update.stop_time_update.add(stop_id=stop).arrival.delay = 60
    return made


BUSES = """
[source]
name = "buses"
format = "gtfs-rt"
[entity]
id = "urn:x:{vehicle.vehicle.id}"
type = "Vehicle"
lat = "vehicle.position.latitude"
lon = "vehicle.position.longitude"
[time]
column = "vehicle.timestamp"
format = "unix"
[[attributes]]
name = "speed"
column = "vehicle.position.speed"
unit = "KMH"
scale = 3.6
"""


def test_feeds_become_lines_when_they_say_something_new(tmp_path: Path) -> None:
    file = tmp_path / "feed.pb"
    receiver = GtfsReceiver(str(file), tmp_path / "spool")
    receiver.turn()
    assert "No such file" in receiver.error
    for at in (1769860805, 1769860805, 1769860810):
        file.write_bytes(feed(at).SerializeToString())
        receiver.turn()
    file.write_bytes(b"no feed")
    receiver.turn()
    receiver.stop()
    found = lines(tmp_path / "spool")
    assert len(found) == 1 + 2 + 2 + 1  # the vehicle once, stops of an update without a time by each header, and what is none
    mapper = Mapper(load_mapping(BUSES))
    (one,) = mapper.checked(found[0].line, found[0].place, "1", found[0].at_us)
    assert one.said is not None
    assert (one.entity, one.said.lat, one.said.lon) == ("urn:x:bus-7", 44.5, -0.5)
    assert one.said.observed[0].value == pytest.approx(29.7)
    assert [stop.kind for stop in mapper.checked(found[1].line, "", "1", 0)] == ["no entity"]
    assert msgspec.json.decode(found[2].line)["trip_update"]["stop_time_update"]["stop_id"] == "b"
    assert [wrong.kind for wrong in mapper.checked(found[-1].line, "", "1", 0)] == [UNREADABLE]


def test_an_empty_feed_and_one_without_a_header_are_told() -> None:
    assert len(list(feed_lines(b""))) == 1
    assert list(feed_lines(pb.FeedMessage().SerializePartialToString())) == list(feed_lines(b""))


def test_what_a_killed_receiver_left_is_published_by_the_next(tmp_path: Path) -> None:
    whole = msgspec.json.encode(Envelope("p", 1, "safe")) + b"\n"
    (tmp_path / f"_{1:020d}-1.jsonl").write_bytes(whole + b'{"place": "p", "at')
    (tmp_path / f"_{2:020d}-1.jsonl").write_bytes(b"")
    spool = Spool(tmp_path)
    assert [one.line for one in lines(tmp_path)] == ["safe"]
    spool.append([("p", "next")])
    assert [one.line for one in lines(tmp_path)] == ["safe"]
    with pytest.raises(InvalidInput, match="another receiver"):
        Spool(tmp_path)
    spool.close()
    assert [one.line for one in lines(tmp_path)] == ["safe", "next"]
    Spool(tmp_path).close()


def test_what_cannot_be_received_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no MQTT broker"):
        MqttReceiver("http://x", ["a"], tmp_path, client_id="c")
    with pytest.raises(InvalidInput, match="client_id"):
        MqttReceiver("mqtt://x", ["a"], tmp_path, client_id="")
    with pytest.raises(InvalidInput, match="which entities"):
        BrokerReceiver("http://x", tmp_path)
    with pytest.raises(InvalidInput, match="seconds"):
        GtfsReceiver("feed.pb", tmp_path, every_s=0)
