"""Which publications reach which subscribers, for all of them at once: the join at the heart of the large simulation.

Four steps, each one a query:

1. *As of.* A subscription holds until its client sends the next one to the same topic, a location until the next location.
   Where the two overlap in time is a `stay`: a span in which a subscriber asked for one circle and was at one place.
2. *Cells.* The earth is cut into cells of about 10 by 10 degrees. A stay is in the cell of its place, a publication in every
   cell that its geofence touches.
3. *Join* by topic and cell. Both tables are kept in buckets by topic, so that no join moves a row, and each bucket fits
   into memory whatever the number of clients.
4. *Decide*: the time of the publication and the strategy's cut (see `network`) fall into the stay; the subscriber is in the
   publication's geofence, the publisher in the subscription's (haversine).

Only how many subscribers each broker has for each publication leaves the join; pairs are never kept.
"""

from __future__ import annotations

from itertools import pairwise
from math import cos, radians
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from pyspark.sql import Column, DataFrame, SparkSession

    from hanse.pipeline.simulation.network import Network, Option
    from hanse.pipeline.simulation.tables import Tables

CELL_DEG: Final = 10.0
BANDS: Final = round(180.0 / CELL_DEG)
DOUBT: Final = 1e-9  # of a chord squared: far more than rounding makes of it, far less than matters
MARGIN_DEG: Final = 1e-6  # a cell too many costs little, one too few a delivery
LAST: Final = 2**40  # later than anything
ROWS_A_BUCKET: Final = 60_000  # subscriptions, so that what a task holds stays far below its memory
BUCKETS_MAX: Final = 256
BY_PUBLICATION: Final = ("topic", "id", "p", "h", "at")


def columns_of_bands() -> list[int]:
    """How many cells go round the earth in each band of latitude: fewer near the poles, so that all are about as wide."""
    edges = [-90.0 + CELL_DEG * band for band in range(BANDS + 1)]
    widest = [max(cos(radians(a)), cos(radians(b))) for a, b in pairwise(edges)]
    return [max(1, int(360.0 * each / CELL_DEG)) for each in widest]


def numbers(values: NDArray[np.int64] | Sequence[int], index: str) -> str:
    """SQL: an element of an array that stands in the query itself, which the optimiser makes a constant."""
    return f"cast(split('{','.join(map(str, np.asarray(values).ravel().tolist()))}', ',') as array<int>)[{index}]"


def collected(frame: DataFrame) -> dict[str, NDArray[np.int64]]:
    """A small table of numbers, by column."""
    table = frame.toArrow()
    return {name: table[name].to_numpy() for name in table.column_names}


def expression(sql: str) -> Column:
    from pyspark.sql import functions as f

    return f.expr(sql)


