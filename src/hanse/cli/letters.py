"""`hanse letters`: notifications that could not be delivered. List them, look into one, send them again."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hanse.cli.get import LOCAL, Tenant, Url

app = typer.Typer(help="Dead letters: list, show, resend, drop.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Ids = Annotated[list[int] | None, typer.Argument(help="Their numbers; none with --all.", show_default=False)]
All = Annotated[bool, typer.Option("--all", help="All of them.")]
PATH = "/hanse/v1/dead-letters"


@app.command("list")
def list_letters(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 100,
    url: Url = LOCAL,
    tenant: Tenant = "",
    as_json: Json = False,
) -> None:
    """List dead letters, oldest first.

    Example: hanse letters list
    """
    import hanse
    from hanse.cli.output import console, print_json

    with hanse.connect_sync(url, tenant=tenant) as node:
        found = node.request("GET", PATH, params={"limit": limit}).data
    if as_json:
        print_json(found)
        return
    if not found:
        console.print("no dead letters")
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(show_edge=False)
    for heading in ("number", "died", "subscription", "endpoint", "attempts", "reason"):
        table.add_column(heading)
    for letter in found:
        cells = (letter[name] for name in ("id", "diedAt", "subscriptionId", "endpoint", "attempts", "reason"))
        table.add_row(*(Text(str(cell)) for cell in cells))
    console.print(table)


@app.command()
def show(
    number: Annotated[int, typer.Argument(help="Its number.", show_default=False)],
    url: Url = LOCAL,
    tenant: Tenant = "",
    as_json: Json = False,  # noqa: ARG001
) -> None:
    """Show a dead letter with what it would have said.

    Example: hanse letters show 17
    """
    import hanse
    from hanse.cli.output import print_json

    with hanse.connect_sync(url, tenant=tenant) as node:
        print_json(node.request("GET", f"{PATH}/{number}").data)


@app.command()
def resend(numbers: Ids = None, everything: All = False, url: Url = LOCAL, tenant: Tenant = "", as_json: Json = False) -> None:
    """Send dead letters again, as if they were new.

    Example: hanse letters resend 17 18
    """
    _each("POST", "/resend", "resent", numbers, everything, url, tenant, as_json)


@app.command()
def drop(numbers: Ids = None, everything: All = False, url: Url = LOCAL, tenant: Tenant = "", as_json: Json = False) -> None:
    """Throw dead letters away.

    Example: hanse letters drop 17
    """
    _each("DELETE", "", "dropped", numbers, everything, url, tenant, as_json)


def _each(
    method: str, what: str, done: str, numbers: list[int] | None, everything: bool, url: str, tenant: str, as_json: bool
) -> None:
    import hanse
    from hanse.cli.output import print_json
    from hanse.model.errors import InvalidInput

    if bool(numbers) == everything:
        raise InvalidInput("give the numbers of letters, or --all")
    with hanse.connect_sync(url, tenant=tenant) as node:
        chosen = list(numbers or [])
        if everything:
            chosen = _all_numbers(node)
        for number in chosen:
            node.request(method, f"{PATH}/{number}{what}")
    if as_json:
        print_json({done: chosen})
    else:
        typer.echo(f"{done}: {len(chosen)}")


def _all_numbers(node: Any) -> list[int]:
    found: list[int] = []
    while page := node.request("GET", PATH, params={"limit": 1000, "after": found[-1] if found else 0}).data:
        found += [letter["id"] for letter in page]
    return found
