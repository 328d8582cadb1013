"""Whose areas the geofences of a workload touch: few combinations of brokers, each with how often it occurs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa  # by its name here, since Spark looks up what the hints of its functions say

from hanse.model import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from hanse.pipeline.simulation.tables import Tables
    from hanse.pipeline.simulation.touching import FieldMap


def touched_by_publications(tables: Tables, fields: FieldMap) -> Iterator[tuple[int, list[int], int, int]]:
    """Home, the other brokers touched, how many publications, and when the last was sent."""
    from pyspark.sql import functions as f

    rows = _with_others(tables.publications.select("home", "at", "lat", "lon", "radius"), fields)
    found = rows.groupBy("home", "others").agg(f.count("*").alias("count"), f.max("at").alias("last"))
    for row in found.toLocalIterator():
        yield row["home"], list(row["others"]), row["count"], row["last"]


def touched_by_subscriptions(tables: Tables, fields: FieldMap) -> Iterator[tuple[int, list[int], list[int], int, int]]:
    """Home, the others that are told (those that it touches and touched before), who holds it in the end, how many, the last."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    rows = _with_others(tables.subscriptions, fields)
    versions = Window.partitionBy("client", "topic").orderBy("at", "seq")
    nobody = f.expr("cast(array() as array<int>)")
    rows = rows.withColumns(
        {
            "before": f.coalesce(f.lag("others").over(versions), nobody),
            "kept": f.when(f.lead("at").over(versions).isNull(), f.col("others")).otherwise(nobody),
        }
    )
    told = f.array_sort(f.array_union("others", "before")).alias("told")
    found = rows.groupBy("home", told, "kept").agg(f.count("*").alias("count"), f.max("at").alias("last"))
    for row in found.toLocalIterator():
        yield row["home"], list(row["told"]), list(row["kept"]), row["count"], row["last"]


def _with_others(circles: DataFrame, fields: FieldMap) -> DataFrame:
    from pyspark.sql import functions as f

    touched = _touched(fields)("lat", "lon", "radius")
    return circles.withColumn("others", touched).withColumn("others", f.expr("array_remove(others, home)"))


def _touched(fields: FieldMap) -> Any:
    from pyspark.sql.pandas.functions import arrow_udf

    def touched(lat: pa.Array, lon: pa.Array, radius: pa.Array) -> pa.Array:
        circles = (each.to_numpy(zero_copy_only=False) for each in (lat, lon, radius))
        return pa.array(fields.touched(*circles), type=pa.list_(pa.int32()))

    return arrow_udf(touched, "array<int>")  # type: ignore[call-overload]


def check_at_home(tables: Tables, fields: FieldMap) -> None:
    """Routing by areas is only computed for clients that stay in the area of their own broker, as DisGB's do."""
    from pyspark.sql.pandas.functions import arrow_udf

    def owner(lat: pa.Array, lon: pa.Array) -> pa.Array:
        return pa.array(fields.owners(*(each.to_numpy(zero_copy_only=False) for each in (lat, lon))), type=pa.int32())

    owners = arrow_udf(owner, "int")("lat", "lon")  # type: ignore[call-overload]
    stray = tables.locations.withColumn("owner", owners).where("owner <> home").limit(1).collect()
    if stray:
        raise InvalidInput(
            f"a client of {tables.nodes[stray[0]['home']].id} goes into the area of {tables.nodes[stray[0]['owner']].id}: "
            "the spark engine computes geo strategies for clients that stay in the area of their own broker; take --engine exact"
        )
