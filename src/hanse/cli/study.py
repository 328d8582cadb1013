"""`hanse study`: the papers' experiments again, with the papers' numbers beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Run a paper's experiments again: paper, ours and the difference, plots and one HTML page.", no_args_is_help=True
)

Out = Annotated[Path, typer.Option("--out", help="Folder for the plots and the page.")]
Json = Annotated[bool, typer.Option("--json", help="Print the results as JSON instead of tables.")]
Quick = Annotated[bool, typer.Option("--quick", help="Smaller sizes, for a first look.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of all that is random.")]


@app.command()
def mudebs(out: Out = Path("out/mudebs"), json: Json = False, quick: Quick = False, seed: Seed = 1) -> None:
    """muDEBS scenarios 1, 2 and 3: subscribe and notification messages with scopes in one to three dimensions.

    Example: hanse study mudebs --out out/mudebs
    """
    from hanse.studies.mudebs import study

    study(out=out, quick=quick, seed=seed).finish(out, json=json)


@app.command()
def disgb(
    out: Out = Path("out/disgb"),
    json: Json = False,
    quick: Quick = False,
    seed: Seed = 1,
    engine: Annotated[
        str,
        typer.Option("--engine", help="exact: the whole study with real brokers. spark: table III with up to 1,000,000 clients."),
    ] = "exact",
    master: Annotated[
        str, typer.Option("--master", help="Where Spark runs: local[*], local[2], spark://host:7077.")
    ] = "local[*]",
    clients_max: Annotated[
        int, typer.Option("--clients-max", min=1, help="With --engine spark: leave out what has more clients than this.")
    ] = 1_000_000,
) -> None:
    """DisGB: analysis table I, experiment figures 5-7, simulation figures 9-12 and table III.

    Example: hanse study disgb --out out/disgb

    Example: hanse study disgb --engine spark --clients-max 100000 --out out/disgb-large
    """
    from hanse.cli.simulate_on_spark import is_spark

    if is_spark(engine):
        from hanse.studies.disgb.large import FULL, QUICK, study_on_spark

        report = study_on_spark(QUICK if quick else FULL, seed=seed, clients_max=clients_max, master=master)
    else:
        from hanse.studies.disgb import study

        report = study(out=out, quick=quick, seed=seed)
    report.finish(out, json=json)


@app.command()
def comdex(out: Out = Path("out/comdex"), json: Json = False, quick: Quick = False, seed: Seed = 1) -> None:
    """ComDeX: latency and advertisements over 1 to 6 nodes, messages of the smart port by topology and granularity.

    Starts nodes as processes of this machine, on free ports of the loopback address.

    Example: hanse study comdex --out out/comdex
    """
    from hanse.studies.comdex import study

    study(out=out, quick=quick, seed=seed).finish(out, json=json)


@app.command()
def income(out: Out = Path("out/income"), json: Json = False, quick: Quick = False, seed: Seed = 1) -> None:
    """INCOME: what filters on quality cost by indicators and by constraints (figures 4 and 5), and sizes (table 1).

    Example: hanse study income --out out/income
    """
    from hanse.studies.income import study

    study(out=out, quick=quick, seed=seed).finish(out, json=json)
