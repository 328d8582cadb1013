"""The daily report: what each producer has promised, and what it has delivered, day by day.

What is judged is a *publication*: one record of a node's log, which says something new of one entity. Its quality is computed as
the node computes it (`hanse.pipeline.quality.entity_quality`): what is stated, the age when it was accepted, and of the whole the
worst of its attributes. So a publication keeps a promise here exactly if a notification of it would meet the same text as
`qualityQ`. Only what a record says is looked at, not what the entity said before.

- **met**: publications that keep all parts of the promise; `broken`: by part, how many do not. What nobody states is broken;
- **refresh_s**: the median time since the publication before, of the same entity; `longest_gap_s`: the longest one. A gap
  belongs to the day in which it ends;
- **expected**, **completeness**: only if how often is promised, by `refresh` or refreshRate. Entities of this day times 24 hours
  by that time, and the share of that which has come, by different times of observation. A day counts whole, the first and the
  last one, too;
- **quality**: by criterion of the whole, how many publications state it, the mean and the worst.

A publication that several promises are about is in a row of each; one that nobody has promised anything about is in a row
without a producer. Rows are by day, producer and type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from hanse.model import InvalidInput
from hanse.pipeline.quality import QUALITY, entity_meets, entity_quality
from hanse.pipeline.reports.promises import Promise, checked
from hanse.pipeline.reports.reading import Days
from hanse.quality import default_registry

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

    from hanse.quality import Registry

GUARANTEES_MAX: Final = 200  # different ones in one report: each is an expression that Spark evaluates
DAY_S: Final = 86_400
_RECORD: Final = ("source", "record", "entity", "type")
_KEY: Final = ("day", "number", "type")
_PROMISES: Final = "number int, promised string, selectors array<struct<type: string, id: string, pattern: string>>"


class Delivered(Struct, frozen=True):
    """Of one criterion, on one day."""

    stated: int  # publications that say it
    mean: float
    worst: float


class ProducerDay(Struct, frozen=True, kw_only=True):
    day: str
    producer: str  # "": nobody has promised anything
    type: str
    promised: str
    publications: int
    entities: int
    met: int | None  # None: nothing is promised
    broken: dict[str, int]
    refresh_s: float | None
    longest_gap_s: float | None
    expected: float | None
    completeness: float | None
    quality: dict[str, Delivered]

    @property
    def met_percent(self) -> float | None:
        return None if self.met is None else 100.0 * self.met / self.publications

    @property
    def is_kept(self) -> bool | None:
        """Whether the day is as promised; None if nothing is."""
        if self.met is None:
            return None
        return self.met == self.publications and (self.completeness is None or self.completeness >= 100.0)


def daily_quality(
    observations: DataFrame,
    promises: Sequence[Promise] = (),
    *,
    days: Days | None = None,
    registry: Registry | None = None,
    context: str = "",
) -> list[ProducerDay]:
    """The report, by day, producer and type, of the observations of a lake. Raises InvalidInput for too many promises."""
    from pyspark.sql import functions as f

    registry = registry or default_registry()
    promises = checked(list(promises))
    records = _records(observations, registry, context).where((days or Days()).column("at"))
    judged = _judged(records, promises).cache()
    try:
        days_of = judged.groupBy(*_KEY).agg(
            f.count(f.lit(1)).alias("publications"),
            f.count_distinct("source", "entity").alias("entities"),
            f.count_distinct("source", "entity", "at").alias("moments"),
            f.count_if(f.size("broken") == 0).alias("met"),
            f.percentile("gap_s", f.lit(0.5)).alias("refresh_s"),
            f.max("gap_s").alias("longest_gap_s"),
        )
        broken = judged.select(*_KEY, f.explode("broken").alias("part")).groupBy(*_KEY, "part").count()
        stated = judged.select(*_KEY, f.explode(f.map_filter(QUALITY, lambda name, _: ~f.contains(name, f.lit(".")))))
        criteria = stated.groupBy(*_KEY, "key").agg(
            f.count("value").alias("stated"),
            f.avg("value").alias("mean"),
            f.min("value").alias("least"),
            f.max("value").alias("most"),
        )
        return _rows(days_of.collect(), broken.collect(), criteria.collect(), promises, registry)
    finally:
        judged.unpersist()


# --- publications -------------------------------------------------------------------------------------------------------


def _records(observations: DataFrame, registry: Registry, context: str) -> DataFrame:
    """One row for each record of a log: when it was observed, its quality, and the time since the one before."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    offset = f.regexp_extract(f.expr("substring(key, length(source) + 2)"), r"^(\d+)/", 1)
    of_record = Window.partitionBy(*_RECORD)
    stated = f.max(f.when(f.col("dated"), f.col("observed_at"))).over(of_record)
    frame = observations.withColumn("record", offset)
    frame = frame.withColumn("at", f.coalesce(stated, f.max("accepted_at").over(of_record)))
    records = entity_quality(frame, registry, by=(*_RECORD, "at"), context=context)
    before = f.lag("at").over(Window.partitionBy("source", "entity").orderBy("at", "record"))
    gap_s = (f.unix_micros("at") - f.unix_micros(before)) / f.lit(1e6)
    return records.withColumns({"gap_s": f.when(gap_s > 0, gap_s), "day": f.to_date("at").cast("string")})


