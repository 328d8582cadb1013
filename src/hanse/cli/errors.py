"""`hanse errors`: what the code at the end of an error means, how it happens, and what to do."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated, Final

import msgspec
import typer
from msgspec import Struct

from hanse.model.errors import InvalidInput

app = typer.Typer()

GROUPS: Final = {
    "H00": "mistakes of ours",
    "H01": "input that cannot be used",
    "H02": "requests that a node refuses",
    "H03": "someone is away",
}


class Entry(Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    means: str
    happens: str
    do: str


@app.command()
def errors(
    code: Annotated[str, typer.Argument(metavar="[CODE]", help="A code; without one, all are listed.", show_default=False)] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Explain an error by the code at its end: what it means, how it happens, what to do.

    Example: hanse errors H0103
    """
    from hanse.cli.output import print_json

    known = catalogue()
    if not code:
        if as_json:
            print_json(known)
        else:
            _list(known)
        return
    wanted = code.strip("[]").upper()
    if wanted not in known:
        raise InvalidInput(f"there is no code {code[:20]!r}; `hanse errors` lists all of them")
    entry = known[wanted]
    if as_json:
        print_json({"code": wanted, **msgspec.to_builtins(entry)})
        return
    typer.echo(f"{wanted}  {entry.title}\n\n{entry.means}\n\nHow it happens: {entry.happens}\n\nWhat to do: {entry.do}")


def catalogue() -> dict[str, Entry]:
    """All codes in their order."""
    return msgspec.toml.decode(files("hanse.cli").joinpath("errors.toml").read_bytes(), type=dict[str, Entry])


def _list(known: dict[str, Entry]) -> None:
    group = ""
    for code, entry in known.items():
        if code[:3] != group:
            group = code[:3]
            typer.echo(f"{group}xx  {GROUPS[group]}")
        typer.echo(f"  {code}  {entry.title}")
    typer.echo("What one of them means: hanse errors H0103")
