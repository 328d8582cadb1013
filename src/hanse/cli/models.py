"""`hanse models`: the data models of entity types. List, add and remove them, say how strict they are, check an entity."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from hanse.cli.get import LOCAL, Context, Tenant, Url

app = typer.Typer(help="Data models: list, show, add, remove, mode, check.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Type = Annotated[str, typer.Argument(metavar="TYPE", help="A type, by its name or its URI.", show_default=False)]
File = Annotated[Path, typer.Argument(help="A JSON Schema, in the form of Smart Data Models.", show_default=False)]
PATH = "/hanse/v1/models"
T = TypeVar("T")


@app.command("list")
def list_models(url: Url = LOCAL, tenant: Tenant = "", as_json: Json = False) -> None:
    """List the models of a node, and what happens to entities that do not fit.

    Example: hanse models list
    """
    from hanse.cli.output import print_json

    found = _ask(url, tenant, "", "GET", PATH)
    if as_json:
        print_json(found)
        return
    if not found:
        typer.echo("no models")
        return
    from rich.table import Table
    from rich.text import Text

    from hanse.cli.output import console

    table = Table(show_edge=False)
    for heading in ("name", "mode", "version", "from", "properties", "title"):
        table.add_column(heading)
    for one in found:
        mode = one["mode"] if one["usable"] else "unusable"
        cells = (one["name"], mode, one["version"], one["origin"] or "here", str(len(one["properties"])), one["title"])
        table.add_row(*map(Text, cells))
    console.print(table)


@app.command()
def show(
    type_: Type,
    resolved: Annotated[bool, typer.Option("--resolved", help="With all that it inherits.")] = False,
    url: Url = LOCAL,
    tenant: Tenant = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Show a model: its properties, and with --json its schema.

    Example: hanse models show Vehicle --resolved
    """
    from rich.table import Table
    from rich.text import Text

    from hanse.cli.output import console, print_json

    found = _ask(url, tenant, context, "GET", _place(type_), params={"resolved": True} if resolved else None)
    if as_json:
        print_json(found)
        return
    typer.echo(f"{found['name']}: {found['title'] or found['type']} ({found['mode']})")
    if found["extends"]:
        typer.echo(f"extends {', '.join(found['extends'])}")
    if not found["usable"]:
        typer.echo("it cannot be used: a model that it extends is not here, or does not go with it")
        return
    table = Table(show_edge=False)
    for heading in ("property", "kind", "changes", "required", "description"):
        table.add_column(heading)
    for one in found["properties"]:
        changes = "dynamic" if one["dynamic"] else "static"
        cells = (one["name"], one["kind"] or "", changes, "yes" if one["required"] else "", one["description"])
        table.add_row(*map(Text, cells))
    console.print(table)


