"""`hanse contract`: whether what a producer guarantees is what a consumer requires, and what is missing if not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hanse.cli.get import LOCAL, Tenant, Url

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hanse.ngsild.contracts import Side
    from hanse.quality import Registry
    from hanse.quality.contracts import Verdict

app = typer.Typer(help="Contracts between producers and consumers: check, producers.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
_SAID = {
    "satisfied": "satisfied: whatever keeps the guarantee meets the requirement",
    "possible": "possible, but not guaranteed",
    "impossible": "impossible",
}


@app.command()
def check(
    guarantee: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="What is guaranteed: a text, or a JSON file of an advertisement or a registration.",
            show_default=False,
        ),
    ],
    requirement: Annotated[
        str, typer.Argument(metavar="B", help="What is required: a text, or a JSON file of a subscription.", show_default=False)
    ],
    criteria: Annotated[
        Path | None, typer.Option(help="A TOML file of criteria that are added to those that there are.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Say whether guarantee A satisfies requirement B, and what is missing, without a node. Exit code 1 if it does not.

    Example: hanse contract check "precision>=60;freshness<=30" "precision>=medium"
    """
    from hanse.cli.output import print_json
    from hanse.ngsild.contracts import guarantee_of, requirement_of, shown_verdict
    from hanse.quality import default_registry, load
    from hanse.quality.contracts import check_contract

    known: Registry = default_registry() if criteria is None else load(criteria)
    given, asked = _side(guarantee), _side(requirement)
    verdict = shown_verdict(check_contract(guarantee_of(given, asked, known), requirement_of(asked, given, known)))
    if as_json:
        print_json(verdict)
    else:
        _print(verdict)
    if not verdict.is_satisfied:
        raise typer.Exit(1)


@app.command()
def producers(
    type_: Annotated[str, typer.Option("--type", help="Of entities; several separated by commas.", show_default=False)] = "",
    quality: Annotated[str, typer.Option(help="What is required: precision>=60;freshness<=30.", show_default=False)] = "",
    file: Annotated[
        Path | None, typer.Option("--subscription", help="A JSON file of a subscription, instead.", show_default=False)
    ] = None,
    url: Url = LOCAL,
    tenant: Tenant = "",
    as_json: Json = False,
) -> None:
    """List the producers that a node knows of and that could satisfy a consumer, and what each of them lacks.

    Example: hanse contract producers --type AirQuality --quality "NO2.precision>=60"
    """
    import hanse
    from hanse.cli.output import print_json

    wanted = None if file is None else _document(file)
    with hanse.connect_sync(url, tenant=tenant) as node:
        found = node.producers(wanted) if wanted is not None else node.producers(type=type_ or None, quality=quality or None)
    if as_json:
        print_json(found)
        return
    if not found:
        typer.echo("no producers")
        return
    _table(
        ("producer", "at", "verdict", "guarantee", "missing"),
        [(one["producer"], one["node"], one["verdict"], one["guarantee"] or "-", "; ".join(one["missing"])) for one in found],
    )


def _print(verdict: Verdict) -> None:
    typer.echo(_SAID[verdict.kind])
    if verdict.terms:
        rows = [(term.indicator, term.required, term.guaranteed or "-", term.kind) for term in verdict.terms]
        _table(("indicator", "required", "guaranteed", "verdict"), rows)
    for words in verdict.missing:
        typer.echo(f"missing: {words}")


def _table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    from rich.table import Table
    from rich.text import Text

    from hanse.cli.output import console

    table = Table(show_edge=False)
    for heading in headings:
        table.add_column(heading)
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def _side(given: str) -> Side:
    """A file if it looks like one: no text on quality ends with .json or is the name of a file that is there."""
    from hanse.ngsild.contexts import CORE, compile_context, referenced_urls
    from hanse.ngsild.contracts import Side

    path = Path(given)
    if not (given.endswith((".json", ".jsonld")) or _is_file(path)):
        return Side(given, CORE)
    document = _document(path)
    own = document.pop("@context", None)
    if own is None:
        return Side(document, CORE)
    from hanse.model.errors import InvalidInput

    if urls := referenced_urls(own):
        raise InvalidInput(f"its @context {min(urls)!r} is not fetched; write out what it defines", place=str(path))
    return Side(document, compile_context(own))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long for a name, or no name at all
        return False


def _document(path: Path) -> dict[str, Any]:
    import msgspec

    from hanse.model.errors import InvalidInput

    try:
        found = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise InvalidInput(f"it cannot be read ({error.strerror}); give the path of a JSON file", place=str(path)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"it is not JSON: {error}", place=str(path)) from error
    if not isinstance(found, dict):
        raise InvalidInput("it is no JSON object", place=str(path))
    return found
