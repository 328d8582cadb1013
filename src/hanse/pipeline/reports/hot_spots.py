"""Hot spots: the places where an attribute is high, by what is known of it and how well.

Places are squares, scopes (streets) or entities (`hanse.pipeline.capsules.places.Place`). The value of a place is the weighted
mean of its observations, or a weighted percentile; the weight of an observation is a percentage of its quality (`by`, accuracy
unless another is named), as in fusion. Who states none has the weight `unknown`; where a place has no weight at all, all its
observations count alike. The percentile p is the least value that, with all that are not greater, has p percent of the place's
weight. Places are **ranked by that value**, the highest first.

**z** says which places stand out together with those around them: the statistic Gi* of Getis and Ord (Geographical Analysis
27(4), 1995), with the weight 1 for places at most `near` metres away, the place itself among them, and 0 for others:

    z = (sum of x near i - k * mean) / (S * sqrt((n * k - k * k) / (n - 1)))

of n places with the mean and the standard deviation S of all, k of them near i. Above 1.96 a place is hot, below -1.96 it is
cold, each with 95 % confidence if values were spread by chance. With a handful of places it says little; where it cannot be
computed (all places are near each other, or alike) it is None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from hanse.model import InvalidInput
from hanse.pipeline.capsules.aggregation import SAME
from hanse.pipeline.capsules.places import METRES_PER_DEGREE, Place
from hanse.pipeline.capsules.propagation import is_averaged
from hanse.pipeline.reports.reading import metres, strips
from hanse.quality import default_registry

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PLACES_MAX: Final = 1_000  # that are told
NEAR_CELLS: Final = 1.5  # widths of a cell: the eight cells around it
NEAR_M: Final = 1_000.0  # of other places
HOT: Final = 1.96
_SPREAD_MIN: Final = 1e-9  # of the values, in parts of their size: less is the arithmetic's


class HotSpot(Struct, frozen=True):
    rank: int
    place: str
    lat: float | None
    lon: float | None
    value: float
    observations: int  # that have weight
    entities: int
    quality: float | None  # the mean of `by` over those that state it
    neighbours: int  # places near it, without itself
    z: float | None

    @property
    def is_hot(self) -> bool:
        return self.z is not None and self.z >= HOT


def hot_spots(
    observations: DataFrame,
    attribute: str,
    *,
    where: Place | None = None,
    by: str = "accuracy",
    unknown: float = 0.0,
    percentile: float | None = None,
    near_m: float | None = None,
    observations_min: int = 1,
    places_max: int = PLACES_MAX,
) -> list[HotSpot]:
    """The highest places first. Raises InvalidInput for a criterion that is no percentage, and for a percentile that is none."""
    from pyspark.sql import functions as f

    where = where or Place.of("cell 500")
    if not is_averaged(default_registry().criterion(by).name):
        raise InvalidInput(f"observations are weighed by a percentage such as accuracy or precision, not by {by}")
    if percentile is not None and not 0 < percentile <= 100:
        raise InvalidInput(f"a percentile is above 0 and at most 100, not {percentile:g}")
    if near_m is None:
        near_m = NEAR_CELLS * where.metres if where.by == "cell" else NEAR_M
    if not near_m > 0:
        raise InvalidInput(f"near is a number of metres above 0, not {near_m:g}")
    places = _places(observations, attribute, where, by, unknown, percentile).where(f.col("observations") >= observations_min)
    places = places.cache()
    try:
        rows = _with_z(places, near_m).orderBy(f.desc("value"), "place").limit(places_max).collect()
    finally:
        places.unpersist()
    return [
        HotSpot(
            rank=rank,
            place=row["place"],
            lat=row["lat"],
            lon=row["lon"],
            value=row["value"],
            observations=row["observations"],
            entities=row["entities"],
            quality=row["quality"],
            neighbours=row["near"] - 1 if row["near"] else 0,
            z=row["z"],
        )
        for rank, row in enumerate(rows, start=1)
    ]


def _places(
    observations: DataFrame, attribute: str, where: Place, by: str, unknown: float, percentile: float | None
) -> DataFrame:
    """One row a place: where it is, its value, and of how many observations and entities."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    found = observations.where((f.col("attribute") == attribute) & f.col("value").isNotNull() & ~f.isnan("value"))
    found = found.dropDuplicates([*SAME, "value"]).withColumn("place", where.column()).where(f.col("place").isNotNull())
    of_place = Window.partitionBy("place")
    stated = f.try_element_at("quality", f.lit(by))
    weighed = found.withColumns({"stated": stated, "weight": f.coalesce(stated, f.lit(unknown))})
    weight = f.when(f.sum("weight").over(of_place) > 0, f.col("weight")).otherwise(f.lit(1.0))
    weighed = weighed.withColumn("weight", weight).where(f.col("weight") > 0)
    if percentile is None:
        value = f.sum(f.col("weight") * f.col("value")) / f.sum("weight")
    else:
        up_to = of_place.orderBy("value").rangeBetween(Window.unboundedPreceding, Window.currentRow)
        share = f.sum("weight").over(up_to) / f.sum("weight").over(of_place)
        weighed = weighed.withColumn("share", share)
        value = f.min(f.when(f.col("share") >= f.lit(percentile / 100 - 1e-12), f.col("value")))
    lat, lon = _middle(where.metres) if where.by == "cell" else (f.avg("lat"), f.avg("lon"))
    return weighed.groupBy("place").agg(
        value.alias("value"),
        lat.alias("lat"),
        lon.alias("lon"),
        f.count(f.lit(1)).alias("observations"),
        f.count_distinct("source", "entity").alias("entities"),
        f.avg("stated").alias("quality"),
    )


