"""`hanse scopes` at a running node: give it scopes, see what it knows, join and leave."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hanse.cli.get import LOCAL, Tenant, Url
from hanse.model.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

PATH: Final = "/hanse/v1/scopes"
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
DIMENSION = Annotated[str, typer.Argument(help="The dimension.", show_default=False)]
SCOPE = Annotated[str, typer.Argument(help="The scope, by its name.", show_default=False)]


def give(
    file: Annotated[Path, typer.Argument(help="A characterisation in TOML.", show_default=False)],
    url: Url = LOCAL,
    tenant: Tenant = "",
    as_json: Json = False,
) -> None:
    """Give a node that is alone a characterisation, in the place of the one that it has.

    Example: hanse scopes give examples/olympic-paris/characterisation.toml
    """
    import msgspec

    import hanse

    try:
        text = file.read_bytes()
    except OSError as error:
        raise InvalidInput(f"it cannot be read ({error.strerror}); give the path of a TOML file", place=str(file)) from error
    with hanse.connect_sync(url, tenant=tenant) as node:
        node.request("PUT", PATH, json=msgspec.Raw(text), headers={"Content-Type": "application/toml"})
        found = node.request("GET", PATH).data
    if as_json:
        from hanse.cli.output import print_json

        print_json(found)
    else:
        number = sum(map(len, found["dimensions"].values()))
        typer.echo(f"given: {number} scopes in {len(found['dimensions'])} dimensions")


def known(url: Url = LOCAL, tenant: Tenant = "", as_json: Json = False) -> None:
    """Show the scopes that a node knows; * marks those that it has joined.

    Example: hanse scopes known
    """
    import hanse
    from hanse.cli.output import console, print_json

    with hanse.connect_sync(url, tenant=tenant) as node:
        found = node.request("GET", PATH).data
    if as_json:
        print_json(found)
        return
    from rich.table import Table
    from rich.text import Text

    joined = {(one["dimension"], one["scope"]) for one in found["joined"]}
    table = Table(show_edge=False)
    table.add_column("dimension")
    table.add_column("scopes")
    for dimension, scopes in found["dimensions"].items():
        marked = ", ".join(f"{scope}{'*' if (dimension, scope) in joined else ''}" for scope in scopes)
        table.add_row(Text(dimension), Text(marked))
    console.print(table if found["dimensions"] else "no scopes; give the node a characterisation: hanse scopes give FILE")


def join(dimension: DIMENSION, scope: SCOPE, url: Url = LOCAL, tenant: Tenant = "", as_json: Json = False) -> None:
    """Join a scope: what is visible in it comes to this node's clients.

    Example: hanse scopes join "geographical area" pa
    """
    _tell("PUT", dimension, scope, url=url, tenant=tenant, as_json=as_json)


def leave(dimension: DIMENSION, scope: SCOPE, url: Url = LOCAL, tenant: Tenant = "", as_json: Json = False) -> None:
    """Leave a scope that was joined.

    Example: hanse scopes leave "geographical area" pa
    """
    _tell("DELETE", dimension, scope, url=url, tenant=tenant, as_json=as_json)


COMMANDS: Final[tuple[Callable[..., None], ...]] = (give, known, join, leave)


def _tell(method: str, dimension: str, scope: str, *, url: str, tenant: str, as_json: bool) -> None:
    import hanse
    from hanse.cli.output import print_json
    from hanse.client.session import segment

    with hanse.connect_sync(url, tenant=tenant) as node:
        node.request(method, f"{PATH}/{segment(dimension)}/{segment(scope)}")
        joined: list[dict[str, Any]] = node.request("GET", PATH).data["joined"]
    if as_json:
        print_json({"joined": joined})
    else:
        typer.echo("joined: " + (", ".join(f"{one['scope']} in {one['dimension']}" for one in joined) or "nothing"))
