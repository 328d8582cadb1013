"""A workload as tables: where clients are, what they subscribe to, what they publish, and when.

    locations      client, home, at, seq, lat, lon
    subscriptions  client, home, topic, at, seq, lat, lon, radius
    publications   id, client, home, topic, at, lat, lon, radius, here_lat, here_lon

Homes, clients and topics are numbers; `at` is the millisecond at which the client sends, and `seq` tells apart what it sends in
the same one. Geofences are circles. `here` is where a publication says that it was made; null: where the broker that matches
last knew the publisher to be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from hanse.model import Circle, InvalidInput
from hanse.pipeline.simulation.hikers import COLUMNS, LOCATION, PUBLICATION, ROUNDS_MAX, SUBSCRIPTION, Hike
from hanse.routing import messages as m
from hanse.simulation.workloads.base import clients_per_node

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from hanse.model import Geofence
    from hanse.pipeline.simulation.touching import FieldMap
    from hanse.routing import Federation
    from hanse.routing.federation import Node
    from hanse.simulation.actions import Action
    from hanse.simulation.replay import Recording

TOPICS: Final = 1000
EVENT_RADIUS_DEG: Final = 5.0
SUBSCRIPTION_RADIUS_DEG: Final = 10.0
_SCHEMAS: Final = {
    "locations": "client long, home int, at long, seq int, lat double, lon double",
    "subscriptions": "client long, home int, topic int, at long, seq int, lat double, lon double, radius double",
    "publications": "id long, client long, home int, topic int, at long, lat double, lon double, radius double, "
    "here_lat double, here_lon double",
}


class Tables(Struct, frozen=True):
    nodes: tuple[Node, ...]
    topics: tuple[str, ...]
    clients: int
    locations: DataFrame
    subscriptions: DataFrame
    publications: DataFrame
    says_where: bool  # publications do; else the brokers' own knowledge decides
    attached: int = 0  # clients that say first that they are there
    ticks: bool = False  # whether brokers are told the time, as in `hanse simulate run`


def tables_of_actions(spark: SparkSession, federation: Federation, actions: Iterable[Action]) -> Tables:
    """What an exact simulation runs, as tables."""
    return _tables(spark, federation.nodes, ((a.at_ms, a.node, a.do) for a in actions), says_where=True)


def tables_of_recording(spark: SparkSession, recording: Recording) -> Tables:
    """What a recorded run was given, as tables."""
    return _tables(spark, recording.nodes, recording.requests, says_where=False)


def _tables(
    spark: SparkSession, nodes: tuple[Node, ...], requests: Iterable[tuple[int, str, m.Request]], *, says_where: bool
) -> Tables:
    homes = {node.id: i for i, node in enumerate(nodes)}
    clients: dict[str, int] = {}
    topics: dict[str, int] = {}
    rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in _SCHEMAS}
    attached = 0
    for seq, (at, node, request) in enumerate(requests):
        home = homes[node]
        match request:
            case m.Attach(client=client) if request.location is None and request.previous is None:
                attached += 1
                clients.setdefault(client, len(clients))
            case m.Locate(client=client, location=location) if location is not None:
                who = clients.setdefault(client, len(clients))
                rows["locations"].append((who, home, at, seq, location.lat, location.lon))
            case m.Subscribe(subscription=s):
                who = clients.setdefault(s.client, len(clients))
                topic = topics.setdefault(_only_topic(s.selectors), len(topics))
                rows["subscriptions"].append((who, home, topic, at, seq, *_circle(s.geofence)))
            case m.Publish(notification=n) if n.topic is not None:
                who = clients.setdefault(n.publisher, len(clients))
                topic = topics.setdefault(n.topic, len(topics))
                here = (n.location.lat, n.location.lon) if n.location is not None and says_where else (None, None)
                rows["publications"].append((seq, who, home, topic, at, *_circle(n.geofence), *here))
            case _:
                raise InvalidInput(
                    f"the spark engine knows locations, subscriptions to a topic and publications, not {type(request).__name__}"
                )
    made = {name: _frame(spark, rows[name], _SCHEMAS[name]) for name in _SCHEMAS}
    return Tables(nodes, tuple(topics), len(clients), **made, says_where=says_where, attached=attached, ticks=says_where)


def _frame(spark: SparkSession, rows: list[tuple[Any, ...]], schema: str) -> DataFrame:
    import pyarrow as pa

    types = {"long": pa.int64(), "int": pa.int32(), "double": pa.float64()}
    names, kinds = zip(*(column.split() for column in schema.split(", ")), strict=True)
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    arrays = [pa.array(values, type=types[kind]) for values, kind in zip(columns, kinds, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, names=list(names)))


def _only_topic(selectors: Any) -> str:
    if len(selectors) != 1 or not selectors[0].topic or selectors[0].type or selectors[0].id or selectors[0].id_pattern:
        raise InvalidInput("the spark engine knows subscriptions to one topic only: take workload hiking")
    return str(selectors[0].topic)


def _circle(geofence: Geofence) -> tuple[float, float, float]:
    if not isinstance(geofence, Circle):
        raise InvalidInput("the spark engine knows geofences that are circles only: take workload hiking")
    return geofence.lat, geofence.lon, geofence.radius_deg


def hiking_tables(
    spark: SparkSession, federation: Federation, fields: FieldMap, *, clients: int, duration_s: int, seed: int, folder: Path
) -> Tables:
    """Hikers in any number, made by Spark's workers and kept as Parquet in the folder."""
    from pyspark.sql import functions as f

    counts = tuple(count for _, count in clients_per_node(federation, clients))
    hike = Hike(fields, counts, duration_s * 1000, seed, TOPICS)
    path = str(folder / "workload")
    blocks = spark.range(0, hike.blocks, 1, hike.blocks)
    blocks.mapInArrow(hike.batches, COLUMNS).write.partitionBy("kind").mode("overwrite").parquet(path)
    rows = spark.read.schema(COLUMNS).parquet(path)

    def of(kind: int) -> DataFrame:
        return rows.where(f.col("kind") == kind).drop("kind")

    return Tables(
        federation.nodes,
        tuple(f"t-{i}" for i in range(TOPICS)),
        sum(counts),
        of(LOCATION).drop("topic"),
        of(SUBSCRIPTION).withColumn("radius", f.lit(SUBSCRIPTION_RADIUS_DEG)),
        of(PUBLICATION)
        .withColumn("id", f.col("client") * ROUNDS_MAX + f.col("seq"))
        .withColumn("radius", f.lit(EVENT_RADIUS_DEG))
        .withColumn("here_lat", f.col("lat"))
        .withColumn("here_lon", f.col("lon"))
        .drop("seq"),
        says_where=True,
        attached=sum(counts),
        ticks=True,
    )
