"""The `hanse` command: one module a noun, imported when it is asked for, so that `hanse serve` starts without the studies."""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperGroup

from hanse.client.errors import NgsiLdClientError
from hanse.model.errors import USAGE, InvalidInput, code_of

NOUNS: Final = (
    "serve",
    "config",
    "get",
    "pub",
    "sub",
    "advertise",
    "generate",
    "letters",
    "models",
    "quality",
    "contract",
    "policy",
    "backup",
    "lake",
    "report",
    "simulate",
    "study",
    "bench",
    "scopes",
    "agent",
    "federation",
    "pipeline",
    "dashboard",
    "completion",
    "errors",
)
WELCOME: Final = """\
Hanse: a federation of IoT communities that trade context data on their own terms.

Three things to try:

  1. All of it, live, in a checkout:
       make demo

  2. A node of your own, in three terminals:
       hanse serve
       hanse sub --type Room
       hanse pub urn:ngsi-ld:Room:hall --type Room temperature=21

  3. Which way of routing suits your load, in a simulator:
       hanse simulate run --topology cities --nodes 9 --workload hiking --clients 100

All commands: hanse --help. One of them, with an example: hanse pub --help.
What an error means that ends with a code such as [H0101]: hanse errors H0101.
"""


_OF_TYPER: Final = ("install_completion", "show_completion")  # `hanse completion` does that


class _Nouns(MutableMapping[str, Any]):
    """The commands by name, made when one is taken."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            if name not in NOUNS:
                raise KeyError(name)
            command = typer.main.get_command(import_module(f"hanse.cli.{name}").app)
            command.name = name
            command.params = [one for one in command.params if one.name not in _OF_TYPER]
            self._made[name] = command
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(NOUNS)

    def __len__(self) -> int:
        return len(NOUNS)


class _Group(TyperGroup):
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _Nouns()

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(NOUNS)


app = typer.Typer(
    name="hanse",
    cls=_Group,
    help="A federation of IoT communities that trade context data on their own terms.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.callback()
def _hanse(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(WELCOME, nl=False)


def tell_error(error: Exception) -> None:
    """One line, with the code that `hanse errors` explains."""
    print(f"hanse: {' '.join(str(error).split())} [{code_of(error)}]", file=sys.stderr)


def main() -> None:
    """Run; what the user can mend is one line and exit code 2, what a node refuses one line and exit code 1."""
    try:
        app(prog_name="hanse")
    except InvalidInput as error:
        tell_error(error)
        sys.exit(2)
    except NgsiLdClientError as error:
        tell_error(error)
        sys.exit(1)
    except SystemExit as stop:
        if hasattr(stop.__context__, "format_message"):  # typer has told already what is wrong with the words of the command
            print(f"hanse: this is not how the command is written [{USAGE}]", file=sys.stderr)
        raise
    except BrokenPipeError:
        sys.exit(141)
