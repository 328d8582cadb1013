"""Capsules that are a function: all readings of a window and a place in, what they say out. Most are; yours may be.

    class Loudest(Gathering, frozen=True):
        def infer(self, readings, span):
            loudest = max(readings, key=lambda one: one.value)
            yield Inferred((Value("noise", loudest.value, loudest.unit or "", loudest.quality),), loudest.observed_at)

Spark gathers (with watermark, late and repeated observations dealt with), a worker calls `infer` with the readings in order of
time. It must give the same whenever it is asked: no clock, no chance. All readings of a window are kept until it is done, so
for many readings that only need a mean, an `Aggregation` is quicker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from hanse.pipeline.capsules.capsule import Made
from hanse.pipeline.capsules.places import Place, Windows, middle
from hanse.pipeline.capsules.screening import again_in_window, again_once, first_of_same
from hanse.pipeline.capsules.values import Inferred, Reading, Span

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Gathering(Struct, frozen=True):
    category: ClassVar[str] = "inference"
    is_of_numbers: ClassVar[bool] = False

    where: Place
    windows: Windows

    def infer(self, readings: Sequence[Reading], span: Span) -> Iterator[Inferred]:
        """What the readings say; nothing, if they say nothing."""
        raise NotImplementedError

    def place(self) -> Column:
        return self.where.column()

    def rows(self, observations: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        marked = first_of_same(self.windows.marked(observations))
        names = [name for name in Reading._fields if name != "observed_at"]
        reading = f.struct((f.unix_micros("observed_at") / f.lit(1e6)).alias("observed_at"), *names)
        groups = marked.groupBy(self.windows.column().alias("w"), "place").agg(
            f.collect_list(reading).alias("readings"), f.min("scopes").alias("scopes"), again_in_window()
        )
        scopes = f.col("scopes") if self.where.by in ("entity", "scope") else f.lit(None).cast("array<string>")
        return groups.select(
            "place",
            f.col("w.start").alias("start"),
            f.col("w.end").alias("end"),
            "readings",
            scopes.alias("scopes"),
            again_once(self.windows.every_s),
        )

    def made(self, row: dict[str, Any]) -> Iterator[Made]:
        readings = sorted((Reading(**one | {"quality": one["quality"] or {}}) for one in row["readings"]), key=_order)
        span = Span(row["start"].timestamp(), row["end"].timestamp())
        for found in self.infer(readings, span):
            if self.where.by == "cell" and found.lat is None:
                lat, lon = middle(row["place"], self.where.metres)
                found = found._replace(lat=lat, lon=lon)  # noqa: PLW2901
            yield row["place"], span, found, row["scopes"]


def _order(reading: Reading) -> tuple[Any, ...]:
    value = 0.0 if reading.value is None else reading.value
    return reading.observed_at, reading.entity, reading.attribute, value, reading.text or ""


def newest_by_entity(readings: Sequence[Reading]) -> list[Reading]:
    """The last word of each sensor, in the order of their names."""
    last = {(one.entity, one.attribute): one for one in readings if one.value is not None}
    return [last[key] for key in sorted(last)]


def position_of(readings: Sequence[Reading]) -> tuple[float | None, float | None]:
    """The mean position of those that have one."""
    known = [(one.lat, one.lon) for one in readings if one.lat is not None and one.lon is not None]
    if not known:
        return None, None
    return sum(lat for lat, _ in known) / len(known), sum(lon for _, lon in known) / len(known)
