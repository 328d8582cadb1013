"""`hanse generate`: the smart buildings and devices of the ComDeX evaluation, as a file, or alive at a node."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hanse.cli.get import Tenant
from hanse.model.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hanse.cli.generate_playing import Played
    from hanse.simulation.smart_port import Port

app = typer.Typer()

SECONDS_MAX: Final = 24 * 3600
SPEED_MAX: Final = 1_000.0
MESSAGES_MAX: Final = 1_000_000  # all that devices will say is made before the first is sent
STDOUT: Final = "-"
FORMS: Final = ("lines", "array")


@app.command()
def generate(
    out: Annotated[
        str, typer.Option("--out", "-o", help="The file; - is standard output.", show_default="-, and none with --play")
    ] = "",
    form: Annotated[str, typer.Option("--format", help="lines (an entity each), or array (one JSON array).")] = "lines",
    scale: Annotated[float, typer.Option(help="How large: 1 is the paper's, 15,000 entities with 1,700 devices.")] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same, to the letter.")] = 1,
    at: Annotated[
        str, typer.Option("--at", help="Only what this node of the port has: port-a, port-b, fire ...", show_default=False)
    ] = "",
    play: Annotated[
        str,
        typer.Option(
            metavar="URL", help="Send all of it to a node (http://...) or an MQTT broker (mqtt://...).", show_default=False
        ),
    ] = "",
    seconds: Annotated[float, typer.Option(help="With --play: how long devices go on measuring.")] = 10.0,
    speed: Annotated[float, typer.Option(help="With --play: so many times as often as a real device.")] = 1.0,
    area: Annotated[str, typer.Option(help="With mqtt://: the first level of the topics, which is the node's id.")] = "hanse",
    tenant: Tenant = "",
    as_json: Annotated[bool, typer.Option("--json", help="Say what was made and sent as JSON.")] = False,
) -> None:
    """Make buildings, floors, rooms, windows, doors and devices as NGSI-LD entities; with --play, let the devices measure.

    Example: hanse generate --scale 0.01 --play http://127.0.0.1:9090 --seconds 10
    """
    from hanse.simulation.smart_port import smart_port

    if form not in FORMS:
        raise InvalidInput(f"--format is {' or '.join(FORMS)}, not {form!r}")
    if play:
        _check_time(seconds, speed)
    port = smart_port(seed=seed, scale=scale)
    if at:
        port = _only_at(port, at)
    target = out or ("" if play else STDOUT)
    if target:
        _write(port, target, form)
    summary = _summary(port, seed, scale)
    if play:
        played = _play(port, play, seconds=seconds, speed=speed, seed=seed, area=area, tenant=tenant)
        summary["played"] = played
        _print(summary, as_json, err=target == STDOUT, played=played)
        if played.refused:
            raise typer.Exit(1)
        return
    _print(summary, as_json, err=target == STDOUT)


def _check_time(seconds: float, speed: float) -> None:
    if not 0 < seconds <= SECONDS_MAX:
        raise InvalidInput(f"--seconds is more than 0, and at most {SECONDS_MAX:,}, not {seconds:g}")
    if not 0 < speed <= SPEED_MAX:
        raise InvalidInput(f"--speed is more than 0, and at most {SPEED_MAX:g}, not {speed:g}")


def _only_at(port: Port, node: str) -> Port:
    from hanse.simulation.smart_port import COMMUNITIES, Port

    known = [name for nodes in COMMUNITIES.values() for name in nodes]
    if node not in known:
        raise InvalidInput(f"the port has no node {node!r}; it has {', '.join(known)}")
    return Port([made for made in port.entities if made.node == node], [one for one in port.devices if one.node == node])


def _write(port: Port, target: str, form: str) -> None:
    if target == STDOUT:
        for part in _text(port, form):
            sys.stdout.write(part)
        sys.stdout.flush()
        return
    try:
        with Path(target).open("w", encoding="utf-8") as file:
            file.writelines(_text(port, form))
    except OSError as error:
        raise InvalidInput(f"it cannot be written ({error.strerror}); choose another place", place=target) from error


def _text(port: Port, form: str) -> Iterator[str]:
    import msgspec

    if form == "lines":
        yield from (msgspec.json.encode(made.entity).decode() + "\n" for made in port.entities)
        return
    before = "[\n"
    for made in port.entities:
        yield before + msgspec.json.encode(made.entity).decode()
        before = ",\n"
    yield "\n]\n" if port.entities else "[]\n"


def _summary(port: Port, seed: int, scale: float) -> dict[str, Any]:
    kinds = {device.kind.name: device.kind for device in port.devices}
    counts = Counter(device.kind.name for device in port.devices)
    return {
        "seed": seed,
        "scale": scale,
        "entities": len(port.entities),
        "types": Counter(made.entity["type"] for made in port.entities),
        "devices": [
            {"kind": name, "number": counts[name], "message_bytes": kind.message_bytes, "period_s": kind.period_s}
            for name, kind in sorted(kinds.items())
        ],
        "messages_per_s": round(sum(1 / device.kind.period_s for device in port.devices), 2),
    }


def _play(port: Port, url: str, *, seconds: float, speed: float, seed: int, area: str, tenant: str) -> Played:
    import asyncio

    from hanse.cli.generate_playing import play

    expected = sum(seconds * speed / device.kind.period_s for device in port.devices)
    if expected > MESSAGES_MAX:
        raise InvalidInput(
            f"that would be about {expected:,.0f} messages, and {MESSAGES_MAX:,} are allowed; "
            "take fewer --seconds, less --speed or a smaller --scale"
        )
    messages = port.messages(seconds * speed, seed)
    return asyncio.run(play(port.entities, messages, url, seconds=seconds, speed=speed, area=area, tenant=tenant))


def _print(summary: dict[str, Any], as_json: bool, *, err: bool, played: Played | None = None) -> None:
    """Beside the entities, if these go to standard output."""
    import msgspec

    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(summary), indent=2).decode(), err=err)
        return
    types = ", ".join(f"{count} {type_}" for type_, count in summary["types"].items())
    typer.echo(f"{summary['entities']} entities: {types}; {summary['messages_per_s']:g} messages a second", err=err)
    if played is not None:
        typer.echo(str(played), err=err)
