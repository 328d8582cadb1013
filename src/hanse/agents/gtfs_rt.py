"""GTFS-Realtime as entities of Smart Data Models.

    vehicle positions   Vehicle (Transportation), with hasTrip and hasRoute
    trip updates        ArrivalEstimation (UrbanMobility) for each stop that an update names, with the delay as trip_delay
    alerts              Alert

A feed says what is so now. Estimations and alerts that it says no more are gone; a vehicle that it says no more keeps its last
place, whose `observedAt` tells how old that is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from google.protobuf.message import DecodeError
from google.transit import gtfs_realtime_pb2 as pb

from hanse.agents.base import Gone
from hanse.agents.forms import date_time, link, now_text, point, prop, time_text
from hanse.agents.gtfs import StopTime, Timetable
from hanse.model.errors import InvalidInput

FEED_BYTES_MAX: Final = 64 << 20

# GTFS route types (the hundreds are the extended ones) as vehicle types of Smart Data Models
_VEHICLES: Final = {0: "tram", 3: "bus", 4: "passengerVessel", 5: "tram", 11: "trolley"}
_VEHICLES_EXTENDED: Final = {2: "bus", 7: "bus", 8: "trolley", 9: "tram", 10: "passengerVessel", 12: "passengerVessel"}
_SEVERITIES: Final = {"INFO": "informational", "WARNING": "medium", "SEVERE": "high"}
_CAUSES: Final = {"ACCIDENT": "carAccident", "CONSTRUCTION": "roadWorks", "MAINTENANCE": "roadWorks"}
_KMH: Final = 3.6  # of one metre per second

Entity = dict[str, Any]


def parse_feed(content: bytes, place: str) -> Any:
    """The message. Raises InvalidInput for bytes that are none."""
    feed = pb.FeedMessage()
    try:
        feed.ParseFromString(content)
        whole = feed.IsInitialized()
    except (DecodeError, UnicodeDecodeError, RuntimeError, ValueError) as error:
        raise InvalidInput(f"it is no GTFS-Realtime message: {error}", place=place) from error
    if not whole:
        raise InvalidInput("it is no GTFS-Realtime message: it has no header", place=place)
    return feed


def feed_time(feed: Any) -> str:
    """When the feed says that it was made; else now."""
    try:
        return time_text(feed.header.timestamp) if feed.header.timestamp else now_text()
    except InvalidInput:
        return now_text()


class Realtime:
    """Feeds of one place, one after the other."""

    def __init__(self, place: str, timetable: Timetable, refuse: Callable[[InvalidInput], None]) -> None:
        self._place = place
        self._table = timetable
        self._refuse = refuse
        self._passing: set[str] = set()  # estimations and alerts of the last feed

    def adapt(self, feed: Any, at: str) -> Iterator[Entity | Gone]:
        now: set[str] = set()
        partial = feed.header.incrementality == pb.FeedHeader.DIFFERENTIAL
        for message in feed.entity:
            try:
                for made in self._entities(message, at):
                    if isinstance(made, dict) and made["type"] != "Vehicle":
                        now.add(made["id"])
                    yield made
            except InvalidInput as error:
                self._refuse(error.at(f"{self._place}: entity {_named(message)}"))
            except UnicodeDecodeError:
                self._refuse(InvalidInput(f"{self._place}: entity {_named(message)}: a text in it is not UTF-8"))
        if not partial:
            yield from (Gone(id_) for id_ in sorted(self._passing - now))
            self._passing = now
        else:
            self._passing |= now

    def passing(self, ids: set[str]) -> None:
        """Estimations and alerts that the node has from an earlier run."""
        self._passing |= ids

    def _entities(self, message: Any, at: str) -> Iterator[Entity | Gone]:
        if message.is_deleted:
            alert = self._table.id("Alert", message.id)
            if alert in self._passing:
                yield Gone(alert)
            return
        if message.HasField("vehicle"):
            yield self._vehicle(message.vehicle, message.id, at)
        if message.HasField("trip_update"):
            yield from self._estimations(message.trip_update, at)
        if message.HasField("alert"):
            yield self._alert(message.alert, message.id)

    # --- vehicle positions --------------------------------------------------------------------------------------------

    def _vehicle(self, vehicle: Any, entity_id: str, at: str) -> Entity:
        if not vehicle.HasField("position"):
            raise InvalidInput("the vehicle has no position")
        at = time_text(vehicle.timestamp) if vehicle.timestamp else at
        position, named, trip = vehicle.position, vehicle.vehicle, vehicle.trip
        id_ = named.id or named.label or named.license_plate or trip.trip_id or entity_id
        route = self._route(trip)
        entity: Entity = {
            "id": self._table.id("Vehicle", id_),
            "type": "Vehicle",
            "vehicleType": prop(vehicle_type(self._table.route_types.get(route))),
            "category": prop(["public", "tracked"]),
            "serviceProvided": prop(["urbanTransit"]),
            "serviceStatus": prop("onRoute" if trip.trip_id or route else "outOfService"),
            "location": point(round(position.longitude, 5), round(position.latitude, 5), at=at),  # they are 32-bit numbers
        }
        if position.HasField("speed") and math.isfinite(position.speed) and position.speed >= 0:
            entity["speed"] = prop(round(position.speed * _KMH, 1), unit="KMH", at=at)
        if position.HasField("bearing") and math.isfinite(position.bearing):
            entity["bearing"] = prop(round(position.bearing % 360, 1), unit="DD", at=at)
        if position.HasField("odometer") and math.isfinite(position.odometer):
            entity["mileageFromOdometer"] = prop(round(position.odometer), unit="MTR", at=at)
        for name, text in (("fleetVehicleId", named.id), ("name", named.label), ("vehiclePlateIdentifier", named.license_plate)):
            if text:
                entity[name] = prop(text)
        for name in ("current_status", "occupancy_status", "congestion_level"):
            if vehicle.HasField(name):
                entity[name] = prop(_word(vehicle, name), at=at)
        if vehicle.HasField("current_stop_sequence"):
            entity["current_stop_sequence"] = prop(vehicle.current_stop_sequence, at=at)
        if vehicle.stop_id:
            entity["hasStop"] = link([self._table.id("GtfsStop", vehicle.stop_id)])
        if trip.trip_id:
            entity["hasTrip"] = link(self._table.id("GtfsTrip", trip.trip_id))
        if route:
            entity["hasRoute"] = link(self._table.id("GtfsRoute", route))
        return entity

    def _route(self, trip: Any) -> str:
        known = self._table.trips.get(trip.trip_id)
        return trip.route_id or (known.route if known else "")

    # --- trip updates -------------------------------------------------------------------------------------------------

    def _estimations(self, update: Any, at: str) -> Iterator[Entity]:
        trip = update.trip.trip_id
        if not trip:
            raise InvalidInput("the trip update names no trip")
        if update.trip.schedule_relationship == pb.TripDescriptor.CANCELED:
            return
        now = update.timestamp or datetime.fromisoformat(at).timestamp()
        stamp = time_text(update.timestamp) if update.timestamp else at
        for stop in update.stop_time_update:
            if stop.schedule_relationship != pb.TripUpdate.StopTimeUpdate.SCHEDULED:
                continue
            try:
                yield self._estimation(update, stop, now, stamp)
            except InvalidInput as error:
                self._refuse(error.at(f"{self._place}: trip {trip}"))

    def _estimation(self, update: Any, stop: Any, now: float, at: str) -> Entity:
        trip = update.trip.trip_id
        due = self._due(trip, stop)
        stop_id = stop.stop_id or (due.stop if due else "")
        if not stop_id:
            raise InvalidInput(f"stop {stop.stop_sequence} is neither named nor in the timetable")
        event = stop.arrival if stop.HasField("arrival") else stop.departure
        scheduled = None
        if due is not None:
            moment = datetime.fromtimestamp(min(max(now, 0), 4e9), UTC)
            scheduled = self._table.arrival(trip, due, update.trip.start_date, moment).timestamp()
        known = self._table.trips.get(trip)
        route = self._route(update.trip)
        parts = (trip, stop_id, str(stop.stop_sequence)) if stop.HasField("stop_sequence") else (trip, stop_id)
        entity: Entity = {
            "id": self._table.id("ArrivalEstimation", *parts),
            "type": "ArrivalEstimation",
            "hasStop": link([self._table.id("GtfsStop", stop_id)]),
            "hasTrip": link(self._table.id("GtfsTrip", trip)),
        }
        if route:
            entity["hasRoute"] = link(self._table.id("GtfsRoute", route))
        if known and known.head_sign:
            entity["headSign"] = prop(known.head_sign)
        arrival = event.time or (scheduled + event.delay if scheduled is not None else None)
        delay = event.delay if event.HasField("delay") else round(arrival - scheduled) if arrival and scheduled else None
        if delay is not None:
            entity["trip_delay"] = prop(delay, unit="SEC")
        if arrival is not None:
            entity["arrivalTime"] = date_time(time_text(arrival))
            entity["remainingTime"] = prop(duration(arrival - now), at=at)
        if arrival is None and delay is None:
            raise InvalidInput(f"stop {stop_id} has neither a time nor a delay")
        return entity

    def _due(self, trip: str, stop: Any) -> StopTime | None:
        for time in self._table.times.get(trip, ()):
            if (time.sequence == stop.stop_sequence) if stop.HasField("stop_sequence") else (time.stop == stop.stop_id):
                return time
        return None

    # --- alerts -------------------------------------------------------------------------------------------------------

    def _alert(self, alert: Any, entity_id: str) -> Entity:
        header, text = said(alert.header_text), said(alert.description_text)
        if not header and not text:
            raise InvalidInput("the alert says nothing")
        entity: Entity = {
            "id": self._table.id("Alert", entity_id),
            "type": "Alert",
            "category": prop("traffic"),
            "description": prop(text or header),
            "alertSource": prop(self._place),
        }
        if header:
            entity["name"] = prop(header)
        if severity := _SEVERITIES.get(_word(alert, "severity_level")):
            entity["severity"] = prop(severity)
        cause, effect = _word(alert, "cause"), _word(alert, "effect")
        if cause in _CAUSES:
            entity["subCategory"] = prop(_CAUSES[cause])
        entity["data"] = prop({"cause": cause, "effect": effect} | ({"url": url} if (url := said(alert.url)) else {}))
        starts = [period.start for period in alert.active_period if period.start]
        ends = [period.end for period in alert.active_period]
        if starts:
            entity["validFrom"] = date_time(time_text(min(starts)))
        if ends and all(ends):
            entity["validTo"] = date_time(time_text(max(ends)))
        concerned: dict[str, dict[str, None]] = {}
        for informed in alert.informed_entity:
            for name, type_, text in (
                ("hasRoute", "GtfsRoute", informed.route_id or informed.trip.route_id),
                ("hasStop", "GtfsStop", informed.stop_id),
                ("hasTrip", "GtfsTrip", informed.trip.trip_id),
                ("operatedBy", "GtfsAgency", informed.agency_id),
            ):
                if text:
                    concerned.setdefault(name, {})[self._table.id(type_, text)] = None
        return entity | {name: link(ids) for name, ids in concerned.items()}


def vehicle_type(route_type: int | None) -> str:
    """The structural type of what runs on such a route."""
    if route_type is None:
        return "anyVehicle"
    found = _VEHICLES_EXTENDED.get(route_type // 100) if route_type >= 100 else _VEHICLES.get(route_type)
    return found or "publicMotor"


def duration(seconds: float) -> str:
    """ISO 8601, at least nothing."""
    whole = max(0, round(seconds))
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    text = "".join(f"{number}{unit}" for number, unit in ((hours, "H"), (minutes, "M"), (rest, "S")) if number)
    return f"PT{text or '0S'}"


def said(translated: Any) -> str:
    """A text in the feed's own language, in English, or in whichever there is."""
    texts = {part.language.partition("-")[0].lower(): part.text for part in reversed(translated.translation)}
    return texts.get("") or texts.get("en") or next((text for text in texts.values() if text), "")


def _word(message: Any, name: str) -> str:
    found = message.DESCRIPTOR.fields_by_name[name].enum_type.values_by_number.get(getattr(message, name))
    return found.name if found else ""


def _named(message: Any) -> str:
    try:
        return repr(message.id[:60])
    except UnicodeDecodeError:
        return "without a name"
