"""The lake: tables of Parquet files by day and type, written by streams, each record once, and read by SQL.

    lake = Lake("lake")
    lake.write(spark.readStream.format("hanse").option("nodes", url).load(), "raw").awaitTermination()
    lake.table(spark, "raw")                                    # a frame
    lake.views(spark); spark.sql("SELECT attributes:no2.value::double FROM raw WHERE type = 'AirQualityObserved'")
    lake.compact(); lake.expire(keep_days=90)

- `write(frame, table, trigger=…, query=…) -> StreamingQuery`: a stream into a table; one query for each table, whose checkpoint
  is `checkpoints/<table>` in the lake. A frame needs `at` (its day is what the table is partitioned by) and `type`;
- `table(spark, name, columns="no2 double") -> DataFrame`: as it is on the disk, with typed columns made of the open part;
- `views(spark)`: a temporary view for each table, in which `attributes` is VARIANT;
- `compact(names)`, `expire(keep_days, names)`, `summaries()`: see `hanse.pipeline.lake_files`, which needs no Spark.

**Schemas change.** What is open stays JSON on the disk, so an attribute that appears, or changes its type, changes no file. Where
columns of a table change nevertheless (a derived table gets another one), reading merges: what is missing is null; of two numbers
the wider type holds; types that do not go together become text, as JSON where they are no text. Nothing has to be written again.

**Other formats.** `Lake(folder, format="delta")` writes through Spark in that format; see `hanse.pipeline.lake_formats`.

A lake is a folder that the driver and all workers see.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hanse.model import InvalidInput
from hanse.pipeline.lake_files import CHECKPOINTS, DATA, INCOMING, Changed, File, Table, tables
from hanse.pipeline.lake_formats import PARQUET, check_same, checked_format, explained, format_of, not_ours, other_tables
from hanse.pipeline.schema import Column, parse_columns

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import DataType

RAW: Final = "raw"  # what nodes have logged, as it is
QUALIFIED: Final = "qualified"  # with quality judged
DERIVED: Final = "derived"  # what was made of it
OPEN: Final = "attributes"
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint", "float", "double")  # each holds, nearly enough, those before it


class Lake:
    def __init__(self, folder: str | Path, format: str = PARQUET) -> None:  # noqa: A002  as Spark calls it
        """`format`: of tables that are written; those that are there are read as they are."""
        self.folder = Path(folder)
        self.format = checked_format(format)

    # --- writing ----------------------------------------------------------------------------------------------------

    def write(
        self, frame: DataFrame, table: str = RAW, *, trigger: dict[str, Any] | None = None, query: str | None = None
    ) -> StreamingQuery:
        """Begin to write a stream into a table. `trigger`: as of Spark, {"processingTime": "1 minute"} if there is none."""
        from pyspark.sql import functions as f

        name = _checked(table)
        self._check_checkpoint(name)
        check_same(self.folder / name, self.format)
        if missing := {"at", "type"} - set(frame.columns):
            raise InvalidInput(f"a table of the lake needs the columns at and type; {' and '.join(sorted(missing))} is missing")
        frame.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")  # what others read as well
        for field, kind in frame.dtypes:
            if kind == "variant":  # which other readers of Parquet do not know
                frame = frame.withColumn(field, f.to_json(field))
        writer = frame.withColumn("date", f.to_date("at")).writeStream.format(self.format).partitionBy("date", "type")
        writer = writer.option("checkpointLocation", str(self.folder / CHECKPOINTS / name)).queryName(query or f"lake-{name}")
        writer = writer.trigger(**(trigger or {"processingTime": "1 minute"}))
        try:
            return writer.start(str(self.folder / name / (INCOMING if self.format == PARQUET else self.format)))
        except Exception as error:
            raise explained(error, self.format) from error

    def _check_checkpoint(self, table: str) -> None:
        """A new checkpoint counts batches from 0, and those of the old one were committed under these numbers."""
        metadata, checkpoint = self.folder / table / INCOMING / "_spark_metadata", self.folder / CHECKPOINTS / table
        if metadata.is_dir() and not checkpoint.is_dir():
            raise InvalidInput(
                f"{self.folder / table} has records, but its checkpoint {checkpoint} is gone, so nobody knows where to go on; "
                "put it back, or write into another table"
            )

    # --- reading ----------------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        return sorted((*(table.name for table in tables(self.folder)), *other_tables(self.folder)))

    def table(self, spark: SparkSession, name: str = RAW, columns: str = "") -> DataFrame:
        """What a table has now. `columns`: typed columns of what is open in it, `no2 double, name string`."""
        if (kind := format_of(self.folder / name)) not in ("", PARQUET):
            return typed(self._other(spark, name, kind), parse_columns(columns))
        found = self._table(name)
        files = found.visible()
        if not files:
            raise InvalidInput(f"there is nothing in {found.folder} yet")
        frame = _merged([_read(spark, found, group) for group in _by_schema(found, files)])
        return typed(frame, parse_columns(columns))

    def views(self, spark: SparkSession, columns: str = "") -> list[str]:
        """Make a temporary view of each table that has something; gives their names."""
        from pyspark.sql import functions as f

        made = []
        filled = [table.name for table in tables(self.folder) if table.visible()]
        for name in (*filled, *other_tables(self.folder)):
            frame = self.table(spark, name)
            if OPEN in frame.columns:
                frame = typed(frame, parse_columns(columns)).withColumn(OPEN, f.parse_json(OPEN))
            frame.createOrReplaceTempView(name)
            made.append(name)
        return made

    def _other(self, spark: SparkSession, name: str, kind: str) -> DataFrame:
        try:
            return spark.read.format(kind).load(str(self.folder / name / kind))
        except Exception as error:
            raise explained(error, kind) from error

    def _table(self, name: str) -> Table:
        if (kind := format_of(self.folder / name)) not in ("", PARQUET):
            raise not_ours(name, kind)
        for table in tables(self.folder):
            if table.name == name:
                return table
        known = ", ".join(self.names()) or "no tables yet"
        raise InvalidInput(f"there is no table {name!r} in {self.folder}; there is {known}")

    # --- keeping it in order ----------------------------------------------------------------------------------------

    def compact(self, names: Iterable[str] = (), **how: Any) -> dict[str, Changed]:
        """Put small files together; of all tables, if none is named."""
        return {table.name: table.compact(**how) for table in self._named(names)}

    def expire(self, keep_days: int, names: Iterable[str] = (), **how: Any) -> dict[str, Changed]:
        """Let go of days that are longer ago than so many."""
        before = (datetime.now(UTC) - timedelta(days=keep_days)).date().isoformat()
        return {table.name: table.expire(before, **how) for table in self._named(names)}

    def summaries(self) -> list[dict[str, Any]]:
        return [table.summary() for table in tables(self.folder)]

    def _named(self, names: Iterable[str]) -> list[Table]:
        chosen = list(names)
        return [self._table(name) for name in chosen] if chosen else tables(self.folder)


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name) or name == CHECKPOINTS:
        raise InvalidInput(f"a table's name has small letters, digits and _, like raw or derived_aqi; {name!r} is none")
    return name


# --- typed columns of the open part -------------------------------------------------------------------------------------


def typed(frame: DataFrame, columns: Iterable[Column]) -> DataFrame:
    """The frame with columns made of the attributes in its open part; null where there is no such value, or of another type."""
    from pyspark.sql import functions as f

    wanted = list(columns)
    if not wanted:
        return frame
    parsed = frame.withColumn("_open", f.parse_json(OPEN))
    for column in wanted:
        parsed = parsed.withColumn(column.name, _value(f.col("_open"), column))
    return parsed.drop("_open")


def _value(open_: SparkColumn, column: Column) -> SparkColumn:
    from pyspark.sql import functions as f

    name = column.name.replace("'", "\\'")
    path = f"$['{name}'].value"
    kind = f.schema_of_variant(f.variant_get(open_, path, "variant"))
    value = f.try_variant_get(open_, path, column.type)
    if column.type in ("double", "bigint"):  # a text or a truth that can be read as a number is none
        return f.when(kind.rlike("^(BIGINT|DECIMAL|DOUBLE|FLOAT)"), value)
    if column.type == "boolean":
        return f.when(kind == "BOOLEAN", value)
    if column.type == "timestamp":
        stated = f.try_variant_get(open_, f"{path}['@value']", "timestamp")
        return f.coalesce(f.when(kind == "STRING", value), stated)
    return value


# --- reading files whose schemas differ ---------------------------------------------------------------------------------


def _by_schema(table: Table, files: list[File]) -> list[list[File]]:
    """Files that can be read together: those of `incoming` and of `data`, each by schema."""
    import pyarrow.parquet as pq

    groups: dict[tuple[bool, str], list[File]] = {}
    for file in files:
        schema = pq.read_schema(table.folder / file.path).remove_metadata()
        groups.setdefault((file.is_incoming, str(sorted(map(str, schema)))), []).append(file)
    return list(groups.values())


def _read(spark: SparkSession, table: Table, files: list[File]) -> DataFrame:
    from pyspark.sql import functions as f

    base = table.folder / (INCOMING if files[0].is_incoming else DATA)
    schema = spark.read.parquet(str(table.folder / files[0].path)).schema.add("date", "string").add("type", "string")
    frame = spark.read.schema(schema).option("basePath", str(base)).parquet(*(str(table.folder / one.path) for one in files))
    return frame.withColumn("date", f.to_date("date"))


def _merged(frames: list[DataFrame]) -> DataFrame:
    """One frame of all columns that there are; of types that differ, one that holds both."""
    whole, *others = frames
    for other in others:
        kinds, theirs = dict(whole.dtypes), dict(other.dtypes)
        for name in kinds.keys() & theirs.keys():
            if kinds[name] != theirs[name]:
                common = _common(kinds[name], theirs[name])
                whole, other = _cast(whole, name, common), _cast(other, name, common)  # noqa: PLW2901
        whole = whole.unionByName(other, allowMissingColumns=True)
    return whole


def _common(one: str, other: str) -> str:
    if one in _NUMBERS and other in _NUMBERS:
        return max(one, other, key=_NUMBERS.index)
    return "string"


def _cast(frame: DataFrame, name: str, kind: str) -> DataFrame:
    from pyspark.sql import functions as f

    has: DataType = frame.schema[name].dataType
    is_nested = has.typeName() in ("struct", "array", "map", "variant")
    return frame.withColumn(name, f.to_json(name) if is_nested and kind == "string" else f.col(name).cast(kind))
