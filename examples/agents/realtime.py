"""A GTFS-Realtime feed for the intercity bus of this folder: two buses, delays, an alert, as of now or of a time that is given.

    python examples/agents/realtime.py OUT.pb [--step 3] [--at 1777615200]

Each step moves the buses on.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from google.transit import gtfs_realtime_pb2 as pb

ROUTES = {
    "R10": ("KTEL-17", "HKH 1717", "R10-0800", (25.14342, 35.34331), (24.47339, 35.36859)),
    "R20": ("KTEL-21", "HKH 2121", "R20-0815", (25.14447, 35.34389), (25.38948, 35.31577)),
}


def made(step: int, at: int) -> pb.FeedMessage:
    feed = pb.FeedMessage()
    feed.header.gtfs_realtime_version = "2.0"
    feed.header.timestamp = at
    for number, (route, (name, plate, trip, start, end)) in enumerate(ROUTES.items(), 1):
        way = min(step / 10, 1.0)
        vehicle = feed.entity.add(id=f"v{number}").vehicle
        vehicle.vehicle.id, vehicle.vehicle.license_plate = name, plate
        vehicle.trip.trip_id, vehicle.trip.route_id = trip, route
        vehicle.position.longitude = start[0] + way * (end[0] - start[0])
        vehicle.position.latitude = start[1] + way * (end[1] - start[1])
        vehicle.position.speed, vehicle.position.bearing = 20.0, 270.0 if number == 1 else 90.0
        vehicle.current_status = pb.VehiclePosition.IN_TRANSIT_TO
        vehicle.timestamp = at - 5
    update = feed.entity.add(id="u1").trip_update
    update.trip.trip_id = "R20-0815"
    update.trip.start_date = time.strftime("%Y%m%d", time.gmtime(at))
    for sequence, stop, delay in ((2, "AIRPORT", 120), (3, "HERSONISSOS", 180)):
        update.stop_time_update.add(stop_sequence=sequence, stop_id=stop).arrival.delay = delay
    alert = feed.entity.add(id="a1").alert
    alert.cause, alert.effect = pb.Alert.CONSTRUCTION, pb.Alert.DETOUR
    alert.severity_level = pb.Alert.WARNING
    alert.active_period.add(start=at, end=at + 3600)
    alert.informed_entity.add(route_id="R20")
    alert.header_text.translation.add(text="Works at the airport", language="en")
    alert.description_text.translation.add(text="Line 20 stops 100 m before the terminal.", language="en")
    return feed


def main() -> None:
    parser = argparse.ArgumentParser(description="A GTFS-Realtime feed for the intercity bus.")
    parser.add_argument("out", type=Path, help="the file to write")
    parser.add_argument("--step", type=int, default=1, help="how far the buses are, 0 to 10")
    parser.add_argument("--at", type=int, default=int(time.time()), help="the time of the feed, in seconds since 1970")
    given = parser.parse_args()
    given.out.write_bytes(made(given.step, given.at).SerializeToString())
    print(f"{given.out}: 2 vehicles, 2 estimations, 1 alert")


if __name__ == "__main__":
    main()
