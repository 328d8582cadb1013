"""`hanse pipeline`: run pipelines on Spark, and see how they do from any terminal."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

import typer

from hanse.model.errors import InvalidInput

if TYPE_CHECKING:
    from rich.table import Table

    from hanse.pipeline.state import QueryState, State

app = typer.Typer(help="Pipelines on Spark: check, run, list, status, stop.", no_args_is_help=True)

STOP_S: Final = 120.0
LOOK_S: Final = 0.2
REFRESH_S: Final = 1.0
DEPTH: Final = 3  # of the folders that `list` looks into

What = Annotated[str, typer.Argument(help="The pipeline's file, or its folder.", show_default=False)]
File = Annotated[Path, typer.Argument(help="A TOML file, or a Python file that defines `pipeline`.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@app.command()
def run(
    file: File,
    master: Annotated[
        str,
        typer.Option(help="Where Spark runs: local[*], spark://host:7077, sc://host:15002, yarn, k8s://…", show_default=False),
    ] = "",
    once: Annotated[bool, typer.Option("--once", help="Do all that is there, then end.")] = False,
    seconds: Annotated[float | None, typer.Option(help="End after so many seconds.", show_default=False)] = None,
    table_format: Annotated[
        str,
        typer.Option(
            "--format",
            help="The format of the lake's tables, whatever the file says: parquet, delta, iceberg.",
            show_default=False,
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Run a pipeline, from where it was stopped; Ctrl-C, or `hanse pipeline stop`, ends it. Exit code 1 if a stream has failed.

    Example: hanse pipeline run air.toml --master local[2]
    """
    from hanse.cli.output import print_json
    from hanse.pipeline.plan import load
    from hanse.pipeline.runner import run as run_pipeline
    from hanse.pipeline.state import FAILED

    pipeline = load(file)
    if table_format:
        pipeline = pipeline.with_format(table_format)
    with _Telling(is_quiet=as_json) as telling:
        state = run_pipeline(pipeline, file=str(file), master=master, is_once=once, seconds=seconds, told=telling.told)
    if as_json:
        print_json(state)
    elif not telling.is_live:
        _print(state)
    if state.status == FAILED:
        raise typer.Exit(1)


@app.command()
def check(file: File, as_json: Json = False) -> None:
    """Read a pipeline's file and say what it would do, without Spark. Exit code 2 if it cannot be used.

    Example: hanse pipeline check air.toml
    """
    from hanse.cli.output import print_json
    from hanse.pipeline.plan import load

    pipeline = load(file)
    capsules = [
        {
            "name": one.name,
            "category": one.transform.category,
            "types": list(one.input.types),
            "attributes": list(one.input.attributes),
            "requires": one.input.quality,
            "output": one.output,
            "guarantees": one.promise,
        }
        for one in pipeline.capsules
    ]
    tables = list(pipeline.lake.tables) if pipeline.lake is not None else []
    if as_json:
        collectors = [one.name for one in pipeline.collectors]
        shown = {"name": pipeline.name, "folder": pipeline.folder, "collectors": collectors, "capsules": capsules, "lake": tables}
        print_json(shown)
        return
    typer.echo(f"{file}: it can be run; its folder is {pipeline.folder}")
    for one in capsules:
        reads = f"{', '.join(one['types']) or 'all types'} ({', '.join(one['attributes']) or 'all attributes'})"
        good = f", at least {one['guarantees']}" if one["guarantees"] else ""
        typer.echo(f"  {one['name']}: {one['category']} of {reads} to {one['output']}{good}")
    for collector in pipeline.collectors:
        typer.echo(f"  {collector.name}: collects {collector.path} by {collector.mapping}")
    if pipeline.lake is not None:
        typer.echo(f"  lake {pipeline.lake.folder}: {', '.join(tables)}")


@app.command("list")
def list_(
    directory: Annotated[Path, typer.Argument(help="Where to look for the folders of pipelines.")] = Path(),
    as_json: Json = False,
) -> None:
    """List the pipelines that run, or have run, from files in a directory and beneath it.

    Example: hanse pipeline list
    """
    from hanse.cli.output import console, print_json
    from hanse.pipeline.state import FILE, read

    patterns = ("/".join(["*"] * depth + [FILE]) for depth in range(DEPTH + 1))
    folders = sorted(
        {found.parent for pattern in patterns for found in directory.glob(pattern) if (found.parent / "lock").exists()}
    )
    states = [(folder, read(folder)) for folder in folders]
    if as_json:
        print_json(
            [
                {"name": state.name, "status": state.status, "folder": str(folder), "pid": state.pid, "started": state.started}
                for folder, state in states
            ]
        )
        return
    if not states:
        typer.echo(f"no pipeline has run in {directory.resolve()}")
        return
    table = _table("pipeline", "status", "streams", "since", "folder")
    for folder, state in states:
        table.add_row(*_texts(state.name, state.status, str(len(state.queries)), state.started, str(folder)))
    console.print(table)


