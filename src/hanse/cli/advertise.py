"""`hanse advertise`: say at a node what a producer offers, and of which quality; list what is offered there, and take it back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hanse.cli.get import LOCAL, Tenant, Url
from hanse.client.errors import NgsiLdClientError
from hanse.model.errors import InvalidInput

if TYPE_CHECKING:
    from hanse.client import SyncNodeClient

app = typer.Typer(help="Say what a producer offers, and of which quality: list, remove.", subcommand_metavar="[list|remove]")

CLIENTS: Final = "/hanse/v1/clients"
SECONDS_MAX: Final = 10 * 365 * 24 * 3600
DEFAULT_CLIENT: Final = "cli"
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Producer = Annotated[str, typer.Option("--client", "-c", help="The producer, as the node knows it; it is attached if it is new.")]


@app.callback(invoke_without_command=True)
def advertise(
    context: typer.Context,
    types: Annotated[
        list[str] | None, typer.Option("--type", "-t", help="Entities of this type; repeatable.", show_default=False)
    ] = None,
    topics: Annotated[
        list[str] | None, typer.Option("--topic", help="Notifications on this topic; repeatable.", show_default=False)
    ] = None,
    id_: Annotated[str, typer.Option("--id", help="Of the types: only this entity.", show_default=False)] = "",
    guarantee: Annotated[
        str, typer.Option("--guarantee", "-g", help="The quality that is kept: precision>=40", show_default=False)
    ] = "",
    q: Annotated[str, typer.Option("--q", "-q", help="Only what fulfils this: temperature>20", show_default=False)] = "",
    scopes: Annotated[
        list[str] | None,
        typer.Option("--scope", metavar="DIMENSION=SCOPE", help="Where it is visible; repeatable.", show_default=False),
    ] = None,
    seconds: Annotated[int, typer.Option(help="How long it holds; 0 is until it is removed.", min=0, max=SECONDS_MAX)] = 0,
    name: Annotated[str, typer.Option(help="The advertisement's own name.", show_default="after types and topics")] = "",
    client: Producer = DEFAULT_CLIENT,
    url: Url = LOCAL,
    tenant: Tenant = "",
    as_json: Json = False,
) -> None:
    """Advertise: consumers find the producer by it, and what is below its guarantee is refused.

    Example: hanse advertise --type Room --guarantee "precision>=40"
    """
    if context.invoked_subcommand is not None:
        return
    import hanse
    from hanse.cli.output import print_json
    from hanse.client.session import segment

    selectors: list[dict[str, str]] = [{"type": type_} | ({"id": id_} if id_ else {}) for type_ in types or []]
    selectors += [{"topic": topic} for topic in topics or []]
    if not selectors:
        raise InvalidInput("say what is offered: --type Room, or --topic storm")
    if id_ and not types:
        raise InvalidInput("an entity is offered with its type: add --type")
    body: dict[str, Any] = {"selectors": selectors, "q": q, "quality": guarantee, "scopes": dict(map(_scope, scopes or []))}
    if seconds:
        body["expires_at_ms"] = int((time.time() + seconds) * 1000)
    id_of_it = name or "-".join([*(types or []), *(topics or [])])
    with hanse.connect_sync(url, tenant=tenant) as node:
        _attach(node, client)
        path = f"{CLIENTS}/{segment(client)}/advertisements/{segment(id_of_it)}"
        node.request("PUT", path, json=body)
        kept = node.request("GET", path).data
    if as_json:
        print_json({"client": client, "name": id_of_it, **kept})
    else:
        typer.echo(f"advertised: {id_of_it} by {client}" + (f", which keeps {guarantee}" if guarantee else ""))


@app.command("list")
def list_(
    client: Annotated[str, typer.Option("--client", "-c", help="Only of this producer.", show_default="all")] = "",
    url: Url = LOCAL,
    tenant: Tenant = "",
    as_json: Json = False,
) -> None:
    """List what producers at a node offer, and how often one of them was below its own guarantee.

    Example: hanse advertise list
    """
    import hanse
    from hanse.cli.output import print_json
    from hanse.client.session import segment

    with hanse.connect_sync(url, tenant=tenant) as node:
        names = [client] if client else [one["client"] for one in node.request("GET", CLIENTS).data]
        found = [
            {"client": one, "name": name, **kept}
            for one in names
            for name, kept in node.request("GET", f"{CLIENTS}/{segment(one)}").data["advertisements"].items()
        ]
    if as_json:
        print_json(found)
    else:
        _table(found)


@app.command()
def remove(
    name: Annotated[str, typer.Argument(help="The advertisement's name, as `list` shows it.", show_default=False)],
    client: Producer = DEFAULT_CLIENT,
    url: Url = LOCAL,
    tenant: Tenant = "",
    as_json: Json = False,
) -> None:
    """Take an advertisement back.

    Example: hanse advertise remove Room
    """
    import hanse
    from hanse.cli.output import print_json
    from hanse.client.session import segment

    path = f"{CLIENTS}/{segment(client)}/advertisements/{segment(name)}"
    with hanse.connect_sync(url, tenant=tenant) as node:
        node.request("GET", path)  # who takes back what is not there has mistyped it
        node.request("DELETE", path)
    if as_json:
        print_json({"removed": name, "client": client})
    else:
        typer.echo(f"removed: {name} by {client}")


def _attach(node: SyncNodeClient, client: str) -> None:
    """Only if it is new: a client that is there keeps its place and its endpoint."""
    from hanse.client.session import segment

    try:
        node.request("GET", f"{CLIENTS}/{segment(client)}")
    except NgsiLdClientError as error:
        if error.status != 404:
            raise
        node.request("PUT", f"{CLIENTS}/{segment(client)}", json={})


def _scope(text: str) -> tuple[str, str]:
    dimension, sign, scope = text.partition("=")
    if not sign or not dimension or not scope:
        raise InvalidInput(f"{text!r} is no scope; write it as DIMENSION=SCOPE")
    return dimension, scope


def _table(found: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    from hanse.cli.output import console

    if not found:
        console.print("nothing is advertised")
        return
    table = Table(show_edge=False)
    for heading in ("name", "client", "offers", "guarantee", "below it"):
        table.add_column(heading)
    for one in found:
        offers = ", ".join(filter(None, map(_offer, one["selectors"])))
        row = (one["name"], one["client"], offers, one.get("quality") or "-", str(one.get("below_guarantee", 0)))
        table.add_row(*map(Text, row))
    console.print(table)


def _offer(selector: dict[str, Any]) -> str:
    """A selector in words: its type or topic, and the entity if it is one only."""
    what = selector.get("type") or (f"topic {selector['topic']}" if selector.get("topic") else "")
    which = selector.get("id") or selector.get("id_pattern") or ""
    return f"{what} {which}".strip()
