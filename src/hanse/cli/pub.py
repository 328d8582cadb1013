"""`hanse pub`: put an entity into a node, made or changed."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from hanse.cli.get import LOCAL, Context, Tenant, Url
from hanse.model.errors import InvalidInput

app = typer.Typer()


@app.command()
def pub(
    id_: Annotated[
        str, typer.Argument(metavar="[ID]", help="The entity; without one, JSON is read from standard input.", show_default=False)
    ] = "",
    attributes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=VALUE]...", help="Attributes; values in JSON, or texts.", show_default=False),
    ] = None,
    type_: Annotated[str, typer.Option("--type", "-t", help="Its type, if it may be new.", show_default=False)] = "",
    url: Url = LOCAL,
    tenant: Tenant = "",
    context: Context = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Make an entity, or change attributes of it. From standard input: one entity, or a list of them.

    Example: hanse pub urn:ngsi-ld:Room:1 --type Room temperature=21.5 name="the hall"
    """
    import hanse
    from hanse.cli.output import print_json

    entities = [entity_of(id_, type_, attributes or [])] if id_ else _from_input(sys.stdin.buffer.read())
    with hanse.connect_sync(url, tenant=tenant, context=context) as node:
        if id_ and not type_:
            node.append(id_, {name: value for name, value in entities[0].items() if name != "id"})
            success, errors = [id_], []
        else:
            result = node.upsert(entities, update=True)
            success, errors = result.success, result.errors
    if as_json:
        print_json({"success": success, "errors": errors})
    else:
        typer.echo(
            f"published: {', '.join(success[:10])}{' ...' if len(success) > 10 else ''}" if success else "nothing published"
        )
    for error in errors:
        problem = error.get("error", {})
        said = problem.get("detail") or problem.get("title") if isinstance(problem, dict) else problem
        typer.echo(f"{error.get('entityId', '?')}: {said}", err=True)
    if errors:
        raise typer.Exit(1)


def entity_of(id_: str, type_: str, attributes: list[str]) -> dict[str, Any]:
    """An entity in the concise form; a value that is no JSON is a text."""
    import msgspec

    entity: dict[str, Any] = {"id": id_} | ({"type": type_} if type_ else {})
    for text in attributes:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise InvalidInput(f"{text!r} is no attribute; write it as NAME=VALUE")
        try:
            parsed = msgspec.json.decode(value)
        except msgspec.DecodeError:
            parsed = value
        is_place = isinstance(parsed, dict) and "coordinates" in parsed
        entity[name] = parsed if is_place or (isinstance(parsed, dict) and "type" in parsed) else {"value": parsed}
    if len(entity) == 1 + bool(type_) and not type_:
        raise InvalidInput("there is nothing to change; give NAME=VALUE, or --type to make an entity")
    return entity


def _from_input(raw: bytes) -> list[dict[str, Any]]:
    import msgspec

    try:
        given = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"it is not JSON: {error}", place="standard input") from error
    entities = given if isinstance(given, list) else [given]
    if not entities or not all(isinstance(entity, dict) and "id" in entity for entity in entities):
        raise InvalidInput("give an entity with an id, or a list of such", place="standard input")
    return entities
