"""`hanse scopes`: check, show and project a characterisation; and the scopes of a running node (`scopes_at_node`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from hanse.cli import scopes_at_node, tell_error
from hanse.model import InvalidInput
from hanse.routing.federation import Federation, Node, both_ways
from hanse.scopes import Characterisation, Dimension, Edge, Projection, ScopeGraph, load, place, project
from hanse.scopes.characterisation import MAX_BROKERS

app = typer.Typer(help="Scopes: who may see what, along several dimensions.", no_args_is_help=True)

FILE = Annotated[Path, typer.Argument(help="A characterisation in TOML.", show_default=False)]
DIMENSION = Annotated[str, typer.Option("--dimension", "-d", help="Only this dimension.", show_default=False)]
PICTURE = Annotated[Path | None, typer.Option(help="Also draw it into this file, .svg or .png.", show_default=False)]
AS_JSON = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

for _command in scopes_at_node.COMMANDS:
    app.command()(_command)

P = ParamSpec("P")


def _told(command: Callable[P, None]) -> Callable[P, None]:
    """Bad input is one line on stderr and exit code 2."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except InvalidInput as error:
            tell_error(error)
            raise typer.Exit(2) from error

    return run


@app.command()
@_told
def check(file: FILE, as_json: AS_JSON = False) -> None:
    """Check a characterisation: its scales, scopes, visibility filters and brokers.

    Example: hanse scopes check examples/olympic-paris/characterisation.toml
    """
    found = load(file)
    remarks = [
        f"dimension {projection.graph.dimension!r}: {remark}"
        for projection in (_projections(found, list(found.dimensions()), None, []) if found.brokers else [])
        for remark in (*projection.violations, *projection.warnings)
    ]
    counts = {
        "viewpoints": len(found.viewpoints),
        "dimensions": len(found.dimensions()),
        "scopes": sum(len(dimension.scopes) for dimension in found.dimensions()),
        "filters": sum(bool(e.out) + bool(e.into) for graph in found.scopes().graphs.values() for e in graph.edges()),
        "brokers": len(found.brokers),
    }
    if as_json:
        _print_json({"file": str(file), "ok": True, **counts, "warnings": remarks})
        return
    typer.echo(f"{file} is well-formed: " + ", ".join(f"{count} {what}" for what, count in counts.items()))
    for remark in remarks:
        typer.echo(f"warning: {remark}")


@app.command()
@_told
def show(file: FILE, dimension: DIMENSION = "", picture: PICTURE = None, as_json: AS_JSON = False) -> None:
    """Show the graphs of scopes, with what may cross each border: ▲ on the way up, ▼ on the way down.

    Example: hanse scopes show examples/olympic-paris/characterisation.toml --picture scopes.svg
    """
    found = load(file)
    scopes = found.scopes()
    chosen = [(entry, scopes.graphs[entry.name]) for entry in _chosen(found, dimension)]
    if picture is not None:
        from hanse.scopes.picture import draw_graphs

        _write(picture, lambda file_type: draw_graphs(chosen, file_type))
    if as_json:
        _print_json([_as_value(found, entry, graph) for entry, graph in chosen])
        return
    console = Console()
    for entry, graph in chosen:
        console.print(_tree(entry, graph))
    _say_written(picture)


@app.command("project")
@_told
def project_command(
    file: FILE,
    dimension: DIMENSION = "",
    topology: Annotated[
        str,
        typer.Option(
            help="Place the scopes onto net16, net52, net100, ring:8, star:5, ... instead of the file's brokers.",
            show_default=False,
        ),
    ] = "",
    extend: Annotated[
        list[str] | None,
        typer.Option(help="Then let a broker join a scope on demand: BROKER=SCOPE, repeatable.", show_default=False),
    ] = None,
    picture: PICTURE = None,
    as_json: AS_JSON = False,
) -> None:
    """Project the scopes onto brokers: the JoinScope calls in order, and what each broker then knows.

    Example: hanse scopes project examples/olympic-paris/characterisation.toml --extend B6=uk --extend B12=uk
    """
    found = load(file)
    overlay = _topology(topology) if topology else None
    if overlay is None and not found.brokers:
        raise InvalidInput("it names no brokers; add [[brokers]] and links, or give --topology net16", place=str(file))
    projections = _projections(found, _chosen(found, dimension), overlay, extend or [])
    if picture is not None:
        from hanse.scopes.picture import draw_projections

        _write(picture, lambda file_type: draw_projections(projections, file_type))
    if as_json:
        _print_json([_projection_value(projection) for projection in projections])
        return
    for projection in projections:
        _print_projection(projection)
    _say_written(picture)


def _chosen(found: Characterisation, dimension: str) -> list[Dimension]:
    return [found.dimension(dimension)] if dimension else list(found.dimensions())


