"""`hanse serve`: one community's node, in one process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from hanse.node.settings import NodeSettings

app = typer.Typer()


@app.command()
def serve(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="A configuration; `hanse config` prints one.", show_default=False)
    ] = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[int | None, typer.Option(help="The port for HTTP; 0 takes a free one.", show_default="9090")] = None,
    data: Annotated[Path | None, typer.Option(help="The folder for everything that is kept.", show_default="memory only")] = None,
    contexts: Annotated[
        Path | None,
        typer.Option(
            help="JSON-LD contexts from files: a JSON object, URL to file, relative to itself.",
            metavar="MAP.json",
            show_default=False,
        ),
    ] = None,
    mqtt_port: Annotated[int | None, typer.Option(help="The port of the embedded MQTT broker.", show_default="1884")] = None,
    mqtt: Annotated[bool, typer.Option("--mqtt/--no-mqtt", help="MQTT for devices.")] = True,
    seconds: Annotated[float | None, typer.Option(help="Stop after so long.", min=0, show_default=False)] = None,
) -> None:
    """Run a node: an NGSI-LD broker with a store of its own, MQTT for devices, and a native API.

    Example: hanse serve --port 9090 --data ./data
    """
    from hanse.node.settings import load

    given: dict[str, dict[str, Any]] = {"node": {}, "store": {}, "contexts": {}, "mqtt": {}}
    if host is not None:
        given["node"]["host"] = host
    if port is not None:
        given["node"]["port"] = port
    if data is not None:
        given["store"]["data"] = str(data)
    if contexts is not None:
        given["contexts"] = _context_map(contexts)
    if mqtt_port is not None:
        given["mqtt"]["port"] = mqtt_port
    if not mqtt:
        given["mqtt"] |= {"embedded": False, "url": ""}
    run(load(config, os.environ, given), seconds)


def _context_map(path: Path) -> dict[str, Any]:
    import msgspec

    from hanse.model.errors import InvalidInput
    from hanse.node.settings import located

    try:
        found = msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except OSError as error:
        raise InvalidInput(f"it cannot be read ({error.strerror})", place=str(path)) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidInput(f"it is no JSON object of URLs and files: {error}", place=str(path)) from error
    return located(found, path.parent, str(path))


def run(settings: NodeSettings, seconds: float | None = None) -> None:
    """Serve until SIGTERM or SIGINT, or for so many seconds. Raises InvalidInput if it cannot start."""
    import asyncio

    import msgspec
    import uvloop

    from hanse.node.logs import set_up
    from hanse.node.server import listen, serve_until_told

    set_up(settings.log)
    with listen(settings.node.host, settings.node.port) as listener:
        node = msgspec.structs.replace(settings.node, port=listener.getsockname()[1])
        settings = msgspec.structs.replace(settings, node=node)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve_until_told(settings, listener, seconds, lambda mqtt_port: _welcome(settings, mqtt_port)))


def _welcome(settings: NodeSettings, mqtt_port: int) -> None:
    node, mqtt = settings.node, settings.mqtt
    host = f"[{node.host}]" if ":" in node.host else node.host
    url = node.public_url or f"http://{host}:{node.port}"
    lines = [
        f"Hanse node {node.id!r} is ready.",
        f"  NGSI-LD     {url}/ngsi-ld/v1",
        f"  native API  {url}/hanse/v1",
        f"  live page   {url}/",
        f"  all routes  {url}/docs",
        f"  health      {url}/readyz, {url}/metrics",
    ]
    if mqtt.url or mqtt.embedded:
        scheme = "mqtts" if mqtt.certificate else "mqtt"
        lines.append(f"  MQTT        {mqtt.url or f'{scheme}://{mqtt.host}:{mqtt_port}'}")
    lines.append(f"  data        {settings.store.data or 'in memory: gone when the node stops (--data DIR keeps it)'}")
    typer.echo("\n".join([*lines, "Stop it with Ctrl-C."]))
