"""Collectors: foreign data into observations, in batches and live; what is wrong is kept aside with its reason.

    found = collect(spark, load_mapping(Path("mapping.toml")), "data/air.csv")
    found.observations          # the long form of `hanse.pipeline.observations`
    found.rejected              # source, place, position, at, kind, reason, line

    live = collect(spark, mapping, "incoming/", stream=True)      # a folder that grows: each new file, once
    query = keep(live, "collected/", checkpoint="checkpoint/")    # both, exactly once

A place is a file of the mapping's format, a folder of them, or a pattern with *. Receivers (`hanse.pipeline.receivers`) fill a
folder with what comes by MQTT, from another NGSI-LD broker or as GTFS-RT; by the mapping's format that folder is read in the same
way. A file in a folder that grows must come into it whole (write it elsewhere, then move it): Spark reads a file once.

Lines are read by the workers, so paths must be theirs as well: local ones, or URIs that pyarrow can open (s3://, gs://, hdfs://).
Nothing in the data stops a query: a file that cannot be read is a rejected line, too. Duplicates are records that say the same
of the same entity at the same time as an earlier one; on a stream each entity remembers its last `REMEMBERED` records.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from hanse.model import InvalidInput
from hanse.pipeline.mapper import DUPLICATE, UNREADABLE, Checked, Mapper, Said
from hanse.pipeline.observations import COLUMNS, SCHEMA, arrow_schema
from hanse.pipeline.spool import Envelope

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.state import GroupState

    from hanse.pipeline.mapping import Mapping
    from hanse.quality import Registry

FILES_PER_TRIGGER: Final = 100
REMEMBERED: Final = 1_000
LINES_PER_BATCH: Final = 5_000
_READ_BYTES: Final = 1 << 20
_SPOOLED: Final = frozenset({"mqtt", "ngsi-ld", "gtfs-rt"})
_FILES: Final = "path string, modificationTime timestamp, length bigint, content binary"
_RECORDS: Final = {
    "source": "string",
    "place": "string",
    "position": "string",
    "at": "timestamp",
    "line": "string",
    "entity": "string",
    "identity": "string",
    "kind": "string",
    "reason": "string",
    "said": "string",
}
_RECORDS_DDL: Final = ", ".join(f"{name} {kind}" for name, kind in _RECORDS.items())
REJECTED: Final = ("source", "place", "position", "at", "kind", "reason", "line")
_SAID_AGAIN: Final = "it says the same of the same time as an earlier one"

_encode = msgspec.json.Encoder().encode
_said_of = msgspec.json.Decoder(Said).decode
_envelope_of = msgspec.json.Decoder(Envelope).decode


class Collected(NamedTuple):
    """What lines have become; `records` has both what is right and what is wrong, one row each."""

    records: DataFrame

    @property
    def observations(self) -> DataFrame:
        right = self.records.where("kind is null").select("source", "place", "position", "at", "entity", "said")
        return right.mapInArrow(_observations, SCHEMA)

    @property
    def rejected(self) -> DataFrame:
        return self.records.where("kind is not null").select(*REJECTED)

    def counts(self) -> dict[str, int]:
        """Of a batch: how many lines are right (""), and how often which kind of thing is wrong."""
        counted = self.records.groupBy("kind").count().collect()
        return {row["kind"] or "": row["count"] for row in counted}


def collect(
    spark: SparkSession,
    mapping: Mapping,
    path: str,
    *,
    stream: bool = False,
    registry: Registry | None = None,
    files_per_trigger: int = FILES_PER_TRIGGER,
    clean: bool = False,
) -> Collected:
    """What the files at a path say. `clean`: on a stream, files are deleted when they have been dealt with."""
    if stream and Path(path).is_file():
        raise InvalidInput(f"{path!r} is a file; a stream reads a folder that grows")
    mapper = Mapper(mapping, registry)
    reader: Any = spark.readStream if stream else spark.read
    if stream:
        reader = reader.option("maxFilesPerTrigger", files_per_trigger).option("cleanSource", "delete" if clean else "off")
    try:
        if mapping.source.format == "parquet":
            lines = _parquet_lines(spark, reader, path, stream=stream)
            records = lines.mapInArrow(partial(_checked_lines, mapper=mapper), _RECORDS_DDL)
        else:
            files = reader.format("binaryFile").schema(_FILES).load(path).select("path", "modificationTime")
            records = files.mapInArrow(partial(_checked_files, mapper=mapper), _RECORDS_DDL)
    except Exception as error:
        if "PATH_NOT_FOUND" in str(error):
            raise InvalidInput(f"there is nothing at {path!r}; give a file, or a folder that is there") from error
        raise
    return Collected(_marked_live(records) if stream else _marked(records))


def keep(
    found: Collected, folder: str, *, checkpoint: str, available_now: bool = False, every: str = "1 second"
) -> StreamingQuery:
    """Write a stream's observations and rejected lines as Parquet, under `folder`/observations and `folder`/rejected.

    Each batch has a folder of its own, which is written again if Spark does the batch again: everything is there exactly once.
    """

    def write(records: DataFrame, batch: int) -> None:
        part = Collected(records.persist())
        part.observations.write.mode("overwrite").parquet(f"{folder}/observations/batch={batch}")
        part.rejected.write.mode("overwrite").parquet(f"{folder}/rejected/batch={batch}")
        records.unpersist()

    writer = found.records.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    return (writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime=every)).start()


# --- lines ----------------------------------------------------------------------------------------------------------------


def _parquet_lines(spark: SparkSession, reader: Any, path: str, *, stream: bool) -> DataFrame:
    """Rows as JSON; a stream has the columns of the files that are there when it begins."""
    from pyspark.sql import functions as f

    if stream:
        try:
            reader = reader.schema(spark.read.parquet(path).schema)
        except Exception as error:
            if "UNABLE_TO_INFER_SCHEMA" not in str(error):
                raise
            raise InvalidInput(f"{path!r} has no Parquet file yet, so its columns are not known; put one there first") from error
    rows = reader.parquet(path)
    frame: DataFrame = rows.select(
        f.col("_metadata.file_path").alias("place"),
        f.col("_metadata.row_index").cast("string").alias("position"),
        f.to_json(f.struct(*rows.columns)).alias("line"),
        f.col("_metadata.file_modification_time").alias("at"),
    )
    return frame


def _checked_lines(batches: Iterator[pa.RecordBatch], mapper: Mapper) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        made = _Rows(mapper.mapping.source.name)
        times = _micros(batch.column("at"))
        for row, at_us in zip(batch.select(["place", "position", "line"]).to_pylist(), times, strict=True):
            made.add(
                row["place"],
                row["position"],
                row["line"],
                at_us,
                mapper.checked(row["line"], row["place"], row["position"], at_us),
            )
        yield made.batch()


def _checked_files(batches: Iterator[pa.RecordBatch], mapper: Mapper) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for path, at_us in zip(batch.column("path").to_pylist(), _micros(batch.column("modificationTime")), strict=True):
            yield from _checked_file(path, at_us, mapper)


def _checked_file(path: str, at_us: int, mapper: Mapper) -> Iterator[pa.RecordBatch]:
    made = _Rows(mapper.mapping.source.name)
    source = mapper.mapping.source
    header: Sequence[str] = ()
    is_headed = source.format == "csv" and not source.columns
    try:
        for number, raw in enumerate(_lines(path), start=1):
            try:
                line = raw.decode(
                    "utf-8-sig" if number == 1 and source.encoding.lower() in ("utf-8", "utf8") else source.encoding
                )
            except UnicodeDecodeError as error:
                wrong = Checked(None, None, UNREADABLE, f"it is not {source.encoding}: {error.reason}", None)
                made.add(path, str(number), raw.rstrip(b"\r\n").decode("latin-1"), at_us, [wrong])
                continue
            line = line.rstrip("\r\n")
            if not line.strip():
                continue
            if is_headed and not header:
                header = _header(line, source.delimiter)
                if unnamed := mapper.unnamed(header):
                    reason = f"the first line names no column {unnamed!r}"
                    made.add(path, str(number), line, at_us, [Checked(None, None, UNREADABLE, reason, None)])
                continue
            if source.format in _SPOOLED:
                _add_spooled(made, mapper, path, number, line, at_us)
            else:
                made.add(path, str(number), line, at_us, mapper.checked(line, path, str(number), at_us, header))
            if len(made) >= LINES_PER_BATCH:
                yield made.batch()
                made = _Rows(source.name)
    except OSError as error:
        reason = f"the file cannot be read: {error.strerror or error}"
        made.add(path, "", "", at_us, [Checked(None, None, UNREADABLE, reason, None)])
    yield made.batch()


def _add_spooled(made: _Rows, mapper: Mapper, path: str, number: int, line: str, at_us: int) -> None:
    """What a receiver has written: the line is in an envelope that says where it comes from, and when it came."""
    position = f"{path.rpartition('/')[2]}:{number}"
    try:
        envelope = _envelope_of(line)
    except msgspec.DecodeError as error:
        made.add(path, position, line, at_us, [Checked(None, None, UNREADABLE, f"no receiver has written it: {error}", None)])
        return
    checked = mapper.checked(envelope.line, envelope.place, position, envelope.at_us)
    made.add(envelope.place, position, envelope.line, envelope.at_us, checked)


def _header(line: str, delimiter: str) -> list[str]:
    import csv

    try:
        return [name.strip() for name in next(csv.reader([line], delimiter=delimiter))]
    except csv.Error:
        return [line]


def _lines(path: str) -> Iterator[bytes]:
    """Of a local file, or of whatever pyarrow can open; gzip is unpacked."""
    import pyarrow as pa
    from pyarrow import fs

    parts = urlsplit(path)
    if parts.scheme in ("", "file"):
        filesystem, name = fs.LocalFileSystem(), unquote(parts.path)
    else:
        filesystem, name = fs.FileSystem.from_uri(path)
    try:
        with io.BufferedReader(filesystem.open_input_stream(name), _READ_BYTES) as lines:
            yield from lines
    except pa.ArrowException as error:
        raise OSError(str(error)) from error


# --- rows -----------------------------------------------------------------------------------------------------------------


class _Rows:
    """Of `_RECORDS`, column by column."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._columns: dict[str, list[Any]] = {name: [] for name in _RECORDS}

    def __len__(self) -> int:
        return len(self._columns["at"])

    def add(self, place: str, position: str, line: str, at_us: int, every: list[Checked]) -> None:
        for one in every:
            said = None if one.said is None else _encode(one.said).decode()
            row = (self._source, place, position, at_us, line, one.entity, one.identity, one.kind, one.reason, said)
            for name, value in zip(_RECORDS, row, strict=True):
                self._columns[name].append(value)

    def batch(self) -> pa.RecordBatch:
        import pyarrow as pa

        times = pa.timestamp("us", tz="UTC")
        arrays = [
            pa.array(values, pa.int64()).cast(times) if name == "at" else pa.array(values, pa.string())
            for name, values in self._columns.items()
        ]
        return pa.RecordBatch.from_arrays(arrays, names=list(_RECORDS))


