"""The DisGB simulation on Spark: seconds for each strategy, against the limits, and against the exact simulator in the same run.

Example: python benchmarks/bench_spark_simulation.py --clients 100000 --nodes 25 --strategies dht,flood-events --json

Up to 100,000 clients each strategy may take 2 minutes; a million clients may take 90 minutes for all seven and 16 GB. What
several strategies share (the workload, the tables that are joined, a join) counts for the first one that needs it. CPU seconds
and memory are those of this process and of all that it starts (Java, Spark's Python workers). On a machine that others use as
well, the CPU seconds are the better measure.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from pathlib import Path
from typing import Self

from rich.console import Console

from figures import Figure, show

EXACT_CLIENTS = 2_000
SECONDS_EACH = 120.0
SECONDS_MILLION = 90 * 60.0
GIGABYTES_MILLION = 16.0
MILLION = 1_000_000
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=25)
    parser.add_argument("--strategies", default="")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    console = Console(width=130)

    from hanse.pipeline.simulation import STRATEGIES

    names = arguments.strategies.split(",") if arguments.strategies else list(STRATEGIES)
    exact = exact_seconds(names[0], arguments.nodes)
    seconds, cpu, gigabytes = on_spark(names, arguments.clients, arguments.nodes, arguments.master, console)
    figures = [
        Figure(
            name,
            seconds[name],
            "s",
            SECONDS_EACH * max(1.0, arguments.clients / 100_000),
            at_least=False,
            beside=f"{cpu[name]:,.0f} CPU s",
        )
        for name in names
    ]
    if arguments.clients >= MILLION:
        figures = [
            Figure(
                "all strategies",
                sum(seconds.values()),
                "s",
                SECONDS_MILLION,
                at_least=False,
                beside=f"{sum(cpu.values()):,.0f} CPU s",
            )
        ]
        figures += [Figure("memory at most", gigabytes, "GB", GIGABYTES_MILLION, at_least=False)]
    a_client = cpu[names[0]] / arguments.clients
    figures.append(
        Figure(
            f"CPU of the exact simulator / ours, a client, {names[0]}",
            exact / EXACT_CLIENTS / a_client,
            "",
            1.0,
            at_least=True,
            beside=f"exact with {EXACT_CLIENTS:,} clients, {exact:.1f} s; memory at most {gigabytes:.1f} GB",
        )
    )
    title = f"Simulation on Spark: {arguments.clients:,} clients, {arguments.nodes} brokers, {arguments.master}"
    show(figures, console, title, as_json=arguments.json)


def exact_seconds(strategy: str, nodes: int) -> float:
    from hanse.simulation.run import field_size, run
    from hanse.simulation.topologies import topology
    from hanse.simulation.workloads import workload

    before = time.process_time()
    federation = topology("cities", nodes=nodes, seed=1, clients=EXACT_CLIENTS)
    field_deg = field_size(federation)
    work = workload("hiking", federation, clients=EXACT_CLIENTS, duration_s=900, seed=1, field_deg=field_deg)
    run(work, strategy, flood_locations=True, field_size_deg=field_deg)
    return time.process_time() - before


def on_spark(
    names: list[str], clients: int, nodes: int, master: str, console: Console
) -> tuple[dict[str, float], dict[str, float], float]:
    from hanse.pipeline.simulation import hiking_simulation, simulation_session
    from hanse.simulation.latency import by_distance
    from hanse.simulation.run import field_size, settings_for
    from hanse.simulation.topologies import topology

    federation = topology("cities", nodes=nodes, seed=1, clients=clients)
    field_deg = field_size(federation)
    seconds: dict[str, float] = {}
    cpu: dict[str, float] = {}
    with simulation_session("hanse-bench", clients, master) as spark, Watch() as watch:
        spark.range(1).count()  # Spark is up
        began, used = time.perf_counter(), cpu_seconds()
        with hiking_simulation(spark, federation, clients=clients, duration_s=900, seed=1, field_deg=field_deg) as simulation:
            for name in names:
                settings = settings_for(name, federation, field_size_deg=field_deg, flood_locations=True)
                result = simulation.run(settings, by_distance(settings.federation))
                now, now_used = time.perf_counter(), cpu_seconds()
                seconds[name], cpu[name] = now - began, now_used - used
                began, used = now, now_used
                console.log(f"{name}: {seconds[name]:.0f} s, {cpu[name]:.0f} CPU s, {result.deliveries:,} deliveries")
    return seconds, cpu, watch.gigabytes


class Watch:
    """The most memory that this process and all that it starts have together."""

    def __init__(self) -> None:
        self.gigabytes = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(2.0):
            pages = sum(int(_read(pid, "statm").split()[1]) for pid in family() if _read(pid, "statm"))
            self.gigabytes = max(self.gigabytes, pages * PAGE / 2**30)


def cpu_seconds() -> float:
    """Of this process and its descendants, those included that have ended and were waited for."""
    return sum(sum(map(int, fields[11:15])) for pid in family() if (fields := _stat(pid))) / TICKS


def family() -> list[int]:
    """This process and all its descendants."""
    parents = {
        int(entry.name): int(fields[1])
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and (fields := _stat(int(entry.name)))
    }
    found = [os.getpid()]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def _stat(pid: int) -> list[str]:
    return _read(pid, "stat").rpartition(")")[2].split()


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8")
    except OSError:
        return ""


if __name__ == "__main__":
    main()
