"""`hanse simulate`: any strategy on any topology and workload, replays of recorded runs, and runs under faults."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from hanse.cli.output import console, follow, print_json, progress_bar
from hanse.cli.simulate_on_spark import COMPUTED, is_spark, replay_on_spark, run_on_spark, summary_of
from hanse.model import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hanse.simulation.hunt import Outcome
    from hanse.simulation.run import Result

app = typer.Typer(help="Simulate federations in virtual time, with the brokers that a live node runs.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
Strategy = Annotated[str, typer.Option("--strategy", "-s", help="A strategy, several separated by commas, or all.")]

Engine = Annotated[
    str,
    typer.Option(
        "--engine", help="exact: real brokers, message by message. spark: the same by joins, for a million clients (hiking)."
    ),
]
Master = Annotated[str, typer.Option("--master", help="Where Spark runs: local[*], local[2], spark://host:7077.")]


def chosen(text: str, names: Iterable[str]) -> list[str]:
    known = list(names)
    if text == "all":
        return known
    picked = [name.strip() for name in text.split(",") if name.strip()]
    if wrong := next((name for name in picked if name not in known), None):
        raise InvalidInput(f"there is no strategy {wrong!r} here; take {', '.join(known)}, or all", place="--strategy")
    if not picked:
        raise InvalidInput("names no strategy", place="--strategy")
    return picked


@app.command()
def run(
    strategy: Strategy = "all",
    topology: Annotated[
        str, typer.Option("--topology", "-t", help="transit-stub, hybrid, mesh, star, tree, ring or cities.")
    ] = "cities",
    nodes: Annotated[int, typer.Option("--nodes", "-n", min=1, help="How many brokers.")] = 25,
    workload: Annotated[
        str, typer.Option("--workload", "-w", help="hiking, environmental, context, smart-port or random.")
    ] = "hiking",
    clients: Annotated[int, typer.Option("--clients", "-c", min=1, help="How many clients.")] = 500,
    duration: Annotated[int, typer.Option("--duration", "-d", min=1, help="Simulated seconds.")] = 900,
    seed: Annotated[int, typer.Option("--seed", help="Seed of all that is random.")] = 1,
    flood_locations: Annotated[
        bool, typer.Option("--flood-locations", help="Send every location update to every broker, as the DisGB simulation does.")
    ] = False,
    csv: Annotated[
        Path | None, typer.Option("--csv", help="Also write messages by class, link and strategy to this CSV file.")
    ] = None,
    plots: Annotated[Path | None, typer.Option("--plots", help="Also write plots into this folder.")] = None,
    engine: Engine = "exact",
    master: Master = "local[*]",
    scratch: Annotated[
        Path | None, typer.Option("--scratch", help="Where Spark keeps tables meanwhile; for a cluster, a folder that all share.")
    ] = None,
    json: Json = False,
) -> None:
    """Run a workload under one or more strategies: messages, latencies, table sizes, brokers involved.

    Example: hanse simulate run --topology hybrid --nodes 7 --workload smart-port --clients 200 --strategy advertised,flood-events

    Example: hanse simulate run --engine spark --clients 100000 --flood-locations
    """
    from hanse.routing import STRATEGIES
    from hanse.simulation.run import field_size
    from hanse.simulation.run import run as simulate
    from hanse.simulation.topologies import topology as make_topology
    from hanse.simulation.workloads import workload as make_workload

    on_spark = is_spark(engine)
    names = chosen(strategy, COMPUTED if on_spark else STRATEGIES)
    federation = make_topology(topology, nodes=nodes, seed=seed, clients=clients)
    field_deg = field_size(federation)
    if on_spark:
        results = run_on_spark(
            names,
            federation,
            workload=workload,
            clients=clients,
            duration_s=duration,
            seed=seed,
            field_deg=field_deg,
            flood_locations=flood_locations,
            master=master,
            scratch=scratch,
        )
    else:
        places = {} if workload == "smart-port" else {"field_deg": field_deg}
        work = make_workload(workload, federation, clients=clients, duration_s=duration, seed=seed, **places)
        end_ms = max((action.at_ms for action in work.actions), default=1)
        results = []
        with progress_bar() as bar:
            for name in names:
                results.append(
                    simulate(
                        work, name, flood_locations=flood_locations, field_size_deg=field_deg, progress=follow(bar, name, end_ms)
                    )
                )
    actions = sum(results[0].requests.values())
    if csv is not None:
        write_csv(results, csv)
    written = [csv] if csv is not None else []
    if plots is not None:
        from hanse.simulation.plots import plot_results

        written += plot_results(results, plots, f"{workload} on {topology}, {nodes} brokers, {clients} clients")
    if json:
        about = {
            "topology": topology,
            "nodes": nodes,
            "workload": workload,
            "clients": clients,
            "duration_s": duration,
            "seed": seed,
            "actions": actions,
        }
        print_json({**about, "strategies": {result.strategy: result for result in results}})
        return
    console.print(
        f"[bold]{workload}[/bold] on [bold]{topology}[/bold]: {nodes} brokers, {clients} clients, {duration} s, "
        f"{actions:,} client actions, seed {seed}"
    )
    print_results(results)
    for path in written:
        console.print(f"written: {path}")


def print_results(results: list[Result]) -> None:
    from rich.table import Table

    from hanse.simulation.run import KINDS, by_kind

    table = Table(title="What each strategy costs, for the same deliveries", title_justify="left")
    table.add_column("strategy", no_wrap=True)
    for heading in (
        "messages between brokers",
        "subscriptions",
        "notifications",
        "locations",
        "other",
        "deliveries",
        "latency ms mean (sd)",
        "p95",
        "table size",
        "brokers a publication",
    ):
        table.add_column(heading, justify="right")
    fewest = min((r.between_brokers for r in results), default=0)
    for r in sorted(results, key=lambda r: r.between_brokers):
        groups = by_kind(r.messages)
        mark = "[bold green]" if r.between_brokers == fewest else ""
        latency = f"{r.latency_ms.mean:.1f} ({r.latency_ms.sd:.1f})" if r.latency_ms.mean is not None else "–"
        table.add_row(
            r.strategy,
            f"{mark}{r.between_brokers:,}",
            *(f"{groups[kind]:,}" for kind in KINDS),
            f"{r.deliveries:,}",
            latency,
            f"{r.latency_ms.p95:.0f}" if r.latency_ms.p95 is not None else "–",
            f"{r.table_size.mean or 0:.1f}",
            f"{r.brokers_per_publication.mean or 0:.2f}",
        )
    console.print(table)
    if len(results) > 1:
        best = min(results, key=lambda r: r.between_brokers)
        worst = max(results, key=lambda r: r.between_brokers)
        quick = min((r for r in results if r.latency_ms.mean is not None), key=lambda r: r.latency_ms.mean or 0, default=None)
        saving = worst.between_brokers / max(1, best.between_brokers)
        words = f"[bold]{best.strategy}[/bold] needs the fewest messages, {saving:.1f} times fewer than {worst.strategy}"
        if quick is not None:
            words += f"; [bold]{quick.strategy}[/bold] delivers fastest, in {quick.latency_ms.mean:.1f} ms on average"
        console.print(words + ".")


def write_csv(results: list[Result], path: Path) -> None:
    import csv

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["strategy", "kind", "name", "count"])
            for result in results:
                writer.writerows([result.strategy, "message", name, count] for name, count in result.messages.items())
                writer.writerows([result.strategy, "link", f"{a} → {b}", count] for a, b, count in result.messages_by_link)
                writer.writerow([result.strategy, "delivery", "", result.deliveries])
    except OSError as error:
        raise InvalidInput(f"cannot be written: {error.strerror}", place=str(path)) from error


@app.command()
def replay(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A recorded run of the DisGB authors' simulator.")],
    strategy: Strategy = "all",
    deliveries: Annotated[
        Path | None, typer.Option("--deliveries", help="Write the lists of deliveries into this folder.")
    ] = None,
    engine: Engine = "exact",
    master: Master = "local[*]",
    json: Json = False,
) -> None:
    """Replay a recorded run message by message: counts, deliveries with their ticks, and latencies, to be compared.

    Example: hanse simulate replay runs/1k --strategy all --deliveries out
    """
    from hanse.simulation.replay import AUTHORS_NAMES, read_recording, summary, write_deliveries
    from hanse.simulation.replay import replay as run_replay

    names = {**AUTHORS_NAMES, **{theirs: theirs for theirs in AUTHORS_NAMES.values()}}
    ours = {theirs: name for name, theirs in AUTHORS_NAMES.items()}
    picked = list(AUTHORS_NAMES) if strategy == "all" else [ours.get(name, name) for name in chosen(strategy, names)]
    recording = read_recording(folder)
    end_ms = max((at_ms for at_ms, _, _ in recording.requests), default=1)
    results: dict[str, Any] = {}
    if is_spark(engine):
        if deliveries is not None:
            raise InvalidInput("the spark engine counts deliveries and keeps no list of them", place="--deliveries")
        for result in replay_on_spark(picked, recording, master=master):
            results[AUTHORS_NAMES[result.strategy]] = {"strategy": result.strategy, **summary_of(result)}
        picked = []
    with progress_bar() as bar:
        for name in picked:
            simulator = run_replay(recording, name, follow(bar, name, end_ms))
            results[AUTHORS_NAMES[name]] = {"strategy": name, **summary(simulator)}
            if deliveries is not None:
                write_deliveries(simulator, deliveries)
    if json:
        print_json({"strategies": results})
        return
    print_replay(results, folder)


def print_replay(results: dict[str, Any], folder: Path) -> None:
    """The counts; and where the folder has the authors' own results, whether they are the same."""
    from rich.table import Table

    expected: dict[str, Any] = {}
    if (path := folder / "expected.json").is_file():
        expected = msgspec.json.decode(path.read_bytes()).get("strategies", {})
    table = Table(title=f"Replay of {folder}", title_justify="left")
    table.add_column("strategy", no_wrap=True)
    classes = ["BLocationUpdate", "BSubscriptionUpdate", "BEventMatching", "BEventDelivery", "CEventDelivery"]
    for heading in (*classes, "latency ms mean (sd)", "as the authors'"):
        table.add_column(heading, justify="right")
    for name, result in results.items():
        counts, latency = result["message_counts"], result["event_delivery_latency_ms"]
        theirs = expected.get(name)
        same = "–"
        if theirs is not None:
            their_mean = theirs["event_delivery_latency_ms"]["mean"]
            close = latency["mean"] is not None and abs(latency["mean"] - their_mean) <= 1e-9 * abs(their_mean)
            same = "[green]yes[/green]" if counts == theirs["message_counts"] and close else "[red]no[/red]"
        mean = f"{latency['mean']:.3f} ({latency['sd']:.3f})" if latency["mean"] is not None else "–"
        table.add_row(result["strategy"], *(f"{counts.get(c, 0):,}" for c in classes), mean, same)
    console.print(table)


