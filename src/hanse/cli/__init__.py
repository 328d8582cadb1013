"""The `hanse` command: one module a noun."""

from __future__ import annotations

import sys

import typer

from hanse.cli import scopes, simulate, study
from hanse.model import InvalidInput

app = typer.Typer(
    name="hanse",
    help="A federation of IoT communities that trade context data on their own terms.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.add_typer(simulate.app, name="simulate")
app.add_typer(study.app, name="study")
app.add_typer(scopes.app, name="scopes")


def main() -> None:
    """Run; what the user can mend is one line and exit code 2."""
    try:
        app()
    except InvalidInput as error:
        print(f"hanse: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(141)