@app.command()
def status(
    what: What,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again every second, until Ctrl-C.")] = False,
    as_json: Json = False,
) -> None:
    """How a pipeline does: rates, lag, watermarks, what was set aside, the last errors. Exit code 1 if it failed or was killed.

    Example: hanse pipeline status air.toml --watch
    """
    from rich.live import Live

    from hanse.cli.output import console, print_json
    from hanse.pipeline.plan import folder_of
    from hanse.pipeline.state import FAILED, KILLED, read

    folder = folder_of(what)
    state = read(folder)
    if as_json:
        print_json(state)
    elif watch:
        with Live(_shown(state), console=console, auto_refresh=False) as live:
            try:
                while True:
                    live.update(_shown(read(folder)), refresh=True)
                    time.sleep(REFRESH_S)
            except KeyboardInterrupt:
                return
    else:
        _print(state)
    if state.status in (FAILED, KILLED):
        raise typer.Exit(1)


@app.command()
def stop(what: What, as_json: Json = False) -> None:
    """Stop a pipeline that runs, and wait until it has ended; it goes on from there when it is run again.

    Example: hanse pipeline stop air.toml
    """
    from hanse.cli.output import print_json
    from hanse.pipeline.plan import folder_of
    from hanse.pipeline.state import RUNNING, is_held, read

    folder = folder_of(what)
    state = read(folder)
    if state.status != RUNNING:
        raise InvalidInput(f"{state.name} does not run; it is {state.status}")
    os.kill(state.pid, signal.SIGTERM)
    until = time.monotonic() + STOP_S
    while is_held(folder):
        if time.monotonic() > until:
            raise InvalidInput(f"{state.name} (process {state.pid}) has not ended within {STOP_S:g} s")
        time.sleep(LOOK_S)
    state = read(folder)
    if as_json:
        print_json({"name": state.name, "status": state.status})
    else:
        typer.echo(f"{state.name} is {state.status}")


# --- showing it ---------------------------------------------------------------------------------------------------------


class _Telling:
    """A live table where a person watches; elsewhere a line on standard error for each thing that goes wrong."""

    def __init__(self, *, is_quiet: bool) -> None:
        self.is_live = sys.stdout.isatty() and not is_quiet
        self._live: Any = None
        self._said: set[str] = set()

    def __enter__(self) -> Self:
        if self.is_live:
            from rich.live import Live

            from hanse.cli.output import console

            self._live = Live("Spark is starting …", console=console, auto_refresh=False)
            self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def told(self, state: State) -> None:
        if self._live is not None:
            self._live.update(_shown(state), refresh=True)
            return
        errors = [f"{one.name}: {one.error} (failed {one.restarts + 1} times)" for one in state.queries if one.error]
        for line in (*state.warnings, *errors):
            if line not in self._said:
                self._said.add(line)
                typer.echo(f"hanse: {line}", err=True)


def _print(state: State) -> None:
    from hanse.cli.output import console

    console.print(_shown(state))


def _shown(state: State) -> Any:
    from rich.console import Group
    from rich.text import Text

    head = Text(f"{state.name} is {state.status} since {state.started} at {state.master} (process {state.pid})")
    table = _table("stream", "status", "batch", "rows", "rows/s", "batch s", "lag", "watermark", "made", "set aside", "late")
    for one in state.queries:
        table.add_row(*_texts(*_cells(one)))
    lines = [Text(f"warning: {warning}") for warning in state.warnings]
    lines += [Text(f"{one.name}: {one.error}") for one in state.queries if one.error]
    if state.error and not any(one.error for one in state.queries):
        lines.append(Text(state.error))
    for one in state.queries:
        lines += [Text(f"{one.name}: {number} {what}") for number, what in _oddities(one) if number]
    return Group(head, table, *lines)


def _oddities(one: QueryState) -> tuple[tuple[int, str], ...]:
    return (
        (one.unplaced, "observations have no place, and were set aside"),
        (one.ahead, "observations are of the future, and were set aside"),
        (one.wrong, "observations are of the wrong type, and were set aside"),
        (one.duplicates, "observations were said before, and were set aside"),
    )


def _cells(one: QueryState) -> tuple[str, ...]:
    is_capsule = one.name.startswith(("capsule-", "lake-derived"))
    return (
        one.name,
        one.status,
        str(one.batch) if one.batch >= 0 else "",
        f"{one.rows:,}",
        f"{one.rows_per_s:,.0f}",
        f"{one.batch_s:.1f}",
        "" if one.lag is None else f"{one.lag:,}",
        one.watermark or "",
        f"{one.made:,}" if is_capsule else "",
        f"{one.below:,}" if is_capsule else "",
        f"{one.late:,}" if is_capsule else "",
    )


def _table(*headings: str) -> Table:
    from rich.table import Table

    table = Table(show_edge=False)
    for heading in headings:
        table.add_column(heading)
    return table


def _texts(*cells: str) -> list[Any]:
    from rich.text import Text

    return [Text(cell) for cell in cells]