class Candidates:
    """The publications and the stays of a workload, by topic and cell, ready to be joined for any strategy."""

    def __init__(self, spark: SparkSession, tables: Tables, folder: Path, slack_ms: int) -> None:
        """`slack_ms`: no cut is longer."""
        self.spark, self.tables, self.folder = spark, tables, folder
        self.buckets = min(BUCKETS_MAX, max(2, -(-tables.clients * 5 // ROWS_A_BUCKET)))
        self._names: dict[str, str] = {}
        self.slack_ms = slack_ms

    # --- the two sides ------------------------------------------------------------------------------------------------

    def publications(self) -> DataFrame:
        return self._kept("publications", self._publications)

    def stays(self) -> DataFrame:
        """As each client's own broker sees it."""
        return self._kept("stays", lambda: self._stays("0", "0"))

    def stays_at(self, name: str, subscriptions_later: NDArray[np.int64], locations_later: NDArray[np.int64]) -> DataFrame:
        """As one other broker sees it, which hears of each home's subscriptions and locations so many milliseconds later."""
        return self._kept(name, lambda: self._stays(numbers(subscriptions_later, "home"), numbers(locations_later, "home")))

    def _publications(self) -> DataFrame:
        from pyspark.sql import functions as f

        made = self.tables.publications.withColumn("reach", f.expr("pow(sin(radians(radius) / 2), 2)"))
        if self.tables.says_where:
            made = made.withColumns({"p_since": f.lit(-LAST), "p_until": f.lit(LAST)})
            made = made.withColumnsRenamed({"here_lat": "p_lat", "here_lon": "p_lon"})
        else:
            made = self._with_known_places(made.drop("here_lat", "here_lon"))
        made = made.selectExpr("*", *_on_sphere(""), *_on_sphere("p_"))
        return _in_touched_cells(made).drop("client", "radius")

    def _with_known_places(self, publications: DataFrame) -> DataFrame:
        """With the places where the publisher may be thought to be by a broker that matches: nearly always one."""
        from pyspark.sql import functions as f

        known = until_next(self.tables.locations, "client").select(
            f.col("client").alias("who"),
            f.col("at").alias("p_since"),
            f.col("until").alias("p_until"),
            f.col("lat").alias("p_lat"),
            f.col("lon").alias("p_lon"),
        )
        slack = self.slack_ms
        near = f.expr(f"client = who AND p_since <= at + {slack} AND p_until > at - {slack}")
        return publications.join(known, near).drop("who")

    def _stays(self, subscriptions_later: str, locations_later: str) -> DataFrame:
        from pyspark.sql import functions as f

        asked = until_next(self.tables.subscriptions, "client", "topic").selectExpr(
            "client",
            "home",
            "topic",
            f"at + {subscriptions_later} AS since",
            f"until + {subscriptions_later} AS until",
            "lat AS s_lat",
            "lon AS s_lon",
            "pow(sin(radians(radius) / 2), 2) AS s_reach",
        )
        places = until_next(self.tables.locations, "client").selectExpr(
            "client AS who",
            f"at + {locations_later} AS there_since",
            f"until + {locations_later} AS there_until",
            "lat",
            "lon",
        )
        both = asked.join(places, f.expr("client = who AND since < there_until AND there_since < until"))
        rows = columns_of_bands()
        band = f"least(int((lat + 90) / {CELL_DEG}), {BANDS - 1})"
        column = f"pmod(int(floor((lon + 180) * {numbers(rows, band)} / 360)), {numbers(rows, band)})"
        return both.selectExpr(
            "topic",
            f"{band} * 1000 + {column} AS cell",
            "client",
            "home",
            "greatest(since, there_since) AS since",
            "least(until, there_until) AS until",
            "lat",
            "lon",
            "s_lat",
            "s_lon",
            "s_reach",
            *_on_sphere(""),
            *_on_sphere("s_"),
        )

    def _kept(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        """A table in buckets by topic on the disk, made when it is first asked for."""
        if name not in self._names:
            table = f"hanse_{uuid4().hex}_{name}"
            (
                make()
                .repartition(self.buckets, "topic")
                .write.bucketBy(self.buckets, "topic")
                .option("path", str(self.folder / name))
                .mode("overwrite")
                .saveAsTable(table)
            )
            self._names[name] = table
        return self.spark.table(self._names[name])

    def close(self) -> None:
        for table in self._names.values():
            self.spark.sql(f"DROP TABLE IF EXISTS {table}")
        self._names.clear()

    # --- the join -----------------------------------------------------------------------------------------------------

    def told(self, stays: DataFrame, *cuts: tuple[str, str], every: str = "1") -> DataFrame:
        """For each publication and each home with subscribers for it: topic, id, p, h, at, and how many.

        `cuts`: one or two ways to be matched, each the SQL of the subscriber's and of the publisher's cut over `p`, `h` and
        `topic`. With two, `first`, `second` and `both` say how many are matched on the one only, the other only, and on both;
        `every` is the SQL that says which there are between p and h: 1, 2, or both 3.
        """
        from pyspark.sql import functions as f

        publications = self.publications().alias("e")
        matches = (
            f"e.topic = s.topic AND e.cell = s.cell AND s.since - {self.slack_ms} <= e.at AND e.at < s.until + {self.slack_ms}"
            f" AND {_lies_in('s.', 'e.', 'e.reach')} AND {_lies_in('e.p_', 's.s_', 's.s_reach')}"
        )
        joined = publications.join(stays.alias("s").hint("shuffle_hash"), f.expr(matches))
        names = "e.topic, e.id, e.home AS p, s.home AS h, s.client, e.at, s.since, s.until, e.p_since, e.p_until"
        pairs = joined.selectExpr(*names.split(", "))
        if len(cuts) == 1:
            return pairs.where(_holds(*cuts[0])).groupBy(*BY_PUBLICATION).agg(f.count("*").alias("first"))
        marks = " + ".join(f"if({_holds(*cut)}, {1 << k}, 0)" for k, cut in enumerate(cuts))
        matched = pairs.withColumn("how", f.expr(marks)).where("how > 0")
        # who is matched on every way in one stay is done; only the few others may be matched on the other way in another stay
        who = matched.withColumn("who", f.expr(f"if(how = {every}, -1, client)"))
        once = who.groupBy(*BY_PUBLICATION, "who").agg(f.bit_or("how").alias("how"), f.count("*").alias("rows"))
        once = once.withColumn("clients", f.expr("if(who < 0, rows, 1)"))
        ways = {"first": 1, "second": 2, "both": 3}
        counts = [f.sum(f.expr(f"if(how = {how}, clients, 0)")).alias(name) for name, how in ways.items()]
        return once.groupBy(*BY_PUBLICATION).agg(*counts)


def _on_sphere(of: str) -> list[str]:
    """The columns of a point on the unit sphere, for one that is given by latitude and longitude."""
    lat, lon = f"radians({of}lat)", f"radians({of}lon)"
    return [f"cos({lat}) * cos({lon}) AS {of}x", f"cos({lat}) * sin({lon}) AS {of}y", f"sin({lat}) AS {of}z"]


def _lies_in(point: str, centre: str, reach: str) -> str:
    """Whether a point is in a circle: by the haversine; where the chord leaves no doubt, that is enough, and quicker."""
    chord = " + ".join(f"({point}{axis} - {centre}{axis}) * ({point}{axis} - {centre}{axis})" for axis in "xyz")
    haversine = (
        f"pow(sin(radians({point}lat - {centre}lat) / 2), 2) + cos(radians({centre}lat)) * cos(radians({point}lat)) "
        f"* pow(sin(radians({point}lon - {centre}lon) / 2), 2)"
    )
    near, far = f"{chord} <= 4 * {reach} - {DOUBT}", f"{chord} <= 4 * {reach} + {DOUBT}"
    return f"({near} OR ({far} AND {haversine} <= {reach}))"


def _holds(cut: str, publisher_cut: str) -> str:
    moment, publisher_moment = f"at + ({cut})", f"at + ({publisher_cut})"
    return f"since <= {moment} AND {moment} < until AND p_since <= {publisher_moment} AND {publisher_moment} < p_until"


def cut_of(option: Option, network: Network) -> tuple[str, str]:
    """The SQL of an option's cuts."""
    index = f"p * {network.size} + h"
    return numbers(option.cut, index), numbers(option.publisher_cut, index)


def until_next(rows: DataFrame, *keys: str) -> DataFrame:
    """Each row with the time of the next one of the same keys; what is replaced within its own millisecond never holds."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    following = Window.partitionBy(*keys).orderBy("at", "seq")
    return rows.withColumn("until", f.lead("at", 1, LAST).over(following)).where("at < until")


def _in_touched_cells(circles: DataFrame) -> DataFrame:
    """Each circle once for each cell that it may touch."""
    from pyspark.sql import functions as f

    rows = columns_of_bands()
    last = BANDS - 1
    banded = circles.withColumns(
        {
            # as wide as the circle is anywhere; round a pole it is as wide as the earth
            "width": f.expr(
                f"if(abs(lat) + radius + {MARGIN_DEG} >= 90, 180D, "
                f"degrees(asin(sin(radians(radius)) / cos(radians(lat)))) + {MARGIN_DEG})"
            ),
            "band": f.expr(
                f"explode(sequence(greatest(0, int(floor((lat - radius - {MARGIN_DEG} + 90) / {CELL_DEG}))), "
                f"least({last}, int(floor((lat + radius + {MARGIN_DEG} + 90) / {CELL_DEG})))))"
            ),
        }
    ).withColumn("cells", f.expr(numbers(rows, "band")))
    first, end = "int(floor((lon - width + 180) * cells / 360))", "int(floor((lon + width + 180) * cells / 360))"
    columns = f"sequence({first}, least({end}, {first} + cells - 1))"
    return (
        banded.withColumn("column", f.expr(f"explode({columns})"))
        .withColumn("cell", f.expr("band * 1000 + pmod(column, cells)"))
        .drop("width", "band", "cells", "column")
    )
