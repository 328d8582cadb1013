"""A GTFS feed as entities: by hand-written expectations, with the faults of real feeds, and with rubbish."""

from __future__ import annotations

import contextlib
import io
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.agents.gtfs import StopTime, Timetable
from hanse.agents.gtfs_tables import open_feed
from hanse.model import InvalidInput

BUS = Path(__file__).parents[2] / "examples" / "agents" / "intercity-bus"
STOPS = "stop_id,stop_name,stop_lat,stop_lon\nA,Quay,35.3,25.1\n"
ROUTES = "route_id,route_short_name,route_type\nR,1,3\n"
TRIPS = "route_id,service_id,trip_id\nR,S,T\n"
SMALL = {"stops.txt": STOPS, "routes.txt": ROUTES, "trips.txt": TRIPS}


def packed(files: Mapping[str, str | bytes], folder: str = "") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(folder + name, text)
    return out.getvalue()


def read(
    content: bytes | None = None, place: str = "feed.zip", **more: Any
) -> tuple[dict[str, dict[str, Any]], list[str], Timetable]:
    refused: list[str] = []
    timetable = Timetable("bus", lambda error: refused.append(str(error)), **more)
    with open_feed(place, content) as tables:
        return {entity["id"]: entity for entity in timetable.read(tables)}, refused, timetable


def value(entity: dict[str, Any], name: str) -> Any:
    return entity[name].get("value", entity[name].get("object"))


def test_the_example_is_what_its_files_say() -> None:
    found, refused, timetable = read(place=str(BUS), with_stop_times=True)
    assert refused == []
    types = [entity["type"] for entity in found.values()]
    assert {type_: types.count(type_) for type_ in types} == {
        "GtfsAgency": 1,
        "GtfsStation": 1,
        "GtfsStop": 5,
        "GtfsAccessPoint": 1,
        "GtfsRoute": 2,
        "GtfsCalendarRule": 1,
        "GtfsCalendarDateRule": 1,
        "GtfsService": 1,
        "GtfsTrip": 3,
        "GtfsStopTime": 7,
    }
    assert found["urn:ngsi-ld:GtfsStop:bus:PORT-1"] == {
        "id": "urn:ngsi-ld:GtfsStop:bus:PORT-1",
        "type": "GtfsStop",
        "name": {"type": "Property", "value": "Port, gate 1"},
        "location": {"type": "GeoProperty", "value": {"type": "Point", "coordinates": [25.14342, 35.34331]}},
        "code": {"type": "Property", "value": "P1"},
        "zoneCode": {"type": "Property", "value": "A"},
        "wheelChairAccessible": {"type": "Property", "value": "1"},
        "hasParentStation": {"type": "Relationship", "object": "urn:ngsi-ld:GtfsStation:bus:PORT"},
    }
    station = found["urn:ngsi-ld:GtfsStation:bus:PORT"]
    assert value(station, "hasStop") == ["urn:ngsi-ld:GtfsStop:bus:PORT-1", "urn:ngsi-ld:GtfsStop:bus:PORT-2"]
    assert value(station, "hasAccessPoint") == ["urn:ngsi-ld:GtfsAccessPoint:bus:PORT-E"]
    route = found["urn:ngsi-ld:GtfsRoute:bus:R10"]
    assert [value(route, name) for name in ("routeType", "shortName", "name", "routeColor", "routeSortOrder", "operatedBy")] == [
        "3",
        "10",
        "Heraklion port - Rethymno",
        "0055A4",
        1,
        "urn:ngsi-ld:GtfsAgency:bus:ICB",
    ]
    trip = found["urn:ngsi-ld:GtfsTrip:bus:R20-0815"]
    assert [value(trip, name) for name in ("hasRoute", "hasService", "headSign", "direction", "wheelChairAccessible")] == [
        "urn:ngsi-ld:GtfsRoute:bus:R20",
        "urn:ngsi-ld:GtfsService:bus:DAILY",
        "Hersonissos",
        0,
        2,
    ]
    time = found["urn:ngsi-ld:GtfsStopTime:bus:R20-0815:2"]
    assert [value(time, name) for name in ("arrivalTime", "departureTime", "stopSequence", "hasStop", "hasTrip")] == [
        "08:27:00",
        "08:29:00",
        2,
        "urn:ngsi-ld:GtfsStop:bus:AIRPORT",
        "urn:ngsi-ld:GtfsTrip:bus:R20-0815",
    ]
    rule = found["urn:ngsi-ld:GtfsCalendarRule:bus:DAILY"]
    assert (value(rule, "monday"), value(rule, "startDate"), value(rule, "endDate")) == (True, "2026-01-01", "2026-12-31")
    assert value(found["urn:ngsi-ld:GtfsCalendarDateRule:bus:DAILY:2026-01-01"], "exceptionType") == "2"
    assert value(found["urn:ngsi-ld:GtfsAgency:bus:ICB"], "timezone") == "Europe/Athens"
    assert timetable.times["R10-0800"] == [StopTime(1, "PORT-1", 8 * 3600), StopTime(2, "RETHYMNO", 9 * 3600 + 1800)]
    assert sum(entity["type"] == "GtfsStopTime" for entity in read(place=str(BUS))[0].values()) == 0


