"""GTFS-Realtime as entities: by hand-written expectations, and with rubbish."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from google.transit import gtfs_realtime_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st

from hanse.agents import Gone
from hanse.agents.gtfs import Timetable
from hanse.agents.gtfs_rt import Realtime, duration, feed_time, parse_feed, said, vehicle_type
from hanse.agents.gtfs_tables import open_feed
from hanse.model import InvalidInput

BUS = Path(__file__).parents[2] / "examples" / "agents" / "intercity-bus"
NOW = 1_777_615_200  # 2026-05-01, 9 o'clock in Athens
AT = "2026-05-01T06:00:00.000Z"


class Reader:
    def __init__(self, *, with_timetable: bool = True) -> None:
        self.refused: list[str] = []
        timetable = Timetable("bus", lambda error: self.refused.append(str(error)))
        if with_timetable:
            with open_feed(str(BUS)) as tables:
                list(timetable.read(tables))
        self.realtime = Realtime("rt.pb", timetable, lambda error: self.refused.append(str(error)))

    def read(self, feed: Any) -> list[Any]:
        parsed = parse_feed(feed if isinstance(feed, bytes) else feed.SerializeToString(), "rt.pb")
        return list(self.realtime.adapt(parsed, feed_time(parsed)))


def message(**header: Any) -> Any:
    feed = pb.FeedMessage()
    feed.header.gtfs_realtime_version = "2.0"
    feed.header.timestamp = header.pop("timestamp", NOW)
    for name, value in header.items():
        setattr(feed.header, name, value)
    return feed


def bus(feed: Any, **trip: Any) -> Any:
    vehicle = feed.entity.add(id="1").vehicle
    vehicle.vehicle.id = "17"
    vehicle.position.longitude, vehicle.position.latitude = 25.14, 35.34
    for name, value in trip.items():
        setattr(vehicle.trip, name, value)
    return vehicle


def test_a_vehicle_with_all_that_can_be_said_of_it() -> None:
    feed = message()
    vehicle = bus(feed, trip_id="R20-0815")
    vehicle.vehicle.label, vehicle.vehicle.license_plate = "20 Hersonissos", "HKH 2121"
    vehicle.position.speed, vehicle.position.bearing, vehicle.position.odometer = 10.0, 450.0, 1234.4
    vehicle.current_status = pb.VehiclePosition.STOPPED_AT
    vehicle.occupancy_status = pb.VehiclePosition.FEW_SEATS_AVAILABLE
    vehicle.current_stop_sequence, vehicle.stop_id, vehicle.timestamp = 2, "AIRPORT", NOW - 7
    at = {"observedAt": "2026-05-01T05:59:53.000Z"}
    assert Reader().read(feed) == [
        {
            "id": "urn:ngsi-ld:Vehicle:bus:17",
            "type": "Vehicle",
            "vehicleType": {"type": "Property", "value": "bus"},
            "category": {"type": "Property", "value": ["public", "tracked"]},
            "serviceProvided": {"type": "Property", "value": ["urbanTransit"]},
            "serviceStatus": {"type": "Property", "value": "onRoute"},
            "location": {"type": "GeoProperty", "value": {"type": "Point", "coordinates": [25.14, 35.34]}, **at},
            "speed": {"type": "Property", "value": 36.0, "unitCode": "KMH", **at},
            "bearing": {"type": "Property", "value": 90.0, "unitCode": "DD", **at},
            "mileageFromOdometer": {"type": "Property", "value": 1234, "unitCode": "MTR", **at},
            "fleetVehicleId": {"type": "Property", "value": "17"},
            "name": {"type": "Property", "value": "20 Hersonissos"},
            "vehiclePlateIdentifier": {"type": "Property", "value": "HKH 2121"},
            "current_status": {"type": "Property", "value": "STOPPED_AT", **at},
            "occupancy_status": {"type": "Property", "value": "FEW_SEATS_AVAILABLE", **at},
            "current_stop_sequence": {"type": "Property", "value": 2, **at},
            "hasStop": {"type": "Relationship", "object": ["urn:ngsi-ld:GtfsStop:bus:AIRPORT"]},
            "hasTrip": {"type": "Relationship", "object": "urn:ngsi-ld:GtfsTrip:bus:R20-0815"},
            "hasRoute": {"type": "Relationship", "object": "urn:ngsi-ld:GtfsRoute:bus:R20"},
        }
    ]


def test_a_vehicle_of_which_little_is_known() -> None:
    feed = message()
    bus(feed)
    (found,) = Reader(with_timetable=False).read(feed)
    assert found["location"]["observedAt"] == AT
    assert (found["vehicleType"]["value"], found["serviceStatus"]["value"]) == ("anyVehicle", "outOfService")
    assert not {"hasTrip", "hasRoute", "speed", "bearing"} & set(found)


def test_places_and_speeds_that_are_none() -> None:
    feed = message()
    bus(feed).position.speed = math.nan
    bus(feed).position.latitude = 91.0
    bus(feed).position.longitude = math.inf
    feed.entity.add(id="2").vehicle.vehicle.id = "no position"
    reader = Reader()
    (found,) = reader.read(feed)
    assert "speed" not in found
    assert [reason.replace("rt.pb: entity ", "") for reason in reader.refused] == [
        "'1': longitude 25.14, latitude 91 is no place on the earth",
        "'1': longitude inf, latitude 35.34 is no place on the earth",
        "'2': the vehicle has no position",
    ]


def update(feed: Any, trip: str = "R20-0815", date: str = "20260501") -> Any:
    made = feed.entity.add(id="u").trip_update
    made.trip.trip_id, made.trip.start_date = trip, date
    return made


def test_delays_become_estimations_by_the_timetable() -> None:
    feed = message()
    change = update(feed)
    change.stop_time_update.add(stop_sequence=3).arrival.delay = 180  # due at 9:00 in Athens, which is now
    change.stop_time_update.add(stop_id="AIRPORT").arrival.time = NOW + 485
    change.stop_time_update.add(stop_sequence=1, schedule_relationship=pb.TripUpdate.StopTimeUpdate.SKIPPED).arrival.delay = 1
    by_delay, by_time = Reader().read(feed)
    assert by_delay == {
        "id": "urn:ngsi-ld:ArrivalEstimation:bus:R20-0815:HERSONISSOS:3",
        "type": "ArrivalEstimation",
        "hasStop": {"type": "Relationship", "object": ["urn:ngsi-ld:GtfsStop:bus:HERSONISSOS"]},
        "hasTrip": {"type": "Relationship", "object": "urn:ngsi-ld:GtfsTrip:bus:R20-0815"},
        "hasRoute": {"type": "Relationship", "object": "urn:ngsi-ld:GtfsRoute:bus:R20"},
        "headSign": {"type": "Property", "value": "Hersonissos"},
        "trip_delay": {"type": "Property", "value": 180, "unitCode": "SEC"},
        "arrivalTime": {"type": "Property", "value": {"@type": "DateTime", "@value": "2026-05-01T06:03:00.000Z"}},
        "remainingTime": {"type": "Property", "value": "PT3M", "observedAt": AT},
    }
    assert by_time["remainingTime"]["value"] == "PT8M5S"
    assert by_time["trip_delay"]["value"] == 33 * 60 + 485  # due at 8:27


def test_estimations_without_a_timetable_and_without_sense() -> None:
    feed = message()
    change = update(feed, "UNKNOWN")
    change.stop_time_update.add(stop_id="A").arrival.delay = 60
    change.stop_time_update.add(stop_id="B").departure.time = NOW + 60
    change.stop_time_update.add(stop_id="C")
    change.stop_time_update.add(stop_sequence=9).arrival.delay = 60
    change.stop_time_update.add(stop_id="D").arrival.time = 2**62
    update(feed, "")
    cancelled = update(feed)
    cancelled.trip.schedule_relationship = pb.TripDescriptor.CANCELED
    cancelled.stop_time_update.add(stop_id="AIRPORT").arrival.delay = 60
    odd = update(feed, date="2026-05-01")
    odd.stop_time_update.add(stop_id="AIRPORT").arrival.delay = 60
    reader = Reader()
    first, second = reader.read(feed)
    assert (first["trip_delay"]["value"], "arrivalTime" in first) == (60, False)
    assert second["remainingTime"]["value"] == "PT1M"
    assert [reason.rpartition(": ")[2] for reason in reader.refused] == [
        "stop C has neither a time nor a delay",
        "stop 9 is neither named nor in the timetable",
        f"{2**62} is no time in seconds since 1970",
        "the trip update names no trip",
        "the start date '2026-05-01' of trip 'R20-0815' is no day",
    ]


def test_an_alert() -> None:
    feed = message()
    alert = feed.entity.add(id="a1").alert
    alert.cause, alert.effect, alert.severity_level = pb.Alert.ACCIDENT, pb.Alert.DETOUR, pb.Alert.SEVERE
    alert.active_period.add(start=NOW, end=NOW + 60)
    alert.active_period.add(start=NOW + 120, end=NOW + 180)
    alert.informed_entity.add(route_id="R20")
    alert.informed_entity.add(route_id="R20", stop_id="AIRPORT")
    alert.informed_entity.add(agency_id="ICB").trip.trip_id = "R20-0815"
    alert.header_text.translation.add(text="Ατύχημα", language="el")
    alert.header_text.translation.add(text="Accident", language="en-GB")
    feed.entity.add(id="a2").alert.cause = pb.Alert.ACCIDENT
    reader = Reader()
    assert reader.read(feed) == [
        {
            "id": "urn:ngsi-ld:Alert:bus:a1",
            "type": "Alert",
            "category": {"type": "Property", "value": "traffic"},
            "description": {"type": "Property", "value": "Accident"},
            "alertSource": {"type": "Property", "value": "rt.pb"},
            "name": {"type": "Property", "value": "Accident"},
            "severity": {"type": "Property", "value": "high"},
            "subCategory": {"type": "Property", "value": "carAccident"},
            "data": {"type": "Property", "value": {"cause": "ACCIDENT", "effect": "DETOUR"}},
            "validFrom": {"type": "Property", "value": {"@type": "DateTime", "@value": AT}},
            "validTo": {"type": "Property", "value": {"@type": "DateTime", "@value": "2026-05-01T06:03:00.000Z"}},
            "hasRoute": {"type": "Relationship", "object": ["urn:ngsi-ld:GtfsRoute:bus:R20"]},
            "hasStop": {"type": "Relationship", "object": ["urn:ngsi-ld:GtfsStop:bus:AIRPORT"]},
            "hasTrip": {"type": "Relationship", "object": ["urn:ngsi-ld:GtfsTrip:bus:R20-0815"]},
            "operatedBy": {"type": "Relationship", "object": ["urn:ngsi-ld:GtfsAgency:bus:ICB"]},
        }
    ]
    assert reader.refused == ["rt.pb: entity 'a2': the alert says nothing"]


def test_what_a_feed_says_no_more_is_gone_except_vehicles() -> None:
    reader = Reader()
    full = message()
    bus(full)
    update(full).stop_time_update.add(stop_sequence=2).arrival.delay = 60
    full.entity.add(id="a").alert.header_text.translation.add(text="Strike")
    assert len(reader.read(full)) == 3
    part = message(incrementality=pb.FeedHeader.DIFFERENTIAL)
    part.entity.add(id="b").alert.header_text.translation.add(text="Rain")
    part.entity.add(id="never", is_deleted=True)
    assert len(reader.read(part)) == 1
    part = message(incrementality=pb.FeedHeader.DIFFERENTIAL)
    part.entity.add(id="b", is_deleted=True)
    assert reader.read(part) == [Gone("urn:ngsi-ld:Alert:bus:b")]
    gone = reader.read(message())
    assert Gone("urn:ngsi-ld:ArrivalEstimation:bus:R20-0815:AIRPORT:2") in gone
    assert Gone("urn:ngsi-ld:Alert:bus:a") in gone
    assert reader.read(message()) == []


@pytest.mark.parametrize(
    ("route_type", "expected"),
    [
        (None, "anyVehicle"),
        (3, "bus"),
        (0, "tram"),
        (4, "passengerVessel"),
        (1, "publicMotor"),
        (702, "bus"),
        (1000, "passengerVessel"),
    ],
)
def test_vehicle_types(route_type: int | None, expected: str) -> None:
    assert vehicle_type(route_type) == expected


def test_durations_and_languages() -> None:
    assert [duration(seconds) for seconds in (-5, 0, 59.6, 485, 3600, 90061)] == [
        "PT0S",
        "PT0S",
        "PT1M",
        "PT8M5S",
        "PT1H",
        "PT25H1M1S",
    ]
    text = pb.TranslatedString()
    assert said(text) == ""
    text.translation.add(text="Bonjour", language="fr")
    assert said(text) == "Bonjour"
    text.translation.add(text="plain")
    assert said(text) == "plain"


@pytest.mark.parametrize("content", [b"", b"\x00", b"not protobuf", b"<html>404</html>", b"\x0a\x00"])
def test_bytes_that_are_no_message(content: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"rt\.pb: it is no GTFS-Realtime message"):
        parse_feed(content, "rt.pb")


def example() -> bytes:
    feed = message()
    bus(feed, trip_id="R20-0815").position.speed = 5
    update(feed).stop_time_update.add(stop_sequence=2).arrival.delay = 60
    feed.entity.add(id="a").alert.header_text.translation.add(text="Strike")
    return bytes(feed.SerializeToString())


@given(st.binary(max_size=60), st.integers(0, 10**6))
def test_no_bytes_break_it(rubbish: bytes, place: int) -> None:
    good = example()
    at = place % len(good)
    for content in (rubbish, good[:at] + rubbish + good[at:], good[:at] + rubbish + good[at + len(rubbish) :]):
        reader = Reader(with_timetable=False)
        try:
            found = reader.read(content)
        except InvalidInput:
            pass
        else:
            assert all(isinstance(item, Gone) or item["id"].startswith("urn:ngsi-ld:") for item in found)


wild = st.sampled_from([0, 1, 2**31, 2**62, 2**63 - 1]) | st.integers(0, 2**63 - 1)


@given(st.floats(width=32), st.floats(width=32), wild, wild, wild, st.text(max_size=9), st.integers(-(2**31), 2**31 - 1))
def test_no_values_break_it(lon: float, lat: float, made: int, seen: int, due: int, name: str, delay: int) -> None:
    feed = message(timestamp=made)
    vehicle = bus(feed, trip_id=name)
    vehicle.position.longitude, vehicle.position.latitude, vehicle.timestamp = lon, lat, seen
    vehicle.position.speed = vehicle.position.bearing = vehicle.position.odometer = lat
    change = update(feed, "R20-0815", name)
    change.timestamp = seen
    change.stop_time_update.add(stop_sequence=2).arrival.delay = delay
    change.stop_time_update.add(stop_sequence=3).arrival.time = due
    feed.entity.add(id=name).alert.active_period.add(start=made, end=due)
    feed.entity[-1].alert.header_text.translation.add(text=name)
    Reader().read(feed)
