"""How much the clients of each broker do, by topic: all that the plain part of a strategy's traffic depends on."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hanse.model import InvalidInput
from hanse.pipeline.simulation.following import located_with_a_subscription
from hanse.pipeline.simulation.matching import collected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hanse.pipeline.simulation.tables import Tables


class Counted:
    """Of one kind of request: how many, and when the last was sent, by home and topic; of locations, by home."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.count = np.zeros(shape, dtype=np.int64)
        self.last_ms = np.zeros(shape, dtype=np.int64)
        self.clients = np.zeros(shape, dtype=np.int64)


class Census:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._shape = (len(tables.nodes), len(tables.topics))

    @cached_property
    def locations(self) -> Counted:
        return self._count(self._tables.locations, "home")

    @cached_property
    def followed(self) -> Counted:
        """Locations of clients that have subscribed to something before."""
        return self._count(located_with_a_subscription(self._tables), "home")

    @cached_property
    def subscriptions(self) -> Counted:
        """With how many clients subscribe: each of them once to a topic, however often it renews that."""
        return self._count(self._tables.subscriptions, "home", "topic")

    @cached_property
    def publications(self) -> Counted:
        return self._count(self._tables.publications, "home", "topic")

    def _count(self, rows: DataFrame, *keys: str) -> Counted:
        from pyspark.sql import functions as f

        wanted = [f.count("*").alias("count"), f.max("at").alias("last")]
        counted = Counted(self._shape[: len(keys)])
        if rows is self._tables.subscriptions:
            rows = rows.groupBy(*keys, "client").agg(f.count("*").alias("times"), f.max("at").alias("at"))
            wanted = [f.sum("times").alias("count"), f.max("at").alias("last"), f.count("*").alias("clients")]
        found = collected(rows.groupBy(*keys).agg(*wanted))
        place = tuple(found[key] for key in keys)
        counted.count[place] = found["count"]
        counted.last_ms[place] = found["last"]
        if "clients" in found:
            counted.clients[place] = found["clients"]
        return counted

    def check(self) -> None:
        """A client has one home: its own knowledge would otherwise be in two places."""
        from pyspark.sql import functions as f

        tables = self._tables
        homes = tables.locations.select("client", "home").union(tables.subscriptions.select("client", "home"))
        moved = homes.groupBy("client").agg(f.count_distinct("home").alias("homes")).where("homes > 1").limit(1).collect()
        if moved:
            raise InvalidInput("the spark engine needs clients that keep to one broker")
