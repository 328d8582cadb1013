"""GTFS, the timetable of public transport, as entities of Smart Data Models (UrbanMobility).

    agency.txt          GtfsAgency
    stops.txt           GtfsStop, GtfsStation, GtfsAccessPoint
    routes.txt          GtfsRoute
    calendar*.txt       GtfsService, GtfsCalendarRule, GtfsCalendarDateRule
    trips.txt           GtfsTrip
    stop_times.txt      GtfsStopTime (on demand: there are many), and the times that real-time delays refer to

A row that cannot be used is refused with its file and line; the others are not touched by it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from hanse.agents.forms import link, point, prop, urn
from hanse.agents.gtfs_tables import Row, Tables
from hanse.model.errors import InvalidInput

TIMES_MAX: Final = 5_000_000  # stop times that are remembered for delays; beyond, a delay comes without a time of arrival
_STOP_TYPES: Final = {"": "GtfsStop", "0": "GtfsStop", "1": "GtfsStation", "2": "GtfsAccessPoint"}
_WEEK: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_ROUTE_TYPE_MAX: Final = 1702  # of the extended route types

Entity = dict[str, Any]
Refuse = Callable[[InvalidInput], None]


class Trip(Struct, frozen=True):
    route: str
    head_sign: str


class StopTime(Struct, frozen=True):
    sequence: int
    stop: str
    arrival_s: int  # since the day of service began


class Timetable:
    """A feed, as entities and as what real-time messages refer to. `name` keeps the ids of several feeds apart."""

    def __init__(self, name: str, refuse: Refuse, *, with_stop_times: bool = False) -> None:
        self.name = name
        self._refuse = refuse
        self._with_stop_times = with_stop_times
        self.zone: ZoneInfo | None = None
        self.trips: dict[str, Trip] = {}
        self.route_types: dict[str, int] = {}
        self.times: dict[str, list[StopTime]] = {}
        self._times_count = 0

    def id(self, type_: str, *parts: str) -> str:
        return urn(type_, self.name, *parts)

    def read(self, tables: Tables) -> Iterator[Entity]:
        """Every entity of the feed. What real-time messages need is there when the last one has been taken."""
        self.zone, self._times_count = None, 0
        for known in (self.trips, self.route_types, self.times):
            known.clear()
        agencies = list(self._each(tables, "agency.txt", lambda row: row, optional=True))
        only = self._agency_id(agencies[0]) if len(agencies) == 1 else ""
        yield from self._of(agencies, self._agency)
        yield from self._stops(tables)
        yield from self._each(tables, "routes.txt", lambda row: self._route(row, only))
        services: dict[str, None] = {}
        for file, make in (("calendar.txt", self._calendar), ("calendar_dates.txt", self._calendar_date)):
            for row, entity in self._each(tables, file, lambda row, make=make: (row, make(row)), optional=True):  # type: ignore[misc]
                services[row.get("service_id")] = None
                yield entity
        for service in services:
            entity = {"id": self.id("GtfsService", service), "type": "GtfsService", "name": prop(service)}
            yield entity | ({"operatedBy": link(only)} if only else {})
        yield from self._each(tables, "trips.txt", self._trip)
        for entity in self._each(tables, "stop_times.txt", self._stop_time, optional=True):
            if self._with_stop_times:
                yield entity
        for times in self.times.values():
            times.sort(key=lambda time: time.sequence)

    def arrival(self, trip: str, time: StopTime, start_date: str, now: datetime) -> datetime:
        """When a trip is due at a stop. Days of service begin twelve hours before noon, whatever the clocks do that night."""
        zone = self.zone or UTC
        try:
            day = datetime.strptime(start_date, "%Y%m%d") if start_date else now.astimezone(zone)  # noqa: DTZ007
            noon = day.replace(hour=12, minute=0, second=0, microsecond=0, tzinfo=zone).astimezone(UTC)
            return noon + timedelta(seconds=time.arrival_s - 12 * 3600)
        except (ValueError, OverflowError) as error:
            raise InvalidInput(f"the start date {start_date[:20]!r} of trip {trip!r} is no day") from error

    # --- tables -------------------------------------------------------------------------------------------------------

    def _each(self, tables: Tables, file: str, make: Callable[[Row], Any], *, optional: bool = False) -> Iterator[Any]:
        yield from self._of(tables.rows(file, optional=optional), make)

    def _of(self, rows: Any, make: Callable[[Row], Any]) -> Iterator[Any]:
        for row in rows:
            try:
                made = make(row)
            except InvalidInput as error:
                self._refuse(error)
            else:
                yield made

    def _agency_id(self, row: Row) -> str:
        return self.id("GtfsAgency", row.get("agency_id") or row.get("agency_name"))

    def _agency(self, row: Row) -> Entity:
        entity = {"id": self._agency_id(row), "type": "GtfsAgency", "agencyName": prop(row.need("agency_name"))}
        names = (("page", "agency_url"), ("timezone", "agency_timezone"), ("language", "agency_lang"), ("phone", "agency_phone"))
        if self.zone is None and row.get("agency_timezone"):
            try:
                self.zone = ZoneInfo(row.get("agency_timezone"))
            except (ZoneInfoNotFoundError, ValueError, OSError):
                self._refuse(row.wrong(f"agency_timezone {row.get('agency_timezone')[:40]!r} is unknown; times are taken as UTC"))
        return entity | _texts(row, names) | {"source": prop(row.get("agency_url") or self.name)}

    def _stops(self, tables: Tables) -> Iterator[Entity]:
        """Stations name their stops, which stand anywhere in the file: all rows are read before the first is adapted."""
        rows = list(tables.rows("stops.txt"))
        types = {row.get("stop_id"): _STOP_TYPES.get(row.get("location_type"), "") for row in rows}
        below: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for row in rows:
            type_ = types[row.get("stop_id")]
            if row.get("parent_station") and type_:
                below[row.get("parent_station")][type_].append(self.id(type_, row.get("stop_id")))
        yield from self._of(rows, lambda row: self._stop(row, types, below.get(row.get("stop_id"), {})))

    def _stop(self, row: Row, types: dict[str, str], below: Any) -> Entity:
        stop = row.need("stop_id")
        type_ = _STOP_TYPES.get(row.get("location_type"))
        if type_ is None:
            raise row.wrong(f"location_type {row.get('location_type')[:40]!r} has no Smart Data Model; the stop is left out")
        try:
            place = point(row.number("stop_lon"), row.number("stop_lat"))
        except InvalidInput as error:
            raise error if error.place else row.wrong(error.message) from error
        entity = {"id": self.id(type_, stop), "type": type_, "name": prop(row.get("stop_name") or stop), "location": place}
        names = (("code", "stop_code"), ("page", "stop_url"), ("zoneCode", "zone_id"), ("stop_desc", "stop_desc"))
        entity |= _texts(row, names) | _text("wheelChairAccessible", row.one_of("wheelchair_boarding", "012"))
        parent = row.get("parent_station")
        if parent:
            entity["hasParentStation"] = link(self.id(types.get(parent) or "GtfsStation", parent))
        for name, kind in (("hasStop", "GtfsStop"), ("hasAccessPoint", "GtfsAccessPoint")):
            if below.get(kind):
                entity[name] = link(below[kind])
        return entity

    def _route(self, row: Row, only_agency: str) -> Entity:
        route = row.need("route_id")
        type_ = row.whole("route_type")
        if type_ > _ROUTE_TYPE_MAX:
            raise row.wrong(f"route_type {type_} is unknown")
        self.route_types[route] = type_
        entity = {"id": self.id("GtfsRoute", route), "type": "GtfsRoute", "routeType": prop(str(type_))}
        entity["name"] = prop(row.get("route_long_name") or row.get("route_short_name") or route)
        names = (
            ("shortName", "route_short_name"),
            ("page", "route_url"),
            ("routeColor", "route_color"),
            ("routeTextColor", "route_text_color"),
            ("description", "route_desc"),
        )
        entity |= _texts(row, names)
        if row.get("route_sort_order"):
            entity["routeSortOrder"] = prop(row.whole("route_sort_order"))
        agency = self.id("GtfsAgency", row.get("agency_id")) if row.get("agency_id") else only_agency
        return entity | ({"operatedBy": link(agency)} if agency else {})

    def _calendar(self, row: Row) -> Entity:
        service = row.need("service_id")
        entity: Entity = {"id": self.id("GtfsCalendarRule", service), "type": "GtfsCalendarRule"}
        entity |= {"hasService": link(self.id("GtfsService", service))}
        entity |= {day: prop(row.one_of(day, "01") == "1") for day in _WEEK}
        return entity | {"startDate": prop(row.day("start_date")), "endDate": prop(row.day("end_date"))}

    def _calendar_date(self, row: Row) -> Entity:
        service, day = row.need("service_id"), row.day("date")
        kind = row.one_of("exception_type", "12") or "1"
        entity: Entity = {"id": self.id("GtfsCalendarDateRule", service, day), "type": "GtfsCalendarDateRule"}
        return entity | {
            "hasService": link(self.id("GtfsService", service)),
            "appliesOn": prop(day),
            "exceptionType": prop(kind),
        }

    def _trip(self, row: Row) -> Entity:
        trip, route, service = row.need("trip_id"), row.need("route_id"), row.need("service_id")
        if route not in self.route_types:
            raise row.wrong(f"route_id {route[:40]!r} is not in routes.txt")
        self.trips[trip] = Trip(route, row.get("trip_headsign"))
        entity = {"id": self.id("GtfsTrip", trip), "type": "GtfsTrip", "hasRoute": link(self.id("GtfsRoute", route))}
        entity |= {"hasService": link(self.id("GtfsService", service))}
        entity |= _texts(row, (("headSign", "trip_headsign"), ("shortName", "trip_short_name"), ("block", "block_id")))
        for name, column, allowed in (
            ("direction", "direction_id", "01"),
            ("wheelChairAccessible", "wheelchair_accessible", "012"),
            ("bikesAllowed", "bikes_allowed", "012"),
        ):
            if digit := row.one_of(column, allowed):
                entity[name] = prop(int(digit))
        return entity

    def _stop_time(self, row: Row) -> Entity:
        trip, stop, sequence = row.need("trip_id"), row.need("stop_id"), row.whole("stop_sequence")
        if trip not in self.trips:
            raise row.wrong(f"trip_id {trip[:40]!r} is not in trips.txt")
        arrival, departure = (row.clock(name) if row.get(name) else None for name in ("arrival_time", "departure_time"))
        due = arrival if arrival is not None else departure
        if due is not None and self._times_count < TIMES_MAX:
            self.times.setdefault(trip, []).append(StopTime(sequence, stop, due))
            self._times_count += 1
        if not self._with_stop_times:
            return {}
        entity: Entity = {"id": self.id("GtfsStopTime", trip, str(sequence)), "type": "GtfsStopTime"}
        entity |= {"hasTrip": link(self.id("GtfsTrip", trip)), "hasStop": link(self.id("GtfsStop", stop))}
        entity |= {"stopSequence": prop(sequence)}
        for name, seconds in (("arrivalTime", arrival), ("departureTime", departure)):
            if seconds is not None:
                entity[name] = prop(f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}")
        if row.get("shape_dist_traveled"):
            entity["distanceTravelled"] = prop(row.number("shape_dist_traveled"))
        entity |= _texts(row, (("stopHeadsign", "stop_headsign"),))
        for name, column, allowed in (
            ("pickupType", "pickup_type", "0123"),
            ("dropOffType", "drop_off_type", "0123"),
            ("timepoint", "timepoint", "01"),
        ):
            entity |= _text(name, row.one_of(column, allowed))
        return entity


def _text(name: str, value: str) -> Entity:
    return {name: prop(value)} if value else {}


def _texts(row: Row, names: tuple[tuple[str, str], ...]) -> Entity:
    """Attributes that are the text of a column, where there is one."""
    return {name: prop(row.get(column)) for name, column in names if row.get(column)}
