"""`hanse sub`: follow what changes in a node."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from hanse.cli.get import LOCAL, Context, Tenant, Url

app = typer.Typer()


@app.command()
def sub(
    type_: Annotated[str, typer.Option("--type", "-t", help="Entities of this type.", show_default="all")] = "",
    id_: Annotated[str, typer.Option("--id", help="This entity.", show_default=False)] = "",
    q: Annotated[str, typer.Option("--q", "-q", help="Only while this holds: temperature>20", show_default=False)] = "",
    quality: Annotated[
        str, typer.Option("--quality", help="Only of this quality: precision>=40;freshness<=60", show_default=False)
    ] = "",
    watch: Annotated[str, typer.Option(help="Only when one of these attributes changes.", show_default=False)] = "",
    count: Annotated[int, typer.Option("--count", "-n", help="Stop after so many; 0 goes on.", min=0)] = 0,
    url: Url = LOCAL,
    tenant: Tenant = "",
    context: Context = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print whole notifications, one line each.")] = False,
) -> None:
    """Print notifications as they come, until Ctrl-C.

    Example: hanse sub --type Room --q "temperature>20" --quality "freshness<=60" --count 1
    """
    import hanse

    wish: dict[str, Any] = {"type": type_ or None, "id": id_ or None, "q": q or None, "quality_q": quality or None}
    if watch:
        wish["watched"] = watch.split(",")
    form: Any = "normalized" if as_json else "simplified"
    try:
        with (
            hanse.connect_sync(url, tenant=tenant, context=context) as node,
            node.subscribe(**wish, format=form) as notifications,
        ):
            typer.echo(f"subscribed: {notifications.id}", err=True)
            for number, notification in enumerate(notifications, 1):
                _show(notification, as_json)
                if number == count:
                    return
    except KeyboardInterrupt:
        return


def _show(notification: dict[str, Any], as_json: bool) -> None:
    import msgspec

    lines = [notification] if as_json else notification.get("data", [])
    for line in lines:
        sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
    sys.stdout.flush()
