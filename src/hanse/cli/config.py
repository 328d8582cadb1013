"""`hanse config`: print the commented default configuration, and check one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Print the commented default configuration, or check one.")


@app.callback(invoke_without_command=True)
def print_default(context: typer.Context) -> None:
    """Print every setting with its default, as a file to begin with.

    Example: hanse config > hanse.toml
    """
    from hanse.node.settings import default_toml

    if context.invoked_subcommand is None:
        typer.echo(default_toml(), nl=False)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="A configuration in TOML.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print all settings that hold, as JSON.")] = False,
) -> None:
    """Check a configuration, together with what the environment says.

    Example: hanse config check hanse.toml
    """
    import msgspec

    from hanse.cli.output import print_json
    from hanse.node.settings import NodeSettings, load

    settings = load(file, os.environ)
    values, defaults = msgspec.to_builtins(settings), msgspec.to_builtins(NodeSettings())
    if as_json:
        values["mqtt"]["password"] = "…" if settings.mqtt.password else ""
        print_json(values)
        return
    changed = [
        f"{section}.{key}" for section in values for key in values[section] if values[section][key] != defaults[section].get(key)
    ]
    typer.echo(f"{file} is well-formed; it changes {', '.join(changed) if changed else 'nothing'}")
