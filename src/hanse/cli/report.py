"""`hanse report`: what a lake says: promises kept and broken day by day, hot spots, and who met whom."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hanse.pipeline.reports import ProducerDay, Promise

app = typer.Typer(help="Reports on a lake: quality (promised against delivered), hotspots, join.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Folder = Annotated[Path, typer.Option("--lake", help="The folder of the lake.")]
TableName = Annotated[
    str, typer.Option("--table", help="The table that is read: raw if there is one, else qualified.", show_default=False)
]
Since = Annotated[str, typer.Option("--from", help="The first day of observation: 2026-01-31.", show_default=False)]
Until = Annotated[str, typer.Option("--until", help="The last one.", show_default=False)]
Types = Annotated[
    list[str] | None, typer.Option("--type", help="Only entities of this type; may be said several times.", show_default=False)
]
Master = Annotated[str, typer.Option(help="Where Spark runs: local[*], spark://host:7077, ...")]
Rows = Annotated[int, typer.Option(help="At most so many rows.", min=1)]
Context = Annotated[
    str, typer.Option("--context", help="The JSON-LD context that the lake was written with, as text.", show_default=False)
]

LAKE = Path("lake")
LOCAL = "local[*]"
ROWS = 1000
PLACES = 20
Answer = TypeVar("Answer")


@app.command()
def quality(
    lake: Folder = LAKE,
    promises: Annotated[
        Path | None, typer.Option(help="A TOML file of promises; see hanse.pipeline.reports.promises.", show_default=False)
    ] = None,
    node: Annotated[
        str, typer.Option(help="A node whose producers have advertised what they guarantee.", show_default=False)
    ] = "",
    token: Annotated[str, typer.Option(envvar="HANSE_TOKEN", help="A token that the node accepts.", show_default=False)] = "",
    tenant: Annotated[str, typer.Option(help="The node's tenant.", show_default=False)] = "",
    producer: Annotated[str, typer.Option(help="Only this one.", show_default=False)] = "",
    type_: Types = None,
    since: Since = "",
    until: Until = "",
    table: TableName = "",
    context: Context = "",
    master: Master = LOCAL,
    as_json: Json = False,
) -> None:
    """The daily report: what each producer has promised, and what it has delivered.

    Example: hanse report quality --lake lake --node http://127.0.0.1:9090 --from 2026-01-31
    """
    from hanse.cli.output import print_json
    from hanse.pipeline.reports import Days, daily_quality

    days = Days.of(since, until)
    known = _promised(promises, node, token, tenant)

    def made(observed: DataFrame) -> list[ProducerDay]:
        return daily_quality(_of_types(observed, type_), known, days=days, context=context)

    found = [one for one in _asked(lake, table, context, master, made) if not producer or one.producer == producer]
    if as_json:
        print_json(found)
        return
    _table(
        ("day", "producer", "type", "promised", "publications", "kept", "expected", "complete", "every", "longest gap", "broken"),
        (
            (
                one.day,
                one.producer or "-",
                one.type,
                one.promised or "-",
                f"{one.publications:,} of {one.entities:,}",
                _percent(one.met_percent),
                "-" if one.expected is None else f"{one.expected:,.0f}",
                _percent(one.completeness),
                _duration(one.refresh_s),
                _duration(one.longest_gap_s),
                "; ".join(f"{part} by {count:,}" for part, count in one.broken.items()),
            )
            for one in found
        ),
        nothing="nothing was observed in these days",
    )


def _promised(file: Path | None, node: str, token: str, tenant: str) -> list[Promise]:
    from hanse.pipeline.reports import load_promises, promises_of_node

    found = load_promises(file) if file is not None else []
    return [*found, *promises_of_node(node, token, tenant)] if node else found


@app.command()
def hotspots(
    attribute: Annotated[str, typer.Argument(help="Of numbers, by its short name: NO2.", show_default=False)],
    lake: Folder = LAKE,
    place: Annotated[str, typer.Option(help="What a place is: cell 500 (metres), scope, entity.")] = "cell 500",
    by: Annotated[str, typer.Option(help="The percentage of quality that an observation is weighed by.")] = "accuracy",
    unknown: Annotated[float, typer.Option(help="The weight of one that does not state it.", min=0, max=100)] = 0.0,
    percentile: Annotated[
        float | None, typer.Option(help="Rank by this percentile, not by the mean.", show_default=False)
    ] = None,
    near: Annotated[
        float | None,
        typer.Option(help="Metres within which places are neighbours; 1.5 cells, or 1000.", show_default=False),
    ] = None,
    least: Annotated[int, typer.Option(help="Leave out places with fewer observations.", min=1)] = 1,
    type_: Types = None,
    since: Since = "",
    until: Until = "",
    table: TableName = "",
    context: Context = "",
    master: Master = LOCAL,
    rows: Rows = PLACES,
    as_json: Json = False,
) -> None:
    """The places where an attribute is highest; z (Getis-Ord Gi*) of 1.96 or more: it stands out, together with those around it.

    Example: hanse report hotspots NO2 --lake lake --place "cell 500" --percentile 95
    """
    from hanse.cli.output import print_json
    from hanse.pipeline.capsules import Place
    from hanse.pipeline.reports import Days, HotSpot, hot_spots

    days, where = Days.of(since, until), Place.of(place)

    def made(observed: DataFrame) -> list[HotSpot]:
        return hot_spots(
            _of_types(observed, type_).where(days.column()),
            attribute,
            where=where,
            by=by,
            unknown=unknown,
            percentile=percentile,
            near_m=near,
            observations_min=least,
            places_max=rows,
        )

    found = _asked(lake, table, context, master, made)
    if as_json:
        print_json(found)
        return
    _table(
        ("rank", "place", "position", attribute, "observations", by, "z", ""),
        (
            (
                str(one.rank),
                one.place,
                "-" if one.lat is None else f"{one.lat:.5f}, {one.lon:.5f}",
                f"{one.value:,.4g}",
                f"{one.observations:,} of {one.entities:,}",
                _percent(one.quality),
                "-" if one.z is None else f"{one.z:+.2f}",
                "hot" if one.is_hot else "",
            )
            for one in found
        ),
        nothing=f"nothing with a place says {attribute}",
    )


@app.command()
def join(
    one: Annotated[str, typer.Argument(help="TYPE.ATTRIBUTE@NODE; parts may be left out.", show_default=False)],
    other: Annotated[str, typer.Argument(help="What it may meet, written alike.", show_default=False)],
    lake: Folder = LAKE,
    metres: Annotated[float, typer.Option(help="How far away at most.")] = 500.0,
    within: Annotated[str, typer.Option(help="How long before at most.")] = "1 hour",
    good: Annotated[
        str, typer.Option("--quality", help="What is required of the other: accuracy>=medium.", show_default=False)
    ] = "",
    since: Since = "",
    until: Until = "",
    table: TableName = "",
    context: Context = "",
    master: Master = LOCAL,
    rows: Rows = ROWS,
    as_json: Json = False,
) -> None:
    """Join two communities: each observation of one with the newest of the other that is near in time and space.

    Example: hanse report join Bus.location@transport FusedAir.NO2@city --lake lake --metres 300 --within "1 hour"
    """
    from hanse.cli.output import print_json
    from hanse.pipeline.capsules.places import seconds
    from hanse.pipeline.quality import with_quality
    from hanse.pipeline.reports import Days, Side, encounters

    days, mine, theirs, within_s = Days.of(since, until), Side.of(one), Side.of(other, good), seconds(within, "within")

    def made(observed: DataFrame) -> list[dict[str, Any]]:
        from pyspark.sql import functions as f

        judged = with_quality(observed) if good else observed
        met = encounters(judged, mine, theirs, within_m=metres, within_s=within_s).where(days.column())
        for name in ("observed_at", "other_observed_at"):
            met = met.withColumn(name, f.date_format(name, "yyyy-MM-dd'T'HH:mm:ss.SSSSSSX"))
        few = met.orderBy("observed_at", "entity", "attribute").limit(rows + 1).collect()
        return [row.asDict() for row in few]

    found = _asked(lake, table, context, master, made)
    if len(found) > rows:
        typer.echo(f"there are more; --rows {10 * rows} shows up to so many", err=True)
    if as_json:
        print_json(found[:rows])
        return
    _table(
        ("observed", "who", "what", "met", "what", "value", "metres", "before"),
        (
            (
                row["observed_at"],
                row["entity"],
                row["attribute"],
                row["other_entity"],
                row["other_attribute"],
                str(row["other_text"]) if row["other_value"] is None else f"{row['other_value']:,.4g} {row['other_unit'] or ''}",
                f"{row['metres']:,.0f}",
                _duration(row["seconds"]),
            )
            for row in found[:rows]
        ),
        nothing="they have not met",
    )


# --- what they have in common -------------------------------------------------------------------------------------------


def _asked(lake: Path, table: str, context: str, master: str, made: Callable[[DataFrame], list[Answer]]) -> list[Answer]:
    """What is made of the lake's observations; what is wrong in Spark, in words."""
    from hanse.model import InvalidInput
    from hanse.pipeline import words
    from hanse.pipeline.lake import Lake
    from hanse.pipeline.reports import lake_observations

    folder = Lake(lake)
    if not folder.names():
        raise InvalidInput(f"there are no tables in {lake}; name the folder of a lake with --lake")
    with _spark(master) as spark:
        try:
            return made(lake_observations(spark, folder, table, context))
        except InvalidInput:
            raise
        except Exception as error:
            raise InvalidInput(words(error)) from error


@contextmanager
def _spark(master: str) -> Iterator[Any]:
    """A session, which is stopped unless it was there before."""
    from hanse.pipeline import session
    from hanse.pipeline.session import is_running

    is_ours = not is_running()
    spark = session("hanse-report", master)
    try:
        yield spark
    finally:
        if is_ours:
            spark.stop()


def _of_types(observed: DataFrame, types: list[str] | None) -> DataFrame:
    from pyspark.sql import functions as f

    return observed.where(f.col("type").isin(*types)) if types else observed


def _table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]], *, nothing: str) -> None:
    from rich.table import Table
    from rich.text import Text

    from hanse.cli.output import console

    every = list(rows)
    if not every:
        typer.echo(nothing)
        return
    table = Table(*headings, box=None)
    for row in every:
        table.add_row(*map(Text, row))
    console.print(table)


def _percent(value: float | None) -> str:
    """Cut, not rounded: 100 % is all of it."""
    return "-" if value is None else f"{int(value * 10 + 1e-9) / 10:g} %"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