def test_times_of_a_day_with_a_change_of_clocks_and_of_a_night_after_midnight() -> None:
    timetable = read(place=str(BUS))[2]
    now = datetime(2026, 3, 29, 12, tzinfo=UTC)

    def at(hour: int, day: str) -> str:
        return timetable.arrival("T", StopTime(1, "A", hour * 3600), day, now).isoformat()

    assert at(8, "20260328") == "2026-03-28T06:00:00+00:00"
    assert at(8, "20260329") == "2026-03-29T05:00:00+00:00"  # clocks went forward at 3 o'clock that night
    assert at(25, "20260328") == "2026-03-28T23:00:00+00:00"
    assert at(8, "") == at(8, "20260329")
    with pytest.raises(InvalidInput, match="no day"):
        at(8, "yesterday")


@pytest.mark.parametrize("folder", ["", "gtfs-2026/"])
def test_a_feed_as_real_ones_are(folder: str) -> None:
    files = SMALL | {
        "stops.txt": "\ufeffstop_id, stop_name ,stop_lat,stop_lon,extra\r\n"
        '"A","Quay ""7"", north", 35.3 ,25.1\r\n\r\nB,,35.3,25.1,x,y\r\n',
        "stop_times.txt": "trip_id,arrival_time,departure_time,stop_id,stop_sequence\nT,,,A,1\nT, 8:05:00,08:05:00,B,2\n",
    }
    found, refused, timetable = read(packed({name: text.encode() for name, text in files.items()}, folder), with_stop_times=True)
    assert refused == []
    assert value(found["urn:ngsi-ld:GtfsStop:bus:A"], "name") == 'Quay "7", north'
    assert value(found["urn:ngsi-ld:GtfsStop:bus:B"], "name") == "B"
    assert value(found["urn:ngsi-ld:GtfsStopTime:bus:T:2"], "arrivalTime") == "08:05:00"
    assert timetable.times == {"T": [StopTime(2, "B", 8 * 3600 + 300)]}


