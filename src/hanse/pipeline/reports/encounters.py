"""Cross-community joins: each observation of one side with the newest of the other side that is near in time and in space.

    buses = Side.of("Bus.location@transport")        # TYPE.ATTRIBUTE@NODE; any part may be left out
    air = Side.of("FusedAir.NO2@city")
    encounters(observations, buses, air, within_m=300, within_s=3600)

An *encounter* is an observation of the first side with, of those of the second side that were observed at the same time or up to
`within_s` seconds before it, at most `within_m` metres away, and of another entity: the newest; of several of the same time the
nearest; then the first by its name. So nothing is joined with what was not known yet. An observation that meets nothing is in
no row.

Spark joins by slices of time and strips of latitude, each as large as the reach, and looks at the rest exactly.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Final, Self

from msgspec import Struct

from hanse.model import InvalidInput
from hanse.pipeline.capsules import Selector
from hanse.pipeline.reports.reading import metres, strips

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WITHIN_M_MAX: Final = 1_000_000.0
WITHIN_S_MAX: Final = 366 * 86_400.0
COLUMNS: Final = (
    "source", "entity", "attribute", "observed_at", "lat", "lon", "value", "text", "other_source", "other_entity",
    "other_attribute", "other_observed_at", "other_value", "other_text", "other_unit", "metres", "seconds",
)  # fmt: skip
_OWN: Final = ("source", "entity", "attribute", "observed_at", "lat", "lon", "value", "text", "unit", "key")


class Side(Struct, frozen=True):
    """Which observations; what is empty asks for nothing. `quality` is a requirement, as qualityQ has it."""

    type: str = ""
    attribute: str = ""
    node: str = ""
    quality: str = ""

    @classmethod
    def of(cls, text: str, quality: str = "") -> Self:
        """`Bus.location@transport`, `Bus`, `.NO2`, `@transport`. Raises InvalidInput for nothing at all."""
        what, _, node = text.strip().partition("@")
        type_, _, attribute = what.partition(".")
        if not (type_ or attribute or node):
            raise InvalidInput(
                f"{text!r} names nothing; write TYPE.ATTRIBUTE or TYPE.ATTRIBUTE@NODE, such as Bus.location@transport"
            )
        return cls(type_, attribute, node, quality)

    def select(self, observations: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        selector = Selector(
            types=(self.type,) if self.type else (), attributes=(self.attribute,) if self.attribute else (), quality=self.quality
        )
        found = selector.select(observations)
        return found.where(f.col("source") == self.node) if self.node else found


def encounters(observations: DataFrame, one: Side, other: Side, *, within_m: float, within_s: float) -> DataFrame:
    """Rows of `COLUMNS`: an observation of the first side, what it met, how far away that was and how long before."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    for number, limit, what in ((within_m, WITHIN_M_MAX, "metres"), (within_s, WITHIN_S_MAX, "seconds")):
        if not (isfinite(number) and 0 < number <= limit):
            raise InvalidInput(f"a reach in {what} is above 0 and at most {limit:g}, not {number:g}")
    slice_us = round(within_s * 1e6)

    def slices(moment: str) -> Column:
        return f.floor(f.unix_micros(moment) / f.lit(slice_us))

    mine = _placed(one.select(observations)).select(*_OWN)
    mine = mine.withColumns({"strip": strips(f.col("lat"), within_m), "slice": slices("observed_at")})
    theirs = _placed(other.select(observations)).select(*(f.col(name).alias(f"other_{name}") for name in _OWN))
    strip, slice_ = strips(f.col("other_lat"), within_m), slices("other_observed_at")
    theirs = theirs.withColumn("strip", f.explode(f.array(*(strip + step for step in (-1, 0, 1)))))
    theirs = theirs.withColumn("slice", f.explode(f.array(slice_, slice_ + 1)))
    ago_us = f.unix_micros("observed_at") - f.unix_micros("other_observed_at")
    joined = mine.join(theirs, ["strip", "slice"]).withColumns(
        {"metres": metres(*map(f.col, ("lat", "lon", "other_lat", "other_lon"))), "seconds": ago_us / f.lit(1e6)}
    )
    met = joined.where(
        ago_us.between(0, slice_us) & (f.col("metres") <= f.lit(within_m)) & (f.col("entity") != f.col("other_entity"))
    )
    best = Window.partitionBy("key").orderBy(f.desc("other_observed_at"), "metres", "other_entity", "other_key")
    return met.withColumn("turn", f.row_number().over(best)).where("turn = 1").select(*COLUMNS)


def _placed(observations: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return observations.where(f.col("lat").isNotNull() & f.col("lon").isNotNull())