def _micros(times: pa.Array) -> list[int]:
    import pyarrow as pa

    found: list[int] = times.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist()
    return found


def _observations(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    schema = arrow_schema()
    for batch in batches:
        columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        times = _micros(batch.column("at"))
        for row, at_us in zip(batch.select(["source", "place", "position", "entity", "said"]).to_pylist(), times, strict=True):
            said = _said_of(row["said"])
            for one in said.observed:
                made = (
                    row["source"],
                    row["entity"],
                    said.type,
                    one.attribute,
                    one.value,
                    one.text,
                    one.unit,
                    at_us if one.observed_us is None else one.observed_us,
                    at_us,
                    said.lat,
                    said.lon,
                    said.scopes,
                    list(one.quality.items()),
                    f"{row['place']}/{row['position']}/{one.attribute}/{one.dataset}".removesuffix("/"),
                    one.observed_us is not None,
                )
                for name, value in zip(COLUMNS, made, strict=True):
                    columns[name].append(value)
        arrays = [
            pa.array(columns[field.name], pa.int64()).cast(field.type)
            if pa.types.is_timestamp(field.type)
            else pa.array(columns[field.name], field.type)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


# --- duplicates -----------------------------------------------------------------------------------------------------------


def _marked(records: DataFrame) -> DataFrame:
    """Of a batch: all but the first of those that say the same."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    number = f.when(f.regexp_like("position", f.lit(r"^\d+$")), f.lpad("position", 20, "0")).otherwise(f.col("position"))
    turn = f.row_number().over(Window.partitionBy("identity").orderBy("place", number))
    is_again = f.col("identity").isNotNull() & (f.col("turn") > 1)

    def again(word: str, other: str) -> Column:
        return f.when(is_again, f.lit(word)).otherwise(f.col(other))

    marked = records.withColumn("turn", turn)
    return marked.withColumns({"kind": again(DUPLICATE, "kind"), "reason": again(_SAID_AGAIN, "reason")}).select(*_RECORDS)


def _marked_live(records: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f
    from pyspark.sql.streaming.state import GroupStateTimeout

    keyed = records.withColumn("of", f.coalesce("entity", f.lit("")))
    return keyed.groupBy("of").applyInPandasWithState(
        _remembering, _RECORDS_DDL, "seen string", "append", GroupStateTimeout.NoTimeout
    )


def _remembering(_key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Of one entity: what says the same as one of the last records is marked."""
    seen: dict[str, None] = dict.fromkeys(state.get[0].split(",")) if state.exists else {}
    for frame in frames:
        rows = frame.drop(columns="of").sort_values(["place", "position"], key=lambda one: one.str.zfill(20))
        again = []
        for identity in rows["identity"].tolist():
            again.append(isinstance(identity, str) and identity in seen)
            if isinstance(identity, str):
                seen[identity] = None
        rows.loc[again, ["kind", "reason"]] = [DUPLICATE, _SAID_AGAIN]
        yield rows
    state.update((",".join(list(seen)[-REMEMBERED:]),))
