"""`hanse lake`: the tables that the pipeline keeps: what is in them, questions in SQL, fewer and larger files, and letting go."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hanse.pipeline.lake_files import Changed

app = typer.Typer(help="The lake of the pipeline: tables, sql, compact, expire.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Folder = Annotated[Path, typer.Option("--lake", help="The folder of the lake.")]
Tables = Annotated[
    list[str] | None, typer.Option("--table", help="Only this one; may be said several times.", show_default=False)
]
Grace = Annotated[
    float, typer.Option("--grace", help="Minutes that files which do not count any more stay for those who read them.", min=0)
]

LAKE = Path("lake")
GRACE_MIN = 60.0
ROWS = 1000


@app.command()
def tables(lake: Folder = LAKE, as_json: Json = False) -> None:
    """List the tables of a lake: files, records, days and types.

    Example: hanse lake tables --lake lake
    """
    from hanse.cli.output import print_json
    from hanse.pipeline.lake import Lake

    found = Lake(lake).summaries()
    if as_json:
        print_json(found)
        return
    if not found:
        typer.echo(f"{lake}: no tables yet")
    for one in found:
        days = f"{one['from']} to {one['until']}" if one["from"] else "no days"
        typer.echo(
            f"{one['table']}: {one['records']:,} records of {days} in {one['files']} files ({one['small']} small), "
            f"{one['bytes'] / 2**20:,.1f} MiB; {', '.join(one['types']) or 'no types'}"
        )


@app.command()
def sql(
    statement: Annotated[str, typer.Argument(help="Spark SQL; each table is a view, `attributes` in it is VARIANT.")],
    lake: Folder = LAKE,
    columns: Annotated[
        str, typer.Option(help="Typed columns of the open part: 'no2 double, name string'.", show_default=False)
    ] = "",
    master: Annotated[str, typer.Option(help="Where Spark runs: local[*], spark://host:7077, ...")] = "local[*]",
    rows: Annotated[int, typer.Option(help="Print at most so many rows.", min=1)] = ROWS,
    as_json: Json = False,
) -> None:
    """Ask the lake in SQL.

    Example: hanse lake sql "SELECT type, count(*) FROM raw GROUP BY type" --lake lake
    """
    from hanse.model import InvalidInput
    from hanse.pipeline import session, words
    from hanse.pipeline.lake import Lake
    from hanse.pipeline.session import is_running

    folder = Lake(lake)
    folder.names()  # so that a wrong folder is told before Spark starts
    is_ours = not is_running()
    spark = session("hanse-lake", master)
    try:
        folder.views(spark, columns)
        _answer(spark.sql(statement), rows, as_json=as_json)
    except InvalidInput:
        raise
    except Exception as error:
        raise InvalidInput(words(error)) from error
    finally:
        if is_ours:
            spark.stop()


def _answer(frame: DataFrame, rows: int, *, as_json: bool) -> None:
    from pyspark.sql import functions as f

    from hanse.cli.output import console, print_json

    names = frame.columns
    if not names:  # a statement that gives nothing
        return
    few = frame.limit(rows + 1)
    if as_json:
        found = few.select(f.to_json(f.struct("*"), {"ignoreNullFields": "false"})).collect()
        print_json([msgspec.Raw(row[0].encode()) for row in found[:rows]])
    else:
        from rich.table import Table
        from rich.text import Text

        found = few.collect()
        table = Table(box=None)
        for name in names:
            table.add_column(Text(name))
        for row in found[:rows]:
            table.add_row(*(Text("" if value is None else str(value)) for value in row))  # as it is: no markup, no emoji
        console.print(table)
    if len(found) > rows:
        typer.echo(f"there are more; --rows {10 * rows} shows up to so many", err=True)


@app.command()
def compact(
    lake: Folder = LAKE,
    table: Tables = None,
    small: Annotated[float, typer.Option(help="Files below so many MiB are put together.", min=0)] = 64.0,
    grace: Grace = GRACE_MIN,
    as_json: Json = False,
) -> None:
    """Put small files together. Readers and writers go on meanwhile; a compaction that is killed leaves the table as it was.

    Example: hanse lake compact --lake lake
    """
    from hanse.pipeline.lake import Lake

    _tell(Lake(lake).compact(table or (), small_bytes=int(small * 2**20), grace_s=grace * 60), as_json=as_json)


@app.command()
def expire(
    keep_days: Annotated[int, typer.Option(help="Let go of days that are longer ago than so many.", min=0, show_default=False)],
    lake: Folder = LAKE,
    table: Tables = None,
    grace: Grace = GRACE_MIN,
    as_json: Json = False,
) -> None:
    """Let go of old days.

    Example: hanse lake expire --keep-days 90 --lake lake
    """
    from hanse.pipeline.lake import Lake

    _tell(Lake(lake).expire(keep_days, table or (), grace_s=grace * 60), as_json=as_json)


def _tell(changed: dict[str, Changed], *, as_json: bool) -> None:
    from hanse.cli.output import print_json

    if as_json:
        told: Any = msgspec.to_builtins(changed)
        print_json(told)
        return
    for name, one in changed.items():
        typer.echo(f"{name}: {one.files_before} files before, {one.files_after} now; {one.deleted} old ones deleted")
