"""`hanse federation`: certificates, nodes of this machine, links at run time, and the way of one notification."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hanse.cli.federation_asking import API, ask, done, quoted, rule_json, status_of, told_way, urls_of

app = typer.Typer(
    help="Federations: init, up, down, status, show, join, leave, export, isolate, open, trace.",
    no_args_is_help=True,
    add_completion=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Data = Annotated[Path, typer.Option(help="The folder for the data of all nodes.")]
Url = Annotated[str, typer.Argument(metavar="URL", help="A node.", show_default=False)]
Peer = Annotated[str, typer.Argument(metavar="NODE", help="The id of the node at the other end.", show_default=False)]
Export = Annotated[str, typer.Option(help='What may go there, as JSON: \'{"types": ["Room"]}\'.', show_default="everything")]
DATA = Path("out/federation")
VISIBILITY = "/hanse/v1/scopes/visibility"
AGREE_S = 5.0
LOOK_S = 0.1


# --- certificates and processes ---------------------------------------------------------------------------------------


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where certificates and keys are put.", show_default=False)],
    community: Annotated[str, typer.Option(help="The community that vouches for the nodes.", show_default=False)] = "",
    node: Annotated[list[str] | None, typer.Option(help="A node's id, repeatable.", show_default=False)] = None,
    file: Annotated[Path | None, typer.Option(help="Or: for all nodes of this federation.", show_default=False)] = None,
    host: Annotated[
        list[str] | None, typer.Option(help="A host where the nodes are, repeatable.", show_default="this machine")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make certificates: an authority for a community, a certificate and a key for each node, and trust.pem.

    What is there already is left alone. To trust another community, put its .ca.pem into the folder and run it again.

    Example: hanse federation init certificates --community port-authority --node port --node port-a
    """
    from hanse.cli.output import print_json
    from hanse.model import InvalidInput
    from hanse.node.federation.description import DescribedNode, FederationFile, FederationTerms, read_file
    from hanse.node.federation.local import LOCAL_HOSTS, make_certificates

    if (file is None) == (not community):
        raise InvalidInput("give --community and --node, or --file for all nodes of a federation")
    if file is not None:
        described = read_file(file)
    else:
        described = FederationFile(FederationTerms(""), [DescribedNode(id_, community) for id_ in node or ()])
        if not described.nodes:
            raise InvalidInput("name at least one node: --node port")
    try:
        made = make_certificates(described, folder, tuple(host) if host else LOCAL_HOSTS)
    except OSError as error:
        raise InvalidInput(f"cannot be written ({error.strerror}); choose another folder", place=str(folder)) from error
    if as_json:
        trust = str(folder / "trust.pem")
        files = [{"certificate": str(path), "key": str(path.with_suffix(".key")), "trust": trust} for path in made]
        print_json({one.id: paths for one, paths in zip(described.nodes, files, strict=True)})
        return
    for one, path in zip(described.nodes, made, strict=True):
        typer.echo(f"{one.id}: {path} and {path.with_suffix('.key').name}")
    typer.echo(f"trusted by each: {folder / 'trust.pem'}")


@app.command()
def up(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A description of a federation (TOML).", show_default=False)],
    data: Data = DATA,
    seconds: Annotated[float | None, typer.Option(help="Stop after so long.", min=0, show_default="Ctrl-C")] = None,
    secure: Annotated[bool, typer.Option("--secure", help="With certificates, made if there are none, and TLS.")] = False,
    strategy: Annotated[str, typer.Option(help="Another strategy than the file says.", show_default=False)] = "",
    detach: Annotated[bool, typer.Option("--detach", help="Leave the nodes running; `hanse federation down` ends them.")] = False,
    as_json: Json = False,
) -> None:
    """Run all nodes of a federation on this machine, a process each.

    Example: hanse federation up examples/smart-port/federation.toml --seconds 60
    """
    from hanse.cli.federation_words import sent_table, status_table
    from hanse.cli.output import console, print_json, progress_bar
    from hanse.model import InvalidInput
    from hanse.node.federation.local import LocalFederation, running

    if (found := running(data)) is not None and found.pids:
        raise InvalidInput("nodes are running there already; `hanse federation down` ends them", place=str(data))
    federation = LocalFederation(file, data, secure=secure, strategy=strategy)
    with federation:
        with progress_bar() as bar:
            task = bar.add_task("starting nodes", total=len(federation.nodes))
            federation.start(ready=lambda _node: bar.advance(task))
        urls = {node: federation.url(node) for node in federation.nodes}
        rows = status_of(urls)
        if not as_json:
            console.print(status_table(rows))
        if detach:
            federation.leave()
            if as_json:
                print_json(rows)
            else:
                typer.echo(f"running; end it with: hanse federation down --data {data}")
            return
        if not as_json:
            typer.echo("Stop it with Ctrl-C." if seconds is None else f"running for {seconds:g} s")
        _wait(seconds)
        rows = status_of(urls)
    if as_json:
        print_json(rows)
        return
    console.print(sent_table(rows))
    typer.echo(f"stopped; data and logs are in {data}")


