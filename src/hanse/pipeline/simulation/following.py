"""Which locations go where if they are not flooded: to the brokers that hold a subscription of the client, when it is sent.

Within a millisecond a broker handles its clients' locations before their subscriptions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.pipeline.simulation.areas import with_others
from hanse.pipeline.simulation.matching import until_next

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from hanse.pipeline.simulation.tables import Tables
    from hanse.pipeline.simulation.touching import FieldMap


def located_with_a_subscription(tables: Tables) -> DataFrame:
    """The locations of clients that have subscribed to anything before."""
    from pyspark.sql import functions as f

    first = tables.subscriptions.groupBy("client").agg(f.min("at").alias("first"))
    return tables.locations.join(first, "client").where("first < at")


def located_by_topics(tables: Tables, owner: str) -> Iterator[tuple[int, int, int, int]]:
    """Home, owner of a topic that the client has subscribed to, how many locations, the last. `owner`: SQL over `topic`."""
    from pyspark.sql import functions as f

    first = tables.subscriptions.withColumn("broker", f.expr(owner)).groupBy("client", "broker").agg(f.min("at").alias("first"))
    return _counted(tables.locations.join(first, "client").where("first < at"))


def located_by_areas(tables: Tables, fields: FieldMap) -> Iterator[tuple[int, int, int, int]]:
    """Home, broker whose area a geofence of the client touches then, how many locations, the last."""
    from pyspark.sql import functions as f

    held = until_next(with_others(tables.subscriptions, fields), "client", "topic").select(
        f.col("client").alias("who"), f.col("at").alias("since"), "until", f.explode("others").alias("broker")
    )
    then = f.expr("client = who AND since < at AND at <= until")
    return _counted(tables.locations.join(held, then).select("home", "broker", "client", "at", "seq").distinct())


def _counted(told: DataFrame) -> Iterator[tuple[int, int, int, int]]:
    from pyspark.sql import functions as f

    rows = told.where("broker <> home").groupBy("home", "broker").agg(f.count("*").alias("count"), f.max("at").alias("last"))
    for row in rows.collect():
        yield row["home"], row["broker"], row["count"], row["last"]
