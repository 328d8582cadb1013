"""`hanse get`: one entity of a node, or those that match."""

from __future__ import annotations

from typing import Annotated, Any

import typer

app = typer.Typer()

URL_HELP = "The node."
Url = Annotated[str, typer.Option("--url", "-u", envvar="HANSE_URL", help=URL_HELP)]
Tenant = Annotated[str, typer.Option("--tenant", help="The tenant.", show_default=False)]
Context = Annotated[
    str, typer.Option("--context", help="URL of the JSON-LD context that names are written in.", show_default=False)
]
LOCAL = "http://127.0.0.1:9090"


@app.command()
def get(
    id_: Annotated[str, typer.Argument(metavar="[ID]", help="An entity; without one, all that match.", show_default=False)] = "",
    type_: Annotated[str, typer.Option("--type", "-t", help="Entities of this type.", show_default=False)] = "",
    q: Annotated[str, typer.Option("--q", "-q", help="A condition: temperature>20;humidity<50", show_default=False)] = "",
    quality: Annotated[
        str, typer.Option("--quality", help="What is asked of quality: precision>=40;freshness<=60", show_default=False)
    ] = "",
    pick: Annotated[str, typer.Option(help="Only these members, separated by commas.", show_default=False)] = "",
    limit: Annotated[int, typer.Option(help="At most so many.", min=1)] = 100,
    full: Annotated[bool, typer.Option("--full", help="Attributes with all their members.")] = False,
    url: Url = LOCAL,
    tenant: Tenant = "",
    context: Context = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show an entity, or the entities that match.

    Example: hanse get --type Room --q "temperature>20" --quality "temperature.precision>=medium"
    """
    from itertools import islice

    import hanse
    from hanse.cli.output import print_json

    form: Any = "normalized" if full else "simplified"
    with hanse.connect_sync(url, tenant=tenant, context=context) as node:
        if id_:
            print_json(node.get(id_, pick=pick or None, format=form))
            return
        wish: dict[str, Any] = {"type": type_ or None, "q": q or None, "quality_q": quality or None, "pick": pick or None}
        if not type_ and not q:
            wish["local"] = True  # the specification wants a filter, or that only this node is meant
        found = list(islice(node.query(**wish, format=form, page=min(limit, 1000)), limit))
    if as_json or full:
        print_json(found)
    else:
        _table(found)


def _table(found: list[dict[str, Any]]) -> None:
    import msgspec
    from rich.table import Table
    from rich.text import Text

    from hanse.cli.output import console

    if not found:
        console.print("no entity matches")
        return
    table = Table(show_edge=False)
    columns = list(dict.fromkeys(["id", "type", *(name for entity in found for name in entity)]))
    for name in columns:
        table.add_column(Text(name), no_wrap=name == "id")
    for entity in found:
        values = (entity.get(name, "") for name in columns)
        table.add_row(*(Text(v if isinstance(v, str) else msgspec.json.encode(v).decode()) for v in values))
    console.print(table)
