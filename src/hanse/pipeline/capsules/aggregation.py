"""Aggregation: windows of time for each place, by statistics that Spark computes itself (so it is the quick one).

Attributes of the output: the name of the input's for `mean`, and with the statistic behind it for the others (`no2Max`).

**Quality.** Of a mean: the mean of that of its contributions, which is a bound (`hanse.pipeline.capsules.propagation`); of the
other statistics: the worst. Only criteria that all contributions state. `completeness`: observations there, of those expected
in a window (`expected`), times the least that one states. Freshness: the oldest contribution. A place's position is the mean
of those of its contributions; of a cell, its middle. The unit is that of the contributions, if it is the same for all.

Late observations count until the watermark is past; the same observation (entity, attribute, time) that comes twice counts
once: the first of them. What does not count is kept aside (`hanse.pipeline.capsules.screening`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final

from msgspec import Struct

from hanse.model import InvalidInput
from hanse.pipeline.capsules.capsule import Made, derived
from hanse.pipeline.capsules.places import Place, Windows, middle
from hanse.pipeline.capsules.propagation import COMPLETENESS, OWN, is_averaged
from hanse.pipeline.capsules.screening import SAME as SAME  # noqa: PLC0414  reports go by it, too
from hanse.pipeline.capsules.screening import again_in_window, again_once, first_of_same
from hanse.quality import default_registry

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

STATISTICS: Final = ("mean", "min", "max", "median", "sum", "count", "stddev")
_UNITLESS: Final = ("count",)
_NEEDED: Final = (*SAME, "place", "accepted_at", "key", "value", "text", "unit", "lat", "lon", "scopes", "quality")


class Aggregation(Struct, frozen=True):
    """`attributes`: which; `expected`: how many observations of each attribute a place should have in a window."""

    category: ClassVar[str] = "aggregation"
    is_of_numbers: ClassVar[bool] = True

    where: Place
    windows: Windows
    attributes: tuple[str, ...]
    statistics: tuple[str, ...] = ("mean",)
    expected: int | None = None

    def __post_init__(self) -> None:
        if not self.attributes:
            raise InvalidInput('an aggregation needs the attributes that it is of: attributes = ["no2"]')
        if unknown := sorted(set(self.statistics) - set(STATISTICS)):
            raise InvalidInput(f"there is no statistic {unknown[0]!r}; there are {', '.join(STATISTICS)}")
        if self.expected is not None and self.expected < 1:
            raise InvalidInput(f"expected is how many observations a window should have, 1 or more, not {self.expected}")

    def place(self) -> Column:
        return self.where.column()

    def rows(self, observations: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        numbers = observations.where(f.col("value").isNotNull() & f.col("attribute").isin(*self.attributes))
        marked = first_of_same(self.windows.marked(numbers.select(*_NEEDED)))
        groups = marked.groupBy(self.windows.column().alias("w"), "place").agg(
            f.min("observed_at").alias("observed_at"),
            f.avg("lat").alias("lat"),
            f.avg("lon").alias("lon"),
            f.min("scopes").alias("scopes"),
            again_in_window(),
            *(column for number, name in enumerate(self.attributes) for column in _aggregates(number, name, self.statistics)),
        )
        values = [
            self._value(number, name, statistic) for number, name in enumerate(self.attributes) for statistic in self.statistics
        ]
        return groups.select(
            "place",
            f.col("w.start").alias("start"),
            f.col("w.end").alias("end"),
            "observed_at",
            "lat",
            "lon",
            (f.col("scopes") if self.where.by in ("entity", "scope") else f.lit(None).cast("array<string>")).alias("scopes"),
            f.array(*values).alias("values"),
            again_once(self.windows.every_s),
        )

    def _value(self, number: int, name: str, statistic: str) -> Column:
        from pyspark.sql import functions as f

        count, stated, sums, worst = (f.col(f"{what}{number}") for what in ("n", "stated", "sum", "worst"))
        quality = []
        for criterion in _criteria():
            is_mean = statistic == "mean" and is_averaged(criterion)
            result = sums[criterion] / stated[criterion] if is_mean else worst[criterion]
            quality += [f.lit(criterion), f.when((count > 0) & (stated[criterion] == count), result)]
        least = f.col(f"least{number}")
        if self.expected is None:
            complete = least
        else:
            complete = f.coalesce(least, f.lit(100.0)) * f.least(f.lit(1.0), count / f.lit(self.expected))
        quality += [f.lit(COMPLETENESS), complete]
        unit = f.lit(None).cast("string") if statistic in _UNITLESS else f.col(f"unit{number}")
        return f.struct(
            f.lit(name if statistic == "mean" else f"{name}{statistic.capitalize()}").alias("attribute"),
            f.when(count > 0, f.col(f"{statistic}_{number}").cast("double")).alias("value"),
            f.lit(None).cast("string").alias("text"),
            unit.alias("unit"),
            f.map_filter(f.create_map(*quality), lambda _, one: one.isNotNull()).alias("quality"),
        )

    def made(self, row: dict[str, Any]) -> Iterator[Made]:
        if self.where.by == "cell":
            row["lat"], row["lon"] = middle(row["place"], self.where.metres)
        return derived(row)


def _criteria() -> list[str]:
    return sorted(default_registry().by_name.keys() - OWN)


def _aggregates(number: int, name: str, statistics: tuple[str, ...]) -> Iterator[Column]:
    """Of one attribute: its statistics, its unit, and of each criterion how many state it, and their sum or the worst of them."""
    from pyspark.sql import functions as f

    of_it = f.col("attribute") == name
    value = f.when(of_it, f.col("value"))
    functions = {
        "mean": f.avg,
        "min": f.min,
        "max": f.max,
        "median": lambda column: f.percentile_approx(column, 0.5),
        "sum": f.sum,
        "count": f.count,
        "stddev": f.stddev_samp,
    }
    yield from (functions[statistic](value).alias(f"{statistic}_{number}") for statistic in statistics)
    yield f.count(value).alias(f"n{number}")
    unit = f.when(of_it, f.coalesce("unit", f.lit("")))
    yield f.when(f.min(unit) == f.max(unit), f.max(unit)).alias(f"unit{number}")
    stated, sums, worst = [], [], []
    for criterion in _criteria():
        said = f.when(of_it, f.try_element_at("quality", f.lit(criterion)))
        stated.append(f.count(said).alias(criterion))
        if "mean" in statistics and is_averaged(criterion):
            sums.append(f.sum(said).alias(criterion))
        if statistics != ("mean",) or not is_averaged(criterion):
            is_lower = default_registry().by_name[criterion].definition.direction == "lower"
            worst.append((f.max if is_lower else f.min)(said).alias(criterion))
    for what, columns in (("stated", stated), ("sum", sums), ("worst", worst)):
        if columns:
            yield f.struct(*columns).alias(f"{what}{number}")
    yield f.min(f.when(of_it, f.try_element_at("quality", f.lit(COMPLETENESS)))).alias(f"least{number}")