@app.command()
def faults(
    strategy: Strategy = "all",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many random scenarios for each strategy.")] = 100,
    seed: Annotated[int, typer.Option("--seed", help="The first seed; with --seeds 1 it runs just that one again.")] = 0,
    without: Annotated[
        str,
        typer.Option(
            "--without",
            help="Switch a mechanism off, to see that it is missed: dedup, link-dedup, link-order, retransmit, "
            "export-attributes, policies, guard.",
        ),
    ] = "",
    json: Json = False,
) -> None:
    """Lose, delay, double and reorder messages, cut links, crash brokers; then check the five properties of delivery.

    A violation is cut down to the steps and faults that matter, and printed with its seed.

    Example: hanse simulate faults --seeds 1000 --strategy scoped,advertised
    """
    from concurrent.futures import ProcessPoolExecutor
    from functools import partial
    from os import cpu_count

    from hanse.routing import STRATEGIES
    from hanse.simulation.hunt import ABLATIONS, attempt, shrink

    names = chosen(strategy, STRATEGIES)
    ablations = tuple(name.strip() for name in without.split(",") if name.strip())
    if wrong := next((name for name in ablations if name not in ABLATIONS), None):
        raise InvalidInput(f"{wrong!r} cannot be switched off; take {', '.join(ABLATIONS)}", place="--without")
    outcomes: dict[str, list[Outcome]] = {}
    with progress_bar() as bar, ProcessPoolExecutor(max_workers=cpu_count()) as pool:
        for name in names:
            task = bar.add_task(name, total=seeds)
            outcomes[name] = []
            numbers = range(seed, seed + seeds)
            for outcome in pool.map(
                partial(attempt, strategy=name, ablations=ablations), numbers, chunksize=max(1, min(20, seeds // 8))
            ):
                outcomes[name].append(outcome)
                bar.update(task, advance=1)
    found = []
    for name in names:
        first = next((outcome for outcome in outcomes[name] if outcome.violations), None)
        if first is not None and (story := shrink(first.seed, name, ablations=ablations)) is not None:
            found.append(story)
    if json:
        print_json(
            {
                "seeds": seeds,
                "first_seed": seed,
                "strategies": {name: totals(list_) for name, list_ in outcomes.items()},
                "violations": ["\n".join(story.lines()) for story in found],
            }
        )
    else:
        print_outcomes(outcomes)
        for story in found:
            console.print("\n".join(story.lines()), markup=False, highlight=False, soft_wrap=True)
    if any(outcome.violations for list_ in outcomes.values() for outcome in list_):
        sys.exit(1)


def totals(outcomes: list[Outcome]) -> dict[str, Any]:
    return {
        "runs": len(outcomes),
        "promised": sum(o.promised for o in outcomes),
        "delivered": sum(o.delivered for o in outcomes),
        "messages": sum(o.messages for o in outcomes),
        "crashes": sum(o.crashes for o in outcomes),
        "violations": sum(bool(o.violations) for o in outcomes),
        "first_violation": next(
            (
                {"seed": o.seed, "property": o.violations[0].property, "what": o.violations[0].what}
                for o in outcomes
                if o.violations
            ),
            None,
        ),
    }


def print_outcomes(outcomes: dict[str, list[Outcome]]) -> None:
    from rich.table import Table

    table = Table(title="Runs under faults, checked for the five properties", title_justify="left")
    table.add_column("strategy", no_wrap=True)
    for heading in ("runs", "crashes", "messages", "deliveries promised", "delivered", "runs with a violation"):
        table.add_column(heading, justify="right")
    for name, list_ in outcomes.items():
        t = totals(list_)
        bad = f"[red]{t['violations']}[/red]" if t["violations"] else "[green]none[/green]"
        table.add_row(
            name, f"{t['runs']:,}", f"{t['crashes']:,}", f"{t['messages']:,}", f"{t['promised']:,}", f"{t['delivered']:,}", bad
        )
    console.print(table)
    for name, list_ in outcomes.items():
        first = totals(list_)["first_violation"]
        if first:
            console.print(
                f"[red]{name}[/red]: '{first['property']}' is violated, {first['what']}. "
                f"Again: hanse simulate faults --strategy {name} --seeds 1 --seed {first['seed']}"
            )