def _middle(width: float) -> tuple[Column, Column]:
    """`hanse.pipeline.capsules.places.middle` of the column `place`."""
    from pyspark.sql import functions as f

    height = width / METRES_PER_DEGREE
    row, column = (f.split_part("place", f.lit("_"), f.lit(part)).cast("double") for part in (1, 2))
    lat = (row + 0.5) * height
    return lat, (column + 0.5) * height / f.cos(f.radians(lat))


def _with_z(places: DataFrame, near_m: float) -> DataFrame:
    """With Gi*: each place is joined with those near it, which are in the same strip of latitude or the next."""
    from pyspark.sql import functions as f

    known = places.where(f.col("lat").isNotNull() & f.col("lon").isNotNull()).select("place", "value", "lat", "lon")
    known = known.withColumn("strip", strips(f.col("lat"), near_m))
    others = known.select(
        f.col("value").alias("x"),
        f.col("lat").alias("other_lat"),
        f.col("lon").alias("other_lon"),
        f.explode(f.array(*(f.col("strip") + step for step in (-1, 0, 1)))).alias("strip"),
    )
    way = metres(f.col("lat"), f.col("lon"), f.col("other_lat"), f.col("other_lon"))
    near = known.join(others, "strip").where(way <= f.lit(near_m))
    sums = near.groupBy("place").agg(f.sum("x").alias("sum"), f.count(f.lit(1)).alias("near"))
    of_all = known.agg(
        f.count(f.lit(1)).alias("n"), f.avg("value").alias("mean"), f.coalesce(f.stddev_pop("value"), f.lit(0.0)).alias("spread")
    )
    return places.join(sums, "place", "left").crossJoin(f.broadcast(of_all)).withColumn("z", _z())


def _z() -> Column:
    from pyspark.sql import functions as f

    n, k, mean, spread = (f.col(name).cast("double") for name in ("n", "near", "mean", "spread"))
    is_defined = (k < n) & (spread > f.lit(_SPREAD_MIN) * f.abs(mean))
    return f.when(is_defined, (f.col("sum") - k * mean) / (spread * f.sqrt((n * k - k * k) / (n - 1))))