def _topology(name: str) -> Federation:
    from hanse.simulation.topologies import topology

    kind, _, nodes = ("transit-stub", "", name[3:]) if name.startswith("net") else name.partition(":")
    if not (nodes.isascii() and nodes.isdigit() and len(nodes) <= 9):
        raise InvalidInput(f"{name!r} is no topology; write net16, net52, net100, or a kind and a number of nodes such as ring:8")
    if int(nodes) > MAX_BROKERS:
        raise InvalidInput(f"{name!r} has more than {MAX_BROKERS} brokers; take fewer")
    return topology(kind, nodes=int(nodes))


def _projections(
    found: Characterisation, dimensions: list[Dimension], overlay: Federation | None, extend: list[str]
) -> list[Projection]:
    scopes = found.scopes()
    net = overlay or Federation(tuple(Node(broker.name) for broker in found.brokers), both_ways(list(found.links)))
    graphs = [scopes.graphs[entry.name] for entry in dimensions]
    projections = {
        graph.dimension: project(graph, net, place(graph, net) if overlay else found.placements(graph.dimension))
        for graph in graphs
    }
    for wish in extend:
        broker, sign, scope = wish.partition("=")
        owners = [graph.dimension for graph in graphs if scope in graph]
        if not sign or len(owners) != 1:
            why = (
                f"scope {scope!r} is in {len(owners)} of the dimensions shown; choose with --dimension"
                if sign
                else "write BROKER=SCOPE"
            )
            raise InvalidInput(why, place=f"--extend {wish}")
        projections[owners[0]] = projections[owners[0]].extend(broker, scope)
    return list(projections.values())


def _marks(edge: Edge | None) -> str:
    given = [f"▲ {edge.out}" if edge.out else "", f"▼ {edge.into}" if edge.into else ""] if edge else []
    return "  ".join(mark for mark in given if mark)


def _tree(dimension: Dimension, graph: ScopeGraph) -> Tree:
    top = Tree(Text.assemble((dimension.name, "bold"), (f"  {' > '.join(dimension.scales)}", "dim")))
    scales = {entry.name: entry.scale for entry in dimension.scopes}
    titles = {entry.name: entry.title for entry in dimension.scopes}
    shown: set[str] = set()
    waiting: list[tuple[Tree, str, str]] = [(top, root, "") for root in reversed(graph.roots())]
    while waiting:
        parent, scope, super_ = waiting.pop()
        again = scope in shown  # a scope with several parents is spread out below the first of them only
        title = f"  {titles[scope]}" if titles[scope] else ""
        more = "  (see above)" if again and graph.children(scope) else ""
        label = Text.assemble((scope, "bold cyan"), title, (f"  {scales[scope]}{more}", "dim"))
        if marks := _marks(graph.edge(scope, super_)):
            label.append(f"  {marks}", "yellow")
        branch = parent.add(label)
        if not again:
            shown.add(scope)
            waiting += [(branch, child, scope) for child in reversed(graph.children(scope))]
    return top


def _print_projection(projection: Projection) -> None:
    console = Console()
    table = Table(title=projection.graph.dimension, title_justify="left", title_style="bold")
    table.add_column("broker")
    table.add_column("knows")
    for broker, scopes in projection.knows.items():
        table.add_row(Text(broker), Text(", ".join(scopes) or "-"))
    console.print(table)
    for i, call in enumerate(projection.calls, start=1):
        console.print(Text(f"{i:3}. {call}{'  (extends the area)' if call.extends else ''}"))
    if projection.unplaced:
        console.print(Text(f"known to no broker: {', '.join(projection.unplaced)}"))
    for remark in (*projection.violations, *projection.warnings):
        console.print(Text(f"warning: {remark}", style="yellow"))
    console.print()


def _as_value(found: Characterisation, dimension: Dimension, graph: ScopeGraph) -> dict[str, Any]:
    viewpoint = next(view.name for view in found.viewpoints if dimension in view.dimensions)
    return {
        "viewpoint": viewpoint,
        "dimension": dimension.name,
        "scales": dimension.scales,
        "scopes": [{"name": e.name, "title": e.title, "scale": e.scale, "level": graph.level(e.name)} for e in dimension.scopes],
        "edges": [{"sub": e.sub, "super": e.super_, "out": e.out, "into": e.into} for e in graph.edges()],
    }


def _projection_value(projection: Projection) -> dict[str, Any]:
    return {
        "dimension": projection.graph.dimension,
        "calls": projection.calls,
        "knows": projection.knows,
        "areas": dict(projection.areas),
        "unplaced": projection.unplaced,
        "violations": projection.violations,
        "warnings": projection.warnings,
    }


def _print_json(value: Any) -> None:
    typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def _write(picture: Path, draw: Callable[[str], bytes]) -> None:
    file_type = picture.suffix.lower().removeprefix(".")
    if file_type not in ("svg", "png"):
        raise InvalidInput("a picture is an .svg or a .png file; change the ending", place=str(picture))
    content = draw(file_type)
    try:
        picture.write_bytes(content)
    except OSError as error:
        raise InvalidInput(f"it cannot be written ({error.strerror}); choose another place", place=str(picture)) from error


def _say_written(picture: Path | None) -> None:
    if picture is not None:
        typer.echo(f"drawn: {picture}")
