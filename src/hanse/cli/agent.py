"""`hanse agent`: platforms that do not speak NGSI-LD, as data of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hanse.cli.get import LOCAL, Context, Tenant

if TYPE_CHECKING:
    from hanse.agents import Agent, Counters

app = typer.Typer(
    help="Bring a platform that does not speak NGSI-LD to a node: timetables, MQTT devices.",
    no_args_is_help=True,
    add_completion=False,
)

Node = Annotated[str, typer.Option("--node", "-n", envvar="HANSE_URL", help="The node that the data go to.")]
Json = Annotated[bool, typer.Option("--json", help="Print the last line as JSON for programs.")]
ONCE_S = 10.0  # how long a node may be away in a run that is to end


@app.command()
def gtfs(
    feed: Annotated[str, typer.Argument(help="A GTFS feed: a zip file, a folder, or a URL.", show_default=False)],
    node: Node = LOCAL,
    realtime: Annotated[str, typer.Option(help="Its GTFS-Realtime feed: a URL or a file.", show_default=False)] = "",
    every: Annotated[float, typer.Option(help="Seconds between two looks at it.", min=0.1)] = 10.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    name: Annotated[str, typer.Option(help="A name for the feed, part of all ids.", show_default="that of the file")] = "",
    stop_times: Annotated[bool, typer.Option("--stop-times", help="Write stop times too; there are many.")] = False,
    tenant: Tenant = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Stops, routes, trips, vehicles, arrivals and alerts of public transport, as Smart Data Models entities.

    Example: hanse agent gtfs examples/agents/intercity-bus --node http://127.0.0.1:9090 --realtime vehicles.pb --once
    """
    from hanse.agents.gtfs_agent import GtfsAgent

    agent = GtfsAgent(feed, realtime, name=name, every_s=every, once=once, stop_times=stop_times)
    _run("gtfs", agent, node, tenant, context, once=once or not realtime, as_json=as_json)


@app.command()
def mqtt(
    mapping: Annotated[str, typer.Argument(help="The mapping file: topics and payloads as entities.", show_default=False)],
    node: Node = LOCAL,
    broker: Annotated[str, typer.Option(help="The MQTT broker; mqtts://user:password@host for TLS.")] = "mqtt://127.0.0.1:1883",
    tenant: Tenant = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Devices that publish JSON by MQTT, until Ctrl-C; changes of their commands at the node are published back to them.

    Example: hanse agent mqtt examples/agents/devices.toml --node http://127.0.0.1:9090 --broker mqtt://127.0.0.1:1883
    """
    from hanse.agents.mqtt_json import MqttAgent
    from hanse.agents.mqtt_mapping import load_mapping

    _run("mqtt", MqttAgent(load_mapping(mapping), broker), node, tenant, context, once=False, as_json=as_json)


def _run(name: str, agent: Agent, node: str, tenant: str, context: str, *, once: bool, as_json: bool) -> None:
    import asyncio

    from hanse.agents import PlatformAway
    from hanse.cli import tell_error
    from hanse.cli.output import print_json

    try:
        counters = asyncio.run(_live(agent, node, tenant, context, once=once))
    except PlatformAway as error:
        tell_error(error)
        raise typer.Exit(1) from error
    if as_json:
        print_json(counters)
    else:
        typer.echo(f"{name}: {summary(counters)}")


async def _live(agent: Agent, url: str, tenant: str, context: str, *, once: bool) -> Counters:
    import asyncio
    import math
    import signal

    from rich.console import Console

    import hanse

    err = Console(stderr=True, highlight=False)
    agent.on_note = lambda text: err.print(text, markup=False, soft_wrap=True)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, agent.stop)

    async def show() -> None:
        with err.status("starting") as status:
            while True:
                await asyncio.sleep(0.5)
                status.update(summary(agent.counters))

    showing = asyncio.create_task(show()) if err.is_terminal else None
    try:
        async with hanse.connect(url, tenant=tenant, context=context) as node:
            return await agent.run(node, once=once, patience_s=ONCE_S if once else math.inf)
    finally:
        if showing is not None:
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)


def summary(counters: Counters) -> str:
    """What happened, in one line; what is usual is always there, the rest when there is something to say."""
    text = f"{counters.received} received, {counters.written} entities written, {counters.unchanged} unchanged"
    for name in ("deleted", "published", "refused", "lost", "retries"):
        if number := getattr(counters, name):
            text += f", {number} {name}"
    return text
