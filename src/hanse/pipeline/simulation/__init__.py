"""The DisGB simulation by set operations instead of message by message: the same counts and latencies, for a million clients.

`hanse.simulation` runs real brokers in virtual time; here the same workload stands in tables, and each strategy's result is
computed with a few joins and sums in Spark. That is possible because in this simulation nothing that a broker does changes when
a message arrives: all ways are fixed, so that every broker knows at any time what a client had said so many milliseconds
before (`network`). Where both engines can run, they agree (tests/pipeline/test_spark_simulation.py).

    with SparkSimulation(spark, tables_of_recording(spark, recording)) as simulation:
        result = simulation.run(settings, latencies)
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from hanse.model import InvalidInput
from hanse.pipeline.simulation.areas import check_at_home
from hanse.pipeline.simulation.census import Census
from hanse.pipeline.simulation.matching import Candidates
from hanse.pipeline.simulation.network import Network
from hanse.pipeline.simulation.strategies import STRATEGIES, Run
from hanse.pipeline.simulation.tables import Tables, hiking_tables, tables_of_actions, tables_of_recording
from hanse.pipeline.simulation.touching import FieldMap
from hanse.simulation.run import TICK_EVERY_MS, Result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hanse.pipeline.simulation.strategies import Step
    from hanse.routing import Settings
    from hanse.simulation.latency import Latencies

__all__ = [
    "STRATEGIES",
    "FieldMap",
    "SparkSimulation",
    "Tables",
    "hiking_tables",
    "tables_of_actions",
    "tables_of_recording",
]


class SparkSimulation:
    """A workload, ready to be run under any of the seven strategies. What it keeps on the disk goes when it is closed."""

    def __init__(self, spark: SparkSession, tables: Tables, folder: Path | None = None) -> None:
        """`folder`: for intermediate tables; on a cluster one that all machines share."""
        self.spark = spark
        self.tables = tables
        self.census = Census(tables)
        self._folder = Path(tempfile.mkdtemp(prefix="hanse-simulation-", dir=folder))
        self._candidates: Candidates | None = None
        self._shared: dict[str, Any] = {}
        self._is_at_home = False
        spark.conf.set("spark.sql.requireAllClusterKeysForCoPartition", "false")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._candidates is not None:
            self._candidates.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, settings: Settings, latencies: Latencies, step: Step = lambda _: None) -> Result:
        """`step` is told what is being computed."""
        strategy = STRATEGIES.get(settings.strategy)
        if strategy is None:
            raise InvalidInput(f"the spark engine has no strategy {settings.strategy!r}; it has {', '.join(STRATEGIES)}")
        if not settings.flood_locations:
            raise InvalidInput("the spark engine computes the DisGB simulation, which floods locations: add --flood-locations")
        network = Network(settings, latencies)
        if settings.strategy.startswith("geo-") and not self._is_at_home:
            check_at_home(self.tables, FieldMap.of(settings))
            self._is_at_home = True
        if self._candidates is None:
            step("counting what clients do")
            self.census.check()
            self._candidates = Candidates(self.spark, self.tables, self._folder, slack_ms=6 * int(network.ms.max()))
        run = Run(self.tables, self.census, self._candidates, network, shared=self._shared, step=step)
        run.begin()
        strategy(run)
        costs = run.costs
        if self.tables.ticks:
            last = max(int(each.last_ms.max(initial=0)) for each in self._counted())
            costs.last_ms = max(costs.last_ms, -(-last // TICK_EVERY_MS) * TICK_EVERY_MS)
        return costs.result(settings.strategy, self.requests)

    def _counted(self) -> tuple[Any, ...]:
        return self.census.locations, self.census.subscriptions, self.census.publications

    @property
    def requests(self) -> dict[str, int]:
        """What clients ask for, by class."""
        names = ("Locate", "Subscribe", "Publish")
        counts = {name: int(each.count.sum()) for name, each in zip(names, self._counted(), strict=True)}
        return {"Attach": self.tables.attached, **counts}
