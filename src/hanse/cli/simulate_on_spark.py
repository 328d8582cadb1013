"""`hanse simulate --engine spark`: the DisGB simulation by joins, for as many clients as one likes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from hanse.cli.output import progress_bar
from hanse.model import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hanse.routing import Federation
    from hanse.simulation.replay import Recording
    from hanse.simulation.run import Result

ENGINES: Final = ("exact", "spark")
COMPUTED: Final = (
    "flood-events",
    "flood-subscriptions",
    "geo-subscriber",
    "geo-publisher",
    "dht",
    "grid-quorum",
    "broadcast-groups",
)


def is_spark(engine: str) -> bool:
    if engine not in ENGINES:
        raise InvalidInput(f"there is no engine {engine!r}; take {' or '.join(ENGINES)}", place="--engine")
    return engine == "spark"


def run_on_spark(
    names: list[str],
    federation: Federation,
    *,
    workload: str,
    clients: int,
    duration_s: int,
    seed: int,
    field_deg: float,
    flood_locations: bool,
    master: str,
    scratch: Path | None,
) -> list[Result]:
    """The results of each strategy, as the exact engine gives them."""
    if workload != "hiking":
        raise InvalidInput(f"the spark engine runs workload hiking, not {workload}; take --engine exact", place="--workload")
    if not federation.is_mesh:
        raise InvalidInput("the spark engine needs topology cities or mesh; take --engine exact", place="--topology")
    from hanse.pipeline.simulation import hiking_simulation, simulation_session
    from hanse.simulation.latency import by_distance
    from hanse.simulation.run import settings_for

    with steps(len(names)) as step, simulation_session("hanse-simulate", clients, master) as spark:
        step("making the workload")
        with hiking_simulation(
            spark, federation, clients=clients, duration_s=duration_s, seed=seed, field_deg=field_deg, folder=scratch
        ) as simulation:
            results = []
            for name in names:
                settings = settings_for(name, federation, field_size_deg=field_deg, flood_locations=flood_locations)
                latencies = by_distance(settings.federation)
                results.append(simulation.run(settings, latencies, about(name, step)))
                step(name, 1)
            return results


def replay_on_spark(names: list[str], recording: Recording, *, master: str) -> list[Result]:
    from hanse.pipeline.simulation import SparkSimulation, simulation_session, tables_of_recording

    results = []
    with (
        steps(len(names)) as step,
        simulation_session("hanse-simulate", len(recording.requests), master) as spark,
        SparkSimulation(spark, tables_of_recording(spark, recording)) as simulation,
    ):
        for name in names:
            simulator = recording.simulator(name)
            results.append(simulation.run(simulator.settings, simulator.latencies, about(name, step)))
            step(name, 1)
    return results


@contextmanager
def steps(total: int) -> Iterator[Callable[..., None]]:
    """A progress bar; its function is told what is being done, and how many strategies are finished with that."""
    with progress_bar() as bar:
        task = bar.add_task("starting Spark", total=total)
        yield lambda what, advance=0: bar.update(task, description=what, advance=advance)


def about(strategy: str, step: Callable[[str], None]) -> Callable[[str], None]:
    return lambda what: step(f"{strategy}: {what}")


_CLASSES: Final = {
    "Locate": "CLocationUpdate",
    "Subscribe": "CSubscriptionUpdate",
    "Publish": "CEventMatching",
    "ClientLocation": "BLocationUpdate",
    "PutSubscription": "BSubscriptionUpdate",
    "Event": "BEventMatching",
    "Delivery": "BEventDelivery",
}


def summary_of(result: Result) -> dict[str, Any]:
    """A result in the names and the form of the authors' expected.json, as far as it holds what these tell."""
    counts = {_CLASSES[name]: count for name, count in (result.requests | result.messages).items()}
    counts["CEventDelivery"] = result.deliveries
    latency, delay = result.latency_ms, result.subscription_delay_ms
    return {
        "message_counts": counts,
        "broker_to_broker_messages": result.between_brokers,
        "event_delivery_latency_ms": {"mean": latency.mean, "sd": latency.sd, "max": latency.max},
        "subscription_update_delay_ms": {"mean_corrected": delay.mean, "sd": delay.sd},
        "last_processed_tick_ms": result.ended_at_ms,
    }
