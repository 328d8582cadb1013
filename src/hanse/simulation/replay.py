"""Replay of a recorded run of the DisGB authors' simulator: the same input, so that every message can be compared.

A folder holds brokers.csv, fields.csv, broker_latency_ms.csv, workload.csv.gz, dht_topics.csv, gqps_grid.csv and bg_groups.csv.
Locations are flooded, as there.
"""

from __future__ import annotations

import csv
import gzip
from math import sqrt
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from msgspec import Struct

from hanse.model import Circle, InvalidInput, Location, Notification, Selector, Subscription
from hanse.routing import Federation, Group, Link, Node, Settings
from hanse.routing import messages as m
from hanse.simulation.engine import Simulator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hanse.simulation.latency import Latencies

AUTHORS_NAMES = {
    "geo-subscriber": "BrokerDisGBEvents",
    "geo-publisher": "BrokerDisGBSubscriptions",
    "flood-events": "BrokerFloodingEvents",
    "flood-subscriptions": "BrokerFloodingSubscriptions",
    "dht": "BrokerDHT",
    "grid-quorum": "BrokerGQPS",
    "broadcast-groups": "BrokerBG",
}
_REQUESTS = {"Locate": "CLocationUpdate", "Subscribe": "CSubscriptionUpdate", "Publish": "CEventMatching"}
_MESSAGES = {
    "ClientLocation": "BLocationUpdate",
    "PutSubscription": "BSubscriptionUpdate",
    "DropSubscription": "BSubscriptionRemoval",
    "Event": "BEventMatching",
    "Delivery": "BEventDelivery",
}
CLOUD = "Cloud"


class Recording(Struct):
    """What a folder says: the federation of each strategy with its latencies, and the requests in order."""

    nodes: tuple[Node, ...]
    latencies: Latencies
    settings: dict[str, Any]
    groups: tuple[Group, ...]
    cloud: Node | None
    requests: list[tuple[int, str, m.Request]]

    def simulator(self, strategy: str) -> Simulator:
        nodes = self.nodes
        if strategy == "broadcast-groups" and self.cloud is not None:
            nodes = (*nodes, self.cloud)
        ids = [node.id for node in nodes]
        federation = Federation(nodes, tuple(Link(a, b) for a in ids for b in ids if a != b))
        groups = self.groups if strategy == "broadcast-groups" else ()
        settings = Settings(
            strategy, federation, flood_locations=True, match_known_locations=True, groups=groups, cloud=CLOUD, **self.settings
        )
        return Simulator(settings, latencies=self.latencies)


def replay(recording: Recording, strategy: str, progress: Callable[[int], None] | None = None) -> Simulator:
    simulator = recording.simulator(strategy)
    for at_ms, node, request in recording.requests:
        simulator.request(at_ms, node, request)
    simulator.run(progress=progress)
    return simulator


def summary(simulator: Simulator) -> dict[str, Any]:
    """The result in the names and the form of the authors' expected.json."""
    counts = {_REQUESTS[name]: n for name, n in simulator.requests.items() if name in _REQUESTS}
    for name, n in simulator.messages.items():
        if n:
            counts[_MESSAGES.get(name, name)] = n
    counts["CEventDelivery"] = len(simulator.delivered)
    between = sum(n for name, n in counts.items() if name.startswith("B"))
    latencies = [d.at_ms - d.notification.published_at_ms for d in sorted(simulator.delivered, key=lambda d: d.at_ms)]
    # the authors report the delay with the client's hop added where their comment says to take it off
    delays = [delay + 5 for delay in simulator.update_delays_ms]
    return {
        "message_counts": counts,
        "broker_to_broker_messages": between,
        "event_delivery_latency_ms": _statistics(latencies),
        "subscription_update_delay_ms": {
            **_statistics(delays),
            "mean_corrected": sum(delays) / len(delays) - 10 if delays else None,
        },
        "deliveries_to_publisher_itself": sum(d.client == d.notification.publisher for d in simulator.delivered),
        "last_processed_tick_ms": simulator.last_ms,
    }


def _statistics(values: list[int]) -> dict[str, float | None]:
    if not values:
        return {"mean": None, "sd": None, "min": None, "max": None}
    # a running mean in the order of arrival, as the authors compute it: the same to the last digits
    mean = squares = 0.0
    for n, value in enumerate(values, 1):
        step = value - mean
        mean += step / n
        squares += step * (value - mean)
    sd = sqrt(squares / (len(values) - 1)) if len(values) > 1 else 0.0
    return {"mean": mean, "sd": sd, "min": float(min(values)), "max": float(max(values))}


