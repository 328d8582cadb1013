"""Whose areas the geofences of a workload touch: few combinations of brokers, each with how often it occurs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.model import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from hanse.pipeline.simulation.tables import Tables
    from hanse.pipeline.simulation.touching import FieldMap


def touched_by_publications(tables: Tables, fields: FieldMap) -> Iterator[tuple[int, list[int], int, int]]:
    """Home, the other brokers touched, how many publications, and when the last was sent."""
    from pyspark.sql import functions as f

    rows = with_others(tables.publications.select("home", "at", "lat", "lon", "radius"), fields)
    found = rows.groupBy("home", "others").agg(f.count("*").alias("count"), f.max("at").alias("last"))
    for row in found.toLocalIterator():
        yield row["home"], list(row["others"]), row["count"], row["last"]


def touched_by_subscriptions(tables: Tables, fields: FieldMap) -> Iterator[tuple[int, list[int], list[int], int, int]]:
    """Home, the others that are told (those that it touches and touched before), who holds it in the end, how many, the last."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    rows = with_others(tables.subscriptions, fields)
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


def with_others(circles: DataFrame, fields: FieldMap) -> DataFrame:
    """With the brokers other than its home whose areas each circle touches."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, IntegerType

    def touched(batch: pa.RecordBatch) -> pa.Array:
        import pyarrow as pa

        lat, lon, radius = (batch[name].to_numpy(zero_copy_only=False) for name in ("lat", "lon", "radius"))
        return pa.array(fields.touched(lat, lon, radius), type=pa.list_(pa.int32()))

    return _with(circles, "others", ArrayType(IntegerType()), touched).withColumn("others", f.expr("array_remove(others, home)"))


def check_at_home(tables: Tables, fields: FieldMap) -> None:
    """Routing by areas is only computed for clients that stay in the area of their own broker, as DisGB's do."""
    from pyspark.sql.types import IntegerType

    def owner(batch: pa.RecordBatch) -> pa.Array:
        import pyarrow as pa

        lat, lon = (batch[name].to_numpy(zero_copy_only=False) for name in ("lat", "lon"))
        return pa.array(fields.owners(lat, lon), type=pa.int32())

    stray = _with(tables.locations, "owner", IntegerType(), owner).where("owner <> home").limit(1).collect()
    if stray:
        raise InvalidInput(
            f"a client of {tables.nodes[stray[0]['home']].id} goes into the area of {tables.nodes[stray[0]['owner']].id}: "
            "the spark engine computes geo strategies for clients that stay in the area of their own broker; take --engine exact"
        )


def _with(rows: DataFrame, name: str, kind: DataType, compute: Callable[[pa.RecordBatch], pa.Array]) -> DataFrame:
    """With one more column, computed in numpy."""
    from pyspark.sql.types import StructField, StructType

    def add(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            yield pa.RecordBatch.from_arrays([*batch.columns, compute(batch)], names=[*batch.schema.names, name])

    return rows.mapInArrow(add, StructType([*rows.schema.fields, StructField(name, kind)]))
