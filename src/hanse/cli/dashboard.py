"""`hanse dashboard`: the page that a person looks at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hanse.model.errors import InvalidInput

app = typer.Typer()


@app.command()
def dashboard(
    urls: Annotated[
        list[str] | None,
        typer.Argument(metavar="[URL]...", help="Nodes; one of a federation is enough.", show_default="http://127.0.0.1:9090"),
    ] = None,
    federation: Annotated[
        Path | None, typer.Option(help="Or: all nodes of the federation that this file describes.", show_default=False)
    ] = None,
    pipeline: Annotated[
        list[str] | None, typer.Option(help="A pipeline's file or folder, repeatable.", show_default=False)
    ] = None,
    lake: Annotated[str, typer.Option(help="A lake's folder.", show_default=False)] = "",
    folder: Annotated[str, typer.Option(help="Where topologies and results that are made here are put.")] = "out/dashboard",
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)] = 8080,
    token: Annotated[
        str, typer.Option(envvar="HANSE_TOKEN", help="Who you are, to nodes that have policies.", show_default=False)
    ] = "",
    tenant: Annotated[str, typer.Option(help="The tenant to look at.", show_default=False)] = "",
    show: Annotated[bool, typer.Option("--open/--no-open", help="Open it in a browser.")] = True,
) -> None:
    """Serve a page on which one can watch a federation live, play with it, and understand it. Ctrl-C ends it.

    Example: hanse dashboard http://127.0.0.1:9101 --pipeline air.toml --lake lake
    """
    try:
        from hanse.dashboard.app import Shown, run
    except ModuleNotFoundError as error:
        if error.name != "nicegui":
            raise
        raise InvalidInput("the dashboard needs nicegui: pip install 'hanse[dashboard]'") from error
    named = tuple(urls or ()) + _described(federation) or ("http://127.0.0.1:9090",)
    for url in named:
        if not url.startswith(("http://", "https://")):
            raise InvalidInput(f"{url!r} is no address of a node; write it as http://127.0.0.1:9090")
    from hanse.model.ports import free_port

    listens = port or free_port(host)
    typer.echo(f"The page is http://{host}:{listens}")
    shown = Shown(named, token, tenant, tuple(pipeline or ()), lake, folder)
    run(shown, host=host, port=listens, is_opened=show)


def _described(file: Path | None) -> tuple[str, ...]:
    if file is None:
        return ()
    from hanse.node.federation.description import read_file

    return tuple(f"http://{node.http}" for node in read_file(file).nodes if node.http)