def write_deliveries(simulator: Simulator, folder: Path) -> Path:
    """The list of deliveries, in the form of the authors' data."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"deliveries_{AUTHORS_NAMES[simulator.settings.strategy]}.csv.gz"
    with gzip.open(path, "wt", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["event_client_id", "event_tick_ms", "subscriber_client_id", "delivery_tick_ms"])
        for d in simulator.delivered:
            writer.writerow([d.notification.publisher, d.notification.published_at_ms, d.client, d.at_ms])
    return path


# --- reading the files ------------------------------------------------------------------------------------------------


def read_recording(folder: Path) -> Recording:
    if not folder.is_dir():
        raise InvalidInput("no such folder; give one with brokers.csv, workload.csv.gz and the others", place=str(folder))
    nodes = tuple(
        Node(
            row["broker_id"], Location(_float(row, "lat"), _float(row, "lon")), "", _int(row, "population"), _int(row, "clients")
        )
        for row in _rows(folder / "brokers.csv", "broker_id lat lon population clients")
    )
    ids = [node.id for node in nodes]
    if len(ids) < 1 or len(set(ids)) != len(ids):
        raise InvalidInput("names no broker, or one twice", place=str(folder / "brokers.csv"))
    owners = list(_rows(folder / "fields.csv", "size_deg broker_index"))
    latencies: Latencies = {node: {} for node in ids}
    for row in _rows(folder / "broker_latency_ms.csv", "from_index to_index latency_ms"):
        latencies[_node(row, "from_index", ids)][_node(row, "to_index", ids)] = _int(row, "latency_ms")
    for node in ids:
        if missing := set(ids) - latencies[node].keys() - {node}:
            raise InvalidInput(f"has no latency from {node} to {min(missing)}", place=str(folder / "broker_latency_ms.csv"))
    topics = {row["topic"]: _node(row, "broker_index", ids) for row in _rows(folder / "dht_topics.csv", "topic broker_index")}
    places = {
        (_int(row, "grid_row"), _int(row, "grid_col")): _node(row, "broker_index", ids)
        for row in _rows(folder / "gqps_grid.csv", "broker_index grid_row grid_col")
    }
    grid = tuple(tuple(node for (r, _), node in sorted(places.items()) if r == row) for row in sorted({row for row, _ in places}))
    groups, cloud = _read_groups(folder / "bg_groups.csv", ids, latencies)
    settings = {
        "field_owners": tuple(ids.index(_node(row, "broker_index", ids)) for row in owners),
        "field_size_deg": _float(owners[0], "size_deg") if owners else 6.0,
        "topic_owners": topics,
        "grid": grid,
    }
    return Recording(nodes, latencies, settings, groups, cloud, list(_read_workload(folder / "workload.csv.gz", ids)))


def _read_groups(path: Path, ids: list[str], latencies: Latencies) -> tuple[tuple[Group, ...], Node | None]:
    members: dict[str, list[str]] = {}
    cloud = None
    for row in _rows(path, "broker_index role leader_index latency_to_cloud_ms lat lon"):
        if row["role"].lower() == "cloud" or row["broker_index"] == "-1":
            cloud = Node(CLOUD, Location(_float(row, "lat"), _float(row, "lon")))
            continue
        node, leader = _node(row, "broker_index", ids), _node(row, "leader_index", ids)
        members.setdefault(leader, [])
        if node != leader:
            members[leader].append(node)
        latencies[node][CLOUD] = _int(row, "latency_to_cloud_ms")
        latencies.setdefault(CLOUD, {})[node] = _int(row, "latency_to_cloud_ms")
    return tuple(Group(leader, tuple(others)) for leader, others in members.items()), cloud


def _read_workload(path: Path, ids: list[str]) -> Iterator[tuple[int, str, m.Request]]:
    for row in _rows(path, "tick_ms client_id broker_index type lat lon topic radius_deg"):
        at_ms, client, node = _int(row, "tick_ms"), row["client_id"], _node(row, "broker_index", ids)
        lat, lon = _float(row, "lat"), _float(row, "lon")
        try:
            if row["type"] == "location":
                yield at_ms, node, m.Locate(client, Location(lat, lon))
                continue
            if row["type"] not in ("subscription", "event"):
                raise InvalidInput(f"type {row['type']!r} is not location, subscription or event")
            topic = row["topic"]
            geofence = Circle(lat, lon, _float(row, "radius_deg"))
            if row["type"] == "subscription":
                subscription = Subscription(
                    id=f"{client}/{topic}", client=client, selectors=(Selector(topic=topic),), geofence=geofence
                )
                yield at_ms, node, m.Subscribe(subscription)
            else:
                notification = Notification(
                    id=f"{client}@{at_ms}", publisher=client, topic=topic, geofence=geofence, published_at_ms=at_ms
                )
                yield at_ms, node, m.Publish(notification)
        except InvalidInput as error:
            raise (error if error.place else error.at(row["?"])) from None


def _rows(path: Path, columns: str) -> Iterator[dict[str, str]]:
    """The rows of a CSV file, each with its own place under "?"."""
    try:
        if path.suffix == ".gz":
            file: IO[str] = gzip.open(path, "rt", newline="", encoding="utf-8")  # noqa: SIM115 (closed below)
        else:
            file = path.open(newline="", encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", place=str(path)) from error
    with file:
        try:
            reader = csv.DictReader(file, strict=True)
            if missing := [c for c in columns.split() if c not in (reader.fieldnames or ())]:
                raise InvalidInput(f"has no column {missing[0]!r}", place=str(path))
            for row in reader:
                place = f"{path}:{reader.line_num}"
                if None in row or None in row.values():
                    raise InvalidInput(f"has {'more' if None in row else 'fewer'} values than the header has names", place=place)
                row["?"] = place
                yield row
        except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
            raise InvalidInput(f"is not a readable CSV file: {error}", place=str(path)) from error


def _int(row: dict[str, str], column: str) -> int:
    try:
        return int(row[column])
    except ValueError:
        raise InvalidInput(f"{column} is {row[column]!r}, not a whole number", place=row["?"]) from None


def _float(row: dict[str, str], column: str) -> float:
    try:
        return float(row[column])
    except ValueError:
        raise InvalidInput(f"{column} is {row[column]!r}, not a number", place=row["?"]) from None


def _node(row: dict[str, str], column: str, ids: list[str]) -> str:
    index = _int(row, column)
    if not 0 <= index < len(ids):
        raise InvalidInput(f"{column} is {index}, but there are {len(ids)} brokers", place=row["?"])
    return ids[index]
