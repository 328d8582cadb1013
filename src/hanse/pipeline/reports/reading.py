"""What reports read: the observations of a lake, the days that are asked for, and how far two points are apart.

Days are those in which something was observed, in UTC, and not those in which a node accepted it: what is collected today of last
year is last year's.
"""

from __future__ import annotations

from datetime import date, timedelta
from math import radians
from typing import TYPE_CHECKING, Final, Self

from msgspec import Struct

from hanse.model import InvalidInput
from hanse.model.geofence import EARTH_RADIUS_KM
from hanse.pipeline.lake import QUALIFIED, RAW, Lake
from hanse.pipeline.observations import COLUMNS, observations

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

EARTH_RADIUS_M: Final = EARTH_RADIUS_KM * 1000
METRES_PER_DEGREE: Final = EARTH_RADIUS_M * radians(1)


class Days(Struct, frozen=True):
    """From one day to another, both included; without one there is no bound on that side."""

    first: date | None = None
    last: date | None = None

    @classmethod
    def of(cls, first: str = "", last: str = "") -> Self:
        """As users write them, 2026-01-31. Raises InvalidInput."""
        days = cls(_day(first, "from"), _day(last, "until"))
        if days.first is not None and days.last is not None and days.last < days.first:
            raise InvalidInput(f"there is no day from {first} until {last}; let the first one be the earlier")
        return days

    def column(self, moment: str = "observed_at") -> Column:
        """Whether a column of timestamps is in these days."""
        from pyspark.sql import functions as f

        found = f.lit(True)
        if self.first is not None:
            found &= f.col(moment) >= f.lit(f"{self.first}T00:00:00Z").cast("timestamp")
        if self.last is not None:
            found &= f.col(moment) < f.lit(f"{self.last + timedelta(days=1)}T00:00:00Z").cast("timestamp")
        return found


def _day(text: str, what: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise InvalidInput(f"{what} is a day such as 2026-01-31, not {text[:40]!r}") from None


def lake_observations(spark: SparkSession, lake: Lake, table: str = "", context: str = "") -> DataFrame:
    """What a lake has observed, in the long form; `table` is `raw` if there is one and nothing is said, else `qualified`.

    `context` is that which the source had when the table was written, as the option of the same name has it.
    """
    names = lake.names()
    chosen = table or (RAW if RAW in names else QUALIFIED)
    frame = lake.table(spark, chosen)
    if {"node", "offset", "attributes"} <= set(frame.columns):
        return observations(frame, context=context)
    if missing := sorted(set(COLUMNS) - {"accepted_at"} - set(frame.columns)):
        raise InvalidInput(
            f"the table {chosen} has no column {missing[0]}; reports read {RAW} or {QUALIFIED}, which a pipeline writes if its "
            f'[lake] says tables = ["{RAW}"]'
        )
    return frame.withColumnRenamed("at", "accepted_at").select(*COLUMNS)


def metres(lat: Column, lon: Column, other_lat: Column, other_lon: Column) -> Column:
    """The way between two points along the earth (haversine), as the node measures it."""
    from pyspark.sql import functions as f

    north, east = (f.sin(f.radians(two - one) / 2) for one, two in ((lat, other_lat), (lon, other_lon)))
    chord = north * north + f.cos(f.radians(lat)) * f.cos(f.radians(other_lat)) * east * east
    return f.lit(2 * EARTH_RADIUS_M) * f.asin(f.least(f.lit(1.0), f.sqrt(chord)))


def strips(lat: Column, reach_m: float) -> Column:
    """The strip of latitude that a point is in: what is at most so far away is in the same one or the one beside it."""
    from pyspark.sql import functions as f

    height = reach_m * (1 + 1e-6) / METRES_PER_DEGREE
    return f.floor(lat / f.lit(height))