def _judged(records: DataFrame, promises: Sequence[Promise]) -> DataFrame:
    """Each record with each promise that is about it (`number`; null if there is none), and the parts that it breaks."""
    from pyspark.sql import functions as f

    texts = [(number, ";".join(one.of_each), _selectors(one)) for number, one in enumerate(promises)]
    known = records.sparkSession.createDataFrame(texts, _PROMISES).alias("p")

    def is_about(selector: Column) -> Column:
        return (
            f.coalesce(selector.type == f.col("r.type"), f.lit(True))
            & f.coalesce(selector.id == f.col("r.entity"), f.lit(True))
            & f.coalesce(f.regexp_like("r.entity", selector.pattern), f.lit(True))
        )

    joined = records.alias("r").join(f.broadcast(known), f.exists("selectors", is_about), "left").drop("selectors")
    nothing = f.array().cast("array<string>")
    broken = f.lit(None).cast("array<string>")
    different = {text: one.of_each for (_, text, _), one in zip(texts, promises, strict=True)}
    if len(different) > GUARANTEES_MAX:
        raise InvalidInput(f"{len(different)} different guarantees are too many; a report knows at most {GUARANTEES_MAX}")
    for text, parts in different.items():
        failing = [f.when(~entity_meets(part), f.lit(part)) for part in parts]
        found = f.array_compact(f.array(*failing)) if failing else nothing
        broken = f.when(f.col("promised") == text, found).otherwise(broken)
    return joined.withColumn("broken", broken)


def _selectors(promise: Promise) -> list[tuple[str | None, str | None, str | None]]:
    """Those of entities: what is published on a topic is none."""
    every = [(one.type, one.id, one.id_pattern) for one in promise.selectors if one.topic is None]
    return every if promise.selectors else [(None, None, None)]


# --- rows ---------------------------------------------------------------------------------------------------------------


def _rows(
    days_of: list[Row], broken: list[Row], criteria: list[Row], promises: Sequence[Promise], registry: Registry
) -> list[ProducerDay]:
    parts: dict[tuple[object, ...], dict[str, int]] = {}
    for row in broken:
        parts.setdefault(_key(row), {})[row["part"]] = row["count"]
    delivered: dict[tuple[object, ...], dict[str, Delivered]] = {}
    for row in criteria:
        is_higher = registry.by_name[row["key"]].definition.direction == "higher"
        found = Delivered(row["stated"], row["mean"], row["least" if is_higher else "most"])
        delivered.setdefault(_key(row), {})[row["key"]] = found
    rows = []
    for row in days_of:
        promise = None if row["number"] is None else promises[row["number"]]
        every_s = promise.every_s if promise is not None else None
        expected = None if every_s is None else row["entities"] * DAY_S / every_s
        rows.append(
            ProducerDay(
                day=row["day"],
                producer=promise.producer if promise is not None else "",
                type=row["type"],
                promised=promise.guarantee if promise is not None else "",
                publications=row["publications"],
                entities=row["entities"],
                met=row["met"] if promise is not None else None,
                broken=dict(sorted(parts.get(_key(row), {}).items())),
                refresh_s=row["refresh_s"],
                longest_gap_s=row["longest_gap_s"],
                expected=expected,
                completeness=None if expected is None else min(100.0, 100.0 * row["moments"] / expected),
                quality=dict(sorted(delivered.get(_key(row), {}).items())),
            )
        )
    return sorted(rows, key=lambda one: (one.day, one.producer == "", one.producer, one.type))


def _key(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in _KEY)
