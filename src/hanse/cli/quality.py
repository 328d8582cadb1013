"""`hanse quality`: the criteria of quality, what their numbers mean, and whether a file of one's own can be used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from hanse.quality import Criterion, Definition, Registry

app = typer.Typer(help="Quality of context: criteria, check.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@app.command()
def criteria(
    name: Annotated[str, typer.Argument(help="Explain this one.", show_default=False)] = "",
    file: Annotated[
        Path | None, typer.Option(help="A TOML file of criteria that are added to those that there are.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """List the criteria of quality, or explain one: what its numbers mean, which are better, its levels and its URIs.

    Example: hanse quality criteria precision
    """
    from hanse.cli.output import print_json
    from hanse.quality import default_registry, load

    registry = default_registry() if file is None else load(file)
    if name:
        one = registry.criterion(name)
        if as_json:
            print_json(_as_json(one))
        else:
            _explain(one)
        return
    if as_json:
        print_json([_as_json(one) for one in registry.by_name.values()])
        return
    _list(registry)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="Criteria in TOML.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Check a file of criteria, and say what it adds and replaces. Exit code 2 if it cannot be used.

    Example: hanse quality check criteria.toml
    """
    from hanse.cli.output import print_json
    from hanse.quality import default_registry, load

    before = default_registry().by_name
    after = load(file).by_name
    added = [name for name in after if name not in before]
    replaced = [name for name in before if after[name] != before[name]]
    if as_json:
        print_json({"added": added, "replaced": replaced, "criteria": list(after)})
        return
    typer.echo(f"{file}: it can be used, and there are {len(after)} criteria with it")
    for word, names in (("added", added), ("replaced", replaced)):
        if names:
            typer.echo(f"{word}: {', '.join(names)}")


def _list(registry: Registry) -> None:
    from rich.table import Table
    from rich.text import Text

    from hanse.cli.output import console

    table = Table(show_edge=False)
    for heading in ("criterion", "unit", "better", "medium", "high", "what it says"):
        table.add_column(heading)
    for one in registry.by_name.values():
        definition = one.definition
        cells = (one.name, definition.unit, definition.direction, *_levels(definition), one.description)
        table.add_row(*map(Text, cells))
    console.print(table)


def _levels(definition: Definition) -> tuple[str, str]:
    if definition.levels is None:
        return "", ""
    sign = "≥" if definition.direction == "higher" else "≤"
    return f"{sign} {definition.levels.medium:g}", f"{sign} {definition.levels.high:g}"


def _explain(criterion: Criterion) -> None:
    typer.echo(f"{criterion.name}: {criterion.description}")
    if criterion.rule:
        typer.echo(f"  computed as the {criterion.rule} of {_parts(criterion)}")
    for definition in criterion.definitions:
        medium, high = _levels(definition)
        typer.echo(f"  {definition.id}  {definition.name or 'definition'}: {definition.description}".rstrip(": "))
        typer.echo(f"    a number {definition.range_words}; {definition.direction} is better")
        if medium:
            typer.echo(f"    medium {medium}, high {high}")
        for word, text in (("unitCode", definition.unit_code), ("provider", definition.provider)):
            if text:
                typer.echo(f"    {word} {text}")
        for word, texts in (("keywords", definition.keywords), ("related", definition.related)):
            if texts:
                typer.echo(f"    {word} {', '.join(texts)}")
    typer.echo(f"  in XML: indicator {criterion.id}, criterion {criterion.criterion_id}")
    typer.echo(f"  in NGSI-LD: {criterion.name}")
    for uri in criterion.uris:
        typer.echo(f"    or {uri}")


def _parts(criterion: Criterion) -> str:
    if not criterion.weights:
        return ", ".join(criterion.parts)
    return ", ".join(f"{part} ({weight:g})" for part, weight in zip(criterion.parts, criterion.weights, strict=True))


def _as_json(criterion: Criterion) -> dict[str, Any]:
    import msgspec

    found: dict[str, Any] = msgspec.to_builtins(criterion)
    return found | {"criterion_id": criterion.criterion_id, "indicator_name": criterion.indicator_name}
