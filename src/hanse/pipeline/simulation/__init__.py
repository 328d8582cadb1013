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
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from hanse.model import InvalidInput
from hanse.pipeline.session import session
from hanse.pipeline.simulation.areas import check_at_home
from hanse.pipeline.simulation.census import Census
from hanse.pipeline.simulation.matching import Candidates
from hanse.pipeline.simulation.network import Network
from hanse.pipeline.simulation.strategies import STRATEGIES, Run
from hanse.pipeline.simulation.tables import Tables, hiking_tables, tables_of_actions, tables_of_recording
from hanse.pipeline.simulation.touching import FieldMap
from hanse.pipeline.words import words
from hanse.routing import Settings
from hanse.simulation.run import TICK_EVERY_MS, Result
from hanse.simulation.workloads import workload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from hanse.pipeline.simulation.strategies import Step
    from hanse.routing import Federation
    from hanse.simulation.latency import Latencies

__all__ = [
    "SAME_WORKLOAD_MAX",
    "STRATEGIES",
    "FieldMap",
    "SparkSimulation",
    "Tables",
    "hiking_simulation",
    "hiking_tables",
    "simulation_session",
    "tables_of_actions",
    "tables_of_recording",
]


SAME_WORKLOAD_MAX: Final = 20_000  # clients; up to here the exact engine's own workload is taken, so that both can be compared
GIGABYTES_LEAST: Final = 2  # of Spark's own process on one machine; what does not fit goes to the disk
CLIENTS_A_GIGABYTE: Final = 250_000
MASTERS: Final = ("local", "spark://", "sc://", "yarn", "k8s://")


class SparkSimulation:
    """A workload, ready to be run under any of the seven strategies. What it keeps on the disk goes when it is closed."""

    def __init__(self, spark: SparkSession, tables: Tables, folder: Path | None = None) -> None:
        """`folder`: for intermediate tables; on a cluster one that all machines share."""
        self.spark = spark
        self.tables = tables
        self.census = Census(tables)
        self._folder = _scratch(folder)
        self._candidates: Candidates | None = None
        self._shared: dict[tuple[str, bytes], Any] = {}
        self._checked: set[bytes] = set()  # areas that all clients keep to
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
        if not settings.flood_locations and not self.tables.says_where:
            raise InvalidInput("the spark engine needs flooded locations where publications do not say where they were made")
        network = Network(settings, latencies)
        if settings.strategy.startswith("geo-"):
            self._check_at_home(FieldMap.of(settings))
        step("counting what clients do")
        candidates = self._candidates_for(network)
        run = Run(self.tables, self.census, candidates, network, shared=self._shared, step=step)
        run.begin()
        strategy(run)
        costs = run.costs
        if self.tables.ticks:
            last = max(int(each.last_ms.max(initial=0)) for each in self._counted())
            costs.last_ms = max(costs.last_ms, -(-last // TICK_EVERY_MS) * TICK_EVERY_MS)
        return costs.result(settings.strategy, self.requests)

    def _check_at_home(self, fields: FieldMap) -> None:
        areas = fields.owner.tobytes()
        if areas not in self._checked:
            check_at_home(self.tables, fields)
            self._checked.add(areas)

    def _candidates_for(self, network: Network) -> Candidates:
        slack_ms = network.slowest_ms
        if self._candidates is None:
            self.census.check()
            self._candidates = Candidates(self.spark, self.tables, self._folder, slack_ms)
        elif self._candidates.slack_ms < slack_ms:  # this strategy has longer ways than those before
            self._candidates.close()
            self._candidates = Candidates(self.spark, self.tables, self._folder, slack_ms)
        return self._candidates

    def _counted(self) -> tuple[Any, ...]:
        return self.census.locations, self.census.subscriptions, self.census.publications

    @property
    def requests(self) -> dict[str, int]:
        """What clients ask for, by class."""
        names = ("Locate", "Subscribe", "Publish")
        counts = {name: int(each.count.sum()) for name, each in zip(names, self._counted(), strict=True)}
        return {"Attach": self.tables.attached, **counts}


@contextmanager
def hiking_simulation(
    spark: SparkSession,
    federation: Federation,
    *,
    clients: int,
    duration_s: int,
    seed: int,
    field_deg: float,
    folder: Path | None = None,
) -> Iterator[SparkSimulation]:
    """The DisGB simulation's workload on a federation, with any number of clients."""
    made = _scratch(folder)
    try:
        if clients <= SAME_WORKLOAD_MAX:
            work = workload("hiking", federation, clients=clients, duration_s=duration_s, seed=seed, field_deg=field_deg)
            tables = tables_of_actions(spark, federation, work.actions)
        else:
            fields = FieldMap.of(Settings("geo-publisher", federation, field_size_deg=field_deg))
            tables = hiking_tables(spark, federation, fields, clients=clients, duration_s=duration_s, seed=seed, folder=made)
        with SparkSimulation(spark, tables, made) as simulation:
            yield simulation
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def simulation_session(app: str, clients: int, master: str) -> Iterator[SparkSession]:
    """A session with memory for so many clients; what goes wrong in Spark is told in one line.

    It is stopped in the end, unless this process had one before.
    """
    if not master.startswith(MASTERS):
        raise InvalidInput(f"{master!r} is no master; take local[*], local[2] or spark://host:7077", place="--master")
    had_one = _has_session()
    spark = session(app, master, **{"spark.driver.memory": f"{GIGABYTES_LEAST + -(-clients // CLIENTS_A_GIGABYTE)}g"})
    from pyspark.errors import PySparkException

    try:
        yield spark
    except PySparkException as error:
        raise InvalidInput(f"Spark cannot go on: {words(error)}") from error
    finally:
        if not had_one:
            spark.stop()


def _has_session() -> bool:
    if find_spec("pyspark") is None:
        return False
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


def _scratch(folder: Path | None) -> Path:
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="hanse-simulation-", dir=folder))
    except OSError as error:
        raise InvalidInput(f"cannot be written to: {error.strerror}", place=str(folder)) from error