def test_rows_that_cannot_be_used_are_refused_with_file_and_line() -> None:
    files = SMALL | {
        "agency.txt": "agency_name,agency_timezone\nBus,Mars/Olympus\n",
        "stops.txt": STOPS + ",No id,1,2\nB,North,north,2\nC,Far,95,2\nD,Nan,nan,2\n",
        "routes.txt": ROUTES + "Q,2,tram\nP,3,99999\n",
        "trips.txt": TRIPS + "X,S,T2\nR,,T3\n",
        "stop_times.txt": "trip_id,arrival_time,departure_time,stop_id,stop_sequence\n"
        "T,8h,8h,A,1\nU,08:00:00,,A,1\nT,08:00:00,,A,x\n",
        "calendar.txt": "service_id,monday,start_date,end_date\nS,1,20261301,20261231\nS2,5,20260101,20261231\n",
        "calendar_dates.txt": "service_id,date,exception_type\nS,20260101,7\n",
    }
    found, refused, _ = read(packed(dict(files)))
    assert refused == [
        "agency.txt line 2: agency_timezone 'Mars/Olympus' is unknown; times are taken as UTC",
        "stops.txt line 3: stop_id is missing",
        "stops.txt line 4: stop_lat is 'north', which is no number",
        "stops.txt line 5: longitude 2, latitude 95 is no place on the earth",
        "stops.txt line 6: stop_lat is 'nan', which is no number",
        "routes.txt line 3: route_type is 'tram', which is no whole number",
        "routes.txt line 4: route_type 99999 is unknown",
        "calendar.txt line 2: start_date is '20261301', which is no day; write it like 20260501",
        "calendar.txt line 3: monday is '5'; it can be 0, 1",
        "calendar_dates.txt line 2: exception_type is '7'; it can be 1, 2",
        "trips.txt line 3: route_id 'X' is not in routes.txt",
        "trips.txt line 4: service_id is missing",
        "stop_times.txt line 2: arrival_time is '8h', which is no time; write it like 08:15:00",
        "stop_times.txt line 3: trip_id 'U' is not in trips.txt",
        "stop_times.txt line 4: stop_sequence is 'x', which is no whole number",
    ]
    assert [id_.rpartition(":")[2] for id_ in found] == ["Bus", "A", "R", "T"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "feed.zip: it is no zip file of a GTFS feed"),
        (b"PK\x03\x04 and then nothing", "feed.zip: it is no zip file of a GTFS feed"),
        (packed({"readme.txt": "hello"}), "feed.zip: there is no stops.txt in the feed"),
        (packed({"stops.txt": STOPS}), "feed.zip: there is no routes.txt in the feed"),
        (
            packed(SMALL | {"stops.txt": STOPS.encode() + b"B,K\xf6ln,1,2\n"}),
            "stops.txt after line 0: it is not UTF-8; save it as UTF-8",
        ),
        (packed(SMALL | {"stops.txt": STOPS + "B," + "x" * 200_000}), "stops.txt line 3: it is no CSV"),
    ],
)
def test_a_feed_that_cannot_be_used_says_why(content: bytes, complaint: str) -> None:
    with pytest.raises(InvalidInput) as error:
        read(content)
    assert str(error.value).startswith(complaint)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("place", ["/nowhere/feed.zip", "\0", "x" * 5000])
def test_a_place_where_nothing_is(place: str) -> None:
    with pytest.raises(InvalidInput, match="no such file"):
        read(place=place)


texts = st.text(st.sampled_from('AR1T,"\n\r 8:05.-\0é'), max_size=40) | st.binary(max_size=40)
names = st.sampled_from(["agency", "stops", "routes", "trips", "stop_times", "calendar", "calendar_dates"])
HEADS = {
    "agency": "agency_id,agency_name,agency_timezone\n",
    "stops": "stop_id,stop_name,stop_lat,stop_lon,parent_station,location_type\n",
    "routes": "route_id,route_type,route_sort_order\n",
    "trips": "route_id,service_id,trip_id,direction_id\n",
    "stop_times": "trip_id,arrival_time,stop_id,stop_sequence,shape_dist_traveled\n",
    "calendar": "service_id,monday,start_date,end_date\n",
    "calendar_dates": "service_id,date,exception_type\n",
}


@given(st.dictionaries(names, st.tuples(st.booleans(), texts)))
def test_no_table_breaks_it(tables: dict[str, tuple[bool, str | bytes]]) -> None:
    files: dict[str, str | bytes] = dict(SMALL)
    for name, (head, body) in tables.items():
        raw = body if isinstance(body, bytes) else body.encode()
        files[f"{name}.txt"] = (HEADS[name].encode() if head else b"") + raw
    try:
        found, _, _ = read(packed(files), with_stop_times=True)
    except InvalidInput:
        pass
    else:
        assert all(id_.startswith(f"urn:ngsi-ld:{entity['type']}:bus:") and id_.isprintable() for id_, entity in found.items())


@given(st.binary(max_size=200), st.integers(0, 10**6), st.booleans())
def test_no_zip_breaks_it(rubbish: bytes, place: int, cut: bool) -> None:
    good = packed(dict(SMALL))
    at = place % len(good)
    content = good[:at] if cut else good[:at] + rubbish + good[at + len(rubbish) :]
    with contextlib.suppress(InvalidInput):
        read(content)