def _wait(seconds: float | None) -> None:
    """Until it is time, or someone wants it to end."""
    import signal
    import threading

    ended = threading.Event()
    before = {sign: signal.signal(sign, lambda *_: ended.set()) for sign in (signal.SIGINT, signal.SIGTERM)}
    try:
        ended.wait(seconds)
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


@app.command()
def down(data: Data = DATA, as_json: Json = False) -> None:
    """End the nodes that `up --detach` has left running.

    Example: hanse federation down
    """
    from hanse.cli.output import print_json
    from hanse.model import InvalidInput
    from hanse.node.federation.local import running, stop_running

    if running(data) is None:
        raise InvalidInput("nothing was started there; `hanse federation up FILE --detach` does", place=str(data))
    stopped = stop_running(data)
    if as_json:
        print_json({"stopped": stopped})
    else:
        typer.echo(f"stopped: {', '.join(stopped) or 'nothing was running'}")


# --- looking ----------------------------------------------------------------------------------------------------------


@app.command()
def status(
    url: Annotated[str, typer.Argument(metavar="[URL]", help="A node; without one, those of --data.", show_default=False)] = "",
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """Show the nodes: which answer, what they keep, and what waits on their links.

    Example: hanse federation status http://127.0.0.1:9101
    """
    from hanse.cli.federation_words import status_table
    from hanse.cli.output import console, print_json
    from hanse.model import InvalidInput

    if url:
        urls = urls_of(url)
    else:
        from hanse.node.federation.local import LocalFederation, running

        found = running(data)
        if found is None:
            raise InvalidInput("nothing was started there; give the URL of a node, or --data", place=str(data))
        federation = LocalFederation(Path(found.file), data)
        urls = {node: federation.url(node) for node in federation.nodes}
    rows = status_of(urls)
    if as_json:
        print_json(rows)
        return
    console.print(status_table(rows))
    for row in rows:
        for refused in row["refused"]:
            typer.echo(f"{row['node']} does not believe {refused['node']}: {refused['reason']}")


@app.command()
def show(
    source: Annotated[
        str, typer.Argument(metavar="FILE|URL", help="A description of a federation, or a node.", show_default=False)
    ],
    picture: Annotated[Path | None, typer.Option(help="Also draw it into this file, .svg or .png.", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Show communities, nodes and links, with what may cross each link.

    Example: hanse federation show examples/smart-port/federation.toml --picture port.svg
    """
    from hanse.cli.federation_words import tree
    from hanse.cli.output import console, print_json

    found = _topology(source)
    if picture is not None:
        _draw(found, picture)
    if as_json:
        print_json(found)
        return
    console.print(tree(found))
    if picture is not None:
        typer.echo(f"drawn: {picture}")


def _topology(source: str) -> dict[str, Any]:
    import msgspec

    from hanse.node.federation.description import read_file

    if source.startswith(("http://", "https://")):
        return dict(ask(source, "GET", f"{API}/topology"))
    described = read_file(Path(source))
    return {
        "federation": {"overrides": {}, "strategy": described.federation.strategy, **msgspec.to_builtins(described.federation)},
        "nodes": [
            {
                "id": node.id,
                "community": node.community,
                "location": list(node.location),
                "http": node.http,
                "listen": [node.listen],
            }
            for node in described.nodes
        ],
        "links": [{"between": list(link.between), "export": link.export, "back": link.back} for link in described.links],
    }


def _draw(found: dict[str, Any], picture: Path) -> None:
    from hanse.cli.federation_picture import draw
    from hanse.model import InvalidInput

    file_type = picture.suffix.lower().removeprefix(".")
    if file_type not in ("svg", "png"):
        raise InvalidInput("a picture is an .svg or a .png file; change the ending", place=str(picture))
    content = draw(found, file_type)
    try:
        picture.write_bytes(content)
    except OSError as error:
        raise InvalidInput(f"it cannot be written ({error.strerror}); choose another place", place=str(picture)) from error


# --- steering ---------------------------------------------------------------------------------------------------------


@app.command()
def join(
    url: Url,
    to: Annotated[str, typer.Option(help="Where to call: tls/host:port.", show_default="the other node calls")] = "",
    node: Annotated[str, typer.Option(help="Who must be there.", show_default="whoever is")] = "",
    export: Export = "{}",
    as_json: Json = False,
) -> None:
    """Link a node to another one, at run time. The other end has to want the link as well.

    Example: hanse federation join http://127.0.0.1:9101 --to tcp/127.0.0.1:7104 --node bus --export '{"deny_types": ["Person"]}'
    """
    from hanse.cli.output import print_json

    ask(url, "POST", f"{API}/links", json={"to": to, "node": node, "export": rule_json(export)})
    other, agreed = _agreed(url, to, node)
    if as_json:
        print_json({"node": other or None, "agreed": agreed})
    elif agreed:
        typer.echo(f"linked to {other}")
    else:
        me = ask(url, "GET", API)["node"]
        typer.echo(f"waiting for {other or to}: it has to want the link too: hanse federation join URL --node {me}")


def _agreed(url: str, to: str, node: str) -> tuple[str, bool]:
    """Who is at the other end, and whether both want the link; that may take a moment."""
    import time

    until = time.monotonic() + AGREE_S
    while True:
        known = ask(url, "GET", API)
        other = node or next((one["id"] for one in known["nodes"] if to in one.get("listen", ())), "")
        linked = [link for link in known["links"] if {known["node"], other} == set(link["between"])]
        if linked and linked[0]["agreed"]:
            return other, True
        if time.monotonic() > until:
            return other, False
        time.sleep(LOOK_S)


@app.command()
def leave(url: Url, node: Peer, as_json: Json = False) -> None:
    """Take the link from a node to another one away.

    Example: hanse federation leave http://127.0.0.1:9101 bus
    """
    ask(url, "DELETE", f"{API}/links/{quoted(node)}")
    done(as_json, f"no link to {node} any more", {"left": node})


@app.command()
def export(
    url: Url,
    node: Peer,
    rule: Annotated[str, typer.Argument(help="What may go there, as JSON; {} for everything.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Change what a node lets go to another one. It counts at once.

    Example: hanse federation export http://127.0.0.1:9101 bus '{"deny_types": ["Person"]}'
    """
    from hanse.client.federation_words import rule_words

    given = rule_json(rule)
    ask(url, "PATCH", f"{API}/links/{quoted(node)}", json={"export": given})
    done(as_json, f"to {node}: {rule_words(given)}", {"node": node, "export": given})


Dimension = Annotated[str, typer.Argument(metavar="DIMENSION", help="The name of a dimension.", show_default=False)]
Scope = Annotated[str, typer.Argument(metavar="SCOPE", help="The name of a scope.", show_default=False)]


@app.command()
def isolate(url: Url, dimension: Dimension, scope: Scope, as_json: Json = False) -> None:
    """Let nothing out of a scope and nothing in, for the whole federation; `open` ends it.

    Example: hanse federation isolate http://127.0.0.1:9101 area harbour
    """
    ask(url, "POST", VISIBILITY, json={"dimension": dimension, "scope": scope, "out": "false", "into": "false"})
    done(as_json, f"isolated: {scope}", {"isolated": scope})


@app.command("open")
def open_(url: Url, dimension: Dimension, scope: Scope, as_json: Json = False) -> None:
    """Open the border of a scope again, as far as the federation's characterisation does.

    Example: hanse federation open http://127.0.0.1:9101 area harbour
    """
    ask(url, "DELETE", VISIBILITY, params={"dimension": dimension, "scope": scope})
    done(as_json, f"open as before: {scope}", {"opened": scope})


# --- one notification -------------------------------------------------------------------------------------------------


@app.command()
def trace(
    publisher: Annotated[
        str, typer.Argument(help="Who has published it; urn:hanse:node:ID for entities.", show_default=False)
    ] = "",
    id_: Annotated[str, typer.Argument(metavar="ID", help="The notification.", show_default=False)] = "",
    at: Annotated[str, typer.Option(help="A node of the federation.", show_default=False)] = "",
    last: Annotated[bool, typer.Option("--last", help="The newest one that this node had to do with.")] = False,
    subscription: Annotated[str, typer.Option(help="Say why this subscription got it, or did not.", show_default=False)] = "",
    subscriber_node: Annotated[str, typer.Option(help="The URL of the subscriber's node.", show_default="--at")] = "",
    as_json: Json = False,
) -> None:
    """Tell the way of one notification through nodes, scopes and filters; for a subscription, why it got it or did not.

    Example: hanse federation trace --last --at http://127.0.0.1:9101
    """
    import asyncio

    from hanse.cli.output import print_json
    from hanse.client.federation_words import notification_words, step_words
    from hanse.client.ways import why_words
    from hanse.model import InvalidInput

    if not at:
        raise InvalidInput("say at which node to begin: --at http://127.0.0.1:9101")
    if last == bool(publisher and id_):
        raise InvalidInput("name the notification by PUBLISHER and ID, or take the newest with --last")
    if last:
        newest = ask(at, "GET", f"{API}/traces", params={"limit": 1})
        if not newest:
            raise InvalidInput("this node has had no notification yet", place=at)
        publisher, id_ = newest[0]["publisher"], newest[0]["id"]
    way, why = asyncio.run(told_way(at, publisher, id_, subscription, subscriber_node or at))
    if way is None:
        raise InvalidInput(f"no node knows {id_!r} of {publisher!r}: it never was, or too long ago", place=at)
    if as_json:
        stopped = [link.words for link in way.closed]
        known = {"notification": way.notification, "home": way.home, "steps": way.steps, "stopped": stopped}
        print_json(known | {"silent": list(way.silent), "why": why})
        return
    typer.echo(notification_words(way.notification))
    for line in (*map(step_words, way.steps), *(link.words for link in way.closed)):
        typer.echo(line)
    for node, reason in way.silent.items():
        typer.echo(f"what {node} did is not known: {reason}")
    for line in why_words(why) if why is not None else ():
        typer.echo(line)