@app.command()
def add(
    file: File,
    mode: Annotated[str, typer.Option(help="Then: off, warn or enforce.", show_default=False)] = "",
    replace: Annotated[bool, typer.Option("--replace", help="In the place of the one that there is.")] = False,
    url: Url = LOCAL,
    tenant: Tenant = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Add a model. What it extends must be there before.

    Example: hanse models add examples/models/building.json --mode enforce
    """
    from urllib.parse import unquote

    from hanse.cli.output import print_json

    document = _read(file)
    name = _type_name(document, file)
    if replace:
        _ask(url, tenant, context, "PUT", _place(name), json=document)
        place = _place(name)
    else:
        place = _ask(url, tenant, context, "POST", PATH, json=document, location=True)
    if mode:
        _ask(url, tenant, context, "PATCH", place, json={"mode": mode})
    if as_json:
        print_json({"added": unquote(place.rpartition("/")[2])})
    else:
        typer.echo(f"added: {name}")


@app.command()
def remove(type_: Type, url: Url = LOCAL, tenant: Tenant = "", context: Context = "", as_json: Json = False) -> None:
    """Remove a model that no other extends.

    Example: hanse models remove Building
    """
    from hanse.cli.output import print_json

    _ask(url, tenant, context, "DELETE", _place(type_))
    if as_json:
        print_json({"removed": type_})
    else:
        typer.echo(f"removed: {type_}")


@app.command()
def mode(
    type_: Type,
    mode: Annotated[str, typer.Argument(help="off, warn, enforce; or default for what the settings say.", show_default=False)],
    url: Url = LOCAL,
    tenant: Tenant = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Say what happens to entities that are not as the model wants it.

    Example: hanse models mode Vehicle enforce
    """
    from hanse.cli.output import print_json

    _ask(url, tenant, context, "PATCH", _place(type_), json={"mode": None if mode == "default" else mode})
    if as_json:
        print_json({"type": type_, "mode": mode})
    else:
        typer.echo(f"{type_}: {mode}")


@app.command()
def check(
    file: File,
    entity: Annotated[Path, typer.Argument(metavar="ENTITY.json", help="An entity, or an array of them.", show_default=False)],
    others: Annotated[
        list[Path] | None, typer.Option("--with", help="A model that it extends, repeatable.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Check an entity against a model, without a node. Exit code 1 if it does not fit.

    Example: hanse models check examples/models/vehicle.json truck.json --with examples/models/asset.json
    """
    from hanse.cli.output import print_json
    from hanse.ngsild.entity import now_text
    from hanse.ngsild.models import parse_model, resolve, violations
    from hanse.ngsild.parsing import parse_entity

    models = []
    for path in (file, *(others or ())):
        document = _read(path)
        context = _context(document, path)
        models.append(_at(path, parse_model, document, context))
    compiled = _at(file, resolve, models[0], {one.type: one for one in models[1:]})
    given = _read(entity, (dict, list))
    broken: dict[str, list[str]] = {}
    for body in given if isinstance(given, list) else [given]:
        context = _context(body if isinstance(body, dict) else {}, entity)
        found = _at(entity, parse_entity, body, context, now_text())
        broken[found.id] = violations(compiled, found, context)
    if as_json:
        print_json({"model": compiled.type, "violations": broken})
    else:
        for id_, words in broken.items():
            typer.echo(f"{id_} fits {compiled.name}" if not words else f"{id_} does not fit {compiled.name}")
            for line in words:
                typer.echo(f"  {line}")
    if any(broken.values()):
        raise typer.Exit(1)


# --- files ------------------------------------------------------------------------------------------------------------


def _read(path: Path, kinds: tuple[type, ...] = (dict,)) -> Any:
    import msgspec

    from hanse.model.errors import InvalidInput

    try:
        found = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise InvalidInput(f"it cannot be read ({error.strerror}); give the path of a JSON file", place=str(path)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"it is not JSON: {error}", place=str(path)) from error
    if not isinstance(found, kinds):
        raise InvalidInput("it is no JSON object", place=str(path))
    return found


def _context(document: dict[str, Any], path: Path) -> Any:
    """The context that a document brings along; it is taken out of it."""
    from hanse.model.errors import InvalidInput
    from hanse.ngsild.contexts import CORE, compile_context, referenced_urls

    own = document.pop("@context", None)
    if own is None:
        return CORE
    if urls := referenced_urls(own):
        raise InvalidInput(f"its @context {min(urls)!r} is not fetched; write out what it defines", place=str(path))
    return _at(path, compile_context, own)


def _at(path: Path, work: Callable[..., T], *given: Any) -> T:
    """What is wrong is told with the file that it is wrong in."""
    from hanse.model.errors import InvalidInput

    try:
        return work(*given)
    except InvalidInput as error:
        raise InvalidInput(error.message, place=str(path)) from error


def _type_name(document: dict[str, Any], path: Path) -> str:
    from hanse.model.errors import InvalidInput
    from hanse.ngsild.model_schemas import SchemaReader

    names = _at(path, SchemaReader, document).type_names
    if not names:
        raise InvalidInput('it does not say for which type it is: "properties": {"type": {"const": "Room"}}', place=str(path))
    return names[0]


# --- the node ---------------------------------------------------------------------------------------------------------


def _place(type_: str) -> str:
    from urllib.parse import quote

    return f"{PATH}/{quote(type_, safe='')}"


def _ask(url: str, tenant: str, context: str, method: str, path: str, *, location: bool = False, **given: Any) -> Any:
    import hanse

    link = f'<{context}>; rel="http://www.w3.org/ns/json-ld#context"; type="application/ld+json"'
    has_own = "@context" in (given.get("json") or {})
    with hanse.connect_sync(url, tenant=tenant) as node:
        reply = node.request(method, path, headers={"Link": link} if context and not has_own else {}, **given)
    return reply.headers["Location"] if location else reply.data
